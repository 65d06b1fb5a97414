"""How far predictions of a fitted machine are off: networks that nothing was fitted to, predicted and then measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import torch
from torch import Tensor, nn

from ... import checks, encode
from ...loss import count_cross_entropy, membrane_max_cross_entropy, rate_mse
from ...measure import keep_freed_memory
from ...models import ConvNet, FashionConvNet
from ...neuron import ALIF, LIF, PLIF, CubaLIF, Izhikevich, Leaky, Neuron, Recurrent
from ...nn import Sequential
from ...tables import text_table
from .fitting import Machine, clock_of, large_product, times
from .predictions import Range
from .work import OPTIMIZERS, Work, count

_DRIVE = 3.0  # times 1/√fan-in: the standard deviation of weights with which layers fire


@dataclass(frozen=True)
class HoldoutNet:
    """A network with a batch of random data, and its training step.

    ``make`` takes an engine; ``batch`` a generator, and returns x [T, B, ...] and targets; ``loss`` (out, targets).
    """

    name: str
    make: Callable[[str], nn.Module]
    batch: Callable[[torch.Generator], tuple[Tensor, Tensor]]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: str = "adam"

    def work(self) -> Work:
        """Its training step, counted without running it."""
        with torch.random.fork_rng(devices=[]):
            net = self.make("eager")
        x, targets = self.batch(torch.Generator().manual_seed(0))
        return count(net, x, targets, self.loss, optimizer=self.optimizer, name=self.name)

    def step(self, engine: str, device: torch.device) -> Callable[[], object]:
        """One training step on ``device``, as a function."""
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


def holdout_nets() -> tuple[HoldoutNet, ...]:
    """Twelve: dense, deep, recurrent and convolutional, seven kinds of neurons, 4 to 200 steps."""
    leaky, counts, most = partial(Leaky, 0.9), count_cross_entropy, membrane_max_cross_entropy
    return (
        HoldoutNet("784-1000-10 Leaky", _dense(leaky, 784, 1000, 10), _image((784,), 25, 128), counts),
        HoldoutNet("64-100-10 Leaky", _dense(leaky, 64, 100, 10), _image((64,), 10, 32), counts),
        HoldoutNet("784-4096-10 Leaky", _dense(leaky, 784, 4096, 10), _image((784,), 10, 64), counts),
        HoldoutNet("784-3×400-10 LIF", _dense(LIF, 784, 400, 400, 400, 10), _spikes((784,), 16, 64), counts),
        HoldoutNet("784-500-10 CubaLIF", _dense(CubaLIF, 784, 500, 10), _image((784,), 50, 64), counts),
        HoldoutNet("700-256-20 ALIF", _dense(ALIF, 700, 256, 20), _spikes((700,), 100, 32, 20), counts),
        HoldoutNet("2-64-2 PLIF", _dense(PLIF, 2, 64, 2), _spikes((2,), 200, 16, 2), counts, "sgd"),
        HoldoutNet("100-512-10 Izhikevich", _dense(Izhikevich, 100, 512, 10), _spikes((100,), 40, 64), counts),
        HoldoutNet("128-256-10 recurrent LIF", _recurrent, _spikes((128,), 20, 32), counts),
        HoldoutNet("conv IF, 28 × 28", _fashion, _image((1, 28, 28), 4, 32), rate_mse, "sgd"),
        HoldoutNet("conv CubaLIF, 28 × 28", lambda e: ConvNet(engine=e), _spikes((1, 28, 28), 8, 32), most),
        HoldoutNet("conv CubaLIF, 8 × 8", lambda e: ConvNet(size=8, engine=e), _spikes((1, 8, 8), 25, 64), most),
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


def _driven(net: nn.Module) -> nn.Module:
    for layer in net.modules():
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=_DRIVE / layer.in_features**0.5)
    return net


def _image(shape: tuple[int, ...], steps: int, samples: int):
    def batch(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = torch.rand(samples, *shape, generator=generator)
        return encode.repeat(x, steps), torch.randint(10, (samples,), generator=generator)

    return batch


def _spikes(shape: tuple[int, ...], steps: int, samples: int, classes: int = 10):
    def batch(generator: torch.Generator) -> tuple[Tensor, Tensor]:
        x = (torch.rand(steps, samples, *shape, generator=generator) < 0.2).float()
        return x, torch.randint(classes, (samples,), generator=generator)

    return batch


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
    """What ``validate`` measured; prints as a table.

    Attributes:
        device: the machine that was fitted.
        drift: seconds of a large matrix product after the networks were measured, by those of the fit: 1 where the
            machine ran as fast.
        rows: one for each network and engine.
    """

    device: str
    drift: float
    rows: tuple[Row, ...] = field(repr=False)

    def errors(self, engine: str) -> list[float]:
        """Relative errors of all networks."""
        return [row.error for row in self.rows if row.engine == engine]

    def median_error(self, engine: str) -> float:
        """Median of the absolute relative errors: 0.1 is 10 %."""
        return statistics.median(map(abs, self.errors(engine)))

    def __str__(self) -> str:
        rows = []
        for row in self.rows:
            took = (f"{seconds.value * 1e3:.4g} ms" for seconds in (row.predicted, row.measured))
            rows.append((row.net, row.engine, *took, f"{row.error:+.0%}"))
        lines = text_table(("", "engine", "predicted", "measured", "error"), rows, left=2, always=5)
        for engine in dict.fromkeys(row.engine for row in self.rows):
            errors = self.errors(engine)
            lines.append(
                f"{engine}: median error {self.median_error(engine):.0%}, largest {max(map(abs, errors)):.0%}, of "
                f"{len(errors)} networks"
            )
        return "\n".join([*lines, f"{self.device}, drift {self.drift:.2f}"])


def validate(machine: Machine, *, nets: Sequence[HoldoutNet] | None = None, repeats: int = 5) -> Report:
    """Predict the training step of every network, then measure all of them, on the machine that was fitted.

    Args:
        machine: from ``fit``, on this device and with as many threads.
        nets: networks; None: ``holdout_nets()``.
        repeats: rounds of each measurement, at least 3.

    Raises:
        TypeError: ``machine`` is no ``Machine``.
        ValueError: no networks, or another number of threads than at the fit.
    """
    checks.instance("machine", machine, Machine, "a Machine, as fit() gives it")
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
    if device.type == "cpu":
        keep_freed_memory()
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
