"""Spikes as bits: exact in every layout and dtype, and never anything that is no spike."""

import pytest
import torch
from torch import nn

from snnkit.device import MemoryTracker, packed_spikes
from snnkit.device import spike_packing as bits


def spikes(*shape, dtype=torch.float32):
    return (torch.rand(shape) > 0.7).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 64, 1001])
def test_there_and_back(count, dtype):
    x = spikes(count, dtype=dtype)
    packed = bits.pack(x)
    assert packed.data.nbytes == -(-count // 8)
    assert torch.equal(bits.unpack(packed), x) and bits.unpack(packed).dtype == dtype


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.transpose(0, 2),
        lambda x: x.contiguous(memory_format=torch.channels_last),
        lambda x: x[1],  # begins in the middle of its memory
        lambda x: x[1:, None],
        lambda x: x.permute(3, 1, 0, 2),
    ],
)
def test_layouts_come_back_as_they_were(view):
    x = view(spikes(3, 5, 7, 2))
    back = bits.unpack(bits.pack(x))
    assert torch.equal(back, x) and back.stride() == x.stride()


@pytest.mark.parametrize("value", [0.5, 2.0, -1.0, float("nan"), float("inf"), 1 + 1e-6])
def test_what_is_no_spike_is_not_packed(value):
    x = spikes(100)
    x[37] = value
    assert bits.pack(x) is None


def test_any_model_keeps_its_spikes_as_bits_with_the_same_gradients():
    layers = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    x = spikes(100, 64)

    def gradients():
        return torch.autograd.grad(
            layers(x * layers[0].bias.sum().sigmoid().ceil()).sin().sum(), [*layers.parameters()]
        )

    plain = gradients()
    with packed_spikes() as packing:
        economical = gradients()
    assert all(torch.equal(a, b) for a, b in zip(plain, economical, strict=True))
    # x, which the product keeps, and the product, which the first layer keeps; not what the second layer keeps.
    assert packing.saved == 2 * (x.nbytes - x.numel() // 8)


def test_only_the_spikes_are_kept_as_bits_and_then_freed():
    layer = nn.Linear(4096, 4096)
    with MemoryTracker() as tracker:
        x = spikes(4096) + torch.zeros(4096, requires_grad=True)
        with bits.packed_input(x):
            out = layer(x)
        before = tracker.live
        del x
        assert before - tracker.live == 4 * 4096  # nothing else holds the spikes
        (gradient,) = torch.autograd.grad(out.sum(), [layer.weight])
    assert torch.equal(gradient, gradient[:1].expand_as(gradient)) and set(gradient.unique().tolist()) <= {0.0, 1.0}
