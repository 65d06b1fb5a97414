"""Seven public examples of other libraries, ported: the same numbers, the speed of an update and the lines of code.

    snnkit bench ports --port tutorial-5 --port shd

An original is written as its library's tutorial shows, and a port as this kit's pages do. Both get the same weights and
batch. Before a clock starts, the output and the gradients of one update are compared. Then both take turns in one
process. Images, sounds and labels are random, because speed does not depend on what they show.

An update is forward, loss, backward and Adam. "auto" compiles some small layers only, so an engine that compiles all
runs beside it. "lines" are those of code for the network and its loss. "outputs off" is the share of the output that
differs by more than a ten-thousandth of its largest value: sums are added up in another order, and a membrane at its
threshold fires a step later. "gradients off" is the distance of all gradients in L2.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from snnkit import checks, encode
from snnkit.lab.bench import neurons, suite
from snnkit.lab.bench.baselines import NORSE, SNNTORCH, SPIKINGJELLY, imported
from snnkit.lab.bench.suite import OURS, DoesNotRun, Outcome, Record, Row, Rows, Suite, option, seconds_of, table, times
from snnkit.lab.bench.workloads import DRIVE, fill
from snnkit.loss import count_mse, membrane_max_cross_entropy, rate_cross_entropy, rate_mse
from snnkit.measure import ThroughputClock, race
from snnkit.neuron import LI, LIF, CubaLIF, Leaky, Readout, Recurrent, named_neurons
from snnkit.nn import Sequential, recording
from snnkit.surrogate import FastSigmoid, SuperSpike

KEY = ("port",)

# Of an update in float32, as PyTorch adds up products of another shape in another order.
OUTPUTS_MAY_DIFFER, GRADIENTS_MAY_DIFFER = 0.01, 0.1

Loss = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]  # (x [B, ...], targets) -> the output that counts, loss
Model = tuple[nn.Module, Loss]
Result = tuple[Tensor, Tensor]  # the output and all gradients of an update


class Port(NamedTuple):
    """An example of another library. ``theirs``: (its module, T) to a model; ``ours``: T to one with the same weights,
    in the same order. ``data``: (batch, T) to a batch."""

    library: str
    steps: int
    batch: int
    rate: float  # of learning, by Adam
    data: Callable[[int, int], tuple[Tensor, Tensor]]
    theirs: Callable[[Any, int], Model]
    ours: Callable[[int], Model]


# -- snnTorch, tutorial 5: a dense network, and the cross-entropy of its membranes at every step


def _their_tutorial_5(snntorch: Any, steps: int) -> Model:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(784, 1000)
            self.lif1 = snntorch.Leaky(beta=0.95)
            self.fc2 = nn.Linear(1000, 10)
            self.lif2 = snntorch.Leaky(beta=0.95)

        def forward(self, x: Tensor) -> Tensor:
            mem1, mem2 = self.lif1.init_leaky(), self.lif2.init_leaky()
            membranes = []
            for _ in range(steps):
                spikes, mem1 = self.lif1(self.fc1(x), mem1)
                spikes, mem2 = self.lif2(self.fc2(spikes), mem2)
                membranes.append(mem2)
            return torch.stack(membranes)

    net = Net()

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        membranes = net(x.flatten(1))
        return membranes, torch.stack([F.cross_entropy(membrane, targets) for membrane in membranes]).sum()

    return net, loss


def tutorial_5(steps: int) -> Model:
    net = Sequential(nn.Linear(784, 1000), Leaky(0.95), nn.Linear(1000, 10), Leaky(0.95))

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        with recording(net, states=True) as rec:
            net(encode.repeat(x.flatten(1), steps))
        membranes = rec.states["3"].mem
        return membranes, steps * rate_cross_entropy(membranes, targets)

    return net, loss


# -- snnTorch, tutorial 6: convolutions, neurons that hold their state


def _their_tutorial_6(snntorch: Any, steps: int) -> Model:
    leaky = partial(snntorch.Leaky, beta=0.5, spike_grad=snntorch.surrogate.fast_sigmoid(slope=25), init_hidden=True)
    net = nn.Sequential(
        *(nn.Conv2d(1, 12, 5), nn.MaxPool2d(2), leaky(), nn.Conv2d(12, 64, 5), nn.MaxPool2d(2), leaky()),
        *(nn.Flatten(), nn.Linear(1024, 10), leaky(output=True)),
    )
    criterion = snntorch.functional.ce_rate_loss()

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        snntorch.utils.reset(net)
        recorded = []
        for _ in range(steps):
            spikes, _ = net(x)
            recorded.append(spikes)
        spikes = torch.stack(recorded)
        return spikes, criterion(spikes, targets)

    return net, loss


def tutorial_6(steps: int) -> Model:
    leaky = partial(Leaky, 0.5, surrogate=FastSigmoid(25.0))
    net = Sequential(
        *(nn.Conv2d(1, 12, 5), nn.MaxPool2d(2), leaky(), nn.Conv2d(12, 64, 5), nn.MaxPool2d(2), leaky()),
        *(nn.Flatten(), nn.Linear(1024, 10), leaky()),
    )

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        spikes, _ = net(encode.repeat(x, steps))
        return spikes, rate_cross_entropy(spikes, targets)

    return net, loss


# -- snnTorch, tutorial on population codes: 50 neurons for each class, one step


def _their_population(snntorch: Any, steps: int) -> Model:
    leaky = partial(snntorch.Leaky, beta=0.9, spike_grad=snntorch.surrogate.fast_sigmoid(), init_hidden=True)
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), leaky(), nn.Linear(128, 500), leaky(output=True))
    criterion = snntorch.functional.mse_count_loss(
        correct_rate=1.0, incorrect_rate=0.0, population_code=True, num_classes=10
    )

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        snntorch.utils.reset(net)
        spikes = torch.stack([net(x)[0] for _ in range(steps)])
        return spikes, criterion(spikes, targets)

    return net, loss


def population(steps: int) -> Model:
    leaky = partial(Leaky, 0.9, surrogate=FastSigmoid(25.0))
    net = Sequential(nn.Flatten(), nn.Linear(784, 128), leaky(), nn.Linear(128, 500), leaky())

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        spikes, _ = net(encode.repeat(x, steps))
        return spikes, count_mse(spikes, targets, population_size=50)

    return net, loss


# -- snnTorch, tutorial on regression: decays are learned, thresholds random, the membrane follows a curve


def _their_regression(snntorch: Any, steps: int) -> Model:
    class Net(nn.Module):
        def __init__(self, hidden: int) -> None:
            super().__init__()
            one, two = torch.rand(2, 2, hidden)  # a decay and a threshold for each neuron
            grad = snntorch.surrogate.fast_sigmoid()
            self.fc1 = nn.Linear(1, hidden)
            self.lif1 = snntorch.Leaky(beta=one[0], threshold=one[1], learn_beta=True, spike_grad=grad)
            self.fc2 = nn.Linear(hidden, hidden)
            self.lif2 = snntorch.Leaky(beta=two[0], threshold=two[1], learn_beta=True, spike_grad=grad)
            self.fc3 = nn.Linear(hidden, 1)
            self.out = snntorch.Leaky(beta=torch.rand(1), learn_beta=True, spike_grad=grad, reset_mechanism="none")

        def forward(self, x: Tensor) -> Tensor:
            mem1, mem2, mem3 = self.lif1.init_leaky(), self.lif2.init_leaky(), self.out.init_leaky()
            membranes = []
            for x_t in x:
                spikes, mem1 = self.lif1(self.fc1(x_t), mem1)
                spikes, mem2 = self.lif2(self.fc2(spikes), mem2)
                _, mem3 = self.out(self.fc3(spikes), mem3)
                membranes.append(mem3)
            return torch.stack(membranes)

    net = Net(128)

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        membranes = net(x)
        return membranes, F.mse_loss(membranes, targets)

    return net, loss


def regression(steps: int) -> Model:
    one, two = torch.rand(2, 2, 128)  # a decay and a threshold for each neuron
    leaky = partial(Leaky, surrogate=FastSigmoid(25.0))
    net = Sequential(
        *(nn.Linear(1, 128), leaky(nn.Parameter(one[0]), one[1])),
        *(nn.Linear(128, 128), leaky(nn.Parameter(two[0]), two[1])),
        *(nn.Linear(128, 1), Readout(nn.Parameter(torch.rand(1)))),
    )

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        membranes, _ = net(x)
        return membranes, F.mse_loss(membranes, targets)

    return net, loss


# -- SpikingJelly, lif_fc_mnist: one layer, random spikes, the mean squared error of rates


def _their_lif_fc_mnist(sj: Any, steps: int) -> Model:
    node = sj.neuron.LIFNode(tau=2.0, surrogate_function=sj.surrogate.ATan())
    net = nn.Sequential(sj.layer.Flatten(), sj.layer.Linear(784, 10, bias=False), node)
    encoder = sj.encoding.PoissonEncoder()

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        rates = torch.zeros(len(x), 10, device=x.device)
        for _ in range(steps):
            rates = rates + net(encoder(x))
        rates = rates / steps
        sj.functional.reset_net(net)
        return rates, F.mse_loss(rates, F.one_hot(targets, 10).float())

    return net, loss


def lif_fc_mnist(steps: int) -> Model:
    net = Sequential(nn.Flatten(), nn.Linear(784, 10, bias=False), LIF(tau=2.0))

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        spikes, _ = net(encode.poisson(x, steps))
        return spikes.mean(0), rate_mse(spikes, targets)

    return net, loss


# -- Norse, task mnist: pixels as currents of neurons, convolutions, the highest membrane


def _their_mnist(norse: Any, steps: int) -> Model:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            low = norse.LIFParameters(v_th=torch.as_tensor(0.7))
            self.encoder = norse.ConstantCurrentLIFEncoder(seq_length=steps)
            self.conv1, self.lif1 = nn.Conv2d(1, 32, 5), norse.LIFCell(p=low)
            self.conv2, self.lif2 = nn.Conv2d(32, 64, 5), norse.LIFCell(p=low)
            self.fc, self.lif3 = nn.Linear(1024, 1024), norse.LIFCell()
            self.out = norse.LILinearCell(1024, 10)

        def forward(self, x: Tensor) -> Tensor:
            s1 = s2 = s3 = so = None
            voltages = []
            for x_t in self.encoder(x):
                z, s1 = self.lif1(self.conv1(x_t), s1)
                z, s2 = self.lif2(10 * self.conv2(F.max_pool2d(z, 2)), s2)
                z, s3 = self.lif3(self.fc(F.max_pool2d(z, 2).flatten(1)), s3)
                v, so = self.out(z, so)
                voltages.append(v)
            return torch.stack(voltages)

    net = Net()

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        voltages = net(x)
        return voltages, F.nll_loss(F.log_softmax(voltages.max(0).values, dim=1), targets)

    return net, loss


def mnist(steps: int) -> Model:
    class Tenfold(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return 10 * x

    # Norse 1.1 leaves its alpha = 100 out of the derivative.
    lif = partial(CubaLIF, surrogate=SuperSpike(1.0))
    net = Sequential(
        *(nn.Conv2d(1, 32, 5), lif(v_th=0.7), nn.MaxPool2d(2), nn.Conv2d(32, 64, 5), Tenfold(), lif(v_th=0.7)),
        *(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(1024, 1024), lif(), nn.Linear(1024, 10, bias=False), LI()),
    )

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        voltages, _ = net(encode.constant_current_lif(x, steps))
        return voltages, membrane_max_cross_entropy(voltages, targets)

    return net, loss


# -- Norse, a recurrent network for spoken digits of SHD: 700 channels, 20 classes


def _their_shd(norse: Any, steps: int) -> Model:
    recurrent = norse.LIFRecurrent(700, 200, autapses=True)
    net = norse.SequentialState(recurrent, norse.Lift(nn.Linear(200, 20, bias=False)), norse.LI())

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        voltages, _ = net(x)
        return voltages, F.cross_entropy(voltages.max(0).values, targets)

    return net, loss


def shd(steps: int) -> Model:
    recurrent = Recurrent(CubaLIF(surrogate=SuperSpike(1.0), detach_reset=True), 200)
    net = Sequential(nn.Linear(700, 200, bias=False), recurrent, nn.Linear(200, 20, bias=False), LI())

    def loss(x: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        voltages, _ = net(x)
        return voltages, membrane_max_cross_entropy(voltages, targets)

    return net, loss


# -- their data, random


def _images(batch: int, steps: int) -> tuple[Tensor, Tensor]:
    """As many dark pixels as in MNIST."""
    return torch.rand(batch, 1, 28, 28) * (torch.rand(batch, 1, 28, 28) < 0.2), torch.randint(10, (batch,))


def _normalised(batch: int, steps: int) -> tuple[Tensor, Tensor]:
    """By the mean and the deviation of MNIST: pixels of at most 1 would never make a neuron of the encoder fire."""
    images, labels = _images(batch, steps)
    return (images - 0.1307) / 0.3081, labels


def _curve(batch: int, steps: int) -> tuple[Tensor, Tensor]:
    x = torch.linspace(0, 1, steps).view(-1, 1, 1).expand(-1, batch, 1)
    return x, (x * torch.rand(batch, 1)).sqrt()


def _sounds(batch: int, steps: int) -> tuple[Tensor, Tensor]:
    return (torch.rand(steps, batch, 700) < 0.02).float(), torch.randint(20, (batch,))


PORTS = {
    "tutorial-5": Port(SNNTORCH, 25, 128, 5e-4, _images, _their_tutorial_5, tutorial_5),
    "tutorial-6": Port(SNNTORCH, 50, 128, 1e-2, _images, _their_tutorial_6, tutorial_6),
    "population": Port(SNNTORCH, 1, 128, 2e-3, _images, _their_population, population),
    "regression": Port(SNNTORCH, 50, 1, 1e-3, _curve, _their_regression, regression),
    "lif-fc-mnist": Port(SPIKINGJELLY, 100, 64, 1e-3, _images, _their_lif_fc_mnist, lif_fc_mnist),
    "mnist": Port(NORSE, 200, 32, 2e-3, _normalised, _their_mnist, mnist),
    "shd": Port(NORSE, 100, 128, 1e-3, _sounds, _their_shd, shd),
}


def lines(function: Callable[..., Any]) -> int:
    """Lines of its code, without those that are empty or only a comment."""
    code = (line.strip() for line in inspect.getsource(function).splitlines())
    return sum(bool(line) and not line.startswith("#") for line in code)


# -- how they are measured


@checks.arguments
@dataclass(frozen=True)
class Arguments(suite.Options):
    """What to run; the options of ``snnkit bench ports``."""

    ports: Sequence[str] = option("The examples.", tuple(PORTS), flag="port", choices=tuple(PORTS))
    batch: int = option("Samples of an update, where the original has more.", 128, quick=2)
    steps: int = option("Time steps, where the original has more.", 200, quick=20)
    peers: bool = suite.peers_option()
    repeats: int = suite.repeats_option(7)


class Case:
    """One example, ours beside the original."""

    def __init__(self, name: str, arguments: Arguments, device: torch.device) -> None:
        self.port, self.device, self.peers = PORTS[name], device, arguments.peers
        self.steps, self.batch = min(self.port.steps, arguments.steps), min(self.port.batch, arguments.batch)
        compiled = ("cpp",) if device.type == "cpu" else ("triton",)
        self.engines = [layer.name for layer in neurons.candidates(device, compiled, peers=False)[0]]
        self.labels = {"port": name, "dtype": "float32", "steps": self.steps, "batch": self.batch}

    def measure(self, repeats: int) -> Outcome:
        """Compare an update, then time all in turns; ours alone if the library is not installed."""
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            data = [tensor.to(self.device) for tensor in self.port.data(self.batch, self.steps)]
        first, expected, weights = self._prepared(partial(self._ours, "auto"), data, None)
        rows, runs, skipped = [self._row("auto", OURS, self.port.ours, expected, expected)], [first], []
        candidates: list[tuple[str, str, Callable[..., Model], Callable[[], Model]]] = [
            (engine, OURS, self.port.ours, partial(self._ours, engine)) for engine in self.engines
        ]
        if self.peers:
            candidates.append((self.port.library, self.port.library, self.port.theirs, self._theirs))
        for name, library, function, make in candidates:
            try:
                run, result, _ = suite.attempt(library, lambda make=make: self._prepared(make, data, weights))
                row = self._row(name, library, function, result, expected)
                outputs, gradients = row["outputs_differ"], row["gradients_differ"]
                if not (outputs <= OUTPUTS_MAY_DIFFER and gradients <= GRADIENTS_MAY_DIFFER):
                    off = f"{outputs:.2%} of its outputs differ, its gradients are {gradients:.2%} off"
                    raise DoesNotRun(f"it computes something else: {off}")
            except DoesNotRun as reason:
                skipped.append(self.labels | {"contestant": name, "reason": str(reason)})
                continue
            rows.append(row)
            runs.append(run)
        timings = race(dict(enumerate(runs)), repeats, clock=ThroughputClock(self.device)).values()
        return Outcome([row | seconds_of(timing) for row, timing in zip(rows, timings, strict=True)], {}, skipped)

    def _ours(self, engine: str) -> Model:
        net, loss = self.port.ours(self.steps)
        for _, neuron in named_neurons(net):
            neuron.engine = engine
        return net, loss

    def _theirs(self) -> Model:
        library = imported(self.port.library)
        if library is None:
            raise DoesNotRun("it is not installed: make peers")
        return self.port.theirs(library, self.steps)

    def _prepared(
        self, make: Callable[[], Model], data: list[Tensor], weights: list[Tensor] | None
    ) -> tuple[Callable[[], object], Result, list[Tensor]]:
        """An update to time, the output and gradients of the first, and the weights before it."""
        with torch.random.fork_rng([]):
            torch.manual_seed(0)
            net, loss = make()
            net.to(self.device)
            parameters = list(net.parameters())
            with torch.no_grad():
                if weights is None:
                    weights = [self._filled(p).clone() for p in parameters]
                fill(parameters, weights)
            optimizer = torch.optim.Adam(parameters, lr=self.port.rate)

            def update() -> Tensor:
                optimizer.zero_grad()
                out, value = loss(*data)
                value.backward()
                optimizer.step()
                return out.detach()

            torch.manual_seed(1)  # of random spikes
            out = update()
            gradients = torch.cat([p.grad.flatten() for p in parameters if p.grad is not None])
        return update, (out, gradients), weights

    def _filled(self, parameter: nn.Parameter) -> Tensor:
        """Weights with which all layers fire: silent networks always compare as equal."""
        if parameter.dim() < 2:
            return parameter
        return nn.init.normal_(parameter, std=DRIVE / parameter[0].numel() ** 0.5)

    def _row(self, name: str, library: str, function: Any, result: Result, expected: Result) -> Row:
        (out, gradients), (wanted, slopes) = result, expected
        off = (out - wanted).abs() > 1e-4 * wanted.abs().max()
        differ = {"outputs_differ": off.float().mean().item(), "gradients_differ": suite.distance(gradients, slopes)}
        return self.labels | {"contestant": name, "library": library, "lines": lines(function)} | differ


def _cases(arguments: Arguments, device: torch.device) -> Iterator[Case]:
    return (Case(name, arguments, device) for name in dict.fromkeys(arguments.ports))


def _table(record: Record, rows: Rows) -> str:
    title = f"{rows[0]['port']}: an update of {rows[0]['batch']} samples, T = {rows[0]['steps']}"
    original = next((row["median_s"] for row in rows if row["library"] != OURS), None)
    columns = {
        **suite.columns("candidate", "ms", "10-90 %"),
        "times original": lambda row: times(original, row["median_s"]) if original and row["library"] == OURS else "",
        "lines": lambda row: str(row["lines"]),
        "outputs off": lambda row: "" if row is rows[0] else f"{row['outputs_differ']:.2%}",
        "gradients off": lambda row: "" if row is rows[0] else f"{row['gradients_differ']:.2%}",
    }
    return table(title, columns, rows)


def ratios(record: Record) -> str:
    """For each example: how many times as fast our fastest engine is, and in how many lines."""
    said = []
    for rows in suite.by_case(record["rows"], KEY):
        ours = min((row for row in rows if row["library"] == OURS), key=lambda row: row["median_s"])
        said += [
            f"{ours['port']}: {times(one['median_s'], ours['median_s'])} times as fast as {one['library']} "
            f"({ours['contestant']}), in {ours['lines']} lines instead of {one['lines']}"
            for one in rows
            if one["library"] != OURS
        ]
    return "\n".join(said)


SUITE = Suite("ports", KEY, _cases, _table, ending=ratios)
benchmark, tables = SUITE.run, SUITE.tables
