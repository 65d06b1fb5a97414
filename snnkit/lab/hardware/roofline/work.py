"""Count the operations and bytes of a training step without computing it, on tensors with a shape and no values."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from snnkit import checks
from snnkit.loss import count_cross_entropy
from snnkit.measure import Traffic
from snnkit.models import mlp
from snnkit.neuron import Neuron
from snnkit.nn import is_static


@dataclass(frozen=True)
class Operation:
    """One operation of PyTorch.

    Its kind is "elementwise", "copy", "reduction", "matmul", "convolution", "norm", "pool", "other", "fused" (all steps
    of a layer of neurons at once), "view" (runs nothing), or "allocate" (memory without values).
    """

    name: str  # in PyTorch's library, such as "add"
    kind: str
    phase: str  # "forward", "backward" or "optimizer"
    reads: int  # bytes
    writes: int
    numel: int  # values of the largest result
    flops: int = 0  # of a matrix product or convolution
    simple: float = 0  # elementwise operations, each on one value: arithmetic and comparisons
    costly: float = 0  # the same: exp, tanh and the like
    layer: int | None = None  # the layer of neurons that it belongs to, its index in ``Work.layers``

    @property
    def bytes(self) -> int:
        """Read and written."""
        return self.reads + self.writes

    @property
    def runs(self) -> bool:
        """Whether the device has work to do."""
        return self.kind not in ("view", "allocate")


@dataclass(frozen=True)
class Layer:
    """One call of a layer of neurons."""

    name: str  # of its class
    steps: int
    neurons: int  # of a step, over all samples of the batch
    static: bool  # x is one step, repeated T times
    gradient: bool  # whether the gradient of x is needed
    size: int  # bytes of a value


@dataclass(frozen=True)
class Work:
    """A training step: forward, backward and the update of the weights."""

    name: str  # of the network
    samples: int  # the batch
    operations: tuple[Operation, ...] = field(repr=False)  # in order
    layers: tuple[Layer, ...] = field(repr=False)  # calls of layers of neurons
    parameters: int  # number of weights
    inputs: int  # bytes of a batch that come from the host
    optimizer_states: int  # tensors of the size of the weights that the optimizer stores

    @cached_property
    def running(self) -> tuple[Operation, ...]:
        """Operations that a device has to run, without views."""
        return tuple(op for op in self.operations if op.runs)

    @property
    def launches(self) -> int:
        """Number of running operations."""
        return len(self.running)

    @property
    def flops(self) -> int:
        """Of all matrix products and convolutions."""
        return sum(op.flops for op in self.running)

    def of(self, *kinds: str) -> Iterator[Operation]:
        """The operations of these kinds."""
        return (op for op in self.operations if op.kind in kinds)

    def fused(self) -> Work:
        """The same step with each layer of neurons as one kernel forward and one backward.

        Forward reads x and writes spikes; backward reads x and the gradient of the spikes, repeats the forward pass,
        and writes the gradient of x; the state stays inside. Layers whose step is not elementwise stay as they are.
        """
        inside = {i: [op for op in self.operations if op.layer == i] for i in range(len(self.layers))}
        allowed = ("view", "allocate", "elementwise", "copy", "reduction", "fused")
        fusible = {i: within for i, within in inside.items() if all(op.kind in allowed for op in within)}
        operations: dict[Any, Operation] = {}  # in order; of a fusible layer, one for each phase
        for number, op in enumerate(self.operations):
            if op.layer not in fusible:
                operations[number] = op
            elif (op.layer, op.phase) not in operations:
                operations[op.layer, op.phase] = self._kernel(op.layer, op.phase, fusible[op.layer])
        return replace(self, operations=tuple(operations.values()))

    def _kernel(self, number: int, phase: str, inside: list[Operation]) -> Operation:
        layer = self.layers[number]
        # Backward computes the states again, from x.
        counted = [op for op in inside if op.kind == "elementwise" and (phase == "backward" or op.phase == phase)]
        every = layer.steps * layer.neurons
        x = (layer.neurons if layer.static else every) * layer.size
        reads = x if phase == "forward" else x + every * layer.size
        writes = every * layer.size if phase == "forward" else x if layer.gradient else 0
        return Operation(
            f"{layer.name} {phase}", "fused", phase, reads, writes, every, layer=number,
            simple=sum(op.simple for op in counted), costly=sum(op.costly for op in counted),
        )  # fmt: skip


OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3, foreach=False),
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=False),
}


@checks.arguments
def count(
    net: nn.Module,
    x: Tensor,
    targets: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    *,
    optimizer: Literal["adam", "sgd"] = "adam",
    name: str | None = None,
) -> Work:
    """Count the operations of a training step of ``net``, as eager PyTorch would run it.

    A copy is run on torch's "meta" device, so it needs neither memory nor time, and ``net`` is not changed.

    Args:
        net: called on x, returns out or (out, state).
        x: a batch [T, B, ...]; may be static (an expanded view), and may be on "meta".
        targets: of the batch, [B, ...].
        loss: of (out, targets).
        optimizer: "sgd" is with momentum.
        name: of the network; None: that of its class.

    Raises:
        ValueError: shapes that do not match, no scalar loss, a net without parameters, or one that reads values, which
            "meta" does not have, or can't be copied (a pruned one, say).
    """
    if not x.numel() or x.dim() < 2 or targets.shape[:1] != x.shape[1:2]:
        shapes = f"{list(x.shape)} and {list(targets.shape)}"
        raise ValueError(f"x and targets must be [T, B, ...] and [B, ...] with samples, but their shapes are {shapes}")
    shadow = _shadow_of(net, "net").train()
    parameters = [p for p in shadow.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError(f"net must have parameters to train, but {type(net).__name__} has none")
    update = OPTIMIZERS[optimizer](parameters)
    seen = x[0] if is_static(x) else x  # what comes from the host
    inputs, labels = seen.to("meta").expand(x.shape), targets.to("meta")
    trace = Trace()
    try:
        for parameter in parameters:
            parameter.grad = torch.zeros_like(parameter)
        update.step()  # creates the optimizer's state, which later steps use
        update.zero_grad()
        with trace, trace.layers_of(shadow):
            value = loss(out_of(shadow(inputs)), labels)
            if not isinstance(value, Tensor) or value.numel() != 1 or not value.requires_grad:
                raise ValueError(f"loss must return one scalar that has a gradient, but it is {checks.shown(value)}")
            trace.phase = "backward"
            value.backward()
            trace.phase = "optimizer"
            update.step()
    except (RuntimeError, NotImplementedError) as error:
        first = (str(error).splitlines() or [""])[0]
        must = "not read values" if "meta" in str(error).lower() else "run on x and targets"
        raise ValueError(f"net and loss must {must}, but they raise {type(error).__name__}: {first}") from error
    states = sum(v.numel() for state in update.state.values() for v in state.values() if isinstance(v, Tensor))
    size = sum(p.numel() for p in parameters)
    host = sum(t.numel() * t.element_size() for t in (seen, targets))
    operations, layers = tuple(trace.operations), tuple(trace.layers)
    return Work(name or type(net).__name__, x.shape[1], operations, layers, size, host, round(states / size))


def count_layer(layer: nn.Module, x: Tensor, **options: int) -> Work:
    """Count forward and backward of ``layer`` alone, called with ``options``, on x, on "meta"."""
    shadow, trace = _shadow_of(layer, "layer"), Trace()
    x = x.detach().to("meta").requires_grad_()
    with trace, trace.layers_of(shadow):
        out = out_of(shadow(x, **options))
        trace.phase = "backward"
        torch.autograd.grad(out, (x, *shadow.parameters()), torch.empty_like(out))
    return Work(type(layer).__name__, 1, tuple(trace.operations), tuple(trace.layers), 0, 0, 0)


def out_of(result: Any) -> Any:
    """What a layer returned, without its state."""
    return result[0] if isinstance(result, tuple) else result


MOST_STEPS = 1_000  # counting takes milliseconds for each


@checks.arguments
@lru_cache(maxsize=256)
def tutorial(batch: int = 128, hidden: int = 1000, steps: int = 25, hoisted: bool = True) -> Work:
    """The network of snnTorch's IPU tutorial: 784-hidden-10 of ``Leaky``, cross-entropy of counts, Adam.

    The same image is shown at every step. ``hoisted``: the first layer's product is computed once, as ``snnkit.nn``
    does it; else at every step, as the tutorial is written.
    """
    checks.counts(batch=batch, hidden=hidden)
    checks.integer("steps", steps, at_least=1, at_most=MOST_STEPS)
    with torch.device("meta"):
        net = mlp((784, hidden, 10), engine="eager", flatten=False)
    x = torch.empty(batch, 784, device="meta").expand(steps, batch, 784)
    labels = torch.empty(batch, dtype=torch.long, device="meta")
    work = count(net, x if hoisted else x.contiguous(), labels, count_cross_entropy, name=f"784-{hidden}-10")
    # The image comes from the host once, however often it is multiplied.
    return replace(work, inputs=4 * batch * 784 + 8 * batch)


def _shadow_of(net: nn.Module, name: str) -> nn.Module:
    checks.copyable(name, net)
    shadow = copy.deepcopy(net).to("meta")
    for module in shadow.modules():
        if isinstance(module, Neuron):
            module.engine = "eager"
    return shadow


# Operations that take a processor many times as long as an addition.
_COSTLY = (
    *("exp", "expm1", "log", "log1p", "sigmoid", "sigmoid_backward", "tanh", "tanh_backward", "erf", "sin", "cos"),
    *("atan", "pow", "softplus", "gelu"),
)
# Bookkeeping of a profiler, and reads of single numbers by the host.
_NOTHING = ("_record_function_enter_new", "_record_function_exit", "_local_scalar_dense", "aminmax", "isfinite")
_KINDS = {
    "allocate": "empty empty_like new_empty empty_strided new_empty_strided",
    "matmul": "mm addmm bmm baddbmm",
    "convolution": "convolution convolution_backward _convolution",
    "copy": "_to_copy copy clone stack cat contiguous fill zero zeros ones full new_zeros new_ones new_full zeros_like "
    "ones_like full_like",
    "reduction": "sum mean amax amin max min norm prod argmax cumsum any all",
}
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names.split()}


class Trace(Traffic):
    """Record ``Operation``s on "meta", with the calls of layers of neurons that they belong to."""

    def __init__(self) -> None:
        super().__init__()
        self.phase = "forward"
        self.operations: list[Operation] = []
        self.layers: list[Layer] = []
        self._inside: list[int] = []
        self._spans: list[range] = []  # sequence numbers of the autograd nodes made in each layer

    @contextmanager
    def layers_of(self, net: nn.Module):
        """Note which operations belong to which call of a layer of neurons.

        By global hooks, as a hook on a neuron itself would make it take another path through ``Sequential``.
        """
        own = {id(module) for module in net.modules() if isinstance(module, Neuron)}

        def enter(module: nn.Module, args: Any) -> None:
            if id(module) in own:
                x = args[0]
                self._inside.append(len(self.layers))
                self.layers.append(Layer(type(module).__name__, 0, 0, is_static(x), x.requires_grad, x.element_size()))
                self._spans.append(range(_sequence(), 0))  # until it ends, of none

        def leave(module: nn.Module, args: Any, out: Any) -> None:
            if id(module) in own:
                number = self._inside.pop()
                self._spans[number] = range(self._spans[number].start, _sequence())
                layer, shape = self.layers[number], out[0].shape
                # A step that is repeated by the neuron itself has no dimension of time.
                static = layer.static or args[0].shape != shape
                self.layers[number] = replace(layer, steps=shape[0], neurons=math.prod(shape[1:]), static=static)

        hooks = nn.modules.module
        with hooks.register_module_forward_pre_hook(enter), hooks.register_module_forward_hook(leave):
            yield

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        before = len(self.kernels)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        name = func.overloadpacket.__name__
        tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, Tensor)]
        # Counters of the optimizer are on the CPU, whatever the device.
        if name in _NOTHING or not tensors or any(t.device.type != "meta" for t in tensors):
            return result
        plain, kind, reads, writes, flops = name.rstrip("_"), "view", 0, 0, 0
        if len(self.kernels) > before:
            kind, reads, writes = _kind(func, plain), sum(self.kernels[-1].reads), sum(self.kernels[-1].writes)
        if kind in ("matmul", "convolution"):
            flops = flop_registry[func.overloadpacket](*args, **(kwargs or {}), out_val=result)
        numel = max((leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)), default=0)
        elementwise = numel if kind == "elementwise" else 0
        square = plain == "pow" and args[1:2] in ((2,), (2.0,))
        costly = elementwise if plain in _COSTLY and not square else 0
        self.operations.append(
            Operation(name, kind, self.phase, reads, writes, numel, flops, elementwise - costly, costly, self._layer())
        )
        return result

    def _layer(self) -> int | None:
        """The layer that runs now: in backward, the one whose forward made the current autograd node."""
        node = torch._C._current_autograd_node()
        if node is None:
            return self._inside[-1] if self._inside else None
        number = node._sequence_nr()
        return next((i for i, span in enumerate(self._spans) if number in span), None)


def _sequence() -> int:
    return torch._C._autograd._get_sequence_nr()  # pyright: ignore[reportAttributeAccessIssue]


def _kind(func: Any, name: str) -> str:
    if name in _KIND_OF:
        return _KIND_OF[name]
    if any(norm in name for norm in ("batch_norm", "layer_norm", "group_norm")):
        return "norm"
    if "pool" in name:
        return "pool"
    return "elementwise" if torch.Tag.pointwise in func.tags else "other"
