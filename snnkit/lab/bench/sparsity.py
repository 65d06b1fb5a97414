"""Spikes that are few: a linear layer by their places, beside dense and sparse products; and whole training steps.

    snnkit bench sparsity --part products --density 0.01 --density 0.05
    snnkit bench sparsity --part steps
    snnkit bench sparsity --device cuda

Products: forward is inference; training adds the gradients of weights and bias. "PyTorch" is ``nn.Linear``; "dense" is
the same layer in our networks under ``nn.dense_products``, which calls oneDNN where that is faster; "CSR" turns the
input into a sparse matrix of PyTorch's in each call; "brainevent" is of JAX, in a process of its own. On a GPU ours
takes a list of events that is there already (``data.events.to_list``), since ``nn.Sequential`` looks for none in a
tensor there, and the sparse linear layer of SpikingJelly runs beside it, if its kernels were built. All are compared
with float64. Then all take turns but CSR and brainevent: whoever follows these waits for memory or caches. "gain" is
how many times as fast ours is as the faster dense product. Where it is 1, our rule took the dense one.

Steps: forward, loss, backward and plain SGD of networks for SHD, N-MNIST and MNIST, whose hidden layers fire in 5 % of
all steps. "dense products" is ours under ``nn.dense_products``; "loop" also takes the recurrent layer step by step;
"event list" gets its input as a list, made before. Others have the weights of ours, and one update is compared with our
eager engine on the same equation. Of recurrent Spyx only the shapes are equal: its spikes come back a step earlier.
"x ours" is over ours on the same equation, and "peak MB" holds the input, too.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.event_lists import EventList
from snnkit.lab.bench import remote, spiking_steps, suite
from snnkit.lab.bench.suite import OURS, DoesNotRun, Outcome, Record, Row, Rows, Suite, option, seconds_of, table, times
from snnkit.linear import dense_products, linear
from snnkit.measure import clock_for, race
from snnkit.nn import Sequential

FORWARD, TRAINING = MODES = ("forward", "training")
EVENTS, DENSE, PYTORCH, CSR, PEER, BRAINEVENT = CONTESTANTS = (
    *(OURS, "dense", "PyTorch", "CSR", "SpikingJelly"),
    "brainevent",
)
APART = (CSR, BRAINEVENT)
PRODUCTS, STEPS = PARTS = ("products", "steps")

# Largest difference from float64, relative to the largest number: sums of thousands of float32 numbers in any order.
MAY_DIFFER = 1e-5


class Shape(NamedTuple):
    """Rows (time steps times samples), inputs and outputs of a product."""

    rows: int
    inputs: int
    outputs: int

    def __str__(self) -> str:
        return f"{self.rows} x {self.inputs} -> {self.outputs}"


# A wide layer; the first for SHD; a middle one; the first for N-MNIST (T = 100, B = 64), for MNIST (T = 25, B = 128).
SHAPES = (Shape(3200, 1000, 1000), Shape(3200, 700, 256), Shape(8000, 512, 512), Shape(6400, 2312, 512))
SHAPES += (Shape(3200, 784, 1000),)
QUICK_SHAPES = (Shape(600, 400, 300),)


@checks.arguments
@dataclass(frozen=True)
class Arguments(suite.Options):
    """What to run; the options of ``snnkit bench sparsity``."""

    device: str = option("Where to measure.", "cpu", choices=("auto", "cpu", "cuda"))
    parts: Sequence[str] = option("What to time.", PARTS, flag="part", choices=PARTS)
    densities: Sequence[float] = option(
        "Share of the inputs that are spikes.",
        (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5),
        flag="density",
        quick=(0.02, 0.5),
    )
    peers: bool = suite.peers_option()
    jax: str = remote.jax_option()
    repeats: int = suite.repeats_option(11)
    quick: bool = field(default=False, metadata={"quick": True})


class Case:
    """One shape, forward or in training, at several densities."""

    def __init__(
        self, shape: Shape, mode: str, densities: Sequence[float], device: torch.device, python: str = ""
    ) -> None:
        """``python``: where brainevent is, or an empty string."""
        self.shape, self.mode, self.densities, self.device, self.python = shape, mode, densities, device, python
        self.labels = {"case": str(shape), "mode": mode, "dtype": "float32"}

    def measure(self, repeats: int) -> Outcome:
        """Compare, then time all in turns, density by density."""
        outcome = Outcome([], {}, [])
        self._remote: remote.Remote | None = None
        with contextlib.ExitStack() as self._ending:
            for density in self.densities:
                rows, skipped = self._measured(density, repeats)
                outcome.rows.extend(rows)
                outcome.skipped.extend(skipped)
        return outcome

    def _measured(self, density: float, repeats: int) -> tuple[list[Row], list[Row]]:
        labels = self.labels | {"density": density}
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            layer, x = nn.Linear(*self.shape[1:]), (torch.rand(self.shape[:2]) < density).float()
            gradient = torch.randn(self.shape.rows, self.shape.outputs)
        layer, x, gradient = layer.to(self.device), x.to(self.device), gradient.to(self.device)
        exact = self._results(layer.double(), layer, x.double(), gradient.double())
        layer.float()
        rows, runs, skipped = [], {}, []
        prepared = [(name, partial(self._here, product)) for name, product in products(layer, x).items()]
        for name, prepare in [*prepared, *([(BRAINEVENT, self._brainevent)] if self.python else [])]:
            library = {EVENTS: OURS, DENSE: OURS, PEER: PEER, BRAINEVENT: BRAINEVENT}.get(name, PYTORCH)
            try:
                run, results = suite.attempt(library, partial(prepare, layer, x, gradient))
                pairs = zip(results, exact, strict=True)
                differ = max(((ours - right).abs().max() / right.abs().max()).item() for ours, right in pairs)
                if not differ <= MAY_DIFFER:
                    raise DoesNotRun(f"it computes something else: {differ:.2g} off")
            except DoesNotRun as reason:
                skipped.append(labels | {"contestant": name, "reason": str(reason)})
                continue
            rows.append(labels | {"contestant": name, "library": library, "differ": differ})
            runs[name] = run
        # Whoever follows these two waits for memory or caches that they have used.
        groups = [{n: run for n, run in runs.items() if n not in APART}, *({n: runs[n]} for n in APART if n in runs)]
        timings = {
            name: timing
            for group in groups
            if group
            for name, timing in race(group, repeats, clock=remote.RemoteClock(clock_for(self.device))).items()
        }
        return [row | seconds_of(timings[row["contestant"]]) for row in rows], skipped

    def _here(
        self, product: Callable[[Tensor], Tensor], layer: nn.Linear, x: Tensor, gradient: Tensor
    ) -> tuple[Callable[[], object], Sequence[Tensor]]:
        run = partial(self._results, product, layer, x, gradient)
        return run, run()

    def _brainevent(
        self, layer: nn.Linear, x: Tensor, gradient: Tensor
    ) -> tuple[Callable[[], object], Sequence[Tensor]]:
        if self._remote is None:
            wanted = dict(layer.named_parameters())
            job = {"what": "product", "mode": self.mode, "precision": "highest", "wanted": list(wanted)}
            sent = {"x": x, "d_out": gradient, **wanted}
            self._remote, _ = remote.start(BRAINEVENT, self.python, job, sent, self.device, self._ending)
        out, flat = self._remote.again(x)  # at each density, all but x is the same
        if flat is None:
            return self._remote, (out,)
        weight, bias = flat.split([layer.weight.numel(), layer.out_features])
        return self._remote, (weight.view_as(layer.weight), bias)

    def _results(
        self, product: Callable[[Tensor], Tensor], layer: nn.Linear, x: Tensor, gradient: Tensor
    ) -> Sequence[Tensor]:
        if self.mode == FORWARD:
            with torch.no_grad():
                return (product(x),)
        return torch.autograd.grad(product(x), (layer.weight, layer.bias), gradient)


def products(layer: nn.Linear, spikes: Tensor) -> dict[str, Callable[[Tensor], Tensor]]:
    """The ways to compute ``layer(spikes)`` for spikes [B, I], by contestant."""

    def dense(x: Tensor) -> Tensor:
        with dense_products():
            return linear(layer, x)

    def csr(x: Tensor) -> Tensor:
        return x.to_sparse_csr() @ layer.weight.t() + layer.bias

    if not spikes.is_cuda:
        return {EVENTS: partial(linear, layer), DENSE: dense, PYTORCH: layer, CSR: csr}
    listed = EventList.of(spikes[:, None])
    net = Sequential(layer)
    ways = {EVENTS: lambda x: net(listed)[0][:, 0], PYTORCH: layer, CSR: csr}
    if importlib.util.find_spec("spikingjelly"):
        ways[PEER] = partial(_spikingjelly, layer)
    return ways


def _spikingjelly(layer: nn.Linear, x: Tensor) -> Tensor:
    """Its sparse layer, which takes PyTorch's dense product without a word where its kernel was not built."""
    if importlib.util.find_spec("spikingjelly._ops.spike_linear._C") is None:
        raise DoesNotRun("its CUDA kernel was not built, and without it PyTorch computes the product")
    spike = importlib.import_module("spikingjelly.activation_based.functional.spike")
    return spike.sparse_linear(x, layer.weight, layer.bias, strategy="sparse")


def _cases(arguments: Arguments, device: torch.device) -> Iterator[Case | spiking_steps.Case]:
    for shape in (QUICK_SHAPES if arguments.quick else SHAPES) if PRODUCTS in arguments.parts else ():
        for mode in MODES:
            yield Case(shape, mode, arguments.densities, device, arguments.jax if arguments.peers else "")
    nets = spiking_steps.QUICK_NETS if arguments.quick else spiking_steps.NETS
    for net in nets if STEPS in arguments.parts else ():
        yield spiking_steps.Case(net, arguments.peers, arguments.jax, device)


def _table(record: Record, rows: Rows) -> str:
    if rows[0]["mode"] == spiking_steps.STEP:
        return spiking_steps.as_table(rows)
    lines: list[Row] = []
    for some in suite.by_case(rows, ("density",)):
        seconds = {row["contestant"]: row["median_s"] for row in some}
        faster = min(seconds[name] for name in (DENSE, PYTORCH) if name in seconds)
        gain = times(faster, seconds[EVENTS]) if EVENTS in seconds else ""
        lines.append({"density": some[0]["density"], "gain": gain} | seconds)
    columns: dict[str, Callable[[Record], str]] = {"spikes": lambda line: f"{line['density']:.1%}"}
    for name in (name for name in CONTESTANTS if any(name in line for line in lines)):
        columns[f"{name} ms"] = lambda line, name=name: f"{1e3 * line[name]:.3g}" if name in line else ""
    columns["gain"] = lambda line: line["gain"]
    return table(f"{rows[0]['case']}, {rows[0]['mode']}", columns, lines)


SUITE = Suite("sparsity", ("case", "mode"), _cases, _table)
benchmark, tables = SUITE.run, SUITE.tables
