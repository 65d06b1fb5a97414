"""Bytes that operations ask for: what they read and write, and nothing for views."""

import torch

from snnkit.measure.traffic import Kernel, Traffic
from snnkit.neuron import LIF
from snnkit.neuron.base import MembraneState


def kernels(function, *arguments):
    with Traffic() as seen:
        function(*arguments)
    return seen.kernels


def test_reads_and_writes_of_each_operation():
    x, y = torch.ones(10), torch.ones(10)
    found = kernels(lambda: torch.where((x + y) >= 2.0, x, 0.0))
    assert found[:2] == [Kernel("add", (40, 40), (40,)), Kernel("ge", (40,), (10,))]
    name, reads, writes = found[-1]
    assert (name, sorted(reads)[-2:], writes) == ("where", [10, 40], (40,))
    with Traffic() as seen:
        x * 2.0
    assert seen.bytes == seen.kernels[0].bytes == 80


def test_an_argument_that_comes_twice_is_read_once():
    x = torch.ones(10)
    assert kernels(lambda: x * x) == [Kernel("mul", (40,), (40,))]


def test_views_move_nothing():
    x = torch.ones(4, 5)
    assert kernels(lambda: [row[1:] for row in x.t().unbind(0)] and x.view(20).expand(3, 20).detach()) == []


def test_an_expanded_tensor_has_few_bytes():
    x = torch.ones(10).expand(100, 10)
    assert kernels(lambda: x + 1.0) == [Kernel("add", (40,), (4000,))]


def test_fresh_tensors_read_nothing_and_empty_ones_write_nothing():
    x = torch.ones(10)
    assert kernels(lambda: (torch.zeros_like(x), torch.empty_like(x))) == [
        Kernel("zeros_like", (), (40,)),
        Kernel("empty_like", (), ()),
    ]


def test_in_place_operations_read_and_write_the_same():
    x, y = torch.ones(10), torch.ones(10)
    assert kernels(lambda: x.add_(y)) == [Kernel("add_", (40, 40), (40,))]
    assert kernels(lambda: x.zero_()) == [Kernel("zero_", (), (40,))]


def test_several_tensors_in_a_list_all_count():
    rows = [torch.ones(10) for _ in range(3)]
    assert kernels(torch.stack, rows) == [Kernel("stack", (40, 40, 40), (120,))]


def test_backward_is_seen_too():
    x = torch.ones(10, requires_grad=True)
    with Traffic() as forward:
        y = x.sin()
    with Traffic() as backward:
        y.backward(torch.ones(10))
    assert [kernel.name for kernel in forward.kernels] == ["sin"]
    assert {"cos", "mul"} <= {kernel.name for kernel in backward.kernels}


def test_a_step_of_one_lif_neuron():
    cell, x = LIF(engine="eager"), torch.rand(1)
    found = kernels(cell.step, x, MembraneState(torch.zeros(1)))
    assert {"sub", "div", "add", "ge", "mul"} <= {kernel.name for kernel in found}
    assert all(size in (1, 4) for kernel in found for size in (*kernel.reads, *kernel.writes))
    assert sum(kernel.bytes for kernel in found) > 8
