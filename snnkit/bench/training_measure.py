"""One network in one dtype: everybody's first steps, the comparison of one update, then the race."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ..device.precision import Precision
from ..measure.timing import ThroughputClock, Timing, first_call, race
from ..measure.tracker import MemoryTracker
from .training_contestants import OURS, Contestant, Trainer, fill, ours
from .training_nets import Workload

# First steps before anything is compared or timed: compilers are done then, and graphs recorded (the fourth does it).
SETTLE = 6
MATMUL = "a matrix product"
_MATMUL_SIZE = {"cpu": 1024, "cuda": 8192}

# Most that an update may differ from that of our eager engine in the same dtype: share of output spikes, relative L2
# distance of the change of all weights. Another order of operations moves a membrane across its threshold now and then,
# and one spike more or less changes the gradients of all layers before it: another memory format alone was seen to
# change 2 % of the output spikes and 12 % of an update. Low precision rounds far more, and differently where a peer
# keeps its membranes in it (ours are float32): there the comparison only finds who computes something unrelated, for
# whom the distance is above 1.
SPIKES_MAY_DIFFER = {None: 0.05, torch.bfloat16: 0.1, torch.float16: 0.1}
UPDATE_MAY_DIFFER = {None: 0.3, torch.bfloat16: 0.7, torch.float16: 0.7}


@dataclass(frozen=True)
class Outcome:
    """Rows for the record, the rate of matrix products in the same race, and who was not timed, with the reason."""

    rows: list[dict[str, Any]]
    matmul: dict[str, Any]
    skipped: list[dict[str, Any]]


def _product(a: Tensor, b: Tensor) -> Tensor:
    """In the arithmetic that convolutions are allowed: PyTorch lets them, but not products, round to TF32 on CUDA."""
    usual = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = usual or torch.backends.cudnn.allow_tf32
    try:
        return a @ b
    finally:
        torch.backends.cuda.matmul.allow_tf32 = usual


class DoesNotRun(Exception):
    """A contestant can't be timed; the message says why."""


def measure(workload: Workload, precision: Precision, contestants: Sequence[Contestant], repeats: int) -> Outcome:
    """Run one network in one dtype. ``repeats``: rounds of the race."""
    device, labels = precision.device, labels_of(workload, precision)
    weights = [w.to(device) for w in workload.weights()]
    reference = _one_update(next(iter(ours(workload, device))).make(workload, precision), weights)
    flops = flops_of(workload, device)
    runs: dict[str, Callable[[], object]] = {}
    rows: dict[str, dict[str, Any]] = {}
    skipped = []
    for contestant in contestants:
        try:
            row, step = _first(contestant, workload, precision, weights, reference)
        except DoesNotRun as reason:
            skipped.append(labels | {"contestant": contestant.name, "reason": str(reason)})
            continue
        rows[contestant.name], runs[contestant.name] = labels | row, step
    if not runs:
        return Outcome([], {}, skipped)
    size = _MATMUL_SIZE[device.type]
    a, b = (torch.rand(size, size, device=device, dtype=precision.dtype or torch.float32) for _ in range(2))
    timings = race({MATMUL: lambda: _product(a, b), **runs}, repeats, clock=ThroughputClock(device))
    rate = 2 * size**3 / timings[MATMUL].median
    for name, row in rows.items():
        floor = flops / rate
        row |= _figures(timings[name]) | {"floor_flops": flops, "floor_s": floor}
        row["samples_per_s"] = workload.batch / timings[name].median
        row["over_floor"] = timings[name].median / floor
    matmul = labels | _figures(timings[MATMUL]) | {"size": size, "flops_per_s": rate}
    return Outcome(list(rows.values()), matmul, skipped)


def labels_of(workload: Workload, precision: Precision) -> dict[str, Any]:
    dtype = str(precision.dtype or torch.float32).removeprefix("torch.")
    return {
        "net": workload.net,
        "equation": workload.equation,
        "dtype": dtype,
        "width": workload.width,
        "steps": workload.steps,
        "batch": workload.batch,
    }


def flops_of(workload: Workload, device: torch.device) -> int:
    """Floating-point operations of all convolutions and matrix products in forward and backward of an update.

    Of our network, which computes what is static once: no network needs more.
    """
    plain = Precision(device, None)
    trainer = next(iter(ours(workload, device))).make(replace(workload, batch=min(workload.batch, 8)), plain)
    with FlopCounterMode(display=False) as counter:
        trainer.step()
    return counter.get_total_flops() * workload.batch // min(workload.batch, 8)


def _first(
    contestant: Contestant,
    workload: Workload,
    precision: Precision,
    weights: list[Tensor],
    reference: tuple[Tensor, Tensor],
) -> tuple[dict[str, Any], Callable[[], object]]:
    """Make it, take its first steps, compare an update; a row without times, and its step."""
    device = precision.device
    if contestant.compiles:
        torch.compiler.reset()  # or it would meet torch's limit of recompilations and run uncompiled
    before = _allocated(device)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            began = time.perf_counter()
            trainer = contestant.make(workload, precision)
            first, _ = first_call(trainer.step, device)
            for _ in range(SETTLE - 1):
                trainer.step()
            first_call(lambda: None, device)
            ready = time.perf_counter() - began
            if refusal := trainer.refusal():
                raise DoesNotRun(refusal)
            if device.type == "cuda":
                peak: int | None = torch.cuda.max_memory_allocated(device) - before
            else:
                peak = _peak_on_cpu(contestant, workload, precision)
            out, change = _one_update(trainer, weights)
    except DoesNotRun:
        raise
    except (torch.cuda.OutOfMemoryError, MemoryError) as error:
        raise DoesNotRun("too little memory; lower --width or --batch") from error
    except Exception as error:  # a peer's bug must not end the run of all the others
        if contestant.library == OURS:
            raise
        first_line = str(error).strip().partition("\n")[0]
        raise DoesNotRun(f"{type(error).__name__}: {first_line[:200]}") from error
    differ = (out != reference[0]).float().mean().item()
    distance = ((change - reference[1]).norm() / reference[1].norm().clamp_min(1e-30)).item()
    if not differ <= SPIKES_MAY_DIFFER[precision.dtype]:
        raise DoesNotRun(f"it computes something else: {differ:.2%} of its output spikes differ")
    if not distance <= UPDATE_MAY_DIFFER[precision.dtype]:
        raise DoesNotRun(f"it computes something else: its update is {distance:.2%} off")
    row = {
        "contestant": contestant.name,
        "library": contestant.library,
        "default": contestant.default,
        "first_s": first,
        "ready_s": ready,
        "peak_bytes": peak,
        "spikes_differ": differ,
        "update_differs": distance,
    }
    return row, trainer.step


def _peak_on_cpu(contestant: Contestant, workload: Workload, precision: Precision) -> int | None:
    """Most bytes of tensors alive while it is made and does its first two updates, as PyTorch counts them on CUDA.

    None for what is compiled whole: counting happens between the operations, of which there are none then.
    """
    if contestant.compiles:
        return None
    with MemoryTracker() as tracker:
        trainer = contestant.make(workload, precision)
        for _ in range(2):
            trainer.step()
    return tracker.peak


def _one_update(trainer: Trainer, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The spikes of an update from the initial weights on, without momentum, and the change of all weights [P]."""
    fill(trainer.parameters, weights)
    for state in trainer.optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()
    out = trainer.step().float().clone()
    changes = [(p.detach() - w).flatten() for p, w in zip(trainer.parameters, weights, strict=True)]
    return out, torch.cat(changes)


def _allocated(device: torch.device) -> int:
    if device.type != "cuda":
        return 0
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def _figures(timing: Timing) -> dict[str, Any]:
    low, high = timing.spread
    return {"median_s": timing.median, "p10_s": low, "p90_s": high, "host_s": timing.host, "calls": timing.calls}
