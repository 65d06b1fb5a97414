"""What a model says of a training step: a range of seconds, what they are spent on, and what that rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..chips import Chip, get
from .assumptions import Assumptions
from .ranges import Range
from .work import Work

PRECISIONS = {"float32": 4, "tf32": 4, "float16": 2}


@dataclass(frozen=True)
class Prediction:
    """Never measured.

    Attributes:
        chip: its name.
        mode: how the step is run there.
        precision: of the arithmetic.
        samples: of a step.
        seconds: of a training step.
        parts: what they are spent on. Where parts run beside each other, they add up to more than ``seconds``.
        source: figures and assumptions that it rests on.
    """

    chip: str
    mode: str
    precision: str
    samples: int
    seconds: Range
    parts: Mapping[str, Range] = field(repr=False)
    source: str = field(repr=False)
    mark: str = field(default="predicted", init=False)

    @property
    def samples_per_s(self) -> Range:
        """Training throughput."""
        return self.seconds.inverse() * self.samples

    def __str__(self) -> str:
        lines = [
            f"{self.chip}, {self.mode}, {self.precision} (predicted): {self.seconds * 1e3} ms a step, "
            f"{self.samples_per_s} samples/s"
        ]
        lines += [f"  {name:<12} {seconds * 1e3} ms" for name, seconds in self.parts.items()]
        return "\n".join([*lines, f"  rests on: {self.source}"])


def checked(work: Any, chip: Any, assumptions: Any) -> tuple[Chip, Assumptions]:
    """What a model of a machine starts from; TypeError or ValueError where it is something else."""
    if not isinstance(work, Work):
        raise TypeError(f"work must be a Work, as roofline.count gives it, but it is a {type(work).__name__}")
    if not isinstance(chip, (str, Chip)):
        raise TypeError(f"chip must be a Chip or its name, but it is a {type(chip).__name__}")
    if assumptions is not None and not isinstance(assumptions, Assumptions):
        raise TypeError(f"assumptions must be roofline.Assumptions or None, but it is a {type(assumptions).__name__}")
    if not work.running or work.samples < 1:
        raise ValueError(f"work {work.name!r} must have operations and samples, but there are none")
    return chip if isinstance(chip, Chip) else get(chip), assumptions or Assumptions()


def check_precision(precision: str, known: tuple[str, ...]) -> int:
    """Bytes of a number in it; ValueError unless it is one of ``known``."""
    if not isinstance(precision, str) or precision not in known:
        raise ValueError(f"precision must be one of {', '.join(map(repr, known))}, but it is {precision!r}")
    return PRECISIONS[precision]
