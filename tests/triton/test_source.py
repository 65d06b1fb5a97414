"""The text of kernels: what is in it, what is not, and what can't be written."""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
import torch

from snnkit.engine import equation_of, triton
from snnkit.engine.autograd import Gradients, Pass, presence_of
from snnkit.engine.triton.launch import kernel
from snnkit.engine.triton.triton_source import backward_source, forward_source, saves_state
from snnkit.neuron import LIF, Leaky
from snnkit.surrogate import ATan

from .flat import equation_named

# Lanes past the last neuron compute with zeros, and divide by them.
pytestmark = pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")

CUDA = torch.device("cuda")


class Trace(NamedTuple):
    v: torch.Tensor
    before: torch.Tensor


def equation(step, states=2, dtype=torch.float32):
    state = [torch.zeros(3, dtype=dtype) for _ in range(states)]
    return equation_of(step, Trace(*state) if states == 2 else tuple(state), dtype, torch.device("cpu"))


def of(neuron):
    return equation_of(neuron, neuron.initial_state(torch.zeros(3)), torch.float32, torch.device("cpu"))


def test_another_constant_is_the_same_kernel():
    pairs = [(Leaky(0.9), Leaky(0.7)), (LIF(3.0, surrogate=ATan(3.0)), LIF(5.0, surrogate=ATan(4.0)))]
    for one, other in pairs:
        for source in (lambda e: forward_source(e, (), True), lambda e: backward_source(e, (), (True,))):
            a, b = source(of(one)), source(of(other))
            assert a.text == b.text and kernel(a) is kernel(b)
    assert forward_source(of(Leaky(0.9)), (), True).constants != forward_source(of(Leaky(0.7)), (), True).constants


def test_nothing_is_kept_for_a_linear_equation():
    linear, dims = equation_named("LI")
    assert not saves_state(linear) and saves_state(of(LIF()))
    assert "kept_ptr" not in forward_source(linear, dims, True).text
    assert "tl.load(x" not in backward_source(linear, dims, (True,)).text


def test_many_threads_get_one_kernel():
    sources = [forward_source(of(LIF(2.5 + i)), (), False) for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert len({id(function) for function in pool.map(kernel, sources)}) == 1


@pytest.mark.usefixtures("interpreter")
def test_states_that_move_into_one_another():
    # v goes into `before` while it changes: all states change at once.
    def step(x, state):
        return x + state.before, Trace(0.5 * state.v + x, state.v)

    one, x = equation(step), torch.rand(11, 3)
    out, last, *_ = triton.forward(Pass(one, x, [torch.ones(3), torch.zeros(3)], []), x.dtype, save=False)
    state = Trace(torch.ones(3), torch.zeros(3))
    for t in range(11):
        expected, state = step(x[t], state)
        assert torch.equal(out[t], expected)
    assert torch.equal(last[0], state.v) and torch.equal(last[1], state.before)


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_that_do_not_depend_on_the_neuron(dtype):
    def step(x, state):
        return torch.full_like(x, 0.25), (torch.ones_like(x),)

    one, x = equation(step, 1, dtype), torch.rand(3, 5, dtype=dtype)
    out, last, saved, *_ = triton.forward(Pass(one, x, [torch.zeros(5, dtype=dtype)], []), dtype, save=True)
    assert torch.equal(out, torch.full_like(x, 0.25)) and torch.equal(last[0], torch.ones(5, dtype=dtype))
    ones = torch.ones(5, dtype=dtype)
    d_x, d_state, _ = triton.backward(Pass(one, x, [ones], []), saved, Gradients(torch.ones_like(x), [ones], (True,)))
    assert not d_x.any() and not d_state[0].any()


OPERATIONS = {
    "abs": torch.abs,
    "ceil": torch.ceil,
    "clamp": lambda x: x.clamp(-0.5, 0.7),
    "cos": torch.cos,
    "cube": lambda x: x**3,
    "elu": torch.nn.functional.elu,
    "erf": torch.erf,
    "exp": torch.exp,
    "expm1": lambda x: torch.expm1(x * 1e-9),
    "floor": torch.floor,
    "inverse": lambda x: (x + 4.25) ** -1,
    "leaky_relu": torch.nn.functional.leaky_relu,
    "log": lambda x: torch.log(x.abs() + 0.1),
    "logical": lambda x: torch.where((x > 0) & ~(x > 1) | (x < -1), x, 2.0),
    "masked_fill": lambda x: x.masked_fill(x > 0.5, 3.0),
    "maximum": lambda x: torch.maximum(x, 1 - x),
    "log1p": lambda x: torch.log1p(x.abs() * 1e-9),
    "relu": torch.relu,
    "round": torch.round,
    "sigmoid": torch.sigmoid,
    "sign": torch.sign,
    "sin": torch.sin,
    "softplus": torch.nn.functional.softplus,
    "sqrt": lambda x: torch.sqrt(x.abs() + 0.1),
    "square root": lambda x: (x * x + 1) ** 0.5,
    "tanh": torch.tanh,
    "trunc": torch.trunc,
}


@pytest.mark.usefixtures("interpreter")
@pytest.mark.parametrize("name", OPERATIONS)
def test_operations(name):
    def step(x, state):
        return OPERATIONS[name](x), (state[0] + x,)

    one = equation(step, 1, torch.float64)
    assert triton.supports(one, CUDA) == ""
    # Halves, which are rounded to even, among them.
    x = torch.cat([torch.arange(-3.0, 3.5, 0.5, dtype=torch.float64), torch.randn(20, dtype=torch.float64)]) + 0.0
    x = torch.stack([x, x]).requires_grad_()
    state = [torch.zeros(33, dtype=torch.float64)]
    out, _, saved, *_ = triton.forward(Pass(one, x.detach(), state, []), x.dtype, save=True)
    expected = OPERATIONS[name](x)
    torch.testing.assert_close(out, expected, rtol=1e-12, atol=1e-12)
    weight = torch.randn_like(out)
    run, last = Pass(one, x.detach(), state, []), torch.zeros_like(state[0])
    last = [last, *presence_of(one, run.x, [weight, last])]
    d_x, *_ = triton.backward(run, saved, Gradients(weight, last, (True,)))
    (expected_d,) = torch.autograd.grad(expected, x, weight)
    torch.testing.assert_close(d_x, expected_d, rtol=1e-11, atol=1e-11)


def test_what_can_not_be_written_is_said():
    def step(x, state):
        return torch.special.i0(x), (state[0],)

    assert "can't be written in Triton: there is no expression for" in triton.supports(equation(step, 1), CUDA)
    assert triton.supports(of(LIF()), CUDA) == ""
    assert "made for CUDA devices, not for 'cpu' ones" in triton.supports(of(LIF()), torch.device("cpu"))


def test_without_triton(monkeypatch):
    monkeypatch.setattr(triton, "_installed", lambda: False)
    assert "pip install triton" in triton.supports(of(LIF()), CUDA)
