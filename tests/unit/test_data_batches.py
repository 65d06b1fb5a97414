"""Batches, scaling and placing."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from snnkit import data


def numbered(n):
    return torch.arange(n, dtype=torch.uint8).reshape(n, 1, 1, 1), torch.arange(n)


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 70), st.booleans(), st.booleans())
def test_every_sample_once_with_its_label(n, batch_size, shuffle, drop_last):
    images, labels = numbered(n)
    got = list(data.batches(images, labels, batch_size, shuffle=shuffle, drop_last=drop_last))
    assert all(torch.equal(x.flatten().long(), y) for x, y in got)
    seen = [int(i) for _, y in got for i in y]
    expected = n - n % batch_size if drop_last else n
    assert len(seen) == len(set(seen)) == expected
    assert all(len(y) == batch_size for _, y in got[:-1])
    if not shuffle:
        assert seen == list(range(expected))


def test_the_generator_decides_the_order():
    def order(seed):
        generator = torch.Generator().manual_seed(seed)
        return [int(i) for _, y in data.batches(*numbered(50), 8, generator=generator) for i in y]

    assert order(1) == order(1) != order(2)
    assert order(1) != sorted(order(1))


def test_to_unit():
    unit = data.to_unit(torch.arange(256, dtype=torch.uint8))
    assert unit.dtype == torch.float32 and unit[0] == 0 and unit[-1] == 1
    assert torch.equal((unit * 255).round().to(torch.uint8), torch.arange(256, dtype=torch.uint8))
    with pytest.raises(TypeError, match="uint8"):
        data.to_unit(unit)


def test_to_device_keeps_dtypes_and_makes_one_block():
    images = torch.zeros(6, 8, 1, 8, dtype=torch.uint8).transpose(1, 2)
    x, y = data.to_device(images, torch.zeros(6).long(), "cpu")
    assert x.dtype == torch.uint8 and y.dtype == torch.int64 and x.is_contiguous()


def test_resolve_device():
    assert data.resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert data.resolve_device(torch.device("cpu")) == torch.device("cpu")
    for bad in ("gpu", "", 3.5):
        with pytest.raises(ValueError, match="device must be"):
            data.resolve_device(bad)
    with pytest.raises(ValueError, match="device is 'meta'"):
        data.resolve_device("meta")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without CUDA")
def test_cuda_where_there_is_none():
    with pytest.raises(ValueError, match="no CUDA device"):
        data.resolve_device("cuda")
