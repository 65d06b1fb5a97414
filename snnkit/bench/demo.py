"""CPU against GPU for every model of the kit: samples per second in inference and training, batch by batch.

snnkit bench demo --model all
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .. import encode, loss, models
from ..device import Precision
from ..measure import ThroughputClock, first_call, race
from ..tables import text_table
from .suite import Outcome, Row, Suite, dtype_name, option, repeats_option, seconds_of

MODES = ("inference", "training")
_LONGEST = 8.0  # seconds: no more rounds than fit into them (but three), as a large net takes long on a CPU
_WORDS = 1000


@dataclass(frozen=True)
class Arguments:
    """What to run; the options of ``snnkit bench demo``. On CUDA the CPU is measured, too."""

    device: str = "auto"
    models: Sequence[str] = option("Name of a model.", ("all",), flag="model")
    batches: Sequence[int] = option("Samples at once.", (1, 16, 128), quick=(1,), flag="batch")
    modes: Sequence[str] = option("What to time.", MODES, flag="mode", choices=MODES)
    repeats: int = repeats_option(7)

    def __post_init__(self) -> None:
        for name in self.models:
            if name not in ("all", *demos()):
                raise ValueError(f"--model must be one of all, {', '.join(demos())}, but it is {name!r}")

    @property
    def devices(self) -> tuple[str, ...]:
        return ("cpu", "cuda") if self.device == "cuda" else ("cpu",)


@dataclass(frozen=True)
class Demo:
    """A model and how it is run.

    Attributes:
        name: as users import it.
        steps: T.
        make: to the model.
        inputs: number of samples to random ones, [B, ...].
        call: (model, inputs) to its output [T, B, ...].
        loss: (output, labels int64 [B] in 0 … 9) to a scalar.
    """

    name: str
    steps: int
    make: Callable[[], nn.Module]
    inputs: Callable[[int], Tensor]
    call: Callable[[Any, Tensor], Tensor]
    loss: Callable[[Tensor, Tensor], Tensor]


def demos() -> dict[str, Demo]:
    """Name to demo, in the order in which they are shown."""

    def images(batch: int) -> Tensor:
        return torch.rand(batch, 1, 28, 28)

    def words(batch: int) -> Tensor:
        return torch.randint(_WORDS, (batch,))

    def repeated(steps: int) -> Callable[[Any, Tensor], Tensor]:
        return lambda model, x: model(encode.repeat(x, steps))[0]

    def encoded(model: Any, x: Tensor) -> Tensor:
        return model(model.encode(x))[0]

    every = [
        Demo("mlp", 25, models.mlp, images, repeated(25), loss.count_cross_entropy),
        Demo("ConvNet", 25, models.ConvNet, images, repeated(25), loss.membrane_max_cross_entropy),
        Demo("FashionConvNet", 4, models.FashionConvNet, images, repeated(4), loss.rate_mse),
        Demo("StatisticalSNN", 25, models.StatisticalSNN, images, encoded, loss.count_cross_entropy),
        Demo("SpikingEmbedding", 16, _embedding, words, lambda model, x: model(x)[0], _rate_cross_entropy),
    ]
    return {demo.name: demo for demo in every}


def _embedding() -> nn.Module:
    from ..text import SpikingEmbedding, Vocabulary

    letters = str.maketrans("0123456789", "abcdefghij")
    return SpikingEmbedding(Vocabulary.build([" ".join(f"word{str(i).translate(letters)}" for i in range(_WORDS))]))


def _rate_cross_entropy(spikes: Tensor, labels: Tensor) -> Tensor:
    """Of the rates of the first ten neurons: it sends a gradient through the spikes to the table."""
    return F.cross_entropy(spikes.float().mean(0)[:, :10], labels)


@dataclass(frozen=True)
class _Case:
    """One model on all devices, in all modes and batches; each is timed by itself, as large ones take long."""

    demo: Demo
    arguments: Arguments

    def measure(self, repeats: int) -> Outcome:
        rows, skipped = [], []
        for device in map(torch.device, self.arguments.devices):
            for amp in (False, True) if device.type == "cuda" else (False,):
                precision = Precision.choose(device, amp)
                for mode in self.arguments.modes:
                    for batch in sorted(set(self.arguments.batches)):
                        labels: Row = {"model": self.demo.name, "mode": mode, "device": device.type, "batch": batch}
                        labels["dtype"] = dtype_name(precision.dtype)
                        try:
                            rows.append(labels | _row(self.demo, mode, batch, precision, repeats))
                        except (torch.cuda.OutOfMemoryError, MemoryError):
                            skipped.append(labels | {"reason": "too little memory"})
        return Outcome(rows, {}, skipped)


def _row(demo: Demo, mode: str, batch: int, precision: Precision, repeats: int) -> Row:
    device = precision.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = demo.make().to(device)
        inputs, labels = demo.inputs(batch).to(device), torch.randint(10, (batch,)).to(device)
    run = partial(_infer, demo, model.eval(), inputs, precision)
    if mode == "training":
        run = _training(demo, model.train(), inputs, labels, precision)
    first, _ = first_call(run, device)
    second, _ = first_call(run, device)
    rounds = max(3, min(repeats, int(_LONGEST / max(second, 1e-6))))
    timing = race({demo.name: run}, rounds, warmup=1, clock=ThroughputClock(device))[demo.name]
    size = {"parameters": sum(p.numel() for p in model.parameters()), "steps": demo.steps}
    return size | {"samples_per_s": batch / timing.median, "first_s": first} | seconds_of(timing)


@torch.no_grad()
def _infer(demo: Demo, model: nn.Module, inputs: Tensor, precision: Precision) -> Tensor:
    with precision.autocast():
        return demo.call(model, inputs)


def _training(
    demo: Demo, model: nn.Module, inputs: Tensor, labels: Tensor, precision: Precision
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


def _cases(arguments: Arguments, device: torch.device) -> Iterator[_Case]:
    known = demos()
    names = known if "all" in arguments.models else dict.fromkeys(arguments.models)
    for name in names:
        yield _Case(known[name], arguments)


def _table(record: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """Samples per second of one model, a column for each device and dtype. "GPU/CPU": of the fastest of each."""
    columns = list(dict.fromkeys((row["device"], row["dtype"]) for row in rows))
    gpus = [device for device, _ in columns if device != "cpu"]
    compared = 0 < len(gpus) < len(columns)
    head = ["mode", "batch", *(f"{device} {dtype}" for device, dtype in columns), *(["GPU/CPU"] if compared else [])]
    cells = []
    for mode, batch in dict.fromkeys((row["mode"], row["batch"]) for row in rows):
        rates = {
            (r["device"], r["dtype"]): r["samples_per_s"] for r in rows if (r["mode"], r["batch"]) == (mode, batch)
        }
        line = [mode, str(batch), *(f"{rates[c]:,.0f}" if c in rates else "" for c in columns)]
        if compared:
            cpu = max((rate for (device, _), rate in rates.items() if device == "cpu"), default=None)
            gpu = max((rate for (device, _), rate in rates.items() if device != "cpu"), default=None)
            line.append(f"{gpu / cpu:.2f}" if cpu and gpu else "")
        cells.append(line)
    title = f"{rows[0]['model']}, {rows[0]['parameters']:,} parameters, T = {rows[0]['steps']}; samples/s"
    return "\n".join([title, *text_table(head, cells, always=len(head))])


def _place(skip: Mapping[str, Any]) -> str:
    return f" ({skip['mode']}, {skip['device']} {skip['dtype']}, batch {skip['batch']})"


SUITE = Suite("demo", Arguments, ("model",), _cases, _table, _place)
benchmark, tables = SUITE.run, SUITE.tables
