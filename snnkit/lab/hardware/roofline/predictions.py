"""Predict the time of a training step on a GPU and on an IPU, as a range, from its operations and bytes.

A GPU runs kernels one after the other: Σ max(launch, kernel). Mode "fused" has each layer of neurons as one kernel
forward and one backward; "graph" starts all by one CUDA graph. A kernel takes the longer of its bytes at the memory's
bandwidth and its arithmetic at the peak, each times the share of it that is reached (Williams, Waterman and Patterson
2009, doi:10.1145/1498765.1498785). Other work of the host is not counted.

An IPU is bulk-synchronous, with all data in the tiles' own memories: all tiles compute, wait for each other, exchange,
and continue (Valiant 1990, doi:10.1145/79173.79181). A step takes the cycles of computing, exchange and
synchronisation, summed over operations, divided by the clock, and the round trip to the host and its input. Elementwise
operations follow the open cost model of PopLibs (graphcore/poplibs, MIT): the values of a tile are divided among six
workers, each with a fixed cost and a cost per vector. None of these predictions was ever measured on an IPU; numbers
without a source are ``Assumed``.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, NamedTuple, get_args

from snnkit import checks, tables
from snnkit.lab.hardware.chips import Chip, MissingFigure, get
from snnkit.lab.hardware.roofline.work import Operation, Work

Mode = Literal["eager", "fused", "graph", "fused graph"]
Precision = Literal["float32", "float16"]  # of everything
MODES: tuple[Mode, ...] = get_args(Mode)
# The peak in FLOP/s, a figure of chips, and the bytes of a value by those of float32.
_PRECISIONS = {"float32": ("fp32_flops", 1.0), "float16": ("fp16_flops", 0.5)}
# Instructions that an elementwise operation such as exp takes; an addition is one, half of a multiply-add.
_COSTLY = 10


@dataclass(frozen=True)
class Range:
    """Low, likely and high, all at least 0. Sums and products combine low with low: uncertain numbers vary together,
    which gives the widest range."""

    low: float
    value: float
    high: float

    @property
    def _ends(self) -> tuple[float, float, float]:
        return self.low, self.value, self.high

    def __post_init__(self) -> None:
        # Thousands are made for one prediction, nearly all of them sums and products of others.
        if not all(type(end) in (int, float) for end in self._ends):
            for name, end in zip(("low", "value", "high"), self._ends, strict=True):
                checks.number(f"{name} of a Range", end)
        if not 0 <= self.low <= self.value <= self.high < 1e38:
            raise ValueError(f"a Range must have 0 <= low <= value <= high < 1e38, but they are {self._ends}")

    @classmethod
    def of(cls, value: Any) -> Range:
        """A number, (low, value, high) or a Range."""
        if isinstance(value, Range):
            return value
        return cls(*value) if isinstance(value, tuple) else cls(value, value, value)

    def __add__(self, other: Range | float) -> Range:
        return Range(*map(operator.add, self._ends, Range.of(other)._ends))

    def __mul__(self, other: Range | float) -> Range:
        return Range(*map(operator.mul, self._ends, Range.of(other)._ends))

    def __truediv__(self, other: Range | float) -> Range:
        return self * Range.of(other).inverse()

    def inverse(self) -> Range:
        """1 divided by it: low becomes high. ZeroDivisionError if it may be 0."""
        return Range(1 / self.high, 1 / self.value, 1 / self.low)

    def at_least(self, other: Range | float) -> Range:
        """The larger of both at either end."""
        return Range(*map(max, self._ends, Range.of(other)._ends))

    def __str__(self) -> str:
        return f"{self.value:.3g}" if self.low == self.high else f"{self.value:.3g} ({self.low:.3g} … {self.high:.3g})"


class Assumed(NamedTuple):
    """A free number of the models."""

    range: Range
    unit: str  # SI; "share" of something, at most 1; or "" for a factor
    meaning: str
    source: str  # why this value and this range


_NOT_FOUND = "no source is known"
_SHARES = "no source: from a tenth to what a good library reaches"
_TABLE = (
    ("ipu_matmul_efficiency", (0.1, 0.3, 0.6), "share", "of the peak that matrix products reach on an IPU", _SHARES),
    ("ipu_sync_cycles", (50, 150, 500), "cycles", "that the tiles wait for each other before each exchange",
     "the function that knows it is in the closed part of Poplar"),
    ("ipu_host_seconds", (5e-6, 30e-6, 200e-6), "s", "a round trip between host and IPU", _NOT_FOUND),
    ("ipu_host_bandwidth", (10e9, 20e9, 32e9), "B/s", "of the host's data to the IPU",
     "PCIe 4.0 × 16 carries 32e9 one way; the share that streams reach is not known"),
    ("ipu_vertices", (0.25, 1.0, 1.5), "", "elementwise operations that run separately, by those that are counted",
     "below 1 where PopART fuses some, how many is not known; up to 1.5 as PopTorch needs surrogates in plain "
     "operations, of which a LIF's step then has half as many more"),
    ("ipu_always_live", (0.1, 0.25, 0.4), "share", "of a tile's memory for code and exchange buffers", _NOT_FOUND),
    ("launch", (4e-6, 8e-6, 15e-6), "s", "that eager PyTorch takes to start one kernel on a GPU",
     "4e-6 to 6e-6 for the submission alone (susun-blog.com, RTX 5070 Ti), more with PyTorch; fit() measures it"),
    ("graph_node", (0.5e-6, 1.5e-6, 3e-6), "s", "that one kernel of a CUDA graph takes at the least", _NOT_FOUND),
    ("gpu_matmul_efficiency", (0.25, 0.6, 0.9), "share", "of the peak that matrix products reach on a GPU", _SHARES),
    ("gpu_bandwidth_efficiency", (0.6, 0.8, 0.92), "share", "of the memory bandwidth that elementwise kernels reach",
     "copies of large tensors reach some nine tenths of what is sold, small ones less"),
    ("gpu_cache_gain", (1.0, 1.0, 4.0), "", "by how much faster the cache is, for operations that fit in half of it",
     "1 leaves the cache out; no figure for all these chips is known"),
    ("gpu_step_seconds", (0.02e-6, 0.1e-6, 0.6e-6), "s", "that one time step inside a fused kernel takes at the least",
     "from a few dependent instructions to a read from memory that nothing hides"),
)  # fmt: skip
_DEFAULTS = {name: Assumed(Range(*ends), unit, meaning, source) for name, ends, unit, meaning, source in _TABLE}


class Assumptions(dict[str, Assumed]):
    """Every free number of the models, by name; the defaults but for the given ones::

    Assumptions()["launch"]                         # an Assumed
    Assumptions(launch=5e-6)                        # known exactly
    Assumptions(launch=(4e-6, 8e-6, 15e-6))         # low, likely, high
    """

    def __init__(self, **values: Any) -> None:
        super().__init__(_DEFAULTS)
        for name, value in values.items():
            default = _DEFAULTS[checks.choice("assumption", name, _DEFAULTS)]
            given = Range.of(value)
            checks.number(name, given.low, above=0)
            checks.number(name, given.high, at_most=1.0 if default.unit == "share" else None)
            self[name] = default._replace(range=given, source="given")

    def best_for(self, kind: Literal["ipu", "gpu"]) -> Assumptions:
        """The same, each known exactly: at the end of its range at which this kind of machine is faster."""
        checks.choice("kind", kind, ("ipu", "gpu"))
        ends = {}
        for name, one in self.items():
            more_is_faster = name.endswith(("efficiency", "bandwidth", "gain"))
            mine = name.startswith("ipu") == (kind == "ipu")
            ends[name] = one.range.high if more_is_faster == mine else one.range.low
        return Assumptions(**ends)

    def with_(self, **values: Any) -> Assumptions:
        """A copy with these replaced."""
        changed, result = Assumptions(**values), Assumptions()
        result.update({**self, **{name: changed[name] for name in values}})
        return result


@dataclass(frozen=True)
class Prediction:
    """A predicted training step. Parts of it that overlap add up to more than ``seconds``."""

    chip: str
    mode: str  # how the step runs there
    samples: int
    seconds: Range
    parts: Mapping[str, Range] = field(repr=False)  # of the seconds, by what they are spent on
    source: str = field(repr=False)  # the figures behind it

    @property
    def samples_per_s(self) -> Range:
        """Training throughput."""
        return self.seconds.inverse() * self.samples

    def __str__(self) -> str:
        lines = [
            f"{self.chip}, {self.mode} (predicted): {self.seconds * 1e3} ms a step, {self.samples_per_s} samples/s",
            *(f"  {name:<12} {seconds * 1e3} ms" for name, seconds in self.parts.items()),
        ]
        return "\n".join([*lines, f"  based on: {self.source}"])


@checks.arguments
def gpu(
    work: Work,
    chip: str = "A100",
    *,
    mode: Mode = "eager",
    precision: Precision = "float32",
    assumptions: Assumptions | None = None,
) -> Prediction:
    """Predict ``work``, from ``count``, on a GPU of the catalogue; ``assumptions`` replace the defaults.

    Raises:
        ValueError: a chip of another kind, or work without operations.
        MissingFigure: the catalogue lacks a figure of the chip that is needed.
    """
    processor, free, peak, shrink = _checked(work, chip, "gpu", precision, assumptions)
    step = work.fused() if "fused" in mode else work
    least = free["graph_node" if "graph" in mode else "launch"]
    cache = processor.figures["cache_bytes"].value if "cache_bytes" in processor.figures else None
    flops = free["gpu_matmul_efficiency"] * processor.value(peak)
    bandwidth = free["gpu_bandwidth_efficiency"] * processor.value("memory_bandwidth")
    instructions = processor.value("fp32_flops") / 2  # an addition is one; a multiply-add counts as two operations

    def kernel(op: Operation) -> Range:
        moved = op.bytes * shrink
        fits = cache is not None and 2 * moved <= cache
        memory = Range.of(moved) / (bandwidth * free["gpu_cache_gain"] if fits else bandwidth)
        if op.flops:
            return memory.at_least(Range.of(op.flops) / flops)
        took = memory.at_least((op.simple + _COSTLY * op.costly) / instructions)
        if op.kind == "fused" and op.layer is not None:
            passes = 1 if op.phase == "forward" else 2
            took = took.at_least(free["gpu_step_seconds"] * (passes * step.layers[op.layer].steps))
        return took

    parts: dict[str, Range] = dict.fromkeys(("matmul", "neurons", "other"), Range.of(0.0))
    seconds = Range.of(0.0)
    operations = list(_merged(step.running))
    for op in operations:
        part = "neurons" if op.layer is not None else "matmul" if op.flops else "other"
        took = kernel(op)
        parts[part] = parts[part] + took
        seconds = seconds + took.at_least(least)
    parts["launch"] = least * len(operations)
    used = dict.fromkeys(("memory_bandwidth", "fp32_flops", peak))
    source = "; ".join([f"{len(operations)} kernels", *(f"{key} {processor.figure(key)}" for key in used)])
    return Prediction(processor.name, f"{mode}, {precision}", work.samples, seconds, parts, source)


def _merged(operations: Iterable[Operation]) -> Iterator[Operation]:
    """On a GPU an optimizer runs each of its operations for all parameters at once."""
    merged: dict[str, Operation] = {}
    for op in operations:
        if op.phase != "optimizer":
            yield op
        elif (one := merged.setdefault(op.name, op)) is not op:
            sums = {name: getattr(one, name) + getattr(op, name) for name in ("reads", "writes", "simple", "costly")}
            merged[op.name] = replace(one, **sums)
    yield from merged.values()


# Cycles of a worker thread: fixed, additional ones for a single operand, and those of its supervisor.
_FIXED, _UNARY, _SUPERVISOR = 58, 17, 11
# Cycles of a vector and its float32 values, by operation; as addition where not listed.
_ADDITION = (3, 2)
_CYCLES = {
    "div": (10, 2), "reciprocal": (10, 2), "sqrt": (10, 2), "addcdiv": (10, 2),
    "gt": (14, 4), "ge": (14, 4), "lt": (14, 4), "le": (14, 4), "eq": (14, 4), "ne": (14, 4),
    "exp": (6, 2), "tanh": (12, 2), "sigmoid": (12, 2),
}  # fmt: skip
_OTHERS_COSTLY = (12, 2)
_HALF_VECTOR = 4  # float16 values of a vector, where additions have 2 in float32


class DoesNotFit(ValueError):
    """The step needs more than the tiles' memories hold."""


@checks.arguments
def ipu(
    work: Work,
    chip: str = "GC200",
    *,
    precision: Precision = "float32",
    assumptions: Assumptions | None = None,
    device_iterations: int = 1,
) -> Prediction:
    """Predict ``work`` on an IPU of the catalogue; ``assumptions`` replace the defaults.

    ``work``, from ``count``, has the operations of eager PyTorch, which PopTorch captures as well, except for the
    surrogates, which it needs in plain operations (``ipu_vertices``). A net in that form can be counted, too.
    ``device_iterations`` are steps between two exchanges with the host.

    Raises:
        ValueError: a chip of another kind, or work without operations.
        DoesNotFit: weights, gradients, the optimizer's states, x and spikes of each layer exceed its memory.
    """
    processor, free, peak, shrink = _checked(work, chip, "ipu", precision, assumptions)
    checks.integer("device_iterations", device_iterations, at_least=1)
    activations = min(
        sum(op.writes for op in work.running if op.phase == "forward"),
        sum(op.bytes for op in work.fused().of("fused") if op.phase == "forward"),
    )
    need = (4 * work.parameters * (2 + work.optimizer_states) + activations) * shrink
    room = processor.value("on_chip_bytes") * (1 - free["ipu_always_live"].low)
    if need > room:
        raise DoesNotFit(
            f"{work.name} with a batch of {work.samples} needs at least {need / 1e6:.0f} MB, but {processor.name} has "
            f"{room / 1e6:.0f} MB for data ({processor.value('tile_bytes') / 1024:.0f} KiB in each of "
            f"{processor.value('tiles'):.0f} tiles, less code and buffers)"
        )
    clock = processor.value("clock")
    large = [op for op in work.running if op.kind not in ("elementwise", "copy")]
    small = free["ipu_vertices"] * (work.launches - len(large))  # that become separate vertices
    elementwise = sum(_cycles(op, processor, precision) for op in work.running if not op.flops)
    exchanged = sum(op.bytes for op in large) * shrink
    parts = {
        "matmul": Range.of(work.flops / processor.value(peak)) / free["ipu_matmul_efficiency"],
        "elementwise": free["ipu_vertices"] * (elementwise / clock),
        "exchange": Range.of(exchanged / processor.value("exchange_bandwidth")),
        "sync": (small + len(large)) * free["ipu_sync_cycles"] * (1 / clock),
        "host": free["ipu_host_seconds"] * (1 / device_iterations)
        + Range.of(work.inputs * shrink) / free["ipu_host_bandwidth"],
    }
    figures = (f"{key} {processor.figure(key)}" for key in ("clock", "tiles", peak, "exchange_bandwidth"))
    source = "; ".join(["bulk-synchronous model, never run on an IPU", *figures, "tiles equally loaded"])
    seconds = sum(parts.values(), Range.of(0.0))
    mode = f"{tables.count_of(device_iterations, 'step')} per exchange, {precision}"
    return Prediction(processor.name, mode, work.samples, seconds, parts, source)


@checks.arguments
def rates(
    work: Work,
    ipu_chip: str = "GC200",
    gpu_chip: str = "A100",
    precision: Precision = "float32",
    assumptions: Assumptions | None = None,
) -> dict[str, Range]:
    """Samples per second of a training step on an IPU and in each mode of a GPU, by name ("A100, eager").

    What does not fit, or has no known figure for it, is left out.
    """
    ways: dict[str, Callable[..., Prediction]] = {f"{ipu_chip} (IPU)": partial(ipu, work, ipu_chip)}
    ways |= {f"{gpu_chip}, {mode}": partial(gpu, work, gpu_chip, mode=mode) for mode in MODES}
    predicted = {}
    for name, way in ways.items():
        with contextlib.suppress(MissingFigure, DoesNotFit):
            predicted[name] = way(precision=precision, assumptions=assumptions).samples_per_s
    return predicted


def _cycles(op: Operation, chip: Chip, precision: Precision) -> float:
    """Of one operation that gives each tile its share of the values."""
    threads = chip.value("threads_per_tile")
    # A reduction visits every value that it reads.
    values = max(op.numel, op.reads // 4) if op.kind in ("reduction", "norm", "pool") else op.numel
    share = math.ceil(math.ceil(values / chip.value("tiles")) / threads)
    cycles, vector = _CYCLES.get(op.name.rstrip("_"), _OTHERS_COSTLY if op.costly else _ADDITION)
    if precision == "float16" and (cycles, vector) == _ADDITION:
        vector = _HALF_VECTOR
    unary = _UNARY if op.reads <= op.writes else 0
    return threads * (_FIXED + unary + math.ceil(share / vector) * cycles) + _SUPERVISOR


def _checked(
    work: Work, chip: str, kind: str, precision: Precision, assumptions: Assumptions | None
) -> tuple[Chip, dict[str, Range], str, float]:
    """The chip, the assumed ranges by name, and what ``_PRECISIONS`` says."""
    if not work.running or work.samples < 1:
        raise ValueError(f"work {work.name!r} must have operations and samples, but there are none")
    processor = get(chip)
    if processor.kind != kind:
        raise ValueError(f"chip must be of kind {kind}, but {processor.name} is of kind {processor.kind}")
    free = {name: one.range for name, one in (Assumptions() if assumptions is None else assumptions).items()}
    return processor, free, *_PRECISIONS[precision]
