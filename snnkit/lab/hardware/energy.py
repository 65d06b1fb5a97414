"""The work of a spiking network by NeuroBench's definitions, and an estimate of its energy with its assumptions.

NeuroBench (Yik et al. 2025, doi:10.1038/s41467-025-56739-4) counts non-zero values: connection sparsity is the share of
weights that are zero, activation sparsity that of the outputs of neurons; effective MACs and ACs are pairs of an input
and a weight that are both non-zero, per sample and without biases: ACs (additions alone) in layers whose inputs are all
0, 1 or -1, MACs in the others. Its package drives snnTorch networks step by step, so the definitions are implemented
here. Differences: a layer counts as MACs if one of its inputs in the whole count is another number (NeuroBench decides
for each call), and the potential of a readout (``LI``) is not an activation.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.device import untouched
from snnkit.device.usage import evaluating
from snnkit.neuron import named_neurons
from snnkit.nn import is_static
from snnkit.tables import size_of, text_table

# The layers whose operations are counted: NeuroBench's without its recurrent cells.
_WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)

# Picojoules of an addition, a multiplication, and an access to 32 bits in an 8 kB cache.
ADD, MULTIPLY, ACCESS = 0.9, 3.7, 5.0
_MAC = ADD + MULTIPLY
ASSUMPTIONS = (
    f"Predicted, not measured: counts times prices, on no existing chip. Prices (float32, 45 nm): addition {ADD} pJ, "
    f"multiplication {MULTIPLY} pJ, so a MAC {_MAC:.1f} pJ and an AC {ADD} pJ; cache access {ACCESS} pJ. Source: "
    "M. Horowitz, ISSCC 2014 (doi:10.1109/ISSCC.2014.6757323), 45 nm at 0.9 V, as quoted in PMC8934428, table 3.",
    "Some papers take 3.7 pJ, the multiplication alone, for a MAC: compare only figures of one convention.",
    "Every operation with a zero in it is skipped for free, which neither CPUs nor GPUs do. Compare the row without "
    "spikes that skips zeros, too: those of x and of the weights; its hidden values count as never zero.",
    "A membrane takes one MAC in every step. Comparing, resetting, control, clock and leakage cost nothing.",
    "Arithmetic alone moves no data. The rows with memory add one access to an 8 kB cache for each weight used and two "
    "for each membrane, as if all data were always in that cache.",
)
AGAINST = (
    "With data movement counted, an SNN of 5 steps takes less energy than a quantized network of the same "
    "representational capacity only if fewer than 5.7 % of its neurons fire in a step. (Yan, Bai, Tang and Wong, "
    "Reconsidering the Energy Efficiency of Spiking Neural Networks, version 4, https://arxiv.org/abs/2409.08290)",
    "Pruned SNNs took 1.61 times more energy than their non-spiking counterparts. (Yu et al., SNN against ANN, "
    "https://doi.org/10.1145/3822176)",
    "The energy of a neuromorphic chip is set by its busiest core and by memory, computing or traffic, whichever is "
    "the bottleneck; totals of operations over a network are misleading. (Yik et al., floorline model, "
    "https://arxiv.org/abs/2511.21549)",
)


@dataclass
class LayerCount:
    """Sums over all samples: of a layer's inputs if it has weights, else of its outputs."""

    name: str  # its path in the network, and its class
    weighted: bool  # linear map or convolution; else neurons
    spiking: bool = True  # weighted: every input was 0, 1 or -1; else: the output counts as an activation
    values: int = 0
    active: int = 0  # values that are not zero
    effective: int = 0  # pairs of an input and a weight that are both not zero
    connected: int = 0  # pairs of any input and a weight that is not zero
    dense: int = 0  # all pairs


@dataclass(frozen=True)
class Counts:
    """Complexity of a network on some data, by NeuroBench's definitions (above); prints as a table."""

    samples: int
    steps: int
    footprint: int  # bytes of parameters and buffers
    connection_sparsity: float | None  # share of the weights that are zero; None without weights
    layers: tuple[LayerCount, ...]
    once: tuple[LayerCount, ...]  # as snnkit runs them: layers before the first neuron once, if x is static
    uncounted: tuple[str, ...]  # modules with weights that are not counted, and layers that were never called

    @property
    def activation_sparsity(self) -> float | None:
        """Share of the outputs of neurons that are zero; None without neurons."""
        outputs = [layer for layer in self.layers if layer.spiking and not layer.weighted]
        values = sum(layer.values for layer in outputs)
        return 1 - sum(layer.active for layer in outputs) / values if values else None

    @property
    def effective_macs(self) -> float:
        """Per sample."""
        return sum(layer.effective for layer in self.layers if not layer.spiking) / self.samples

    @property
    def effective_acs(self) -> float:
        """Per sample."""
        return sum(layer.effective for layer in self.layers if layer.spiking) / self.samples

    @property
    def dense(self) -> float:
        """All pairs of an input and a weight, per sample."""
        return sum(layer.dense for layer in self.layers) / self.samples

    @property
    def membrane_updates(self) -> float:
        """Neurons times steps, per sample: the most that a network can need."""
        return sum(layer.values for layer in self.layers if not layer.weighted) / self.samples

    def energy(self) -> Estimate:
        """Estimate the energy of the arithmetic, with its assumptions and counter-evidence."""

        def synapses(layers: tuple[LayerCount, ...]) -> float:
            return sum(layer.effective * (ADD if layer.spiking else _MAC) for layer in layers) / self.samples

        neurons, one_pass = self.membrane_updates * _MAC, self.dense / self.steps
        accesses = self.effective_macs + self.effective_acs + 2 * self.membrane_updates
        # Like for like: what skips a missing spike can skip a zero of x, too. Hidden values count as never zero.
        at_x = len(list(takewhile(lambda layer: layer.weighted, self.layers)))
        pairs = sum(layer.effective if i < at_x else layer.connected for i, layer in enumerate(self.layers))
        skipping = pairs / self.samples / self.steps
        rows = {
            "spiking: synapses, arithmetic alone": synapses(self.layers),
            "spiking: the same, static layers once": synapses(self.once),
            "spiking: membrane updates": neurons,
            "spiking: arithmetic alone, static layers once": synapses(self.once) + neurons,
            "spiking: all, with cache accesses": synapses(self.layers) + neurons + accesses * ACCESS,
            "without spikes, one pass: arithmetic alone": one_pass * _MAC,
            "without spikes, one pass: zeros skipped, too": skipping * _MAC,
            "without spikes, one pass: with cache accesses": one_pass * (_MAC + ACCESS),
        }
        return Estimate(rows, self.activation_sparsity)

    def __str__(self) -> str:
        lines = [
            f"footprint {size_of(self.footprint)}, connection sparsity {_percent(self.connection_sparsity)}, "
            f"activation sparsity {_percent(self.activation_sparsity)}",
            f"per sample of {self.steps} steps: {self.effective_macs:,.0f} effective MACs, {self.effective_acs:,.0f} "
            f"effective ACs ({self.dense:,.0f} dense), {self.membrane_updates:,.0f} membrane updates",
            f"not counted: {', '.join(self.uncounted) or 'nothing'}",
            "Definitions: NeuroBench (Yik et al. 2025, doi:10.1038/s41467-025-56739-4). Run time depends on these "
            "numbers only where a kernel skips zeros; CPUs and GPUs run the dense operations.",
            "",
        ]
        rows = []
        for layer in self.layers:
            kind = ("ACs" if layer.spiking else "MACs") if layer.weighted else ""
            active = _percent(layer.active / layer.values if layer.values else None)
            numbers = (f"{number / self.samples:,.0f}" for number in (layer.effective, layer.dense))
            rows.append((layer.name, active, kind, *numbers))
        return "\n".join(lines + text_table(("layer", "active", "as", "effective", "dense"), rows))


@dataclass(frozen=True)
class Estimate:
    """Energy of the arithmetic of one sample; it prints the numbers with their conditions."""

    rows: dict[str, float]  # picojoules by what they are of; "without spikes" is the ANN that papers compare with
    activation_sparsity: float | None

    def __str__(self) -> str:
        lines = [f"{what:46}{picojoules / 1e3:12,.4g} nJ" for what, picojoules in self.rows.items()]
        lines += ["", "Assumptions:", *(f"- {sentence}" for sentence in ASSUMPTIONS), "Counter-evidence:"]
        lines += [f"- {finding}" for finding in AGAINST]
        if self.activation_sparsity is not None:
            active = 1 - self.activation_sparsity
            lines.append(f"- In this network {active:.2%} of the outputs of neurons are non-zero.")
        return "\n".join(lines)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


@checks.arguments
def count(net: nn.Module, x: Tensor) -> Counts:
    """Run ``net`` in eval mode on ``x`` and count. ``net`` does not change.

    A static input (one step, T times, as ``encode.repeat`` gives it) is counted twice: in every step, as NeuroBench
    does, and as snnkit computes it, with the layers before the first neuron once.

    Args:
        net: called ``net(x)``, as ``snnkit.nn.Sequential`` is. Linear maps, convolutions and neurons are counted;
            ``Counts.uncounted`` names other modules that have weights.
        x: [T, B, ...] on the device of ``net``, floating point, T and B at least 1.
    """
    checks.values("net", net)
    if x.dim() < 2 or not x.numel() or not x.is_floating_point():
        raise ValueError(f"x must be floating-point values [T, B, ...], but it is {x.dtype} {list(x.shape)}")
    if x.is_meta or not bool(torch.isfinite(x).all()):
        raise ValueError("x must hold finite values, which are what is counted, but it does not")
    layers = _counted(net, x.contiguous())
    if not layers:
        raise ValueError(f"net must hold a linear map, a convolution or a neuron, but {type(net).__name__} has none")
    weights: list[Any] = [module.weight for module in net.modules() if isinstance(module, _WEIGHTED)]
    connections = sum(weight.numel() for weight in weights)
    others = [
        _title(path, module)
        for path, module in net.named_modules()
        if path not in layers and next(module.parameters(recurse=False), None) is not None
    ]
    return Counts(
        samples=x.shape[1],
        steps=x.shape[0],
        footprint=sum(t.numel() * t.element_size() for t in (*net.parameters(), *net.buffers())),
        connection_sparsity=sum(int((w == 0).sum()) for w in weights) / connections if connections else None,
        layers=tuple(layers.values()),
        once=tuple((_counted(net, x) if is_static(x) else layers).values()),
        uncounted=(*others, *(layer.name for layer in layers.values() if not layer.values)),
    )


def _counted(net: nn.Module, x: Tensor) -> dict[str, LayerCount]:
    """The layers of ``net(x)`` in eval mode, without gradients, by path; ``net`` is left as it was."""
    layers: dict[str, LayerCount] = {}
    with untouched(net, x.device), evaluating(net), ExitStack() as hooks:
        neurons = dict(named_neurons(net))
        for path, module in net.named_modules():
            weighted = isinstance(module, _WEIGHTED)
            if weighted or path in neurons:
                spiking = weighted or bool(neurons[path].spiking)
                layers[path] = LayerCount(_title(path, module), weighted, spiking=spiking)
                hooks.enter_context(module.register_forward_hook(partial(_after_call, layers[path])))
        net(x)
    return layers


def _title(path: str, module: nn.Module) -> str:
    return f"{path} ({type(module).__name__})"


def _after_call(count: LayerCount, layer: Any, args: tuple, result: Any) -> None:
    values = args[0] if count.weighted else result[0]
    count.values += values.numel()
    count.active += int(torch.count_nonzero(values))
    if not count.weighted:
        return
    with torch.autocast(values.device.type, enabled=False):  # half precision can't count
        connections, all_of_x = (layer.weight != 0).float(), torch.ones_like(values).float()
        count.effective += _pairs(layer, (values != 0).float(), connections)
        count.connected += _pairs(layer, all_of_x, connections)
        count.dense += _pairs(layer, all_of_x, torch.ones_like(connections))
    count.spiking = count.spiking and bool(((values == 0) | (values.abs() == 1)).all())


def _pairs(layer: Any, x: Tensor, weight: Tensor) -> int:
    """The sum of the layer's output for zeros and ones, without its bias: exact below 2^53."""
    if isinstance(layer, nn.Linear):
        each = x.reshape(-1, x.shape[-1]).sum(0, dtype=torch.float64)
        return int(each @ weight.sum(0, dtype=torch.float64))
    return int(layer._conv_forward(x, weight, None).sum(dtype=torch.float64))
