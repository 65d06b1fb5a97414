"""Bytes of tensors as they come and go, and a limit to run into."""

import pytest
import torch

from snnkit import device
from snnkit.device import MemoryTracker, memory_limit
from snnkit.measure.tracker import left_under_limit, peak_of

MB = 2**20


def test_what_lives_and_what_lived():
    old = torch.rand(MB // 4)
    with MemoryTracker() as tracker:
        a = torch.zeros(MB // 4)
        view = a[10:].view(-1)
        assert tracker.live == MB  # a view takes nothing
        b = a + old
        assert tracker.live == tracker.peak == 2 * MB
        del a
        assert tracker.live == 2 * MB  # the view holds it
        del view
        assert tracker.live == MB
        old.add_(1)
        del b
    assert (tracker.live, tracker.peak) == (0, 2 * MB)


def test_what_was_there_before_never_counts():
    old = torch.rand(MB)
    with MemoryTracker() as tracker:
        kept = [old[:5], old.view(2, -1).t(), old.detach()]
    assert tracker.live == tracker.peak == 0 and len(kept) == 3


def test_a_tensor_that_grows_in_place():
    with MemoryTracker() as tracker:
        x = torch.empty(0)
        x.resize_(MB)
        x.zero_()
        assert tracker.live == 4 * MB


def test_backward_is_seen():
    x = torch.rand(MB // 4, requires_grad=True)
    with MemoryTracker() as tracker:
        y = x.exp().sin().sum()
        held = tracker.live
        y.backward()
    assert held == MB + 4  # exp(x), which both keep, and the sum
    assert tracker.peak == 3 * MB + 8  # backward: that, its cosine, a product, and the gradient of the sum


def test_peak_of_a_function():
    x = torch.rand(MB // 4)
    assert peak_of(lambda: (x + 1) * 2, torch.device("cpu")) == 2 * MB


def test_a_limit_raises_what_a_full_device_raises():
    with memory_limit(3 * MB) as tracker:
        kept = torch.zeros(MB // 2)
        assert left_under_limit() == MB
        with pytest.raises(torch.OutOfMemoryError, match=r"tried to allocate 2\.1 MB.*needed 4194304 bytes"):
            torch.zeros(MB // 2)
        assert tracker.live == 2 * MB  # what did not fit is gone
        smaller = torch.zeros(MB // 4)  # and what fits still does
    assert left_under_limit() is None and kept is not smaller
    torch.zeros(MB)


def test_the_innermost_limit_counts():
    with memory_limit(100 * MB), memory_limit(MB):
        assert left_under_limit() == MB
        with pytest.raises(torch.OutOfMemoryError):
            torch.zeros(MB)


@pytest.mark.parametrize("limit, error", [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)])
def test_bad_limits(limit, error):
    with pytest.raises(error, match="limit must be"), memory_limit(limit):
        pass


def test_memory_in_use():
    usage = device.get_gpu_memory_usage("cpu")
    assert 2**20 < usage.allocated <= usage.peak < usage.total and 0 < usage.free <= usage.total
    assert "resident" in repr(usage) and "free" in repr(usage)
    kept = torch.ones(64 * MB)
    assert device.get_gpu_memory_usage("cpu").allocated - usage.allocated > 200 * MB and kept.numel()


def test_memory_in_use_of_an_unknown_device():
    with pytest.raises(ValueError, match="device must be"):
        device.get_gpu_memory_usage("gpu")
