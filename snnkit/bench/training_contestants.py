"""Who takes part in the training benchmark, and in which settings: ours, through the steps that ``fit`` runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from ..device.precision import Precision
from ..train.compiling import Compiled
from ..train.graphed import GraphedStep
from ..train.ledger import Ledger
from ..train.step import PlainStep, Task
from .training_nets import Workload

OURS = "snnkit"
Step = Callable[[], Tensor]


@dataclass(frozen=True)
class Trainer:
    """A network that is being trained.

    Attributes:
        step: one update with the batch; the spikes [T, B, 10] before it.
        parameters: in the order of ``Workload.weights``.
        optimizer: whose state a comparison sets back.
        refusal: why it does not run as its name says, or "".
    """

    step: Step
    parameters: list[nn.Parameter]
    optimizer: torch.optim.Optimizer
    refusal: Callable[[], str] = field(default=lambda: "")


@dataclass(frozen=True)
class Contestant:
    """One line of the table.

    Attributes:
        name: unique for its workload and dtype: the setting, behind the library's name for peers.
        library: "snnkit" or the peer's name.
        make: (workload, precision) to a trainer on the precision's device.
        compiles: whether torch.compile is in it, which takes minutes.
        default: whether this is what the library does unasked.
    """

    name: str
    library: str
    make: Callable[[Workload, Precision], Trainer]
    compiles: bool = False
    default: bool = False


def ours(workload: Workload, device: torch.device) -> Iterator[Contestant]:
    """From the loop to everything at once."""
    yield Contestant("eager", OURS, Ours("eager"))
    yield Contestant("auto", OURS, Ours("auto"), default=True)
    layouts = (False, True) if workload.net == "conv" else (False,)
    for channels_last in layouts:
        setting = ["channels-last"] * channels_last
        if setting:
            yield Contestant(" + ".join(setting), OURS, Ours("auto", channels_last))
        yield _named([*setting, "compile"], channels_last, compile=True)
        if device.type == "cpu":
            yield _named([*setting, "compile cpp"], channels_last, compile=True, engine="cpp")
        if device.type == "cuda":
            yield _named([*setting, "graphed"], channels_last, graphed=True)
            yield _named([*setting, "compile", "graphed"], channels_last, compile=True, graphed=True)


def _named(
    setting: list[str], channels_last: bool, compile: bool = False, graphed: bool = False, engine: str = "auto"
) -> Contestant:
    return Contestant(" + ".join(setting), OURS, Ours(engine, channels_last, compile, graphed), compiles=compile)


@dataclass(frozen=True)
class Ours:
    """The steps of ``snnkit.train.fit``, the gathering of the batch from uint8 images included."""

    engine: str
    channels_last: bool = False
    compile: bool = False
    graphed: bool = False

    def __call__(self, workload: Workload, precision: Precision) -> Trainer:
        device = precision.device
        net = workload.make(self.engine).to(device)
        if self.channels_last:
            net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        parameters = list(net.parameters())
        fill(parameters, workload.weights())
        optimizer = workload.optimizer(parameters, device.type == "cuda")
        task = Task(
            net, *workload.data(device), workload.encode, workload.loss, optimizer, precision, workload.batch,
            channels_last=self.channels_last,
        )  # fmt: skip
        step = PlainStep(task, Ledger(device), precision.scaler(), Compiled(net) if self.compile else None)
        whole = GraphedStep(step, workload.batch) if self.graphed else step
        rows = torch.arange(workload.batch, device=device)

        def refusal() -> str:
            return whole.refusal if isinstance(whole, GraphedStep) else ""

        return Trainer(lambda: whole(rows).out, parameters, optimizer, refusal)


@torch.no_grad()
def fill(parameters: list[nn.Parameter], values: list[Tensor]) -> None:
    """Set parameters in place: a recorded graph knows their addresses."""
    for parameter, value in zip(parameters, values, strict=True):
        parameter.copy_(value)
