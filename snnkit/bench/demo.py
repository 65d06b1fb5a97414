"""CPU against GPU for every model of the kit: samples per second in inference and training, batch by batch.

snnkit bench demo --model all
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..device.precision import Precision
from ..measure.machine import provenance
from ..measure.timing import ThroughputClock, first_call, race
from . import demo_table, record
from .demo_command import demo as main
from .demo_models import Demo, demos
from .floor import INFERENCE, MODES, TRAINING

# No more rounds than fit into so many seconds (but three): a large net takes long on a CPU.
_LONGEST = 8.0


@dataclass(frozen=True)
class Arguments:
    """What to run. ``snnkit bench demo`` has an option for each, and the defaults."""

    devices: Sequence[str]
    models: Sequence[str]
    batches: Sequence[int]
    modes: Sequence[str]
    repeats: int


def benchmark(
    arguments: Arguments, say: Callable[[str], object] = print, out: str | Path | None = None
) -> dict[str, Any]:
    """Measure every model on every device and give back the record.

    Args:
        arguments: what to run; ``models`` are keys of ``demos()``.
        say: takes the tables as text, one when each model is done.
        out: file for the record, written after each model (with ``complete`` false until the end).
    """
    known = demos()
    main_device = torch.device(arguments.devices[-1])
    result: dict[str, Any] = {
        "schema": record.SCHEMA,
        "kind": "demo",
        "complete": False,
        "provenance": provenance(main_device),
        "arguments": asdict(arguments),
        "rows": [],
        "skipped": [],
    }
    say(demo_table.heading(result | {"complete": True}))
    for name in arguments.models:
        rows = []
        for row in _rows(known[name], arguments):
            (result["skipped"] if "reason" in row else rows).append(row)
        result["rows"] += rows
        if rows:
            say("\n" + demo_table.model_table(rows))
        for skip in result["skipped"]:
            if skip["model"] == name:
                say(f"not timed: {demo_table.skip_line(skip)}")
        if out is not None:
            record.write(out, result)
    result["complete"] = True
    if out is not None:
        record.write(out, result)
    return result


def _rows(demo: Demo, arguments: Arguments) -> Iterator[dict[str, Any]]:
    for device in map(torch.device, arguments.devices):
        for amp in (False, True) if device.type == "cuda" else (False,):
            precision = Precision.choose(device, amp)
            for mode in arguments.modes:
                for batch in arguments.batches:
                    try:
                        yield _row(demo, mode, batch, precision, arguments.repeats)
                    except (torch.cuda.OutOfMemoryError, MemoryError):
                        yield _labels(demo, mode, batch, precision) | {"reason": "too little memory"}


def _row(demo: Demo, mode: str, batch: int, precision: Precision, repeats: int) -> dict[str, Any]:
    device = precision.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = demo.make().to(device)
        inputs, labels = demo.inputs(batch).to(device), torch.randint(10, (batch,)).to(device)
    run = (_training if mode == TRAINING else _inference)(demo, model, inputs, labels, precision)
    seconds, _ = first_call(run, device)
    again, _ = first_call(run, device)
    rounds = max(3, min(repeats, int(_LONGEST / max(again, 1e-6))))
    timing = race({demo.name: run}, rounds, warmup=1, clock=ThroughputClock(device))[demo.name]
    low, high = timing.spread
    return _labels(demo, mode, batch, precision) | {
        "parameters": sum(p.numel() for p in model.parameters()),
        "steps": demo.steps,
        "samples_per_s": batch / timing.median,
        "first_s": seconds,
        "median_s": timing.median,
        "p10_s": low,
        "p90_s": high,
    }


def _labels(demo: Demo, mode: str, batch: int, precision: Precision) -> dict[str, Any]:
    dtype = str(precision.dtype or torch.float32).removeprefix("torch.")
    return {"model": demo.name, "mode": mode, "device": precision.device.type, "dtype": dtype, "batch": batch}


def _inference(
    demo: Demo, model: torch.nn.Module, inputs: Tensor, labels: Tensor, precision: Precision
) -> Callable[[], Tensor]:
    model.eval()

    def run() -> Tensor:
        with torch.no_grad(), precision.autocast():
            return demo.call(model, inputs)

    return run


def _training(
    demo: Demo, model: torch.nn.Module, inputs: Tensor, labels: Tensor, precision: Precision
) -> Callable[[], Tensor]:
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=1e-3, momentum=0.9, fused=precision.device.type == "cuda" or None)
    scaler = precision.scaler()

    def run() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        with precision.autocast():
            out = demo.call(model, inputs)
        scaler.scale(demo.loss(out.float(), labels)).backward()
        scaler.step(optimizer)
        scaler.update()
        return out.detach()

    return run


__all__ = ["INFERENCE", "MODES", "Arguments", "benchmark", "main"]

if __name__ == "__main__":
    main()
