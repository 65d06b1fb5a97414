"""Whatever number in an equation changes, the compiled kernel must not go on with the old one."""

import functools
import gc
import math
import types
import weakref
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from snnkit import engine
from snnkit.engine import block, over_time, trace_cache
from snnkit.engine.reading import reading_of
from snnkit.neuron import LIF, MembraneState, Neuron
from snnkit.surrogate import Surrogate

REST = (torch.zeros(2, 3),)
GAIN = FACTOR = 1.0
settings = types.ModuleType("settings")
settings.GAIN = 1.0
CHANGED = 3.0


def helper():
    return GAIN


class Scaled(Neuron):
    """Multiplies its input by a number from somewhere; subclasses say from where."""

    CONSTANT = 1.0

    def __init__(self):
        super().__init__(engine="cpp")
        self._private = 1.0

    def gain(self):
        return 1.0

    def step(self, x, state):
        return self.gain() * x, MembraneState(state.v)


class Private(Scaled):
    def gain(self):
        return self._private


class Mode(Scaled):
    def gain(self):
        return 1.0 if self.training else CHANGED


class Inside(Scaled):
    """Numbers within what it holds."""

    def __init__(self):
        super().__init__()
        self.box = types.SimpleNamespace(gain=1.0)
        self.scalar = np.float32(1.0)
        self.numbers = [1.0, 2.0]

    def gain(self):
        return self.box.gain * float(self.scalar) * self.numbers[0]


class Outside(Scaled):
    """Numbers of other code."""

    def gain(self):
        return helper() * (lambda: FACTOR)() * settings.GAIN * self.CONSTANT


def set_attribute(name, value):
    return lambda neuron, patch: setattr(neuron, name, value)


CHANGES = {
    "private attribute": (Private, set_attribute("_private", CHANGED)),
    "training mode": (Mode, lambda neuron, patch: neuron.eval()),
    "class attribute": (Outside, lambda neuron, patch: patch.setattr(Scaled, "CONSTANT", CHANGED)),
    "plain object": (Inside, lambda neuron, patch: setattr(neuron.box, "gain", CHANGED)),
    "NumPy scalar": (Inside, set_attribute("scalar", np.float32(CHANGED))),
    "list item": (Inside, lambda neuron, patch: neuron.numbers.__setitem__(0, CHANGED)),
    "global in a helper": (Outside, lambda neuron, patch: patch.setitem(globals(), "GAIN", CHANGED)),
    "global in a lambda": (Outside, lambda neuron, patch: patch.setitem(globals(), "FACTOR", CHANGED)),
    "module attribute": (Outside, lambda neuron, patch: patch.setattr(settings, "GAIN", CHANGED)),
    "method replaced": (Private, lambda neuron, patch: patch.setattr(Private, "gain", lambda self: CHANGED)),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.filterwarnings("error:.*eager engine.*:UserWarning")
def test_a_changed_number_is_noticed(name, monkeypatch):
    make, change = CHANGES[name]
    neuron, x = make(), torch.rand(4, 2, 3)
    assert torch.equal(neuron(x)[0], x)
    change(neuron, monkeypatch)
    assert torch.equal(neuron(x)[0], CHANGED * x)


WIDTH = 0.5


class Gaussian(Surrogate):
    """A surrogate with a number from outside."""

    def derivative(self, u):
        return torch.exp(-((u / WIDTH) ** 2))


class Slope:
    """A surrogate that is annealed: a plain object with an attribute."""

    def __init__(self, slope):
        self.slope = slope

    def __call__(self, u):
        return torch.sigmoid(self.slope * u)


@pytest.mark.parametrize("surrogate", [Gaussian(), Slope(1.0)])
def test_a_changed_surrogate_is_noticed(surrogate, monkeypatch):
    neuron = LIF(surrogate=surrogate, engine="cpp")
    x = (torch.rand(5, 2, 3) * 2).requires_grad_()

    def gradient():
        return torch.autograd.grad(neuron(x)[0].sum(), x)[0]

    before = gradient()
    if isinstance(surrogate, Slope):
        surrogate.slope = 5.0
    else:
        monkeypatch.setitem(globals(), "WIDTH", 3.0)
    after = gradient()
    neuron.engine = "eager"
    assert not torch.allclose(before, after)
    torch.testing.assert_close(after, gradient(), rtol=1e-5, atol=1e-6)


def test_defaults_of_functions_are_part_of_it():
    def make(gain):
        def step(x, state, *, k=gain):
            return k * x, state

        return step

    x = torch.rand(4, 2, 3)
    for gain in (1.0, 2.0):
        assert torch.equal(engine.unroll(make(gain), x, REST, "cpp")[0], gain * x)


def step_of_three(gain, x, state):
    return gain * x, state


class WithMethod:
    gain = 1.0

    def step(self, x, state):
        return self.gain * x, state


@dataclass
class Unhashable:
    gain: float

    def __call__(self, x, state):
        return self.gain * x, state


class Slotted:
    __slots__ = ("gain",)

    def __init__(self, gain):
        self.gain = gain

    def __call__(self, x, state):
        return self.gain * x, state


def test_all_kinds_of_callables_are_compiled():
    x = torch.rand(4, 2, 3)
    holder = WithMethod()
    slotted = Slotted(2.0)
    for step in (functools.partial(step_of_three, 2.0), Unhashable(2.0), slotted):
        assert torch.equal(engine.unroll(step, x, REST, "cpp")[0], 2 * x)
    assert torch.equal(engine.unroll(holder.step, x, REST, "cpp")[0], x)
    holder.gain = slotted.gain = 3.0
    assert torch.equal(engine.unroll(holder.step, x, REST, "cpp")[0], 3 * x)
    assert torch.equal(engine.unroll(slotted, x, REST, "cpp")[0], 3 * x)


def test_what_is_made_anew_each_time_is_traced_once(monkeypatch):
    traced = []
    original = trace_cache.trace
    monkeypatch.setattr(trace_cache, "trace", lambda *arguments: traced.append(1) or original(*arguments))
    x = torch.rand(4, 2, 3)
    for _ in range(5):
        engine.unroll(functools.partial(step_of_three, 7.0), x, REST, "cpp")
        engine.unroll(lambda x, state: (0.7 * x, state), x, REST, "cpp")
    assert len(traced) == 2


def test_equal_floats_are_told_apart_by_type_and_sign():
    def of(number):
        return reading_of(functools.partial(step_of_three, number)).key

    assert len({of(1), of(1.0), of(True), of(0.0), of(-0.0), of(math.nan)}) == 6
    assert of(math.nan) == of(math.nan)


def test_versions_and_kernels_are_bounded(monkeypatch):
    monkeypatch.setattr(block, "_MOST_KERNELS", 1)
    monkeypatch.setattr(trace_cache, "_MOST_EQUATIONS", 2)
    neuron, x = Private(), torch.rand(1, 2, 3)
    neuron.engine = "block"
    for number in range(3):
        neuron._private = float(number)
        neuron(x)
    assert len(trace_cache._equations) == 2
    assert len(block._kernels) <= 1


def test_neurons_that_are_gone_are_forgotten():
    class Mixing(Neuron):
        def step(self, x, state):
            return x - x.mean(), MembraneState(state.v)

    for make in (LIF, Mixing):
        neuron = make(engine="cpp")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(over_time, "warn_of_fallback", lambda *arguments: None)
            neuron(torch.rand(4, 2, 3))
        gone = weakref.ref(neuron)
        del neuron
        gc.collect()
        assert gone() is None
