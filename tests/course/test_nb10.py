"""The checks of notebook 10: references pass, stubs are to do, and each classic mistake fails with its hint."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from snnkit.course import grade
from snnkit.course.nb10 import Training, crossover, leaky, spike
from snnkit.hardware import ipu
from snnkit.neuron import Leaky
from snnkit.surrogate import ATan
from tests.course.answers import fails, unused_hints


def test_every_hint_is_shown_for_some_mistake():
    tables = {"10.1": NEURONS, "10.2": SPIKES, "10.3": LOSSES, "10.4": CROSSINGS}
    assert not any(unused_hints(tables).values())


# 10.1


def test_the_reference_is_the_neuron_of_the_library():
    torch.manual_seed(0)
    x = torch.rand(20, 4, 7)
    mem, spikes = torch.zeros(4, 7), []
    for current in x:
        fired, mem = leaky(mem, current, lambda u: ATan()(u, strict=True))
        spikes.append(fired)
    want, _ = Leaky(0.9, engine="eager")(x)
    assert torch.equal(torch.stack(spikes), want) and want.any()


def with_an_if(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * mem + x - (threshold if mem > threshold else 0)
    return fire(mem - threshold), mem


def by_item(mem, x, fire, beta=0.9, threshold=1.0):
    reset = (mem > threshold).to(mem.dtype)
    if reset.sum().item() > 0:
        x = x - reset * threshold
    mem = beta * mem + x
    return fire(mem - threshold), mem


def by_mask(mem, x, fire, beta=0.9, threshold=1.0):
    was = mem > threshold
    mem = beta * mem + x
    mem[was] = mem[was] - threshold
    return fire(mem - threshold), mem


def by_heaviside(mem, x, fire, beta=0.9, threshold=1.0):
    reset = torch.heaviside(mem.detach() - threshold, mem.new_zeros(()))
    mem = beta * mem + x - reset * threshold
    return fire(mem - threshold), mem


def to_zero(mem, x, fire, beta=0.9, threshold=1.0):
    mem = (beta * mem + x) * (mem <= threshold).to(mem.dtype)
    return fire(mem - threshold), mem


def at_once(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * mem + x
    fired = fire(mem - threshold)
    return fired, mem - fired.detach() * threshold


def decayed(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * (mem - (mem > threshold).to(mem.dtype) * threshold) + x
    return fire(mem - threshold), mem


def never(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * mem + x
    return fire(mem - threshold), mem


def of_the_old_membrane(mem, x, fire, beta=0.9, threshold=1.0):
    fired = fire(mem - threshold)
    return fired, beta * mem + x - fired.detach() * threshold


def through_the_reset(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * mem + x - fire(mem - threshold) * threshold
    return fire(mem - threshold), mem


def swapped(mem, x, fire, beta=0.9, threshold=1.0):
    return leaky(mem, x, fire)[::-1]


def membrane_alone(mem, x, fire, beta=0.9, threshold=1.0):
    return leaky(mem, x, fire)[1]


NEURONS = [
    (never, "the numbers", 0),
    (of_the_old_membrane, "the numbers", 0),
    (with_an_if, "the numbers", 1),
    (to_zero, "the numbers", 3),
    (at_once, "the numbers", 3),
    (decayed, "the numbers", 3),
    (swapped, "the numbers", 5),
    (membrane_alone, "the numbers", 5),
    (by_item, "a static graph", 1),
    (by_mask, "a static graph", 2),
    (by_heaviside, "a static graph", 2),
    (through_the_reset, "the gradient", 4),
]


@pytest.mark.parametrize(("answer", "check", "hint"), NEURONS)
def test_classic_mistakes_in_10_1(answer, check, hint):
    fails("10.1", answer, check, hint)


def by_where(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * mem + x - torch.where(mem > threshold, threshold, 0.0)
    return fire(mem - threshold), mem


def by_fire(mem, x, fire, beta=0.9, threshold=1.0):
    mem = beta * mem + x - fire(mem - threshold).detach() * threshold
    return fire(mem - threshold), mem


# 10.2


class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, u, s):
        return (u > 0).to(u.dtype)

    @staticmethod
    def backward(ctx, grad):
        return None, grad


SPIKES = [
    (lambda u, smooth: smooth(u), "0 or 1", 0),
    (lambda u, smooth: (u > 0).to(u.dtype) + smooth(u), "0 or 1", 0),
    (lambda u, smooth: u > 0, "0 or 1", 0),
    (lambda u, smooth: (u > 0).to(u.dtype) + smooth(u) - smooth(u).detach(), "0 or 1", 2),
    (lambda u, smooth: (u > 0).to(u.dtype), "the gradient", 1),
    (lambda u, smooth: (u > 0).to(u.dtype) + 0 * smooth(u), "the gradient", 1),
    (lambda u, smooth: (u > 0).to(u.dtype) + 2 * (smooth(u) - smooth(u).detach()), "the gradient", 0),
    (lambda u, smooth: Step.apply(u, smooth(u)), "plain operations", 3),
    (
        lambda u, smooth: torch.heaviside(u.detach(), u.new_zeros(())) + (smooth(u) - smooth(u).detach()),
        "plain operations",
        4,
    ),
]


@pytest.mark.parametrize(("answer", "check", "hint"), SPIKES)
def test_classic_mistakes_in_10_2(answer, check, hint):
    fails("10.2", answer, check, hint)


# 10.3


def model(forward):
    """An answer to 10.3 with this forward pass."""
    return type("Training", (Training,), {"forward": forward})


def of_one_size(self, x, y=None):
    return Training.forward(self, x.view(128, -1), y)


def of_the_size_of_the_call(self, x, y=None):
    return Training.forward(self, x.view(6, -1), y)


def always_a_loss(self, x, y=None):
    out = self.net(x.flatten(1))
    return out, ipu.identity_loss(self.loss(out, y), "none")


def never_a_loss(self, x, y=None):
    return self.net(x.flatten(1))


def a_number(self, x, y=None):
    found = Training.forward(self, x, y)
    return found if y is None else (found[0], found[1].item())


def detached(self, x, y=None):
    found = Training.forward(self, x, y)
    return found if y is None else (found[0], found[1].detach())


def backward_inside(self, x, y=None):
    found = Training.forward(self, x, y)
    if y is not None:
        found[1].backward(retain_graph=True)
    return found


def unmarked(self, x, y=None):
    out = self.net(x.flatten(1))
    return out if y is None else (out, self.loss(out, y))


def two_marked(self, x, y=None):
    out = self.net(x.flatten(1))
    if y is None:
        return out
    ipu.identity_loss(out.mean(), "none")
    return out, ipu.identity_loss(self.loss(out, y), "none")


def three_values(self, x, y=None):
    found = Training.forward(self, x, y)
    return found if y is None else (*found, found[0].mean())


def the_loss_alone(self, x, y=None):
    found = Training.forward(self, x, y)
    return found if y is None else found[1]


def another_loss(self, x, y=None):
    out = self.net(x.flatten(1))
    return out if y is None else (out, ipu.identity_loss(F.cross_entropy(out.sum(1), y), "none"))


LOSSES = [
    (model(of_one_size), "without labels", 0),
    (model(of_the_size_of_the_call), "the rules", 0),
    (model(always_a_loss), "without labels", 1),
    (model(never_a_loss), "with labels", 2),
    (model(three_values), "with labels", 2),
    (model(the_loss_alone), "with labels", 2),
    (model(another_loss), "with labels", 2),
    (model(a_number), "with labels", 3),
    (model(detached), "with labels", 3),
    (model(backward_inside), "with labels", 4),
    (model(unmarked), "the rules", 5),
    (model(two_marked), "the rules", 6),
]


@pytest.mark.parametrize(("answer", "check", "hint"), LOSSES)
def test_classic_mistakes_in_10_3(answer, check, hint):
    fails("10.3", answer, check, hint)


def by_reshape(self, x, y=None):
    out = self.net(x.reshape(x.shape[0], -1))
    return out if y is None else (out, ipu.identity_loss(self.loss(out, y), "mean"))


# 10.4


def line(small, large):
    (b0, t0), (b1, t1) = small, large
    slope = (t1 - t0) / (b1 - b0)
    return t0 - slope * b0, slope


def careful(small, large, found):
    a, b = line(small, large)
    return math.inf if b <= 0 else max(found(small, large, a, b), 0.0)


CROSSINGS = [
    (lambda small, large: 0.5 * crossover(small, large), "the crossover", 0),
    (lambda small, large: careful(small, large, lambda s, t, a, b: b / a), "the crossover", 1),
    (lambda small, large: careful(small, large, lambda s, t, a, b: s[1] / b), "the crossover", 2),
    (lambda small, large: small[1] / (large[1] / large[0]), "the crossover", 3),
    (lambda small, large: line(small, large)[0] / line(small, large)[1], "the edges", 4),
    (lambda small, large: 0.0 if small[1] == large[1] else crossover(small, large), "the edges", 4),
    (
        lambda small, large: math.inf if small[1] == large[1] else line(small, large)[0] / line(small, large)[1],
        "the edges",
        5,
    ),
]


@pytest.mark.parametrize(("answer", "check", "hint"), CROSSINGS)
def test_classic_mistakes_in_10_4(answer, check, hint):
    fails("10.4", answer, check, hint)


def test_at_the_crossover_the_fixed_part_is_half():
    small, large = (4, 0.010), (64, 0.025)
    a, b = line(small, large)
    assert b * crossover(small, large) == pytest.approx(a)


@pytest.mark.parametrize(
    ("key", "answer"),
    [
        ("10.1", by_where),
        ("10.1", by_fire),
        ("10.2", lambda u, smooth: torch.where(u > 0, 1.0, 0.0) + (smooth(u) - smooth(u).detach())),
        ("10.2", lambda u, smooth: (smooth(u) - smooth(u).detach()) + (u > 0).float()),
        (
            "10.2",
            lambda u, smooth: ((u > 0).to(u.dtype) - smooth(u)).detach() + smooth(u),
        ),  # where rounding is to nearest
        ("10.3", model(by_reshape)),
    ],
)
def test_other_right_answers_pass(key, answer):
    outcome = grade(key, answer)
    assert outcome.status == "passed", outcome


# The stubs of the notebook


def neuron_of_the_notebook(mem, x, fire, beta=0.9, threshold=1.0):
    mem = ...
    return fire(mem - threshold), mem


def spike_of_the_notebook(u, smooth):
    step = (u > 0).to(u.dtype)
    return step + ...


class TrainingOfTheNotebook(nn.Module):
    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x, y=None):
        out = self.net(...)
        if y is None:
            return out
        return out, ...


def crossover_of_the_notebook(small, large):
    per_sample = ...
    fixed = ...
    return fixed / per_sample


@pytest.mark.parametrize(
    ("key", "stub"),
    [
        ("10.1", neuron_of_the_notebook),
        ("10.2", spike_of_the_notebook),
        ("10.3", TrainingOfTheNotebook),
        ("10.4", crossover_of_the_notebook),
    ],
)
def test_stubs_are_to_do(key, stub):
    assert grade(key, stub).status == "to do"


def test_all_three_together_train_as_the_library_does():
    torch.manual_seed(0)
    weights = torch.randn(5, 6)
    smooth = ATan().primitive
    x, mem, count = torch.randn(3, 6), torch.zeros(3, 5), 0.0
    w = weights.clone().requires_grad_()
    for _ in range(8):
        fired, mem = leaky(mem, x @ w.T, lambda u: spike(u, smooth))
        count = count + fired
    v = weights.clone().requires_grad_()
    out, _ = Leaky(0.9, surrogate=ATan(), engine="eager")((x @ v.T).expand(8, 3, 5))
    assert torch.equal(count, out.sum(0)) and count.any()
    assert torch.allclose(
        *(torch.autograd.grad((c * torch.arange(5)).sum(), p)[0] for c, p in ((count, w), (out.sum(0), v))), atol=1e-5
    )
