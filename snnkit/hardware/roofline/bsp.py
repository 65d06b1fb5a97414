"""A training step on an IPU: bulk-synchronous, all data in the tiles' own memories.

All tiles compute, wait for each other, exchange, and go on (Valiant 1990, doi:10.1145/79173.79181)::

    seconds = Σ over operations (compute + exchange + sync cycles) / clock + host round trip / iterations + input / host

Elementwise operations are counted as the open cost model of PopLibs has it (graphcore/poplibs, MIT): the values of a
tile are shared out to six workers, each with a fixed price and a price per vector. Nobody here has run one: no number
of this file was measured, and what has no source is an ``Assumed``.
"""

from __future__ import annotations

import math

from ..chips import Chip
from .assumptions import Assumptions
from .prediction import Prediction, check_precision, checked
from .ranges import Range
from .work import Operation, Work

# Cycles of a worker thread: fixed, more where there is one operand, and for the worker's supervisor.
_FIXED, _UNARY, _SUPERVISOR = 58, 17, 11
# Cycles of a vector and its float32 values, by operation; addition and its like where not listed.
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
    """What the model says of ``work`` on an IPU.

    Args:
        work: as ``count`` gives it: operations of eager PyTorch, which PopTorch captures, too, but for the surrogates,
            which it needs in plain operations (``ipu_vertices``). A net in that form can be counted as well.
        chip: of kind "ipu", or its name.
        precision: "float32" or "float16", of everything.
        assumptions: where not the defaults.
        device_iterations: steps between two visits of the host.

    Raises:
        TypeError: another kind of ``work``, ``chip`` or ``assumptions``.
        ValueError: an unknown chip, one that is no IPU, an unknown precision, no positive number of iterations, work
            without operations.
        MissingFigure: the chip lacks a figure that is needed; which one.
        DoesNotFit: parameters and what backward needs are more than its memory.
    """
    chip, free = checked(work, chip, assumptions)
    if chip.kind != "ipu":
        raise ValueError(f"chip must be an IPU, but {chip.name} is a {chip.kind.upper()}")
    size = check_precision(precision, ("float32", "float16"))
    if isinstance(device_iterations, bool) or not isinstance(device_iterations, int) or device_iterations < 1:
        raise ValueError(f"device_iterations must be a positive whole number, but it is {device_iterations!r}")
    _check_memory(work, chip, size, free)
    half, shrink = precision == "float16", size / 4
    clock, tiles = chip.value("clock"), chip.value("tiles")
    peak = chip.value("fp16_flops" if half else "fp32_flops")
    elementwise = exchanged = synchronised = 0.0
    small = 0  # operations of which only some become vertices of their own
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
        chip.name, f"{device_iterations} step(s) a visit", precision, work.samples, Range.total(parts.values()), parts,
        f"bulk-synchronous model, never run on an IPU; {source}; {tiles:.0f} tiles equally loaded",
    )  # fmt: skip


def ipu_memory(work: Work, *, precision: str = "float32") -> Range:
    """Bytes that a step needs on chip: weights, gradients, the optimizer's states, and what backward needs.

    Of the latter, the least is x and the spikes of each layer, the most is every result of the forward pass.
    """
    size = check_precision(precision, ("float32", "float16"))
    weights = work.parameters * (2 + work.optimizer_states) * size
    forward = sum(op.writes for op in work.running if op.phase == "forward") * size / 4
    fused = sum(op.bytes for op in work.fused().of("fused") if op.phase == "forward") * size / 4
    least = min(fused, forward)
    return Range(weights + least, weights + (least + forward) / 2, weights + forward)


def _check_memory(work: Work, chip: Chip, size: int, free: Assumptions) -> None:
    need = ipu_memory(work, precision="float32" if size == 4 else "float16")
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
    # A reduction looks at every value that it reads.
    values = max(op.numel, op.reads // 4) if op.kind in ("reduction", "norm", "pool") else op.numel
    share = math.ceil(math.ceil(values / chip.value("tiles")) / threads)
    cycles, vector = _price(op)
    if half and (cycles, vector) == _ADDITION:
        vector = _HALF_VECTOR
    unary = _UNARY if op.reads <= op.writes else 0
    return threads * (_FIXED + unary + math.ceil(share / vector) * cycles) + _SUPERVISOR


def _price(op: Operation) -> tuple[int, int]:
    name = op.name.rstrip("_")
    if name in _CYCLES:
        return _CYCLES[name]
    return _OTHERS_COSTLY if op.costly else _ADDITION
