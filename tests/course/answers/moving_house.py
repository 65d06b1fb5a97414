"""Answers to the exercises of moving_house."""

from itertools import pairwise

import torch
from torch import nn
from torch.utils import _pytree

from snnkit import data, encode
from snnkit.lab.exercises.moving_house import NestedSNN
from snnkit.neuron import LIF
from snnkit.neuron.base import MembraneState

# Exercise 1


def mover(tensor=lambda t, device: t.to(device), none=lambda: None, join=None, deep=True):
    """An answer to exercise 1 with one of its parts exchanged."""

    def answer(state, device):
        if state is None:
            return none()
        if isinstance(state, torch.Tensor):
            return tensor(state, device)
        one = answer if deep else (lambda part, where: tensor(part, where) if hasattr(part, "to") else part)
        parts = [one(part, device) for part in state]
        if join is not None:
            return join(state, parts)
        return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)

    return answer


def by_recursion(state, device):
    if isinstance(state, tuple):
        moved = (by_recursion(part, device) for part in state)
        return state._make(moved) if hasattr(state, "_make") else tuple(moved)
    return state if state is None else state.to(device)


def by_torch(state, device):
    return _pytree.tree_map(lambda part: part if part is None else part.to(device), state)


def one_level(state, device):
    if isinstance(state, torch.Tensor):
        return state.to(device)
    return tuple(part.to(device) for part in state)


MOVES = [
    (mover(tensor=lambda t, device: t), "a tensor", 0),
    (mover(tensor=lambda t, device: t.to("meta")), "a tensor", 0),
    (mover(tensor=lambda t, device: t.float().to(device)), "a tensor", 0),
    (mover(tensor=lambda t, device: torch.zeros_like(t, device=device)), "a tensor", 0),
    (mover(none=lambda: ()), "None", 1),
    (mover(join=lambda state, parts: tuple(part for part in parts if part is not None)), "None", 1),
    (mover(join=lambda state, parts: list(parts)), "None", 1),
    (mover(deep=False), "every level", 2),
    (mover(join=lambda state, parts: tuple(parts)), "every level", 3),
    (mover(join=lambda old, new: MembraneState(new[0]) if hasattr(old, "v") else tuple(new)), "every level", 3),
    (mover(tensor=lambda t, device: t.detach().to(device)), "the gradient", 4),
    (mover(tensor=lambda t, device: t.data.to(device)), "the gradient", 4),
    (mover(join=lambda state, parts: type(state)(*parts)), "None", 3, "every tuple from its fields"),
    (lambda state, device: state.to(device), "None", 2, "all at once"),
    (one_level, "None", 1),
]

# Exercise 2


def network(gain="buffer", keep=nn.ModuleList, volume=None, cells=None, layers=None, tau=2.0):
    """An answer to exercise 2 with one of its parts exchanged."""

    class Answer(NestedSNN):
        def __init__(self, sizes, given):
            nn.Module.__init__(self)
            if gain == "buffer":
                self.register_buffer("gain", given)
            elif gain == "unsaved":
                self.register_buffer("gain", given, persistent=False)
            elif gain == "counted":
                self.register_buffer("gain", torch.arange(1.0, 1 + len(given)))
            elif gain == "ones":
                self.register_buffer("gain", torch.ones_like(given))
            else:
                self.gain = gain(given)
            self.layers = layers(sizes) if layers else keep([nn.Linear(a, b) for a, b in pairwise(sizes)])
            self.cells = (cells or keep)([LIF(tau=torch.full((b,), tau)) for b in sizes[1:]])
            self.volume = nn.Parameter(torch.tensor(1.0)) if volume is None else volume()

    return Answer


class _Extra(NestedSNN):
    """All is well but for one more tensor."""

    def __init__(self, sizes, gain):
        super().__init__(sizes, gain)
        self.mask = torch.ones(sizes[0])


class _Renamed(NestedSNN):
    """The buffer has another name than forward reads."""

    def __init__(self, sizes, gain):
        super().__init__(sizes, gain)
        del self.gain
        self.register_buffer("gains", gain)


class _InTheWay(NestedSNN):
    """The attribute is there before the buffer."""

    def __init__(self, sizes, gain):
        nn.Module.__init__(self)
        self.gain = gain
        self.register_buffer("gain", gain)


def _given(change=lambda out, net: out, x=lambda x, net: x, forgets=False, alone=False):
    """The right answer to exercise 2 with other inputs or outputs."""

    def forward(self, inputs, state=None):
        out, state = NestedSNN.forward(self, x(inputs, self), None if forgets else state)
        return change(out, self) if alone else (change(out, self), state)

    return type("Answer", (NestedSNN,), {"forward": forward})


class _Grown(NestedSNN):
    """Lists that grow, a buffer of its own copy."""

    def __init__(self, sizes, gain):
        nn.Module.__init__(self)
        self.layers, self.cells = nn.ModuleList(), nn.ModuleList()
        for a, b in pairwise(sizes):
            self.layers.append(nn.Linear(a, b))
            self.cells.append(LIF(tau=torch.full((b,), 2.0)))
        self.register_buffer("gain", gain.clone())
        self.register_parameter("volume", nn.Parameter(torch.ones(())))


REPAIRS = [
    (
        network(layers=lambda sizes: nn.ModuleList([nn.Linear(6, 5), nn.Linear(5, 3)])),
        "lists",
        "pairwise",
        "of these sizes",
    ),
    (network(gain="counted"), "the gain", 2, "a gain of its own"),
    (network(volume=lambda: nn.Parameter(torch.tensor(1.0), requires_grad=False)), "the volume", 3, "frozen"),
    (_given(forgets=True), "it loads", "Only `__init__`", "forgetful"),
    (_given(x=lambda x, net: x / net.gain + 1), "it loads", 2, "added"),
    (network(volume=lambda: nn.Parameter(torch.tensor(0.0))), "the volume", 3),
    (network(tau=3.0), "lists", "Change only where"),
    (network(gain=lambda g: g, keep=list, volume=lambda: torch.tensor(1.0)), "lists", 0, "as in the notebook"),
    (network(keep=list), "lists", 0),
    (network(keep=tuple), "lists", 0),
    (network(cells=list), "lists", 0),
    (network(gain=nn.Parameter), "the gain", 1),
    (network(gain=lambda g: nn.Parameter(g, requires_grad=False)), "the gain", 1),
    (network(gain=lambda g: g), "the gain", 1),
    (network(gain=lambda g: g.tolist()), "the gain", 1),
    (network(gain="unsaved"), "the gain", 2),
    (network(gain="ones"), "the gain", 2),
    (network(volume=lambda: torch.tensor(1.0)), "the volume", 3),
    (network(volume=lambda: torch.tensor(1.0, requires_grad=True)), "the volume", 3),
    (network(volume=lambda: 1.0), "the volume", 3),
    (network(volume=lambda: nn.Parameter(torch.ones(3))), "the volume", 3),
    (_Extra, "it moves", 4),
    (_given(lambda out, net: out, alone=True), "it moves", "Only `__init__`", "the output alone"),
    (_InTheWay, "lists", 1),
    (network(gain=lambda g: None), "the gain", 1, "what register_buffer returns"),
    (_Renamed, "the gain", 1),
    (network(volume=lambda: nn.Parameter(1.0)), "lists", 3, "a parameter without a tensor"),
    (network(volume=lambda: nn.Parameter([1.0])), "lists", 3, "a parameter of a list"),
    (network(volume=lambda: (1.0).item()), "lists", None, "another attribute of a number"),
    (_given(lambda out, net: 2 * out), "it loads", 2, "twice"),
    (_given(lambda out, net: out / net.volume), "it loads", 2, "no volume"),
]


class _Stub(NestedSNN):
    def __init__(self, sizes, gain):
        nn.Module.__init__(self)
        self.gain = ...
        self.layers = ...
        self.cells = ...
        self.volume = ...


class _HalfWay(NestedSNN):
    def __init__(self, sizes, gain):
        super().__init__(sizes, gain)
        del self.volume
        self.volume = ...


# Exercise 3


def _copied_per_step(before=lambda images: images, after=lambda images: images):
    return lambda images, steps, device: torch.stack([after(before(images).to(device)) for _ in range(steps)])


def _converted_on_the_way(images, steps, device):
    return encode.repeat(images.to(device, torch.float32) / 255, steps)


def _two_copies(images, steps, device):
    half = len(images) // 2
    moved = torch.cat([images[:half].to(device), images[half:].to(device)])
    return encode.repeat(data.to_unit(moved), steps)


PACKED = [
    (lambda images, steps, device: encode.repeat(data.to_unit(images.to(device)), 5), "the sequence", 0, "always 5"),
    (
        lambda images, steps, device: data.to_unit(images.to(device)).view(3, 1, 8, 8).expand(steps, -1, -1, -1, -1),
        "the sequence",
        0,
        "of one shape",
    ),
    (lambda images, steps, device: encode.repeat(images.to(device), steps), "the sequence", None),
    (lambda images, steps, device: images.to(device).float().expand(steps, *images.shape), "the sequence", 0),
    (lambda images, steps, device: data.to_unit(images.to(device)), "the sequence", 0),
    (lambda images, steps, device: data.to_unit(images).double().expand(steps, *images.shape), "the sequence", 0),
    (lambda images, steps, device: encode.repeat(data.to_unit(images), steps), "the device", 1),
    (_copied_per_step(before=data.to_unit), "one copy", 2, "per step"),
    (_copied_per_step(after=data.to_unit), "one copy", 2, "a small one per step"),
    (_two_copies, "one copy", 2),
    (lambda images, steps, device: encode.repeat(data.to_unit(images).to(device), steps), "few bytes", 3),
    (_converted_on_the_way, "few bytes", 3),
    (lambda images, steps, device: encode.repeat(data.to_unit(images), steps).to(device), "few bytes", 4),
    (lambda images, steps, device: data.to_unit(images.expand(steps, *images.shape).to(device)), "few bytes", 4),
]

WRONG = {1: MOVES, 2: REPAIRS, 3: PACKED}

RIGHT = {
    1: [by_recursion, by_torch],
    2: [network(keep=lambda modules: nn.Sequential(*modules)), _Grown],
    3: [
        lambda images, steps, device: (images.to(device).float() / 255).repeat(steps, 1, 1, 1, 1),
        lambda images, steps, device: data.to_unit(images.to(device).expand(steps, *images.shape)),
    ],
}

STUBS = {
    1: [lambda state, device: ..., mover(tensor=lambda t, device: ..., join=lambda state, parts: ...)],
    2: [_Stub, _HalfWay],
    3: [lambda images, steps, device: ...],
}
