"""The networks whose training is timed: layers, data, loss, optimizer, and the training steps of this kit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import encode
from snnkit.device import Precision
from snnkit.lab.bench.suite import OURS, Row, dtype_name
from snnkit.loss import count_cross_entropy, rate_mse
from snnkit.models import FashionConvNet, mlp
from snnkit.neuron import LIF, CubaLIF, Leaky, MembraneState, Neuron, beta_of
from snnkit.nn import Sequential
from snnkit.surrogate import ATan, SuperSpike
from snnkit.train.batches import HeldData
from snnkit.train.graphed import GraphedStep
from snnkit.train.metrics import Metric, RunningMetrics
from snnkit.train.step import Compiled, PlainStep, UpdateConfig, use_channels_last


class SoftReset(Neuron):
    """``LIF`` of Sinabs 3.1 without normalised input: v ← 0.9 v + x, spike = H(v - 1), v ← v - spike."""

    def step(self, x: Tensor, state: MembraneState) -> tuple[Tensor, MembraneState]:
        v = 0.9 * state.v + x
        spike = self.spike(v - 1.0)
        return spike, MembraneState(v - spike)


class SpikeFirst(Neuron):
    """``LIF`` of Spyx 1.0: it spikes on the membrane before the step, and the gradient flows through the reset.

    spike = H(v - 1), v ← 0.9 v + x - spike.
    """

    def step(self, x: Tensor, state: MembraneState) -> tuple[Tensor, MembraneState]:
        spike = self.spike(state.v - 1.0, strict=True)
        return spike, MembraneState(0.9 * state.v + x - spike)


# Each equation has its library's default constants and surrogate.
EQUATIONS: dict[str, Callable[[str], Neuron]] = {
    "LIF": lambda engine: LIF(2.0, surrogate=ATan(), engine=engine),  # SpikingJelly 2.0
    "Leaky": lambda engine: Leaky(0.9, surrogate=ATan(), engine=engine),  # snnTorch 1.0
    # Norse 1.1's SuperSpike leaves its alpha = 100 out of the derivative, so it trains with alpha = 1.
    "CubaLIF": lambda engine: CubaLIF(surrogate=SuperSpike(1.0), engine=engine),
    "Leaky, spike first": lambda engine: SpikeFirst(surrogate=ATan(), engine=engine),
    "Leaky, no reset": lambda engine: Leaky(beta_of(10, 1), reset_mechanism="none", surrogate=ATan(), engine=engine),
    "LIF, soft reset": lambda engine: SoftReset(surrogate=ATan(), engine=engine),
}


HIDDEN_PER_CHANNEL = 16  # hidden neurons of the convolutional net
DRIVE = 4.0  # times 1/√fan-in: with this standard deviation of linear weights, all layers fire from the start


def sgd(parameters: list[nn.Parameter], fused: bool) -> torch.optim.SGD:
    """As in SpikingJelly's tutorial. ``fused``: one kernel for all parameters."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, fused=fused or None)


@dataclass(frozen=True)
class Workload:
    """A network to train, for one equation of its neurons. All libraries have the same loss and optimizer.

    ``net`` is "conv" (SpikingJelly's tutorial) or "mlp" (784-width-10), ``equation`` that of its neurons, ``width`` the
    channels of the convolutions or the neurons of the hidden layer, ``steps`` T, ``batch`` the samples of an update,
    each of ``shape``. ``make``: engine to the network, [T, B, *shape] to spikes [T, B, 10]; ``loss``: (spikes, labels)
    to a scalar; ``optimizer``: (parameters, whether in one kernel for all of them) to it.
    """

    net: str
    equation: str
    width: int
    steps: int
    batch: int
    shape: tuple[int, ...]
    make: Callable[[str], Sequential]
    loss: Callable[[Tensor, Tensor], Tensor]
    optimizer: Callable[[list[nn.Parameter], bool], torch.optim.Optimizer] = sgd

    def encode(self, x: Tensor) -> Tensor:
        """[B, *shape] shown for all steps."""
        return encode.repeat(x, self.steps)

    def labels(self, precision: Precision) -> Row:
        """The fields of a row that name this case."""
        names = ("net", "equation", "width", "steps", "batch")
        return {name: getattr(self, name) for name in names} | {"dtype": dtype_name(precision.dtype)}

    def data(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """One batch of random images uint8 [B, *shape] and labels."""
        generator = torch.Generator().manual_seed(0)
        images = torch.randint(256, (self.batch, *self.shape), generator=generator, dtype=torch.uint8)
        labels = torch.randint(10, (self.batch,), generator=generator)
        return images.to(device), labels.to(device)

    def weights(self) -> list[Tensor]:
        """Initial values of all parameters, in order; the same in every call.

        PyTorch's own would leave the last layer silent, and silent networks always compare as equal.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net = self.make("eager")
            for p in net.parameters():
                if p.dim() == 2:
                    nn.init.normal_(p, std=DRIVE / p.shape[1] ** 0.5)
        return [p.detach().clone() for p in net.parameters()]


def conv(width: int, batch: int) -> Workload:
    """SpikingJelly's ``conv_fashion_mnist``: T = 4, mean squared error of the rates."""

    def make(engine: str) -> Sequential:
        return FashionConvNet(width, HIDDEN_PER_CHANNEL * width, engine=engine)

    return Workload("conv", "IF", width, 4, batch, (1, 28, 28), make, rate_mse)


def dense(equation: str, width: int, batch: int, steps: int = 25, **options: Any) -> Workload:
    """784-1000-10 over 25 steps as in snnTorch's tutorial 5, with the neuron of one of the libraries."""

    def make(engine: str) -> Sequential:
        if equation == "Leaky":
            return mlp((784, width, 10), surrogate=ATan(), engine=engine, flatten=False)
        first, second = (EQUATIONS[equation](engine) for _ in range(2))
        return Sequential(nn.Linear(784, width), first, nn.Linear(width, 10), second)

    return Workload("mlp", equation, width, steps, batch, (784,), make, count_cross_entropy, **options)


@dataclass(frozen=True)
class Trainer:
    """A network that is being trained.

    Attributes:
        step: one update with the batch; the spikes [T, B, 10] before it.
        parameters: in the order of ``Workload.weights``.
        optimizer: a comparison restores its state.
        refusal: why it does not run as its name says, or "".
        recorded: it replays a CUDA graph.
    """

    step: Callable[[], Tensor]
    parameters: list[nn.Parameter]
    optimizer: torch.optim.Optimizer
    refusal: Callable[[], str] = field(default=lambda: "")
    recorded: bool = False


def plain_step(
    forward: Callable[[], Tensor],
    loss: Callable[[Tensor, Tensor], Tensor],
    labels: Tensor,
    optimizer: torch.optim.Optimizer,
    precision: Precision,
) -> Callable[[], Tensor]:
    """An update as PyTorch's tutorials write it; it returns the output of ``forward``, detached."""
    scaler = precision.scaler()

    def step() -> Tensor:
        optimizer.zero_grad(set_to_none=True)
        with precision.autocast():
            out = forward()
        scaler.scale(loss(out.float(), labels)).backward()
        scaler.step(optimizer)
        scaler.update()
        return out.detach()

    return step


@dataclass(frozen=True)
class Candidate:
    """One line of the table; its name, the setting, is unique for its workload and dtype.

    ``compiles``: it uses torch.compile, which takes minutes; ``default``: these are the library's defaults; ``suits``:
    whether it is meant for a device and dtype.
    """

    name: str
    library: str
    make: Callable[[Workload, Precision], Trainer]
    compiles: bool = False
    default: bool = False
    suits: Callable[[Precision], bool] = lambda precision: True


@dataclass(frozen=True)
class Ours:
    """Makes the training step of ``snnkit.train.fit``, including the batch from uint8 images.

    ``engine`` is for the neurons; ``channels_last``, ``compile`` and ``graphed`` are as in ``fit``. With
    ``static=False`` the network does not use that the input is the same in all steps.
    """

    engine: str
    channels_last: bool | None = None
    compile: bool = False
    graphed: bool = False
    static: bool = True

    def __call__(self, workload: Workload, precision: Precision) -> Trainer:
        device = precision.device
        net = workload.make(self.engine).to(device)
        channels_last = use_channels_last(net, self.channels_last)
        parameters = list(net.parameters())
        fill(parameters, workload.weights())
        optimizer = workload.optimizer(parameters, True)
        encoder = workload.encode if self.static else lambda x: workload.encode(x).contiguous()
        config = UpdateConfig(
            net, HeldData(*workload.data(device), workload.batch), encoder, workload.loss, optimizer, precision,
            Metric(None, device), channels_last=channels_last,
        )  # fmt: skip
        plain = PlainStep(config, RunningMetrics(device), precision.scaler(), Compiled(net) if self.compile else None)
        rows = torch.arange(workload.batch, device=device)
        if not self.graphed:
            return Trainer(lambda: plain(rows).out, parameters, optimizer)
        whole = GraphedStep(plain)
        return Trainer(lambda: whole(rows).out, parameters, optimizer, lambda: whole.refusal, recorded=True)


def ours(workload: Workload, device: torch.device) -> Iterator[Candidate]:
    """From the plain loop to all improvements at once."""
    yield Candidate("eager", OURS, Ours("eager"))
    yield Candidate("auto", OURS, Ours("auto"), default=True)
    for last in (None, False) if workload.net == "conv" else (None,):
        layout = "" if last is None else "contiguous + "
        if last is False:
            yield Candidate("contiguous", OURS, Ours("auto", last))
        yield Candidate(f"{layout}compile", OURS, Ours("auto", last, compile=True), compiles=True)
        if device.type == "cuda":
            yield Candidate(f"{layout}graphed", OURS, Ours("auto", last, graphed=True))
            both = Ours("auto", last, compile=True, graphed=True)
            yield Candidate(f"{layout}compile + graphed", OURS, both, compiles=True)


@torch.no_grad()
def fill(parameters: list[nn.Parameter], values: list[Tensor]) -> None:
    """Set parameters in place, as a recorded graph uses their addresses."""
    for parameter, value in zip(parameters, values, strict=True):
        parameter.copy_(value)
