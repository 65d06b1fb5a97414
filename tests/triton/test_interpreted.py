"""Every generated kernel, run by Triton's interpreter, equals the eager engine."""

import pytest
import torch

from snnkit.engine import equation_of, triton
from snnkit.engine.autograd import Gradients, Pass, tensors_of
from snnkit.neuron import LIF
from tests.engine.zoo import ZOO

from .flat import as_parameter, eager, layer

# Lanes past the last neuron compute with zeros, and divide by them.
pytestmark = [pytest.mark.usefixtures("interpreter"), pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning")]

# Blocks are of eight steps: less than one, one, one and a bit, two and a bit.
LENGTHS = [1, 7, 8, 9, 19]


def assert_close(found, expected, tolerance):
    scale = expected.abs().max().clamp_min(1e-6).item()
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * scale)


def assert_same(name, steps, dtype, io=None):
    one = layer(name, steps, dtype, io)
    weight = torch.randn(one.flat_x.shape, dtype=torch.float64).to(one.flat_x.dtype)
    last_weight = [torch.randn_like(part) for part in one.flat_state]
    out, last, gradients = eager(one, weight, last_weight)

    run = Pass(one.equation, one.flat_x, one.flat_state, one.parameters)
    found, found_last, saved = triton.forward(run, one.flat_x.dtype, save=True)
    if io == torch.bfloat16 and name.startswith("LI"):
        # The interpreter cuts bfloat16 off where PyTorch and GPUs round; spikes are the same in both.
        torch.testing.assert_close(found, out, rtol=2**-7, atol=0)
    else:
        assert torch.equal(found, out)
    for part, expected in zip(found_last, last, strict=True):
        assert torch.equal(part, expected)

    needs = (True,) * (1 + len(one.parameters))
    d_x, d_state, d_parameters = triton.backward(run, saved, Gradients(weight, last_weight, needs))
    own = tensors_of(one.neuron).values()
    d_parameters = [as_parameter(d, p) for d, p in zip(d_parameters, own, strict=True)]
    tolerance = 1e-12 if dtype == torch.float64 else 3e-6
    for d, expected in zip(d_state, gradients[1 : 1 + len(d_state)], strict=True):
        assert_close(d, expected, tolerance)
    # Sums over time, and over all neurons, of terms of both signs.
    for d, expected in zip(d_parameters, gradients[1 + len(d_state) :], strict=True):
        assert_close(d, expected, tolerance if dtype == torch.float64 else 1e-4)
    assert d_x.dtype == one.flat_x.dtype
    assert_close(
        d_x.to(dtype), gradients[0].to(dtype), {torch.bfloat16: 2**-7, torch.float16: 2**-10}.get(io, tolerance)
    )


@pytest.mark.parametrize(("dtype", "steps"), [(torch.float64, 19), (torch.float32, 9)])
@pytest.mark.parametrize("name", ZOO)
def test_every_neuron(name, dtype, steps):
    assert_same(name, steps, dtype)


@pytest.mark.parametrize("steps", LENGTHS)
@pytest.mark.parametrize("name", ["LIF-learnable-tau", "CubaLIF", "LI"])
def test_every_length(name, steps):
    assert_same(name, steps, torch.float32)


@pytest.mark.parametrize("io", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["LIF", "CubaLIF", "PLIF", "LI-learnable"])
def test_arithmetic_is_float32_whatever_the_input(name, io):
    assert_same(name, 9, torch.float32, io)


def lif(neurons, steps=9):
    """A LIF neuron's equation, with x [T, N] and its first state."""
    neuron, x, state = LIF(tau=3.0), torch.rand(steps, neurons) * 2, [torch.zeros(neurons)]
    equation = equation_of(neuron, neuron.initial_state(state[0]), torch.float32, torch.device("cpu"))
    neuron.engine = "eager"
    return neuron, equation, x, state


@pytest.mark.parametrize("neurons", [1, 63, 500])
def test_every_size(neurons):
    neuron, equation, x, state = lif(neurons)
    out, last, saved = triton.forward(Pass(equation, x, state, []), x.dtype, save=True)
    tracked = x.clone().requires_grad_()
    expected, expected_last = neuron(tracked)
    assert torch.equal(out, expected) and torch.equal(last[0], expected_last.v)
    weight = torch.randn(x.shape)
    d_x, d_state, _ = triton.backward(
        Pass(equation, x, state, []), saved, Gradients(weight, [torch.zeros(neurons)], (True,))
    )
    (expected.mul(weight)).sum().backward()
    assert_close(d_x, tracked.grad, 1e-6)
    assert d_state[0].shape == (neurons,)


@pytest.mark.parametrize("neurons", [160, 2**17 + 16])
def test_blocks_of_neurons_do_not_mix(neurons):
    # More than one block, the last of them not full: small ones of 128 neurons, and large ones of 512.
    neuron, equation, x, state = lif(neurons, steps=2)
    out, *_ = triton.forward(Pass(equation, x, state, []), x.dtype, save=False)
    assert torch.equal(out, neuron(x)[0])


def test_static_input_and_expanded_gradient_are_read_in_place():
    neuron, equation, x, state = lif(15)
    static = x[:1].expand(9, 15)
    weight = torch.randn(1, 15).expand(9, 15)
    out, _, saved = triton.forward(Pass(equation, static, state, []), x.dtype, save=True)
    tracked = static.clone().requires_grad_()
    expected = neuron(tracked)[0]
    assert torch.equal(out, expected)
    d_x, *_ = triton.backward(Pass(equation, static, state, []), saved, Gradients(weight, [torch.zeros(15)], (True,)))
    assert_close(d_x, torch.autograd.grad(expected, tracked, weight)[0], 1e-6)


def test_rows_apart_in_memory():
    neuron, equation, x, _ = lif(20)
    window = x[::2, 2:17]
    out, *_ = triton.forward(Pass(equation, window, [torch.zeros(15)], []), x.dtype, save=False)
    assert torch.equal(out, neuron(window)[0])


def test_uint8_spikes():
    neuron, equation, x, state = lif(63)
    out, last, saved = triton.forward(Pass(equation, x, state, []), torch.uint8, save=False)
    expected, expected_last = neuron(x)
    assert out.dtype == torch.uint8 and torch.equal(out.to(x.dtype), expected)
    assert torch.equal(last[0], expected_last.v) and saved == []


def test_backward_runs_forward_again_if_nothing_was_saved():
    _, equation, x, state = lif(15, steps=19)
    run, d = Pass(equation, x, state, []), Gradients(torch.randn(19, 15), [torch.ones(15)], (True,))
    _, _, saved = triton.forward(run, x.dtype, save=True)
    with_it, without = triton.backward(run, saved, d), triton.backward(run, [], d)
    assert torch.equal(with_it[0], without[0]) and torch.equal(with_it[1][0], without[1][0])


def test_only_the_gradients_that_are_needed():
    one = layer("CubaLIF-learnable", 9, torch.float64)
    weight, last_weight = torch.randn_like(one.flat_x), [torch.randn_like(part) for part in one.flat_state]
    run = Pass(one.equation, one.flat_x, one.flat_state, one.parameters)

    def gradients(*needs):
        return triton.backward(run, [], Gradients(weight, last_weight, needs))

    d_x, d_state, d_parameters = gradients(True, True, True)
    none_x, some_state, some = gradients(False, False, True)
    assert none_x is None and some[0] is None
    assert torch.equal(some[1], d_parameters[1]) and some[1].dim() == 0
    assert all(torch.equal(a, b) for a, b in zip(some_state, d_state, strict=True))
    only_x = gradients(True, False, False)
    assert only_x[2] == [None, None] and torch.equal(only_x[0], d_x)
