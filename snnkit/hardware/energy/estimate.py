"""Operations times picojoules: a number that is never shown without what it leaves out."""

from __future__ import annotations

from dataclasses import dataclass

from ...tables import html_table
from .operations import Operations
from .prices import AGAINST, Evidence, Prices
from .prices import prices as priced


@dataclass(frozen=True)
class Estimate:
    """Energy of the arithmetic of one sample in picojoules. Print it: the number comes with its conditions.

    Attributes:
        prices: of the operations.
        synapses: effective MACs and ACs.
        neurons: membrane updates, each taken for one MAC.
        with_memory: both, and an access to a small cache for each weight, and two for each membrane.
        once: ``synapses`` where the part of a static input is computed once; equal to it for other inputs.
        dense_pass: one pass of the same layers without spikes, all MACs: the ANN that papers compare with.
        dense_pass_with_memory: the same with an access for each weight.
        rate: share of the outputs of neurons that are not zero; None without such layers.
        assumptions: sentences.
        against: findings of others.
    """

    prices: Prices
    synapses: float
    neurons: float
    with_memory: float
    once: float
    dense_pass: float
    dense_pass_with_memory: float
    rate: float | None
    assumptions: tuple[str, ...]
    against: tuple[Evidence, ...]

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(what) for what, _ in rows)
        figures = [f"{what.ljust(width)}  {value.rjust(10)}" for what, value in rows]
        return "\n".join([*figures, "", *self._notes()])

    def _repr_html_(self) -> str:
        return html_table(("energy of a sample (predicted)", ""), self._rows(), self._notes())

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("synaptic operations, arithmetic alone", joules(self.synapses))]
        if self.once != self.synapses:
            rows.append(("  with the static input's layer computed once", joules(self.once)))
        rows += [
            ("membrane updates, arithmetic alone", joules(self.neurons)),
            ("both, with one cache access per operand", joules(self.with_memory)),
            ("the same layers as an ANN, one pass, arithmetic alone", joules(self.dense_pass)),
            ("the same layers as an ANN, one pass, with cache accesses", joules(self.dense_pass_with_memory)),
        ]
        return rows

    def _notes(self) -> list[str]:
        notes = ["Assumptions:", *(f"- {sentence}" for sentence in self.assumptions), "Counter-evidence:"]
        notes += [f"- {e.finding} ({e.source}, {e.url})" for e in self.against]
        if self.rate is not None:
            notes.append(f"- In this network {self.rate:.2%} of the outputs of neurons are not zero.")
        return notes


def estimate(
    prices: str | Prices,
    operations: Operations,
    executed: Operations,
    membrane_updates: float,
    steps: int,
    activation_sparsity: float | None,
) -> Estimate:
    """Price what was counted; see ``Counts.energy``."""
    price = priced(prices) if isinstance(prices, str) else prices
    if not isinstance(price, Prices):
        raise TypeError(f"prices must be a name in PRICES or Prices, but it is a {type(prices).__name__}")
    synapses = _arithmetic(price, operations)
    neurons = membrane_updates * price.mac
    reads = operations.macs + operations.acs + 2 * membrane_updates
    once = operations.dense / steps
    return Estimate(
        price, synapses, neurons, synapses + neurons + reads * price.access, _arithmetic(price, executed),
        once * price.mac, once * (price.mac + price.access),
        None if activation_sparsity is None else 1 - activation_sparsity, _assumptions(price), AGAINST,
    )  # fmt: skip


def _arithmetic(price: Prices, operations: Operations) -> float:
    return operations.macs * price.mac + operations.acs * price.ac


def _assumptions(price: Prices) -> tuple[str, ...]:
    return (
        f"Predicted, not measured: counts times prices, on no existing chip. Prices ({price.name}, {price.mark}): "
        f"addition {price.add:g} pJ, multiplication {price.multiply:g} pJ, so a MAC {price.mac:g} pJ and an AC "
        f"{price.add:g} pJ; cache access {price.access:g} pJ. Source: {price.source}.",
        "Some papers take 3.7 pJ, the multiplication alone, for a MAC: compare only figures of one convention.",
        "Every operation with a zero in it is skipped for free, which neither CPUs nor GPUs do.",
        "A membrane update is taken for one MAC. Comparing, resetting, control, clock and leakage cost nothing.",
        "Arithmetic alone moves no data. The rows with memory add one access to an 8 kB cache for each weight used and "
        "two for each membrane, as if everything were always in that cache.",
    )


def joules(picojoules: float) -> str:
    """In a readable unit."""
    for unit, scale in (("mJ", 1e9), ("µJ", 1e6), ("nJ", 1e3)):
        if picojoules >= scale:
            return f"{picojoules / scale:.3g} {unit}"
    return f"{picojoules:.3g} pJ"
