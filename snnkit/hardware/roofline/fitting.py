"""Measure the machine at hand: launches, bandwidth, matrix rate, engines. No network is run here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...engine.missing import cpp_compiler
from ...measure.machine import provenance
from ...measure.memory import keep_freed_memory
from ...measure.timing import Clock
from . import probes
from .fitting_eager import elementwise_curves, fixed_costs, surcharges
from .fitting_engines import engine_costs
from .fitting_others import convolutions, products, streams, updates
from .machine import Machine
from .ranges import Range


def fit(
    device: str | torch.device = "cpu",
    *,
    engines: Sequence[str] | None = None,
    repeats: int = 7,
    clock: Clock | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> Machine:
    """Measure ``device`` by micro-benchmarks: about a minute, more where an engine has to compile.

    On a CPU the C library is told to keep freed memory (``bench.allocator``), for as long as the process lives.

    Args:
        device: "cpu" or a CUDA device.
        engines: compiled ones to measure; None: "cpp" on a CPU with a compiler, "block" on CUDA.
        repeats: rounds of each measurement, at least 3.
        clock: None: on one thread of a CPU that of the processor, so that others may be at work there; else the wall's.
        say: told what is measured next.

    Raises:
        ValueError: a device that is not there, an engine that can't run on it.
    """
    device = _checked(device)
    chosen = _engines(device, engines)
    if device.type == "cpu":
        keep_freed_memory()
    clock = clock or probes.clock_of(device)

    def timed(contestants: dict[str, Callable[[], object]]) -> dict[str, Range]:
        return probes.times(contestants, clock, repeats)

    say("elementwise operations")
    elementwise = elementwise_curves(device, timed)
    say("the eager engine")
    overhead = fixed_costs(device, timed, elementwise)
    surcharge = surcharges(device, timed, elementwise, overhead)
    say("matrix products, convolutions, the optimizer")
    product, convolution = products(device, timed), convolutions(device, timed)
    others, update = streams(device, timed), updates(device, timed)
    fused = {}
    for engine in chosen:
        say(f"the {engine} engine")
        fused[engine] = engine_costs(engine, device, timed)
    size, seconds = elementwise["product recycled"].points[-1]
    rate = {"bytes": (seconds * (1 / (8 * size))).inverse(), "flops": product.flop.inverse()}
    where = provenance(device)
    return Machine(
        device=where["device"]["name"] or where["cpu"], kind=device.type, threads=torch.get_num_threads(),
        clock=clock.name, torch=torch.__version__, overhead=overhead, surcharge=surcharge, elementwise=elementwise,
        streams=others, product=product, convolution=convolution, update=update, fused=fused, rate=rate,
    )  # fmt: skip


def _checked(device: Any) -> torch.device:
    try:
        found = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"device must be 'cpu' or a CUDA device, but it is {device!r}") from None
    if found.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu' or a CUDA device, but it is {str(found)!r}")
    if found.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {str(found)!r}, but there is no CUDA device here")
    return found


def _engines(device: torch.device, engines: Sequence[str] | None) -> tuple[str, ...]:
    possible = {"cpu": ("cpp", "block"), "cuda": ("block", "triton")}[device.type]
    if engines is None:
        return ("block",) if device.type == "cuda" else ("cpp",) if cpp_compiler() is not None else ()
    if isinstance(engines, str):
        raise TypeError(f"engines must be several names, such as ({engines!r},), but it is {engines!r}")
    for engine in engines:
        if engine not in possible:
            known = ", ".join(map(repr, possible))
            raise ValueError(f"engines must be of {known} on a {device.type} device, but there is {engine!r}")
    return tuple(engines)
