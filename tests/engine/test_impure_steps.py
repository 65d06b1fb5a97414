"""Steps that are more than a function of their arguments: compiled engines give what eager gives, or eager runs them.

Most compiled without a word before, with what the trace had seen, as constants.
"""

from __future__ import annotations

import contextvars
import ctypes
import functools
import itertools
import os
import random
import sys
import threading
import time
import types
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from snnkit import engine
from snnkit.engine import equation_of, trace, unroll

F64 = torch.float64
counted = 0
log: list[float] = []
from_outside = contextvars.ContextVar("from_outside", default=2.0)
of_thread = threading.local()
of_thread.gain = 2.0
in_c = ctypes.c_double(2.0)
LEVEL = 2.0


def of_shape(shape=(5,), steps=4):
    x = torch.linspace(0.1, 1, steps * torch.Size(shape).numel(), dtype=F64).reshape(steps, *shape)
    return x, (torch.zeros(shape, dtype=F64),)


def gained(gain):
    """The step that multiplies by ``gain(x, state)``."""

    def step(x, state):
        return x * gain(x, state) + state[0], (state[0] * 0.5,)

    return step


class Held(nn.Module):
    """A step that changes what it holds in one of these ways."""

    def __init__(self, way):
        super().__init__()
        self.way, self.n, self.items, self.box = way, 0, [], types.SimpleNamespace(n=0)
        self.numbers = iter(range(1, 100))
        self.generator = np.random.default_rng(0)
        self.register_buffer("b", torch.ones(5, dtype=F64))
        self.p = nn.Parameter(torch.ones(5, dtype=F64), requires_grad=False)

    def step(self, x, state):
        return x * getattr(self, self.way)(x) + state[0], (state[0] * 0.5,)

    def counts(self, x):
        self.n += 1
        return self.n

    def makes_a_buffer(self, x):
        self.b = self.b * 2
        return self.b

    def scales_in_place(self, x):
        self.p.data.mul_(2.0)
        return self.p

    def appends(self, x):
        self.items.append(len(self.items))
        return len(self.items)

    def counts_in_a_box(self, x):
        self.box.n += 1
        return self.box.n

    def iterates(self, x):
        return next(self.numbers)

    def draws(self, x):
        return self.generator.random()


@pytest.fixture
def module_of_numbers():
    sys.modules["numbers_of_a_test"] = types.ModuleType("numbers_of_a_test")
    sys.modules["numbers_of_a_test"].K = 2.0
    yield sys.modules["numbers_of_a_test"]
    del sys.modules["numbers_of_a_test"]


def both(make, x, state, name):
    """Output and last state in eager and in the engine ``name``, and what was warned of."""
    results = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        for which in ("eager", name):
            engine.plan._warn_once.cache_clear()
            results.append(unroll(make(), x, state, engine=which))
    return *results, " ".join(str(w.message) for w in seen)


@pytest.mark.parametrize("way", [name for name in vars(Held) if not name.startswith("_") and name != "step"])
@pytest.mark.parametrize("name", ["cpp", "auto"])
def test_a_step_that_changes_what_it_holds_is_not_compiled(way, name):
    made = []
    (out, (last,)), (again, (same,)), warned = both(lambda: made.append(Held(way)) or made[-1], *of_shape(), name)
    assert torch.equal(out, again)
    assert torch.equal(last, same)
    assert "can't be compiled" in warned or name == "auto"
    eager, compiled = made
    assert (eager.n, eager.items, eager.box.n) == (compiled.n, compiled.items, compiled.box.n)
    assert torch.equal(eager.b, compiled.b)
    assert torch.equal(eager.p, compiled.p)


def counts_outside(x, state):
    global counted
    counted += 1
    return counted


def keeps_a_log(x, state):
    log.append(1.0)
    return len(log)


def counter_of_a_closure():
    n = 0

    def gain(x, state):
        nonlocal n
        n += 1
        return n

    return gain


COUNTERS = {
    "global": lambda: counts_outside,
    "global list": lambda: keeps_a_log,
    "nonlocal": counter_of_a_closure,
    "iterator": lambda: functools.partial(lambda numbers, x, state: next(numbers), itertools.count()),
}


@pytest.mark.parametrize("name", COUNTERS)
def test_a_step_that_counts_outside_is_not_compiled(name, monkeypatch):
    def make():
        monkeypatch.setitem(globals(), "counted", 0)
        log.clear()
        return gained(COUNTERS[name]())

    (out, _), (again, _), warned = both(make, *of_shape(), "cpp")
    assert torch.equal(out, again)
    assert "can't be compiled" in warned
    if name == "global list":
        assert len(log) == 4  # what the trace appended is gone


def with_attribute(x, state):
    return with_attribute.gain


with_attribute.gain = 2.0


def imports(x, state):
    from numbers_of_a_test import K

    return K


def set_to(place, name):
    return lambda monkeypatch: monkeypatch.setattr(place, name, 3.0)


# Where a number comes from, and how it is changed.
SOURCES = {
    "attribute of a function": (with_attribute, set_to(with_attribute, "gain")),
    "import in the step": (imports, lambda m: m.setattr(sys.modules["numbers_of_a_test"], "K", 3.0)),
    "context variable": (lambda x, s: from_outside.get(), lambda m: from_outside.set(3.0)),
    "thread's variable": (lambda x, s: of_thread.gain, lambda m: m.setattr(of_thread, "gain", 3.0)),
    "environment": (lambda x, s: float(os.environ.get("GAIN", "2")), lambda m: m.setenv("GAIN", "3")),
    "globals()": (lambda x, s: globals()["LEVEL"], lambda m: m.setitem(globals(), "LEVEL", 3.0)),
    "C": (lambda x, s: in_c.value, lambda m: m.setattr(in_c, "value", 3.0)),
    "grad mode": (lambda x, s: 2.0 + torch.is_grad_enabled(), lambda m: None),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.usefixtures("module_of_numbers")
def test_a_number_from_anywhere_is_that_of_now(name, monkeypatch):
    gain, change = SOURCES[name]
    step, x = gained(gain), of_shape()
    seen = contextvars.copy_context()
    for grad in (False, True):
        with torch.set_grad_enabled(grad), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, found = (seen.run(unroll, step, *x, engine=which)[0] for which in ("eager", "cpp"))
            assert torch.equal(expected, found)
            if not grad:
                assert torch.equal(found, 2 * x[0])
        seen.run(change, monkeypatch)
    if name != "grad mode":
        assert torch.equal(found, 3 * x[0])


@pytest.mark.parametrize(
    "gain", [lambda x, s: time.time() * 0 + 1, lambda x, s: random.random(), lambda x, s: np.random.rand()]
)
def test_time_and_random_numbers_are_not_constants(gain):
    states = random.getstate(), np.random.get_state()[1].tolist()
    with pytest.raises(engine.NotElementwise, match="which can be different at each step"):
        equation_of(gained(gain), of_shape()[1], F64, torch.device("cpu"))
    assert states == (random.getstate(), np.random.get_state()[1].tolist())  # none was drawn


# What a step could ask of a tensor, and a shape for which the answer is another than in a trace.
FORMS = {
    "shape": (lambda x: x.shape[0] == 1, (1, 7)),
    "size": (lambda x: x.size(-1) > 100, (3, 200)),
    "unpacked": (lambda x: sum(x.shape) > 100, (200,)),
    "numel": (lambda x: x.numel() > 100, (200,)),
    "dim": (lambda x: x.dim() > 2, (2, 2, 2)),
    "ndim": (lambda x: x.ndim > 2, (2, 2, 2)),
    "length of the shape": (lambda x: len(x.shape) > 2, (2, 2, 2)),
    "length": (lambda x: len(x) == 1, (1, 7)),
    "requires_grad": (lambda x: x.requires_grad, (5,)),
    "contiguous": (lambda x: not x.is_contiguous(), (5,)),
    "stride": (lambda x: x.stride(0) != 1, (5,)),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_branch_on_the_form_of_a_tensor_is_that_of_eager(name):
    asks, shape = FORMS[name]
    x, state = of_shape(shape)
    if name in ("contiguous", "stride"):
        x = torch.stack([x, x], dim=-1)[..., 0]
    (out, _), (again, _), _ = both(lambda: gained(lambda x, s: 2 if asks(x) else 3), x.requires_grad_(), state, "cpp")
    assert torch.equal(out, again)
    assert torch.equal(out, 2 * x)


@pytest.mark.parametrize(
    "ones",
    [
        lambda x, s: torch.ones(x.shape, dtype=F64),
        lambda x, s: torch.ones(*x.shape, dtype=F64),
        lambda x, s: torch.ones(x.size(), dtype=F64) if x.shape == s[0].shape else x,
        lambda x, s: x.new_ones(x.shape),
        lambda x, s: torch.full(x.shape, 1.0, dtype=F64),
    ],
)
@pytest.mark.filterwarnings("error:.*eager engine.*:UserWarning")
def test_shapes_still_make_tensors(ones):
    x, state = of_shape((3, 2))
    assert torch.equal(unroll(gained(ones), x, state, engine="cpp")[0], x)


class Cached:
    tau = 2.0

    @functools.cached_property
    def decay(self):
        return 1 - 1 / self.tau


class CachedModule(Cached, nn.Module):
    def step(self, x, state):
        return x * self.decay, state


@pytest.mark.filterwarnings("error:.*eager engine.*:UserWarning")
def test_a_cached_property_is_compiled():
    x, state = of_shape()
    holder = Cached()
    for step in (lambda x, s: (x * holder.decay, s), CachedModule()):
        assert torch.equal(unroll(step, x, state, engine="cpp")[0], 0.5 * x)
        assert torch.equal(unroll(step, x, state, engine="cpp")[0], 0.5 * x)


@pytest.mark.parametrize("mix", [torch.mul, lambda x, p: torch.where(x > 1e19, x, p)])
def test_a_parameter_of_no_dimensions_promotes_as_in_eager(mix):
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.p = nn.Parameter(torch.tensor(1e30, dtype=F64))

        def step(self, x, state):
            return mix(x.float() * 1e20, self.p).double().clamp(-1e60, 1e60), state

    (out, _), (again, _), warned = both(Mixed, *of_shape(), "cpp")
    assert torch.equal(out, again)
    assert "whether a parameter is one number" in warned


class OfThread(threading.local):
    gain = 2.0  # in every thread, until one sets its own


of_thread_by_default = OfThread()


def test_a_variable_of_a_thread_is_never_a_constant():
    with pytest.raises(engine.NotElementwise, match="it uses a variable of a thread"):
        equation_of(gained(lambda x, s: of_thread_by_default.gain), of_shape()[1], F64, torch.device("cpu"))


def in_another_thread(function):
    results = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def test_a_step_that_waits_for_a_thread_that_traces_ends(monkeypatch):
    monkeypatch.setattr(trace, "_PATIENCE", 0.5)

    def inner(x, state):
        return x * 1.9 + state[0], (state[0] * 0.5,)

    def outer(x, state):
        out = in_another_thread(lambda: unroll(inner, x[None], state, engine="cpp")[0][0])
        return out + state[0], (state[0] * 0.3,)

    (out, _), (again, _), _ = both(lambda: outer, *of_shape(), "cpp")
    torch.testing.assert_close(out, again)


def test_a_step_that_asks_for_an_equation_is_not_compiled():
    def step(x, state):
        equation_of(gained(lambda x, s: 1.9), state, F64, torch.device("cpu"))
        return x + state[0], (state[0] * 0.3,)

    (out, _), (again, _), warned = both(lambda: step, *of_shape(), "cpp")
    assert torch.equal(out, again)
    assert "equation of another step" in warned


def test_saved_tensors_may_come_back_in_another_layout():
    def step(x, state):
        return (x * x * state[0] + x).sin(), (state[0] * 0.5 + x * x,)

    gradients = []
    for name in ("eager", "cpp", "block"):
        x, state = of_shape()
        x.requires_grad_()

        def pack(t):
            return t.t().contiguous() if t.dim() == 2 else torch.stack([t, t], -1)

        def unpack(t):
            return t.t() if t.shape[-1] != 2 else t[..., 0]

        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
            out, _ = unroll(step, x, state, engine=name)
        gradients.append(torch.autograd.grad(out.sum(), x)[0])
    for found in gradients[1:]:
        torch.testing.assert_close(found, gradients[0])


def test_second_derivatives_are_those_of_the_forward_pass():
    class Squared(nn.Module):
        gain = 2.0

        def step(self, x, state):
            return x * x * self.gain + state[0], (state[0] * 0.5 + x,)

    x, state = of_shape()
    x.requires_grad_()
    neuron = Squared()
    out, _ = unroll(neuron, x, state, engine="cpp")
    neuron.gain = 5.0
    with pytest.raises(RuntimeError, match="Squared must stay as it was in its forward pass"):
        torch.autograd.grad(out.sum(), x, create_graph=True)
    (found,) = torch.autograd.grad(out.sum(), x, retain_graph=True)
    neuron.gain = 2.0
    (expected,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    torch.testing.assert_close(found, expected)


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Parameter(torch.ones(5, dtype=F64))

    def step(self, x, state):
        return x * self.p + state[0], (state[0] * 0.5,)


@pytest.mark.parametrize("name", ["eager", "cpp", "block", "auto"])
@pytest.mark.parametrize("what", ["x", "state", "parameter"])
def test_freed_memory_is_an_error(name, what):
    neuron, (x, state) = Scaled(), of_shape()
    {"x": x, "state": state[0], "parameter": neuron.p}[what].untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="x, state and parameters of Scaled must have memory"):
        unroll(neuron, x, state, engine=name)
