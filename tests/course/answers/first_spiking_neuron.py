"""Answers to the exercises of first_spiking_neuron."""

from typing import NamedTuple

import torch

from snnkit.lab.exercises.first_spiking_neuron import Adaptive, AdaptiveState, fire, population

# Exercise 1


def _exact(x, v, tau):
    decay = torch.exp(torch.tensor(-1 / tau, dtype=v.dtype))
    return decay * v + (1 - decay) * x


def _in_place(x, v, tau):
    v += (x - v) / tau
    return v


CHARGES = [
    (lambda x, v, tau: (v + (x - v) / tau).clamp(-1, 1), "it settles at x", "clamp nothing", "clamped"),
    (lambda x, v, tau: (v + (x - v) / tau).clamp(min=-0.5), "it settles at x", "clamp nothing", "clamped below"),
    (lambda x, v, tau: v + (x - v) / int(tau), "any tau", 2, "whole tau"),
    (lambda x, v, tau: float(v.mean()), "the result looks like v", 4),
    (lambda x, v, tau: torch.zeros(1), "the result looks like v", 4),
    (lambda x, v, tau: (v + (x - v) / tau).float(), "the result looks like v", 4),
    (lambda x, v, tau: v + x, "without input it leaks", 0),
    (lambda x, v, tau: v + (v - x) / tau, "without input it leaks", 0),
    (lambda x, v, tau: v + (x - v) * 1.5, "without input it leaks", 3),
    (lambda x, v, tau: v + (x - v) * tau, "without input it leaks", 3),
    (lambda x, v, tau: v - v / tau + x, "it settles at x", 1),
    (lambda x, v, tau: (v + x) * (1 - 1 / tau), "it settles at x", 1),
    (lambda x, v, tau: v - v / tau, "it settles at x", 1),
    (lambda x, v, tau: x, "it settles at x", 1),
    (lambda x, v, tau: x + (v - x) / tau, "tau is its memory", 2),
    (lambda x, v, tau: v + (x - v) / tau**2, "tau is its memory", 2),
    (lambda x, v, tau: v + (x - v) / 50.0, "tau is its memory", 2),
    (lambda x, v, tau: v + (x.mean() - v) / tau, "it settles at x", 1),
    (lambda x, v, tau: v + (x.clamp(max=2.5) - v) / tau, "it settles at x", "clamp nothing"),
    (lambda x, v, tau: v + (x + 0.02 * (x > 0.9) - v) / tau, "it fires as the formula says", 1),
    (_in_place, "the result looks like v", "In-place operations"),
]

# Exercise 2


def _multiplied(v, threshold, v_reset):
    spike = (v >= threshold).to(v)
    return spike, v - spike * threshold if v_reset is None else (1 - spike) * v + spike * v_reset


def _fires(spike, reset):
    """An answer to exercise 2 from a rule for the spike and one for the reset."""

    def answer(v, threshold, v_reset):
        s = spike(v, threshold)
        return s, reset(v, s, threshold, v_reset)

    return answer


def _at(v, threshold):
    return (v >= threshold).to(v.dtype)


def _right(v, s, threshold, v_reset):
    return fire(v, threshold, v_reset)[1]


def _masked(v, threshold, v_reset):
    spike, after = torch.zeros_like(v), v.clone()
    spike[v >= threshold] = 1
    after[v >= threshold] = after[v >= threshold] - threshold if v_reset is None else v_reset
    return spike, after


FIRES = [
    (_fires(_at, lambda v, s, th, r: _right(v, s, th, r).clamp(max=1)), "soft reset", 3, "clamped"),
    (_fires(_at, lambda v, s, th, r: _right(v, s, th, r).clamp(min=-1)), "hard reset", 2, "clamped below"),
    (_fires(_at, lambda v, s, th, r: _right(v, s, th, None if r is None else -abs(r))), "hard reset", 2, "negative"),
    (lambda v, threshold, v_reset: _at(v, threshold), "two tensors like v", None),
    (_fires(lambda v, th: v >= th, _right), "two tensors like v", 0),
    (_fires(lambda v, th: (v >= th).float(), _right), "two tensors like v", 0),
    (_fires(lambda v, th: (v > th).to(v.dtype), _right), "it fires at the threshold", 1),
    (_fires(lambda v, th: (v <= th).to(v.dtype), _right), "it fires at the threshold", 1),
    (_fires(lambda v, th: (v >= 1).to(v.dtype), _right), "it fires at the threshold", "fixed number"),
    (_fires(_at, lambda v, s, th, r: v), "hard reset", 2),
    (
        _fires(_at, lambda v, s, th, r: v - s * th if r is None else torch.where(v >= 1, r, v)),
        "hard reset",
        2,
        "from 1",
    ),
    (_fires(_at, lambda v, s, th, r: torch.full_like(v, r or 0.0) if s.any() else v), "hard reset", 2),
    (_fires(_at, lambda v, s, th, r: v * (1 - s)), "hard reset", 2),
    (_fires(_at, lambda v, s, th, r: v - s * th), "hard reset", 2),
    (_fires(_at, lambda v, s, th, r: (1 - s) * v + s * r if r else v - s * th), "hard reset", 4),
    (_fires(_at, lambda v, s, th, r: (1 - s) * v + s * (r or 0.0)), "soft reset", 3),
    (_fires(_at, lambda v, s, th, r: v - th if r is None else _right(v, s, th, r)), "soft reset", 3),
    (_fires(_at, lambda v, s, th, r: v - s if r is None else _right(v, s, th, r)), "soft reset", 3),
]

# Exercise 3


class _Slip(Adaptive):
    """Adaptive with one rule exchanged: ``u`` (distance to threshold), ``reset`` or ``adapt``."""

    def u(self, v, a):
        return v - (1.0 + a)

    def reset(self, v, spike):
        return v * (1 - spike)

    def adapt(self, a, spike):
        return a - a / self.tau_a + self.jump * spike

    def step(self, x, state):
        v = state.v + (x - state.v) / self.tau
        spike = self.spike(self.u(v, state.a))
        return spike, AdaptiveState(self.reset(v, spike), self.adapt(state.a, spike))


def _slip(**rules):
    """Adaptive with some of its rules exchanged."""
    return type("_" + "_".join(rules), (_Slip,), rules)


class _OnlySpike(_Slip):
    def step(self, x, state):
        return super().step(x, state)[0]


class _ForgetsAtOnce(_Slip):
    def __init__(self, tau=20.0, tau_a=2.0, jump=0.2, *, engine="auto"):
        super().__init__(tau, tau_a, jump, engine=engine)


class _LeaksUpwards(_Slip):
    def step(self, x, state):
        return super().step(x + 2 * state.v, state)


class _FixedTau(_Slip):
    def __init__(self, tau=20.0, tau_a=200.0, jump=0.2, *, engine="auto"):
        super().__init__(20.0, tau_a, jump, engine=engine)


ADAPTATIONS = [
    (_slip(adapt=lambda self, a, s: a - a / self.tau_a + 0.3 * s), "threshold, reset, adaptation", 2, "a fixed jump"),
    (_slip(adapt=lambda self, a, s: a - a / 50.0 + self.jump * s), "threshold, reset, adaptation", 2, "a fixed tau_a"),
    (_slip(reset=lambda self, v, s: v.clamp(min=0) * (1 - s)), "threshold, reset, adaptation", 1, "clamped"),
    (
        _slip(adapt=lambda self, a, s: (a - a / self.tau_a + self.jump * s).clamp(0)),
        "threshold, reset, adaptation",
        2,
        "a >= 0",
    ),
    (_slip(u=lambda self, v, a: v - 1 - (a - a / self.tau_a)), "threshold, reset, adaptation", 0, "relaxes first"),
    (_FixedTau, "threshold, reset, adaptation", 0),
    (_LeaksUpwards, "threshold, reset, adaptation", 1),
    (_OnlySpike, "a step of the right form", None),
    (_slip(u=lambda self, v, a: v - a), "a step of the right form", 0, "no threshold"),
    (_slip(u=lambda self, v, a: v - (1.0 - a)), "threshold, reset, adaptation", 0, "lowers the threshold"),
    (_slip(reset=lambda self, v, spike: v), "threshold, reset, adaptation", 1, "no reset"),
    (_slip(reset=lambda self, v, spike: v - spike), "threshold, reset, adaptation", 1, "soft reset"),
    (_slip(adapt=lambda self, a, spike: a + self.jump * spike), "threshold, reset, adaptation", 2, "never relaxes"),
    (_slip(adapt=lambda self, a, spike: a - a / self.tau_a), "threshold, reset, adaptation", 2, "never jumps"),
    (_slip(adapt=lambda self, a, s: a - a / self.tau + self.jump * s), "threshold, reset, adaptation", 2, "tau of v"),
    (_slip(reset=lambda self, v, s: v * (1 - s) if s.any() else v), "an engine can compile it", 3, "an if"),
    (_ForgetsAtOnce, "it tires", 4),
]


# Exercise 4


def neurons(
    charge=lambda beta, v, x: beta * v + x,
    fires=lambda fire, v: fire(v - 1),
    reset=lambda v, s: v - s,
    start=lambda v: v,
    end=lambda before, after: after,
):
    """An answer to exercise 1 with some of its lines exchanged."""

    def answer(x, beta, fire, v=None):
        v = start(torch.zeros_like(x[0]) if v is None else v)
        spikes = []
        for x_t in x:
            before = charge(beta, v, x_t)
            s = fires(fire, before)
            v = reset(before, s)
            spikes.append(s)
        return torch.stack(spikes), end(before, v)

    return answer


def late(x, beta, fire, v=None):
    """The reset comes one step after the spike."""
    v = torch.zeros_like(x[0]) if v is None else v
    spikes, s = [], torch.zeros_like(v)
    for x_t in x:
        v = beta * v + x_t - s
        s = fire(v - 1)
        spikes.append(s)
    return torch.stack(spikes), v


def batch_as_time(x, beta, fire, v=None):
    spikes, v = population(x.transpose(0, 1), beta, fire, v)
    return spikes.transpose(0, 1), v


def on_one_neuron(x, beta, fire, v=None):
    spikes, v = population(x.mean(-1, keepdim=True), beta, fire, v)
    return spikes.expand_as(x).clone(), v.expand_as(x[0]).clone()


def in_place(x, beta, fire, v=None):
    v = torch.zeros_like(x[0]) if v is None else v
    spikes = []
    for x_t in x:
        v *= beta
        v += x_t
        s = fire(v - 1)
        v -= s
        spikes.append(s)
    return torch.stack(spikes), v


def afterwards(change):
    """The right answer to exercise 1 with spikes and v changed."""
    return lambda *given, **named: change(*population(*given, **named))


POPULATIONS = [
    (
        neurons(charge=lambda beta, v, x: (beta * v + x).clamp(min=-0.5)),
        "it leaks and charges",
        "no lower bound",
        "not below -0.5",
    ),
    (
        neurons(charge=lambda beta, v, x: (beta * v + x).clamp(max=5)),
        "the surplus stays",
        "no upper bound",
        "not above 5",
    ),
    (
        neurons(charge=lambda beta, v, x: (beta * v + x).clamp(-50, 50)),
        "it leaks and charges",
        "no lower bound",
        "within 50",
    ),
    (neurons(reset=lambda v, s: v - (v >= 1).to(v.dtype)), "the reset follows fire", 3, "its own comparison"),
    (neurons(reset=lambda v, s: torch.where(v >= 1, v - 1, v)), "the reset follows fire", 3, "without the spikes"),
    (neurons(start=lambda v: v.detach()), "gradient to the first step", 6, "detached at the start"),
    (afterwards(lambda spikes, v: (spikes, v.detach())), "gradient to the first step", 6, "detached at the end"),
    (afterwards(lambda spikes, v: spikes), "spikes and v", 0, "spikes alone"),
    (afterwards(lambda spikes, v: (list(spikes), v)), "spikes and v", 0, "as a list"),
    (afterwards(lambda spikes, v: (spikes, torch.stack([v] * len(spikes)))), "spikes and v", 0, "with a history"),
    (batch_as_time, "spikes and v", 0),
    (neurons(fires=lambda fire, v: v >= 1), "spikes and v", "Compute with numbers", "booleans"),
    (neurons(charge=lambda beta, v, x: beta * (v + x)), "it leaks and charges", 1),
    (neurons(charge=lambda beta, v, x: v + x), "it leaks and charges", 1),
    (neurons(charge=lambda beta, v, x: beta * v + (1 - beta) * x), "it leaks and charges", 1),
    (neurons(fires=lambda fire, v: (v > 1).to(v.dtype)), "it fires as fire says", 2),
    (neurons(fires=lambda fire, v: fire(v)), "it fires as fire says", 2),
    (neurons(reset=lambda v, s: v * (1 - s)), "the surplus stays", 3),
    (neurons(reset=lambda v, s: v), "the surplus stays", 3),
    (neurons(end=lambda before, after: before), "the surplus stays", 3),
    (late, "the surplus stays", 3),
    (neurons(charge=lambda beta, v, x: torch.as_tensor(beta).mean() * v + x), "each its own beta", 4),
    (neurons(charge=lambda beta, v, x: torch.as_tensor(beta).flatten()[0] * v + x), "each its own beta", 4),
    (on_one_neuron, "each its own beta", 4),
    (neurons(charge=lambda beta, v, x: beta * v.mean(0, keepdim=True) + x), "each its own beta", 4),
    (
        neurons(charge=lambda beta, v, x: beta * (v if v.shape[0] < 3 else v.mean(0, keepdim=True)) + x),
        "samples and neurons alone",
        4,
    ),
    (neurons(start=lambda v: torch.zeros_like(v)), "in two pieces", 5),
    (in_place, "in two pieces", "Change a copy"),
    (torch.no_grad()(population), "gradient to the first step", 6, "without a graph"),
    (neurons(charge=lambda beta, v, x: beta * v.detach() + x), "gradient to the first step", 6),
]


def first_reset_then_leak(x, beta, fire, v=None):
    """The same in another order: the reset of the last step first, and one more at the end."""
    v = torch.zeros_like(x[0]) if v is None else v
    s, spikes = torch.zeros_like(v), []
    for x_t in x:
        v = beta * (v - s) + x_t
        s = fire(v - 1)
        spikes.append(s)
    return [torch.stack(spikes), v - s]


# Stubs


class _State(NamedTuple):
    v: torch.Tensor
    a: torch.Tensor


class _Stub(Adaptive):
    State = _State

    def step(self, x, state):
        v = state.v + (x - state.v) / self.tau
        spike = ...
        v = ...
        a = ...
        return spike, _State(v, a)


class _HalfStub(Adaptive):
    State = _State

    def step(self, x, state):
        v = state.v + (x - state.v) / self.tau
        spike = self.spike(v - (1 + state.a))
        a = ...
        return spike, _State(v * (1 - spike), a)


def _fire_half(v, threshold, v_reset):
    spike = (v >= threshold).to(v.dtype)
    v = ...
    return spike, v


WRONG = {1: CHARGES, 2: FIRES, 3: ADAPTATIONS, 4: POPULATIONS}

RIGHT = {
    1: [
        _exact,
        lambda x, v, tau: (v + x / tau) / (1 + 1 / tau),
        lambda x, v, tau: v - v / tau + x / tau,
        lambda x, v, tau: v + 1 / tau * (-v + x),
    ],
    2: [_multiplied, _masked],
    3: [
        _Slip,
        _slip(adapt=lambda self, a, spike: a * 2.718281828 ** (-1 / self.tau_a) + self.jump * spike),
        _slip(reset=lambda self, v, spike: torch.where(spike > 0, 0.0, v)),
    ],
    4: [neurons(), first_reset_then_leak],
}

STUBS = {
    1: [lambda x, v, tau: ...],
    2: [lambda *given: (..., ...), _fire_half],
    3: [_Stub, _HalfStub],
    4: [..., lambda *args, **kwargs: ...],
}
