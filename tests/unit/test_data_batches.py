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


def test_shift_moves_by_whole_pixels_and_takes_every_one_of_them():
    x = torch.zeros(2000, 2, 7, 9)
    x[:, :, 3, 4] = 1.0
    before, torch_state = x.clone(), torch.get_rng_state()
    out = data.augment.Shift(2, generator=torch.Generator().manual_seed(1))(x)
    assert torch.equal(x, before) and torch.equal(torch.get_rng_state(), torch_state)
    places = out.flatten(2).argmax(2)
    assert torch.equal(places[:, 0], places[:, 1]) and torch.equal(out.sum((2, 3)), torch.ones(2000, 2))
    rows, columns = places[:, 0] // 9 - 3, places[:, 0] % 9 - 4
    drawn = set(zip(rows.tolist(), columns.tolist(), strict=True))
    assert drawn == {(r, c) for r in range(-2, 3) for c in range(-2, 3)}


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: data.augment.Shift(-1), ValueError, "pixels must be at least 0"),
        (lambda: data.augment.Shift(generator=3), TypeError, "generator must be a torch.Generator or None"),
        (lambda: data.augment.Shift()(torch.zeros(2, 3, 3)), ValueError, r"images for Shift must be floating-point"),
        (lambda: data.augment.Shift()([1]), TypeError, "images for Shift must be"),
    ],
)
def test_what_no_shift_can_be_made_of(call, error, words):
    with pytest.raises(error, match=words):
        call()
