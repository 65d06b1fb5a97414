"""From a network and data to its counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from ...nn import is_static
from .operations import WEIGHTED
from .report import Counts, LayerCount, NeuronCount
from .watching import Seen, watched


def count(net: nn.Module, x: Tensor | Iterable[Tensor]) -> Counts:
    """Run ``net`` in eval mode on ``x`` and count; afterwards the network is as it was.

    A static input (one step seen T times, as ``encode.repeat`` gives it) is counted in every step, as NeuroBench does,
    and once more as the kit computes it: what comes before the first neuron once. What a network of your own computes
    once is counted once.

    Args:
        net: called ``net(x)``, as ``snnkit.nn.Sequential`` is. Linear maps, convolutions, neurons, ReLU and Sigmoid are
            counted; ``Counts.uncounted`` names other modules that have weights.
        x: [T, B, ...] on the device of ``net``, floating point, T and B at least 1; or several with the same T.

    Raises:
        TypeError: ``net`` is no module, or ``x`` no floating-point tensor.
        ValueError: no step, no sample, several T, values that are not finite or not there, or a network in which
            nothing can be counted.
    """
    if not isinstance(net, nn.Module):
        raise TypeError(f"net must be a torch.nn.Module, but it is a {type(net).__name__}")
    for name, tensor in (*net.named_parameters(), *net.named_buffers()):
        if is_lazy(tensor) or tensor.is_meta:
            raise ValueError(f"net must have values, but {name} has none yet (a lazy layer, or the meta device)")
    every_step, once, samples, steps = Seen(), Seen(), 0, 0
    for part in _sequences(x):
        if samples and part.shape[0] != steps:
            raise ValueError(f"x must have one number of steps T, but it has {steps} and {part.shape[0]}")
        steps, samples = part.shape[0], samples + part.shape[1]
        with watched(net, part.device) as seen:
            net(part.contiguous())
        every_step.add(seen)
        if is_static(part):
            with watched(net, part.device) as seen:
                net(part)
        once.add(seen)
    if not samples:
        raise ValueError("x must hold at least one sequence [T, B, ...], but it is empty")
    if not every_step.layers and not every_step.neurons:
        raise ValueError(
            f"net ({type(net).__name__}) has no layer that can be counted: no linear map or convolution, and no neuron"
        )
    kinds = {name: type(module).__name__ for name, module in net.named_modules()}
    layers = tuple(
        LayerCount(name, kinds[name], tally.operations / samples, tally.active / tally.inputs if tally.inputs else None)
        for name, tally in every_step.layers.items()
    )
    neurons = tuple(
        NeuronCount(
            name, kinds[name], seen.active / seen.outputs if seen.spiking and seen.outputs else None,
            seen.updates / samples, seen.steps / samples,
        )
        for name, seen in every_step.neurons.items()
    )  # fmt: skip
    return Counts(
        samples=samples,
        steps=steps,
        footprint=sum(t.numel() * t.element_size() for t in (*net.parameters(), *net.buffers())),
        parameters=sum(p.numel() for p in net.parameters()),
        connection_sparsity=connection_sparsity(net),
        activation_sparsity=_activation_sparsity(every_step),
        operations=every_step.operations / samples,
        executed=once.operations / samples,
        membrane_updates=sum(neuron.updates for neuron in neurons),
        layers=layers,
        neurons=neurons,
        uncounted=tuple(_uncounted(net, every_step)),
    )


def connection_sparsity(net: nn.Module) -> float | None:
    """Share of the weights of linear maps and convolutions that are zero; None if there are none."""
    weights: list[Any] = [module.weight for module in net.modules() if isinstance(module, WEIGHTED)]
    total = sum(weight.numel() for weight in weights)
    return sum(int((weight == 0).sum()) for weight in weights) / total if total else None


def _activation_sparsity(seen: Seen) -> float | None:
    spiking = [neuron for neuron in seen.neurons.values() if neuron.spiking]
    outputs = sum(neuron.outputs for neuron in spiking)
    return (outputs - sum(neuron.active for neuron in spiking)) / outputs if outputs else None


def _uncounted(net: nn.Module, seen: Seen) -> Iterator[str]:
    called = {name: part.inputs for name, part in seen.layers.items()}
    called |= {name: part.outputs for name, part in seen.neurons.items()}
    for name, module in net.named_modules():
        kind = type(module).__name__
        if name in called:
            if not called[name]:
                yield f"{name} ({kind}, never called)"
        elif next(module.parameters(recurse=False), None) is not None:
            yield f"{name or 'the network itself'} ({kind})"


def _sequences(x: Any) -> Iterator[Tensor]:
    for part in (x,) if isinstance(x, Tensor) or not isinstance(x, Iterable) else x:
        if not isinstance(part, Tensor) or not part.is_floating_point():
            found = f"of dtype {part.dtype}" if isinstance(part, Tensor) else f"a {type(part).__name__}"
            raise TypeError(f"x must be a floating-point tensor [T, B, ...] or several, but it is {found}")
        if part.dim() < 2 or 0 in part.shape:
            raise ValueError(f"x must be [T, B, ...] with at least one step and sample, but it is {list(part.shape)}")
        if part.is_meta:
            raise ValueError("x must hold values, as it is them that are counted, but it is on the meta device")
        if not bool(torch.isfinite(part).all()):
            raise ValueError("x must be finite, but it holds NaN or infinity, which would count as active")
        yield part
