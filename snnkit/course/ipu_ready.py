"""What exercises about an IPU are checked with: a small network made of the answer, the first rule it breaks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from snnkit.hardware import ipu

from .exercise import Violation

STEPS = 6


class Net(nn.Module):
    """Linear, neurons, linear over time, as an IPU would be given it."""

    def __init__(self, step: Callable[..., Any], fire: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.step, self.fire = step, fire
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self.first, self.last = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        current = 3 * self.first(x)
        mem, outs = current * 0, []
        for _ in range(STEPS):
            fired, mem = self.step(mem, current, self.fire)
            outs.append(self.last(fired))
        return torch.stack(outs, 1)


def loss(out: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(out.sum(1), y)


def example(samples: int = 4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(samples, 6, generator=generator), torch.arange(samples) % 3
    return x, y


def ready(report: ipu.Report, hints: dict[str, int]) -> None:
    """Violation with the first rule that is broken. ``hints``: by rule, and "sizes" where one depends on values."""
    if report.ready:
        return
    first = report.errors[0]
    broken = ", ".join(f'"{rule}"' for rule, verdict in report.rules.items() if verdict == "error")
    told = f"ipu.check finds no rule broken. Here: {broken}."
    where = f" ({first.where})" if first.where else ""
    rule = "sizes" if first.rule == "static graph" and "size" in first.what else first.rule
    raise Violation(told, yours=f"{first.what}{where}", hint=hints.get(rule, 0))


def gradient(step: Callable[..., Any], fire: Callable[[Tensor], Tensor]) -> Tensor:
    net = Net(step, fire)
    x, y = example()
    return torch.autograd.grad(loss(net(x), y), net.first.weight, allow_unused=True)[0]


def rates(out: Tensor, y: Tensor) -> Tensor:
    """No operation of it is one that PopTorch knows as a loss."""
    return ((out.mean(1) - F.one_hot(y, 3).to(out.dtype)) ** 2).mean()


def pictures(samples: int = 6) -> tuple[Tensor, Tensor]:
    x, y = example(samples)
    return x.reshape(samples, 1, 2, 3), y
