"""Exercises of "IPU against CUDA"."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from snnkit.lab.course import expect
from snnkit.lab.course.exercise import Check, Exercise, Violation
from snnkit.lab.hardware import ipu
from snnkit.surrogate import ATan


def leaky(mem, x, fire, beta=0.9, threshold=1.0):
    """One step of `Leaky`: (its spikes, the membrane after it)."""
    reset = (mem > threshold).to(mem.dtype)
    mem = beta * mem + x - reset * threshold
    return fire(mem - threshold), mem


def spike(u, smooth):
    """1.0 where u > 0, else 0.0, with the gradient of smooth(u)."""
    step = (u > 0).to(u.dtype)
    s = smooth(u)
    return step + (s - s.detach())


class Training(nn.Module):
    """A network and its loss in one model: `out = model(x)`, and `out, loss = model(x, y)`."""

    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x, y=None):
        out = self.net(x.flatten(1))
        if y is None:
            return out
        return out, ipu.identity_loss(self.loss(out, y), "none")


def crossover(small, large):
    """The batch whose samples take as long as the constant part of a call; each argument is (batch, seconds)."""
    (b0, t0), (b1, t1) = small, large
    per_sample = (t1 - t0) / (b1 - b0)
    if per_sample <= 0:
        return math.inf
    return max((t0 - per_sample * b0) / per_sample, 0.0)


_fire = ipu.Detached(ATan())


def _strict(u: Tensor) -> Tensor:
    return _fire(u, strict=True)


def _run(step: Callable[..., Any], x: Tensor) -> tuple[Tensor, Tensor]:
    """Spikes and membranes [T, B, N] of ``step`` from rest."""
    mem, spikes, mems = torch.zeros_like(x[0]), [], []
    for current in x:
        message = "A step returns two tensors of the shape of x: spikes, membrane."
        fired, mem = expect.parts(step(mem, current, _strict), 2, message, hint=5)
        for part in (fired, mem):
            expect.tensor(part, current, message, hint=5)
        spikes.append(fired)
        mems.append(mem)
    return torch.stack(spikes), torch.stack(mems)


def _the_numbers(candidate: Any, reference: Any) -> None:
    x = torch.rand(STEPS, 3, 5, generator=torch.Generator().manual_seed(3)) * 1.4 - 0.1
    want, want_mem = _run(reference, x)
    message = "The input is a whole batch of neurons. Each decides for itself, so there is no single yes or no."
    with expect.explained(RuntimeError, "ambiguous|scalar|Scalar", message, hint=1):
        result, result_mem = _run(candidate, x)
    swapped = torch.allclose(result[0].float(), want_mem[0]) and torch.allclose(result_mem[0].float(), want[0])
    expect.true(not swapped, "Spikes come first, then the membrane.", hint=5)
    message = "Six steps from rest give the membranes of `Leaky`."
    no_reset = torch.zeros_like(want_mem[0])
    without = torch.stack([no_reset := 0.9 * no_reset + current for current in x])
    expect.close(result_mem, want_mem, message, hint=0 if torch.allclose(result_mem.float(), without) else 3)
    expect.close(result, want, "The neuron fires where the new membrane is above its threshold.", hint=0)
    mem, given = torch.tensor([0.4, 0.5, 0.6]), {"beta": 0.8, "threshold": 0.5}
    inputs = {"mem": mem, "x": "0.3 everywhere", **given}
    result, want = (step(mem, torch.full((3,), 0.3), _strict, *given.values()) for step in (candidate, reference))
    message = "`beta` and `threshold` are given, and a membrane at the threshold is not above it."
    expect.close(result, want, message, inputs=inputs, hint=0)
    mem, x = torch.tensor([30.0, -30.0], dtype=torch.float64), torch.zeros(2, dtype=torch.float64)
    result, want = (step(mem, x, _strict) for step in (candidate, reference))
    message = "The membrane has no bounds, and its dtype stays."
    for yours, right in zip(result, want, strict=True):
        expect.tensor(yours, right, message, inputs={"mem": mem, "x": 0}, hint=5)
    expect.close(result, want, message, inputs={"mem": mem, "x": 0}, hint="Clamp nothing: only the reset changes it.")


def _a_static_graph(candidate: Any, reference: Any) -> None:
    report = ipu.check(Net(candidate, _strict), example(), loss)
    ready(report, {"static graph": 1, "same trace": 1, "sizes": 2, "supported operations": 2})


def _no_gradient_in_reset(candidate: Any, reference: Any) -> None:
    result, want = (gradient(step, _strict) for step in (candidate, reference))
    message = "The gradient is that of `Leaky`: none goes through the reset."
    expect.close(result, want, message, hint=4)


def _is_0_or_1(candidate: Any, reference: Any) -> None:
    u = torch.linspace(-3, 3, 301)
    message = "The value is exactly 0.0 or 1.0, for any smooth function."
    for name, smooth in {"a sigmoid": torch.sigmoid, "a steep line": lambda u: 1234.567 * u}.items():
        result, want = expect.written(candidate(u, smooth)), (u > 0).float()
        expect.tensor(result, want, hint=0)
        off = (result - want).abs()[u.abs() > 1e-3].max().item()
        hint = 0 if off > 0.01 else 2
        inputs = {"u": "-3 … 3", "smooth": name}
        expect.true(off == 0, message, inputs=inputs, yours=f"up to {off:.2g} off", expected="0", hint=hint)
        at_0 = "Where u is exactly 0, there is no spike: `u > 0`."
        expect.close(expect.written(candidate(torch.zeros(2), smooth)), torch.zeros(2), at_0, inputs={"u": 0}, hint=0)


def _has_the_gradient(candidate: Any, reference: Any) -> None:
    u = torch.linspace(-2, 2, 9, requires_grad=True)
    message = "The gradient is that of the smooth function."
    for name, smooth in {"a sigmoid": torch.sigmoid, "an arctan": torch.atan}.items():
        result = candidate(u, smooth)
        if not result.requires_grad:
            raise Violation(message, yours="no gradient at all", hint=1)
        (grad,) = torch.autograd.grad(result.sum(), u, allow_unused=True)
        (want,) = torch.autograd.grad(smooth(u).sum(), u)
        grad = torch.zeros_like(u) if grad is None else grad
        expect.close(grad, want, message, inputs={"u": "-2 … 2", "smooth": name}, hint=0 if grad.any() else 1)


def _plain_operations(candidate: Any, reference: Any) -> None:
    net = Net(leaky, lambda u: candidate(u, torch.sigmoid))
    ready(ipu.check(net, example(), loss), {"no autograd.Function": 3, "supported operations": 4})


def _readout() -> Net:
    return Net(leaky, _strict)


def _without_labels(candidate: Any, reference: Any) -> None:
    net, (x, _) = _readout(), pictures()
    inputs, message = {"x": tuple(x.shape)}, "x is images [B, 1, H, W], for any B. The network takes [B, H · W]."
    with (
        expect.explained(RuntimeError, "", message, inputs=inputs, hint=0),
        expect.explained((AttributeError, TypeError), "NoneType", "Without y there is no loss, only out.", hint=1),
    ):
        out = expect.written(candidate(net, rates)(x))
    expect.close(out, net(x.flatten(1)), "Without y: the network's output.", inputs=inputs, hint=1)


def _with_labels(candidate: Any, reference: Any) -> None:
    net, (x, y) = _readout(), pictures()
    message = "With y: out, and one loss, a tensor with its graph."
    out, value = expect.parts(candidate(net, rates)(x, y), 2, message, expected="out, loss", hint=2)
    has_history = isinstance(value, Tensor) and value.requires_grad
    expect.true(has_history, message, yours=type(value).__name__, expected="a tensor with a gradient", hint=3)
    expect.true(net.first.weight.grad is None, "The model only computes the loss.", yours="a backward pass", hint=4)
    expect.close(value, rates(out, y), "The loss is that of out and y.", hint=2)


def _the_rules(candidate: Any, reference: Any) -> None:
    model = candidate(_readout(), rates)
    report = ipu.check(model, pictures(), device_iterations=3)
    ready(report, {"one loss": 6 if "no loss" not in str(report) else 5, "batch": 0})
    with _Marks() as marks:
        model(*pictures())
    message = "One mark is enough: PopTorch drops a mark that another loss is computed from."
    expect.true(marks.count == 1, message, yours=f"{marks.count} marks", expected="1 mark", hint=6)


def _the_crossover(candidate: Any, reference: Any) -> None:
    message = "Time is a + b · batch; the answer is the batch at which b · batch = a."
    for a, b, small, large in ((3e-3, 1e-4, 1, 101), (2e-3, 5e-4, 8, 64), (0.5, 0.01, 20, 30), (1e-4, 3e-4, 1, 9)):
        t0, t1 = a + b * small, a + b * large
        inputs = {"small": (small, t0), "large": (large, t1)}
        result = expect.written(candidate(*inputs.values()))
        mistakes = {1: b / a, 2: t0 / b, 3: t0 / (t1 / large)}
        number = float(result) if isinstance(result, Real) else math.nan
        seen = [hint for hint, wrong in mistakes.items() if math.isclose(number, wrong, rel_tol=1e-6)]
        expect.close(result, a / b, message, inputs=inputs, hint=[*seen, 0][0], rtol=1e-3)


def _a_flat_line(candidate: Any, reference: Any) -> None:
    for flat in (((1, 0.004), (64, 0.004)), ((1, 0.004), (64, 0.003))):
        try:
            result = expect.written(candidate(*flat))
        except ZeroDivisionError:
            result = "ZeroDivisionError"
        message = "If a larger batch takes no longer, the crossover is never reached: `math.inf`."
        expect.true(result == math.inf, message, inputs={"small": flat[0], "large": flat[1]}, yours=result, hint=4)


# --- a small network made of the answer, and the first rule that it breaks --------------------------------------------


STEPS = 6


class Net(nn.Module):
    """Linear, neurons, linear over time, in the form for an IPU."""

    def __init__(self, step: Callable[..., Any], fire: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.step, self.fire = step, fire
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        current = 3 * self.first(x)
        mem, outs = current * 0, []
        for _ in range(STEPS):
            fired, mem = self.step(mem, current, self.fire)
            outs.append(self.last(fired))
        return torch.stack(outs, 1)


def loss(out: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(out.sum(1), y)


def example(samples: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(samples, 6, generator=generator), torch.arange(samples) % 3
    return x, y


def ready(report: ipu.Report, hints: dict[str, int]) -> None:
    """Violation with the first broken rule. ``hints``: by rule, and "sizes" for sizes that depend on values."""
    if report.ready:
        return
    first = report.errors[0]
    broken = ", ".join(f'"{rule}"' for rule, verdict in report.rules.items() if verdict == "error")
    message = f"ipu.check finds no rule broken. Here: {broken}."
    where = f" ({first.where})" if first.where else ""
    rule = "sizes" if first.rule == "static graph" and "size" in first.what else first.rule
    raise Violation(message, yours=f"{first.what}{where}", hint=hints.get(rule, 0))


def gradient(step: Callable[..., Any], fire: Callable[[Tensor], Tensor]) -> Tensor:
    net = Net(step, fire)
    x, y = example()
    return torch.autograd.grad(loss(net(x), y), net.first.weight, allow_unused=True)[0]


def rates(out: Tensor, y: Tensor) -> Tensor:
    """None of its operations is one that PopTorch knows as a loss."""
    return ((out.mean(1) - F.one_hot(y, 3).to(out.dtype)) ** 2).mean()


class _Marks(TorchFunctionMode):
    """Counts the calls of ``ipu.identity_loss``, also those within another one, which no rule of PopTorch breaks."""

    count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func is ipu.identity_loss
        return func(*args, **(kwargs or {}))


def pictures() -> tuple[Tensor, Tensor]:
    x, y = example(6)
    return x.reshape(6, 1, 2, 3), y


EXERCISES = [
    Exercise(
        "ipu_cuda.1",
        "A neuron without internal state",
        leaky,
        [_the_numbers, _a_static_graph, Check("the gradient", _no_gradient_in_reset)],
        difficulty=2,
        seconds=30.0,  # ipu.check traces a model several times
        hints=(
            "mem ← beta · mem + x - reset · threshold. The old membrane decides on the reset: `mem > threshold`.",
            "`if`, `.item()`, `bool()` and `float()` look at a value, and a recorded graph has none. Compute with 0 "
            "and 1: `(mem > threshold).to(mem.dtype)`.",
            "PopTorch does not know all operations. `x[mask]` has as many values as there are spikes; "
            "`torch.heaviside` and `nonzero` have no counterpart. A comparison and a product do.",
            "`Leaky` takes the threshold away in the step *after* the spike, once, and keeps the rest of the membrane.",
            "The reset must not pass on a gradient. A comparison has none. `fire` has one: `.detach()` it.",
            "`return fire(mem - threshold), mem`: first the spikes, then the new membrane.",
        ),
    ),
    Exercise(
        "ipu_cuda.2",
        "A spike in plain operations",
        spike,
        [Check("0 or 1", _is_0_or_1), Check("the gradient", _has_the_gradient), _plain_operations],
        difficulty=2,
        seconds=30.0,  # ipu.check traces a model several times
        minutes=3,
        hints=(
            "Add a term to the step that is 0 and has the gradient of `smooth(u)`: `s` minus `s` detached.",
            "A comparison has no gradient. It must come from a term that is computed from `smooth(u)`.",
            "Rounding: `step + s - s.detach()` is computed from the left, and s may be large. `(s - s.detach())` first "
            "is exactly 0.",
            "The `backward` of a `torch.autograd.Function` is never called: PopTorch differentiates the forward pass.",
            "PopTorch does not document this operation. It documents both in `(u > 0).to(u.dtype)`.",
        ),
    ),
    Exercise(
        "ipu_cuda.3",
        "The loss in the model",
        Training,
        [_without_labels, _with_labels, _the_rules],
        difficulty=2,
        seconds=30.0,  # ipu.check traces a model several times
        minutes=4,
        optional=True,
        hints=(
            "`x.view(128, -1)` fits one batch size only, but an IPU splits a call into micro-batches: `x.flatten(1)`.",
            "`if y is None: return out`.",
            "`return out, …` with exactly one loss after `out`.",
            "A number (`.item()`, `float`) has no graph, and looks at a value. Return the tensor itself.",
            "No `.backward()` in the model: PopTorch adds the backward pass itself.",
            'Nothing tells PopTorch which tensor is the loss: mark it with `ipu.identity_loss(…, "none")`.',
            "Exactly one loss may be marked. Add up all terms of the loss, and mark the sum.",
        ),
    ),
    Exercise(
        "ipu_cuda.4",
        "Where launches stop mattering",
        crossover,
        [
            _the_crossover,
            _a_flat_line,
            expect.same(
                "a steep line",
                5,
                "If no time is left at batch 0, the answer is 0: no batch is below 0.",
                {"small": (1, 0.001), "large": (64, 0.1)},
            ),
        ],
        difficulty=2,
        hints=(
            "Two points make a line: b = (t1 - t0) / (b1 - b0), a = t0 - b · b0. Then a / b.",
            "The other way round: b · batch = a.",
            "The time of the smaller batch also includes work: a = t0 - b · b0.",
            "The time of the larger batch is not all work: the slope is of the *difference* of both.",
            "A flat line never gets there. Check before you divide: `if per_sample <= 0: return math.inf`.",
            "A steep line may cross the axis to the left of 0. No batch is there: `max(…, 0.0)`.",
        ),
    ),
]
