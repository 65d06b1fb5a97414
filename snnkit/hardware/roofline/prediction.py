"""What a model says of a training step: a range of seconds, what they are spent on, and what that rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .ranges import Range

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


def check_precision(precision: str, known: tuple[str, ...]) -> int:
    """Bytes of a number in it; ValueError unless it is one of ``known``."""
    if precision not in known:
        raise ValueError(f"precision must be one of {', '.join(map(repr, known))}, but it is {precision!r}")
    return PRECISIONS[precision]
