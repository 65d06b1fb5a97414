"""Spikes as events: the same spikes, in fewer bytes, and the same products."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from snnkit.text import SparseSpikes


def spikes(*shape, density=0.2, seed=0):
    return (torch.rand(*shape, generator=torch.Generator().manual_seed(seed)) < density).float()


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 4), min_size=2, max_size=4),
    st.sampled_from([0.0, 0.3, 1.0]),
    st.integers(0, 3),
)
def test_there_and_back(shape, density, seed):
    dense = spikes(*shape, density=density, seed=seed)
    events = SparseSpikes.of(dense)
    assert torch.equal(events.dense(), dense)
    assert len(events) == dense.sum() and events.density == pytest.approx(len(events) / max(dense.numel(), 1))


def test_bytes_by_hand():
    events = SparseSpikes.of(torch.tensor([[[1.0, 0, 1]], [[0, 0, 0]]]))
    assert events.neuron.tolist() == [0, 2] and events.start.tolist() == [0, 2, 2]
    assert (events.bytes, events.dense_bytes) == (2 * 2 + 3 * 4, 6 * 4)
    assert repr(events) == "SparseSpikes([2, 1, 3]: 2 spikes, density 33.3%, 16 bytes instead of 24, on cpu)"
    assert SparseSpikes.of(torch.ones(1, 2**15)).neuron.dtype == torch.int16
    wide = SparseSpikes.of(torch.ones(1, 2**15 + 1))
    assert wide.neuron.dtype == torch.int32 and wide.neuron[-1] == 2**15
    assert SparseSpikes.of(torch.ones(1, 2**15)).neuron[-1] == 2**15 - 1


def test_linear_layers_event_by_event():
    dense, layer = spikes(5, 3, 4, 20).double(), nn.Linear(20, 7).double()
    events = SparseSpikes.of(dense)
    out = events.linear(layer.weight, layer.bias)
    torch.testing.assert_close(out, layer(dense))
    expected = torch.autograd.grad(layer(dense).square().sum(), layer.parameters())
    found = torch.autograd.grad(out.square().sum(), layer.parameters())
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(events.linear(layer.weight), layer(dense) - layer.bias)
    silent = SparseSpikes.of(torch.zeros(2, 1, 20))
    assert torch.equal(silent.linear(layer.weight), torch.zeros(2, 1, 7).double())


def test_what_is_refused():
    with pytest.raises(TypeError, match="spikes must be a tensor"):
        SparseSpikes.of([[1, 0]])
    with pytest.raises(ValueError, match=r"spikes must be \[T, ..., N\], but its shape is \[3\]"):
        SparseSpikes.of(torch.ones(3))
    for wrong in (0.5, -1.0, 2.0, float("nan")):
        with pytest.raises(ValueError, match="only 0 and 1"):
            SparseSpikes.of(torch.tensor([[0.0, wrong]]))
    with pytest.raises(ValueError, match=r"weight must be \[M, 3\], but its shape is \[3, 2\]"):
        SparseSpikes.of(torch.ones(2, 3)).linear(torch.ones(3, 2))
