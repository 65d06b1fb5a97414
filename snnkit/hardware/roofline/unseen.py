"""The networks that a fitted machine is judged on. Nothing is fitted to them: ``fit`` runs no network at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

from ... import encode
from ...loss import count_cross_entropy, membrane_max_cross_entropy, rate_mse
from ...models import ConvNet, FashionConvNet, mlp
from ...neuron import ALIF, LIF, PLIF, CubaLIF, Izhikevich, Neuron, Recurrent
from ...nn import Sequential
from .counting import OPTIMIZERS, count
from .work import Work

_DRIVE = 3.0  # times 1/√fan-in: the standard deviation of weights with which layers fire


@dataclass(frozen=True)
class Unseen:
    """A network with a batch of random data, and its training step.

    Attributes:
        name: of the network.
        make: engine to the network, T steps to out.
        batch: a generator to (x [T, B, ...], targets).
        loss: of (out, targets).
        optimizer: "adam" or "sgd".
    """

    name: str
    make: Callable[[str], nn.Module]
    batch: Callable[[torch.Generator], tuple[Tensor, Tensor]]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: str = "adam"

    def work(self) -> Work:
        """What its training step computes and moves; runs nothing."""
        with torch.random.fork_rng(devices=[]):
            net = self.make("eager")
        x, targets = self.batch(torch.Generator().manual_seed(0))
        return count(net, x, targets, self.loss, optimizer=self.optimizer, name=self.name)

    def step(self, engine: str, device: torch.device) -> Callable[[], object]:
        """One training step on ``device``, to be called again and again."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net = self.make(engine).to(device).train()
        x, targets = self.batch(torch.Generator().manual_seed(0))
        first = x[:1].to(device)
        x = first.expand(x.shape) if x.stride(0) == 0 else x.to(device)
        targets = targets.to(device)
        optimizer = OPTIMIZERS[self.optimizer](list(net.parameters()))

        def run() -> None:
            optimizer.zero_grad()
            self.loss(net(x)[0], targets).backward()
            optimizer.step()

        return run


def nets() -> tuple[Unseen, ...]:
    """Twelve: dense, deep, recurrent and convolutional, seven kinds of neurons, 4 to 200 steps."""
    return (
        Unseen("784-1000-10 Leaky", _mlp(784, 1000, 10), _image((784,), 25, 128), count_cross_entropy),
        Unseen("64-100-10 Leaky", _mlp(64, 100, 10), _image((64,), 10, 32), count_cross_entropy),
        Unseen("784-4096-10 Leaky", _mlp(784, 4096, 10), _image((784,), 10, 64), count_cross_entropy),
        Unseen("784-3×400-10 LIF", _dense(LIF, 784, 400, 400, 400, 10), _spikes((784,), 16, 64), count_cross_entropy),
        Unseen("784-500-10 CubaLIF", _dense(CubaLIF, 784, 500, 10), _image((784,), 50, 64), count_cross_entropy),
        Unseen("700-256-20 ALIF", _dense(ALIF, 700, 256, 20), _spikes((700,), 100, 32, 20), count_cross_entropy),
        Unseen("2-64-2 PLIF", _dense(PLIF, 2, 64, 2), _spikes((2,), 200, 16, 2), count_cross_entropy, "sgd"),
        Unseen("100-512-10 Izhikevich", _dense(Izhikevich, 100, 512, 10), _spikes((100,), 40, 64), count_cross_entropy),
        Unseen("128-256-10 recurrent LIF", _recurrent, _spikes((128,), 20, 32), count_cross_entropy),
        Unseen("conv IF, 28 × 28", _fashion, _image((1, 28, 28), 4, 32), rate_mse, "sgd"),
        Unseen("conv CubaLIF, 28 × 28", _conv(28), _spikes((1, 28, 28), 8, 32), membrane_max_cross_entropy),
        Unseen("conv CubaLIF, 8 × 8", _conv(8), _spikes((1, 8, 8), 25, 64), membrane_max_cross_entropy),
    )


def _mlp(*sizes: int) -> Callable[[str], nn.Module]:
    return lambda engine: _driven(mlp(sizes, engine=engine, flatten=False))


def _dense(neuron: Callable[..., Neuron], *sizes: int) -> Callable[[str], nn.Module]:
    def make(engine: str) -> nn.Module:
        layers = (module for i, o in pairwise(sizes) for module in (nn.Linear(i, o), neuron(engine=engine)))
        return _driven(Sequential(*layers))

    return make


def _recurrent(engine: str) -> nn.Module:
    hidden = Recurrent(LIF(engine=engine), 256)
    return _driven(Sequential(nn.Linear(128, 256), hidden, nn.Linear(256, 10), LIF(engine=engine)))


def _fashion(engine: str) -> nn.Module:
    return FashionConvNet(16, 256, engine=engine)


def _conv(size: int) -> Callable[[str], nn.Module]:
    return lambda engine: ConvNet(size=size, engine=engine)


def _driven(net: nn.Module) -> nn.Module:
    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=_DRIVE / layer.in_features**0.5)
    return net


def _image(shape: tuple[int, ...], steps: int, samples: int, classes: int = 10):
    def batch(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = torch.rand(samples, *shape, generator=generator)
        return encode.repeat(x, steps), torch.randint(classes, (samples,), generator=generator)

    return batch


def _spikes(shape: tuple[int, ...], steps: int, samples: int, classes: int = 10):
    def batch(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = (torch.rand(steps, samples, *shape, generator=generator) < 0.2).float()
        return x, torch.randint(classes, (samples,), generator=generator)

    return batch
