"""The two networks whose training is timed, ours and everybody's: layers, data, loss, optimizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .. import encode
from ..loss import count_cross_entropy, rate_mse
from ..models import FashionConvNet, mlp
from ..neuron import LIF, CubaLIF
from ..nn import Sequential
from ..surrogate import ATan, SuperSpike

HIDDEN_PER_CHANNEL = 16
_DRIVE = 4.0  # times 1/√fan-in: the standard deviation of linear weights with which all layers fire from the start


def optimizer_for(parameters: list[nn.Parameter], fused: bool) -> torch.optim.SGD:
    """SGD as in SpikingJelly's tutorial, for everybody. ``fused``: one kernel for all parameters."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, fused=fused or None)


@dataclass(frozen=True)
class Workload:
    """A network to train, for one equation of its neurons.

    Attributes:
        net: "conv" (SpikingJelly's tutorial) or "mlp" (784-1000-10).
        equation: of the neurons: "IF", "LIF", "Leaky" or "CubaLIF".
        width: channels of the convolutions, or neurons of the hidden layer.
        steps: T.
        batch: samples of an update.
        shape: of one sample.
        make: engine to the network, [T, B, *shape] to spikes [T, B, 10].
        loss: (spikes, labels) to a scalar, the same for everybody.
        optimizer: (parameters, whether in one kernel for all of them) to it, the same for everybody.
    """

    net: str
    equation: str
    width: int
    steps: int
    batch: int
    shape: tuple[int, ...]
    make: Callable[[str], Sequential]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: Callable[[list[nn.Parameter], bool], torch.optim.Optimizer] = optimizer_for

    def encode(self, x: Tensor) -> Tensor:
        """[B, *shape] shown for all steps."""
        return encode.repeat(x, self.steps)

    def data(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """One batch of random images uint8 [B, *shape] and labels."""
        generator = torch.Generator().manual_seed(0)
        images = torch.randint(256, (self.batch, *self.shape), generator=generator, dtype=torch.uint8)
        labels = torch.randint(10, (self.batch,), generator=generator)
        return images.to(device), labels.to(device)

    def weights(self) -> list[Tensor]:
        """Initial values of all parameters, in order; the same in every call.

        PyTorch's own would leave the last layer silent, and silent networks compare as equal whatever they compute.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net = self.make("eager")
            for p in net.parameters():
                if p.dim() == 2:
                    nn.init.normal_(p, std=_DRIVE / p.shape[1] ** 0.5)
        return [p.detach().clone() for p in net.parameters()]


def conv(width: int, batch: int) -> Workload:
    """SpikingJelly's ``conv_fashion_mnist``: T = 4, mean squared error of the rates."""

    def make(engine: str) -> Sequential:
        return FashionConvNet(width, HIDDEN_PER_CHANNEL * width, engine=engine)

    return Workload("conv", "IF", width, 4, batch, (1, 28, 28), make, rate_mse)


def dense(equation: str, width: int, batch: int) -> Workload:
    """784-1000-10 over 25 steps as in snnTorch's tutorial 5, with the neuron of one of the libraries."""

    def make(engine: str) -> Sequential:
        if equation == "Leaky":
            return mlp((784, width, 10), surrogate=ATan(), engine=engine, flatten=False)
        first, second = (
            LIF(2.0, surrogate=ATan(), engine=engine)
            if equation == "LIF"
            # Norse 1.1's SuperSpike leaves its alpha = 100 out of the derivative, so it trains with alpha = 1.
            else CubaLIF(surrogate=SuperSpike(1.0), engine=engine)
            for _ in range(2)
        )
        return Sequential(nn.Linear(784, width), first, nn.Linear(width, 10), second)

    return Workload("mlp", equation, width, 25, batch, (784,), make, count_cross_entropy)
