"""The references of notebook 08 are what its text says, and what PyTorch computes."""

import pytest
import torch

from snnkit.course.nb08 import _mean_loss, _task, accumulate, in_halves, training_bytes


def test_the_bill_of_a_known_network():
    # 784-1000-10 with a bias each, Adam, T = 25, batch 128.
    weights = 784 * 1000 + 1000 + 1000 * 10 + 10
    assert training_bytes(weights, 2794, 25, 128, copies=2) == (16 * weights, 25 * 128 * 2794 * 4)


@pytest.mark.parametrize(("samples", "size"), [(8, 2), (7, 3), (5, 8), (4, 1)])
def test_the_reference_leaves_the_gradient_of_the_whole_batch(samples, size):
    net, diary, x, y = _task(samples)
    whole = _mean_loss(net(x)[0], y)
    (want,) = torch.autograd.grad(whole, diary.linear.weight)
    given = accumulate(net, _mean_loss, x, y, size)
    assert diary.linear.weight.grad is not None
    assert torch.allclose(diary.linear.weight.grad, want, atol=1e-6) and given == pytest.approx(whole.item(), rel=1e-5)


def test_where_memory_runs_out_late_the_first_samples_are_not_done_again():
    calls = []

    def fn(samples):
        calls.append(samples.tolist())
        if 5 in samples and len(samples) > 2:
            raise torch.OutOfMemoryError("out of memory")
        return samples

    assert in_halves(fn, torch.arange(8), 4).tolist() == list(range(8))
    assert calls == [[0, 1, 2, 3], [4, 5, 6, 7], [4, 5], [6, 7]]
