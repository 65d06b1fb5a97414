"""Exercises of "Memory, precision, batching"."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Exercise, Violation
from snnkit.neuron import LI
from snnkit.nn import Sequential


def training_bytes(weights, stored, steps, batch, copies=1, width=4):
    """Bytes that training holds: (of the model, of its activity)."""
    model = 4 * weights * (2 + copies)  # the weight, its gradient, what the optimizer keeps
    activity = steps * batch * stored * width
    return model, activity


def accumulate(net, loss, x, y, size):
    """Leave the gradient of the mean loss of a batch in the weights, `size` samples at a time; give back that loss."""
    total = 0.0
    for x_part, y_part in zip(x.split(size, dim=1), y.split(size), strict=True):
        out, _ = net(x_part)
        part = loss(out, y_part) * len(y_part) / len(y)
        part.backward()
        total += part.item()
    return total


def in_halves(fn, samples, size):
    """`fn` of at most `size` samples at a time, in order; of half as many from where memory runs out."""
    done, start = [], 0
    while start < len(samples):
        try:
            done.append(fn(samples[start : start + size]))
            start += size
        except OUT_OF_MEMORY:
            if size == 1:
                raise
            size = size // 2
    return torch.cat(done)


_CASE = {"weights": 1000, "stored": 50, "steps": 8, "batch": 3, "copies": 1, "width": 4}


def _both(candidate: Any, **changes: float) -> Sequence[Any]:
    return expect.parts(candidate(*{**_CASE, **changes}.values()), 2, "The answer is two numbers: model, activity.")


def _the_model(candidate: Any, reference: Any) -> None:
    for copies in (0, 1, 2):
        want = 4000 * (2 + copies)
        result, _ = _both(candidate, copies=copies)
        seen: Any = result if isinstance(result, Real) else None
        hints = {1000 * (2 + copies): 1, 8000: 2, 3 * want: 3, 8 * want: 3, 24 * want: 3}
        message = "A weight, its gradient, and what the optimizer keeps of it: float32 each."
        expect.close(result, want, message, inputs={**_CASE, "copies": copies}, hint=hints.get(seen, 0))
    result, _ = _both(candidate, weights=70, copies=2)
    expect.close(result, 1120, message, inputs={**_CASE, "weights": 70, "copies": 2}, hint=0)


def _the_activity(candidate: Any, reference: Any) -> None:
    message = "What backward needs is stored for each sample at each step."
    for changes in ({}, {"steps": 16}, {"batch": 1}, {"stored": 7}, {"weights": 30}):
        case = {**_CASE, **changes}
        result = _both(candidate, **changes)[1]
        seen: Any = result if isinstance(result, Real) else None
        without = {case["steps"] * case["stored"] * 4, case["batch"] * case["stored"] * 4, case["stored"] * 4}
        bare = case["steps"] * case["batch"] * case["stored"]
        hint = 1 if seen == bare else 4 if seen in without else 5
        expect.close(result, 4 * bare, message, inputs=case, hint=hint)


def _narrow_numbers(candidate: Any, reference: Any) -> None:
    (model, activity), inputs = _both(candidate, width=2), {**_CASE, "width": 2}
    expect.close(activity, 2400, "With numbers of half the width, the activity takes half.", inputs=inputs, hint=5)
    widest = _both(candidate, width=8)[1]
    expect.close(widest, 9600, "With float64, the activity takes twice as much.", inputs={**_CASE, "width": 8}, hint=5)
    expect.close(model, 12000, "Weights, gradients and the optimizer's numbers stay float32.", inputs=inputs, hint=6)
    message = "By default, `copies` is 1 and `width` is 4."
    result = candidate(1000, 50, 8, 3)
    expect.close(tuple(result), (12000, 4800), message, hint="Do not change the arguments and their defaults.")


class _Diary(nn.Module):
    """A linear layer that notes its forward passes, and every gradient that reaches its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.notes = nn.Linear(3, 2, bias=False), []
        nn.init.eye_(self.linear.weight)
        self.linear.weight.register_hook(lambda _: self.notes.append("backward"))

    def forward(self, x: Tensor) -> Tensor:
        self.notes.append(f"forward of {len(x) // 4}")
        return self.linear(x)


def _task(samples: int) -> tuple[Sequential, _Diary, Tensor, Tensor]:
    """A net with a memory, its diary, x [T=4, B, 3] and classes [B]."""
    generator = torch.Generator().manual_seed(4)
    diary = _Diary()
    x = torch.rand(4, samples, 3, generator=generator)
    y = torch.randint(2, (samples,), generator=generator)
    return Sequential(diary, LI(engine="eager")), diary, x, y


def _mean_loss(out: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(out.mean(0), labels)


def _weight_gradient(function: Any, samples: int, size: int) -> tuple[Tensor, Any, list[str]]:
    """The weight's gradient afterwards (0 if none), what the function returned, and the diary."""
    net, diary, x, y = _task(samples)
    given = expect.written(function(net, _mean_loss, x, y, size))
    weight = diary.linear.weight
    return torch.zeros_like(weight) if weight.grad is None else weight.grad, given, diary.notes


def _equal_parts(candidate: Any, reference: Any) -> None:
    result, _, notes = _weight_gradient(candidate, 8, 2)
    net, diary, x, y = _task(8)
    weight = diary.linear.weight
    (whole,) = torch.autograd.grad(_mean_loss(net(x)[0], y), weight)
    (last,) = torch.autograd.grad(_mean_loss(net(x[:, -2:])[0], y[-2:]), weight)
    mistakes = {1: [4 * whole], 3: [last, last / 4]}
    seen = [h for h, wrong in mistakes.items() if any(torch.allclose(result, w, rtol=1e-3) for w in wrong)]
    hint = [*seen, 0][0] if "backward" in notes else 2
    message = "Four parts of two samples give the gradient of the batch of eight."
    expect.close(result, whole, message, inputs={"samples": 8, "size": 2}, hint=hint)


def _one_at_a_time(candidate: Any, reference: Any) -> None:
    _, _, notes = _weight_gradient(candidate, 8, 2)
    message = "Backward of one part comes before forward of the next. Then only one part is in memory at a time."
    hint = 4 if notes[:2] == ["forward of 2", "forward of 2"] else 0
    expect.true(notes == ["forward of 2", "backward"] * 4, message, yours=", ".join(notes), hint=hint)


def _uneven_parts(candidate: Any, reference: Any) -> None:
    (result, _, _), (whole, _, _) = _weight_gradient(candidate, 7, 3), _weight_gradient(reference, 7, 7)
    message = "Seven samples make parts of 3, 3 and 1, and each sample counts as much as any other."
    expect.close(result, whole, message, inputs={"samples": 7, "size": 3}, hint=5)


def _the_loss(candidate: Any, reference: Any) -> None:
    (_, given, _), (_, whole, _) = _weight_gradient(candidate, 7, 3), _weight_gradient(reference, 7, 7)
    message = "The result is a plain number. A tensor with a graph would keep the memory of its part alive."
    expect.true(not (isinstance(given, Tensor) and given.requires_grad), message, yours=given, hint=6)
    expect.close(given, whole, "It is the mean loss of the whole batch.", inputs={"samples": 7, "size": 3}, hint=6)


def _enough_memory(candidate: Any, reference: Any) -> None:
    fn, message = Fits(100), "With enough memory: every sample once, in order."
    expect.close(candidate(fn, torch.arange(10), 4), 2 * torch.arange(10), message, hint=0)
    expect.true(fn.sizes == [4, 4, 2], "With enough memory: parts of `size`.", yours=fn.sizes, expected=[4, 4, 2])
    expect.close(candidate(Fits(100), torch.arange(8), 4), 2 * torch.arange(8), message, hint=0)


def _order(candidate: Any, reference: Any) -> None:
    first, second = OUT_OF_MEMORY
    cases = (8, 20, 8, 10, first), (3, 20, 16, 99, first), (1, 4, 4, 99, first), (2, 9, 5, 99, second)
    for most, count, size, late, error in cases:
        fn = Fits(most, late, error)
        room = f"{most} samples" + (f", from sample {late} on for 2" if late < count else "")
        inputs = {"samples": f"0 … {count - 1}", "size": size, "memory for": room}
        message, hint = "When memory runs out, half as many samples are tried.", 1 if error is first else 4
        with expect.explained(OUT_OF_MEMORY, "", message, inputs=inputs, hint=hint):
            result = candidate(fn, torch.arange(count), size)
        message = "Every sample is done once, in order, even if memory ran out."
        expect.tensor(result, torch.arange(count), message, inputs=inputs, hint=2)
        expect.close(result, 2 * torch.arange(count), message, inputs=inputs, hint=2)
        twice = len(fn.done) - count
        expect.true(not twice, message, inputs=inputs, yours=f"samples done twice: {twice}", hint=2)


def _one_is_too_many(candidate: Any, reference: Any) -> None:
    message = "When even one sample does not fit, the error is passed on."
    try:
        result = candidate(Fits(0), torch.arange(4), 4)
    except OUT_OF_MEMORY:
        return
    raise Violation(message, yours=result, expected="OutOfMemoryError", hint=3)


def _other_errors(candidate: Any, reference: Any) -> None:
    message = "Any other error is passed on: half a batch would not help."
    for error in (ValueError, RuntimeError):
        fn = Fits(0, error=error)
        try:
            candidate(fn, torch.arange(4), 4)
        except error:
            expect.true(fn.sizes == [4], message, yours=f"tried with {fn.sizes} samples", hint=4)
            continue
        raise Violation(message, yours="no error", expected=error.__name__, hint=4)


# --- a function that runs out of memory on purpose --------------------------------------------------------------------


OUT_OF_MEMORY = torch.OutOfMemoryError, MemoryError


class Fits:
    """Doubles its samples; runs out of memory above ``most`` of them (from number ``late`` on: above two).

    Attributes:
        sizes: of the calls so far; ``failed``: of the last one, if memory ran out in it, else 0.
        done: the samples that it has doubled.
    """

    def __init__(self, most: int, late: int = 99, error: type[Exception] = torch.OutOfMemoryError) -> None:
        self.most, self.late, self.error, self.sizes, self.failed, self.done = most, late, error, [], 0, []

    def __call__(self, samples: Tensor) -> Tensor:
        self.sizes.append(len(samples))
        yours = f"the last calls were with {', '.join(map(str, self.sizes[-12:]))} samples"
        if len(self.sizes) > 50:
            raise Violation("Each call must make progress or use fewer samples.", yours=yours, hint=1)
        if not len(samples):
            raise Violation("A part must have samples.", yours=yours, hint=3 if self.failed == 1 else 0)
        if self.failed and not self.failed // 2 <= len(samples) <= (self.failed + 1) // 2:
            raise Violation("When memory runs out, half as many samples are tried.", yours=yours, hint=1)
        self.failed = 0
        if len(samples) > (2 if (samples >= self.late).any() else self.most):
            self.failed = len(samples)
            raise self.error("out of memory")
        self.done += samples.tolist()
        return 2 * samples


EXERCISES = [
    Exercise(
        "memory_precision_batching.1",
        "The bill",
        training_bytes,
        [_the_model, _the_activity, _narrow_numbers],
        minutes=6,
        hints=(
            "Each weight needs itself, its gradient, and `copies` more: `2 + copies` numbers.",
            "Numbers are not bytes yet: a float32 takes 4 of them.",
            "`copies` counts what the optimizer keeps: 0 for plain SGD, 1 with momentum, 2 for Adam.",
            "The model is stored once: its size does not depend on samples or steps.",
            "Four factors: steps, samples, numbers for each of them, bytes of a number. Which one is missing?",
            "`steps * batch * stored * width`.",
            "`width` is for the activity only. A weight has 4 bytes: in fewer, small updates would be lost.",
        ),
    ),
    Exercise(
        "memory_precision_batching.2",
        "Accumulate",
        accumulate,
        [_equal_parts, _one_at_a_time, _uneven_parts, _the_loss],
        minutes=7,
        difficulty=2,
        hints=(
            "For each part: forward, its loss times its share, backward. `backward()` adds to `.grad` by itself.",
            "`loss` is a mean over its samples. The sum of four means is four times the mean of all.",
            "There is no gradient yet. Where do you call `.backward()`?",
            "The gradients of the earlier parts are gone: do not zero them within the loop.",
            "One backward at the end gives the right gradient, but holds all parts in memory. Call it in the loop.",
            "The share of a part is `len(y_part) / len(y)`: the last part may be smaller than the others.",
            "`part.item()` is a number without a graph; the shares of the parts add up to the mean of the batch.",
        ),
    ),
    Exercise(
        "memory_precision_batching.3",
        "When memory runs out",
        in_halves,
        [_enough_memory, _order, _one_is_too_many, _other_errors],
        minutes=7,
        difficulty=2,
        hints=(
            "`samples[start : start + size]` is a part, and after it `start += size`.",
            "In `except`: `size = size // 2`. The loop then tries again from the same `start`.",
            "Increase `start` only when a part is done, by the number of samples in it. Never repeat a part.",
            "Half of 1 is 0, and 0 samples always fit, so the loop never ends. If `size == 1`: `raise`.",
            "`except (torch.OutOfMemoryError, MemoryError)`: catch both, but no more, or real mistakes are hidden.",
        ),
    ),
]
