"""Gradients of gradients: compiled engines give those of the eager one."""

from __future__ import annotations

import pytest
import torch

from snnkit import engine
from snnkit.neuron import LIF, CubaLIF, Leaky
from snnkit.surrogate import ATan

from .zoo import ZOO, drive

pytestmark = pytest.mark.usefixtures("plain_blocks")
compiled = pytest.mark.parametrize("name", ["block", "cpp"])


def penalty(neuron, x, *more):
    """The gradients of x, parameters and more of a loss that holds a gradient itself."""
    out, state = neuron(x)
    weight = torch.linspace(0.5, 1.5, out.numel(), dtype=out.dtype).reshape(out.shape)
    loss = (out * weight).square().sum() + sum(part.square().sum() for part in state)
    (gradient,) = torch.autograd.grad(loss, x, create_graph=True)
    wanted = [x, *neuron.parameters(), *more]
    return gradient, torch.autograd.grad(gradient.square().sum(), wanted, allow_unused=True)


def same(found, expected):
    (first, second), (first_e, second_e) = found, expected
    torch.testing.assert_close(first, first_e)
    assert any(g is not None and g.abs().sum() > 0 for g in second_e)
    for one, other in zip(second, second_e, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other)


KEYS = ("LIF", "LIF-soft", "LIF-learnable-tau", "Leaky-learnable", "CubaLIF-learnable", "ALIF")


@pytest.mark.parametrize("key", KEYS)
@compiled
def test_a_gradient_penalty_is_that_of_eager(name, key):
    neuron = ZOO[key]().double()
    x = drive(neuron, 6, 3, 5).requires_grad_()
    results = []
    for which in (name, "eager"):
        neuron.engine = which
        results.append(penalty(neuron, x))
    same(*results)


def of_outputs(run, name, x):
    """``run(engine)`` in both engines: the gradients of x, and those of their squares, are the same."""
    results = []
    for which in (name, "eager"):
        (gradient,) = torch.autograd.grad(run(which).square().sum(), x, create_graph=True)
        results.append((gradient, torch.autograd.grad(gradient.square().sum(), x)))
    same(*results)


@compiled
def test_input_that_stands_still(name):
    one = (torch.rand(3, 5, dtype=torch.float64) * 1.5).requires_grad_()
    of_outputs(lambda which: engine.unroll(LIF(engine=which), one, engine=which, repeat=6)[0], name, one)


@compiled
def test_a_state_that_was_made_from_the_input_counts_once(name):
    x = (torch.rand(6, 2, 3, dtype=torch.float64) * 1.5).requires_grad_()

    def run(which):
        neuron = Leaky(0.8, engine=which)
        state = type(neuron.initial_state(x[0]))._make(0.3 * x[0] for _ in neuron.initial_state(x[0]))
        return neuron(x, state)[0]

    of_outputs(run, name, x)


@compiled
def test_a_hessian_row_by_row(name):
    x = (torch.rand(4, 1, 2, dtype=torch.float64) * 1.5).requires_grad_()
    rows = [
        torch.autograd.functional.hessian(lambda v, e=e: CubaLIF(surrogate=ATan(), engine=e)(v)[0].square().sum(), x)
        for e in (name, "eager")
    ]
    torch.testing.assert_close(*rows)
    assert rows[1].abs().sum() > 0
