"""The networks for frames of events: parameters by hand, shapes, memory, bad input."""

import pytest
import torch

from snnkit.models import EventConvNet, EventRecurrentNet


def parameters(model):
    return sum(p.numel() for p in model.parameters())


def frames(steps=5, batch=3, polarities=2, size=16):
    draw = torch.Generator().manual_seed(0)
    return (torch.rand(steps, batch, polarities, size, size, generator=draw) < 0.3).float()


def test_parameter_counts_by_hand():
    # 16 → 8 → 4 pixels
    conv = (16 * 2 * 9 + 16) + (32 * 16 * 9 + 32) + (10 * 32 * 4 * 4 + 10)
    assert parameters(EventConvNet()) == conv == 10_074
    # 34 → 17 → 9
    assert parameters(EventConvNet(1, 34, 11, widths=(3, 4))) == (3 * 9 + 3) + (4 * 27 + 4) + (11 * 4 * 81 + 11)
    assert parameters(EventRecurrentNet()) == (512 * 128 + 128) + 128 * 128 + (128 * 10 + 10) == 83_338


@pytest.mark.parametrize("size", [4, 7, 16])
def test_shapes_and_gradients(size):
    for net in (EventConvNet(2, size, engine="eager"), EventRecurrentNet(2 * size * size, engine="eager")):
        out, _ = net(frames(size=size))
        assert out.shape == (5, 3, 10) and set(out.unique().tolist()) <= {0.0, 1.0}
        out.sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in net.parameters())


def test_in_pieces_of_time_the_same():
    for net in (EventConvNet(engine="eager"), EventRecurrentNet(engine="eager")):
        whole, _ = net(40 * frames(8))
        first, state = net(40 * frames(8)[:3])
        second, _ = net(40 * frames(8)[3:], state)
        assert torch.equal(torch.cat([first, second]), whole) and whole.any()


@pytest.mark.parametrize(
    ("build", "error", "words"),
    [
        (lambda: EventConvNet(0), ValueError, "polarities must be at least 1"),
        (lambda: EventConvNet(size=3), ValueError, "size must be at least 4"),
        (lambda: EventConvNet(classes=1.5), TypeError, "classes must be an integer"),
        (lambda: EventConvNet(widths=(3,)), ValueError, "widths must be 2 integers"),
        (lambda: EventConvNet(widths=16), TypeError, "widths must be 2 integers"),
        (lambda: EventConvNet(widths=(3, 0)), ValueError, r"widths\[1\] must be at least 1"),
        (lambda: EventRecurrentNet(hidden=0), ValueError, "hidden must be at least 1"),
        (lambda: EventRecurrentNet(True), TypeError, "inputs must be an integer"),
    ],
)
def test_bad_input(build, error, words):
    with pytest.raises(error, match=words):
        build()
