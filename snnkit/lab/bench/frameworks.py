"""The field's public comparison, measured again: one linear layer and one layer of neurons, n inputs to n neurons.

    snnkit bench frameworks --features 512 --features 2048

As Open Neuromorphic's table (2024): T = 500 steps, a batch of 16. But here all contestants of an equation have the same
weights and input, and all run the same batch at once. Their spikes and gradients are compared with our eager engine
before a clock starts, and a clock stops when the device is done. Each library has its own equation, and our engine runs
it, too. Spyx runs in its own process, by JAX, in turns with the others.

"layer" is both, with the gradient of the weights in training; "neurons" is the neurons alone, with their input's.
"less forward" is the time of training minus that of inference, so the price of gradients. "x products" is the time as a
multiple of the matrix products of the same pass alone (for "neurons": of moving the bytes). "x ours" is the time as a
multiple of ours on the same equation.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snnkit import checks
from snnkit.lab.bench import remote, suite
from snnkit.lab.bench.baselines import Layer, layers
from snnkit.lab.bench.neurons import (
    ENGINE_NAMES,
    INFERENCE,
    MODES,
    TRAINING,
    Case,
    Forward,
    Result,
    candidates,
    over_ours,
)
from snnkit.lab.bench.suite import DoesNotRun, Record, Row, Rows, Suite, option, table
from snnkit.lab.bench.workloads import DRIVE
from snnkit.measure import Timing, clock_for, peak_of

KEY = ("part", "mode", "dtype", "features", "steps", "batch")
PARTS = ("layer", "neurons")
TF32 = "tf32"
SPYX, EQUATION_OF_SPYX = "Spyx", "Leaky, spike first"


@checks.arguments
@dataclass(frozen=True)
class Arguments(suite.Options):
    """What to run; the options of ``snnkit bench frameworks``."""

    features: Sequence[int] = option(
        "Inputs, and neurons.", (512, 2048), cuda=(512, 1024, 2048, 4096, 8192, 16384), quick=(16,)
    )
    steps: int = option("Time steps.", 500, quick=20)
    batch: int = option("Samples.", 16, quick=2)
    dtypes: Sequence[str] = option(
        "Of all tensors; tf32: float32, with products that a GPU may round to TF32.",
        ("float32",),
        cuda=("float32", TF32, "bfloat16"),
        flag="dtype",
        choices=("float32", TF32, "bfloat16"),
    )
    parts: Sequence[str] = option("What to time.", PARTS, flag="part", choices=PARTS)
    engines: Sequence[str] = option(
        "Of ours; those that do not run here are left out.", ("cpp",), cuda=("triton", "block"), choices=ENGINE_NAMES
    )
    peers: bool = suite.peers_option()
    jax: str = remote.jax_option()
    repeats: int = suite.repeats_option(7)


class LayerCase(Case):
    """n inputs to n neurons over T steps of a batch, or the neurons alone."""

    def __init__(
        self,
        every: Sequence[Layer],
        arguments: Arguments,
        part: str,
        features: int,
        dtype: str,
        mode: str,
        device: torch.device,
    ) -> None:
        size = {"part": part, "features": features, "steps": arguments.steps, "batch": arguments.batch}
        numbers = torch.float32 if dtype == TF32 else getattr(torch, dtype)
        super().__init__(every, size, (arguments.steps, arguments.batch, features), numbers, mode, device)
        self.labels["dtype"], self.tf32 = dtype, dtype == TF32
        self.python = arguments.jax
        self.clock = remote.RemoteClock(clock_for(device))
        if part == "layer":
            self.linear = nn.Linear(features, features, bias=False, device=device, dtype=numbers)
            nn.init.normal_(self.linear.weight, std=DRIVE / math.sqrt(features))

    def prepare(self, candidate: Layer) -> tuple[Row, Callable[[], object]]:
        if candidate.library == SPYX:
            return self._start_spyx(candidate)
        if candidate.compiles:
            torch.compiler.reset()  # else it would reach torch's limit of recompilations and run uncompiled
        row, run = super().prepare(candidate)
        return row | {"peak_bytes": peak_of(run, self.device)}, run

    def _start_spyx(self, candidate: Layer) -> tuple[Row, remote.Remote]:
        if self.dtype != torch.float32:
            raise DoesNotRun("it is timed in float32 only")
        precision = "tensorfloat32" if self.tf32 else "highest"
        wanted = {"x": self.x} if self.linear is None else {"weight": self.linear.weight}
        job = {"what": "layer", "mode": self.mode, "beta": 0.9, "precision": precision, "wanted": list(wanted)}
        sent = {"x": self.x, "d_out": self._gradients[self.dtype], **wanted}
        run, measured = remote.start(SPYX, self.python, job, sent, self.device, self._ending)
        out, gradient = run.results(self.device)
        if gradient is not None:
            gradient = gradient.view_as(*wanted.values())
        return measured | self._verified(candidate, (out, gradient)), run

    def measure(self, repeats: int) -> suite.Outcome:
        with contextlib.ExitStack() as self._ending:
            return super().measure(repeats)

    def _result(
        self, forward: Forward, x: Tensor, gradient: Callable[[torch.dtype], Tensor], ours: bool = False
    ) -> Result:
        with suite.tf32(self.tf32):
            return super()._result(forward, x, gradient, ours)

    def scale(self) -> Callable[[], object]:
        if self.linear is None:
            return super().scale()
        x, weight, d_out = self.x, self.linear.weight.detach(), self._gradients[self.dtype]

        def products() -> list[Tensor]:
            with suite.tf32(self.tf32):
                back = [d_out.flatten(0, 1).t() @ x.flatten(0, 1)] if self.mode == TRAINING else []
                return [F.linear(x, weight), *back]

        return products

    def floor(self, row: Row, scale: Timing) -> float:
        return super().floor(row, scale) if self.linear is None else scale.median

    def references(self, scale: Timing) -> dict[str, list[Row]]:
        return {"scales": [self.labels | suite.seconds_of(scale)]}


def _every(arguments: Arguments, device: torch.device) -> tuple[list[Layer], dict[str, str]]:
    more = [*layers(device, more=True), Layer(SPYX, EQUATION_OF_SPYX, _elsewhere)] if arguments.peers else []
    return candidates(device, arguments.engines, arguments.peers, more)


def _elsewhere(x: Tensor) -> Tensor:
    raise DoesNotRun("it runs in a process of its own")


def _cases(arguments: Arguments, device: torch.device) -> Iterator[LayerCase]:
    if TF32 in arguments.dtypes and device.type != "cuda":
        raise ValueError(f"dtype must be float32 or bfloat16 on {device.type!r} devices, which have no TF32")
    every, _ = _every(arguments, device)
    for features, part, dtype, mode in product(sorted(arguments.features), arguments.parts, arguments.dtypes, MODES):
        if part == "layer" or dtype != TF32:  # neurons multiply no matrices
            yield LayerCase(every, arguments, part, features, dtype, mode, device)


def _table(record: Record, rows: Rows) -> str:
    part, mode, dtype, features, steps, batch = (rows[0][key] for key in KEY)
    title = f"{part}, {mode}, {dtype}, n = {features:,}, T = {steps}, batch {batch}"
    for scale in suite.same_case(record["scales"], rows[0], KEY):
        title += f"; {'matrix products' if part == 'layer' else 'copy of x'} alone: {scale['median_s'] * 1e3:.4g} ms"
    columns = {
        **suite.columns("candidate", "equation", "ms", "10-90 %"),
        "less forward": lambda row: _less_forward(row, record["rows"]),
        **suite.columns("first s"),
        "x products" if part == "layer" else "x floor": suite.over_floor,
        "x ours": lambda row: over_ours(row, rows),
        **suite.columns("peak MB"),
    }
    return table(title, columns, rows, left=2)


def _less_forward(row: Row, rows: Rows) -> str:
    """Empty for inference itself, and without it."""
    forward = suite.same_case(rows, {**row, "mode": INFERENCE}, (*KEY, "contestant", "equation"))
    return f"{1e3 * (row['median_s'] - forward[0]['median_s']):.4g}" if forward and row["mode"] == TRAINING else ""


SUITE = Suite("frameworks", KEY, _cases, _table, lambda *chosen: _every(*chosen)[1])
benchmark, tables = SUITE.run, SUITE.tables
