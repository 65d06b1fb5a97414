"""CPU against GPU for every model of the kit: samples per second in inference and training, batch by batch.

    snnkit bench demo --model all

"GPU/CPU" is the ratio of the fastest runs on each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snnkit import checks, encode, loss, models
from snnkit.device import Precision
from snnkit.lab.bench import suite
from snnkit.lab.bench.suite import Record, Row, Rows, Suite, option, seconds_of, table
from snnkit.lab.bench.workloads import plain_step
from snnkit.measure import ThroughputClock, first_call, race

MODES = ("inference", "training")
_LONGEST = 8.0  # seconds for all rounds (at least three), as a large net takes long on a CPU
_WORDS = 1000


@checks.arguments
@dataclass(frozen=True)
class Arguments(suite.Options):
    """What to run; the options of ``snnkit bench demo``. On CUDA the CPU is measured, too."""

    device: str = "auto"
    models: Sequence[str] = option("Name of a model.", ("all",), flag="model")
    batches: Sequence[int] = option("Samples at once.", (1, 16, 128), quick=(1,), flag="batch")
    modes: Sequence[str] = option("What to time.", MODES, flag="mode", choices=MODES)
    repeats: int = suite.repeats_option(7)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self.models:
            checks.choice("--model", name, ("all", *DEMOS))


@dataclass(frozen=True)
class Demo:
    """A model and how to run it: ``call`` takes it and ``inputs`` [B, ...] to output [T, B, ...], over ``steps``."""

    steps: int
    make: Callable[[], nn.Module]
    call: Callable[[Any, Tensor], Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]
    inputs: Callable[[int], Tensor] = lambda batch: torch.rand(batch, 1, 28, 28)


def _repeated(steps: int) -> Callable[[Any, Tensor], Tensor]:
    return lambda model, x: model(encode.repeat(x, steps))[0]


def _embedding() -> nn.Module:
    from snnkit.lab.text import SpikingEmbedding, Vocabulary

    letters = str.maketrans("0123456789", "abcdefghij")
    return SpikingEmbedding(Vocabulary.build([" ".join(f"word{str(i).translate(letters)}" for i in range(_WORDS))]))


def _rate_cross_entropy(spikes: Tensor, labels: Tensor) -> Tensor:
    """A loss of the rates of the first ten neurons: its gradient passes the spikes and reaches the table."""
    return F.cross_entropy(spikes.float().mean(0)[:, :10], labels)


# By the name under which users import the model.
DEMOS = {
    "mlp": Demo(25, models.mlp, _repeated(25), loss.count_cross_entropy),
    "ConvNet": Demo(25, models.ConvNet, _repeated(25), loss.membrane_max_cross_entropy),
    "FashionConvNet": Demo(4, models.FashionConvNet, _repeated(4), loss.rate_mse),
    "StatisticalSNN": Demo(
        25, models.StatisticalSNN, lambda model, x: model(model.encode(x))[0], loss.count_cross_entropy
    ),
    "SpikingEmbedding": Demo(
        *(16, _embedding, lambda model, x: model(x)[0], _rate_cross_entropy),
        inputs=lambda batch: torch.randint(_WORDS, (batch,)),
    ),
}


@dataclass(frozen=True)
class _Case:
    """One model on all devices, in all modes and batches; each is timed by itself, as large ones take long."""

    model: str
    arguments: Arguments

    @property
    def labels(self) -> Row:
        return {"model": self.model}

    def measure(self, repeats: int) -> suite.Outcome:
        rows, skipped = [], []
        precisions = [Precision(torch.device("cpu"), None)]
        if self.arguments.device == "cuda":
            precisions += [Precision.choose(torch.device("cuda"), amp) for amp in (False, True)]
        batches = sorted(set(self.arguments.batches))
        for precision, mode, batch in product(precisions, self.arguments.modes, batches):
            labels = self.labels | {"mode": mode, "device": precision.device.type, "batch": batch}
            labels["dtype"] = suite.dtype_name(precision.dtype)
            try:
                rows.append(labels | _row(DEMOS[self.model], mode, batch, precision, repeats))
            except (torch.cuda.OutOfMemoryError, MemoryError):
                skipped.append(labels | {"reason": "too little memory"})
        return suite.Outcome(rows, {}, skipped)


def _row(demo: Demo, mode: str, batch: int, precision: Precision, repeats: int) -> Row:
    device = precision.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = demo.make().to(device).train(mode == "training")
        inputs, labels = demo.inputs(batch).to(device), torch.randint(10, (batch,)).to(device)
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(weights, lr=1e-3, momentum=0.9, fused=device.type in ("cpu", "cuda") or None)
    train = plain_step(lambda: demo.call(model, inputs), demo.loss, labels, optimizer, precision)

    @torch.no_grad()
    def infer() -> None:
        with precision.autocast():
            demo.call(model, inputs)

    run = train if mode == "training" else infer
    first, _ = first_call(run, device)
    second, _ = first_call(run, device)
    rounds = max(3, min(repeats, int(_LONGEST / max(second, 1e-6))))
    timing = race({"run": run}, rounds, warmup=1, clock=ThroughputClock(device))["run"]
    size = {"parameters": sum(p.numel() for p in model.parameters()), "steps": demo.steps}
    return size | {"samples_per_s": batch / timing.median, "first_s": first} | seconds_of(timing)


def _cases(arguments: Arguments, device: torch.device) -> Iterator[_Case]:
    for name in DEMOS if "all" in arguments.models else dict.fromkeys(arguments.models):
        yield _Case(name, arguments)


def _table(record: Record, rows: Rows) -> str:
    """Samples per second of one model, a column for each device and dtype."""

    def rate(case: Record, device: str, dtype: str = "") -> float:
        """The fastest of this mode and batch; 0 if there is none."""
        alike = [row for row in rows if (row["mode"], row["batch"]) == (case["mode"], case["batch"])]
        of_device = [row for row in alike if row["device"] == device and dtype in ("", row["dtype"])]
        return max((row["samples_per_s"] for row in of_device), default=0)

    def compared(case: Record) -> str:
        cpu, gpu = rate(case, "cpu"), rate(case, "cuda")
        return f"{gpu / cpu:.2f}" if cpu and gpu else ""

    cases = {(row["mode"], row["batch"]): row for row in rows}
    columns: dict[str, Any] = {"mode": lambda case: case["mode"], "batch": lambda case: str(case["batch"])}
    for device, dtype in dict.fromkeys((row["device"], row["dtype"]) for row in rows):
        columns[f"{device} {dtype}"] = lambda case, key=(device, dtype): f"{rate(case, *key):,.0f}"
    columns["GPU/CPU"] = compared
    title = f"{rows[0]['model']}, {rows[0]['parameters']:,} parameters, T = {rows[0]['steps']}; samples/s"
    return table(title, columns, list(cases.values()))


SUITE = Suite("demo", ("model",), _cases, _table)
benchmark, tables = SUITE.run, SUITE.tables
