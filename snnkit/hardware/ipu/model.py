"""A network of snnkit in the form that an IPU takes: plain operations, batch first, one call from rest to the end.

PopTorch 3.4 asks four things of a model that our networks don't give as they are: no ``autograd.Function`` for the
spikes (``surrogates``), no engine of compiled code, no state handed out of the graph, and the batch in the first
dimension of everything that comes in or goes out, as that is the one it splits into micro-batches.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from .surrogates import Detached

__all__ = ["IPUNet", "convert"]


class IPUNet(nn.Module):
    """A network over time as one static graph: each call starts at rest, and the loop over time is written out.

    Made by ``convert``. The weights are those of the network that it was made of, not copies: what is trained here is
    trained there.

    Args:
        layers: as ``convert`` makes them.
        steps: how often a picture is shown; None: sequences come in.
    """

    def __init__(self, layers: nn.Module, steps: int | None) -> None:
        super().__init__()
        self.layers = layers
        self.steps = steps

    def forward(self, x: Tensor) -> Tensor:
        """x [B, ...], one picture per sample (or [B, T, ...] without ``steps``), to out [B, T, ...]."""
        if self.steps is None:
            sequence = Steps(list(x.unbind(1)))
        else:
            sequence = Steps([x] * self.steps)
        return self.layers(sequence).stacked(1)

    def extra_repr(self) -> str:
        return f"steps={self.steps}"


class Steps:
    """T steps [B, ...] in a list. A picture that is shown T times is the same tensor T times, and is computed once.

    Strides, which say so elsewhere in this package, are no part of a graph for an IPU.
    """

    def __init__(self, steps: list[Tensor]) -> None:
        self.steps = steps

    @property
    def static(self) -> bool:
        """Whether every step is one and the same tensor."""
        return all(step is self.steps[0] for step in self.steps)

    def once(self, layer: nn.Module) -> Steps:
        """``layer`` of the one step of a static sequence, as often."""
        return Steps([layer(self.steps[0])] * len(self.steps))

    def batched(self, layer: nn.Module) -> Steps:
        """``layer`` of all steps at once, time folded into the batch."""
        folded = layer(self.stacked(0).flatten(0, 1))
        return Steps(list(folded.unflatten(0, (len(self.steps), -1)).unbind(0)))

    def stacked(self, dim: int) -> Tensor:
        """One tensor with time as dimension ``dim``."""
        return torch.stack(self.steps, dim)


class InOrder(nn.Module):
    """Layers one after the other, each from one ``Steps`` to the next."""

    def __init__(self, layers: dict[str, nn.Module]) -> None:
        super().__init__()
        for name, layer in layers.items():
            self.add_module(name, layer)
        self.order = tuple(layers)

    def forward(self, x: Steps) -> Steps:
        for name in self.order:
            x = self._modules[name](x)  # type: ignore[misc]
        return x


class Stateless(nn.Module):
    """A layer without state: once where the input is static, else all steps at once.

    Args:
        layer: on [B, ...].
        always_once: a static input is computed once even by a layer that differs from step to step (``nn.Once``).
    """

    def __init__(self, layer: nn.Module, always_once: bool) -> None:
        super().__init__()
        self.layer = layer
        self.always_once = always_once

    def forward(self, x: Steps) -> Steps:
        once = x.static and (self.always_once or not self._differs())
        return x.once(self.layer) if once else x.batched(self.layer)

    def _differs(self) -> bool:
        from ...nn import differs_from_step_to_step

        return differs_from_step_to_step(self.layer)


class Unrolled(nn.Module):
    """A neuron's step written out T times from rest; with ``weight``, each step hears the last one's spikes.

    Args:
        neuron: with its surrogate in detach form.
        weight: of a recurrent layer, or None.
    """

    def __init__(self, neuron: nn.Module, weight: nn.Module | None = None) -> None:
        super().__init__()
        self.neuron = neuron
        self.weight = weight

    def forward(self, x: Steps) -> Steps:
        from ...engine.check import state_dtype
        from ...engine.eager import in_dtype

        first = x.steps[0]
        dtype = state_dtype(first)
        step = in_dtype(self.neuron, dtype)
        state: Any = self.neuron.initial_state(first.to(dtype))  # type: ignore[operator]
        out = first.new_zeros(first.shape)
        outs = []
        for current in x.steps:
            if self.weight is not None:
                current = current + self.weight(out)
            out, state = step(current.to(dtype), state)
            out = out.to(first.dtype)
            outs.append(out)
        return Steps(outs)


def convert(net: nn.Module, steps: int | None = None) -> IPUNet:
    """``net`` in the form that an IPU takes, with the same weights (shared, not copied).

    Spikes are equal to those of ``net`` to the bit, gradients up to the order of sums. ``net`` stays as it is.

    Args:
        net: a ``snnkit.nn.Sequential`` (also nested) of neurons, ``Recurrent`` layers and layers without state, or a
            single neuron.
        steps: x [B, ...] is one picture per sample, shown so many times; None: x is a sequence [B, T, ...].

    Returns:
        A module from x to out [B, T, ...], batch first.

    Raises:
        TypeError: no such network, a layer that keeps a state of its own kind, a surrogate that is no ``Surrogate``, or
            steps that are no whole number; the message names it.
        ValueError: steps below 1.
    """
    if not isinstance(net, nn.Module):
        raise TypeError(f"net must be a torch.nn.Module, but it is a {type(net).__name__}")
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int)):
        raise TypeError(f"steps must be a whole number of at least 1, or None, but it is {steps!r}")
    if steps is not None and steps < 1:
        raise ValueError(f"steps must be at least 1, but it is {steps}")
    if isinstance(net, IPUNet):
        raise TypeError("net is converted already: give convert the network that it was made of")
    converted = IPUNet(_converted(net, "net"), steps)
    for part in converted.modules():
        if isinstance(part, (IPUNet, InOrder, Stateless, Unrolled)):
            part.training = net.training  # train() would change the layers, which are the network's own
    return converted


def _converted(layer: nn.Module, name: str) -> nn.Module:
    """``layer`` from a ``Steps`` to a ``Steps``; ``name`` is what to call it in an error."""
    from ...neuron import Neuron, Recurrent
    from ...nn import Once, Sequential, TimeBatched, is_stateful

    if isinstance(layer, Neuron):
        return Unrolled(_in_plain_operations(layer, name))
    if isinstance(layer, Recurrent):
        return Unrolled(_in_plain_operations(layer.neuron, f"{name}.neuron"), layer.weight)
    if isinstance(layer, Sequential) and type(layer).forward is Sequential.forward:
        return InOrder({key: _converted(part, f"{name}.{key}") for key, part in layer._modules.items() if part})
    if isinstance(layer, TimeBatched):
        return Stateless(layer.module, isinstance(layer, Once))
    if is_stateful(layer):
        raise TypeError(
            f"{name} can't be converted for an IPU: {type(layer).__name__} keeps a state of its own kind; known are "
            "the neurons of snnkit.neuron, Recurrent and Sequential"
        )
    inner = next((path for path, part in layer.named_modules() if isinstance(part, (Neuron, Recurrent))), None)
    if inner is not None:
        raise TypeError(
            f"{name} can't be converted for an IPU: {type(layer).__name__} holds neurons ({inner}) and is no "
            "snnkit.nn.Sequential, whose order of layers is known; put its layers into one"
        )
    return Stateless(layer, always_once=False)


def _in_plain_operations(neuron: Any, name: str) -> nn.Module:
    """The same tensors in a neuron of its own, whose surrogate needs no ``autograd.Function``."""
    copy = neuron.__new__(type(neuron))
    copy.__dict__.update(vars(neuron))
    for store in ("_parameters", "_buffers", "_modules"):
        copy.__dict__[store] = dict(vars(neuron)[store])
    surrogate = neuron.surrogate
    if surrogate is not None and not isinstance(surrogate, Detached):
        try:
            copy.surrogate = Detached(surrogate)
        except TypeError:
            raise TypeError(
                f"{name} can't be converted for an IPU: its surrogate must be a snnkit.surrogate.Surrogate, whose "
                f"derivative is known, but it is {surrogate!r}"
            ) from None
    return copy
