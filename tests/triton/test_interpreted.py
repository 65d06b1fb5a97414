"""Every generated kernel, run by Triton's interpreter, equals the eager engine."""

import pytest
import torch
from torch import nn

from snnkit.engine import unroll
from snnkit.neuron import LIF
from tests.engine.test_every_state import assert_as_eager, of_one_part
from tests.engine.zoo import FEATURES, ZOO, drive, results

# Lanes past the last neuron compute with zeros, and divide by them.
pytestmark = [
    pytest.mark.usefixtures("interpreter"),
    pytest.mark.filterwarnings("ignore:.*encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("error:.*runs in the .* engine:UserWarning"),
]


def assert_same(neuron, x, tolerance=3e-6):
    """Outputs and last states to the bit, gradients of x, the first state and parameters closely."""
    out, last, gradients = results(neuron, x, "triton")
    expected, expected_last, expected_gradients = results(neuron, x, "eager")
    if x.dtype == torch.bfloat16 and not neuron.spiking:
        # The interpreter cuts bfloat16 off where PyTorch and GPUs round; spikes are the same in both.
        torch.testing.assert_close(out, expected, rtol=2**-7, atol=0)
    else:
        assert torch.equal(out, expected)
    assert all(map(torch.equal, last, expected_last))
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        # Parameters get sums over time, and over all neurons, of terms of both signs.
        close = tolerance if found.shape == x.shape or x.dtype == torch.float64 else max(tolerance, 1e-4)
        scale = wanted.abs().max().clamp_min(1e-6).item()
        torch.testing.assert_close(found, wanted, rtol=close, atol=close * scale)


@pytest.mark.parametrize(("dtype", "steps", "tolerance"), [(torch.float64, 19, 1e-12), (torch.float32, 9, 3e-6)])
@pytest.mark.parametrize("name", ZOO)
def test_every_neuron(name, dtype, steps, tolerance):
    neuron = ZOO[name]().to(dtype)
    assert_same(neuron, drive(neuron, steps, 3, FEATURES, dtype=dtype), tolerance)


@pytest.mark.parametrize("name", ZOO)
def test_the_states_after_every_step(name):
    neuron = ZOO[name]().double()
    assert_as_eager(neuron, drive(neuron, 9, 3, FEATURES), "triton")


def test_an_absent_gradient_of_one_part_of_every_state_is_not_zero_times_infinity():
    x = torch.rand(9, 2, FEATURES, dtype=torch.float64) + 0.1
    x[3, 0] = 0.0
    torch.testing.assert_close(of_one_part("triton", "i", x), of_one_part("eager", "i", x))
    x[3, 0] = 0.5
    torch.testing.assert_close(of_one_part("triton", "v", x), of_one_part("eager", "v", x))


# Blocks are of eight steps: less than one, one, two and a bit.
@pytest.mark.parametrize("steps", [1, 7, 8, 19])
@pytest.mark.parametrize("name", ["LIF-learnable-tau", "CubaLIF", "LI"])
def test_every_length(name, steps):
    neuron = ZOO[name]()
    assert_same(neuron, drive(neuron, steps, 3, FEATURES, dtype=torch.float32))


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 2**-7), (torch.float16, 2**-10)])
@pytest.mark.parametrize("name", ["LIF", "CubaLIF", "PLIF", "LI-learnable"])
def test_arithmetic_is_float32_whatever_the_input(name, dtype, tolerance):
    neuron = ZOO[name]()
    assert_same(neuron, drive(neuron, 9, 3, FEATURES, dtype=dtype), tolerance)


# More than one block, the last of them not full: small ones of 128 neurons, and large ones of 512.
@pytest.mark.parametrize(("neurons", "steps"), [(1, 9), (63, 9), (160, 2), (500, 9), (2**17 + 16, 2)])
def test_every_size(neurons, steps):
    assert_same(LIF(tau=3.0), torch.rand(steps, 1, neurons) * 2)


VIEWS = {
    "static": lambda x: x[:1].expand(9, 4, 20),
    "rows apart": lambda x: x[::2, :, 2:17],
    "batch first": lambda x: x.transpose(0, 1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_x_and_an_expanded_gradient_are_read_in_place(name):
    x, found = (torch.rand(9, 4, 20) * 2).requires_grad_(), []
    for engine in ("triton", "eager"):
        out, _ = LIF(tau=3.0, engine=engine)(VIEWS[name](x))
        weight = torch.linspace(-1, 1, out.shape[2]).expand_as(out)
        found.append((out.detach(), torch.autograd.grad(out, x, weight)[0]))
    (out, gradient), (expected, wanted) = found
    assert torch.equal(out, expected) and 0 < out.mean() < 1
    torch.testing.assert_close(gradient, wanted, rtol=1e-6, atol=1e-6)


def test_uint8_spikes():
    x = torch.rand(9, 2, 63) * 2
    (out, last), (expected, expected_last) = LIF(engine="triton")(x, out_dtype=torch.uint8), LIF(engine="eager")(x)
    assert out.dtype == torch.uint8 and torch.equal(out.to(x.dtype), expected)
    assert torch.equal(last.v, expected_last.v)


@pytest.mark.parametrize("wanted", [["x"], ["1"], ["x", "0"]])
def test_only_the_gradients_that_are_needed(wanted):
    """Those of x and of the parameters, which are numbered, as when all are."""
    neuron = ZOO["CubaLIF-learnable"]().double()
    neuron.engine = "triton"
    leaf: dict[str, nn.Parameter | torch.Tensor] = {"x": drive(neuron, 9, 3, FEATURES)}
    leaf |= {str(number): parameter for number, parameter in enumerate(neuron.parameters())}
    found = []
    for needed in (list(leaf), wanted):
        for name, tensor in leaf.items():
            tensor.requires_grad_(name in needed)
        gradients = torch.autograd.grad(neuron(leaf["x"])[0].sum(), [leaf[name] for name in needed])
        found.append(dict(zip(needed, gradients, strict=True)))
    assert all(torch.equal(gradient, found[0][name]) for name, gradient in found[1].items())


def test_results_that_are_one_infinite_number():
    def step(x, state):
        return torch.log(torch.zeros(x.shape).to(x)), state

    x = torch.ones(3, 5)
    assert torch.equal(unroll(step, x, (torch.zeros(5),), engine="triton")[0], torch.full_like(x, -torch.inf))
