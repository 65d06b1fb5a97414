"""A formula of one's own for the memory of training, beside a training step that is run and counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import plotly.graph_objects as go
import torch

from snnkit import device, models

from ..shares import shares
from .bill import CLASSES, INPUTS

_MB = 1e6
_ADAM = 2  # numbers that it keeps for each weight
_COPIES = {"weights": 1, "gradients": 1, "optimizer": _ADAM}
_RATE = 0.15  # of the input's spikes


def beside_measured(
    bill: Callable[[int, int, int, int, int, int], tuple[int, int]], where: torch.device | str = "cpu"
) -> Callable[..., go.Figure]:
    """For ``explore``: a function of ``steps``, ``batch``, ``neurons`` and ``numbers`` that draws two bars for the
    network 784-neurons-10 in training with Adam: what ``bill`` says of it, and what a training step holds.

    Args:
        bill: (weights, kept, steps, batch, copies, width) to bytes (of the model, of its activity): numbers of weights,
            numbers kept per sample and step, T, B, numbers that the optimizer keeps per weight, bytes of a number.
        where: the device of the training step.

    Raises:
        TypeError: bill is no function.
    """
    if not callable(bill):
        raise TypeError(f"bill must be a function, not {type(bill).__name__}")
    where = torch.device(where)

    def figure(
        steps: Annotated[int, "time steps, whose inputs all differ"] = 16,
        batch: Annotated[int, "samples in a batch"] = 16,
        neurons: Annotated[int, "of the hidden layer"] = 500,
        numbers: Annotated[str, "of the activity"] = "float32",
    ) -> go.Figure:
        dtype = getattr(torch, numbers)
        with torch.random.fork_rng([]):  # initial weights and spikes are drawn; nobody's random numbers should change
            net = models.mlp((INPUTS, neurons, CLASSES)).to(where)
            x = (torch.rand(steps, batch, INPUTS) < _RATE).to(where, dtype)
        count = sum(p.numel() for p in net.parameters())
        kept = INPUTS + 2 * neurons + CLASSES  # inputs of both Linear and of both Leaky
        _, activity = bill(count, kept, steps, batch, _ADAM, dtype.itemsize)
        with torch.autocast(where.type, dtype, enabled=numbers != "float32"):
            held = device.training_step(net, x).held + x.nbytes
        model = {name: 4 * count * copies / _MB for name, copies in _COPIES.items()}
        wholes = {"predicted": model | {"activity": activity / _MB}, "measured": model | {"activity": held / _MB}}
        title = f"Predicted {activity / _MB:.1f} MB of activity, measured {held / _MB:.1f} MB"
        return shares(wholes, "MB", title=title)

    return figure
