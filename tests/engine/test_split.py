"""What backward keeps of each step: the fewest numbers, from which everything else can be computed again."""

import pytest
import torch

from snnkit.engine import equation_of
from snnkit.engine.autograd import tensors_of
from snnkit.engine.program import split
from snnkit.neuron import LI, LIF, CubaLIF, Izhikevich, Leaky

from .zoo import FEATURES, ZOO

CPU = torch.device("cpu")


def equation(neuron):
    return equation_of(neuron, neuron.initial_state(torch.zeros(1, FEATURES)), torch.float32, CPU)


@pytest.mark.parametrize("make, numbers", [(LI, 0), (LIF, 1), (lambda: Leaky(0.9), 1), (CubaLIF, 1), (Izhikevich, 3)])
def test_the_fewest_numbers_are_kept(make, numbers):
    """Of a linear neuron nothing; of two states and an input often one number, of two half-steps with v² three."""
    one = equation(make())
    assert len(split(one, tuple(range(1 + one.states))).saved) == numbers


@pytest.mark.parametrize("name", ZOO)
def test_each_sweep_reads_only_what_it_is_given(name):
    neuron = ZOO[name]()
    one = equation(neuron)
    saved, again, back = split(one, tuple(range(1 + one.states + len(tensors_of(neuron)))))
    assert len(saved) <= 1 + one.states
    parameters = {f"p{i}" for i in range(one.parameters)}
    gradients = {"g", *(f"d{i}" for i in range(one.states))}
    for program, given in ((again, {"x", *(f"s{i}" for i in range(one.states))}), (back, {*saved, *gradients})):
        known = parameters | given
        for op in program.ops:
            assert known.issuperset(a for a in op.arguments if isinstance(a, str))
            known.add(op.name)
        assert known.issuperset(r for r in program.results if isinstance(r, str))
    assert again.results[one.states :] == saved
