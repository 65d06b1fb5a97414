"""The network of snnTorch's IPU tutorial, and who trains it: our engines, and snnTorch as its tutorial does.

The tutorial shows one image for all steps, so the first layer gives the same currents 25 times. snnTorch computes them
in every step, our ``Sequential`` once. What that alone is worth can be seen, too: ours takes part with a first layer in
every step, and snnTorch with one that runs once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import partial

import torch
from torch import Tensor, nn

from ..device.precision import Precision
from . import contestants as layers
from . import training_peers
from .training_contestants import OURS, Contestant, Ours, Trainer
from .training_nets import Workload, dense
from .training_peers import SNNTORCH, PeerTrainer, snntorch_net

HIDDEN, BATCH, STEPS = 1000, 128, 25  # of the tutorial

# Everybody's engines by device, beside the eager loop.
ENGINES = {"cpu": ("block", "cpp"), "cuda": ("block", "triton")}
EAGER, GRAPH, EVERY_STEP, ONCE = "eager", "CUDA graph", "auto, layer 1 every step", "snnTorch, layer 1 once"


def adam(parameters: list[nn.Parameter], fused: bool) -> torch.optim.Adam:
    """The tutorial's optimizer. ``fused``: one kernel for all parameters, and steps counted on the device."""
    return torch.optim.Adam(parameters, lr=1e-3, fused=fused or None, capturable=fused)


def tutorial(hidden: int = HIDDEN, batch: int = BATCH, steps: int = STEPS) -> Workload:
    """784-hidden-10 of ``Leaky(0.9)`` neurons, cross-entropy of the spike counts, Adam.

    The tutorial hands the membrane to the loss where its text says spikes; here it gets spikes.
    """
    return replace(dense("Leaky", hidden, batch), steps=steps, optimizer=adam)


@dataclass(frozen=True)
class EveryStep(Workload):
    """The same, and nobody can tell that the input is static: all steps lie in memory."""

    def encode(self, x: Tensor) -> Tensor:
        return super().encode(x).contiguous()

    @classmethod
    def of(cls, workload: Workload) -> EveryStep:
        return cls(**{field.name: getattr(workload, field.name) for field in fields(workload)})


def contestants(device: torch.device, workload: Workload, with_peers: bool) -> Iterator[Contestant]:
    """Everybody who can take part on ``device``; ``left_out`` tells of the others."""
    yield Contestant(EAGER, OURS, Ours("eager"))
    missing = left_out(device)
    for engine in ENGINES[device.type]:
        if engine not in missing:
            yield Contestant(engine, OURS, Ours(engine))
    yield Contestant("auto", OURS, Ours("auto"), default=True)
    if device.type == "cuda":
        yield Contestant(GRAPH, OURS, Ours("auto", graphed=True))
        yield Contestant(f"{GRAPH}, layer 1 every step", OURS, _OursEveryStep(graphed=True))
    yield Contestant(EVERY_STEP, OURS, _OursEveryStep())
    if with_peers:
        for peer in training_peers.peers(workload, device):
            if peer.library == SNNTORCH and not peer.compiles:
                yield peer
                yield Contestant(ONCE, SNNTORCH, PeerTrainer(partial(snntorch_net, once=True)))


def left_out(device: torch.device) -> dict[str, str]:
    """Engines for this kind of device that do not run here, and why."""
    return layers.contestants(device, ENGINES[device.type], with_peers=False)[1]


@dataclass(frozen=True)
class _OursEveryStep:
    """Ours, with the first layer in every step."""

    graphed: bool = False

    def __call__(self, workload: Workload, precision: Precision) -> Trainer:
        return Ours("auto", graphed=self.graphed)(EveryStep.of(workload), precision)
