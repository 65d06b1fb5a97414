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
from snnkit.engine import block, over_time, plan, trace_cache
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


class Other(Scaled):
    def gain(self):
        return CHANGED


class Mode(Scaled):
    def gain(self):
        return 1.0 if self.training else CHANGED


class Inside(Scaled):
    """Numbers within what it holds."""

    def __init__(self):
        super().__init__()
        self.box = Box()
        self.scalar = np.float32(1.0)
        self.numbers = [1.0, 2.0]

    def gain(self):
        return self.box.gain * float(self.scalar) * self.numbers[0]


class Outside(Scaled):
    """Numbers of other code."""

    def gain(self):
        return helper() * (lambda: FACTOR)() * settings.GAIN * self.CONSTANT


class Shadowed(Scaled):
    """An attribute of the object hides that of the class."""

    _private = CHANGED

    def gain(self):
        return self._private


class Built(Scaled):
    """A name of Python's own, until the module has one, too."""

    def gain(self):
        return float(1)


def with_keyword(*, k=1.0):
    return k


def with_default(k=1.0):
    return k


class Called(Scaled):
    def gain(self):
        return with_keyword() * with_default()


class Box:
    def __init__(self):
        self.gain = 1.0


class Tripled(Box):
    gain = property(lambda self: CHANGED)


def set_attribute(name, value):
    return lambda neuron, patch: setattr(neuron, name, value)


CHANGES = {
    "private attribute": (Private, set_attribute("_private", CHANGED)),
    "item of __dict__": (Private, lambda neuron, patch: vars(neuron).update(_private=CHANGED)),
    "attribute set around __setattr__": (
        Private,
        lambda neuron, patch: object.__setattr__(neuron, "_private", CHANGED),
    ),
    "attribute deleted": (Shadowed, lambda neuron, patch: delattr(neuron, "_private")),
    "attribute of a subclass added": (
        Outside,
        lambda neuron, patch: patch.setattr(Outside, "CONSTANT", CHANGED, False),
    ),
    "another class": (Private, set_attribute("__class__", Other)),
    "another class of a part": (Inside, lambda neuron, patch: setattr(neuron.box, "__class__", Tripled)),
    "name of a builtin": (Built, lambda neuron, patch: patch.setitem(globals(), "float", lambda number: CHANGED)),
    "keyword's default": (Called, lambda neuron, patch: patch.setitem(with_keyword.__kwdefaults__, "k", CHANGED)),
    "defaults": (Called, lambda neuron, patch: patch.setattr(with_default, "__defaults__", (CHANGED,))),
    "code": (Called, lambda neuron, patch: patch.setattr(with_default, "__code__", (lambda k: CHANGED).__code__)),
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


class Tensors(Neuron):
    """Which tensors there are decides."""

    def __init__(self):
        super().__init__(engine="cpp")
        self.a = torch.nn.Parameter(torch.tensor(2.0))
        self.register_buffer("b", torch.tensor(3.0))
        self.register_buffer("c", torch.tensor(5.0))

    def step(self, x, state):
        gain = self.a if "a" in self._parameters else 7 * self.d
        return gain * x + (self.b if self.c is None else self.b - self.c), MembraneState(state.v)


def rename(neuron):
    del neuron.a
    neuron.d = torch.nn.Parameter(torch.tensor(2.0))


def reorder(neuron):
    b, c = neuron.b, neuron.c
    del neuron.b, neuron.c
    neuron.register_buffer("c", c)
    neuron.register_buffer("b", b)


@torch.no_grad()
def in_place(neuron):
    neuron.a.mul_(2)
    neuron.b.data = torch.tensor(11.0)


@pytest.mark.parametrize(
    "change",
    [rename, reorder, in_place, lambda n: setattr(n, "c", None), lambda n: n.double()],
    ids=["rename", "reorder", "in place", "none", "double"],
)
@pytest.mark.filterwarnings("error:.*eager engine.*:UserWarning")
def test_the_tensors_of_a_neuron_are_those_of_the_call(change):
    neuron = Tensors()
    x = torch.rand(4, 2, 3)
    for _ in range(2):
        neuron(x)
    change(neuron)
    x = x.to(next(neuron.buffers()).dtype)
    out, _ = neuron(x)
    neuron.engine = "eager"
    assert torch.equal(out, neuron(x)[0])


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


def test_versions_and_kernels_are_bounded(monkeypatch, plain_blocks):
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


class Resting(LIF):
    start = -3.0


def at_rest(neuron, x):
    """The membrane after one step without input, which is what it began with."""
    return neuron(torch.zeros_like(x))[1].v


def replaced(self, x):
    return MembraneState(torch.full_like(x, -2.0))


@functools.wraps(LIF.initial_state)
def wrapped(self, x, original=LIF.initial_state):
    return MembraneState(original(self, x).v - 2.0)


RESTS = {
    "number": lambda neuron, patch: setattr(neuron, "v_reset", -2.0),
    "buffer": lambda neuron, patch: delattr(neuron, "v_reset") or neuron.register_buffer("v_reset", torch.tensor(-2.0)),
    "none": lambda neuron, patch: setattr(neuron, "v_reset", None),
    "method of the class": lambda neuron, patch: patch.setattr(Resting, "initial_state", replaced, False),
    "method of a base": lambda neuron, patch: patch.setattr(Neuron, "initial_state", replaced),
    "method of the object": lambda neuron, patch: setattr(neuron, "initial_state", types.MethodType(replaced, neuron)),
    "wrapped method": lambda neuron, patch: patch.setattr(Resting, "initial_state", wrapped, False),
    "name of the attribute": lambda neuron, patch: patch.setattr(Resting, "resting", {"v": "start"}, False),
    "item of the names": lambda neuron, patch: patch.setitem(Resting.resting, "v", "start"),
}


@pytest.mark.parametrize("name", RESTS)
def test_a_changed_state_at_rest_is_noticed(name, monkeypatch):
    neuron, x = Resting(tau=1e6, v_threshold=9.0), torch.rand(5, 2, 3)
    for _ in range(2):
        at_rest(neuron, x)
    RESTS[name](neuron, monkeypatch)
    after = at_rest(neuron, x)
    neuron.engine = "eager"
    torch.testing.assert_close(after, at_rest(neuron, x), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["eager", "cpp"])
def test_a_state_at_rest_is_of_one_call(name):
    """Compiled calls share it; what a user gets is his own."""

    class Lazy(Neuron):
        def step(self, x, state):
            return x, state

    neuron = Lazy(engine=name)
    for _ in range(3):
        _, state = neuron(torch.rand(4, 1, 1))
        assert state.v.item() == 0
        state.v.add_(1.0)


def test_calls_of_many_shapes_are_bounded(monkeypatch):
    monkeypatch.setattr(plan, "_MOST_CALLS", 4)
    neuron = LIF()
    for steps in range(4, 14):
        neuron(torch.rand(steps, 2, 3))
    assert 1 <= len(plan._known[neuron].calls) <= 4


def test_numbers_that_one_place_in_memory_holds_for_all_neurons_are_read_there():
    tau = torch.nn.Parameter(torch.tensor(3.0).expand(5))
    x = torch.rand(6, 2, 5)
    out, state = LIF(tau, engine="cpp")(x)
    expected = LIF(3.0, engine="eager")(x)
    assert torch.equal(out, expected[0])
    torch.testing.assert_close(state.v, expected[1].v)
