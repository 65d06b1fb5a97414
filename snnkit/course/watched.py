"""A training step under observation: what it calls, in which order, and what becomes of the weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from snnkit import loss
from snnkit.neuron import Leaky
from snnkit.nn import Sequential

from .exercise import Violation


class Watched:
    """A small network, optimizer, loss and batch (always the same), and what a training step does with them.

    Attributes:
        events: "forward", "zero_grad", "backward" and "step", in the order in which they happened.
    """

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(4)
        self.net = Sequential(nn.Linear(6, 5), Leaky(0.9), nn.Linear(5, 3), Leaky(0.9))
        with torch.no_grad():
            for p in self.net.parameters():
                p.copy_(torch.rand(p.shape, generator=generator) - 0.3)
        self.x = torch.rand(5, 8, 6, generator=generator)
        self.y = torch.arange(8) % 3
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.2)
        self.events: list[str] = []
        self.net.register_forward_hook(lambda *_: self.events.append("forward"))
        for owner, name in ((self.optimizer, "step"), (self.optimizer, "zero_grad"), (self.net, "zero_grad")):
            self._note(owner, name)

    def _note(self, owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def noted(*args: Any, **kwargs: Any) -> Any:
            self.events.append(name)
            return original(*args, **kwargs)

        setattr(owner, name, noted)

    def loss_fn(self, spikes: Tensor, labels: Tensor) -> Tensor:
        if isinstance(spikes, tuple):
            told = "`net(x)` gives spikes and state; `loss_fn` takes the spikes alone."
            raise Violation(told, yours="loss_fn was given both", expected="loss_fn(out, y)", hint=0)
        value = loss.count_cross_entropy(spikes, labels)
        if value.requires_grad:
            value.register_hook(lambda _: self.events.append("backward"))
        return value

    def run(self, step: Any) -> Any:
        return step(self.net, self.optimizer, self.loss_fn, self.x, self.y)

    def weights(self) -> list[Tensor]:
        return [p.detach().clone() for p in self.net.parameters()]

    @property
    def order(self) -> str:
        return " → ".join(self.events) or "nothing"
