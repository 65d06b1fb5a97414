"""The C++ engine goes through a layer tile by tile; the way back of one runs beside the way forward of the next."""

import pytest
import torch
from torch import nn

from snnkit.engine import cpp
from snnkit.neuron import LI, PLIF, CubaLIF, Leaky


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("neurons", [100, 256, 257, 1000, 1024, 1500])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_any_number_of_tiles_gives_what_eager_gives(monkeypatch, steps, neurons, threads):
    """Tiles of 256 neurons, so that a thread has none, one, or several, the last of them not full."""
    monkeypatch.setattr(cpp, "_FORWARD_TILE", 1)
    monkeypatch.setattr(cpp, "_BACKWARD_TILE", 1)
    monkeypatch.setattr(cpp, "threads_for", lambda x: threads)
    torch.manual_seed(0)
    makers = (
        lambda engine: Leaky(nn.Parameter(torch.linspace(0.5, 0.9, neurons).double()), engine=engine),
        lambda engine: PLIF(engine=engine).double(),
        lambda engine: CubaLIF(engine=engine),
        lambda engine: LI(engine=engine),  # linear: nothing is kept on the way forward
    )
    x = torch.rand(steps, 1, neurons, dtype=torch.float64) * 2
    weight = torch.rand_like(x)
    for make in makers:
        found = []
        for engine in ("cpp", "eager"):
            neuron, leaf = make(engine), x.clone().requires_grad_()
            out, last = neuron(leaf)
            loss = (out * weight).sum() + sum((part * weight[0]).sum() for part in last)
            found.append((out, *last, *torch.autograd.grad(loss, [leaf, *neuron.parameters()])))
        for fast, reference in zip(*found, strict=True):
            torch.testing.assert_close(fast, reference)
