"""States that are one value in memory for all neurons: at rest, or the gradient of a sum."""

import pytest
import torch

from snnkit.engine import unroll
from snnkit.neuron import IF, LIF, CubaLIF, Izhikevich, Leaky
from snnkit.neuron.cuba import SynapticState

ENGINES = ("eager", "block", "cpp")


@pytest.mark.parametrize(
    "neuron",
    [IF(), IF(v_reset=None), LIF(v_reset=0.25), Leaky(0.9), CubaLIF(v_leak=0.5)],
    ids=lambda n: type(n).__name__,
)
def test_the_rest_of_a_layer_takes_the_memory_of_one_neuron(neuron):
    one = torch.empty(()).expand(3, 5)
    rest, dense = neuron.initial_state(one), neuron.initial_state(torch.empty(3, 5))
    for small, large in zip(rest, dense, strict=True):
        assert small.stride() == (0, 0) and large.is_contiguous()
        torch.testing.assert_close(small, large)


def test_a_rest_that_is_a_tensor_or_computed_is_as_before():
    one = torch.empty(()).expand(3, 5)
    assert torch.equal(LIF(v_reset=torch.tensor(0.5)).initial_state(one).v, torch.full((3, 5), 0.5))
    u = Izhikevich().initial_state(one).u
    assert u.shape == (3, 5) and u.unique().numel() == 1


@pytest.mark.parametrize("engine", ENGINES)
def test_a_state_of_one_value_and_the_gradient_of_a_sum(engine):
    """Both the first state and the gradient of the last one have stride 0 here, and are not zero."""
    torch.manual_seed(0)
    x = torch.rand(7, 3, 70, dtype=torch.float64, requires_grad=True)
    neuron = CubaLIF(engine=engine)
    found = []
    for start in (torch.tensor(0.3).double().expand(3, 70), torch.full((3, 70), 0.3).double()):
        v = start.clone().requires_grad_() if start.is_contiguous() else start
        out, last = neuron(x, SynapticState(v, v))
        gradient = torch.autograd.grad(out.square().sum() + last.v.sum() + 2 * last.i.sum(), x)[0]
        found.append((out, *last, gradient))
    for one, each in zip(*found, strict=True):
        torch.testing.assert_close(one, each)
    reference = unroll(CubaLIF(engine="eager"), x, SynapticState(v, v), engine="eager")
    torch.testing.assert_close(found[0][0], reference[0])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("part", ["out", "last"])
def test_a_loss_that_looks_at_one_result_only(engine, part):
    """What the other would get as gradient is not made, and counts as zero."""
    x = torch.rand(6, 2, 33, dtype=torch.float64, requires_grad=True)
    gradients = []
    for name in (engine, "eager"):
        out, last = Leaky(0.8, engine=name)(x)
        gradients.append(torch.autograd.grad((out if part == "out" else last.mem).square().sum(), x)[0])
    torch.testing.assert_close(*gradients)
