"""The LIF neuron of other libraries, made equal to ours, for benchmarks side by side.

Each peer is a function ``x [T, N] -> spikes [T, N]`` in that library's recommended multi-step form. A peer that is not
installed is left out. Nothing of them is used by the kit itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from ..neuron import LIF, CubaLIF, Leaky, Neuron
from ..surrogate import ATan, SuperSpike

Forward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Peer:
    """A peer's forward pass, and the neuron of ours that computes the same."""

    name: str
    forward: Forward
    ours: Callable[[str], Neuron]


def peers() -> list[Peer]:
    """Those of SpikingJelly, snnTorch and Norse that are installed."""
    found = []
    for make in (_spikingjelly, _snntorch, _norse):
        try:
            found.append(make())
        except ImportError:
            continue
    return found


def _spikingjelly() -> Peer:
    from spikingjelly.activation_based import functional, neuron, surrogate  # pyright: ignore[reportMissingImports]

    node = neuron.LIFNode(tau=2.0, surrogate_function=surrogate.ATan(), step_mode="m")

    def forward(x: Tensor) -> Tensor:
        functional.reset_net(node)
        return node(x)

    return Peer("SpikingJelly", forward, lambda engine: LIF(2.0, surrogate=ATan(), engine=engine))


def _snntorch() -> Peer:
    import snntorch  # pyright: ignore[reportMissingImports]
    import torch

    node = snntorch.Leaky(beta=0.9)

    def forward(x: Tensor) -> Tensor:
        mem = torch.zeros_like(x[0])
        spikes = []
        for x_t in x.unbind(0):
            spike, mem = node(x_t, mem)
            spikes.append(spike)
        return torch.stack(spikes)

    return Peer("snnTorch", forward, lambda engine: Leaky(0.9, surrogate=ATan(), engine=engine))


def _norse() -> Peer:
    import norse.torch  # pyright: ignore[reportMissingImports]

    node = norse.torch.LIF()

    def forward(x: Tensor) -> Tensor:
        return node(x)[0]

    return Peer("Norse", forward, lambda engine: CubaLIF(surrogate=SuperSpike(100.0), engine=engine))
