"""The error of a fitted machine's predictions: for networks outside the fit, predicted and then measured."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from snnkit import checks, encode
from snnkit.lab.hardware.roofline.fitting import Machine, clock_of, large_product, times
from snnkit.lab.hardware.roofline.predictions import Range
from snnkit.lab.hardware.roofline.work import OPTIMIZERS, Work, count
from snnkit.loss import count_cross_entropy, membrane_max_cross_entropy, rate_mse
from snnkit.models import ConvNet, FashionConvNet
from snnkit.neuron import ALIF, LIF, PLIF, CubaLIF, Izhikevich, Leaky, Neuron, Recurrent
from snnkit.nn import Sequential
from snnkit.tables import text_table

_DRIVE = 3.0  # times 1/√fan-in: the standard deviation of weights with which layers fire


@dataclass(frozen=True)
class HoldoutNet:
    """A network with a batch of random data, and its training step."""

    name: str
    make: Callable[[str], nn.Module]  # from the name of an engine
    shape: tuple[int, ...]  # of x: (steps, samples, ...)
    static: bool = False  # x is one random picture, seen in every step; else spikes
    loss: Callable[[Tensor, Tensor], Tensor] = count_cross_entropy  # of (out, targets), classes from 0 to 9
    optimizer: Literal["adam", "sgd"] = "adam"

    @checks.arguments
    def batch(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """x and targets."""
        generator = torch.Generator().manual_seed(0)
        x = torch.rand(self.shape[1:] if self.static else self.shape, generator=generator).to(device)
        targets = torch.randint(10, self.shape[1:2], generator=generator).to(device)
        return encode.repeat(x, self.shape[0]) if self.static else (x < 0.2).float(), targets

    def work(self) -> Work:
        """Its training step, counted without running it."""
        x, targets = self.batch(torch.device("cpu"))
        return count(self.make("eager"), x, targets, self.loss, optimizer=self.optimizer, name=self.name)

    def step(self, engine: str, device: torch.device) -> Callable[[], object]:
        """One training step on ``device``, as a function."""
        net = self.make(engine).to(device).train()
        x, targets = self.batch(device)
        optimizer = OPTIMIZERS[self.optimizer](list(net.parameters()))

        def run() -> None:
            optimizer.zero_grad()
            self.loss(net(x)[0], targets).backward()
            optimizer.step()

        return run


def holdout_nets() -> tuple[HoldoutNet, ...]:
    """Twelve: dense, deep, recurrent and convolutional, seven kinds of neurons, 4 to 200 steps."""
    leaky = partial(Leaky, 0.9)
    return (
        HoldoutNet("784-1000-10 Leaky", _dense(leaky, 784, 1000, 10), (25, 128, 784), static=True),
        HoldoutNet("64-100-10 Leaky", _dense(leaky, 64, 100, 10), (10, 32, 64), static=True),
        HoldoutNet("784-4096-10 Leaky", _dense(leaky, 784, 4096, 10), (10, 64, 784), static=True),
        HoldoutNet("784-3×400-10 LIF", _dense(LIF, 784, 400, 400, 400, 10), (16, 64, 784)),
        HoldoutNet("784-500-10 CubaLIF", _dense(CubaLIF, 784, 500, 10), (50, 64, 784), static=True),
        HoldoutNet("700-256-20 ALIF", _dense(ALIF, 700, 256, 20), (100, 32, 700)),
        HoldoutNet("2-64-10 PLIF", _dense(PLIF, 2, 64, 10), (200, 16, 2), optimizer="sgd"),
        HoldoutNet("100-512-10 Izhikevich", _dense(Izhikevich, 100, 512, 10), (40, 64, 100)),
        HoldoutNet("128-256-10 recurrent LIF", _recurrent, (20, 32, 128)),
        HoldoutNet("conv IF, 28 × 28", _fashion, (4, 32, 1, 28, 28), True, rate_mse, "sgd"),
        HoldoutNet("conv CubaLIF, 28 × 28", _conv(28), (8, 32, 1, 28, 28), False, membrane_max_cross_entropy),
        HoldoutNet("conv CubaLIF, 8 × 8", _conv(8), (25, 64, 1, 8, 8), False, membrane_max_cross_entropy),
    )


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


@dataclass(frozen=True)
class Row:
    """Predicted and measured seconds of a training step, of one network in one engine."""

    net: str
    engine: str
    samples: int
    predicted: Range
    measured: Range

    @property
    def error(self) -> float:
        """(predicted - measured) / measured."""
        return self.predicted.value / self.measured.value - 1


@dataclass(frozen=True)
class Report:
    """What ``validate`` measured; prints as a table."""

    device: str  # the machine that was fitted
    # Seconds of a large matrix product after the networks were measured, by those of the fit: 1 where it ran as fast.
    drift: float
    rows: tuple[Row, ...] = field(repr=False)  # one for each network and engine

    def __str__(self) -> str:
        rows, errors = [], defaultdict(list)
        for row in self.rows:
            took = (f"{seconds.value * 1e3:.4g} ms" for seconds in (row.predicted, row.measured))
            rows.append((row.net, row.engine, *took, f"{row.error:+.0%}"))
            errors[row.engine].append(abs(row.error))
        lines = text_table(("", "engine", "predicted", "measured", "error"), rows, left=2, always=5)
        for engine, some in errors.items():
            median, largest = statistics.median(some), max(some)
            lines.append(f"{engine}: median error {median:.0%}, largest {largest:.0%}, of {len(some)} networks")
        return "\n".join([*lines, f"{self.device}, drift {self.drift:.2f}"])


@checks.arguments
def validate(machine: Machine, *, nets: Sequence[HoldoutNet] | None = None, repeats: int = 5) -> Report:
    """Predict the training step of every network, then measure all of them, on the machine that was fitted.

    Args:
        machine: from ``fit``, on this device and with as many threads.
        nets: None: ``holdout_nets()``.
        repeats: rounds of each measurement, at least 3.
    """
    nets = holdout_nets() if nets is None else tuple(nets)
    if not nets:
        raise ValueError("nets must hold at least one network, but it is empty")
    checks.choice("number of threads, as when the machine was fitted,", torch.get_num_threads(), (machine.threads,))
    engines = ("eager", *machine.fused)
    predicted = {}
    for net in nets:
        work = net.work()
        predicted[net.name] = {engine: machine.predict(work, engine) for engine in engines}
    device = torch.device(machine.kind)
    clock = clock_of(device)
    product, flops = large_product(device)
    rows, rates = [], []
    for net in nets:
        took = times({engine: net.step(engine, device) for engine in engines} | {"": product}, clock, repeats)
        rates.append(flops / took[""].value)
        for engine in engines:
            prediction = predicted[net.name][engine]
            rows.append(Row(net.name, engine, prediction.samples, prediction.seconds, took[engine]))
    drift = machine.figures["fp32_flops"].value / statistics.median(rates)
    return Report(machine.device, drift, tuple(rows))
