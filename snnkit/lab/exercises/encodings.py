"""Exercises of "Turning the world into spikes"."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Check, Exercise, Violation

# --- Exercise 1 -------------------------------------------------------------------------------------------------------


def latency_encode(x, steps, threshold=0.01):
    """One spike per pixel: the brighter, the earlier. x [B, ...] in [0, 1] -> spikes [steps, B, ...] of 0 and 1."""
    when = ((1 - x) * (steps - 1)).round()
    step = torch.arange(steps, device=x.device).view(-1, *[1] * x.ndim)
    return ((step == when) & (x >= threshold)).to(x.dtype)


LATENCY_HINTS = (
    "Time comes first: the answer has the shape `(steps, *x.shape)` and the dtype of x. A comparison gives bools: "
    "finish with `.to(x.dtype)`.",
    "A pixel has one moment, `when = ((1 - x) * (steps - 1)).round()`. It spikes at the step that equals it, and at "
    "no other: compare with `==`, not with `<=`.",
    "Pixels darker than the threshold never spike: combine with `& (x >= threshold)`.",
    "Bright pixels spike early: the time grows with `1 - x`.",
    "A pixel of 1 spikes at step 0, a pixel of 0 at step `steps - 1`. So multiply by `steps - 1`.",
    "Take the nearest step: `.round()`. Cutting off decimals (`.long()`, `.floor()`) is up to one step early.",
    "The moment depends on this pixel alone. Do not divide by a maximum: x is in [0, 1] already, and an image must not "
    "depend on the other images of its batch.",
    "`torch.arange(steps)` has one axis. Add one for each axis of x: `.view(-1, *[1] * x.ndim)`.",
    "Tensors that you make live on the CPU unless you say otherwise: `torch.arange(steps, device=x.device)`.",
)


def _latency_form(candidate: Any, reference: Any) -> None:
    x = torch.tensor([[0.0, 0.25, 0.5], [0.75, 1.0, 0.1]])
    inputs = {"x": x, "steps": 9}
    spikes = candidate(x, 9)
    expect.tensor(spikes, reference(x, 9), inputs=inputs, hint=0)
    binary = (spikes == 0) | (spikes == 1)
    expect.true(binary, "Spikes are 0 or 1, nothing else.", inputs=inputs, yours=spikes[~binary], hint=0)


def _at_most_one_spike(candidate: Any, _: Any) -> None:
    x = torch.linspace(0, 1, 33).unsqueeze(0)
    counts = candidate(x, 20).sum(0)
    inputs = {"x": x, "steps": 20}
    expect.true(counts <= 1, "A pixel spikes at most once.", inputs=inputs, yours=f"{counts.max():g} spikes", hint=1)


def _dark_is_silent(candidate: Any, _: Any) -> None:
    x = torch.tensor([[0.0, 0.009, 0.199, 1.0]])
    for threshold, dark in ((0.01, 2), (0.2, 3)):
        counts = candidate(x, 10, threshold).sum(0)[0, :dark]
        inputs = {"x": x[0, :dark], "steps": 10, "threshold": threshold}
        expect.true(counts == 0, "A pixel below the threshold stays silent.", inputs=inputs, yours=counts, hint=2)
    spoken = candidate(torch.tensor([[0.009, 0.015, 1.0]]), 40).sum(0)[0]
    message = "By default the threshold is 0.01: 0.009 is silent, 0.015 is not."
    expect.close(spoken, torch.tensor([0.0, 1.0, 1.0]), message, inputs={"x": (0.009, 0.015, 1), "steps": 40}, hint=2)
    x = torch.tensor([[0.25, 0.75]])
    counts = candidate(x, 10, 0.25).sum(0)
    inputs = {"x": x[0], "steps": 10, "threshold": 0.25}
    expect.true(counts == 1, "A pixel at the threshold spikes, once.", inputs=inputs, yours=counts, hint=2)


def _bright_before_dark(candidate: Any, _: Any) -> None:
    x = torch.tensor([[0.3, 0.5, 0.7, 0.9]])
    spikes = candidate(x, 21)[:, 0]
    inputs = {"x": x[0], "steps": 21}
    counts = spikes.sum(0)
    expect.true(counts == 1, "A pixel above the threshold spikes.", inputs=inputs, yours=counts, hint=1)
    when = spikes.argmax(0)
    message = "Of two pixels the brighter spikes first."
    expect.true(when.diff() < 0, message, inputs=inputs, yours=when, hint=3)


def _all_steps_are_used(candidate: Any, _: Any) -> None:
    x = torch.tensor([[1.0, 0.0]])
    for steps in (2, 10, 64):
        spikes = candidate(x, steps, 0.0)[:, 0]
        inputs = {"x": x[0], "steps": steps, "threshold": 0.0}
        message = "A pixel of 1 spikes at step 0. At threshold 0, a pixel of 0 spikes at the last step."
        expect.true(spikes.sum(0) == 1, message, inputs=inputs, yours=f"{spikes.sum(0).tolist()} spikes", hint=4)
        expect.close(spikes.argmax(0), torch.tensor([0, steps - 1]), message, inputs=inputs, hint=4)


def _nearest_step(candidate: Any, reference: Any) -> None:
    x = torch.tensor([[0.96, 0.91, 0.52, 0.38, 0.13]])
    when, right = candidate(x, 11)[:, 0].argmax(0), reference(x, 11)[:, 0].argmax(0)
    expect.close(when, right, "The spike falls on the nearest step.", inputs={"x": x[0], "steps": 11}, hint=5)


def _each_image_for_itself(candidate: Any, _: Any) -> None:
    x = torch.tensor([[0.1, 0.3, 0.5], [0.2, 0.6, 1.0]])
    together, alone = candidate(x, 11), candidate(x[:1], 11)
    message = "The spikes of an image are the same alone and in a batch."
    expect.close(together[:, :1], alone, message, inputs={"x": x, "steps": 11}, hint=6)
    faint = candidate(x[:1], 11)[:, 0].argmax(0)
    message = "A faint image (its brightest pixel is 0.5) stays faint: nothing in it spikes before the middle."
    expect.true(faint.min() == 5, message, inputs={"x": x[0], "steps": 11}, yours=faint, hint=6)


def _any_shape_and_dtype(candidate: Any, reference: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    for shape in ((5,), (2, 1, 4, 4), (0, 3)):
        x = torch.rand(shape, generator=generator, dtype=torch.float64)
        inputs = {"x": f"shape {shape}, float64", "steps": 6}
        message = "x may have any number of axes."
        with expect.explained((RuntimeError, ValueError, IndexError), "", message, inputs=inputs, hint=7):
            yours = candidate(x, 6)
        expect.tensor(yours, reference(x, 6), inputs=inputs, hint=7 if yours.dtype == x.dtype else 0)
        expect.close(yours, reference(x, 6), message, inputs=inputs, hint=7)


def _on_its_device(run: Callable[[], Any], device: torch.device, hint: int) -> None:
    """``run()`` makes all its tensors on ``device``, whatever PyTorch's default device is."""
    message = "On a GPU, every tensor that you make must be on the device of x."
    inputs = "x on one device while PyTorch's default device is another"
    try:
        with torch.device("meta"):
            made = run()
    except NotImplementedError:
        return  # `torch.arange(…).to(x.device)`: right on a GPU, though the meta device, which has no data, can't do it
    except RuntimeError as error:
        raise Violation(message, inputs=inputs, yours=f"RuntimeError: {error}", hint=hint) from None
    expect.true(made.device == device, message, inputs=inputs, yours=made.device, expected=device, hint=hint)


def _latency_device(candidate: Any, _: Any) -> None:
    x = torch.tensor([[0.2, 0.8]], device="cuda" if torch.cuda.is_available() else "cpu")
    _on_its_device(lambda: candidate(x, 4), x.device, hint=8)


def _latency_plot(candidate: Any, reference: Any) -> Any:
    """Spikes of more grey levels than there are steps, so that some must be rounded."""
    from snnkit.lab.viz import figures

    x = torch.linspace(0, 1, 17).unsqueeze(0)
    return figures.compared_spikes(x[0], candidate(x, 12)[:, 0], reference(x, 12)[:, 0])


# --- Exercise 2 -------------------------------------------------------------------------------------------------------


def poisson_encode(x, steps, generator=None):
    """A spike at each step with probability x. x [B, ...] in [0, 1] -> spikes [steps, B, ...] of 0 and 1."""
    u = torch.rand(steps, *x.shape, generator=generator, dtype=x.dtype, device=x.device)
    return (u < x).to(x.dtype)


POISSON_HINTS = (
    "Time comes first: draw `torch.rand(steps, *x.shape, ...)`. A comparison gives bools: finish with `.to(x.dtype)`.",
    "u is uniform between 0 and 1, so it is below x with probability x. The spike is `u < x`, and a 0 never fires.",
    "Draw a new u for each step, each image and each pixel: the shape of the noise is `(steps, *x.shape)` with no 1 "
    "in it, and `rand`, not one `rand_like(x)` for all steps.",
    "The chance of a spike is x itself at every step: nothing divided by `steps`, no square, no bell curve (`randn`).",
    "Pass the generator on: `torch.rand(..., generator=generator)`. Set no seed inside: two calls must differ.",
    "Draw where x is: `device=x.device`.",
)


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _poisson_form(candidate: Any, reference: Any) -> None:
    x = torch.tensor([[0.1, 0.5, 0.9], [0.3, 0.6, 0.8]])
    for image in (x, x.double().view(2, 1, 3)):
        inputs = {"x": image, "steps": 4}
        spikes = candidate(image, 4, _seeded(0))
        expect.tensor(spikes, reference(image, 4, _seeded(0)), inputs=inputs, hint=0)
        binary = (spikes == 0) | (spikes == 1)
        expect.true(binary, "Spikes are 0 or 1, nothing else.", inputs=inputs, yours=spikes[~binary], hint=1)


def _pixels_of_0_and_of_1(candidate: Any, _: Any) -> None:
    rate = candidate(torch.tensor([[0.0, 1.0]]), 50, _seeded(1)).mean(0)[0]
    message = "A pixel of 0 never spikes, a pixel of 1 spikes at every step."
    expect.close(rate, torch.tensor([0.0, 1.0]), message, inputs={"x": (0.0, 1.0), "steps": 50}, hint=1)


def _independent_draws(candidate: Any, _: Any) -> None:
    x = torch.full((2, 4, 4), 0.5)
    spikes = candidate(x, 400, _seeded(2))
    pairs: dict[str, tuple[Tensor, Tensor]] = {
        "one step and the next": (spikes[:-1], spikes[1:]),
        "one image and the next": (spikes[:, 0], spikes[:, 1]),
        "one pixel and the next": (spikes[..., 0], spikes[..., 1]),
    }
    p = spikes.double().mean().item()
    chance = p**2 + (1 - p) ** 2 if 0 < p < 1 else 0.5
    for name, (a, b) in pairs.items():
        # At least 6000 independent pairs: 0.05 is over seven standard errors.
        agree = (a == b).double().mean().item()
        message = f"Every spike is a fresh draw: {name} must agree no more often than by chance."
        shares = {"yours": f"{agree:.0%} of the spikes agree", "expected": f"about {chance:.0%}"}
        expect.true(abs(agree - chance) < 0.05, message, inputs={"x": "0.5 everywhere"}, hint=2, **shares)


def _rate(candidate: Any, _: Any) -> None:
    levels = torch.tensor([0.05, 0.25, 0.5, 0.75, 0.9])
    rate = candidate(levels.expand(50, 5), 400, _seeded(3)).mean((0, 1))
    # 20 000 draws each: the standard error is at most 0.0036.
    message = "Over many draws the rate of a pixel is its brightness."
    expect.close(rate, levels, message, inputs={"x": levels, "draws of each": 20_000}, hint=3, atol=0.018)


def _repeatable(candidate: Any, _: Any) -> None:
    x = torch.full((2, 50), 0.5)
    same = torch.equal(candidate(x, 10, _seeded(4)), candidate(x, 10, _seeded(4)))
    expect.true(same, "The same generator with the same seed gives the same spikes.", hint=4)
    generator, state = _seeded(5), torch.get_rng_state()
    fresh = not torch.equal(candidate(x, 10, generator), candidate(x, 10, generator))
    expect.true(fresh, "A second call with the same generator gives other spikes.", hint=4)
    unchanged = torch.equal(state, torch.get_rng_state())
    free = not torch.equal(candidate(x, 10), candidate(x, 10))
    expect.true(free, "Without a generator every call gives other spikes, too.", hint=4)
    expect.true(unchanged, "PyTorch's global random state stays as it is when a generator is given.", hint=4)


def _poisson_device(candidate: Any, _: Any) -> None:
    x = torch.tensor([[0.2, 0.8]], device="cuda" if torch.cuda.is_available() else "cpu")
    _on_its_device(lambda: candidate(x, 4, torch.Generator(x.device)), x.device, hint=5)


def _poisson_plot(candidate: Any, _: Any) -> Any:
    """Measured rate against brightness, inside the band where 95 % of fair encoders lie."""
    from snnkit.lab.viz import figures

    x = torch.linspace(0, 1, 21).unsqueeze(0)
    half = 1.96 * (x[0] * (1 - x[0]) / 200).sqrt()
    rates = {"95 % of fair encoders": x[0] + half, "down to here": x[0] - half}
    rates["yours"] = candidate(x, 200, _seeded(6)).mean(0)[0]
    faint, title = ["95 % of fair encoders", "down to here"], "Rate against brightness, 200 steps"
    return figures.lines(rates, x=x[0], faint=faint, x_title="brightness x", y_title="spikes per step", title=title)


EXERCISES = [
    Exercise(
        "encodings.1",
        "Latency: the brighter, the earlier",
        latency_encode,
        [
            Check("shape, dtype and values", _latency_form),
            _at_most_one_spike,
            _dark_is_silent,
            _bright_before_dark,
            _all_steps_are_used,
            _nearest_step,
            _each_image_for_itself,
            _any_shape_and_dtype,
            Check("any device", _latency_device),
        ],
        minutes=8,
        difficulty=2,
        hints=LATENCY_HINTS,
        plot=_latency_plot,
    ),
    Exercise(
        "encodings.2",
        "Poisson: brightness as probability",
        poisson_encode,
        [
            Check("shape, dtype and values", _poisson_form),
            _pixels_of_0_and_of_1,
            _independent_draws,
            _rate,
            _repeatable,
            Check("any device", _poisson_device),
        ],
        hints=POISSON_HINTS,
        plot=_poisson_plot,
    ),
]
