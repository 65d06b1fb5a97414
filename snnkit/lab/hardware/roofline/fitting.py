"""A cost model of this machine: prices of operations, fitted to micro-benchmarks, not to networks.

Seconds of a step are Σ price × units, such as 2 µs for each launched operation, or 0.1 ns for each byte. Each benchmark
is one layer, forward and backward (or one update of an optimizer), timed and with its units counted; prices follow by
least squares of the relative errors, none of them negative (Lawson and Hanson 1974).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snnkit import checks
from snnkit.engine import cpp_compiler
from snnkit.lab.hardware.chips import Figure
from snnkit.lab.hardware.roofline.predictions import Prediction, Range
from snnkit.lab.hardware.roofline.work import OPTIMIZERS, Trace, Work, count_layer
from snnkit.measure import Clock, ThroughputClock, provenance, race
from snnkit.neuron import ALIF, IF, LIF, CubaLIF, Izhikevich, Leaky, Neuron
from snnkit.nn import Sequential
from snnkit.surrogate import Sigmoid

# Bytes up to which an operation is priced as in the cache nearest to the core, and in the last one.
_SMALL, _MEDIUM = 2**18, 2**23


def units_of(work: Work, engine: str = "eager") -> Counter[str]:
    """Price to the number of units, where neurons run in ``engine``."""
    step = work if engine == "eager" else work.fused()
    units: Counter[str] = Counter()

    def add(**amounts: float) -> None:
        units.update({price.replace("_", " "): amount for price, amount in amounts.items()})

    for op in step.operations:
        if op.kind == "view" and op.layer is None and op.phase != "optimizer":
            add(views=1)
        elif op.kind == "fused" and op.layer is not None:
            layer = step.layers[op.layer]
            add(**{f"{engine}_calls": 1, f"{engine}_steps": layer.steps, f"{engine}_bytes": op.bytes})
            add(**{f"{engine}_simple": op.simple, f"{engine}_costly": op.costly})
            add(**{f"{engine}_static": op.numel * layer.static})
        elif op.kind in ("elementwise", "copy"):
            size = "small" if op.bytes <= _SMALL else "medium" if op.bytes <= _MEDIUM else "large"
            inside = "_of_a_layer" if op.layer is not None and op.phase != "optimizer" else ""
            add(**{f"{op.phase}_launches{inside}": 1, f"{size}_bytes": op.bytes, f"{size}_values": op.numel})
            add(costly_values=op.costly)
            if op.name == "_to_copy":  # of a spike, whose backward is a function of Python
                add(casts=1, cast_values=op.numel)
        elif op.runs:
            add(**{f"{op.kind}_launches": 1, f"{op.kind}_bytes": op.bytes, f"{op.kind}_flops": op.flops})
    if engine == "eager":
        add(layer_calls=len(step.layers), layer_steps=sum(layer.steps for layer in step.layers))
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


def _benchmark(layer: nn.Module, x: Tensor, repeat: int | None = None, engine: str = "eager") -> Benchmark:
    """Forward and backward of one layer on x."""
    work = count_layer(layer, x, repeat)
    layer, leaf = layer.to(x.device), x.detach().clone().requires_grad_()

    def forward() -> Tensor:
        result = layer(leaf) if repeat is None else layer(leaf, repeat=repeat)
        return result[0] if isinstance(result, tuple) else result

    inputs, gradient = (leaf, *layer.parameters()), torch.rand_like(forward())
    return lambda: torch.autograd.grad(forward(), inputs, gradient), units_of(work, engine)


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
_NEURONS: tuple[Callable[[str], Neuron], ...] = (
    lambda engine: IF(engine=engine),
    lambda engine: Izhikevich(engine=engine),
    lambda engine: LIF(surrogate=Sigmoid(), engine=engine),
    lambda engine: ALIF(engine=engine),
    lambda engine: CubaLIF(engine=engine),
    lambda engine: Leaky(0.9, reset_mechanism="zero", engine=engine),
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
            yield _benchmark(make("eager"), torch.rand(steps, neurons, device=device))
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
            yield _benchmark(make(engine), x, engine=engine)
        yield _benchmark(_NEURONS[0](engine), x[0], steps, engine)


def _update(values: int, device: torch.device) -> Benchmark:
    def parameter(device: str | torch.device) -> nn.Parameter:
        made = nn.Parameter(torch.rand(values, device=device))
        made.grad = torch.rand_like(made)
        return made

    optimizer, trace = OPTIMIZERS["adam"]([parameter("meta")]), Trace()
    optimizer.step()
    trace.phase = "optimizer"
    with trace:
        optimizer.step()
    work = Work("update", 1, tuple(trace.operations), (), values, 0, 2)
    return OPTIMIZERS["adam"]([parameter(device)]).step, units_of(work)


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
    source = f"micro-benchmarks of fit() here, {torch.get_num_threads()} thread(s), PyTorch {torch.__version__}"
    measured = {
        "memory_bandwidth": (2 * large.nbytes / took["copy"].value, "B/s"),
        "fp32_flops": (flops / took["product"].value, "FLOP/s"),
        "launch": (took["smallest"].value, "s"),
    }
    where = provenance(device)
    return Machine(
        device=where["device"]["name"] or where["cpu"],
        kind=device.type,
        threads=torch.get_num_threads(),
        fused=engines,
        prices=prices,
        spread=spread,
        figures={key: Figure(value, unit, "measured", source) for key, (value, unit) in measured.items()},
    )


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
