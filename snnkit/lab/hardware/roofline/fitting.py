"""A cost model of this machine: prices of operations, fitted to micro-benchmarks, not to networks; and its error.

Seconds of a step are Σ price × units, such as 2 µs for each launched operation, or 0.1 ns for each byte. Each benchmark
is one layer, forward and backward (or one update of an optimizer), timed and with its units counted; prices follow by
least squares of the relative errors, none of them negative (Lawson and Hanson 1974). The error is that of networks
outside the fit, predicted and then measured.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snnkit import checks, encode
from snnkit.engine import cpp_compiler
from snnkit.lab.hardware.chips import Figure
from snnkit.lab.hardware.roofline.predictions import Prediction, Range
from snnkit.lab.hardware.roofline.work import OPTIMIZERS, Work, count, count_layer, out_of
from snnkit.loss import count_cross_entropy, membrane_max_cross_entropy, rate_mse
from snnkit.measure import Clock, ThroughputClock, provenance, race
from snnkit.models import ConvNet, FashionConvNet
from snnkit.neuron import ALIF, IF, LIF, PLIF, CubaLIF, Izhikevich, Leaky, Neuron, Recurrent
from snnkit.nn import Sequential
from snnkit.surrogate import Sigmoid
from snnkit.tables import count_of, text_table

# Bytes up to which an operation is priced as in the cache nearest to the core, and in the last one.
_SMALL, _MEDIUM = 2**18, 2**23
_DRIVE = 3.0  # times 1/√fan-in: the standard deviation of weights with which layers fire


def units_of(work: Work, engine: str = "eager") -> Counter[str]:
    """Price to the number of units, where neurons run in ``engine``."""
    step = work if engine == "eager" else work.fused()
    units: Counter[str] = Counter()
    for op in step.operations:
        if op.kind == "view" and op.layer is None and op.phase != "optimizer":
            units["views"] += 1
        elif op.kind == "fused" and op.layer is not None:
            layer = step.layers[op.layer]
            amounts = {"calls": 1, "steps": layer.steps, "bytes": op.bytes, "simple": op.simple, "costly": op.costly}
            amounts["static"] = op.numel * layer.static
            units.update({f"{engine} {price}": amount for price, amount in amounts.items()})
        elif op.kind in ("elementwise", "copy"):
            size = "small" if op.bytes <= _SMALL else "medium" if op.bytes <= _MEDIUM else "large"
            inside = " of a layer" if op.layer is not None and op.phase != "optimizer" else ""
            units.update({f"{op.phase} launches{inside}": 1, f"{size} bytes": op.bytes, f"{size} values": op.numel})
            units.update({"costly values": op.costly})
            if op.name == "_to_copy":  # of a spike, whose backward is a function of Python
                units.update({"casts": 1, "cast values": op.numel})
        elif op.runs:
            units.update({f"{op.kind} launches": 1, f"{op.kind} bytes": op.bytes, f"{op.kind} flops": op.flops})
    if engine == "eager":
        units.update({"layer calls": len(step.layers), "layer steps": sum(layer.steps for layer in step.layers)})
    return units


class ProcessorClock:
    """A clock of the seconds that this process computes, so that other processes do not count."""

    name = "processor"

    def seconds(self, function: Callable[[], object], calls: int = 1) -> tuple[float, float]:
        """The mean of some calls, twice, as nothing goes on after a call returns."""
        start = time.process_time()
        for _ in range(calls):
            function()
        mean = (time.process_time() - start) / calls
        return mean, mean


@checks.arguments
def clock_of(device: torch.device) -> Clock:
    """The clock of ``fit`` and ``validate``: the processor's for one thread of a CPU, else that of throughput."""
    alone = device.type == "cpu" and torch.get_num_threads() == 1
    return ProcessorClock() if alone else ThroughputClock(device)


@checks.arguments
def times(candidates: Mapping[str, Callable[[], object]], clock: Clock, repeats: int) -> dict[str, Range]:
    """Median, 10th and 90th percentile of seconds, of functions that take turns."""
    timings = race(candidates, repeats, warmup=2, clock=clock)
    return {
        name: Range(min(t.spread[0], t.median), t.median, max(t.spread[1], t.median)) for name, t in timings.items()
    }


Benchmark = tuple[Callable[[], object], Counter[str]]  # what is timed, and its units by price


def _benchmark(layer: nn.Module, x: Tensor, engine: str = "eager", **options: int) -> Benchmark:
    """Forward and backward of one layer, called with ``options``, on x."""
    units = units_of(count_layer(layer, x, **options), engine)
    layer, leaf = layer.to(x.device), x.detach().clone().requires_grad_()

    def forward() -> Tensor:
        return out_of(layer(leaf, **options))

    inputs, gradient = (leaf, *layer.parameters()), torch.rand_like(forward())
    return lambda: torch.autograd.grad(forward(), inputs, gradient), units


class _Applied(nn.Module):
    """A function as a layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def _loss(x: Tensor) -> Tensor:
    return F.cross_entropy(x.sum(0), torch.zeros(x.shape[1], dtype=torch.long, device=x.device))


# Some with many products, differences, spikes or powers, so that their prices can be distinguished.
_NEURONS: tuple[Callable[..., Neuron], ...] = (
    *(IF, Izhikevich, partial(LIF, surrogate=Sigmoid()), ALIF, CubaLIF),
    partial(Leaky, 0.9, reset_mechanism="zero"),
)
# (steps, neurons)
_SHAPES = ((2, 1), (32, 1), (16, 2**10), (16, 2**13), (16, 2**16), (4, 2**18))
# (rows, inputs, outputs), and (images, channels in and out, pixels of a side)
_PRODUCTS = (
    *((1, 1, 1), (32, 64, 100), (128, 784, 1000), (512, 16, 512), (2048, 512, 512), (2048, 512, 10), (2048, 10, 512)),
    *((3200, 1000, 10), (64, 2048, 2048)),
)
_CONVOLUTIONS = ((1, 1, 1, 1), (64, 1, 16, 28), (64, 16, 16, 14), (64, 32, 64, 14), (16, 64, 64, 14), (256, 8, 16, 8))
_IMAGES = (2**8, 2**14, 2**20)  # values


def layer_benchmarks(device: torch.device) -> Iterator[Benchmark]:
    """Single layers without and with neurons in eager, and updates of an optimizer."""
    for steps, neurons in _SHAPES:
        for make in _NEURONS if neurons < 2**18 else _NEURONS[:2]:
            yield _benchmark(make(engine="eager"), torch.rand(steps, neurons, device=device))
    for rows, inputs, outputs in _PRODUCTS:
        yield _benchmark(nn.Linear(inputs, outputs), torch.rand(rows, inputs, device=device))
    for samples, inputs, outputs, side in _CONVOLUTIONS:
        x = torch.rand(samples, inputs, side, side, device=device)
        yield _benchmark(nn.Conv2d(inputs, outputs, 3, padding=1), x)
    for values in _IMAGES:
        # Spikes, which is what networks pool: a maximum of random numbers takes longer.
        x = (torch.rand(max(1, values // 1024), 16, 8, 8, device=device) < 0.2).float()
        yield _benchmark(nn.BatchNorm2d(16), x)
        yield _benchmark(nn.MaxPool2d(2), x)
        yield _benchmark(_Applied(_loss), torch.rand(16, max(1, values // 160), 10, device=device))
        yield _update(values, device)
    scaled = (_Applied(lambda x: x * 0.99) for _ in range(16))
    yield _benchmark(Sequential(*scaled), torch.rand(1, 1, 1, device=device))


def engine_benchmarks(engine: str, device: torch.device) -> Iterator[Benchmark]:
    """Single layers of neurons in a compiled engine; on a static input as well."""
    for steps, neurons in (*_SHAPES[1:5], (128, 1), (16, 2**6)):
        x = torch.rand(steps, neurons, device=device)
        for make in _NEURONS[:3]:
            yield _benchmark(make(engine=engine), x, engine)
        yield _benchmark(_NEURONS[0](engine=engine), x[0], engine, repeat=steps)


def _update(values: int, device: torch.device) -> Benchmark:
    """One update of so many weights."""
    net = nn.Linear(values, 1, bias=False, device=device)
    work = count(net, torch.empty(1, 1, values), torch.empty(1), lambda out, targets: out.sum())
    updates = tuple(op for op in work.operations if op.phase == "optimizer")
    net.weight.grad = torch.rand_like(net.weight)
    return OPTIMIZERS["adam"](list(net.parameters())).step, units_of(replace(work, operations=updates))


@dataclass(frozen=True)
class Machine:
    """This machine, as ``fit`` measured it.

    ``figures`` are "memory_bandwidth" of a large copy, "fp32_flops" of a large matrix product, and "launch", seconds of
    an elementwise operation on one number, with what autograd adds.
    """

    device: str
    kind: str  # "cpu" or "cuda"
    threads: int  # of the CPU
    fused: tuple[str, ...]  # the compiled engines that were measured
    prices: Mapping[str, float] = field(repr=False)  # seconds per unit, see units_of
    spread: Range  # measured over predicted, of the micro-benchmarks: 10th percentile, 1, 90th percentile
    figures: Mapping[str, Figure]

    @checks.arguments
    def predict(self, work: Work, engine: str = "eager") -> Prediction:
        """Predict the seconds of a training step whose neurons run in ``engine``.

        The range is the scatter of the micro-benchmarks around the fit. ``validate`` gives the error of predictions for
        networks. ``snnkit.engine.explain`` gives the engine of "auto".
        """
        checks.choice("engine", engine, ("eager", *self.fused))
        units = units_of(work, engine).items()
        parts = {price: self.spread * (self.prices.get(price, 0.0) * amount) for price, amount in units}
        source = f"micro-benchmarks of this machine ({self.threads} thread(s)), none of them a network"
        return Prediction(self.device, engine, work.samples, sum(parts.values(), Range.of(0.0)), parts, source)


def large_product(device: torch.device) -> tuple[Callable[[], object], int]:
    """A matrix product that keeps ``device`` busy, and its floating-point operations."""
    side = 4096 if device.type == "cuda" else 1024
    square = torch.rand(side, side, device=device)
    return lambda: square @ square, 2 * side**3


def fit(device: str | torch.device = "cpu", *, repeats: int = 7) -> Machine:
    """Measure ``device`` by micro-benchmarks: about a minute, more if an engine has to compile.

    Besides eager this measures "cpp" on a CPU with a compiler, "block" on CUDA.

    Args:
        device: "cpu" or a CUDA device.
        repeats: rounds of each measurement, at least 3.
    """
    device = torch.device(device)
    checks.choice("type of device", device.type, ("cpu", "cuda"))
    engines = ("block",) if device.type == "cuda" else ("cpp",) if cpp_compiler() is not None else ()
    clock = clock_of(device)
    benchmarks = list(layer_benchmarks(device))
    for engine in engines:
        benchmarks += engine_benchmarks(engine, device)
    took = times({str(i): run for i, (run, _) in enumerate(benchmarks)}, clock, repeats)
    prices, spread = fit_prices([units for _, units in benchmarks], [seconds.value for seconds in took.values()])
    large, number = torch.rand(2**23, device=device), torch.rand(1, device=device, requires_grad=True)
    product, flops = large_product(device)
    took = times({"copy": large.clone, "product": product, "smallest": lambda: number * 0.99}, clock, repeats)
    threads = torch.get_num_threads()
    source = f"micro-benchmarks of fit() here, {count_of(threads, 'thread')}, PyTorch {torch.__version__}"
    figures = {
        "memory_bandwidth": Figure(2 * large.nbytes / took["copy"].value, "B/s", "measured", source),
        "fp32_flops": Figure(flops / took["product"].value, "FLOP/s", "measured", source),
        "launch": Figure(took["smallest"].value, "s", "measured", source),
    }
    where = provenance(device)
    name = where["device"]["name"] or where["cpu"]
    return Machine(name, device.type, threads, fused=engines, prices=prices, spread=spread, figures=figures)


def fit_prices(units: Sequence[Mapping[str, float]], seconds: Sequence[float]) -> tuple[dict[str, float], Range]:
    """Prices that explain the seconds of benchmarks by their units, and by which factors they miss them."""
    from scipy.optimize import nnls

    prices = sorted({price for counted in units for price, amount in counted.items() if amount})
    matrix = np.array([[counted.get(price, 0.0) for price in prices] for counted in units], dtype=float)
    scale = matrix.max(axis=0)
    relative = matrix / scale / np.array(seconds)[:, None]
    solution = nnls(relative, np.ones(len(units)), maxiter=100 * len(prices))[0]
    low, high = np.quantile(1 / np.maximum(relative @ solution, 1e-3), [0.1, 0.9])
    spread = Range(min(float(low), 1.0), 1.0, max(float(high), 1.0))
    return dict(zip(prices, (solution / scale).tolist(), strict=True)), spread


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
        return _driven(*(module for i, o in pairwise(sizes) for module in (nn.Linear(i, o), neuron(engine=engine))))

    return make


def _recurrent(engine: str) -> nn.Module:
    hidden = Recurrent(LIF(engine=engine), 256)
    return _driven(nn.Linear(128, 256), hidden, nn.Linear(256, 10), LIF(engine=engine))


def _fashion(engine: str) -> nn.Module:
    return FashionConvNet(16, 256, engine=engine)


def _conv(size: int) -> Callable[[str], nn.Module]:
    return lambda engine: ConvNet(size=size, engine=engine)


def _driven(*layers: nn.Module) -> nn.Module:
    net = Sequential(*layers)
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
    works = [net.work() for net in nets]
    predicted = [{engine: machine.predict(work, engine) for engine in engines} for work in works]
    device = torch.device(machine.kind)
    clock = clock_of(device)
    product, flops = large_product(device)
    rows, rates = [], []
    for net, predictions in zip(nets, predicted, strict=True):
        took = times({engine: net.step(engine, device) for engine in engines} | {"": product}, clock, repeats)
        rates.append(flops / took[""].value)
        for engine, said in predictions.items():
            rows.append(Row(net.name, engine, said.samples, said.seconds, took[engine]))
    drift = machine.figures["fp32_flops"].value / statistics.median(rates)
    return Report(machine.device, drift, tuple(rows))
