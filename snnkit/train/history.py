"""What a training run did, epoch by epoch."""

from __future__ import annotations

import copy
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass
class History:
    """One entry per finished epoch in each list; plain numbers, so `to_dict()` goes into JSON as it is.

    The training figures are means over the batches of the epoch, taken while the weights changed; the test figures
    are taken after it. Without test data those lists stay empty.
    """

    train_loss: list[float] = field(default_factory=list)
    train_accuracy: list[float] = field(default_factory=list)  # fraction in [0, 1]
    test_loss: list[float] = field(default_factory=list)
    test_accuracy: list[float] = field(default_factory=list)  # fraction in [0, 1]
    output_rate: list[float] = field(
        default_factory=list
    )  # mean output per neuron and step: its spike rate, if it spikes
    seconds: list[float] = field(default_factory=list)  # training only, without the test
    samples_per_second: list[float] = field(default_factory=list)
    interrupted: bool = False  # stopped from the keyboard; the epoch that was under way is not listed

    @property
    def epochs(self) -> int:
        """How many epochs were finished."""
        return len(self.train_loss)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> History:
        """Inverse of `to_dict`. Raises ValueError for keys that a History doesn't have."""
        known = {f.name for f in fields(cls)}
        if unknown := sorted(set(values) - known):
            raise ValueError(f"unknown keys in a history: {', '.join(unknown)}; known are {', '.join(sorted(known))}")
        return cls(**copy.deepcopy(values))

    def __repr__(self) -> str:
        lines = [f"History of {self.epochs} epoch{'s' * (self.epochs != 1)}{', interrupted' * self.interrupted}"]
        if self.epochs:
            lines.append("epoch  train loss  train acc  test acc  output rate  seconds  samples/s")
        for i in range(self.epochs):
            test = f"{self.test_accuracy[i]:8.2%}" if i < len(self.test_accuracy) else f"{'-':>8}"
            lines.append(
                f"{i + 1:5d}  {self.train_loss[i]:10.4f}  {self.train_accuracy[i]:9.2%}  {test}  "
                f"{self.output_rate[i]:11.4f}  {self.seconds[i]:7.1f}  {self.samples_per_second[i]:9.0f}"
            )
        return "\n".join(lines)
