"""Whole networks in training: samples per second, ours beside SpikingJelly, snnTorch and Norse.

    snnkit bench training --net conv --width 32

All candidates get the same weights, batch, loss and optimizer. One update is compared with that of our eager engine
before the clock starts, and all take turns in the same run.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from ..device import Precision
from ..measure import Clock, MemoryTracker, ThroughputClock, Timing, clock_for, first_call, race
from ..nn import Sequential, is_static
from ..tables import text_table
from . import baselines
from .suite import (
    OURS,
    THROUGHPUT,
    DoesNotRun,
    Outcome,
    Race,
    Row,
    Suite,
    attempt,
    device_option,
    mebibytes,
    option,
    peers_option,
    repeats_option,
    same_case,
    seconds_of,
    throughput,
    times,
)
from .workloads import Candidate, Trainer, Workload, conv, dense, fill, ours

PRECISIONS = ("float32", "amp")
KEY = ("net", "equation", "dtype", "width", "steps", "batch")

# First steps before anything is compared or timed: compilers are done then, and graphs recorded (the fourth does it).
SETTLE = 6
_MATMUL_SIZE = {"cpu": 1024, "cuda": 8192}

# Most that an update may differ from that of our eager engine in the same dtype: share of output spikes, relative L2
# distance of the change of all weights. Another order of operations moves a membrane across its threshold now and then,
# and one spike more or less changes the gradients of all layers before it: another memory format alone was seen to
# change 2 % of the output spikes and 12 % of an update. Low precision rounds far more, and differently where a library
# stores its membranes in it (ours are float32): there the comparison only detects something unrelated, for which the
# distance is above 1.
SPIKES_MAY_DIFFER = {None: 0.05, torch.bfloat16: 0.1, torch.float16: 0.1}
UPDATE_MAY_DIFFER = {None: 0.3, torch.bfloat16: 0.7, torch.float16: 0.7}


@dataclass(frozen=True)
class Arguments:
    """What to run; the options of ``snnkit bench training``."""

    device: str = device_option()
    nets: Sequence[str] = option("The networks.", ("conv", "mlp"), flag="net", choices=("conv", "mlp"))
    width: int = option("Channels of the conv net.", 32, cuda=128, quick=4)
    hidden: int = option("Hidden neurons of the dense net.", 1000, quick=16)
    batch: int = option("Samples of an update.", 128, quick=8)
    dtypes: Sequence[str] = option("amp: mixed precision.", PRECISIONS, flag="dtype", choices=PRECISIONS)
    peers: bool = peers_option()
    compiled: bool = option("With torch.compile, which takes minutes.", True, quick=False, flag="compile")
    repeats: int = repeats_option(11)


class UpdateRace(Race):
    """One network in one dtype."""

    def __init__(self, workload: Workload, precision: Precision, candidates: Sequence[Candidate]) -> None:
        self.workload, self.precision, self.device = workload, precision, precision.device
        self.candidates = candidates
        self.labels = workload.labels(precision)
        self.clock = ThroughputClock(self.device)
        self._weights = [w.to(self.device) for w in workload.weights()]
        reference = next(iter(ours(workload, self.device)))
        self._reference = _one_update(reference.make(workload, precision), self._weights)
        self._flops = flops_of(workload, self.device)

    def prepare(self, candidate: Candidate) -> tuple[Row, Callable[[], object]]:
        if candidate.compiles:
            torch.compiler.reset()  # or it would reach torch's limit of recompilations and run uncompiled
        too_large = "too little memory; lower --width or --batch"
        row, trainer, result = attempt(candidate.library, lambda: self._first_steps(candidate), too_large)
        (out, change), (expected_out, expected) = result, self._reference
        differ = (out != expected_out).float().mean().item()
        distance = ((change - expected).norm() / expected.norm().clamp_min(1e-30)).item()
        if not differ <= SPIKES_MAY_DIFFER[self.precision.dtype]:
            raise DoesNotRun(f"it computes something else: {differ:.2%} of its output spikes differ")
        if not distance <= UPDATE_MAY_DIFFER[self.precision.dtype]:
            raise DoesNotRun(f"it computes something else: its update is {distance:.2%} off")
        about = {"contestant": candidate.name, "library": candidate.library, "default": candidate.default}
        return self.labels | about | row | {"spikes_differ": differ, "update_differs": distance}, trainer.step

    def _first_steps(self, candidate: Candidate) -> tuple[Row, Trainer, tuple[Tensor, Tensor]]:
        cuda = self.device.type == "cuda"
        before = 0
        if cuda:
            torch.cuda.synchronize(self.device)
            torch.cuda.reset_peak_memory_stats(self.device)
            before = torch.cuda.memory_allocated(self.device)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            began = time.perf_counter()
            trainer = candidate.make(self.workload, self.precision)
            first, _ = first_call(trainer.step, self.device)
            for _ in range(SETTLE - 1):
                trainer.step()
            first_call(lambda: None, self.device)
            ready = time.perf_counter() - began
            if refusal := trainer.refusal():
                raise DoesNotRun(refusal)
            peak = torch.cuda.max_memory_allocated(self.device) - before if cuda else self._peak_on_cpu(candidate)
            row = {"first_s": first, "ready_s": ready, "peak_bytes": peak}
            return row, trainer, _one_update(trainer, self._weights)

    def _peak_on_cpu(self, candidate: Candidate) -> int | None:
        """Most bytes of tensors alive while it is made and does its first two updates, as PyTorch counts on CUDA.

        None for what is compiled whole: counting happens between the operations, of which there are none then.
        """
        if candidate.compiles:
            return None
        with MemoryTracker() as tracker:
            trainer = candidate.make(self.workload, self.precision)
            for _ in range(2):
                trainer.step()
        return tracker.peak

    def scale(self) -> Callable[[], object]:
        size = _MATMUL_SIZE[self.device.type]
        dtype = self.precision.dtype or torch.float32
        a, b = (torch.rand(size, size, device=self.device, dtype=dtype) for _ in range(2))
        return lambda: _product(a, b)

    def _rate(self, scale: Timing) -> float:
        return 2 * _MATMUL_SIZE[self.device.type] ** 3 / scale.median

    def beside(self, scale: Timing) -> dict[str, list[Row]]:
        size = {"size": _MATMUL_SIZE[self.device.type], "flops_per_s": self._rate(scale)}
        return {"matmuls": [self.labels | _times(scale) | size]}

    def finish(self, row: Row, timing: Timing, scale: Timing) -> Row:
        floor = self._flops / self._rate(scale)
        of_floor = {"floor_flops": self._flops, "floor_s": floor, "over_floor": timing.median / floor}
        return row | _times(timing) | of_floor | {"samples_per_s": self.workload.batch / timing.median}


def measure(workload: Workload, precision: Precision, candidates: Sequence[Candidate], repeats: int) -> Outcome:
    """Verify and time one network in one dtype. ``repeats``: rounds of the race."""
    return UpdateRace(workload, precision, candidates).measure(repeats)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """In the arithmetic that convolutions are allowed: PyTorch lets them, but not products, round to TF32 on CUDA."""
    usual = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = usual or torch.backends.cudnn.allow_tf32
    try:
        return a @ b
    finally:
        torch.backends.cuda.matmul.allow_tf32 = usual


def flops_of(workload: Workload, device: torch.device) -> int:
    """Floating-point operations of all convolutions and matrix products in forward and backward of an update.

    Of our network, which computes what is static once: no network needs more.
    """
    few = min(workload.batch, 8)
    trainer = next(iter(ours(workload, device))).make(replace(workload, batch=few), Precision(device, None))
    with FlopCounterMode(display=False) as counter:
        trainer.step()
    return counter.get_total_flops() * workload.batch // few


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


def _times(timing: Timing) -> Row:
    return seconds_of(timing) | {"host_s": timing.host, "calls": timing.calls}


def _cases(arguments: Arguments, device: torch.device) -> Iterator[UpdateRace]:
    workloads = [conv(arguments.width, arguments.batch)] if "conv" in arguments.nets else []
    if "mlp" in arguments.nets:
        workloads += [dense(name, arguments.hidden, arguments.batch) for name in baselines.EQUATIONS.values()]
    for workload in workloads:
        others = list(baselines.networks(workload, device)) if arguments.peers else []
        if not others and workload.equation not in ("IF", "Leaky"):
            continue  # an equation that is there for another library alone
        every = [c for c in (*ours(workload, device), *others) if arguments.compiled or not c.compiles]
        for dtype in arguments.dtypes:
            yield UpdateRace(workload, Precision.choose(device, dtype == "amp"), every)


_HEAD = (*THROUGHPUT, "ready s", "x floor", "peak MB", "x ours")


def _table(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Columns: "first s" is the first update, "ready s" the time until steps are as fast as they get: making the
    network, and its first six updates, in which compilers run and graphs are recorded. "x floor" is the time
    over that of the floating-point operations of all layers at the rate of a large matrix product on the same
    device. "x ours" is the time over that of our fastest setting.
    """
    net, equation, dtype, width, steps, batch = (rows[0][key] for key in KEY)
    title = f"{net} ({equation} neurons), {dtype}, width {width}, T = {steps}, batch {batch}"
    title += f"; {rows[0]['floor_flops'] / 1e9:.3g} GFLOP per update"
    for matmul in same_case(record.get("matmuls", []), rows[0], KEY):
        title += f"; matrix product: {matmul['flops_per_s'] / 1e12:.3g} TFLOP/s"
    best = min((row["median_s"] for row in rows if row["library"] == OURS), default=None)
    cells = [
        (
            *throughput(row),
            f"{row['ready_s']:.3g}",
            f"{row['over_floor']:.2f}",
            mebibytes(row.get("peak_bytes")),
            times(row["median_s"], best),
        )
        for row in rows
    ]
    return "\n".join([title, *text_table(_HEAD, cells)])


def _place(skip: Mapping[str, Any]) -> str:
    return f" ({skip['net']}, {skip['equation']}, {skip['dtype']})" if "net" in skip else ""


def ratios(record: Mapping[str, Any]) -> str:
    """For each network and library: ours over its samples per second, dtype by dtype and best by best."""
    lines = []
    rows = record["rows"]
    for net, equation in dict.fromkeys((row["net"], row["equation"]) for row in rows):
        here = [row for row in rows if (row["net"], row["equation"]) == (net, equation)]
        mine = [row for row in here if row["library"] == OURS]
        for library in dict.fromkeys(row["library"] for row in here if row["library"] != OURS):
            theirs = [row for row in here if row["library"] == library]
            parts = [
                f"{_ratio(_of(mine, dtype), _of(theirs, dtype)):.2f} ({dtype})"
                for dtype in dict.fromkeys(row["dtype"] for row in here)
                if _of(mine, dtype) and _of(theirs, dtype)
            ]
            if not mine or not parts:
                continue
            parts.append(f"{_ratio(mine, theirs):.2f} (any dtype)")
            if usual := [row for row in theirs if row["default"]]:
                slow = next((row for row in usual if row["dtype"] == "float32"), usual[0])
                same = _of(mine, slow["dtype"]) or mine
                parts.append(f"{_ratio(same, [slow]):.2f} (over its default, {slow['dtype']})")
            lines.append(f"{net} ({equation}): samples/s over {library}'s, best setting by best: {', '.join(parts)}")
    return "\n".join(lines)


def _of(rows: Sequence[Mapping[str, Any]], dtype: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["dtype"] == dtype]


def _ratio(mine: Sequence[Mapping[str, Any]], theirs: Sequence[Mapping[str, Any]]) -> float:
    return max(row["samples_per_s"] for row in mine) / max(row["samples_per_s"] for row in theirs)


SUITE = Suite("training", Arguments, KEY, _cases, _table, _place, lambda arguments, device: {"matmuls": []}, ratios)
benchmark, tables = SUITE.run, SUITE.tables


def layer_times(
    net: Sequential,
    x: Tensor,
    *,
    precision: Precision | None = None,
    repeats: int = 5,
    clock: Clock | None = None,
) -> list[float]:
    """Seconds of the forward and backward pass of each layer in a training step, medians, in order.

    Each layer gets the input that it has in ``net`` and a random gradient, and computes the gradients of its weights
    and, but for the first, of its input. What is between layers (the loss, the optimizer, additions of gradients) is
    not included, nor what a compiler would gain by merging neighbours.

    Args:
        net: on the device of ``x``, in training mode or not.
        x: [T, B, ...]; a static one stays static.
        precision: autocast, as in ``train.fit``; None: none.
        repeats: rounds, in which the layers take turns, at least 3.
        clock: of the device of ``x`` by default.

    Raises:
        TypeError: ``net`` is not a ``snnkit.nn.Sequential``.
        ValueError: fewer than 3 rounds.
    """
    if not isinstance(net, Sequential):
        raise TypeError(f"net must be a snnkit.nn.Sequential, but it is a {type(net).__name__}")
    precision = precision or Precision(x.device, None)
    before = {key: value.clone() for key, value in net.state_dict().items()}
    try:
        with torch.no_grad(), precision.autocast():
            outputs = net.record(x).layers
        passes = {}
        for i, (given, out) in enumerate(zip([x, *outputs], outputs, strict=False)):
            # What stays static is computed for one step only.
            given = given[:1] if is_static(given) and is_static(out) else given
            passes[str(i)] = _both_ways(net[i : i + 1], given, precision, first=i == 0)
        timings = race(passes, repeats, clock=clock or clock_for(x.device))
    finally:
        net.load_state_dict(before)  # a batch norm in training has seen the same input many times
    return [timings[str(i)].median for i in range(len(outputs))]


def _both_ways(layer: nn.Module, x: Tensor, precision: Precision, *, first: bool) -> Callable[[], object]:
    steps = x.shape[0]
    leaf = (x[0] if is_static(x) else x).detach().requires_grad_(not first)
    wanted = [p for p in layer.parameters() if p.requires_grad] + ([] if first else [leaf])

    def forward() -> Tensor:
        given = leaf.expand(steps, *leaf.shape) if is_static(x) else leaf
        with precision.autocast():
            return layer(given)[0]

    gradient = torch.rand_like(forward())

    def run() -> None:
        out = forward()
        if out.requires_grad:
            torch.autograd.grad(out, wanted, gradient, allow_unused=True)

    return run
