"""How much work a spiking network is, by NeuroBench's definitions, and an estimate of its energy with its assumptions.

    counts = energy.count(net, x)            # x [T, B, ...]
    print(counts)                            # footprint, sparsity, effective MACs and ACs, membrane updates
    print(counts.energy())                   # picojoules, with assumptions and counter-evidence

NeuroBench (Yik et al. 2025, doi:10.1038/s41467-025-56739-4) counts non-zero values:

- footprint: bytes of parameters and buffers;
- connection sparsity: share of the weights that are zero;
- activation sparsity: share of the outputs of neurons and activations that are zero, over layers, steps and samples;
- effective MACs and ACs: pairs of an input and a weight that are both non-zero, per sample; ACs (additions alone) in
  layers whose inputs are all 0, 1 or -1, MACs in the others; without biases;
- membrane updates: membrane potentials that a step changes, per sample; in the first step of a sequence all of them.

The package `neurobench` itself drives snnTorch networks step by step, so the definitions are implemented here, and a
test compares both where `neurobench` is installed. There are three differences. A layer counts as MACs as soon as one
of its inputs in the whole count is another number, while NeuroBench decides call by call (a silent step adds nothing
in either case). The potential of a readout (``LI``) is not an activation. Sparsities are not rounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from .. import checks
from ..device import untouched
from ..engine import in_dtype, state_dtype
from ..neuron import Neuron
from ..nn import is_static
from ..tables import html_table, size_of, text_table

# The layers whose operations are counted: NeuroBench's without its recurrent cells, and transposed convolutions.
_TRANSPOSED = {
    nn.ConvTranspose1d: F.conv_transpose1d,
    nn.ConvTranspose2d: F.conv_transpose2d,
    nn.ConvTranspose3d: F.conv_transpose3d,
}
_WEIGHTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, *_TRANSPOSED)
_ACTIVATIONS = (nn.ReLU, nn.Sigmoid)


@dataclass(frozen=True)
class Operations:
    """Synaptic operations, without biases: pairs of an input and a weight, both non-zero, as multiply-adds (``macs``)
    or additions (``acs``, where the input is 1 or -1); and all pairs (``dense``)."""

    macs: float = 0
    acs: float = 0
    dense: float = 0

    def __add__(self, other: Operations) -> Operations:
        return Operations(self.macs + other.macs, self.acs + other.acs, self.dense + other.dense)

    def __truediv__(self, number: float) -> Operations:
        return Operations(self.macs / number, self.acs / number, self.dense / number)

    def __str__(self) -> str:
        return f"{self.macs:,.0f} effective MACs, {self.acs:,.0f} effective ACs ({self.dense:,.0f} dense)"


@dataclass(frozen=True)
class LayerCount:
    """A layer with weights: its operations per sample, and the share of non-zero inputs (None if uncalled)."""

    name: str
    kind: str
    operations: Operations
    input_rate: float | None


@dataclass(frozen=True)
class NeuronCount:
    """A layer of neurons or activations: the share of its outputs that are non-zero (None for a readout's potential),
    membrane updates per sample, and neurons times steps, the largest possible number of updates."""

    name: str
    kind: str
    rate: float | None
    updates: float
    neuron_steps: float


@dataclass(frozen=True)
class Counts:
    """Complexity of a network on some data, by NeuroBench's definitions (above); prints as a table.

    Attributes:
        footprint: bytes of parameters and buffers.
        connection_sparsity, activation_sparsity: None without weights, or without neurons and activations.
        operations, membrane_updates: per sample.
        executed: operations that snnkit runs per sample: layers before the first neuron once, if the input is static.
        uncounted: modules with weights that are not counted, and layers and neurons that were never called.
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
        """Whether part of the work is the same in all steps and can be done once."""
        return self.executed != self.operations

    def energy(self, prices: str | Prices = "float32, 45 nm") -> Estimate:
        """Estimate the energy of the arithmetic, with its assumptions and counter-evidence.

        Args:
            prices: a name in ``PRICES``, or your own prices with their source.
        """
        price = PRICES[checks.choice("prices", prices, PRICES)] if isinstance(prices, str) else prices
        checks.instance("prices", price, Prices, "a name in PRICES or Prices")
        arithmetic = self.operations.macs * price.mac + self.operations.acs * price.ac
        neurons = self.membrane_updates * price.mac
        accesses = self.operations.macs + self.operations.acs + 2 * self.membrane_updates
        one_pass = self.operations.dense / self.steps
        return Estimate(
            prices=price,
            synapses=arithmetic,
            neurons=neurons,
            with_memory=arithmetic + neurons + accesses * price.access,
            once=self.executed.macs * price.mac + self.executed.acs * price.ac,
            dense_pass=one_pass * price.mac,
            dense_pass_with_memory=one_pass * (price.mac + price.access),
            rate=None if self.activation_sparsity is None else 1 - self.activation_sparsity,
        )

    def __str__(self) -> str:
        return "\n".join([*self._lines(), "", *text_table(_HEAD, self._rows(), left=2, always=len(_HEAD))])

    def _repr_html_(self) -> str:
        return html_table(_HEAD, self._rows(), self._lines())

    def _lines(self) -> list[str]:
        lines = [
            f"footprint {size_of(self.footprint)}, {self.parameters:,} parameters",
            f"connection sparsity {_percent(self.connection_sparsity)}, "
            f"activation sparsity {_percent(self.activation_sparsity)}",
            f"per sample of {self.steps} steps: {self.operations}, {self.membrane_updates:,.0f} membrane updates",
        ]
        if self.static:
            lines.append(f"the input is the same in every step; with the layers before the first neuron computed once: "
                         f"{self.executed}")  # fmt: skip
        if self.uncounted:
            lines.append(f"not counted: {', '.join(self.uncounted)}")
        lines.append(
            "Definitions: NeuroBench (Yik et al. 2025, doi:10.1038/s41467-025-56739-4). Run time depends on these "
            "numbers only where a kernel skips zeros; CPUs and GPUs run the dense operations."
        )
        return lines

    def _rows(self) -> list[tuple[str, ...]]:
        def row(name: str, kind: str, rate: float | None, *numbers: float | str) -> tuple[str, ...]:
            return name, kind, _percent(rate), *(n if isinstance(n, str) else f"{n:,.0f}" for n in numbers)

        layers = [(one, one.operations) for one in self.layers]
        rows = [row(one.name, one.kind, one.input_rate, ops.macs, ops.acs, ops.dense, "") for one, ops in layers]
        return rows + [row(one.name, one.kind, one.rate, "", "", "", one.updates) for one in self.neurons]


_HEAD = ("layer", "kind", "active", "MACs", "ACs", "dense", "updates")


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2%}"


# --- Counting


def count(net: nn.Module, x: Tensor | Iterable[Tensor]) -> Counts:
    """Run ``net`` in eval mode on ``x`` and count; ``net`` is left as it was.

    A static input (one step seen T times, as ``encode.repeat`` gives it) is counted in every step, as NeuroBench does,
    and once more as snnkit computes it, with the layers before the first neuron once.

    Args:
        net: called ``net(x)``, as ``snnkit.nn.Sequential`` is. Linear maps, convolutions, neurons, ReLU and Sigmoid are
            counted; ``Counts.uncounted`` names other modules that have weights.
        x: [T, B, ...] on the device of ``net``, floating point, T and B at least 1; or several with the same T.

    Raises:
        TypeError: ``net`` is no module, or ``x`` no floating-point tensor.
        ValueError: no step, no sample, several T, values that are missing or not finite, or a network in which
            nothing can be counted.
    """
    checks.instance("net", net, nn.Module, "a torch.nn.Module")
    for name, tensor in (*net.named_parameters(), *net.named_buffers()):
        if is_lazy(tensor) or tensor.is_meta:
            raise ValueError(f"net must have values, but {name} has none yet (a lazy layer, or the meta device)")
    parts = list(_sequences(x))
    if len(lengths := {part.shape[0] for part in parts}) > 1:
        raise ValueError(f"x must have one number of steps T, but it has {' and '.join(map(str, sorted(lengths)))}")
    samples = sum(part.shape[1] for part in parts)
    if not samples:
        raise ValueError("x must hold at least one sequence [T, B, ...], but it is empty")
    every_step = _tallied(net, [part.contiguous() for part in parts])
    once = _tallied(net, parts) if any(map(is_static, parts)) else every_step
    if not every_step:
        raise ValueError(
            f"net ({type(net).__name__}) has no layer that can be counted: no linear map or convolution, and no neuron"
        )
    layers = {name: tally for name, tally in every_step.items() if tally.weighted}
    neurons = {name: tally for name, tally in every_step.items() if not tally.weighted}
    spiking = [tally for tally in neurons.values() if tally.spiking]
    outputs = sum(tally.values for tally in spiking)
    kinds = {name: type(module).__name__ for name, module in net.named_modules()}
    weights: list[Any] = [module.weight for module in net.modules() if isinstance(module, _WEIGHTED)]
    connections = sum(weight.numel() for weight in weights)
    return Counts(
        samples=samples,
        steps=parts[0].shape[0],
        footprint=sum(t.numel() * t.element_size() for t in (*net.parameters(), *net.buffers())),
        parameters=sum(p.numel() for p in net.parameters()),
        connection_sparsity=sum(int((w == 0).sum()) for w in weights) / connections if connections else None,
        activation_sparsity=sum(tally.values - tally.active for tally in spiking) / outputs if outputs else None,
        operations=sum((tally.operations for tally in layers.values()), Operations()) / samples,
        executed=sum((once[name].operations for name in layers), Operations()) / samples,
        membrane_updates=sum(tally.updates for tally in neurons.values()) / samples,
        layers=tuple(
            LayerCount(name, kinds[name], tally.operations / samples, tally.rate) for name, tally in layers.items()
        ),
        neurons=tuple(
            NeuronCount(
                name, kinds[name], tally.rate if tally.spiking else None, tally.updates / samples, tally.steps / samples
            )
            for name, tally in neurons.items()
        ),
        uncounted=tuple(_uncounted(net, every_step)),
    )


def _sequences(x: Any) -> Iterator[Tensor]:
    for part in (x,) if isinstance(x, Tensor) or not isinstance(x, Iterable) else x:
        if not isinstance(part, Tensor) or not part.is_floating_point():
            what = f"of dtype {part.dtype}" if isinstance(part, Tensor) else f"a {type(part).__name__}"
            raise TypeError(f"x must be a floating-point tensor [T, B, ...] or several, but it is {what}")
        if part.dim() < 2 or 0 in part.shape:
            shape = list(part.shape)
            raise ValueError(f"x must be [T, B, ...] with at least one step and sample, but its shape is {shape}")
        if part.is_meta:
            raise ValueError("x must hold values, which are what is counted, but it is on the meta device")
        if not bool(torch.isfinite(part).all()):
            raise ValueError("x must be finite, but it holds NaN or infinity, which would count as active")
        yield part


def _uncounted(net: nn.Module, tallies: Mapping[str, _Tally]) -> Iterator[str]:
    for name, module in net.named_modules():
        kind = type(module).__name__
        if name in tallies:
            if not tallies[name].values:
                yield f"{name} ({kind}, never called)"
        elif next(module.parameters(recurse=False), None) is not None:
            yield f"{name or 'the network itself'} ({kind})"


@dataclass
class _Tally:
    """Sums over the calls of one layer: of its inputs if it has weights, else of its outputs."""

    weighted: bool
    spiking: bool = True  # weighted: every input was 0, 1 or -1; else: the output counts as an activation
    values: int = 0
    active: int = 0
    effective: int = 0
    dense: int = 0
    updates: int = 0
    steps: int = 0

    @property
    def rate(self) -> float | None:
        return self.active / self.values if self.values else None

    @property
    def operations(self) -> Operations:
        macs, acs = (0, self.effective) if self.spiking else (self.effective, 0)
        return Operations(macs, acs, self.dense)

    def add(self, values: Tensor) -> None:
        self.values += values.numel()
        self.active += int(torch.count_nonzero(values.detach()))

    def before_layer(self, layer: Any, args: tuple, kwargs: dict[str, Any]) -> None:
        x = (args[0] if args else kwargs["input"]).detach()
        fires, connected = (x != 0).float(), (layer.weight.detach() != 0).float()
        if x.dim() == (1 if isinstance(layer, nn.Linear) else connected.dim() - 1):
            fires = fires.unsqueeze(0)  # a sample without a batch dimension
        with torch.autocast(x.device.type, enabled=False):  # half precision can't count
            self.effective += _pairs(layer, fires, connected)
            self.dense += _pairs(layer, torch.ones_like(fires[:1]), torch.ones_like(connected)) * len(fires)
        self.spiking = self.spiking and bool(((x == 0) | (x.abs() == 1)).all())
        self.add(x)

    def after_activation(self, layer: nn.Module, args: tuple, kwargs: dict[str, Any], out: Tensor) -> None:
        self.add(out)

    def after_neuron(self, neuron: Neuron, args: tuple, kwargs: dict[str, Any], result: tuple[Tensor, Any]) -> None:
        """Count the outputs, and the potentials that differ from those of the step before, bit by bit.

        The membrane is the first part of the neuron's state. Starting from rest, all of them count as changed.
        """
        x = args[0] if args else kwargs["x"]
        state = args[1] if len(args) > 1 else kwargs.get("state")
        if (repeat := kwargs.get("repeat")) is not None:
            x = x.expand(repeat, *x.shape)
        self.add(result[0])
        dtype, from_rest = state_dtype(x), state is None
        if state is None:
            state = neuron.initial_state(torch.zeros_like(x[0], dtype=dtype))
        if not state:  # a neuron without memory
            return
        step = in_dtype(neuron, dtype)
        for i, x_t in enumerate(x.unbind(0)):
            before = state[0]
            _, state = step(x_t.to(dtype), state)
            same = not (from_rest and i == 0)
            self.updates += int(torch.count_nonzero(state[0] != before)) if same else state[0].numel()
        self.steps += x.shape[0] * state[0].numel()


def _tallied(net: nn.Module, parts: Iterable[Tensor]) -> dict[str, _Tally]:
    """Tallies of all layers over calls of ``net`` in eval mode, without gradients; ``net`` is left as it was."""
    tallies: dict[str, _Tally] = {}
    handles = []
    modes = {module: module.training for module in net.modules()}
    device = next((part.device for part in parts), torch.device("cpu"))
    with untouched(net, device), torch.no_grad():
        try:
            for name, module in net.eval().named_modules():
                if isinstance(module, _WEIGHTED):
                    tally = tallies[name] = _Tally(weighted=True)
                    handles.append(module.register_forward_pre_hook(tally.before_layer, with_kwargs=True))
                elif isinstance(module, (Neuron, *_ACTIVATIONS)):
                    neuron = isinstance(module, Neuron)
                    tally = tallies[name] = _Tally(weighted=False, spiking=not neuron or module.spiking)
                    hook = tally.after_neuron if neuron else tally.after_activation
                    handles.append(module.register_forward_hook(hook, with_kwargs=True))
            for part in parts:
                net(part)
        finally:
            for handle in handles:
                handle.remove()
            for module, training in modes.items():
                module.training = training
    return tallies


def _pairs(layer: Any, x: Tensor, weight: Tensor) -> int:
    """The sum of the layer's output for zeros and ones, without its bias: exact below 2^53."""
    if isinstance(layer, nn.Linear):
        each = x.reshape(-1, x.shape[-1]).sum(0, dtype=torch.float64)
        return int(each @ weight.sum(0, dtype=torch.float64))
    if isinstance(layer, tuple(_TRANSPOSED)):
        convolve = next(function for kind, function in _TRANSPOSED.items() if isinstance(layer, kind))
        out = convolve(x, weight, None, layer.stride, layer.padding, layer.output_padding, layer.groups, layer.dilation)
    else:
        out = layer._conv_forward(x, weight, None)
    return int(out.sum(dtype=torch.float64))


# --- Energy


@dataclass(frozen=True)
class Prices:
    """Picojoules of an addition, a multiplication, and an access to 32 bits in an 8 kB cache, with their source.

    ``mark`` is one of ``chips.MARKS``.
    """

    name: str
    add: float
    multiply: float
    access: float
    source: str
    mark: str = "secondary"

    def __post_init__(self) -> None:
        for price in ("add", "multiply", "access"):
            checks.number(price, getattr(self, price), at_least=0)
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


_HOROWITZ = "M. Horowitz, ISSCC 2014 (doi:10.1109/ISSCC.2014.6757323), 45 nm at 0.9 V, as quoted in PMC8934428, table 3"
PRICES: Mapping[str, Prices] = MappingProxyType(
    {
        entry.name: entry
        for entry in (
            Prices("float32, 45 nm", add=0.9, multiply=3.7, access=5.0, source=_HOROWITZ),
            Prices("int32, 45 nm", add=0.1, multiply=3.1, access=5.0, source=_HOROWITZ),
        )
    }
)


@dataclass(frozen=True)
class Evidence:
    """A published finding without which an estimate must not be read: a sentence, its authors, and where it is."""

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
        "Pruned SNNs took 1.61 times more energy than their non-spiking counterparts.",
        "Yu et al., SNN against ANN",
        "https://doi.org/10.1145/3822176",
    ),
    Evidence(
        "The energy of a neuromorphic chip is set by its busiest core and by memory, computing or traffic, whichever "
        "is the bottleneck; totals of operations over a network are misleading.",
        "Yik et al., floorline model",
        "https://arxiv.org/abs/2511.21549",
    ),
)


@dataclass(frozen=True)
class Estimate:
    """Energy of the arithmetic of one sample in picojoules; printed, the number comes with its conditions.

    Attributes:
        synapses: effective MACs and ACs.
        neurons: membrane updates, each taken for one MAC.
        with_memory: both, with one access to a small cache for each weight and two for each membrane.
        once: ``synapses`` with the static part of the input computed once; equal to it for other inputs.
        dense_pass, dense_pass_with_memory: one pass of the same layers without spikes, all MACs: the ANN that papers
            compare with; and with an access for each weight.
        rate: share of the outputs of neurons that are non-zero; None without such layers.
    """

    prices: Prices
    synapses: float
    neurons: float
    with_memory: float
    once: float
    dense_pass: float
    dense_pass_with_memory: float
    rate: float | None
    assumptions: tuple[str, ...] = field(init=False)
    against: tuple[Evidence, ...] = field(default=AGAINST, init=False)

    def __post_init__(self) -> None:
        p = self.prices
        sentences = (
            f"Predicted, not measured: counts times prices, on no existing chip. Prices ({p.name}, {p.mark}): addition "
            f"{p.add:g} pJ, multiplication {p.multiply:g} pJ, so a MAC {p.mac:g} pJ and an AC {p.ac:g} pJ; cache "
            f"access {p.access:g} pJ. Source: {p.source}.",
            "Some papers take 3.7 pJ, the multiplication alone, for a MAC: compare only figures of one convention.",
            "Every operation with a zero in it is skipped for free, which neither CPUs nor GPUs do.",
            "A membrane update is taken for one MAC. Comparing, resetting, control, clock and leakage cost nothing.",
            "Arithmetic alone moves no data. The rows with memory add one access to an 8 kB cache for each weight used "
            "and two for each membrane, as if all data were always in that cache.",
        )
        object.__setattr__(self, "assumptions", sentences)

    def __str__(self) -> str:
        rows = self._rows()
        width = max(len(what) for what, _ in rows)
        return "\n".join([*(f"{what.ljust(width)}  {value.rjust(10)}" for what, value in rows), "", *self._notes()])

    def _repr_html_(self) -> str:
        return html_table(("energy of a sample (predicted)", ""), self._rows(), self._notes())

    def _rows(self) -> list[tuple[str, str]]:
        rows = [
            ("synaptic operations, arithmetic alone", self.synapses),
            ("  with the static input's layer computed once", self.once),
            ("membrane updates, arithmetic alone", self.neurons),
            ("both, with one cache access per operand", self.with_memory),
            ("the same layers as an ANN, one pass, arithmetic alone", self.dense_pass),
            ("the same layers as an ANN, one pass, with cache accesses", self.dense_pass_with_memory),
        ]
        if self.once == self.synapses:
            del rows[1]
        return [(what, _joules(value)) for what, value in rows]

    def _notes(self) -> list[str]:
        notes = ["Assumptions:", *(f"- {sentence}" for sentence in self.assumptions), "Counter-evidence:"]
        notes += [f"- {e.finding} ({e.source}, {e.url})" for e in self.against]
        if self.rate is not None:
            notes.append(f"- In this network {self.rate:.2%} of the outputs of neurons are non-zero.")
        return notes


def _joules(picojoules: float) -> str:
    for unit, scale in (("mJ", 1e9), ("µJ", 1e6), ("nJ", 1e3)):
        if picojoules >= scale:
            return f"{picojoules / scale:.3g} {unit}"
    return f"{picojoules:.3g} pJ"
