"""What an operation costs in picojoules, whose figure that is, and what speaks against adding such figures up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..checks import between

_ARITHMETIC = (
    "M. Horowitz, ISSCC 2014 (doi:10.1109/ISSCC.2014.6757323), 45 nm at 0.9 V, as quoted in PMC8934428, table 3"
)


@dataclass(frozen=True)
class Prices:
    """Picojoules of one operation.

    Attributes:
        name: the arithmetic and the process.
        add: an addition: what a synaptic operation on a spike takes.
        multiply: a multiplication.
        access: 32 bits from an 8 kB cache, for the count with memory.
        source: where the figures are from.
        mark: what kind of figures: "secondary" if they are read in a paper that quotes them.

    Raises:
        ValueError, TypeError: a price that is no number of at least 0; no source.
    """

    name: str
    add: float
    multiply: float
    access: float
    source: str
    mark: str = "secondary"

    def __post_init__(self) -> None:
        for price in ("add", "multiply", "access"):
            between(price, getattr(self, price), 0.0, float("inf"))
        if not self.source:
            raise ValueError(f"source of prices {self.name!r} must say where the figures are from, but it is empty")

    @property
    def ac(self) -> float:
        """An addition."""
        return self.add

    @property
    def mac(self) -> float:
        """A multiplication and an addition."""
        return self.add + self.multiply


PRICES: Mapping[str, Prices] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Prices("float32, 45 nm", add=0.9, multiply=3.7, access=5.0, source=_ARITHMETIC),
            Prices("int32, 45 nm", add=0.1, multiply=3.1, access=5.0, source=_ARITHMETIC),
        )
    }
)


def prices(name: str) -> Prices:
    """The entry of this name in ``PRICES``. ValueError: there is none."""
    if not isinstance(name, str) or name not in PRICES:
        raise ValueError(f"prices must be one of {', '.join(map(repr, PRICES))}, but it is {name!r}")
    return PRICES[name]


@dataclass(frozen=True)
class Evidence:
    """A finding of others that an estimate must not be read without.

    Attributes:
        finding: in a sentence.
        source: who found it.
        url: where.
    """

    finding: str
    source: str
    url: str


AGAINST: tuple[Evidence, ...] = (
    Evidence(
        "With data movement counted, an SNN of 5 steps takes less energy than a quantized network of the same "
        "representational capacity only if fewer than 5.7 % of its neurons fire in a step.",
        "Yan, Bai, Tang and Wong, Reconsidering the Energy Efficiency of Spiking Neural Networks, version 4",
        "https://arxiv.org/abs/2409.08290",
    ),
    Evidence(
        "Pruned SNNs were found to take 1.61 times more energy than their non-spiking counterparts.",
        "Yu et al., SNN against ANN",
        "https://doi.org/10.1145/3822176",
    ),
    Evidence(
        "What a neuromorphic chip takes is set by its busiest core and by memory, computing or traffic, whichever "
        "binds; totals of operations over a network mislead.",
        "Yik et al., floorline model",
        "https://arxiv.org/abs/2511.21549",
    ),
)
