"""A training run that is small enough to read at one go, for the exercise on checkpoints."""

from __future__ import annotations

import copy
from typing import Any

import torch

from snnkit import neuron, nn

PARTS = ("model", "optimizer", "scheduler", "noise", "epoch", "batch")


class TinyRun:
    """Six neurons learn two classes: Adam, a cosine, spikes drawn at random, three shuffled batches in an epoch.

    Attributes:
        model, optimizer, scheduler: of PyTorch; each has ``state_dict()``.
        noise: the generator that spikes are drawn from; it has ``get_state()``.
        epoch, batch: what comes next, from 0 on.
        losses: of the updates so far; a log, of which nothing depends.
    """

    BATCHES = 3

    def __init__(self) -> None:
        start = torch.Generator().manual_seed(0)
        self.pixels = torch.rand(12, 4, generator=start)
        self.labels = (self.pixels[:, 0] > self.pixels[:, 1]).long()
        first, second = torch.nn.Linear(4, 6), torch.nn.Linear(6, 2)
        for linear in (first, second):
            torch.nn.init.normal_(linear.weight, generator=start)
            torch.nn.init.constant_(linear.bias, 0.1)
        self.model = nn.Sequential(first, neuron.Leaky(0.9, engine="eager"), second, neuron.LI(engine="eager"))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.05)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 9)
        self.noise = torch.Generator().manual_seed(1)
        self.epoch, self.batch = 0, 0
        self.losses: list[float] = []

    def update(self) -> None:
        """Learn from the next batch."""
        shuffled = torch.randperm(12, generator=torch.Generator().manual_seed(self.epoch))
        rows = shuffled.chunk(self.BATCHES)[self.batch]
        spikes = (torch.rand(8, 4, 4, generator=self.noise) < self.pixels[rows]).float()  # [T, B, pixels]
        out, _ = self.model(spikes)
        loss = torch.nn.functional.cross_entropy(out.mean(0), self.labels[rows])
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.scheduler.step()
        self.losses.append(loss.item())
        self.batch += 1
        if self.batch == self.BATCHES:
            self.epoch, self.batch = self.epoch + 1, 0

    def restore(self, saved: dict[str, Any]) -> None:
        """Take over each part that was saved; the others stay as they are in a new run."""
        for name, value in saved.items():
            value = copy.deepcopy(value)  # an optimizer would go on in the very tensors that it is given
            part = getattr(self, name)
            if isinstance(part, torch.Generator):
                part.set_state(value)
            elif hasattr(part, "load_state_dict"):
                part.load_state_dict(value)
            else:
                setattr(self, name, value)

    def told(self, name: str) -> Any:
        """What can be compared of a part, and shown: a number that depends on all of its state."""
        part = getattr(self, name)
        if name == "model":
            return f"weights that add up to {sum(p.sum().item() for p in part.parameters()):.6f}"
        if name == "optimizer":
            state = part.state_dict()["state"]
            sums = sum(v.sum().item() for entry in state.values() for v in entry.values())
            return f"running means and counts that add up to {sums:.6f}"
        if name == "scheduler":
            return f"after {part.last_epoch} updates, lr {part.get_last_lr()[0]:.6f}"
        if name == "noise":
            ahead = torch.Generator()
            ahead.set_state(part.get_state())
            return f"next number {torch.rand((), generator=ahead).item():.6f}"
        return part
