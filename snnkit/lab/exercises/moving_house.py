"""Exercises of "Moving house: .to(device), nested modules and state"."""

from __future__ import annotations

import copy
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import data, encode
from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Check, Exercise, NotWritten
from snnkit.lab.viz import module_tree
from snnkit.measure import Transfers
from snnkit.neuron import LIF, CubaLIF, Recurrent
from snnkit.neuron.base import MembraneState
from snnkit.nn import Sequential

AWAY = "meta"  # a second device that every machine has


def move_state(state, device):
    """The same state on ``device``: None, a tensor, or a tuple or NamedTuple of such."""
    if state is None:
        return None
    if isinstance(state, Tensor):
        return state.to(device)
    parts = [move_state(part, device) for part in state]
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)


class NestedSNN(nn.Module):
    """Scales its input, then a Linear and LIF neurons for each pair of sizes, then a volume: x [T, B, sizes[0]]."""

    def __init__(self, sizes, gain):
        super().__init__()
        self.register_buffer("gain", gain)
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(sizes)])
        self.cells = nn.ModuleList([LIF(tau=torch.full((b,), 2.0)) for b in sizes[1:]])
        self.volume = nn.Parameter(torch.tensor(1.0))

    def forward(self, x, state=None):
        x, new = x * self.gain, []
        for layer, cell, part in zip(self.layers, self.cells, state or [None] * len(self.cells), strict=True):
            x, part = cell(layer(x), part)
            new.append(part)
        return self.volume * x, tuple(new)


def pack_light(images, steps, device):
    """Images uint8 [B, ...] to a sequence float32 [T, B, ...] in [0, 1] on ``device``, by one small copy."""
    return encode.repeat(data.to_unit(images.to(device)), steps)


def _state() -> tuple:
    """The state of a small network: nothing, NamedTuples of one and two tensors, and one nested in another."""
    generator = torch.Generator().manual_seed(5)
    net = Sequential(nn.Linear(3, 4), LIF(), nn.Linear(4, 4), CubaLIF(), Recurrent(LIF(), 4))
    return net(torch.rand(3, 2, 3, generator=generator))[1]


def _moved(candidate: Any, state: Any, device: str = AWAY) -> Any:
    message = "Only a tensor has `.to`: a state may also be None, a tuple, or a NamedTuple."
    plain = "A plain tuple is not made like a NamedTuple: it takes all its parts as one argument."
    with (
        expect.explained(TypeError, "tuple expected at most 1 argument", plain, hint=3),
        expect.explained(AttributeError, "has no attribute 'to'", message, hint=2),
        expect.explained(AttributeError, "'NoneType' object has no attribute 'to'", message, hint=1),
    ):
        return expect.written(candidate(state, device))


def _a_tensor(candidate: Any, reference: Any) -> None:
    v = torch.tensor([0.5, -0.25], dtype=torch.float64)
    expect.tensor(candidate(v, AWAY), v.to(AWAY), "A tensor arrives on the device, in its own dtype.", hint=0)
    expect.tensor(candidate(v, "cpu"), v, 'The device is the argument: "cpu" asks for the CPU.', hint=0)
    expect.close(candidate(v, "cpu"), v, "The values stay as they are.", hint=0)


def _nothing_stays_nothing(candidate: Any, reference: Any) -> None:
    for state in ((None, (None, torch.ones(2))), (None,)):
        result = _moved(candidate, state, "cpu")
        message = "A layer without state has None in its place. It stays None, in the same place."
        same = isinstance(result, tuple) and len(result) == len(state) and result[0] is None
        expect.true(same, message, inputs={"state": state}, yours=result, expected=state, hint=1)


def _every_level(candidate: Any, reference: Any) -> None:
    def compare(result: Any, want: Any, path: str) -> None:
        if isinstance(want, Tensor):
            expect.tensor(result, want, f"Every tensor moves, however deep it is: here {path}.", hint=2)
        elif want is not None:
            message = f"{path} is still a {type(want).__name__}: the neuron asks for its fields by name."
            expect.true(type(result) is type(want), message, yours=type(result).__name__, hint=3)
            for i, (one, other) in enumerate(zip(result, want, strict=True)):
                compare(one, other, f"{path}[{i}]")

    state = _state()
    compare(_moved(candidate, state), reference(state, AWAY), "state")


def _the_gradient(candidate: Any, reference: Any) -> None:
    v = torch.ones(2, requires_grad=True)
    moved = candidate(MembraneState(2 * v), AWAY)
    message = "The gradient still reaches back through the moved state: no detach, no .data, no torch.tensor(…)."
    expect.true(moved.v.requires_grad, message, yours="no graph", expected="a graph back to the old state", hint=4)


_GAIN = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])


def _lists(candidate: Any, reference: Any) -> None:
    net, want = build(candidate, _GAIN), reference((6, 5, 3), _GAIN)
    for what in ("layers", "cells"):
        result = sorted(name for name in net.state_dict() if name.startswith(what))
        wanted = sorted(name for name in want.state_dict() if name.startswith(what))
        message = f"state_dict(), .to() and the optimizer find what is in `{what}`."
        expect.true(result == wanted, message, yours=result or "nothing", expected=wanted, hint=0)
    message = "The cells are those that were there, with their time constants."
    mine, theirs = ([v for name, v in one.state_dict().items() if name.startswith("cells")] for one in (net, want))
    expect.close(mine, theirs, message, hint="Change only where the cells are stored.")
    sizes = (4, 3, 2, 2)
    mine, theirs = (
        {
            name: tuple(value.shape)
            for name, value in one.state_dict().items()
            if name.split(".")[0] in ("layers", "cells")
        }
        for one in (build(candidate, _GAIN[:4], sizes), reference(sizes, _GAIN[:4]))
    )
    message = "There is a layer and a cell for each pair of sizes, whatever the sizes."
    hint = "`sizes` is an argument: `pairwise(sizes)` gives the pairs."
    expect.true(mine == theirs, message, inputs={"sizes": sizes}, yours=mine, expected=theirs, hint=hint)


def _the_gain(candidate: Any, reference: Any) -> None:
    net = build(candidate, _GAIN)
    message = "`gain` is given, not learned: no optimizer may change it, so it is not a parameter."
    expect.true("gain" not in dict(net.named_parameters()), message, yours="a parameter", expected="a buffer", hint=1)
    message = "`gain` belongs to the network: .to() must find it, so it is a buffer."
    plain = "None" if getattr(net, "gain", None) is None else "a plain attribute"  # register_buffer returns None
    lost = plain if hasattr(net, "gain") else "no attribute `gain`"
    expect.true("gain" in dict(net.named_buffers()), message, yours=lost, expected="a buffer", hint=1)
    message = "`gain` is saved: without it a loaded network would scale its input by the wrong numbers."
    expect.true("gain" in net.state_dict(), message, yours="not in state_dict()", hint=2)
    for gain in (_GAIN, _GAIN.flip(0)):
        message = "`gain` holds the given values."
        expect.close(build(candidate, gain).get_buffer("gain"), gain, message, inputs={"gain": gain}, hint=2)


def _the_volume(candidate: Any, reference: Any) -> None:
    net = build(candidate, _GAIN)
    message = "`volume` is among the parameters, so that an optimizer can learn it."
    result = dict(net.named_parameters())
    expect.true("volume" in result, message, yours=sorted(result), expected="volume among them", hint=3)
    expect.true(result["volume"].requires_grad, message, yours="requires_grad=False", hint=3)
    message = "`volume` is one number, and starts at 1 as it did."
    expect.tensor(result["volume"], torch.tensor(1.0), message, hint=3)
    expect.close(result["volume"], 1.0, message, hint=3)


def _it_moves(candidate: Any, reference: Any) -> None:
    net = copy.deepcopy(build(candidate, _GAIN)).to(AWAY)
    left = module_tree(net).left_behind
    message = f'After .to("{AWAY}") nothing is left behind.'
    expect.true(not left, message, yours=f"left behind: {', '.join(left)}", expected="nothing", hint=4)
    both = "`forward` returns two things, as it did: the output, the state."
    out, _ = expect.parts(net(torch.rand(4, 2, 6, device=AWAY)), 2, both, hint="Only `__init__` needs repair.")
    expect.tensor(out, torch.empty(4, 2, 3, device=AWAY), "The moved network runs where it is now.", hint=4)


def _it_loads(candidate: Any, reference: Any) -> None:
    net, twin = build(candidate, _GAIN), reference((6, 5, 3), torch.zeros(6))
    x = lively(net)
    twin.load_state_dict(net.state_dict())
    message = "A second network with the loaded state_dict() gives the same output."
    whole, _ = twin(x)
    expect.close(net(x)[0], whole, message, hint=2)
    message = "`forward` is unchanged: a sequence in two parts, with the state passed on, gives the same as in one."
    first, state = net(x[:4])
    expect.close(torch.cat([first, net(x[4:], state)[0]]), whole, message, hint="Only `__init__` needs repair.")


_IMAGES = torch.arange(0, 192, dtype=torch.uint8).reshape(3, 1, 8, 8)
_COLOURS = torch.arange(0, 256, 2, dtype=torch.uint8).add(1).reshape(2, 4, 4, 4)


def _the_sequence(candidate: Any, reference: Any) -> None:
    for images, steps in ((_IMAGES, 5), (_COLOURS, 3)):
        inputs = f"images 0 … {images.max()} as uint8 {list(images.shape)}, steps {steps}"
        with expect.explained(RuntimeError, "", "Images of any shape, any number of steps.", inputs=inputs, hint=0):
            result, want = candidate(images, steps, "cpu"), reference(images, steps, "cpu")
        expect.tensor(result, want, "The sequence is float32 [T, B, channels, H, W].", inputs=inputs, hint=0)
        expect.close(result, want, "Each step shows the image with grey values in [0, 1].", inputs=inputs, hint=0)


def _watch(candidate: Any, steps: int = 5) -> tuple[Any, Transfers]:
    with Transfers() as seen:
        result = candidate(_IMAGES, steps, AWAY)
    return result, seen


def _the_device(candidate: Any, reference: Any) -> None:
    result, _ = _watch(candidate)
    expect.tensor(result, reference(_IMAGES, 5, AWAY), "The sequence is on the requested device.", hint=1)


def _one_copy(candidate: Any, reference: Any) -> None:
    for steps in (5, 9):
        _, seen = _watch(candidate, steps)
        message = "One copy, whatever the number of steps."
        inputs = {"steps": steps, "device": AWAY}
        expect.true(seen.count == 1, message, inputs=inputs, yours=f"{seen.count} copies", expected="1 copy", hint=2)


def _few_bytes(candidate: Any, reference: Any) -> None:
    _, seen = _watch(candidate)
    size = _IMAGES.numel()
    if seen.bytes == 4 * size:
        message, hint = "One byte per pixel is copied, as the images are stored.", 3
    else:
        message, hint = "All steps are equal, so the image is copied once, not T times.", 4
    expect.true(seen.bytes == size, message, yours=f"{seen.bytes} bytes", expected=f"{size} bytes", hint=hint)


# --- the network to repair --------------------------------------------------------------------------------------------


def build(candidate: Any, gain: Tensor, sizes: tuple[int, ...] = (6, 5, 3)) -> nn.Module:
    """A learner's network; "to do" while one of its attributes is still ``...``."""
    message = "register_buffer makes the attribute itself: there must be no attribute of that name before."
    number = "A Parameter holds a tensor, and neither a number nor a list is one."
    with (
        expect.explained(KeyError, "already exists", message, hint=1),
        expect.explained(AttributeError, "has no attribute 'detach'", number, hint=3),
    ):
        net = candidate(sizes, gain)
    if any(value is ... for value in vars(net).values()):
        raise NotWritten("A `...` is still in your code.")
    return net


def lively(net: nn.Module) -> Tensor:
    """Weights and a sequence that make some of the neurons fire at some of the steps."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) * 1.2 - 0.3)
    return torch.rand(9, 4, 6, generator=generator)


EXERCISES = [
    Exercise(
        "moving_house.1",
        "A state on the move",
        move_state,
        [_a_tensor, Check("None", _nothing_stays_nothing), _every_level, _the_gradient],
        minutes=6,
        difficulty=2,
        hints=(
            "`tensor.to(device)` gives a tensor there; the dtype stays unless you name one.",
            "Do not skip None: the third entry belongs to the third module.",
            "A state may hold states. Call `move_state(part, device)` for each part.",
            "A NamedTuple is made from its fields: `type(state)(*parts)`. A plain tuple: `tuple(parts)`.",
            "`.to(device)` alone keeps the graph. Nothing else is needed.",
        ),
    ),
    Exercise(
        "moving_house.2",
        "Repair a network",
        NestedSNN,
        [_lists, _the_gain, _the_volume, _it_moves, _it_loads],
        minutes=8,
        difficulty=2,
        hints=(
            "A Python list hides modules. `torch.nn.ModuleList(layers)` is a list that shows them to torch.",
            'Given and not learned: a buffer. `self.register_buffer("gain", gain)` in place of `self.gain = …`.',
            "Without `persistent=False` a buffer is saved. Is it there, with the values that were given?",
            "Learned: `self.volume = torch.nn.Parameter(torch.tensor(1.0))`.",
            "`viz.module_tree(net)` shows what stays behind, and where it is stored.",
        ),
    ),
    Exercise(
        "moving_house.3",
        "Pack light",
        pack_light,
        [_the_sequence, _the_device, _one_copy, _few_bytes],
        hints=(
            "`data.to_unit(images)` makes float32 in [0, 1], `encode.repeat(x, steps)` the sequence.",
            "Somewhere you need `tensor.to(device)`, with the given `device`.",
            "Move before there are steps, or move the whole sequence: no loop over time.",
            "uint8 takes 1 byte, float32 takes 4. Move first, convert there: `images.to(device)`.",
            "`encode.repeat` is a view without memory of its own, but moving a view copies all of it.",
        ),
    ),
]
