"""The same networks in other libraries, trained as their tutorials do it, and in the best settings that they offer.

Peers get their batch ready, as float32 on the device, and nobody asks for their loss: what is timed are forward,
backward and optimizer. A peer that is not installed is left out; `make peers` brings them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ..data import to_unit
from ..device.precision import Precision
from .training_contestants import Contestant, Trainer, fill
from .training_nets import HIDDEN_PER_CHANNEL, Workload

SPIKINGJELLY, SNNTORCH, NORSE = "SpikingJelly", "snnTorch", "Norse"

# The equation of each peer's neuron in the dense net.
EQUATIONS = {SNNTORCH: "Leaky", SPIKINGJELLY: "LIF", NORSE: "CubaLIF"}
Build = Callable[..., tuple[nn.Module, Callable[[Any, Tensor], Tensor]]]


def peers(workload: Workload, device: torch.device) -> Iterator[Contestant]:
    """Those that are installed and compute the workload's equation, in each of their settings."""
    for library, build in ((SPIKINGJELLY, _spikingjelly), (SNNTORCH, snntorch_net), (NORSE, _norse)):
        computes = library == SPIKINGJELLY if workload.net == "conv" else EQUATIONS[library] == workload.equation
        if not computes or not _installed(library):
            continue
        yield Contestant(library, library, PeerTrainer(build), default=True)
        if workload.net == "conv":
            yield Contestant(f"{library}, channels-last", library, PeerTrainer(build, channels_last=True))
        yield Contestant(f"{library}, compile", library, PeerTrainer(build, compile=True), compiles=True)
        if library == SPIKINGJELLY and workload.net == "conv":
            make = PeerTrainer(build, channels_last=True, compile=True)
            yield Contestant(f"{library}, channels-last + compile", library, make, compiles=True)
            # As its older tutorial did by hand: convolution and batch norm of the static image before the loop.
            make = PeerTrainer(partial(build, once=True), channels_last=True)
            yield Contestant(f"{library}, channels-last + first layer once", library, make)
        if library == SPIKINGJELLY and device.type == "cuda":
            yield Contestant(f"{library}, its graph", library, PeerTrainer(build, graph=True))
            conv = workload.net == "conv"
            make = PeerTrainer(partial(build, once=conv), channels_last=conv, graph=True, storage=True)
            yield Contestant(f"{library}, its graph and precision", library, make)


class PeerTrainer:
    """A training step of a peer.

    Args:
        build: workload to (model, how it is called on a model and x [B, ...] for spikes [T, B, 10]).
        channels_last, compile: of PyTorch.
        graph: forward and backward as SpikingJelly's ``StaticCudaGraph``, the optimizer after it, as its trainer does.
        storage: SpikingJelly's ``PrecisionConfig`` with spikes and membranes stored in the dtype of autocast.
    """

    def __init__(
        self,
        build: Build,
        channels_last: bool = False,
        compile: bool = False,
        graph: bool = False,
        storage: bool = False,
    ) -> None:
        self.build, self.channels_last, self.compile, self.graph = build, channels_last, compile, graph
        self.storage = storage

    def __call__(self, workload: Workload, precision: Precision) -> Trainer:
        device = precision.device
        model, call = self.build(workload)
        model.to(device)
        images, labels = workload.data(device)
        x = to_unit(images)
        if self.channels_last:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            x = x.contiguous(memory_format=torch.channels_last)
        if self.storage:
            model = _stored(model, precision)
        parameters = list(model.parameters())
        fill(parameters, workload.weights())
        # What a library does unasked keeps PyTorch's default optimizer kernels.
        asked = self.channels_last or self.compile or self.graph
        optimizer = workload.optimizer(parameters, asked and device.type == "cuda")
        scaler = precision.scaler()
        run: Any = torch.compile(model, dynamic=False) if self.compile else model

        def gradients(x: Tensor, labels: Tensor) -> Tensor:
            with precision.autocast():
                out = call(run, x)
            scaler.scale(workload.loss(out.float(), labels)).backward()
            return out.detach()

        whole = _static_graph(gradients) if self.graph else gradients

        def step() -> Tensor:
            optimizer.zero_grad(set_to_none=not self.graph)
            out = whole(x, labels)
            scaler.step(optimizer)
            scaler.update()
            return out

        return Trainer(step, parameters, optimizer)


def _installed(library: str) -> bool:
    with contextlib.suppress(ImportError):
        if library == SPIKINGJELLY:
            import spikingjelly.activation_based.neuron  # noqa: F401  # pyright: ignore[reportMissingImports]
        elif library == SNNTORCH:
            import snntorch  # noqa: F401  # pyright: ignore[reportMissingImports]
        else:
            import norse.torch  # noqa: F401  # pyright: ignore[reportMissingImports]
        return True
    return False


def _spikingjelly(workload: Workload, once: bool = False) -> tuple[nn.Module, Callable[[Any, Tensor], Tensor]]:
    """Its example ``conv_fashion_mnist``, and a dense net of its ``LIFNode``.

    ``once``: convolution and batch norm of the static image are computed once, not in every step as the example does.
    """
    from spikingjelly.activation_based import (  # pyright: ignore[reportMissingImports]
        functional,
        layer,
        neuron,
        surrogate,
    )

    def fire() -> nn.Module:
        kind = neuron.IFNode if workload.net == "conv" else neuron.LIFNode
        return kind(surrogate_function=surrogate.ATan())

    channels, hidden = workload.width, HIDDEN_PER_CHANNEL * workload.width
    if workload.net == "conv":
        layers = [
            layer.Conv2d(1, channels, kernel_size=3, padding=1, bias=False),
            layer.BatchNorm2d(channels),
            fire(),
            layer.MaxPool2d(2, 2),
            layer.Conv2d(channels, channels, kernel_size=3, padding=1, bias=False),
            layer.BatchNorm2d(channels),
            fire(),
            layer.MaxPool2d(2, 2),
            layer.Flatten(),
            layer.Linear(channels * 7 * 7, hidden, bias=False),
            fire(),
            layer.Linear(hidden, 10, bias=False),
            fire(),
        ]
    else:
        layers = [layer.Linear(784, channels), fire(), layer.Linear(channels, 10), fire()]
    net = _FirstOnce(layers, workload.steps) if once else nn.Sequential(*layers)
    functional.set_step_mode(net, step_mode="m")
    if once:
        functional.set_step_mode(net.first, step_mode="s")

    def call(run: Any, x: Tensor) -> Tensor:
        functional.reset_net(net)
        if once:
            return run(x)
        return run(x.unsqueeze(0).expand(workload.steps, *x.shape))

    return net, call


class _FirstOnce(nn.Module):
    """Two layers on one step [B, ...], and the others on T of what they give."""

    def __init__(self, layers: list[nn.Module], steps: int) -> None:
        super().__init__()
        self.first, self.rest, self.steps = nn.Sequential(*layers[:2]), nn.Sequential(*layers[2:]), steps

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        return self.rest(x.unsqueeze(0).expand(self.steps, *x.shape))


def snntorch_net(workload: Workload, once: bool = False) -> tuple[nn.Module, Callable[[Any, Tensor], Tensor]]:
    """The network of its tutorial 5: a loop over time around all layers.

    ``once``: the first layer, whose input is the same in every step, is computed before the loop.
    """
    import snntorch  # pyright: ignore[reportMissingImports]

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc1 = nn.Linear(784, workload.width)
            self.lif1 = snntorch.Leaky(beta=0.9)
            self.fc2 = nn.Linear(workload.width, 10)
            self.lif2 = snntorch.Leaky(beta=0.9)

        def forward(self, x: Tensor) -> Tensor:
            mem1, mem2 = x.new_zeros(len(x), workload.width), x.new_zeros(len(x), 10)
            current = self.fc1(x) if once else None
            spikes = []
            for _ in range(workload.steps):
                hidden, mem1 = self.lif1(self.fc1(x) if current is None else current, mem1)
                out, mem2 = self.lif2(self.fc2(hidden), mem2)
                spikes.append(out)
            return torch.stack(spikes)

    return Net(), lambda run, x: run(x)


def _norse(workload: Workload) -> tuple[nn.Module, Callable[[Any, Tensor], Tensor]]:
    """Its ``SequentialState``, whose linear layers take all steps at once."""
    import norse.torch  # pyright: ignore[reportMissingImports]

    net = norse.torch.SequentialState(
        nn.Linear(784, workload.width), norse.torch.LIF(), nn.Linear(workload.width, 10), norse.torch.LIF()
    )
    return net, lambda run, x: run(x.expand(workload.steps, *x.shape))[0]


def _stored(model: nn.Module, precision: Precision) -> nn.Module:
    from spikingjelly.activation_based.precision import (  # pyright: ignore[reportMissingImports]
        PrecisionConfig,
        prepare_model_for_precision,
    )

    storage = {None: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}[precision.dtype]
    return prepare_model_for_precision(model, precision.device, PrecisionConfig(neuron_storage=storage)).model


def _static_graph(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    from spikingjelly.activation_based._cuda_graph import StaticCudaGraph  # pyright: ignore[reportMissingImports]

    return StaticCudaGraph(function)
