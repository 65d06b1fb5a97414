"""Small passes take the C++ engine when that pays, and nobody can see it in the results."""

from __future__ import annotations

import pytest
import torch

from snnkit import engine
from snnkit.engine import cpp, equations, select, worth
from snnkit.neuron import LI, LIF, PLIF, CubaLIF, Leaky
from snnkit.surrogate import Sigmoid

from .zoo import ZOO, drive

CPU = torch.device("cpu")
pytestmark = pytest.mark.skipif(cpp.cpp_compiler() is None, reason="no C++ compiler")


def equation(neuron, x):
    return equations.equation_of(neuron, neuron.initial_state(x[0]), engine.state_dtype(x), CPU)


def taken(neuron, x):
    return select.choose("auto", neuron, x, neuron.initial_state(x[0]), engine.state_dtype(x)).engine


@pytest.fixture
def from_scratch(monkeypatch, tmp_path):
    """No kernel was ever compiled, no equation traced."""
    monkeypatch.setenv("SNNKIT_KERNELS", str(tmp_path))
    monkeypatch.setattr(cpp.build, "_loaded", {})
    monkeypatch.setattr(equations, "_siblings", type(equations._siblings)())


EXACT = [
    *("IF", "IF-soft", "IF-reset-negative", "LIF", "LIF-soft", "LIF-rest"),
    *("Leaky", "Leaky-zero", "Leaky-none", "Leaky-now", "Leaky-zero-now", "CubaLIF", "ALIF", "Izhikevich"),
]


def test_neurons_with_numbers_alone_are_exact():
    assert [key for key in ZOO if worth.is_exact(equation(ZOO[key](), torch.rand(2, 3, 5)))] == EXACT


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("key", EXACT)
def test_exact_means_equal_to_the_bit(key, dtype):
    results = []
    for name in ("eager", "cpp"):
        torch.manual_seed(0)
        neuron = ZOO[key]()
        neuron.engine = name
        x = drive(neuron, 23, 3, 37).to(dtype).requires_grad_()
        out, state = neuron(x)
        weight = torch.rand(out.shape).to(dtype)
        loss = (out * weight).sum() + sum(part.to(dtype).sum() for part in state)
        results.append((out, *state, *torch.autograd.grad(loss, x)))
    assert results[0][0].count_nonzero() > 0
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    "neuron", [PLIF(), LIF(surrogate=Sigmoid()), Leaky(torch.nn.Parameter(torch.tensor(0.9))), LI()]
)
def test_what_might_differ_in_the_last_bit_stays_in_eager(neuron):
    x = torch.rand(25, 2, 3)
    assert {taken(neuron, x) for _ in range(2 * worth._UNTIL_COMPILED // 25)} == {"eager"}


def test_a_kernel_that_is_there_is_taken_at_once(from_scratch):
    small, large = torch.rand(25, 2, 3), torch.rand(25, 100, 30)
    neuron, sibling = Leaky(0.9), Leaky(0.9)
    assert taken(neuron, small) == "eager"
    neuron(large)
    assert taken(neuron, small) == taken(sibling, small) == "cpp"
    assert "its kernel is there" in str(engine.explain(sibling, small))
    # One step is faster without.
    assert taken(neuron, small[:1]) == "eager"
    # Another time constant is the same kernel, once its equation is known.
    other = Leaky(0.7)
    assert taken(other, small) == "eager"
    equation(other, small)
    assert taken(other, small) == "cpp"


def test_a_layer_that_runs_long_enough_is_compiled(from_scratch):
    x, neuron = torch.rand(1024, 1, 1), CubaLIF()
    choices = [taken(neuron, x) for _ in range(worth._UNTIL_COMPILED // 1024 + 1)]
    assert choices[:-2] == ["eager"] * (len(choices) - 2) and choices[-2:] == ["cpp"] * 2
    assert torch.equal(neuron(x)[0], CubaLIF(engine="eager")(x)[0])


def test_input_that_stands_still_stays_in_eager():
    """Its gradient is a sum over time, which the engines add in their own orders."""
    x, neuron = torch.rand(1, 1, 1).expand(1024, 1, 1), Leaky(0.9)
    assert {taken(neuron, x) for _ in range(40)} == {"eager"}


def test_no_compiler_no_kernel(from_scratch, monkeypatch):
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    x, neuron = torch.rand(1024, 1, 1), LIF()
    assert {taken(neuron, x) for _ in range(40)} == {"eager"}


def test_siblings_share_an_equation_and_only_they():
    x = torch.rand(3, 2, 5)
    assert equation(LIF(3.5), x) is equation(LIF(3.5), x)
    assert equation(LIF(3.5), x) is not equation(LIF(3.25), x)
    assert equation(LIF(3.5), x) is not equation(LIF(3.5), x.double())
    assert equation(LIF(torch.tensor(3.5)), x).parameters == 1


class Mine(LIF):
    """Written in a notebook: its code may change."""

    gain = 1.0

    def step(self, x, state):
        return super().step(self.gain * x, state)


def test_a_neuron_of_a_learner_is_traced_for_itself(monkeypatch):
    x = torch.rand(3, 2, 5)
    before = equation(Mine(), x)
    monkeypatch.setattr(Mine, "gain", 2.0)
    assert equation(Mine(), x).key != before.key
