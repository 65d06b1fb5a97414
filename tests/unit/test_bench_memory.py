"""What is kept for backward, counted once and without the output."""

import pytest
import torch

from snnkit.measure import memory
from snnkit.neuron import LIF

X = torch.rand(6, 1, 50)


@pytest.mark.parametrize(
    ("forward", "of_x", "other"),
    [
        (lambda x: x + 1, 0, 0),
        (lambda x: x * x, 1, 0),  # x twice, one storage
        (lambda x: x.exp(), 0, 0),  # its output, which the next layer has anyway
        (lambda x: x.exp().sin(), 0, 1),  # the output of exp, which sin and exp both keep
        (lambda x: (x * 2).sin() * x, 1, 2),
        (lambda x: x[1:] * x[:-1], 1, 0),  # two views of one storage
    ],
)
def test_each_storage_counts_once(forward, of_x, other):
    held = memory.held_for_backward(forward, X)
    assert (held.x, held.other) == (of_x * X.nbytes, other * X.nbytes)
    assert held.total == held.x + held.other


def test_the_block_engine_holds_less_than_the_loop():
    loop, block = LIF(engine="eager"), LIF(engine="block")
    kept_by_block = memory.held_for_backward(lambda x: block(x)[0], X)
    assert kept_by_block.x == X.nbytes
    assert kept_by_block.total < memory.held_for_backward(lambda x: loop(x)[0], X).total


def test_a_cpu_counts_no_peak():
    called = []
    assert memory.peak_of(lambda: called.append(1), torch.device("cpu")) is None and not called


def test_memory_that_is_free():
    free = memory.available(torch.device("cpu"))
    assert free is not None and free > 2**20


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_a_gpu_the_allocator_counts():
    x = torch.rand(64, 1, 2**14, device="cuda")
    held = memory.held_for_backward(lambda x: x.exp().sin(), x)
    assert (held.x, held.other) == (0, x.nbytes)
    assert memory.peak_of(lambda: x.exp().sin(), x.device) == 2 * x.nbytes
    assert 2**20 < memory.available(x.device) < 2**50
