"""How long a training step takes on a GPU and on an IPU, predicted from what it computes and moves.

A GPU runs kernels one after the other:

=============== ================================================================================
``eager``       seconds = Σ max(launch, kernel): the host starts one kernel after the other
``fused``       the same with each layer of neurons as one kernel forward and one backward
``graph``       seconds = Σ max(node, kernel): the host starts one graph
``fused graph`` both
=============== ================================================================================

A kernel takes the longer of its bytes at the memory's bandwidth and its arithmetic at the peak, each times the share
of it that is reached (Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785). The batch is in the
device's memory already; what the host does besides starting kernels is not counted.

An IPU is bulk-synchronous, with all data in the tiles' own memories: all tiles compute, wait for each other, exchange,
and continue (Valiant 1990, doi:10.1145/79173.79181)::

    seconds = Σ over operations (compute + exchange + sync cycles) / clock + host round trip / iterations + input / host

Elementwise operations follow the open cost model of PopLibs (graphcore/poplibs, MIT): the values of a tile are divided
among six workers, each with a fixed cost and a cost per vector. None of these predictions was ever measured on an IPU;
numbers without a source are ``Assumed``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ... import checks
from ..chips import Chip, get
from .ranges import Assumptions, Range
from .work import Operation, Work

MODES = ("eager", "fused", "graph", "fused graph")
_PEAK = {"float32": "fp32_flops", "tf32": "tf32_flops", "float16": "fp16_flops"}
_BYTES = {"float32": 4, "tf32": 4, "float16": 2}
# Instructions that an elementwise operation such as exp takes; an addition is one, half of a multiply-add.
_COSTLY = 10


@dataclass(frozen=True)
class Prediction:
    """A predicted training step.

    Attributes:
        chip: its name.
        mode: how the step runs there.
        precision: of the arithmetic.
        samples: of a step.
        seconds: of a training step.
        parts: of the seconds, by what they are spent on. Parts that overlap add up to more than ``seconds``.
        source: figures and assumptions behind it.
        mark: "predicted".
    """

    chip: str
    mode: str
    precision: str
    samples: int
    seconds: Range
    parts: Mapping[str, Range] = field(repr=False)
    source: str = field(repr=False)
    mark: str = field(default="predicted", init=False)

    @property
    def samples_per_s(self) -> Range:
        """Training throughput."""
        return self.seconds.inverse() * self.samples

    def __str__(self) -> str:
        lines = [
            f"{self.chip}, {self.mode}, {self.precision} (predicted): {self.seconds * 1e3} ms a step, "
            f"{self.samples_per_s} samples/s"
        ]
        lines += [f"  {name:<12} {seconds * 1e3} ms" for name, seconds in self.parts.items()]
        return "\n".join([*lines, f"  based on: {self.source}"])


def gpu(
    work: Work,
    chip: str | Chip = "A100",
    *,
    mode: str = "eager",
    precision: str = "float32",
    assumptions: Assumptions | None = None,
) -> Prediction:
    """Predict ``work`` on a GPU.

    Args:
        work: from ``count``.
        chip: of kind "gpu", or its name.
        mode: one of ``MODES``.
        precision: "float32", "tf32" (matrix products) or "float16" (everything).
        assumptions: instead of the defaults.

    Raises:
        TypeError, ValueError: a wrong argument, or work without operations.
        MissingFigure: the catalogue lacks a figure of the chip that is needed.
    """
    chip, free = _checked(work, chip, assumptions)
    if chip.kind != "gpu":
        unknown = [key for key, figure in chip.figures.items() if figure.value is None]
        more = f", and of it {', '.join(unknown)} are not known" if unknown else ""
        article = "an" if chip.kind == "ipu" else "a"
        raise ValueError(f"chip must be a GPU, but {chip.name} is {article} {chip.kind.upper()}{more}")
    checks.choice("mode", mode, MODES)
    shrink = _BYTES[checks.choice("precision", precision, _PEAK)] / 4
    step = work.fused() if "fused" in mode else work
    operations = list(_merged(step.running))
    least = free["graph_node" if "graph" in mode else "launch"].range
    figures = {key: chip.figure(key) for key in dict.fromkeys(("memory_bandwidth", "fp32_flops", _PEAK[precision]))}
    cache = chip.figures["cache_bytes"].value if "cache_bytes" in chip.figures else None
    peak = free["gpu_matmul_efficiency"].range * chip.value(_PEAK[precision])
    bandwidth = free["gpu_bandwidth_efficiency"].range * chip.value("memory_bandwidth")
    cached_bandwidth = bandwidth * free["gpu_cache_gain"].range
    instructions = chip.value("fp32_flops") / 2  # an addition is one; a multiply-add counts as two operations

    def kernel(op: Operation) -> Range:
        moved = op.bytes * shrink
        memory = Range.of(moved) / (cached_bandwidth if cache is not None and 2 * moved <= cache else bandwidth)
        if op.flops:
            return memory.at_least(Range.of(float(op.flops)) / peak)
        took = memory.at_least((op.simple + _COSTLY * op.costly) / instructions)
        if op.kind == "fused" and op.layer is not None:
            passes = 1 if op.phase == "forward" else 2
            took = took.at_least(free["gpu_step_seconds"].range * (passes * step.layers[op.layer].steps))
        return took

    parts: dict[str, Range] = dict.fromkeys(("matmul", "neurons", "other"), Range(0.0, 0.0, 0.0))
    seconds = Range(0.0, 0.0, 0.0)
    for op in operations:
        part = "matmul" if op.kind in ("matmul", "convolution") else "neurons" if op.kind == "fused" else "other"
        part = "neurons" if op.layer is not None else part
        took = kernel(op)
        parts[part] = parts[part] + took
        seconds = seconds + took.at_least(least)
    parts["launch"] = least * len(operations)
    assumed = (f"{name} {a.range} ({a.mark})" for name, a in free.items() if not name.startswith("ipu"))
    source = "; ".join([f"{len(operations)} kernels", *(f"{k} {f}" for k, f in figures.items()), *assumed])
    return Prediction(chip.name, mode, precision, work.samples, seconds, parts, source)


def _merged(operations: Iterable[Operation]) -> Iterable[Operation]:
    """On a GPU an optimizer runs each of its operations for all parameters at once."""
    merged: dict[str, Operation] = {}
    for op in operations:
        if op.phase != "optimizer":
            yield op
        elif op.name in merged:
            sums = {
                name: getattr(merged[op.name], name) + getattr(op, name)
                for name in ("reads", "writes", "simple", "costly")
            }
            merged[op.name] = replace(merged[op.name], **sums)
        else:
            merged[op.name] = op
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


def ipu(
    work: Work,
    chip: str | Chip = "GC200",
    *,
    precision: str = "float32",
    assumptions: Assumptions | None = None,
    device_iterations: int = 1,
) -> Prediction:
    """Predict ``work`` on an IPU.

    Args:
        work: from ``count``: operations of eager PyTorch, which PopTorch captures as well, except for the surrogates,
            which it needs in plain operations (``ipu_vertices``). A net in that form can be counted, too.
        chip: of kind "ipu", or its name.
        precision: "float32" or "float16", of everything.
        assumptions: instead of the defaults.
        device_iterations: steps between two exchanges with the host.

    Raises:
        TypeError, ValueError: a wrong argument, or work without operations.
        MissingFigure: the catalogue lacks a figure of the chip that is needed.
        DoesNotFit: parameters and what backward needs exceed its memory.
    """
    chip, free = _checked(work, chip, assumptions)
    if chip.kind != "ipu":
        raise ValueError(f"chip must be an IPU, but {chip.name} is a {chip.kind.upper()}")
    size = _BYTES[checks.choice("precision", precision, ("float32", "float16"))]
    checks.integer("device_iterations", device_iterations, at_least=1)
    _check_memory(work, chip, precision, free)
    half, shrink = precision == "float16", size / 4
    clock, tiles = chip.value("clock"), chip.value("tiles")
    peak = chip.value("fp16_flops" if half else "fp32_flops")
    elementwise = exchanged = synchronised = 0.0
    small = 0  # operations of which only some become separate vertices
    for op in work.running:
        if op.kind in ("matmul", "convolution"):
            exchanged += op.bytes * shrink
        else:
            elementwise += _cycles(op, chip, half)
            if op.kind in ("elementwise", "copy"):
                small += 1
            else:
                exchanged += op.bytes * shrink
        synchronised += op.kind not in ("elementwise", "copy")
    vertices = free["ipu_vertices"].range
    parts = {
        "matmul": Range.of(work.flops / peak) / free["ipu_matmul_efficiency"].range,
        "elementwise": vertices * (elementwise / clock),
        "exchange": Range.of(exchanged / chip.value("exchange_bandwidth")),
        "sync": (vertices * small + synchronised) * free["ipu_sync_cycles"].range * (1 / clock),
        "host": free["ipu_host_seconds"].range * (1 / device_iterations)
        + Range.of(work.inputs * shrink) / free["ipu_host_bandwidth"].range,
    }
    used = ("clock", "tiles", "fp16_flops" if half else "fp32_flops", "exchange_bandwidth")
    assumed = (f"{name} {a.range} ({a.mark})" for name, a in free.items() if name.startswith("ipu"))
    source = "; ".join([*(f"{key} {chip.figure(key)}" for key in used), *assumed])
    return Prediction(
        chip.name, f"{device_iterations} step(s) per exchange", precision, work.samples, Range.total(parts.values()),
        parts,
        f"bulk-synchronous model, never run on an IPU; {source}; {tiles:.0f} tiles equally loaded",
    )  # fmt: skip


def ipu_memory(work: Work, *, precision: str = "float32") -> Range:
    """Bytes that a step needs on chip: weights, gradients, the optimizer's states, and what backward needs.

    Of the latter, the least is x and the spikes of each layer, the most is every result of the forward pass.
    """
    size = _BYTES[checks.choice("precision", precision, ("float32", "float16"))]
    weights = work.parameters * (2 + work.optimizer_states) * size
    forward = sum(op.writes for op in work.running if op.phase == "forward") * size / 4
    fused = sum(op.bytes for op in work.fused().of("fused") if op.phase == "forward") * size / 4
    least = min(fused, forward)
    return Range(weights + least, weights + (least + forward) / 2, weights + forward)


def _check_memory(work: Work, chip: Chip, precision: str, free: Assumptions) -> None:
    need = ipu_memory(work, precision=precision)
    room = chip.value("on_chip_bytes") * (1 - free["ipu_always_live"].range.low)
    if need.low > room:
        raise DoesNotFit(
            f"{work.name} with a batch of {work.samples} needs at least {need.low / 1e6:.0f} MB, but {chip.name} has "
            f"{room / 1e6:.0f} MB for data ({chip.value('tile_bytes') / 1024:.0f} KiB in each of "
            f"{chip.value('tiles'):.0f} tiles, less code and buffers)"
        )


def _cycles(op: Operation, chip: Chip, half: bool) -> float:
    """Of one operation that gives each tile its share of the values."""
    threads = chip.value("threads_per_tile")
    # A reduction visits every value that it reads.
    values = max(op.numel, op.reads // 4) if op.kind in ("reduction", "norm", "pool") else op.numel
    share = math.ceil(math.ceil(values / chip.value("tiles")) / threads)
    name = op.name.rstrip("_")
    cycles, vector = _CYCLES.get(name, _OTHERS_COSTLY if op.costly else _ADDITION)
    if half and (cycles, vector) == _ADDITION:
        vector = _HALF_VECTOR
    unary = _UNARY if op.reads <= op.writes else 0
    return threads * (_FIXED + unary + math.ceil(share / vector) * cycles) + _SUPERVISOR


def _checked(work: Any, chip: Any, assumptions: Any) -> tuple[Chip, Assumptions]:
    checks.instance("work", work, Work, "a Work, as roofline.count gives it")
    checks.instance("chip", chip, (str, Chip), "a Chip or its name")
    checks.instance("assumptions", assumptions, Assumptions, "roofline.Assumptions", optional=True)
    if not work.running or work.samples < 1:
        raise ValueError(f"work {work.name!r} must have operations and samples, but there are none")
    return chip if isinstance(chip, Chip) else get(chip), assumptions or Assumptions()
