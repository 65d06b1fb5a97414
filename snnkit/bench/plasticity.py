"""STDP, step by step and over sequences: our rule in C++ and in PyTorch beside Norse's functions of the same rule.

snnkit bench plasticity
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..measure.timing import race
from ..plasticity import PairSTDP
from ..plasticity.connection import Convolution, Dense
from . import record
from .plasticity_norse import DT, TAU, norse_steps
from .plasticity_table import case_table, heading

Steps = Callable[[Tensor, Tensor, Tensor], Tensor]  # pre [T, ...], post [T, ...], weight -> weight

# What weights may differ by in float64, in which they are compared, and over how many steps.
TOLERANCE, COMPARED_STEPS = 1e-12, 3

# Synapse-steps of a sequence: of very large weights, fewer steps are timed at once.
_LONGEST = 2**26


@dataclass(frozen=True)
class Case:
    """Two layers and what connects them.

    Attributes:
        batch: samples at once.
        pre, post: neurons of a sample on each side: [n], or [channels, height, width].
        weight: shape of the weights.
        connection: ``Dense()`` or a ``Convolution``.
    """

    batch: int
    pre: tuple[int, ...]
    post: tuple[int, ...]
    weight: tuple[int, ...]
    connection: Dense | Convolution

    @classmethod
    def dense(cls, pre: int, post: int, batch: int) -> Case:
        return cls(batch, (pre,), (post,), (post, pre), Dense())

    @classmethod
    def conv(cls, inputs: int, outputs: int, side: int, kernel: int, batch: int) -> Case:
        left = side - kernel + 1
        weight = (outputs, inputs, kernel, kernel)
        return cls(batch, (inputs, side, side), (outputs, left, left), weight, Convolution())

    @property
    def name(self) -> str:
        layers = " → ".join(" × ".join(map(str, side)) for side in (self.pre, self.post))
        kernel = "" if len(self.weight) == 2 else f", kernel {self.weight[2]} × {self.weight[3]}"
        return f"{'conv' if kernel else 'dense'} {layers}{kernel}, B = {self.batch}"


CASES = (
    Case.dense(784, 100, 1),
    Case.dense(784, 400, 1),
    Case.dense(784, 400, 16),
    Case.dense(1000, 1000, 32),
    Case.dense(4096, 4096, 1),
    Case.conv(1, 32, 28, 5, 1),
    Case.conv(1, 32, 28, 5, 16),
    Case.conv(32, 64, 12, 5, 16),
)
QUICK_CASES = (Case.dense(96, 64, 2), Case.conv(2, 4, 8, 3, 2))


@dataclass(frozen=True)
class Arguments:
    """What to run. ``snnkit bench plasticity`` has an option for each, and the defaults."""

    rate: float
    steps: int
    repeats: int
    peers: bool
    quick: bool = False


def benchmark(
    arguments: Arguments, say: Callable[[str], object] = print, out: str | Path | None = None
) -> dict[str, Any]:
    """Measure every case and give back the record.

    Args:
        arguments: what to run.
        say: takes the tables as text, one when each case is done.
        out: file for the record, written after each case (with ``complete`` false until the end).
    """
    result = record.begin("plasticity", torch.device("cpu"), arguments)
    say(heading(result | {"complete": True}))
    for case in QUICK_CASES if arguments.quick else CASES:
        rows = measured(case, arguments)
        result["rows"] += rows
        say("\n" + case_table(rows))
        _write(out, result)
    result["complete"] = True
    _write(out, result)
    return result


def measured(case: Case, arguments: Arguments) -> list[dict[str, Any]]:
    """The rows of one case.

    Raises:
        AssertionError: the weights that two contestants come to differ; then nobody is timed.
    """
    who = contestants(case, arguments.peers)
    differs = differences(case, who, arguments.rate)
    steps = max(2, min(arguments.steps, _LONGEST // math.prod(case.weight)))
    pre, post, weight = random_case(case, steps, arguments.rate, torch.float32)
    spare = torch.empty_like(weight)
    # Each has weights of its own, which go on changing from round to round, within their bounds.
    functions = {name: partial(run, pre, post, weight.clone()) for name, run in who.items()}
    timings = race(functions | {"copy": partial(spare.copy_, weight)}, arguments.repeats)
    floor = timings.pop("copy").median
    return [
        {
            "case": case.name,
            "contestant": name,
            "library": "Norse" if name == NORSE else "snnkit",
            "dtype": "float32",
            "weights": weight.numel(),
            "batch": case.batch,
            "steps": steps,
            "rate": arguments.rate,
            "median_s": timing.median / steps,
            "p10_s": timing.spread[0] / steps,
            "p90_s": timing.spread[1] / steps,
            "floor_bytes": 2 * weight.numel() * weight.element_size(),
            "floor_s": floor,
            "over_floor": timing.median / steps / floor,
            "weights_differ": differs[name],
        }
        for name, timing in timings.items()
    ]


STEP, RUN, PLAIN, NORSE = "our step", "our run", "our step in PyTorch", "Norse's step"


def contestants(case: Case, peers: bool) -> dict[str, Steps]:
    """Each goes through a sequence from rest, and may change the weight that it is given. Norse's only where it is
    installed."""
    tau = -DT / math.log(1 - DT / TAU)  # Norse's traces decay by a step of Euler's, and count dt / tau for a spike
    rules = [
        PairSTDP(1e-3 * DT / TAU, 1e-3 * DT / TAU, tau, tau, DT, connection=case.connection, engine=engine)
        for engine in ("cpp", "eager")
    ]
    found: dict[str, Steps] = {
        STEP: _stepwise(rules[0]),
        RUN: lambda pre, post, weight: rules[0].run(pre, post, weight)[0],
        PLAIN: _stepwise(rules[1]),
    }
    return found | ({NORSE: peer} if peers and (peer := norse_steps(len(case.weight) == 4)) else {})


def _stepwise(rule: PairSTDP) -> Steps:
    def run(pre: Tensor, post: Tensor, weight: Tensor) -> Tensor:
        state = None
        for pre_t, post_t in zip(pre, post, strict=True):
            _, state = rule.step(pre_t, post_t, weight, state, out=weight)
        return weight

    return run


def differences(case: Case, who: dict[str, Steps], rate: float) -> dict[str, float]:
    """By how much each one's weights differ from those of our step at the most, in float64."""
    pre, post, weight = random_case(case, COMPARED_STEPS, rate, torch.float64)
    ends = {name: run(pre, post, weight.clone()) for name, run in who.items()}
    found = {name: (end - ends[STEP]).abs().max().item() for name, end in ends.items()}
    for name, differs in found.items():
        if not differs <= TOLERANCE:
            raise AssertionError(f"{case.name}: weights of {name} and of {STEP} differ by {differs:.3g}")
    return found


def random_case(case: Case, steps: int, rate: float, dtype: torch.dtype) -> Sequence[Tensor]:
    """Spikes of both sides [T, B, ...], of which so many are 1, and weights anywhere between the bounds."""
    draw = torch.Generator().manual_seed(0)
    sides = [torch.rand(steps, case.batch, *side, generator=draw) < rate for side in (case.pre, case.post)]
    return [*(side.to(dtype) for side in sides), torch.rand(case.weight, generator=draw, dtype=dtype)]


def _write(out: str | Path | None, result: dict[str, Any]) -> None:
    if out is not None:
        record.write(Path(out), result)
