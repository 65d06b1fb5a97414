"""Kernels of recurrent layers: run by the interpreter beside the loop, and compiled for GPUs that are not here."""

import pytest
import torch

from snnkit.engine.triton.recurrent import DEPTH, ROWS, backward_source, forward_source, warps
from snnkit.neuron import LIF, Recurrent
from tests.engine.test_recurrent import assert_equal, calls, layer, passed, with_engine  # noqa: F401
from tests.engine.zoo import FEATURES, ZOO

from .ahead import compiled
from .flat import equation_named

# Of each kind one: a plain neuron, parameters per neuron and shared, two states, flags, no state in backward.
FEW = ["LIF", "LIF-buffers", "CubaLIF-learnable", "AdEx-learnable", "LI", "Refractory"]


@pytest.mark.usefixtures("interpreter")
@pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")
@pytest.mark.parametrize("name", [*FEW, *(pytest.param(n, marks=pytest.mark.slow) for n in ZOO if n not in FEW)])
def test_every_neuron_beside_the_loop(name, calls):  # noqa: F811
    made = layer(ZOO[name](), bias=len(name) % 2 == 0)
    x = torch.randn(4, 3, FEATURES, dtype=torch.float64) * 2
    state = made(torch.randn(2, 3, FEATURES, dtype=torch.float64))[1]
    calls.clear()
    for start in (None, state):
        assert_equal(passed(with_engine(made, "triton"), x, start), passed(with_engine(made, "eager"), x, start))
    assert [call[0] for call in calls] == ["triton"] * 2


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize(("features", "batch", "steps"), [(1, 1, 1), (16, 16, 2), (40, 19, 3)])
def test_any_size(features, batch, steps):
    made, x = layer(LIF(), features), torch.randn(steps, batch, features, dtype=torch.float64) * 2
    assert_equal(passed(with_engine(made, "triton"), x), passed(with_engine(made, "eager"), x))


@pytest.mark.usefixtures("interpreter")
def test_more_neurons_than_a_program_holds_take_the_loop():
    plan = Recurrent(LIF(engine="triton"), 1025).whole_plan(
        torch.zeros(2, 1, 1025), LIF().initial_state(torch.zeros(1, 1025))
    )
    assert plan.engine == "eager" and "at most 1024 neurons" in plan.reason


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("name", ["LIF", "CubaLIF-learnable"])
def test_they_compile(name, architecture):
    equation, dims = equation_named(name, torch.float32)
    sources = [forward_source(equation, dims, True, save) for save in (False, True)]
    for source in (*sources, backward_source(equation, dims, (True,) * len(dims))):
        constants = {"ROWS": ROWS, "COLS": 128, "DEPTH": DEPTH}
        built = compiled(source, {}, "fp32", architecture, constants, warps(128))
        assert built.spilled <= 64  # of 255 registers a thread
