"""One size, dtype and mode: everybody's first call, the comparison of results, then the race."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..measure.memory import available, held_for_backward, peak_of
from ..measure.timing import Timing, clock_for, first_call, race
from .contestants import COMPILED, EQUATIONS, OURS, Contestant
from .floor import TRAINING, bytes_per_neuron_step

COPY = "copy of x"

# Most that a contestant may differ from the eager engine: share of spikes, and relative L2 distance of gradients.
# Another order of float32 operations moves a membrane across its threshold now and then, and one spike more or less
# changes the gradients around it. Peers keep low-precision membranes for low-precision input; ours are float32 always.
SPIKES_MAY_DIFFER = {torch.float32: 1e-3, torch.bfloat16: 2e-2, torch.float16: 2e-2}
GRADIENT_MAY_DIFFER = {torch.float32: 5e-2, torch.bfloat16: 0.15, torch.float16: 0.15}
_COMPARED = 2**16  # neurons; half of them the first ones of the layer, half the last ones


@dataclass(frozen=True)
class Case:
    """What is measured: N neurons over T steps with input of a dtype in a mode on a device."""

    neurons: int
    steps: int
    dtype: torch.dtype
    mode: str
    device: torch.device

    @property
    def labels(self) -> dict[str, Any]:
        dtype = str(self.dtype).removeprefix("torch.")
        return {"mode": self.mode, "dtype": dtype, "neurons": self.neurons, "steps": self.steps}

    def need(self, keeps: int) -> int:
        """Bytes that a contestant needs: x, its copy, spikes, two gradients, and what is kept for backward."""
        elements = self.neurons * self.steps
        if self.mode != TRAINING:
            return elements * 4 * self.dtype.itemsize
        return elements * (5 * self.dtype.itemsize + keeps * 4)


@dataclass(frozen=True)
class Outcome:
    """Rows for the record: who was timed, the copy of x in the same race, and who was not timed, with the reason."""

    rows: list[dict[str, Any]]
    copy: dict[str, Any]
    skipped: list[dict[str, Any]]


class DoesNotRun(Exception):
    """A contestant can't be timed in this case; the message says why."""


class FellBack(DoesNotRun):
    """Another engine ran than the one asked for. Engines say so only once, so whoever hears it has to remember."""


def measure(case: Case, contestants: Sequence[Contestant], repeats: int, fell_back: dict[Any, str]) -> Outcome:
    """Run one case. Without rows where nobody takes part or fits into memory.

    Args:
        repeats: rounds of the race.
        fell_back: (contestant, dtype) to the reason, of all cases so far; added to.
    """
    free = available(case.device)
    taking_part = [c for c in contestants if case.mode in c.modes and (c.longest is None or case.steps <= c.longest)]
    fitting = [c for c in taking_part if free is None or case.need(c.keeps) <= free]
    skipped = [_skip(case, c, _too_large(case.need(c.keeps), free)) for c in taking_part if c not in fitting]
    if not fitting:
        return Outcome([], {}, skipped)
    x = torch.rand(case.steps, 1, case.neurons, device=case.device).mul_(1.5).to(case.dtype)
    gradients = {case.dtype: torch.rand(x.shape, device=case.device).to(case.dtype)} if case.mode == TRAINING else {}
    runs: dict[str, Callable[[], object]] = {}
    rows: dict[str, dict[str, Any]] = {}
    references: dict[str, tuple[Tensor, Tensor | None]] = {}
    for contestant in fitting:
        if contestant.equation not in references:
            references[contestant.equation] = _reference(contestant.equation, x, gradients.get(case.dtype))
        run = _pass(case, contestant.forward, x, gradients)
        known = contestant.key, case.dtype
        try:
            if known in fell_back:
                raise DoesNotRun(fell_back[known])
            rows[contestant.key] = _first(case, contestant, run, x, references[contestant.equation])
        except DoesNotRun as reason:
            if isinstance(reason, FellBack):
                fell_back[known] = str(reason)
            skipped.append(_skip(case, contestant, str(reason)))
        else:
            runs[contestant.key] = run
    copied = torch.empty_like(x)
    timings = race({COPY: lambda: copied.copy_(x), **runs}, repeats, clock=clock_for(case.device))
    copy = case.labels | _figures(timings[COPY]) | {"bytes": 2 * x.nbytes}
    copy["bytes_per_s"] = copy["bytes"] / timings[COPY].median
    for key, run in runs.items():
        row, timing = rows[key], timings[key]
        floor = row["floor_bytes"] / copy["bytes_per_s"]
        row.update(_figures(timing), floor_s=floor, over_floor=timing.median / floor)
        row["peak_bytes"] = peak_of(run, case.device)
    return Outcome(list(rows.values()), copy, skipped)


def _first(
    case: Case,
    contestant: Contestant,
    run: Callable[[], tuple[Tensor, Tensor | None]],
    x: Tensor,
    reference: tuple[Tensor, Tensor | None],
) -> dict[str, Any]:
    """First call and comparison: the part of a row that is known before the race. DoesNotRun if it can't take part."""
    if contestant.name == COMPILED:
        torch.compiler.reset()  # or it would meet torch's limit of recompilations and run uncompiled
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        try:
            seconds, (spikes, gradient) = first_call(lambda: _as_asked(contestant, run, x), case.device)
        except DoesNotRun:
            raise
        except (torch.cuda.OutOfMemoryError, MemoryError) as error:
            raise DoesNotRun(_too_large(case.need(contestant.keeps), available(case.device))) from error
        except Exception as error:  # a peer's bug must not end the run of all the others
            if contestant.library == OURS:
                raise
            first_line = str(error).strip().partition("\n")[0]
            raise DoesNotRun(f"{type(error).__name__}: {first_line[:200]}") from error
    for warning in heard:
        other = re.search(r"runs in the (\w+) engine", str(warning.message))
        if contestant.library == OURS and other and other[1] != contestant.engine:
            raise FellBack(str(warning.message))
    compared = _compare(case, (spikes, gradient), reference)
    held = held_for_backward(contestant.forward, x) if case.mode == TRAINING else None
    elements = case.neurons * case.steps
    return {
        "contestant": contestant.name,
        "library": contestant.library,
        "engine": contestant.engine,
        "equation": contestant.equation,
        **case.labels,
        "out_dtype": str(spikes.dtype).removeprefix("torch."),
        "first_s": seconds,
        "floor_bytes": elements * bytes_per_neuron_step(case.mode, case.dtype, contestant.out_dtype),
        "held_bytes": held.total if held else 0,
        "held_x_bytes": held.x if held else 0,
        **compared,
    }


def _as_asked(contestant: Contestant, run: Callable[[], Any], x: Tensor) -> Any:
    reason = contestant.why_not(x)  # traces an equation that is new: a part of the first call
    if reason:
        raise DoesNotRun(reason)
    return run()


def _pass(case: Case, forward: Callable[[Tensor], Tensor], x: Tensor, gradients: dict[torch.dtype, Tensor]):
    """The function that is timed. In training it takes a fresh leaf and gives its gradient, as a hidden layer does."""

    def infer() -> tuple[Tensor, None]:
        with torch.no_grad():
            return forward(x), None

    def train() -> tuple[Tensor, Tensor]:
        leaf = x.detach().requires_grad_()
        out = forward(leaf)
        if out.dtype not in gradients:  # a peer that gives back another dtype than it got; made in its first call
            gradients[out.dtype] = gradients[case.dtype].to(out.dtype)
        (gradient,) = torch.autograd.grad(out, leaf, gradients[out.dtype])
        return out.detach(), gradient

    return train if case.mode == TRAINING else infer


def _reference(equation: str, x: Tensor, gradient: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Spikes and gradient of our eager engine for some neurons of the layer: neurons do not know of each other."""
    neuron, some = EQUATIONS[equation]("eager"), _some(x)
    if gradient is None:
        with torch.no_grad():
            return neuron(some)[0], None
    leaf = some.detach().requires_grad_()
    out = neuron(leaf)[0]
    return out.detach(), torch.autograd.grad(out, leaf, _some(gradient))[0]


def _compare(case: Case, result: tuple[Tensor, Tensor | None], reference: tuple[Tensor, Tensor | None]):
    """How far a result is from the reference; DoesNotRun where that is too far."""
    (spikes, gradient), (right, right_gradient) = result, reference
    differ = (_some(spikes).float() != right.float()).float().mean().item()
    if not differ <= SPIKES_MAY_DIFFER[case.dtype]:
        raise DoesNotRun(f"it computes something else: {differ:.2%} of its spikes differ")
    found: dict[str, Any] = {"compared_neurons": right.shape[-1], "spikes_differ": differ, "gradient_differs": None}
    if gradient is not None and right_gradient is not None:
        right_gradient = right_gradient.float()
        distance = (_some(gradient).float() - right_gradient).norm() / right_gradient.norm().clamp_min(1e-30)
        found["gradient_differs"] = distance.item()
        if not distance <= GRADIENT_MAY_DIFFER[case.dtype]:
            raise DoesNotRun(f"it computes something else: its gradients are {distance:.2%} off")
    return found


def _some(tensor: Tensor) -> Tensor:
    """The first and the last neurons of [T, B, N], all where there are few."""
    half = _COMPARED // 2
    if tensor.shape[-1] <= _COMPARED:
        return tensor
    return torch.cat([tensor[..., :half], tensor[..., -half:]], dim=-1)


def _figures(timing: Timing) -> dict[str, Any]:
    low, high = timing.spread
    return {"median_s": timing.median, "p10_s": low, "p90_s": high, "host_s": timing.host, "calls": timing.calls}


def _skip(case: Case, contestant: Contestant, reason: str) -> dict[str, Any]:
    return {"contestant": contestant.name, "equation": contestant.equation, **case.labels, "reason": reason}


def _too_large(need: int, free: int | None) -> str:
    has = "" if free is None else f", and {free / 2**30:.1f} GiB are free"
    return f"too little memory: about {need / 2**30:.1f} GiB are needed{has}; lower --neurons or --steps"
