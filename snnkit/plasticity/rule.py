"""What rules of plasticity have in common: time steps, bounds, batches, and the engine of their traces."""

from __future__ import annotations

from torch import Tensor

from ..engine import check_engine, unroll
from . import check
from .change import BATCHES, Limits
from .trace import Trace, TraceState


class Rule:
    """Base of the rules; a rule is a frozen dataclass of numbers that has these."""

    dt: float
    bound: str | None
    w_min: float
    w_max: float
    batch: str
    engine: str

    def check_numbers(self, amplitudes: tuple[str, ...], times: tuple[str, ...]) -> None:
        """TypeError or ValueError unless amplitudes are 0 or more, times above 0, and the rest makes sense."""
        for name in amplitudes:
            check.number(name, getattr(self, name), at_least=0.0)
        for name in (*times, "dt"):
            check.number(name, getattr(self, name), above=0.0)
        self.limits.checked()
        check.choice("batch", self.batch, BATCHES)
        check_engine(self.engine)

    @property
    def limits(self) -> Limits:
        return Limits(self.bound, self.w_min, self.w_max)

    def scale(self, samples: int) -> float:
        """What the change by one of so many samples counts."""
        return 1.0 / samples if self.batch == "mean" else 1.0

    def traced(self, spikes: Tensor, start: Tensor, tau: float) -> tuple[Tensor, Tensor]:
        """The trace of spikes [T, B, n] at every step, and after the last."""
        trace, last = unroll(Trace(tau, self.dt), spikes, TraceState(start), engine=self.engine)
        return trace, last.trace
