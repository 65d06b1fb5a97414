"""Other libraries, to be timed beside ours: single layers, whole networks in training, and Norse's STDP.

Each runs as in its tutorials, and in the best settings that PyTorch offers for it. Libraries that are not installed are
left out; ``make peers`` installs them. The kit itself does not use them.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.data import to_unit
from snnkit.device import Precision
from snnkit.engine import secure_inductor
from snnkit.lab.bench.suite import OURS
from snnkit.lab.bench.workloads import HIDDEN_PER_CHANNEL, Candidate, Trainer, Workload, fill, plain_step

SPIKINGJELLY, SNNTORCH, NORSE, SINABS, EXODUS = "SpikingJelly", "snnTorch", "Norse", "Sinabs", "Sinabs, EXODUS"
_MODULES = {SPIKINGJELLY: "spikingjelly.activation_based", SNNTORCH: "snntorch", NORSE: "norse.torch"}
_MODULES |= {SINABS: "sinabs.layers", EXODUS: "sinabs.exodus.layers"}

# The equation of each library's neuron. Our networks and engines compute the same.
EQUATIONS = {SNNTORCH: "Leaky", SPIKINGJELLY: "LIF", NORSE: "CubaLIF"}

Forward = Callable[[Tensor], Tensor]
Steps = Callable[[Tensor, Tensor, Tensor], Tensor]  # pre [T, ...], post [T, ...], weight -> weight


@functools.cache
def imported(library: str) -> Any:
    """Its module, or None if it is not installed, or fails here, of which a warning says why."""
    try:
        if library == SPIKINGJELLY:  # with the parts that it does not import by itself
            for part in ("encoding", "functional", "layer", "neuron", "surrogate"):
                importlib.import_module(f"{_MODULES[library]}.{part}")
        if library == SNNTORCH:
            for part in ("functional", "surrogate", "utils"):
                importlib.import_module(f"{_MODULES[library]}.{part}")
        return importlib.import_module(_MODULES[library])
    except ImportError as error:
        name = _MODULES[library].partition(".")[0]
        if importlib.util.find_spec(name) is not None and library != EXODUS:
            warnings.warn(f"{library} is left out: importing it failed ({error})", stacklevel=2)
    except Exception as error:  # a version of NumPy or PyTorch that it does not know
        warnings.warn(f"{library} is left out: {type(error).__name__}: {error}", stacklevel=2)
    return None


# -- one layer of neurons


@dataclass(frozen=True)
class Layer:
    """A layer of neurons in one of our engines, or of another library in its recommended multi-step form.

    ``forward`` takes x [T, B, N] to spikes [T, B, N]. ``equation`` is a key of ``workloads.EQUATIONS``: the result is
    compared with the eager engine on it. ``why_not`` says why it would not run as its name says. ``compiles``: its
    forward is one of ``torch.compile``.
    """

    name: str
    equation: str
    forward: Forward
    engine: str = ""  # of ours
    why_not: Callable[[Tensor], str] = lambda x: ""
    compiles: bool = False

    @property
    def library(self) -> str:
        return OURS if self.engine else self.name


def with_autocast(forward: Forward) -> Forward:
    """Low-precision input is computed inside ``torch.autocast``, as mixed precision is used in training."""

    def run(x: Tensor) -> Tensor:
        if x.dtype not in (torch.bfloat16, torch.float16):
            return forward(x)
        with torch.autocast(x.device.type, dtype=x.dtype):
            return forward(x)

    return run


def _spikingjelly_layer(library: Any, device: torch.device) -> Forward:
    node = library.neuron.LIFNode(tau=2.0, surrogate_function=library.surrogate.ATan(), step_mode="m").to(device)
    return _from_rest(library, node)


def _spikingjelly_low_layer(library: Any, device: torch.device) -> Forward:
    """With membranes in bfloat16, for which it has kernels on CUDA. Without, it computes what autocast gives it step by
    step, as it does with all membranes that are not float32."""
    node = library.neuron.LIFNode(tau=2.0, surrogate_function=library.surrogate.ATan(), step_mode="m").to(device)
    in_bfloat16(node, device)
    return _from_rest(library, node)


def in_bfloat16(model: nn.Module, device: torch.device) -> None:
    """Let the neurons of a model of SpikingJelly store their membranes in bfloat16."""
    precision = importlib.import_module("spikingjelly.activation_based.precision")
    precision.prepare_model_for_precision(model, device, precision.PrecisionConfig(neuron_storage="bf16"))


def _only_bfloat16(x: Tensor) -> str:
    return "" if x.dtype == torch.bfloat16 else "it is meant for bfloat16"


def _from_rest(library: Any, node: nn.Module) -> Forward:
    """A neuron of SpikingJelly, reset after each sequence, as its membrane holds the graph of the pass."""

    def forward(x: Tensor) -> Tensor:
        try:
            return node(x)
        finally:
            library.functional.reset_net(node)

    return forward


def _snntorch_layer(library: Any, device: torch.device) -> Forward:
    node = library.Leaky(beta=0.9).to(device)
    return lambda x: over_time(node, x, torch.zeros_like(x[0]))


def over_time(cell: Callable[[Tensor, Any], tuple[Tensor, Any]], x: Tensor, state: Any) -> Tensor:
    """Spikes of a neuron that computes one step at a time."""
    spikes = []
    for x_t in x.unbind(0):
        spike, state = cell(x_t, state)
        spikes.append(spike)
    return torch.stack(spikes)


def _norse_layer(library: Any, device: torch.device) -> Forward:
    node = library.LIF().to(device)
    return lambda x: node(x)[0]


def _norse_cell(library: Any, device: torch.device) -> Forward:
    """One step in ``torch.compile``: to compile all steps at once would take minutes."""
    secure_inductor()
    cell = torch.compile(library.LIFCell().to(device))
    return lambda x: over_time(cell, x, None)


def _flexsn_layer(library: Any, device: torch.device) -> Forward:
    """The same equation through the library's compiler of neurons, which chooses the kernel itself."""

    def step(x: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        v = v + (x - v) / 2
        spike = library.surrogate.atan.apply(v - 1, 2.0)
        return spike, (1 - spike) * v

    return _from_rest(library, library.neuron.FlexSN(step, num_states=1).to(device))


def _stateleaky_layer(library: Any, device: torch.device) -> Forward:
    """A convolution in time; it never resets. Its time constant of 10 steps is a decay of exp(-0.1)."""

    @functools.cache
    def node(channels: int) -> nn.Module:
        return library.StateLeaky(beta=0.9, channels=channels).to(device)

    return lambda x: node(x.shape[-1])(x)[0]


def _sinabs_layer(library: Any, device: torch.device) -> Forward:
    activation = importlib.import_module("sinabs.activation")
    node = library.LIF(
        tau_mem=10.0,
        spike_fn=activation.SingleSpike,
        # The derivative of ATan, as all others have it.
        surrogate_grad_fn=lambda v, threshold: 1 / (1 + (math.pi * (v - threshold)) ** 2),
        train_alphas=True,
        norm_input=False,
    )
    node.requires_grad_(False).to(device)
    node.alpha_mem.fill_(0.9)

    def forward(x: Tensor) -> Tensor:
        node.reset_states()
        return node(x.transpose(0, 1)).transpose(0, 1)  # it has the batch first

    return forward


# Library, form of its neuron, equation, maker.
_LAYERS = (
    (SPIKINGJELLY, "", EQUATIONS[SPIKINGJELLY], _spikingjelly_layer),
    (SNNTORCH, "", EQUATIONS[SNNTORCH], _snntorch_layer),
    (NORSE, "", EQUATIONS[NORSE], _norse_layer),
)
_MORE_LAYERS = (
    (SPIKINGJELLY, ", FlexSN", EQUATIONS[SPIKINGJELLY], _flexsn_layer),
    (SNNTORCH, ", StateLeaky", "Leaky, no reset", _stateleaky_layer),
    (NORSE, ", compiled cell", EQUATIONS[NORSE], _norse_cell),
    (SINABS, "", "LIF, soft reset", _sinabs_layer),
    (EXODUS, "", "LIF, soft reset", _sinabs_layer),  # CUDA kernels for the neurons of Sinabs, with the same arguments
)
_LOW = ", bfloat16 neurons"


def layers(device: torch.device, *, more: bool = False) -> list[Layer]:
    """The installed neurons of SpikingJelly, snnTorch and Norse, or ``more``: their other forms, and Sinabs."""
    installed = [
        Layer(f"{library}{form}", equation, with_autocast(make(module, device)), compiles=make is _norse_cell)
        for library, form, equation, make in (_MORE_LAYERS if more else _LAYERS)
        if (library != EXODUS or device.type == "cuda") and (module := imported(library)) is not None
    ]
    if device.type == "cuda" and not more and (library := imported(SPIKINGJELLY)) is not None:
        name, equation = f"{SPIKINGJELLY}{_LOW}", EQUATIONS[SPIKINGJELLY]
        forward = with_autocast(_lazily(partial(_spikingjelly_low_layer, library, device)))
        installed.append(Layer(name, equation, forward, why_not=_only_bfloat16))
    return installed


def _lazily(make: Callable[[], Forward]) -> Forward:
    """Make it at its first call, so that an error is one of that call."""
    made = functools.cache(make)
    return lambda x: made()(x)


# -- whole networks in training

Network = tuple[nn.Module, Callable[[Any, Tensor], Tensor]]  # and how it is called: (it, x [B, ...]) -> [T, B, 10]
Build = Callable[..., Network]


def networks(workload: Workload) -> Iterator[Candidate]:
    """Installed libraries that have this network, from their tutorial to their best settings."""
    conv = workload.net == "conv"

    def on_cuda(precision: Precision) -> bool:
        return precision.device.type == "cuda"

    def low(precision: Precision) -> bool:
        return on_cuda(precision) and precision.dtype == torch.bfloat16

    builders: dict[str, Build] = {SPIKINGJELLY: _spikingjelly, SNNTORCH: snntorch_net, NORSE: _norse}
    for library, build in builders.items():
        if (library != SPIKINGJELLY if conv else EQUATIONS[library] != workload.equation) or imported(library) is None:
            continue
        yield Candidate(library, library, BaselineTrainer(build), default=True)
        yield Candidate(f"{library}, compile", library, BaselineTrainer(build, compile=True), compiles=True)
        if conv:
            yield Candidate(f"{library}, channels-last", library, BaselineTrainer(build, channels_last=True))
            compiled = BaselineTrainer(build, channels_last=True, compile=True)
            yield Candidate(f"{library}, channels-last + compile", library, compiled, compiles=True)
            # As in its older tutorial: convolution and batch norm of the static image before the loop.
            once = BaselineTrainer(partial(build, once=True), channels_last=True)
            best = f"{library}, channels-last + first layer once"
            yield Candidate(best, library, once)
        else:
            once, best = BaselineTrainer(build, fused=True), f"{library}, fused optimizer"
            yield Candidate(best, library, once)
        if library == SPIKINGJELLY:
            once_low, best_low = replace(once, low=True), f"{best} + bfloat16 neurons"
            yield Candidate(best_low, library, once_low, suits=low)
            yield Candidate(f"{best_low} + CUDA graph", library, replace(once_low, graphed=True), suits=low)
        yield Candidate(f"{best} + CUDA graph", library, replace(once, graphed=True), suits=on_cuda)


@dataclass(frozen=True)
class BaselineTrainer:
    """Makes the training step of another library: forward, backward and optimizer on a prepared batch.

    ``low``: SpikingJelly's neurons store membranes in bfloat16; ``graphed``: the whole step is a CUDA graph.
    """

    build: Build
    channels_last: bool = False
    compile: bool = False
    fused: bool = False
    low: bool = False
    graphed: bool = False

    def __call__(self, workload: Workload, precision: Precision) -> Trainer:
        device = precision.device
        model, call = self.build(workload)
        model.to(device)
        images, labels = workload.data(device)
        x = to_unit(images)
        if self.channels_last:
            model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            x = x.contiguous(memory_format=torch.channels_last)
        if self.low:
            in_bfloat16(model, device)
        parameters = list(model.parameters())
        fill(parameters, workload.weights())
        # A library in its default settings uses PyTorch's default optimizer kernels.
        optimizer = workload.optimizer(parameters, self.fused or self.channels_last or self.compile)
        run: Any = model
        if self.compile:
            secure_inductor()
            run = torch.compile(model, dynamic=False)
        step = plain_step(lambda: call(run, x), workload.loss, labels, optimizer, precision)
        return Trainer(replayed(step) if self.graphed else step, parameters, optimizer, recorded=self.graphed)


def replayed(step: Callable[[], Tensor]) -> Callable[[], Tensor]:
    """A step as a CUDA graph, as PyTorch's notes record one: after three steps on another stream, in the first call."""
    recorded: list[tuple[torch.cuda.CUDAGraph, Tensor]] = []

    def run() -> Tensor:
        if not recorded:
            usual, aside = torch.cuda.current_stream(), torch.cuda.Stream()
            aside.wait_stream(usual)
            with torch.cuda.stream(aside):
                for _ in range(3):
                    step()
            usual.wait_stream(aside)
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(graph):
                    out = step()
            finally:
                torch.cuda.set_stream(usual)  # a capture that fails leaves its own stream set
            recorded.append((graph, out))
        graph, out = recorded[0]
        graph.replay()
        return out

    return run


def _spikingjelly(workload: Workload, once: bool = False) -> Network:
    """Its example ``conv_fashion_mnist``, and a dense net of its ``LIFNode``.

    ``once``: convolution and batch norm of the static image are computed once, not in every step as the example does.
    """
    sj = imported(SPIKINGJELLY)
    layer, width = sj.layer, workload.width
    kind = sj.neuron.IFNode if workload.net == "conv" else sj.neuron.LIFNode
    fire = partial(kind, surrogate_function=sj.surrogate.ATan())
    first, modules = nn.Sequential(), [layer.Linear(784, width), fire(), layer.Linear(width, 10), fire()]
    if workload.net == "conv":
        first.extend([layer.Conv2d(1, width, kernel_size=3, padding=1, bias=False), layer.BatchNorm2d(width)])
        modules = [
            fire(),
            layer.MaxPool2d(2, 2),
            layer.Conv2d(width, width, kernel_size=3, padding=1, bias=False),
            layer.BatchNorm2d(width),
            fire(),
            layer.MaxPool2d(2, 2),
            layer.Flatten(),
            layer.Linear(width * 7 * 7, HIDDEN_PER_CHANNEL * width, bias=False),
            fire(),
            layer.Linear(HIDDEN_PER_CHANNEL * width, 10, bias=False),
            fire(),
        ]
    net = _TwoParts(first, nn.Sequential(*modules), workload.steps, once)
    sj.functional.set_step_mode(net, step_mode="m")
    if once:
        sj.functional.set_step_mode(net.first, step_mode="s")

    def call(run: Any, x: Tensor) -> Tensor:
        sj.functional.reset_net(net)
        return run(x)

    return net, call


class _TwoParts(nn.Module):
    """Layers before the first neuron, then the rest, on a static image [B, ...]; ``once``: repeat it between them."""

    def __init__(self, first: nn.Module, rest: nn.Module, steps: int, once: bool) -> None:
        super().__init__()
        self.first, self.rest, self.steps, self.once = first, rest, steps, once

    def forward(self, x: Tensor) -> Tensor:
        if self.once:
            x = self.first(x)
            return self.rest(x.unsqueeze(0).expand(self.steps, *x.shape))
        return self.rest(self.first(x.unsqueeze(0).expand(self.steps, *x.shape)))


def snntorch_net(workload: Workload, once: bool = False) -> Network:
    """The network of its tutorial 5: a loop over time around all layers.

    ``once``: the first layer, whose input is the same in every step, is computed before the loop.
    """
    snntorch = imported(SNNTORCH)

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


def _norse(workload: Workload) -> Network:
    """Its ``SequentialState``, whose linear layers take all steps at once."""
    norse = imported(NORSE)
    net = norse.SequentialState(nn.Linear(784, workload.width), norse.LIF(), nn.Linear(workload.width, 10), norse.LIF())
    return net, lambda run, x: run(x.expand(workload.steps, *x.shape))[0]


# -- Norse's STDP

# Its defaults: a step and the time constants, in seconds.
DT, TAU = 1e-3, 50e-3
# Its traces decay by Euler's rule, so they have this time constant exactly.
EXACT_TAU = -DT / math.log(1 - DT / TAU)


def norse_stdp(convolution: bool) -> Steps | None:
    """Norse's rule, step by step over pre and post, additive with hard bounds; None if it is not installed."""
    try:
        from norse.torch.functional import stdp  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    step = stdp.stdp_step_conv2d if convolution else stdp.stdp_step_linear

    def run(pre: Tensor, post: Tensor, weight: Tensor) -> Tensor:
        # Its own numbers are tensors of float32, with which float64 would not be exact.
        one, rate = torch.ones((), dtype=weight.dtype), torch.full((), 1 / TAU, dtype=weight.dtype)
        parameters = stdp.STDPParameters(one, one, rate, rate, convolutional=convolution)
        state = stdp.STDPState(torch.zeros_like(pre[0]), torch.zeros_like(post[0]))
        with torch.no_grad():
            for pre_t, post_t in zip(pre, post, strict=True):
                weight, state = step(pre_t, post_t, weight, state, parameters, DT)
        return weight

    return run
