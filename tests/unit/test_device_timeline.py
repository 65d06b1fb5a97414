"""Bytes alive after each operation."""

import pytest
import torch

from snnkit.device import MemoryTracker
from snnkit.device.timeline import outline, timeline


def test_what_is_made_and_freed_is_seen_in_order():
    x = torch.ones(100)

    def work():
        a = x + 1
        b = a * 2
        del a
        return b.sum()

    # a; a and b; of them b, and a sum of one number.
    assert timeline(work) == [400, 800, 404]


def test_its_summit_is_the_peak_of_a_tracker():
    net = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.Sigmoid(), torch.nn.Linear(300, 5))
    x = torch.rand(64, 20)

    def step():
        return torch.autograd.grad(net(x).sum(), net.parameters())

    with MemoryTracker() as tracker:
        step()
    curve = timeline(step)
    assert max(curve) == tracker.peak > 2 * 64 * 300 * 4
    assert curve.index(max(curve)) > 4  # in backward
    assert curve[-1] < max(curve)


def test_a_program_without_tensors_has_no_curve():
    assert timeline(lambda: 1 + 1) == []


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="function must be callable"):
        timeline(torch.ones(1))  # type: ignore[arg-type]


def test_an_outline_leaves_out_what_changes_little():
    curve = [0, 1, 2, 500, 501, 1000, 999, 998, 400, 401]
    assert outline(curve) == [0, 500, 1000, 400, 401]
    assert outline(curve, 0) == curve
    assert outline([5, 6]) == [5, 6] and outline([]) == []


def test_an_outline_sees_a_slow_climb():
    slow = list(range(0, 1001))
    assert outline(slow, 0.1) == [0, 101, 202, 303, 404, 505, 606, 707, 808, 909, 1000]


def test_a_share_is_checked():
    with pytest.raises(ValueError, match="share must be within 0 and 1"):
        outline([1, 2], 2)
