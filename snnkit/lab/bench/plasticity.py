"""STDP, step by step and over sequences: ours beside Norse's functions for the same rule.

    snnkit bench plasticity

Columns: "x floor": the time of a step as a multiple of reading and writing all weights once, as in a copy. A sequence
has them in the cache and may be below 1. "times Norse": how many of our steps fit into one of Norse's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from snnkit import checks
from snnkit.lab.bench import suite
from snnkit.lab.bench.baselines import DT, EXACT_TAU, NORSE, TAU, Steps, norse_stdp
from snnkit.lab.bench.suite import OURS, Race, Record, Row, Rows, Suite, option, seconds_of, table, times
from snnkit.measure import Timing
from snnkit.plasticity import Convolution, Dense, PairSTDP

# Largest difference of weights, which are compared in float64, and the number of steps.
TOLERANCE, COMPARED_STEPS = 1e-12, 3
_LONGEST = 2**26  # synapse-steps of a sequence: with very large weights, fewer steps are timed at once

STEP, RUN, NORSE_STEP = "our step", "our run", "Norse's step"


class Connection(NamedTuple):
    """A connection of two layers: samples at once, neurons of a sample on each side ([n] or [channels, height, width]),
    and the shape of the weights."""

    batch: int
    pre: tuple[int, ...]
    post: tuple[int, ...]
    weight: tuple[int, ...]

    @property
    def kind(self) -> Dense | Convolution:
        return Dense() if len(self.weight) == 2 else Convolution()

    @property
    def name(self) -> str:
        layers = " → ".join(" × ".join(map(str, side)) for side in (self.pre, self.post))
        kernel = "" if len(self.weight) == 2 else f", kernel {self.weight[2]} × {self.weight[3]}"
        return f"{'conv' if kernel else 'dense'} {layers}{kernel}, B = {self.batch}"


def dense(pre: int, post: int, batch: int) -> Connection:
    """All to all."""
    return Connection(batch, (pre,), (post,), (post, pre))


def conv(inputs: int, outputs: int, side: int, kernel: int, batch: int) -> Connection:
    """Channels of square images."""
    left = side - kernel + 1
    return Connection(batch, (inputs, side, side), (outputs, left, left), (outputs, inputs, kernel, kernel))


CONNECTIONS = (
    dense(784, 100, 1),
    dense(784, 400, 1),
    dense(784, 400, 16),
    dense(1000, 1000, 32),
    dense(4096, 4096, 1),
    conv(1, 32, 28, 5, 1),
    conv(1, 32, 28, 5, 16),
    conv(32, 64, 12, 5, 16),
)
QUICK_CONNECTIONS = (dense(96, 64, 2), conv(2, 4, 8, 3, 2))


@checks.arguments
@dataclass(frozen=True)
class Arguments(suite.Options):
    """What to run; the options of ``snnkit bench plasticity``."""

    device: str = "cpu"
    rate: float = option("Share of the neurons that fire in a step: 0.02 is 20 spikes a second at 1 ms.", 0.02)
    steps: int = option("Of a sequence.", 20, least=2)
    peers: bool = suite.peers_option()
    repeats: int = suite.repeats_option(11)
    quick: bool = field(default=False, metadata={"quick": True})


class Candidate(NamedTuple):
    """Goes through a sequence from rest, and may change the given weight."""

    name: str
    library: str
    run: Steps


def candidates(connection: Connection, peers: bool) -> list[Candidate]:
    """Ours, and Norse's if it is installed."""
    amplitude = 1e-3 * DT / TAU  # Norse counts dt / tau for a spike
    rule = PairSTDP(amplitude, amplitude, EXACT_TAU, EXACT_TAU, DT, connection=connection.kind, engine="cpp")
    every = [
        Candidate(STEP, OURS, _stepwise(rule)),
        Candidate(RUN, OURS, lambda pre, post, weight: rule.run(pre, post, weight)[0]),
    ]
    norse = norse_stdp(len(connection.weight) == 4) if peers else None
    return every if norse is None else [*every, Candidate(NORSE_STEP, NORSE, norse)]


def _stepwise(rule: PairSTDP) -> Steps:
    def run(pre: Tensor, post: Tensor, weight: Tensor) -> Tensor:
        state = None
        for pre_t, post_t in zip(pre, post, strict=True):
            _, state = rule.step(pre_t, post_t, weight, state, out=weight)
        return weight

    return run


class Case(Race):
    """One connection.

    Raises:
        AssertionError: the weights of two candidates differ at the end; then none is timed.
    """

    def __init__(self, connection: Connection, rate: float, steps: int, peers: bool) -> None:
        self.candidates = candidates(connection, peers)
        self.steps = max(2, min(steps, _LONGEST // math.prod(connection.weight)))
        self.labels = {
            "case": connection.name,
            "dtype": "float32",
            "weights": math.prod(connection.weight),
            "batch": connection.batch,
            "steps": self.steps,
            "rate": rate,
        }
        self._compared = random_case(connection, COMPARED_STEPS, rate, torch.float64)
        self._timed = random_case(connection, self.steps, rate, torch.float32)
        self._expected = self._end(self.candidates[0])

    def _end(self, candidate: Candidate) -> Tensor:
        pre, post, weight = self._compared
        return candidate.run(pre, post, weight.clone())

    def prepare(self, candidate: Candidate) -> tuple[Row, Callable[[], object]]:
        differ = (self._end(candidate) - self._expected).abs().max().item()
        if not differ <= TOLERANCE:
            names = f"weights of {candidate.name} and of {self.candidates[0].name}"
            raise AssertionError(f"{self.labels['case']}: {names} differ by {differ:.3g}")
        pre, post, weight = self._timed
        # Each has its own weights, which change from round to round within their bounds.
        return {"weights_differ": differ}, partial(candidate.run, pre, post, weight.clone())

    def scale(self) -> Callable[[], object]:
        weight = self._timed[2]
        return partial(torch.empty_like(weight).copy_, weight)

    def floor(self, row: Row, scale: Timing) -> float:
        return scale.median

    def finish(self, row: Row, timing: Timing) -> Row:
        return row | seconds_of(timing, self.steps) | {"floor_bytes": 2 * self._timed[2].nbytes}


def random_case(connection: Connection, steps: int, rate: float, dtype: torch.dtype) -> Sequence[Tensor]:
    """Spikes of both sides [T, B, ...], a share of ``rate`` of them 1, and weights anywhere between the bounds."""
    draw = torch.Generator().manual_seed(0)
    sides = [torch.rand(steps, connection.batch, *n, generator=draw) < rate for n in (connection.pre, connection.post)]
    return [*(side.to(dtype) for side in sides), torch.rand(connection.weight, generator=draw, dtype=dtype)]


def _cases(arguments: Arguments, device: torch.device) -> Iterator[Case]:
    for connection in QUICK_CONNECTIONS if arguments.quick else CONNECTIONS:
        yield Case(connection, arguments.rate, arguments.steps, arguments.peers)


def _table(record: Record, rows: Rows) -> str:
    first = rows[0]
    title = (
        f"{first['case']}: {first['weights']:,} weights, {first['dtype']}, {first['rate']:.3g} of the neurons fire, "
        f"{first['steps']} steps; copy of the weights: {first['floor_s'] * 1e6:.3g} µs"
    )
    norse = next((row["median_s"] for row in rows if row["library"] == NORSE), None)
    columns = {
        **suite.columns("candidate"),
        "µs a step": partial(suite.milliseconds, scale=1e6),
        "10-90 %": partial(suite.spread, scale=1e6),
        "x floor": suite.over_floor,
        "times Norse": lambda row: times(norse, row["median_s"]) if norse and row["library"] == OURS else "",
    }
    return table(title, columns, rows)


SUITE = Suite("plasticity", ("case",), _cases, _table)
benchmark, tables = SUITE.run, SUITE.tables
