"""A training step on a GPU: kernels one after the other, each started by the host, or all of them from a graph.

=============== ==============================================================================
``eager``       seconds = Σ max(launch, kernel), the host starts one kernel after the other
``fused``       the same with each layer of neurons as one kernel forward and one backward
``graph``       seconds = Σ max(node, kernel): the host starts one graph
``fused graph`` both
=============== ==============================================================================

A kernel takes the longer of its bytes at the memory's bandwidth and its arithmetic at the peak, each times the share
of it that is reached (Williams, Waterman and Patterson 2009, doi:10.1145/1498765.1498785). The batch lies in the
device's memory already; what the host does besides starting kernels is not counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..chips import Chip
from .assumptions import Assumptions
from .prediction import Prediction, check_precision, checked
from .ranges import Range
from .work import Operation, Work

MODES = ("eager", "fused", "graph", "fused graph")
_PEAK = {"float32": "fp32_flops", "tf32": "tf32_flops", "float16": "fp16_flops"}
# Instructions that an elementwise operation such as exp takes; an addition is one, half of a multiply-add.
_COSTLY = 10


def gpu(
    work: Work,
    chip: str | Chip = "A100",
    *,
    mode: str = "eager",
    precision: str = "float32",
    assumptions: Assumptions | None = None,
) -> Prediction:
    """What the model says of ``work`` on a GPU.

    Args:
        work: as ``count`` gives it.
        chip: of kind "gpu", or its name.
        mode: one of ``MODES``.
        precision: "float32", "tf32" (matrix products) or "float16" (everything).
        assumptions: where not the defaults.

    Raises:
        TypeError: another kind of ``work``, ``chip`` or ``assumptions``.
        ValueError: an unknown chip, one that is no GPU, an unknown mode or precision, work without operations.
        MissingFigure: the chip lacks a figure that is needed; which one.
    """
    chip, free = checked(work, chip, assumptions)
    if chip.kind != "gpu":
        lacks = [key for key, figure in chip.figures.items() if figure.value is None]
        more = f", and of it {', '.join(lacks)} are not known" if lacks else ""
        article = "an" if chip.kind == "ipu" else "a"
        raise ValueError(f"chip must be a GPU, but {chip.name} is {article} {chip.kind.upper()}{more}")
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(map(repr, MODES))}, but it is {mode!r}")
    size = check_precision(precision, tuple(_PEAK))
    step = work.fused() if "fused" in mode else work
    operations = list(_merged(step.running))
    least = free["graph_node" if "graph" in mode else "launch"].range
    kernel = _Kernels(chip, _PEAK[precision], size / 4, step, free)
    kinds = {"matmul": ("matmul", "convolution"), "neurons": ("fused",)}
    parts: dict[str, Range] = dict.fromkeys(("matmul", "neurons", "other"), Range(0.0, 0.0, 0.0))
    seconds = Range(0.0, 0.0, 0.0)
    for op in operations:
        took = kernel.seconds(op)
        part = next((name for name, of in kinds.items() if op.kind in of), "other")
        part = "neurons" if op.layer is not None else part
        parts[part] = parts[part] + took
        seconds = seconds + took.at_least(least)
    parts["launch"] = least * len(operations)
    assumed = (f"{name} {a.range} ({a.mark})" for name, a in free.items() if not name.startswith("ipu"))
    source = "; ".join([f"{len(operations)} kernels", *kernel.sources(), *assumed])
    return Prediction(chip.name, mode, precision, work.samples, seconds, parts, source)


class _Kernels:
    """Seconds of one kernel on the device, without what starts it."""

    def __init__(self, chip: Chip, peak: str, shrink: float, work: Work, free: Assumptions) -> None:
        self.chip, self.peak, self.shrink, self.work, self.free = chip, peak, shrink, work, free
        self.bandwidth = free["gpu_bandwidth_efficiency"].range * chip.value("memory_bandwidth")
        self.cached = chip.figures["cache_bytes"].value if "cache_bytes" in chip.figures else None
        # An addition is one instruction of those of which a multiply-add counts as two.
        self.vector = chip.value("fp32_flops") / 2

    def sources(self) -> list[str]:
        keys = ("memory_bandwidth", "fp32_flops", *((self.peak,) if self.peak != "fp32_flops" else ()))
        return [f"{key} {self.chip.figure(key)}" for key in keys]

    def seconds(self, op: Operation) -> Range:
        if op.flops:
            reached = self.free["gpu_matmul_efficiency"].range * self.chip.value(self.peak)
            return self._memory(op).at_least(Range.of(float(op.flops)) / reached)
        took = self._memory(op).at_least((op.simple + _COSTLY * op.costly) / self.vector)
        if op.kind == "fused" and op.layer is not None:
            passes = 1 if op.phase == "forward" else 2
            took = took.at_least(self.free["gpu_step_seconds"].range * (passes * self.work.layers[op.layer].steps))
        return took

    def _memory(self, op: Operation) -> Range:
        moved = op.bytes * self.shrink
        in_cache = self.cached is not None and 2 * moved <= self.cached
        reached = self.bandwidth * self.free["gpu_cache_gain"].range if in_cache else self.bandwidth
        return Range.of(moved) / reached


def _merged(operations: Iterable[Operation]) -> Iterable[Operation]:
    """On a GPU an optimizer does each of its operations for all parameters at once."""
    found: dict[str, Operation] = {}
    for op in operations:
        if op.phase != "optimizer":
            yield op
        elif op.name in found:
            before = found[op.name]
            found[op.name] = replace(
                before, reads=before.reads + op.reads, writes=before.writes + op.writes,
                simple=before.simple + op.simple, costly=before.costly + op.costly,
            )  # fmt: skip
        else:
            found[op.name] = op
    yield from found.values()
