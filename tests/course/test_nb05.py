"""The checks of notebook 05: references pass, stubs are to do, and each classic mistake fails with its hint."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from snnkit import data, encode
from snnkit.course import exercises, grade
from snnkit.course.nb05 import NestedSNN, move_state, pack_light
from snnkit.neuron import LIF
from snnkit.neuron.base import MembraneState

HINTS = {exercise.key: exercise.hints for exercise in exercises("05")}


def fails(key, answer, check, hint):
    outcome = grade(key, answer)
    assert (outcome.status, outcome.check) == ("failed", check), outcome
    if hint is not None:
        assert outcome.hint == HINTS[key][hint]


# 05.1


def test_another_right_answer_to_05_1_passes():
    def answer(state, device):
        if isinstance(state, tuple):
            moved = (answer(part, device) for part in state)
            return state._make(moved) if hasattr(state, "_make") else tuple(moved)
        return state if state is None else state.to(device)

    assert grade("05.1", answer).status == "passed"


def test_a_moved_state_goes_on_where_it_stopped():
    x, cell = torch.rand(8, 2, 3), LIF()
    _, middle = cell(x[:4])
    torch.testing.assert_close(cell(x[4:], move_state(middle, "cpu"))[0], cell(x)[0][4:])


def mover(tensor=lambda t, device: t.to(device), none=lambda: None, join=None, deep=True):
    """An answer to 05.1 with one of its parts exchanged."""

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


@pytest.mark.parametrize(
    ("answer", "check", "hint"),
    [
        (mover(tensor=lambda t, device: t), "a tensor", 0),
        (mover(tensor=lambda t, device: t.to("meta")), "a tensor", 0),
        (mover(tensor=lambda t, device: t.float().to(device)), "a tensor", 0),
        (mover(tensor=lambda t, device: torch.zeros_like(t, device=device)), "a tensor", 0),
        (mover(none=lambda: ()), "None", 1),
        (mover(join=lambda state, parts: tuple(part for part in parts if part is not None)), "None", 1),
        (mover(join=lambda state, parts: list(parts)), "None", 1),
        (mover(deep=False), "every level", 2),
        (mover(join=lambda state, parts: tuple(parts)), "every level", 3),
        (mover(join=lambda state, parts: MembraneState(parts[0]) if hasattr(state, "v") else tuple(parts)), None, 3),
        (mover(tensor=lambda t, device: t.detach().to(device)), "the gradient", 4),
        (mover(tensor=lambda t, device: t.data.to(device)), "the gradient", 4),
        (lambda state, device: state.to(device), "None", None),
    ],
)
def test_classic_mistakes_in_05_1(answer, check, hint):
    fails("05.1", answer, check or "every level", hint)


# 05.2


def network(gain="buffer", keep=nn.ModuleList, volume=None, cells=None):
    """An answer to 05.2 with one of its parts exchanged."""

    class Answer(NestedSNN):
        def __init__(self, sizes, given):
            nn.Module.__init__(self)
            if gain == "buffer":
                self.register_buffer("gain", given)
            elif gain == "unsaved":
                self.register_buffer("gain", given, persistent=False)
            elif gain == "ones":
                self.register_buffer("gain", torch.ones_like(given))
            else:
                self.gain = gain(given)
            self.layers = keep([nn.Linear(a, b) for a, b in pairwise(sizes)])
            self.cells = (cells or keep)([LIF(tau=torch.full((b,), 2.0)) for b in sizes[1:]])
            self.volume = nn.Parameter(torch.tensor(1.0)) if volume is None else volume()

    return Answer


def test_another_right_answer_to_05_2_passes():
    assert grade("05.2", network(keep=lambda modules: nn.Sequential(*modules))).status == "passed"


def test_the_broken_network_of_the_notebook_fails_at_its_first_mistake():
    fails("05.2", network(gain=lambda g: g, keep=list, volume=lambda: torch.tensor(1.0)), "lists", 0)


class _Extra(NestedSNN):
    """All is well but for one more tensor."""

    def __init__(self, sizes, gain):
        super().__init__(sizes, gain)
        self.mask = torch.ones(sizes[0])


@pytest.mark.parametrize(
    ("answer", "check", "hint"),
    [
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
    ],
)
def test_classic_mistakes_in_05_2(answer, check, hint):
    fails("05.2", answer, check, hint)


def test_the_network_of_the_last_check_fires():
    net = NestedSNN((6, 5, 3), torch.ones(6))
    for parameter in net.parameters():
        nn.init.constant_(parameter, 0.5)
    assert 0 < net(torch.rand(5, 2, 6))[0].mean() < 0.5  # volume times rate


@pytest.mark.parametrize("change", [lambda out, net: out / net.volume, lambda out, net: 2 * out])
def test_a_network_that_computes_something_else_fails_to_load(change):
    class Answer(NestedSNN):
        def forward(self, x, state=None):
            out, state = super().forward(x, state)
            return change(out, self), state

    fails("05.2", Answer, "it loads", 2)


def test_an_attribute_in_the_way_of_a_buffer_is_explained():
    class Answer(NestedSNN):
        def __init__(self, sizes, gain):
            nn.Module.__init__(self)
            self.gain = gain
            self.register_buffer("gain", gain)

    fails("05.2", Answer, "lists", 1)
    assert "register_buffer" in grade("05.2", Answer).message


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


# 05.3


def _per_step(images, steps, device):
    return torch.stack([data.to_unit(images).to(device) for _ in range(steps)])


def _small_per_step(images, steps, device):
    return torch.stack([data.to_unit(images.to(device)) for _ in range(steps)])


def _converted_on_the_way(images, steps, device):
    return encode.repeat(images.to(device, torch.float32) / 255, steps)


def _two_copies(images, steps, device):
    half = len(images) // 2
    moved = torch.cat([images[:half].to(device), images[half:].to(device)])
    return encode.repeat(data.to_unit(moved), steps)


@pytest.mark.parametrize(
    "answer",
    [
        lambda images, steps, device: (images.to(device).float() / 255).repeat(steps, 1, 1, 1, 1),
        lambda images, steps, device: data.to_unit(images.to(device).expand(steps, *images.shape)),
    ],
)
def test_other_right_answers_to_05_3_pass(answer):
    assert grade("05.3", answer).status == "passed"


@pytest.mark.parametrize(
    ("answer", "check", "hint"),
    [
        (lambda images, steps, device: encode.repeat(images.to(device), steps), "the sequence", None),
        (lambda images, steps, device: images.to(device).float().expand(steps, *images.shape), "the sequence", 0),
        (lambda images, steps, device: data.to_unit(images.to(device)), "the sequence", 0),
        (lambda images, steps, device: data.to_unit(images).double().expand(steps, *images.shape), "the sequence", 0),
        (lambda images, steps, device: encode.repeat(data.to_unit(images), steps), "the device", 1),
        (_per_step, "one copy", 2),
        (_small_per_step, "one copy", 2),
        (_two_copies, "one copy", 2),
        (lambda images, steps, device: encode.repeat(data.to_unit(images).to(device), steps), "few bytes", 3),
        (_converted_on_the_way, "few bytes", 3),
        (lambda images, steps, device: encode.repeat(data.to_unit(images), steps).to(device), "few bytes", 4),
        (lambda images, steps, device: data.to_unit(images.expand(steps, *images.shape).to(device)), "few bytes", 4),
    ],
)
def test_classic_mistakes_in_05_3(answer, check, hint):
    fails("05.3", answer, check, hint)


def test_the_reference_to_05_3_is_a_view():
    assert pack_light(torch.zeros(2, 1, 8, 8, dtype=torch.uint8), 7, "cpu").stride(0) == 0


@pytest.mark.parametrize(
    ("key", "stub"),
    [
        ("05.1", lambda state, device: ...),
        ("05.1", mover(tensor=lambda t, device: ..., join=lambda state, parts: ...)),
        ("05.2", _Stub),
        ("05.2", _HalfWay),
        ("05.3", lambda images, steps, device: ...),
    ],
)
def test_stubs_are_to_do(key, stub):
    assert grade(key, stub).status == "to do"
