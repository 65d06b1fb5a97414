"""Between neurons there are synapses: weights, sums and delays. What bends a signal is a neuron, and has to spike."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.neuron import Neuron

from .counting import RuleError

TOLERANCE = 1e-3  # of the largest value: far above rounding, far below what a ReLU does to random numbers

Call = tuple[nn.Module, tuple, dict[str, Any]]


@contextlib.contextmanager
def first_calls(net: nn.Module) -> Iterator[dict[str, Call]]:
    """While this is open, the first call of each innermost module that is no neuron is noted, by name."""
    calls: dict[str, Call] = {}
    handles = []
    for name, module in synapses(net):

        def note(module: nn.Module, args: tuple, kwargs: dict[str, Any], name: str = name) -> None:
            calls.setdefault(name, (module, args, kwargs))

        handles.append(module.register_forward_pre_hook(note, with_kwargs=True))
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def synapses(net: nn.Module, name: str = "") -> Iterator[tuple[str, nn.Module]]:
    """The innermost modules that are neither neurons nor parts of one."""
    if isinstance(net, Neuron):
        return
    children = [(key, child) for key, child in net.named_children()]
    if not children and name:
        yield name, net
    for key, child in children:
        yield from synapses(child, f"{name}.{key}" if name else key)


def check_linear(name: str, call: Call) -> None:
    """RuleError unless what a module does to its input is linear up to a constant, f(u) + f(v) = f(u + v) + f(0)."""
    module, args, kwargs = call
    if not args or not isinstance(args[0], Tensor) or not args[0].is_floating_point():
        return
    generator = torch.Generator().manual_seed(0)
    u, v = (torch.randn(args[0].shape, generator=generator).to(args[0]) for _ in range(2))

    def f(x: Tensor) -> Tensor:
        try:
            out = module(x, *args[1:], **kwargs)
        except Exception as error:
            raise RuleError(
                f"{name} ({type(module).__name__}) must be a synapse, which takes any numbers, but of random ones it "
                f"raised {type(error).__name__}: {error}"
            ) from error
        return out[0] if isinstance(out, tuple) else out

    apart, together = f(u) + f(v), f(u + v) + f(torch.zeros_like(u))
    if not bool(((apart - together).abs() <= TOLERANCE * (1 + apart.abs().max())).all()):
        raise RuleError(
            f"{name} ({type(module).__name__}) must be a synapse: weights, sums, delays. But it is not linear, and so "
            "computes without spiking; only neurons may do that"
        )
