"""Whole networks in training: samples per second, ours beside SpikingJelly, snnTorch and Norse.

    snnkit bench training --net conv --width 32

All candidates get the same weights, batch, loss and optimizer. One update is compared with our eager engine's before
the clock starts, and all take turns in the same run.

Columns: "first s" is the first update, "ready s" the time until steps have full speed: making the network, and its
first six updates, in which compilers run and graphs are recorded. "x floor" is the time as a multiple of the
floating-point operations of all layers at the rate of a large matrix product on the same device. "x ours" is the time
as a multiple of our fastest setting's.
"""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from snnkit import checks
from snnkit.device import Precision
from snnkit.lab.bench import baselines, suite
from snnkit.lab.bench.suite import OURS, DoesNotRun, Race, Record, Row, Rows, Suite, option, seconds_of, table, times
from snnkit.lab.bench.workloads import Candidate, Trainer, Workload, conv, dense, fill, ours
from snnkit.measure import ThroughputClock, Timing, first_call, peak_of

PRECISIONS = ("float32", "amp")
KEY = ("net", "equation", "dtype", "width", "steps", "batch")

# First steps before the comparison and the timing: after them compilers are done and graphs recorded (by the fourth).
SETTLE = 6
_MATMUL_SIZE = {"cpu": 1024, "cuda": 8192}

# Largest allowed difference from an update of our eager engine in the same dtype: share of output spikes, relative L2
# distance of the change of all weights. Another order of operations sometimes moves a membrane across its threshold,
# and one spike more or less changes the gradients of all layers before it. In the conv net another memory format, or
# the same convolution for all steps instead of once, changed up to 3.4 % of the output spikes and 49 % of an update
# (128 channels, float32). Low precision rounds far more, and differently if a library also stores its membranes in it
# (ours are float32). There the comparison only detects unrelated updates, at a distance above 1.
PLAIN_MAY_DIFFER, OTHERS_MAY_DIFFER = (0.05, 0.3), (0.1, 0.7)


@checks.arguments
@dataclass(frozen=True)
class Arguments(suite.Options):
    """What to run; the options of ``snnkit bench training``."""

    nets: Sequence[str] = option("The networks.", ("conv", "mlp"), flag="net", choices=("conv", "mlp"))
    width: int = option("Channels of the conv net.", 32, cuda=128, quick=4)
    hidden: int = option("Hidden neurons of the dense net.", 1000, quick=16)
    batch: int = option("Samples of an update.", 128, quick=8)
    dtypes: Sequence[str] = option("amp: mixed precision.", PRECISIONS, flag="dtype", choices=PRECISIONS)
    peers: bool = suite.peers_option()
    compiled: bool = option("With torch.compile, which takes minutes.", True, quick=False, flag="compile")
    repeats: int = suite.repeats_option(11)


class UpdateRace(Race):
    """One network in one dtype."""

    def __init__(self, workload: Workload, precision: Precision, candidates: Sequence[Candidate]) -> None:
        self.workload, self.precision, self.device = workload, precision, precision.device
        self.candidates = candidates
        self.labels = workload.labels(precision)
        self.clock = ThroughputClock(self.device)

    @cached_property
    def _weights(self) -> list[Tensor]:
        return [w.to(self.device) for w in self.workload.weights()]

    @cached_property
    def _reference(self) -> tuple[Tensor, Tensor]:
        eager = next(iter(ours(self.workload, self.device)))
        with _without_tf32():
            return _one_update(eager.make(self.workload, self.precision), self._weights)

    @cached_property
    def _flops(self) -> int:
        return flops_of(self.workload, self.device)

    def prepare(self, candidate: Candidate) -> tuple[Row, Callable[[], object]]:
        if candidate.compiles:
            torch.compiler.reset()  # else it would reach torch's limit of recompilations and run uncompiled
        row, trainer, result = suite.attempt(candidate.library, lambda: self._first_steps(candidate))
        (out, change), (expected_out, expected) = result, self._reference
        differ = (out != expected_out).float().mean().item()
        distance = suite.distance(change, expected)
        plain = self.workload.net == "mlp" and self.precision.dtype is None
        most_spikes, most = PLAIN_MAY_DIFFER if plain else OTHERS_MAY_DIFFER
        if not differ <= most_spikes:
            raise DoesNotRun(f"it computes something else: {differ:.2%} of its output spikes differ")
        if not distance <= most:
            raise DoesNotRun(f"it computes something else: its update is {distance:.2%} off")
        about = {"spikes_differ": differ, "update_differs": distance, "floor_flops": self._flops}
        return row | {"default": candidate.default} | about, trainer.step

    def _first_steps(self, candidate: Candidate) -> tuple[Row, Trainer, tuple[Tensor, Tensor]]:
        make = partial(candidate.make, self.workload, self.precision)
        trainers: list[Trainer] = []
        row: Row = {"peak_bytes": None}

        def settle() -> None:
            began = time.perf_counter()
            trainers.append(make())
            row["first_s"], _ = first_call(trainers[0].step, self.device)
            first_call(lambda: _repeat(trainers[0].step, SETTLE - 1), self.device)
            row["ready_s"] = time.perf_counter() - began

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if self.device.type == "cuda":
                row["peak_bytes"] = peak_of(settle, self.device)
            else:
                settle()
            if refusal := trainers[0].refusal():
                raise DoesNotRun(refusal)
            if self.device.type != "cuda" and not candidate.compiles:  # counting needs operations, a graph has none
                row["peak_bytes"] = peak_of(lambda: _repeat(make().step, 2), self.device)
            return row, trainers[0], self._checked_update(make, trainers[0])

    def _checked_update(self, make: Callable[[], Trainer], trainer: Trainer) -> tuple[Tensor, Tensor]:
        """An update without TF32. A graph has the arithmetic with which it was recorded, so another is recorded."""
        with _without_tf32():
            if trainer.recorded and self.precision.dtype is None:
                trainer = make()
                _repeat(trainer.step, SETTLE)
            return _one_update(trainer, self._weights)

    def scale(self) -> Callable[[], object]:
        size = _MATMUL_SIZE[self.device.type]
        dtype = self.precision.dtype or torch.float32
        a, b = (torch.rand(size, size, device=self.device, dtype=dtype) for _ in range(2))

        def product() -> Tensor:
            # In the arithmetic of convolutions: on CUDA, PyTorch lets them round to TF32, but not products.
            with suite.tf32(any((torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32))):
                return a @ b

        return product

    def _rate(self, scale: Timing) -> float:
        return 2 * _MATMUL_SIZE[self.device.type] ** 3 / scale.median

    def floor(self, row: Row, scale: Timing) -> float:
        return self._flops / self._rate(scale)

    def references(self, scale: Timing) -> dict[str, list[Row]]:
        size = {"size": _MATMUL_SIZE[self.device.type], "flops_per_s": self._rate(scale)}
        return {"matmuls": [self.labels | seconds_of(scale) | size]}

    def finish(self, row: Row, timing: Timing) -> Row:
        return super().finish(row, timing) | {"samples_per_s": self.workload.batch / timing.median}


def measure(workload: Workload, precision: Precision, candidates: Sequence[Candidate], repeats: int) -> suite.Outcome:
    """Verify and time one network in one dtype. ``repeats``: rounds of the race."""
    return UpdateRace(workload, precision, candidates).measure(repeats)


def _repeat(step: Callable[[], object], count: int) -> None:
    for _ in range(count):
        step()


@contextlib.contextmanager
def _without_tf32() -> Iterator[None]:
    """On CUDA, PyTorch lets convolutions round float32 to TF32. Which of them do depends on library and memory format,
    and moves spikes by the thousand. So it is off while results are compared, and on while they are timed."""
    usual = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    try:
        yield
    finally:
        torch.backends.cudnn.allow_tf32 = usual


def flops_of(workload: Workload, device: torch.device) -> int:
    """Floating-point operations of all convolutions and matrix products in forward and backward of an update.

    They are counted in our network, which computes static results once: no network needs more.
    """
    few = min(workload.batch, 8)
    trainer = next(iter(ours(workload, device))).make(replace(workload, batch=few), Precision(device, None))
    with FlopCounterMode(display=False) as counter:
        trainer.step()
    return counter.get_total_flops() * workload.batch // few


def _one_update(trainer: Trainer, weights: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The spikes of an update from the initial weights, without momentum, and the change of all weights [P]."""
    fill(trainer.parameters, weights)
    for state in trainer.optimizer.state.values():
        for value in state.values():
            if isinstance(value, Tensor):
                value.zero_()
    out = trainer.step().float().clone()
    changes = [(p.detach() - w).flatten() for p, w in zip(trainer.parameters, weights, strict=True)]
    return out, torch.cat(changes)


def _cases(arguments: Arguments, device: torch.device) -> Iterator[UpdateRace]:
    workloads = [conv(arguments.width, arguments.batch)] if "conv" in arguments.nets else []
    if "mlp" in arguments.nets:
        workloads += [dense(name, arguments.hidden, arguments.batch) for name in baselines.EQUATIONS.values()]
    for workload in workloads:
        others = list(baselines.networks(workload)) if arguments.peers else []
        if not others and workload.equation not in ("IF", "Leaky"):
            continue  # an equation of another library alone
        every = [c for c in (*ours(workload, device), *others) if arguments.compiled or not c.compiles]
        for dtype in arguments.dtypes:
            precision = Precision.choose(device, dtype == "amp")
            yield UpdateRace(workload, precision, [c for c in every if c.suits(precision)])


def _table(record: Record, rows: Rows) -> str:
    net, equation, dtype, width, steps, batch = (rows[0][key] for key in KEY)
    title = f"{net} ({equation} neurons), {dtype}, width {width}, T = {steps}, batch {batch}"
    title += f"; {rows[0]['floor_flops'] / 1e9:.3g} GFLOP per update"
    for matmul in suite.same_case(record["matmuls"], rows[0], KEY):
        title += f"; matrix product: {matmul['flops_per_s'] / 1e12:.3g} TFLOP/s"
    best = min((row["median_s"] for row in rows if row["library"] == OURS), default=None)
    columns = {
        **suite.THROUGHPUT,
        "ready s": lambda row: f"{row['ready_s']:.3g}",
        "x ours": lambda row: times(row["median_s"], best),
    }
    return table(title, columns, rows)


def ratios(record: Record) -> str:
    """For each network, dtype and library: our samples per second over the library's, each in its best setting."""
    lines = []
    for rows in suite.by_case(record["rows"], KEY):
        best: dict[str, float] = {}
        for row in rows:
            best[row["library"]] = max(best.get(row["library"], 0.0), row["samples_per_s"])
        mine = best.pop(OURS, None)
        case = f"{rows[0]['net']} ({rows[0]['equation']}), {rows[0]['dtype']}"
        if mine is not None:
            lines += [f"{case}: {mine / rate:.2f} times the samples/s of {library}" for library, rate in best.items()]
    return "\n".join(["Best setting by best:", *lines]) if lines else ""


SUITE = Suite("training", KEY, _cases, _table, ending=ratios)
benchmark, tables = SUITE.run, SUITE.tables
