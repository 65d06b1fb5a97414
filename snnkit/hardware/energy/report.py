"""What a count found, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...tables import html_table, size_of
from .estimate import Estimate, estimate
from .operations import Operations
from .prices import Prices


@dataclass(frozen=True)
class LayerCount:
    """A layer with weights. Figures are per sample: over all T steps of it.

    Attributes:
        name: in the network.
        kind: its class.
        operations: synaptic operations.
        input_rate: share of its input values that are not zero; None if it was never called.
    """

    name: str
    kind: str
    operations: Operations
    input_rate: float | None


@dataclass(frozen=True)
class NeuronCount:
    """A layer of neurons, or of activations such as ReLU.

    Attributes:
        name: in the network.
        kind: its class.
        rate: share of its outputs that are not zero (spikes per neuron and step); None for a readout's potential.
        updates: membrane updates per sample.
        neuron_steps: neurons times steps: the most updates there could have been.
    """

    name: str
    kind: str
    rate: float | None
    updates: float
    neuron_steps: float


@dataclass(frozen=True)
class Counts:
    """Complexity of a network on some data, by NeuroBench's definitions. Print it.

    Attributes:
        samples: that were counted.
        steps: T.
        footprint: bytes of parameters and buffers.
        parameters: their number.
        connection_sparsity: share of the weights that are zero; None without weights.
        activation_sparsity: share of outputs of neurons and activations that are zero; None without such layers.
        operations: synaptic operations per sample: effective MACs, effective ACs, and with all zeros.
        executed: those that this kit runs per sample: layers before the first neuron once, if the input is static.
        membrane_updates: per sample.
        layers: one entry for each layer with weights.
        neurons: one entry for each layer of neurons.
        uncounted: modules with weights that are not in the count, and layers and neurons that were never called.
    """

    samples: int
    steps: int
    footprint: int
    parameters: int
    connection_sparsity: float | None
    activation_sparsity: float | None
    operations: Operations
    executed: Operations
    membrane_updates: float
    layers: tuple[LayerCount, ...]
    neurons: tuple[NeuronCount, ...]
    uncounted: tuple[str, ...]

    @property
    def effective_macs(self) -> float:
        """Per sample."""
        return self.operations.macs

    @property
    def effective_acs(self) -> float:
        """Per sample."""
        return self.operations.acs

    @property
    def static(self) -> bool:
        """Whether part of the work was the same in all steps, and can be done once."""
        return self.executed != self.operations

    def energy(self, prices: str | Prices = "float32, 45 nm") -> Estimate:
        """An estimate of the arithmetic's energy, with its assumptions and what speaks against it.

        Args:
            prices: a name in ``PRICES``, or prices of your own with their source.
        """
        return estimate(
            prices, self.operations, self.executed, self.membrane_updates, self.steps, self.activation_sparsity
        )

    def __str__(self) -> str:
        cells = [_HEAD, *self._rows()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        table = ["  ".join(_justified(row, widths)).rstrip() for row in cells]
        return "\n".join([*self._lines(), "", *table])

    def _repr_html_(self) -> str:
        return html_table(_HEAD, self._rows(), self._lines())

    def _lines(self) -> list[str]:
        lines = [
            f"footprint {size_of(self.footprint)}, {self.parameters:,} parameters",
            f"connection sparsity {_share(self.connection_sparsity)}, "
            f"activation sparsity {_share(self.activation_sparsity)}",
            f"per sample of {self.steps} steps: {_operations(self.operations)}, "
            f"{self.membrane_updates:,.0f} membrane updates",
        ]
        if self.static:
            lines.append(
                f"the input is the same in every step; what comes before the first neuron done once: "
                f"{_operations(self.executed)}"
            )
        if self.uncounted:
            lines.append(f"not counted: {', '.join(self.uncounted)}")
        lines.append(
            "Definitions: NeuroBench (Yik et al. 2025, doi:10.1038/s41467-025-56739-4). Time follows these numbers "
            "only where a kernel skips zeros; on CPUs and GPUs the dense operations are run."
        )
        return lines

    def _rows(self) -> Sequence[Sequence[str]]:
        rows = [
            (layer.name, layer.kind, _share(layer.input_rate), f"{layer.operations.macs:,.0f}",
             f"{layer.operations.acs:,.0f}", f"{layer.operations.dense:,.0f}", "")
            for layer in self.layers
        ]  # fmt: skip
        rows += [
            (neuron.name, neuron.kind, _share(neuron.rate), "", "", "", f"{neuron.updates:,.0f}")
            for neuron in self.neurons
        ]
        return rows


_HEAD = ("layer", "kind", "active", "MACs", "ACs", "dense", "updates")


def _justified(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell.rjust(w) if i > 1 else cell.ljust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


def _operations(found: Any) -> str:
    return f"{found.macs:,.0f} effective MACs, {found.acs:,.0f} effective ACs ({found.dense:,.0f} dense)"
