"""How far predictions are off: networks that nothing was fitted to, predicted first and measured then."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ...measure.memory import keep_freed_memory
from ...measure.timing import Clock
from . import probes
from .machine import Machine
from .ranges import Range
from .unseen import Unseen, nets

_DRIFT = (2048, 512, 512)


@dataclass(frozen=True)
class Row:
    """One network in one engine.

    Attributes:
        net, engine: their names.
        samples: the batch.
        predicted, measured: seconds of a training step.
    """

    net: str
    engine: str
    samples: int
    predicted: Range
    measured: Range

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted.value / self.measured.value - 1


@dataclass(frozen=True)
class Report:
    """What ``judge`` found. ``str(report)`` is a table.

    Attributes:
        device, torch: the machine that was fitted, and PyTorch's version.
        clock: of both.
        drift: seconds of a large matrix product while the networks were measured, by those while the machine was
            fitted: 1 where it ran as fast.
        rows: one for each network and engine.
    """

    device: str
    torch: str
    clock: str
    drift: float
    rows: tuple[Row, ...] = field(repr=False)

    @property
    def engines(self) -> tuple[str, ...]:
        """That were judged."""
        return tuple(dict.fromkeys(row.engine for row in self.rows))

    def errors(self, engine: str) -> list[float]:
        """Of all networks. ValueError: an engine that was not judged."""
        if engine not in self.engines:
            raise ValueError(f"engine must be one of {', '.join(map(repr, self.engines))}, but it is {engine!r}")
        return [row.error for row in self.rows if row.engine == engine]

    def median_error(self, engine: str) -> float:
        """Median of the errors without their signs: 0.1 is 10 %."""
        return statistics.median(map(abs, self.errors(engine)))

    def __str__(self) -> str:
        lines = [f"{'':26} {'engine':8} {'predicted':>11} {'measured':>11} {'error':>7}"]
        for row in self.rows:
            predicted, measured = row.predicted.value * 1e3, row.measured.value * 1e3
            lines.append(f"{row.net:26} {row.engine:8} {predicted:8.4g} ms {measured:8.4g} ms {row.error:+7.0%}")
        for engine in self.engines:
            worst = max(map(abs, self.errors(engine)))
            lines.append(
                f"{engine}: median error {self.median_error(engine):.0%}, largest {worst:.0%}, of "
                f"{len(self.errors(engine))} networks"
            )
        lines.append(f"{self.device}, PyTorch {self.torch}, clock: {self.clock}, drift {self.drift:.2f}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """For a file."""
        rows = [
            {
                "net": r.net, "engine": r.engine, "samples": r.samples,
                "predicted_s": [r.predicted.low, r.predicted.value, r.predicted.high],
                "measured_s": [r.measured.low, r.measured.value, r.measured.high],
            }
            for r in self.rows
        ]  # fmt: skip
        return {"device": self.device, "torch": self.torch, "clock": self.clock, "drift": self.drift, "rows": rows}

    @classmethod
    def from_json(cls, d: Mapping[str, Any]) -> Report:
        """What ``to_json`` gave."""
        rows = tuple(
            Row(row["net"], row["engine"], row["samples"], Range(*row["predicted_s"]), Range(*row["measured_s"]))
            for row in d["rows"]
        )
        return cls(d["device"], d["torch"], d["clock"], d["drift"], rows)


def judge(
    machine: Machine,
    *,
    engines: Sequence[str] | None = None,
    unseen: Sequence[Unseen] | None = None,
    repeats: int = 5,
    clock: Clock | None = None,
    say: Callable[[str], object] = lambda text: None,
) -> Report:
    """Predict the training step of every network, then measure it, on the machine that was fitted.

    Args:
        machine: from ``fit``, on this device and with as many threads.
        engines: to judge; None: eager and those that were fitted.
        unseen: networks; None: ``nets()``.
        repeats: rounds of each measurement, at least 3.
        clock: None: of the kind that the machine was fitted with.
        say: told each network before it is measured.

    Raises:
        TypeError: ``machine`` is none.
        ValueError: an engine that was not fitted, no engine, no networks, another number of threads than at the fit.
    """
    if not isinstance(machine, Machine):
        raise TypeError(f"machine must be a Machine, as fit() gives it, but it is a {type(machine).__name__}")
    if isinstance(engines, str):
        raise TypeError(f"engines must be several names, such as ({engines!r},), but it is {engines!r}")
    engines = tuple(dict.fromkeys(engines)) if engines is not None else ("eager", *machine.fused)
    if not engines:
        raise ValueError("engines must hold at least one name, such as 'eager'")
    unseen = nets() if unseen is None else tuple(unseen)
    if not unseen:
        raise ValueError("unseen must hold at least one network")
    if torch.get_num_threads() != machine.threads:
        raise ValueError(
            f"the machine was fitted with {machine.threads} thread(s), but now there are {torch.get_num_threads()}: "
            f"call torch.set_num_threads({machine.threads}), or fit again"
        )
    predicted = {}
    for net in unseen:
        work = net.work()
        predicted[net.name] = {engine: machine.predict(work, engine) for engine in engines}
    device = torch.device(machine.kind)
    if device.type == "cpu":
        keep_freed_memory()
    clock = clock or probes.clock_of(device)
    rows, drifts = [], []
    product = probes.product(*_DRIFT, device)
    before = machine.product.seconds(2 * _DRIFT[0] * _DRIFT[1] * _DRIFT[2], _DRIFT).value
    for net in unseen:
        say(net.name)
        steps: dict[str, Callable[[], object]] = {engine: net.step(engine, device) for engine in engines}
        took = probes.times(steps | {"": product}, clock, repeats)
        drifts.append(took[""].value / before)
        for engine in engines:
            said = predicted[net.name][engine]
            rows.append(Row(net.name, engine, said.samples, said.seconds, took[engine]))
    return Report(machine.device, machine.torch, clock.name, statistics.median(drifts), tuple(rows))
