"""Networks that get spikes, in training: ours and the installed peers, for ``snnkit bench sparsity``."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from snnkit.device import Precision
from snnkit.event_lists import EventList
from snnkit.lab.bench import remote, suite
from snnkit.lab.bench.baselines import EQUATIONS as EQUATIONS_OF, NORSE, SNNTORCH, SPIKINGJELLY, imported, over_time
from snnkit.lab.bench.frameworks import EQUATION_OF_SPYX, SPYX
from snnkit.lab.bench.suite import OURS, DoesNotRun, Outcome, Row, Rows, seconds_of, table, times
from snnkit.lab.bench.workloads import EQUATIONS, fill, plain_step
from snnkit.linear import dense_products
from snnkit.loss import count_cross_entropy
from snnkit.measure import clock_for, peak_of, race
from snnkit.neuron import CubaLIF, Recurrent
from snnkit.nn import Sequential
from snnkit.surrogate import SuperSpike

STEP = "training step"
LISTED, DENSE, LOOP = "snnkit, event list", "snnkit, dense products", "snnkit, dense products, loop"

# Weights are scaled until so many outputs of each layer are spikes.
FIRING = 0.05

# From an update of our eager engine: share of the output spikes, and relative L2 distance of the gradients. Sums in
# another order move a spike of a hidden layer now and then, and what depends on it.
SPIKES_MAY_DIFFER, GRADIENTS_MAY_DIFFER = 0.01, 0.1


class Net(NamedTuple):
    """A network of linear layers without bias, and neurons. ``density``: share of its inputs that are spikes."""

    sizes: tuple[int, ...]
    recurrent: bool  # the first layer
    steps: int
    batch: int
    density: float

    def __str__(self) -> str:
        first, second, *rest = self.sizes
        layers = "-".join(map(str, (first, f"{second}{'rec' * self.recurrent}", *rest)))
        return f"{layers}, T = {self.steps}, batch {self.batch}"


# Those for SHD, for N-MNIST and, of images as random spikes, for MNIST.
NETS = (Net((700, 512, 20), True, 100, 64, 0.02), Net((2312, 512, 10), False, 100, 64, 0.015))
NETS += (Net((784, 1000, 1000, 10), False, 25, 128, 0.1),)
QUICK_NETS = (Net((70, 40, 5), True, 20, 8, 0.1), Net((50, 40, 5), False, 20, 8, 0.1))


Made = tuple[nn.Module, Callable[[], Tensor]]  # a network, and what computes its spikes [T, B, classes]


class Contestant(NamedTuple):
    """Who trains the network. ``make``: (Net, its input [T, B, n]) to a network with the weights of ours, in order."""

    name: str
    library: str
    equation: str
    make: Callable[[Net, Tensor], Made]
    around: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext


def contestants(net: Net, peers: bool) -> Iterator[Contestant]:
    """Ours on snnTorch's equation in all ways, then each peer beside ours on its equation."""
    main = EQUATIONS_OF[SNNTORCH]
    yield Contestant(OURS, OURS, main, _ours(main))
    yield Contestant(LISTED, OURS, main, _ours(main, listed=True))
    yield Contestant(DENSE, OURS, main, _ours(main), dense_products)
    if net.recurrent:
        yield Contestant(LOOP, OURS, main, _ours(main, looped=True), dense_products)
    makers = {SNNTORCH: _snntorch, SPIKINGJELLY: _spikingjelly, NORSE: _norse, SPYX: None}
    for library, make in makers.items() if peers else ():
        equation = EQUATIONS_OF.get(library, EQUATION_OF_SPYX)
        if equation != main:
            yield Contestant(OURS, OURS, equation, _ours(equation))
        yield Contestant(library, library, equation, make)  # type: ignore[arg-type]


def network(net: Net, equation: str, engine: str = "auto") -> Sequential:
    """Ours."""
    layers: list[nn.Module] = []
    for i, (inputs, outputs) in enumerate(pairwise(net.sizes)):
        neuron, recurrent = EQUATIONS[equation](engine), net.recurrent and not i
        if recurrent and equation == "CubaLIF":  # Norse detaches the reset in its recurrent layers only
            neuron = CubaLIF(surrogate=SuperSpike(1.0), detach_reset=True, engine=engine)
        layers += [nn.Linear(inputs, outputs, bias=False), Recurrent(neuron, outputs) if recurrent else neuron]
    return Sequential(*layers)


def _ours(
    equation: str, engine: str = "auto", *, listed: bool = False, looped: bool = False
) -> Callable[[Net, Tensor], Made]:
    def make(net: Net, x: Tensor) -> Made:
        model = network(net, equation, engine)
        if looped:  # whoever has a hook is called step by step
            model[1].neuron.register_forward_hook(lambda *call: None)  # type: ignore[union-attr, operator]
        given = EventList.of(x) if listed else x
        return model, lambda: model(given)[0]

    return make


def _snntorch(net: Net, x: Tensor) -> Made:
    library, layers = imported(SNNTORCH), nn.ModuleList()
    for i, (inputs, outputs) in enumerate(pairwise(net.sizes)):
        neuron = library.Leaky(beta=0.9)
        if net.recurrent and not i:
            neuron = library.RLeaky(beta=0.9, linear_features=outputs)
            neuron.recurrent = nn.Linear(outputs, outputs, bias=False)
        layers += [nn.Linear(inputs, outputs, bias=False), neuron]

    def cell(neuron: nn.Module, x: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, Sequence[Tensor]]:
        spikes, membrane = neuron(x, *state)
        return spikes, (spikes, membrane)[2 - len(state) :]

    def run() -> Tensor:
        out = x
        for i in range(0, len(layers), 2):  # a layer for all steps, then the next: faster than all layers step by step
            current = layers[i](out)
            state = [torch.zeros_like(current[0])] * (2 if net.recurrent and not i else 1)
            out = over_time(partial(cell, layers[i + 1]), current, state)
        return out

    return layers, run


class _Back(nn.Module):
    """(last output, x) -> x and what comes back."""

    def __init__(self, features: int) -> None:
        super().__init__()
        self.weight = nn.Linear(features, features, bias=False)

    def forward(self, out: Tensor, x: Tensor) -> Tensor:
        return x + self.weight(out)


def _spikingjelly(net: Net, x: Tensor) -> Made:
    sj, layers = imported(SPIKINGJELLY), []
    for i, (inputs, outputs) in enumerate(pairwise(net.sizes)):
        recurrent = net.recurrent and not i
        neuron = sj.neuron.LIFNode(surrogate_function=sj.surrogate.ATan(), step_mode="s" if recurrent else "m")
        if recurrent:
            neuron = sj.layer.ElementWiseRecurrentContainer(neuron, _Back(outputs), step_mode="m")
        layers += [sj.layer.Linear(inputs, outputs, bias=False, step_mode="m"), neuron]
    model = nn.Sequential(*layers)

    def run() -> Tensor:
        sj.functional.reset_net(model)
        return model(x)

    return model, run


def _norse(net: Net, x: Tensor) -> Made:
    norse, layers = imported(NORSE), []
    for i, (inputs, outputs) in enumerate(pairwise(net.sizes)):
        if net.recurrent and not i:
            layers.append(norse.LIFRecurrent(inputs, outputs, autapses=True))
        else:
            layers += [nn.Linear(inputs, outputs, bias=False), norse.LIF()]
    model = norse.SequentialState(*layers)
    return model, lambda: model(x)[0]


class Case:
    """Updates of one network."""

    def __init__(self, net: Net, peers: bool, python: str, device: torch.device) -> None:
        self.net, self.peers, self.python, self.device = net, peers, python, device
        self.labels = {"case": str(net), "mode": STEP, "dtype": "float32", "density": net.density}
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            self.x = (torch.rand(net.steps, net.batch, net.sizes[0]) < net.density).float().to(device)
            self.classes = torch.randint(net.sizes[-1], (net.batch,)).to(device)
        self._weights: dict[str, tuple[list[Tensor], float]] = {}
        self._expected: dict[str, tuple[Tensor, Tensor]] = {}

    def measure(self, repeats: int) -> Outcome:
        """Compare an update, then time all in turns."""
        rows, runs, skipped = [], [], []
        with contextlib.ExitStack() as self._ending:
            for one in contestants(self.net, self.peers):
                row = self.labels | {"contestant": one.name, "library": one.library, "equation": one.equation}
                try:
                    about, run = suite.attempt(one.library, partial(self._prepared, one))
                except DoesNotRun as reason:
                    skipped.append(row | {"reason": str(reason)})
                    continue
                rows.append(row | about | {"hidden": self.weights(one.equation)[1]})
                runs.append(run)
            clock = remote.RemoteClock(clock_for(self.device))
            timings = race(dict(enumerate(runs)), repeats, clock=clock).values()
        return Outcome([row | seconds_of(timing) for row, timing in zip(rows, timings, strict=True)], {}, skipped)

    def weights(self, equation: str) -> tuple[list[Tensor], float]:
        """Random ones with which ``FIRING`` of the outputs of each layer are spikes, in the order of the parameters;
        and that share in the first layer."""
        if equation not in self._weights:
            with torch.random.fork_rng([]), torch.no_grad():
                torch.manual_seed(1)
                model, out = network(self.net, equation).to(self.device), self.x
                layers: list[Any] = list(model)
                shares = []
                for layer, neuron in zip(layers[::2], layers[1::2], strict=True):
                    out = _scaled(layer, neuron, out)
                    shares.append(out.mean().item())
            self._weights[equation] = [p.detach() for p in model.parameters()], shares[0]
        return self._weights[equation]

    def _prepared(self, one: Contestant) -> tuple[Row, Callable[[], object]]:
        weights = self.weights(one.equation)[0]
        if one.library == SPYX:
            return self._spyx(one, weights)
        if one.library != OURS and imported(one.library) is None:
            raise DoesNotRun("it is not installed: make peers")
        run, result = self._updated(one, weights)
        given = self.x.nbytes
        if one.name == LISTED:
            listed = EventList.of(self.x)
            given = listed.starts.nbytes + listed.places.nbytes
        return self._verified(one, result) | {"peak_bytes": given + peak_of(run, self.device)}, run

    def _updated(self, one: Contestant, weights: list[Tensor]) -> tuple[Callable[[], Tensor], tuple[Tensor, Tensor]]:
        """What makes an update; and the spikes and gradients of the first."""
        model, forward = one.make(self.net, self.x)
        parameters = list(model.to(self.device).parameters())
        fill(parameters, weights)
        optimizer = torch.optim.SGD(parameters, lr=0.0)  # it computes, and weights and densities stay
        step = plain_step(forward, count_cross_entropy, self.classes, optimizer, Precision(self.device, None))

        def run() -> Tensor:
            with one.around():
                return step()

        out = run()
        return run, (out, torch.cat([p.grad.flatten() for p in parameters if p.grad is not None]))

    def _spyx(self, one: Contestant, weights: list[Tensor]) -> tuple[Row, Callable[[], object]]:
        names = [f"weight{i}" for i in range(len(self.net.sizes) - 1)]
        if self.net.recurrent:
            names.insert(1, "recurrent")
        job = {"what": "step", "mode": "training", "beta": 0.9, "precision": "highest", "wanted": names}
        sent = {"x": self.x, "labels": self.classes, **dict(zip(names, weights, strict=True))}
        run, about = remote.start(SPYX, self.python, job, sent, self.device, self._ending)
        # Its recurrent spikes come back within a step, ours in the next: not equal, but of the same shapes.
        about["peak_bytes"] += self.x.nbytes
        return about | self._verified(one, run.results(self.device), alike=not self.net.recurrent), run

    def _verified(self, one: Contestant, result: tuple[Tensor, Tensor | None], alike: bool = True) -> Row:
        """How far an update is from that of our eager engine; ``DoesNotRun`` if too far from what should be alike."""
        if one.equation not in self._expected:
            eager = Contestant("eager", OURS, one.equation, _ours(one.equation, "eager"), dense_products)
            self._expected[one.equation] = self._updated(eager, self.weights(one.equation)[0])[1]
        (out, gradient), (expected, exact) = result, self._expected[one.equation]
        spikes = (out != expected).float().mean().item()
        differ = suite.distance(gradient, exact)  # type: ignore[arg-type]
        if alike and not (spikes <= SPIKES_MAY_DIFFER and differ <= GRADIENTS_MAY_DIFFER):
            off = f"{spikes:.2%} of its output spikes differ, its gradients are {differ:.2%} off"
            raise DoesNotRun(f"it computes something else: {off}")
        return {"spikes_differ": spikes, "differ": differ}


def _scaled(layer: nn.Module, neuron: nn.Module, x: Tensor) -> Tensor:
    """The spikes of a layer of neurons for x [T, B, n], once its weights are such that ``FIRING`` of them fire."""
    parameters = [*layer.parameters(), *neuron.parameters()]
    directions = [torch.randn(p.shape).to(p) for p in parameters]
    low, high = 0.0, 16 / math.sqrt(x.shape[-1])
    for _ in range(12):
        fill(parameters, [(low + high) / 2 * direction for direction in directions])
        out = neuron(layer(x))[0]
        low, high = ((low + high) / 2, high) if out.mean() < FIRING else (low, (low + high) / 2)
    return out


def as_table(rows: Rows) -> str:
    """A case as text."""
    best = {row["equation"]: row["median_s"] for row in rows if row["contestant"] == OURS}
    columns = {
        **suite.columns("candidate", "equation", "ms", "10-90 %"),
        "x ours": lambda row: times(row["median_s"], best.get(row["equation"])),
        **suite.columns("peak MB"),
        "hidden": lambda row: f"{row['hidden']:.1%}",
    }
    return table(f"{rows[0]['case']}, {STEP}, {rows[0]['density']:.1%} of the inputs are spikes", columns, rows, left=2)
