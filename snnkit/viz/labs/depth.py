"""A deep net of LIF neurons in which a gradient can be followed: back through its layers, and back through time.

Its layers all fire at about the same rate, and their spikes are the same whatever the surrogate is: forward never asks
it. So all that a surrogate changes is the gradient.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor

from snnkit import nn
from snnkit.neuron import LIF
from snnkit.surrogate import Surrogate

from .cells import run

DEEPEST, STEPS, BATCH = 16, 10, 16
_WIDTH, _RATE = 64, 0.3
_THRESHOLD = 1.0


class Flow(NamedTuple):
    """Norms of the gradient of a loss of the last step's spikes.

    Attributes:
        by_layer: of each layer's weights, the first layer first.
        by_step: of the input at each time step.
    """

    by_layer: list[float]
    by_step: list[float]


def gradient_flow(surrogate: Surrogate, depth: int, detach_reset: bool) -> Flow:
    """Through ``depth`` layers and 10 time steps."""
    weights, x, direction = ingredients()
    modules: list[torch.nn.Module] = []
    for weight in weights[:depth]:
        layer = torch.nn.Linear(_WIDTH, _WIDTH, bias=False, dtype=weight.dtype, device="meta")
        layer.weight = torch.nn.Parameter(weight)
        modules += [layer, _cell(surrogate, detach_reset)]
    x = x.clone().requires_grad_()
    with torch.enable_grad():
        out, _ = nn.Sequential(*modules)(x)
        loss = (out[-1] * direction).sum()
        *by_layer, of_x = torch.autograd.grad(loss, [layer.weight for layer in modules[::2]] + [x])  # type: ignore[misc]
    return Flow([float(g.norm()) for g in by_layer], of_x.flatten(1).norm(dim=1).tolist())


@functools.lru_cache(maxsize=DEEPEST)
def distances(depth: int) -> Tensor:
    """How far each membrane is from its threshold when it is asked whether it fires, all layers and steps [P]."""
    weights, x, _ = ingredients()
    found = []
    for weight in weights[:depth]:
        ran = run(_cell(None, True), x @ weight.T)
        # The soft reset took the threshold from those that fired; here they get it back.
        found.append(ran.v + _THRESHOLD * ran.out - _THRESHOLD)
        x = ran.out
    return torch.cat([one.flatten() for one in found])


def _cell(surrogate: Surrogate | None, detach_reset: bool) -> LIF:
    options: dict[str, Any] = {} if surrogate is None else {"surrogate": surrogate}
    return LIF(2.0, _THRESHOLD, None, decay_input=False, detach_reset=detach_reset, **options)


@functools.lru_cache(maxsize=1)
def ingredients() -> tuple[list[Tensor], Tensor, Tensor]:
    """Weights of each layer [64, 64], the input's spikes [10, 16, 64], and the loss's direction [16, 64].

    In float64, as narrow surrogates make gradients that float32 can't hold.
    """
    g = torch.Generator().manual_seed(0)
    x = (torch.rand(STEPS, BATCH, _WIDTH, generator=g) < _RATE).double()
    direction = torch.randn(BATCH, _WIDTH, generator=g).double()
    # Gain and mean are chosen so that activity neither dies out nor grows from layer to layer.
    draws = [torch.randn(_WIDTH, _WIDTH, generator=g).double() for _ in range(DEEPEST)]
    return [2.5 / _WIDTH**0.5 * draw + 0.5 / _WIDTH for draw in draws], x, direction
