"""The LIF neuron of other libraries, to be timed beside ours of the same equation.

Each peer is a function ``x [T, B, N] -> spikes [T, B, N]`` in that library's recommended multi-step form. A peer that
is not installed is left out; `make peers` brings them. Nothing of them is used by the kit itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

Forward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Peer:
    """A peer's forward pass, and which of our equations (``contestants.EQUATIONS``) it computes."""

    name: str
    equation: str
    forward: Forward


def peers(device: torch.device) -> list[Peer]:
    """Those of SpikingJelly, snnTorch and Norse that are installed, on ``device``."""
    found = []
    for make in (_spikingjelly, _snntorch, _norse):
        try:
            peer = make(device)
        except ImportError:
            continue
        found.append(Peer(peer.name, peer.equation, as_users_run_it(peer.forward)))
    return found


def as_users_run_it(forward: Forward) -> Forward:
    """With low-precision input a layer stands inside ``torch.autocast``: that is how mixed precision is trained."""

    def run(x: Tensor) -> Tensor:
        if x.dtype not in (torch.bfloat16, torch.float16):
            return forward(x)
        with torch.autocast(x.device.type, dtype=x.dtype):
            return forward(x)

    return run


def _spikingjelly(device: torch.device) -> Peer:
    from spikingjelly.activation_based import functional, neuron, surrogate  # pyright: ignore[reportMissingImports]

    node = neuron.LIFNode(tau=2.0, surrogate_function=surrogate.ATan(), step_mode="m").to(device)

    def forward(x: Tensor) -> Tensor:
        try:
            return node(x)
        finally:
            functional.reset_net(node)  # or its membrane would hold this pass's graph while others have their turn

    return Peer("SpikingJelly", "LIF", forward)


def _snntorch(device: torch.device) -> Peer:
    import snntorch  # pyright: ignore[reportMissingImports]

    node = snntorch.Leaky(beta=0.9).to(device)

    def forward(x: Tensor) -> Tensor:
        mem = torch.zeros_like(x[0])
        spikes = []
        for x_t in x.unbind(0):
            spike, mem = node(x_t, mem)
            spikes.append(spike)
        return torch.stack(spikes)

    return Peer("snnTorch", "Leaky", forward)


def _norse(device: torch.device) -> Peer:
    import norse.torch  # pyright: ignore[reportMissingImports]

    node = norse.torch.LIF().to(device)

    def forward(x: Tensor) -> Tensor:
        return node(x)[0]

    return Peer("Norse", "CubaLIF", forward)
