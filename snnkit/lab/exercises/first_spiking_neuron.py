"""Exercises of "Your first spiking neuron"."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Check, Exercise
from snnkit.neuron import Neuron
from snnkit.surrogate import ATan


def lif_step(x, v, tau):
    """Charge the membrane for one time step."""
    return v + (x - v) / tau


def fire(v, threshold, v_reset):
    """Fire where the membrane has reached the threshold, then reset: (spike, v)."""
    spike = (v >= threshold).to(v.dtype)
    v = v - spike * threshold if v_reset is None else torch.where(spike > 0, v_reset, v)
    return spike, v


class AdaptiveState(NamedTuple):
    """Membrane potential, and the rise of the threshold; both [B, ...]."""

    v: Tensor
    a: Tensor


class Adaptive(Neuron):
    """A LIF neuron whose threshold jumps at each of its spikes and then relaxes."""

    State = AdaptiveState

    def __init__(self, tau=20.0, tau_a=200.0, jump=0.2, *, engine="auto"):
        super().__init__(surrogate=ATan(), engine=engine)
        self.tau, self.tau_a, self.jump = tau, tau_a, jump

    def step(self, x, state):
        v = state.v + (x - state.v) / self.tau
        spike = self.spike(v - (1.0 + state.a))
        v = v * (1 - spike)
        a = state.a - state.a / self.tau_a + self.jump * spike
        return spike, AdaptiveState(v, a)


def population(x, beta, fire, v=None):
    """Leaky neurons with a soft reset: x [T, B, N] -> spikes [T, B, N] and the membrane after the last step [B, N]."""
    v = torch.zeros_like(x[0]) if v is None else v
    spikes = []
    for x_t in x:
        v = beta * v + x_t
        s = fire(v - 1)
        v = v - s
        spikes.append(s)
    return torch.stack(spikes), v


UNBOUNDED = "A membrane has no bounds: clamp nothing."


def _the_result_looks_like_v(candidate: Any, reference: Any) -> None:
    for v in (torch.full((3, 2), 0.5, dtype=torch.float64), torch.tensor(0.5)):
        expect.tensor(candidate(torch.zeros_like(v), v, 10.0), v, inputs={"v": v, "x": torch.zeros_like(v)}, hint=4)


def _without_input_it_leaks(candidate: Any, reference: Any) -> None:
    v, x = torch.tensor([1.0, -0.5, 0.0]), torch.zeros(3)
    new = candidate(x, v, 10.0)
    shown = {"inputs": {"x": x, "v": v, "tau": 10.0}, "yours": new, "expected": reference(x, v, 10.0)}
    message = "Without input the membrane moves towards 0 and does not cross it."
    expect.true(new * v >= 0, message, hint=3, **shown)
    expect.true(new[:2].abs() < v[:2].abs(), message, hint=0, **shown)


def _it_settles_at_x(candidate: Any, reference: Any) -> None:
    message = "A membrane that has reached x stays there: leak and drive are in balance."
    for x, hint in ((torch.tensor([0.7, -0.3]), 1), (torch.tensor([30.0, -30.0]), UNBOUNDED)):
        expect.close(candidate(x, x.clone(), 10.0), x, message, inputs={"x": x, "v": x, "tau": 10.0}, hint=hint)
    x, v = torch.tensor([0.7, -0.3]), torch.zeros(2)
    new = candidate(x, v, 10.0)
    between = (new * x > 0) & (new.abs() < x.abs())
    shown = {"yours": new, "expected": reference(x, v, 10.0)}
    expect.true(between, "From 0 the input pulls the membrane towards x.", inputs={"x": x, "v": v}, hint=1, **shown)


def _tau_is_its_memory(candidate: Any, reference: Any) -> None:
    for tau in (50.0, 200.0):
        v, x = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
        for _ in range(int(tau)):
            v = candidate(x, v, tau)
        # Euler's method is off by 1/(2 tau), the exact solution is not off: both are right answers.
        message = f"After tau = {tau:g} steps without input, 1/e = 0.368 of the potential is left."
        expect.close(v, torch.full_like(v, math.exp(-1)), message, rtol=0.03, hint=2)


def _any_tau(candidate: Any, reference: Any) -> None:
    v, x = torch.ones(1), torch.zeros(1)
    less, more = (candidate(x, v, tau) for tau in (2.0, 2.5))
    message = "tau need not be a whole number: with tau = 2.5 more is left after a step than with tau = 2."
    expect.true(more > less + 0.01, message, inputs={"x": x, "v": v}, yours=(less, more), hint=2)


def intervals(step: Any, current: float, tau: float) -> list[int]:
    """Steps between the first three spikes of a LIF (threshold 1, hard reset to 0) charged by ``step``."""
    x, v = torch.tensor([current], dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    result, since = [], 0
    for _ in range(4000):
        v, since = step(x, v, tau), since + 1
        if bool(v >= 1):
            result.append(since)
            v, since = torch.zeros_like(v), 0
        if len(result) == 3:
            break
    return result


def _it_fires_as_the_formula_says(candidate: Any, reference: Any) -> None:
    tau = 50.0
    early = len(intervals(candidate, 0.99, tau))
    expect.true(early == 0, "With x = 0.99, below the threshold of 1, it never fires.", yours=f"{early} spikes", hint=1)
    for current in (1.2, 1.5, 3.0):
        predicted = -tau * math.log(1 - 1 / current)
        result = intervals(candidate, current, tau)
        message = f"With x = {current:g} it fires every -tau ln(1 - 1/x) = {predicted:.1f} steps."
        near = len(result) == 3 and all(abs(n - predicted) <= 1 + 0.02 * predicted for n in result)
        expect.true(near, message, yours=result or "no spike", expected=f"{predicted:.1f} steps, rounded up", hint=2)


def _step_plot(candidate: Any, reference: Any) -> Any:
    from snnkit.lab.viz import figures

    current = torch.zeros(120)
    current[10:80] = 0.9
    runs = {}
    for name, step in {"reference": reference, "yours": candidate}.items():
        v, trace = torch.zeros(1), []
        for x in current:
            v = step(x.reshape(1), v, 15.0)
            trace.append(v)
        runs[name] = torch.cat(trace)
    return figures.traces(runs, current=current, title="Your membrane and the reference, tau = 15 steps")


def _two_tensors_like_v(candidate: Any, reference: Any) -> None:
    for v in (torch.tensor([[0.2, 1.5]], dtype=torch.float64), torch.tensor([1.5])):
        message = "The function returns two tensors: spike and v."
        both = expect.parts(candidate(v, 1.0, 0.0), 2, message, expected=reference(v, 1.0, 0.0))
        for part, name in zip(both, ("spike", "v"), strict=True):
            expect.tensor(part, v, f"{name} has the shape and dtype of v.", inputs={"v": v}, hint=0)


def _it_fires_at_the_threshold(candidate: Any, reference: Any) -> None:
    v = torch.tensor([0.5, 0.999, 1.0, 1.3, -2.0])
    message = "A membrane at or above the threshold fires (1), a membrane below does not (0)."
    for threshold, hint in ((1.0, 1), (0.5, "Is the threshold a fixed number in your code?")):
        yours, want = (fire(v, threshold, 0.0)[0] for fire in (candidate, reference))
        expect.close(yours, want, message, inputs={"v": v, "threshold": threshold}, hint=hint)


_V = torch.tensor([0.5, 1.0, 1.3, 2.6, -0.7, -3.0])


def _hard_reset(candidate: Any, reference: Any) -> None:
    v = _V.clone()
    message = "Hard reset: a neuron that fired goes to v_reset, and no other changes."
    for threshold, v_reset, hint in ((1.0, -0.2, 2), (1.0, 0.3, 2), (1.0, 0.0, 4), (0.4, -0.2, 2)):
        inputs = {"v": v, "threshold": threshold, "v_reset": v_reset}
        yours, want = (one(v, threshold, v_reset)[1] for one in (candidate, reference))
        expect.close(yours, want, message, inputs=inputs, hint=hint)


def _a_step_of_the_right_form(candidate: Any, reference: Any) -> None:
    cell, x = candidate(), torch.tensor([[0.5, 40.0]])
    message = "step returns (spike, AdaptiveState(v, a)), each of the shape of x."
    spike, state = expect.parts(cell.step(x, cell.initial_state(x)), 2, message)
    expect.true(isinstance(expect.written(state), tuple) and hasattr(state, "a"), message, yours=state)
    expect.written(tuple(state))
    for part in (spike, *state):
        expect.tensor(part, x, message)
    message = "At rest the threshold is 1, as for a plain LIF."
    expect.close(spike, torch.tensor([[0.0, 1.0]]), message, inputs={"x": x}, hint=0)


def _adaptive_state(candidate: Any, reference: Any) -> None:
    message = {
        "a": ("a shrinks by a / tau_a in each step and grows by jump where the neuron fired.", 2),
        "v": ("A neuron that fired starts again at 0; no other v changes.", 1),
    }
    for tau, tau_a, jump in ((20.0, 50.0, 0.3), (8.0, 30.0, 0.1)):
        # The last neuron would fire if its threshold relaxed first. One is far below rest, and one has a negative a.
        x = tau * torch.tensor([0.01, 1.2, 1.2, -3.0, 0.01, 1.495])
        v, a = torch.tensor([0.4, 0.0, -0.2, -1.0, 0.0, 0.0]), torch.tensor([0.5, 0.0, 0.5, 2.0, -0.2, 0.5])
        mine, right = (neuron(tau, tau_a, jump) for neuron in (candidate, reference))
        spike, state = mine.step(x, mine.State(v, a))
        want_spike, want = right.step(x, right.State(v, a))
        inputs = {"tau": tau, "tau_a": tau_a, "jump": jump, "x": x, "v": v, "a": a}
        expect.close(spike, want_spike, "It fires where v has reached 1 + a.", inputs=inputs, hint=0)
        for name, (text, hint) in message.items():
            # The exact decay exp(-1/tau_a) is as good an answer as Euler's 1 - 1/tau_a.
            expect.close(getattr(state, name), getattr(want, name), text, inputs=inputs, hint=hint, atol=1e-3)


def _it_tires(candidate: Any, reference: Any) -> None:
    spikes, _ = candidate(engine="eager")(torch.full((400, 1), 2.5))
    when = spikes[:, 0].nonzero().squeeze(1)
    gaps = when.diff()
    message = "Under a constant input the intervals between spikes grow."
    slows = len(gaps) >= 4 and bool((gaps[1:4] >= gaps[:3]).all()) and bool(gaps[-1] > gaps[0])
    expect.true(slows, message, inputs="x = 2.5 for 400 steps", yours=gaps.tolist()[:8], hint=4)


def _an_engine_can_compile_it(candidate: Any, reference: Any) -> None:
    cell = candidate()
    message = "The step is plain elementwise tensor arithmetic, so that an engine can compile it."
    expect.elementwise(cell, cell.initial_state(torch.zeros(2, 3)), message, hint=3)


def step(u):
    return (u >= 0).to(u.dtype)


def _both(candidate: Any, x: Tensor, beta: Any = 0.5, fire: Any = step, **more: Any) -> Any:
    return expect.parts(candidate(x, beta, fire, **more), 2, "It returns two things: spikes, v.", hint=0)


def _seeded(*shape: int, seed: int = 0) -> Tensor:
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed))


def _spikes_and_v(candidate: Any, reference: Any) -> None:
    for x in (torch.zeros(5, 2, 3), torch.zeros(4, 1, 2, dtype=torch.float64)):
        spikes, v = _both(candidate, x)
        expect.tensor(spikes, x, "The spikes have the shape and dtype of x.", hint=0)
        expect.tensor(v, x[0], "v is one number per sample and neuron, [B, N]: time is not in it.", hint=0)


def _it_leaks_and_charges(candidate: Any, reference: Any) -> None:
    message = "Below the threshold: v is beta times the old v, plus the input."
    for steps, hint in (((-0.4, -0.2, 0.0, 0.05), 1), ((-3e4, 0.0, 0.05), "v has no lower bound: clamp nothing.")):
        x = torch.tensor(steps).view(-1, 1, 1)
        want = reference(x, 0.5, step)[1]
        expect.close(_both(candidate, x)[1], want, message, inputs={"x": x.flatten(), "beta": 0.5}, hint=hint)


def _it_fires_as_fire_says(candidate: Any, reference: Any) -> None:
    x = torch.tensor([0.5, 0.75, 0.1]).view(3, 1, 1)  # v reaches exactly 1 in the second step
    for name, fire in {"u >= 0": step, "u > 0": lambda u: (u > 0).to(u.dtype), "u >= 1": lambda u: step(u - 1)}.items():
        inputs = {"x": x.flatten(), "beta": 0.5, "fire": name}
        message = "The spikes are what `fire` makes of u = v - 1."
        yours, want = _both(candidate, x, fire=fire)[0], reference(x, 0.5, fire)[0]
        expect.close(yours.flatten(), want.flatten(), message, inputs=inputs, hint=2)


def _the_surplus_stays(candidate: Any, reference: Any) -> None:
    x = torch.tensor([1.7, 0.0, 3.0, 0.0, 0.0]).view(5, 1, 1)
    message = "Soft reset, in the step of the spike: a neuron that fired loses 1 and keeps the rest."
    far = torch.tensor([3e4, 0.0, 0.0]).view(3, 1, 1)
    for given, hint in ((x, 3), (x[:1], 3), (far, "v has no upper bound: clamp nothing.")):
        for yours, want in zip(_both(candidate, given), reference(given, 0.5, step), strict=True):
            inputs = {"x": given.flatten(), "beta": 0.5}
            expect.close(yours.flatten(), want.flatten(), message, inputs=inputs, hint=hint)


def _the_reset_follows_fire(candidate: Any, reference: Any) -> None:
    x = torch.tensor([0.5, 0.75, 0.1]).view(3, 1, 1)
    for name, fire in {"u > 0": lambda u: (u > 0).to(u.dtype), "u >= 1": lambda u: step(u - 1)}.items():
        inputs = {"x": x.flatten(), "beta": 0.5, "fire": name}
        message = "Where `fire` gives 0 there is no reset, whatever v is."
        yours, want = _both(candidate, x, fire=fire)[1], reference(x, 0.5, fire)[1]
        expect.close(yours.flatten(), want.flatten(), message, inputs=inputs, hint=3)


def _each_its_own_beta(candidate: Any, reference: Any) -> None:
    x, beta = 0.3 * _seeded(30, 2, 3), torch.tensor([0.0, 0.5, 0.95])
    message = "beta may be a tensor [N]: a decay for each neuron."
    expect.close(_both(candidate, x, beta), reference(x, beta, step), message, inputs={"beta": beta}, hint=4)


def _no_one_hears_another(candidate: Any, reference: Any) -> None:
    x = 0.4 * _seeded(30, 3, 4, seed=1)
    message = "Samples and neurons do not influence each other."
    expect.close(_both(candidate, x), reference(x, 0.5, step), message, inputs="30 steps, 3 samples, 4 neurons", hint=4)


def _in_two_pieces(candidate: Any, reference: Any) -> None:
    x = 0.4 * _seeded(40, 2, 3, seed=2)
    whole, last = _both(candidate, x, 0.9)
    first, v = _both(candidate, x[:17], 0.9)
    second, end = _both(candidate, x[17:], 0.9, v=v)
    message = "17 steps, then 23 that start from the v returned, are the same as 40 at once."
    expect.close(end, last, message, hint=5)
    expect.close(torch.cat([first, second]), whole, message, hint=5)


def _gradient_to_the_first_step(candidate: Any, reference: Any) -> None:
    x = torch.full((6, 1, 2), 0.1).requires_grad_()
    spikes = _both(candidate, x, 0.9, ATan(2.0))[0]
    message = "A gradient gets from the last spike to the first input, through `fire` and the leak."
    expect.true(spikes.requires_grad, message, yours="the spikes are cut off from x", hint=6)
    (gradient,) = torch.autograd.grad(spikes[-1].sum(), x, allow_unused=True)
    expect.true(gradient is not None and bool((gradient[0] > 0).all()), message, yours=gradient, hint=6)
    message = "The gradient crosses the border of two pieces: through the v that is given, and the v returned."
    start = torch.full((1, 2), 0.1).requires_grad_()
    end = _both(candidate, x.detach(), 0.9, ATan(2.0), v=start)[1]
    expect.true(end.requires_grad, message, yours="v is cut off from the v given", hint=6)
    (gradient,) = torch.autograd.grad(end.sum(), start, allow_unused=True)
    expect.true(gradient is not None and bool((gradient != 0).all()), message, yours=gradient, hint=6)


EXERCISES = [
    Exercise(
        "first_spiking_neuron.1",
        "Charge the membrane",
        lif_step,
        [
            _the_result_looks_like_v,
            _without_input_it_leaks,
            _it_settles_at_x,
            _tau_is_its_memory,
            _any_tau,
            _it_fires_as_the_formula_says,
        ],
        minutes=6,
        hints=(
            "Look at the sign: with x = 0 the change of v must point towards 0, so it is minus something times v.",
            "The change is proportional to the distance x - v. Input and leak share one bracket.",
            "How fast? One step removes 1/tau of the distance: divide by tau, once.",
            "The change in one step is small. Did you multiply by tau where you should divide?",
            "Plain arithmetic on whole tensors is enough: no `.item()`, no mean, no new tensor made from numbers.",
        ),
        plot=_step_plot,
    ),
    Exercise(
        "first_spiking_neuron.2",
        "Fire and reset",
        fire,
        [
            _two_tensors_like_v,
            _it_fires_at_the_threshold,
            _hard_reset,
            expect.same(
                "soft reset",
                3,
                "Soft reset (v_reset is None): a neuron that fired loses one threshold and keeps the rest.",
                {"v": _V, "threshold": 1.0, "v_reset": None},
                {"v": _V, "threshold": 0.4, "v_reset": None},
                part=1,
            ),
        ],
        minutes=8,
        difficulty=2,
        hints=(
            "A comparison gives booleans: `(…).to(v.dtype)` turns them into numbers.",
            "Exactly at the threshold it fires as well: `>=`.",
            "With s = 0 or 1, `(1 - s) * v + s * v_reset` changes only neurons that fired. So does `torch.where`.",
            "Subtract `spike * threshold`: only a neuron that fired loses one threshold.",
            "`if v_reset:` treats 0.0 like None, because 0.0 counts as false. Write `if v_reset is None:`.",
        ),
    ),
    Exercise(
        "first_spiking_neuron.3",
        "A neuron of your own",
        Adaptive,
        [
            _a_step_of_the_right_form,
            Check("threshold, reset, adaptation", _adaptive_state),
            _it_tires,
            _an_engine_can_compile_it,
        ],
        minutes=10,
        difficulty=3,
        optional=True,
        hints=(
            "The threshold is now `1 + state.a`. Pass the distance from it: `self.spike(v - (1 + state.a))`.",
            "Hard reset without an `if`: `v * (1 - spike)`.",
            "Two things happen to a: it loses `state.a / self.tau_a`, and it gains `self.jump * spike`.",
            "A Python `if` on a tensor's values can't be compiled; use `spike` as a factor, or `torch.where`.",
            "Keep `tau_a=200.0` and `jump=0.2`: with a short tau_a the threshold is back before the next spike.",
        ),
    ),
    Exercise(
        "first_spiking_neuron.4",
        "A population",
        population,
        [
            _spikes_and_v,
            _it_leaks_and_charges,
            _it_fires_as_fire_says,
            _the_surplus_stays,
            _the_reset_follows_fire,
            _each_its_own_beta,
            Check("samples and neurons alone", _no_one_hears_another),
            _in_two_pieces,
            _gradient_to_the_first_step,
        ],
        minutes=15,
        difficulty=1,
        list_all=True,
        hints=(
            "Begin with `v = torch.zeros_like(x[0])` and an empty list; loop over `x`, append, and at the end return "
            "`torch.stack(spikes), v`.",
            "Charge: `v = beta * v + x_t`. The input is not multiplied by beta.",
            "Spikes: `s = fire(v - 1)`. Write no comparison: `fire` decides.",
            "Reset: `v = v - s`, in the same step. A hard reset, `v * (1 - s)`, would throw the surplus away.",
            "Use whole tensors: no loop over samples or neurons, and no mean, sum or max.",
            "If a `v` is given, start from it, and return the v after the last reset.",
            "A `.detach()`, `.item()` or `torch.no_grad()` cuts the graph. Leave them out.",
        ),
    ),
]
