"""``auto`` decides by one pure rule; small passes take the C++ engine where it is equal to eager to the bit."""

from __future__ import annotations

import copy
import sys

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from snnkit import engine
from snnkit.engine import autograd, plan
from snnkit.engine.plan import AUTO, FEWEST_STEPS, MANY_STEPS, Plan, candidates, facts_of, make_plan
from snnkit.engine.program import is_exact, split
from snnkit.engine.trace import trace
from snnkit.neuron import LI, LIF, PLIF, AdEx, CubaLIF, Izhikevich, Leaky
from snnkit.nn import Sequential
from snnkit.surrogate import Sigmoid

from .zoo import ZOO, drive

CPU = torch.device("cpu")
compiler = pytest.mark.skipif(engine.cpp_compiler() is None, reason="no C++ compiler")


def equation(neuron, x):
    return engine.equation_of(neuron, neuron.initial_state(x[0]), engine.state_dtype(x), CPU)


def taken(neuron, x):
    return engine.plan_for("auto", neuron, x, neuron.initial_state(x[0])).engine


@pytest.mark.parametrize(
    "requested, device, steps, size, static, expected",
    [
        ("auto", "cpu", 100, 10_000, False, ("cpp",)),
        ("auto", "cpu", FEWEST_STEPS - 1, 10_000, False, ()),
        ("auto", "cpu", 100, 10_000, True, ("cpp",)),
        ("auto", "cpu", MANY_STEPS - 1, 10_000, True, ()),
        ("auto", "cpu", 1, 2**16, True, ("cpp",)),
        ("auto", "cpu", 100, 2**20, False, ("cpp", "block")),
        ("auto", "cuda", MANY_STEPS, 2**16 - 1, True, ("triton",)),
        ("auto", "cuda", MANY_STEPS - 1, 2**16 - 1, False, ()),
        ("auto", "cuda", 100, 2**16, False, tuple(name for name, _ in AUTO["cuda"])),
        ("auto", "mps", 100, 2**20, False, ()),
        ("triton", "cuda", 1, 1, False, ("triton", "block")),
        ("block", "cpu", 1, 1, True, ("block",)),
        ("cpp", "cpu", 1, 0, False, ()),
        ("eager", "cpu", 100, 2**20, False, ()),
    ],
)
def test_engines_that_may_run_a_call(requested, device, steps, size, static, expected):
    assert candidates(facts_of(requested, device, steps, size, static)) == expected


def test_on_a_gpu_small_passes_of_many_steps_are_one_launch_for_every_neuron():
    pytest.importorskip("triton")
    device = torch.device("cuda")
    for name in ("LIF", "CubaLIF-learnable", "AdEx"):
        traced = equation(ZOO[name](), torch.rand(2, 3, 5))
        plan = make_plan(facts_of("auto", "cuda", MANY_STEPS, 100, False), lambda: traced, device)  # noqa: B023
        assert plan.engine == "triton" and "launches" in plan.reason and not plan.fallback


class Dtypes(TorchDispatchMode):
    """Of all results."""

    def __init__(self):
        super().__init__()
        self.seen = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self.seen |= {part.dtype for part in tree_leaves(out) if isinstance(part, torch.Tensor)}
        return out


@pytest.mark.usefixtures("plain_blocks")
def test_what_is_computed_while_a_graph_is_captured_is_not_shared_with_other_calls(monkeypatch):
    # It gets its values when the graph is replayed, and other calls would read what was there before.
    for module in (plan, autograd):
        monkeypatch.setattr(module, "is_in_graph", lambda device: True)
    for cached in (autograd._one_zero, autograd._zero_step):
        monkeypatch.setattr(autograd, cached.__name__, None)
    neuron, x = CubaLIF(engine="block"), torch.rand(5, 2, 3, requires_grad=True)
    assert plan.planned("block", neuron, x, None, False) is None
    out, last = neuron(x)
    expected = CubaLIF(engine="eager")(x)
    for found, wanted in ((out, expected[0]), (last.v, expected[1].v)):  # the other has no gradient
        gradients = [torch.autograd.grad(result.sum(), x, retain_graph=True) for result in (found, wanted)]
        torch.testing.assert_close(*gradients)


def test_on_apples_gpu_neurons_are_eager_and_in_float32():
    """There is no such GPU here, but the operations are those of any device that no engine compiles for, like "meta".
    It has no float64."""
    for make in ZOO.values():
        neuron = make().to("meta")
        x = torch.rand(2, 3, 5, device="meta", requires_grad=True)
        with Dtypes() as dtypes:
            out, _ = neuron(x)
            out.sum().backward()
        assert x.grad is not None and torch.float32 in dtypes.seen and torch.float64 not in dtypes.seen
    facts = facts_of("cpp", "mps", 100, 2**20, False, "no kernel can read a tensor of another form")
    plan = make_plan(facts, lambda: "", torch.device("mps"))
    assert plan == Plan("eager", "no engine compiles for 'mps' devices", fallback=True)


EXACT = [
    *("IF", "IF-soft", "IF-reset-negative", "LIF", "LIF-soft", "LIF-rest"),
    *("Leaky", "Leaky-zero", "Leaky-none", "Leaky-now", "Leaky-zero-now", "CubaLIF", "ALIF", "Izhikevich"),
    *("LI", "Readout", "OneToOne"),  # whose output is a part of the state
]


@compiler
def test_neurons_with_numbers_alone_are_exact_and_so_is_whatever_says_so():
    found = [key for key in ZOO if is_exact(equation(ZOO[key](), torch.rand(2, 3, 5)))]
    assert set(EXACT) <= set(found)
    for key in found:
        check_exact(key, torch.float64, state_too=True)  # of which `test_compiled.py` has the kernels


FUSED = {
    "add": lambda a, b: torch.add(a, b, alpha=0.3),
    "sub-in-place": lambda a, b: a.clone().sub_(b, alpha=0.3),
    "lerp": lambda a, b: a.lerp(b, 0.3),
}


@pytest.mark.parametrize("name", FUSED)
def test_fused_sums_are_not_exact(name):
    """In eager PyTorch these round once, so they may differ in the last place: -2.4e-7 for -1.8e-7 of 2.1 - 0.3 * 7."""

    def step(x, state):
        return FUSED[name](x, state[0]), state

    like = (torch.zeros(3),)
    assert not is_exact(trace(step, like, [], torch.float32, torch.device("cpu")))


# Every neuron and every dtype, in pairs: each neuron in two of the four, one of them slow.
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
PAIRS = [
    *((key, DTYPES[i % 4]) for i, key in enumerate(EXACT)),
    *(pytest.param(key, DTYPES[(i + 1) % 4], marks=pytest.mark.slow) for i, key in enumerate(EXACT)),
]


@compiler
@pytest.mark.parametrize("key, dtype", PAIRS)
def test_exact_means_equal_to_the_bit(key, dtype):
    check_exact(key, dtype)


def check_exact(key, dtype, state_too=False):
    results = []
    for name in ("eager", "cpp"):
        torch.manual_seed(0)
        neuron = ZOO[key]()
        neuron.engine = name
        x = drive(neuron, 23, 3, 37).to(dtype).requires_grad_()
        start = neuron.initial_state(x[0]) if state_too else None
        if start is not None:
            start = type(start)(*((part + 0.1).detach().requires_grad_() for part in start))
        out, state = neuron(x, start)
        weight = torch.rand(out.shape).to(dtype)
        loss = (out * weight).sum() + sum(part.to(dtype).sum() for part in state)
        wanted = (x, *(start or ()))
        # The membrane of Alpha is only compared with its threshold, so nothing depends on its first value.
        results.append((out, *state, *torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)))
    assert results[0][0].count_nonzero() > 0
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


# Steps whose output is a part of the state: how often that is used, in the same step, too, and whether it is exact.
READOUTS = {
    "0.5 * u + x; (v, w + 0.5 * v)": True,
    "u + x; (v, v * w * 0.125 + x)": True,
    "u - 0.1 * u + x; (v, w)": True,
    "u + 0.1 * ((0.3 - u) + x); (v, v * w + u)": False,  # u is used three times
    "torch.where(u > 0, u, x) + 0.2 * x; (v, w + 0.1 * v)": True,
    "u.detach() * 0.5 + u * x; (v, w * v)": True,
    "u * u * 0.1 - x; (v, w - 0.5 * v + x)": True,
    "torch.tanh(u) * 0.9 + x; (v, w)": False,
    "u - u + x; (w + u, v)": True,
}


@compiler
@pytest.mark.parametrize("text", READOUTS)
def test_what_a_step_sends_back_to_its_output_is_added_as_for_a_sequence(text):
    value, _, result = text.partition("; ")

    def step(x, state):
        u, w = state
        v = eval(value, {"torch": torch, "u": u, "w": w, "x": x})
        return v, eval(result, {"u": u, "w": w, "x": x, "v": v})

    torch.manual_seed(0)
    state, results = [torch.randn(3, 37) for _ in range(2)], []
    x, weights = torch.randn(23, 3, 37), torch.randn(23, 3, 37)
    assert is_exact(trace(step, state, [], torch.float32, torch.device("cpu"))) == READOUTS[text]
    for name in ("eager", "cpp"):
        inputs = [t.clone().requires_grad_() for t in (x, *state)]
        out, last = engine.unroll(step, inputs[0], tuple(inputs[1:]), engine=name)
        losses = (out * weights).sum(), (out * weights).sum() + (last[0] * last[1]).sum()
        results.append(
            [g for loss in losses for g in torch.autograd.grad(loss, inputs, retain_graph=True, materialize_grads=True)]
        )
    assert not READOUTS[text] or all(map(torch.equal, *results))


class ThreeTerms(LI):
    """Its step sends three gradients back to the state that is the output, too."""

    def step(self, x, state):
        v = 0.5 * state.v + (0.25 * x - state.v * state.v)
        return v, state._replace(v=v)


@compiler
def test_gradients_that_might_differ_in_the_last_bit_are_compiled_from_many_steps_on_and_outputs_never():
    few, many = torch.rand(MANY_STEPS - 1, 2, 3), torch.rand(MANY_STEPS, 2, 3)
    for neuron in (LIF(surrogate=Sigmoid()), Leaky(nn.Parameter(torch.tensor(0.9))), ThreeTerms()):
        assert [taken(neuron, x) for x in (few, many)] == ["eager", "cpp"]
        found, expected = (copy_of(neuron, name)(many)[0] for name in ("auto", "eager"))
        assert torch.equal(found, expected)
    for neuron in (PLIF(), AdEx()):  # a sigmoid, an exponential function
        assert [taken(neuron, x) for x in (few, many)] == ["eager", "eager"]


def copy_of(neuron, name):
    neuron = copy.deepcopy(neuron)
    neuron.engine = name
    return neuron


@compiler
def test_equal_calls_get_equal_plans_whatever_ran_before():
    neuron, x = Leaky(0.9), torch.rand(25, 2, 3)
    plans = [engine.plan_for("auto", neuron, x, neuron.initial_state(x[0])) for _ in range(3)]
    neuron(x)
    rows = engine.explain(neuron, x)
    plans.append(engine.plan_for("auto", neuron, x, neuron.initial_state(x[0])))
    assert plans[0].engine == "cpp" == rows[0].engine
    assert all(plan is plans[0] for plan in plans)
    assert taken(neuron, x[:1]) == taken(neuron, x[:1].expand(MANY_STEPS - 1, 2, 3)) == "eager"


def test_without_a_compiler_small_passes_stay_in_eager_without_a_warning(monkeypatch, recwarn):
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    neuron, x = LIF(), torch.rand(25, 2, 3)
    neuron(x)
    assert taken(neuron, x) == "eager" and not [w for w in recwarn if "engine" in str(w.message)]


def test_equal_steps_share_an_equation_and_only_they():
    x = torch.rand(3, 2, 5)
    assert equation(LIF(3.5), x) is equation(LIF(3.5), x)
    assert equation(LIF(3.5), x) is not equation(LIF(3.25), x)
    assert equation(LIF(3.5), x) is not equation(LIF(3.5), x.double())
    assert equation(LIF(torch.tensor(3.5)), x).parameters == 1


@pytest.mark.parametrize("make, numbers", [(LI, 0), (LIF, 1), (lambda: Leaky(0.9), 1), (CubaLIF, 1), (Izhikevich, 3)])
def test_backward_is_given_the_fewest_numbers_of_each_step(make, numbers):
    """Of a linear neuron nothing; of two states and an input often one number, of two half-steps with v² three."""
    one = equation(make(), torch.rand(2, 1, 5))
    assert len(split(one, tuple(range(1 + one.states))).saved) == numbers


@compiler
def test_a_warm_call_runs_the_code_of_eight_modules():
    """nn, linear, the neuron, over_time, plan, warm, the gate of memory, and the engine."""
    net = Sequential(nn.Linear(20, 30), Leaky(0.9), nn.Linear(30, 5), CubaLIF(), nn.Linear(5, 4), LIF())
    x = torch.rand(20, 2, 20, requires_grad=True)
    for _ in range(2):
        net(x)
    modules = set()
    sys.setprofile(lambda frame, event, arg: modules.add(frame.f_globals.get("__name__", "")))
    try:
        net(x)
    finally:
        sys.setprofile(None)
    ours = {name for name in modules if name.startswith("snnkit")}
    assert len(ours) <= 8, ours
