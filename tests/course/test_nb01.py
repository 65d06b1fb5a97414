"""The checks of notebook 01: references pass, stubs are to do, and each classic mistake fails with its hint."""

from typing import NamedTuple

import pytest
import torch

from snnkit.course import exercises, grade
from snnkit.course.nb01 import Adaptive, AdaptiveState, fire, intervals, lif_step
from snnkit.neuron import LIF

HINTS = {exercise.key: exercise.hints for exercise in exercises("01")}


def test_the_reference_steps_are_those_of_the_library():
    x = torch.rand(60, 4, generator=torch.Generator().manual_seed(0)) * 3
    for v_reset in (0.0, None):
        v, spikes = torch.zeros(4), []
        for x_t in x:
            spike, v = fire(lif_step(x_t, v, 5.0), 1.0, v_reset)
            spikes.append(spike)
        wanted, state = LIF(tau=5.0, v_reset=v_reset)(x)
        assert torch.equal(torch.stack(spikes), wanted) and wanted.sum() > 5
        torch.testing.assert_close(v, state.v)


def test_the_adaptive_reference_tires_and_compiles():
    x = torch.full((200, 2), 2.5)
    eager, _ = Adaptive(engine="eager")(x)
    gaps = eager[:, 0].nonzero().squeeze(1).diff()
    assert gaps[-1] > 1.5 * gaps[0]


def _exact(x, v, tau):
    decay = torch.exp(torch.tensor(-1 / tau, dtype=v.dtype))
    return decay * v + (1 - decay) * x


def _mixed_up_to_one_sum(x, v, tau):
    return decay_towards(v, tau) + x / tau


def decay_towards(v, tau):
    return v - v / tau


@pytest.mark.parametrize("answer", [_exact, _mixed_up_to_one_sum, lambda x, v, tau: v + 1 / tau * (-v + x)])
def test_other_right_answers_to_01_1_pass(answer):
    assert grade("01.1", answer).status == "passed"


def _in_place(x, v, tau):
    v += (x - v) / tau
    return v


def _only_two_taus(x, v, tau):
    return v + (x - v) / 50.0


@pytest.mark.parametrize(
    ("answer", "check", "hint"),
    [
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
        (_only_two_taus, "tau is its memory", 2),
        (lambda x, v, tau: v + (x.mean() - v) / tau, "it settles at x", 1),
        (lambda x, v, tau: v + (x.clamp(max=2.5) - v) / tau, "it fires as the formula says", 2),
        (lambda x, v, tau: v + (x + 0.02 * (x > 0.9) - v) / tau, "it fires as the formula says", 1),
    ],
)
def test_classic_mistakes_in_01_1(answer, check, hint):
    outcome = grade("01.1", answer)
    assert (outcome.status, outcome.check) == ("failed", check)
    assert outcome.hint == HINTS["01.1"][hint]


def test_a_step_that_changes_its_input_is_refused():
    outcome = grade("01.1", _in_place)
    assert outcome.status == "failed" and "in place" in outcome.message


def test_intervals_follow_the_closed_form():
    found = intervals(lif_step, 1.5, 50.0)
    assert found[0] in (54, 55, 56) and len(set(found)) == 1
    assert intervals(lif_step, 0.99, 50.0) == []


def _multiplied(v, threshold, v_reset):
    spike = (v >= threshold).to(v)
    return spike, v - spike * threshold if v_reset is None else (1 - spike) * v + spike * v_reset


def test_another_right_answer_to_01_2_passes():
    assert grade("01.2", _multiplied).status == "passed"


def _fires(spike, reset):
    """An answer to 01.2 from a rule for the spike and one for the reset."""

    def answer(v, threshold, v_reset):
        s = spike(v, threshold)
        return s, reset(v, s, threshold, v_reset)

    return answer


def _at(v, threshold):
    return (v >= threshold).to(v.dtype)


def _right(v, s, threshold, v_reset):
    return fire(v, threshold, v_reset)[1]


@pytest.mark.parametrize(
    ("answer", "check", "hint"),
    [
        (lambda v, threshold, v_reset: _at(v, threshold), "two tensors like v", None),
        (_fires(lambda v, th: v >= th, _right), "two tensors like v", 0),
        (_fires(lambda v, th: (v >= th).float(), _right), "two tensors like v", 0),
        (_fires(lambda v, th: (v > th).to(v.dtype), _right), "it fires at the threshold", 1),
        (_fires(lambda v, th: (v <= th).to(v.dtype), _right), "it fires at the threshold", 1),
        (_fires(lambda v, th: (v >= 1).to(v.dtype), _right), "it fires at the threshold", "fixed number"),
        (_fires(_at, lambda v, s, th, r: v), "hard reset", 2),
        (_fires(_at, lambda v, s, th, r: torch.full_like(v, r or 0.0) if s.any() else v), "hard reset", 2),
        (_fires(_at, lambda v, s, th, r: v * (1 - s)), "hard reset", 2),
        (_fires(_at, lambda v, s, th, r: v - s * th), "hard reset", 2),
        (_fires(_at, lambda v, s, th, r: (1 - s) * v + s * r if r else v - s * th), "hard reset", 4),
        (_fires(_at, lambda v, s, th, r: (1 - s) * v + s * (r or 0.0)), "soft reset", 3),
        (_fires(_at, lambda v, s, th, r: v - th if r is None else _right(v, s, th, r)), "soft reset", 3),
        (_fires(_at, lambda v, s, th, r: v - s if r is None else _right(v, s, th, r)), "soft reset", 3),
    ],
)
def test_classic_mistakes_in_01_2(answer, check, hint):
    outcome = grade("01.2", answer)
    assert (outcome.status, outcome.check) == ("failed", check)
    if isinstance(hint, str):
        assert hint in outcome.hint
    else:
        assert outcome.hint == ("" if hint is None else HINTS["01.2"][hint])


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


class _ExactDecay(_Slip):
    def adapt(self, a, spike):
        return a * 2.718281828 ** (-1 / self.tau_a) + self.jump * spike


class _Where(_Slip):
    def reset(self, v, spike):
        return torch.where(spike > 0, 0.0, v)


@pytest.mark.parametrize("answer", [_Slip, _ExactDecay, _Where])
def test_other_right_answers_to_01_3_pass(answer):
    assert grade("01.3", answer).status == "passed"


class _NoThreshold(_Slip):
    def u(self, v, a):
        return v - a


class _LowersThreshold(_Slip):
    def u(self, v, a):
        return v - (1.0 - a)


class _NoReset(_Slip):
    def reset(self, v, spike):
        return v


class _SoftReset(_Slip):
    def reset(self, v, spike):
        return v - spike


class _NeverRelaxes(_Slip):
    def adapt(self, a, spike):
        return a + self.jump * spike


class _NeverJumps(_Slip):
    def adapt(self, a, spike):
        return a - a / self.tau_a


class _WrongTau(_Slip):
    def adapt(self, a, spike):
        return a - a / self.tau + self.jump * spike


class _PythonIf(_Slip):
    def reset(self, v, spike):
        return v * (1 - spike) if spike.any() else v


class _OnlySpike(_Slip):
    def step(self, x, state):
        return super().step(x, state)[0]


@pytest.mark.parametrize(
    ("answer", "check", "hint"),
    [
        (_OnlySpike, "a step of the right form", None),
        (_NoThreshold, "a step of the right form", 0),
        (_LowersThreshold, "threshold, reset, adaptation", 0),
        (_NoReset, "threshold, reset, adaptation", 1),
        (_SoftReset, "threshold, reset, adaptation", 1),
        (_NeverRelaxes, "threshold, reset, adaptation", 2),
        (_NeverJumps, "threshold, reset, adaptation", 2),
        (_WrongTau, "threshold, reset, adaptation", 2),
        (_PythonIf, "an engine can compile it", 3),
    ],
)
def test_classic_mistakes_in_01_3(answer, check, hint):
    outcome = grade("01.3", answer)
    assert (outcome.status, outcome.check) == ("failed", check), outcome.message
    assert outcome.hint == ("" if hint is None else HINTS["01.3"][hint])


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


@pytest.mark.parametrize(
    ("key", "stub"),
    [
        ("01.1", lambda x, v, tau: ...),
        ("01.2", lambda v, threshold, v_reset: (..., ...)),
        ("01.2", _fire_half),
        ("01.3", _Stub),
        ("01.3", _HalfStub),
    ],
)
def test_stubs_are_to_do(key, stub):
    assert grade(key, stub).status == "to do"
