"""The states after every step, which ``nn.recording`` asks the engines for: as eager's, with their gradients."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import Tensor

from snnkit.engine import block, plan_for, unroll
from snnkit.engine.observe import observed
from snnkit.engine.plan import MANY_STEPS
from snnkit.neuron import LIF, CubaLIF, Leaky
from snnkit.neuron.cuba import SynapticState

from .zoo import FEATURES, ZOO, drive

EVERY_BLOCK = 2 * block.BLOCKS["cpu"][0] + 1


@pytest.fixture(autouse=True)
def no_fallback():
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*runs in the .* engine", category=UserWarning)
        yield


def states_of(call):
    """The result of ``call()``, and the states of every step of each of its passes."""
    seen = []
    with observed(seen.append, states=True):
        result = call()
    return result, [one.states for one in seen]


def weighted(tensors: list[Tensor]) -> Tensor:
    """A loss in which every number has a weight of its own."""
    return torch.stack([(t * torch.arange(1, t.numel() + 1).sin().reshape(t.shape)).sum() for t in tensors]).sum()


def two_calls(neuron, x, engine):
    """Spikes and states of two calls, the second from the last state of the first, and all gradients."""
    neuron, x = copy.deepcopy(neuron), x.detach().requires_grad_()
    neuron.engine = engine
    state = neuron.initial_state(torch.zeros(x.shape[1:], dtype=torch.float64))
    state = type(state)(*((part + 0.1).requires_grad_() for part in state))

    def call():
        first, last = neuron(x, state)
        second, last = neuron(x.flip(0), last)
        return [first, second, *last]

    values, states = states_of(call)
    assert all(type(every) is neuron.State for every in states) and len(states) == 2
    values += [part for every in states for part in every]
    wanted = [x, *state, *neuron.parameters()]
    # A part of the first state may have no effect: no gradient then, or zeros.
    gradients = torch.autograd.grad(weighted(values), wanted, allow_unused=True)
    pairs = zip(gradients, wanted, strict=True)
    return values, [torch.zeros_like(one) if gradient is None else gradient for gradient, one in pairs]


def assert_as_eager(neuron, x, engine):
    values, gradients = two_calls(neuron, x, engine)
    expected, expected_gradients = two_calls(neuron, x, "eager")
    for found, wanted in zip(values, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-13)
    for found, wanted in zip(gradients, expected_gradients, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-9 * wanted.abs().max().clamp_min(1e-6).item())


QUICK = ("LIF", "Leaky-learnable", "CubaLIF-learnable", "Izhikevich-learnable", "LI")
CPP = [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in ZOO]


@pytest.mark.parametrize("name", ZOO)
def test_eager_states_are_those_of_single_steps(name):
    neuron = ZOO[name]().double()
    neuron.engine = "eager"  # by itself, what is exact runs in C++
    x = drive(neuron, 5, 3, FEATURES)
    (_, last), (every,) = states_of(lambda: neuron(x))
    state = None
    for t in range(len(x)):
        (_, state), (single,) = states_of(lambda t=t, state=state: neuron(x[t : t + 1], state))
        for part, alone, after in zip(every, single, state, strict=True):
            assert torch.equal(part[t], after) and torch.equal(alone, after[None])
    assert all(torch.equal(part[-1], end) for part, end in zip(every, last, strict=True))


@pytest.mark.parametrize("name", ZOO)
def test_block_equals_eager(name, plain_blocks):
    neuron = ZOO[name]().double()
    assert_as_eager(neuron, drive(neuron, EVERY_BLOCK, 3, FEATURES), "block")


def test_block_compiled_by_inductor_equals_eager():
    assert_as_eager(CubaLIF().double(), drive(CubaLIF(), EVERY_BLOCK - 1, 3, FEATURES), "block")


@pytest.mark.parametrize("name", CPP)
def test_cpp_equals_eager(name):
    neuron = ZOO[name]().double()
    assert_as_eager(neuron, drive(neuron, EVERY_BLOCK, 3, FEATURES), "cpp")


both = pytest.mark.parametrize("engine", ["block", "cpp"])


@both
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_states_are_float32_whatever_the_input(dtype, engine, plain_blocks):
    x = (torch.rand(9, 3, FEATURES) * 1.4).to(dtype)
    (found,), (expected,) = (states_of(lambda e=e: LIF(engine=e)(x))[1] for e in (engine, "eager"))
    assert found.v.dtype == torch.float32
    torch.testing.assert_close(found.v, expected.v, rtol=1e-6, atol=1e-6)


@both
def test_every_layout_and_bytes(engine, plain_blocks):
    base = torch.rand(9, 4, 6, 5, 5) * 1.4
    last = base.flatten(0, 1).contiguous(memory_format=torch.channels_last).unflatten(0, (9, 4))
    for x in (base, last, base.transpose(0, 1)[:4], base[:1].expand(9, 4, 6, 5, 5), base[..., ::2]):
        (_, (found,)), (_, (expected,)) = (
            states_of(lambda e=e, x=x: LIF(engine=e)(x, out_dtype=torch.uint8)) for e in (engine, "eager")
        )
        assert torch.equal(found.v, expected.v)


@both
def test_large_passes_are_written_around_the_cache_and_by_threads(engine, plain_blocks):
    x = torch.rand(5, 3, 70_001) * 1.4
    (found,), (expected,) = (states_of(lambda e=e: Leaky(0.9, engine=e)(x))[1] for e in (engine, "eager"))
    assert all(map(torch.equal, found, expected))


@both
def test_input_that_stands_still(engine, plain_blocks):
    one = (torch.rand(3, FEATURES, dtype=torch.float64) * 1.5).requires_grad_()
    gradients = []
    for name in (engine, "eager"):
        (out, _), (every,) = states_of(lambda name=name: unroll(LIF(), one, engine=name, repeat=EVERY_BLOCK))
        gradients.append(torch.autograd.grad(weighted([out, every.v]), one)[0])
    torch.testing.assert_close(*gradients)


def risky(x, state):
    """Two parts that do not depend on each other; the derivative of the first is infinite where x is 0."""
    w = 0.9 * state.i + x
    return w, SynapticState(torch.sqrt(state.v * x), w)


def of_one_part(engine, part, x):
    x = x.clone().requires_grad_()
    state = SynapticState(torch.ones_like(x[0]), torch.zeros_like(x[0]))
    _, (every,) = states_of(lambda: unroll(risky, x, state, engine=engine))
    return torch.autograd.grad(weighted([getattr(every, part)]), x)[0]


@both
def test_an_absent_gradient_of_one_part_is_not_zero_times_infinity(engine, plain_blocks):
    x = torch.rand(9, 2, FEATURES, dtype=torch.float64) + 0.1
    for part, zeros in (("i", True), ("i", False), ("v", False)):
        x[3, 0] = 0.0 if zeros else 0.5
        found, expected = (of_one_part(name, part, x) for name in (engine, "eager"))
        assert expected.isfinite().all() and expected.abs().sum() > 0
        torch.testing.assert_close(found, expected)


@both
def test_gradients_of_gradients(engine, plain_blocks):
    neuron = ZOO["CubaLIF-learnable"]().double()
    x = drive(neuron, 6, 3, FEATURES).requires_grad_()
    results = []
    for neuron.engine in (engine, "eager"):
        (out, _), (every,) = states_of(lambda: neuron(x))
        loss = weighted([out.square(), every.v.square(), every.i.square()])
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        results.append((first, *torch.autograd.grad(first.square().sum(), [x, *neuron.parameters()])))
    for found, expected in zip(*results, strict=True):
        assert expected.abs().sum() > 0
        torch.testing.assert_close(found, expected)


@both
def test_transforms(engine, plain_blocks):
    batch_first = drive(LIF(), 5, 9, 4, 3)

    def loss(one, name):
        (out, _), (every,) = states_of(lambda: LIF(engine=name)(one))
        return weighted([out, every.v])

    for transform in (torch.vmap, lambda f, in_dims: torch.vmap(torch.func.grad(f), in_dims)):
        found, expected = (transform(loss, in_dims=(0, None))(batch_first, name) for name in (engine, "eager"))
        torch.testing.assert_close(found, expected)


def test_short_passes_of_small_layers_whose_states_have_gradients_are_eager_so_that_they_equal_it_to_the_bit():
    x = torch.rand(MANY_STEPS - 1, 2, 30)
    state = LIF().initial_state(x[0])
    assert plan_for("auto", LIF(), x, state, every=True).engine == "cpp"
    plan = plan_for("auto", LIF(), x.requires_grad_(), state, every=True)
    assert plan.engine == "eager" and "every state has a gradient of its own" in plan.reason
    assert plan_for("auto", LIF(), x, state).engine == "cpp"
    with torch.no_grad():
        assert plan_for("auto", LIF(), x, state, every=True).engine == "cpp"
