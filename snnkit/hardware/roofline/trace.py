"""Watch a training step: each operation that PyTorch runs, which layer of neurons it belongs to, and what it keeps."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from ...measure.traffic import Kernel, Traffic
from ...neuron import Neuron
from ...nn import is_static
from .work import Layer, Operation

# Operations that take a processor many times as long as an addition.
_COSTLY = (
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sigmoid", "sigmoid_backward", "tanh", "tanh_backward",
    "erf", "erfc", "sin", "cos", "tan", "atan", "atan2", "asin", "acos", "sinh", "cosh", "pow", "softplus", "gelu",
)  # fmt: skip
_ALLOCATE = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided")
_COPY = ("_to_copy", "copy", "clone", "stack", "cat", "contiguous", "fill", "zero")
_COPY_LIKE = ("zeros", "ones", "full", "new_zeros", "new_ones", "new_full", "zeros_like", "ones_like", "full_like")
_REDUCTION = ("sum", "mean", "amax", "amin", "max", "min", "norm", "prod", "argmax", "cumsum", "any", "all")
_MATMUL = ("mm", "addmm", "bmm", "baddbmm")
# They only tell a profiler, or ask the host for one number.
_NOTHING = ("_record_function_enter_new", "_record_function_exit", "_local_scalar_dense", "aminmax", "isfinite")


class Trace(Traffic):
    """Operations with what a model of a machine needs to know of each."""

    def __init__(self) -> None:
        super().__init__()
        self.phase = "forward"
        self.operations: list[Operation] = []
        self.layers: list[Layer] = []
        self._inside: list[int] = []
        self._spans: list[tuple[int, int]] = []  # sequence numbers of the autograd nodes made in each layer
        self._functions: set[int] = set()
        self._made: list[set[int]] = []  # memory that each operation wrote
        self._alive: list[Any] = []  # keeps addresses from being given out again
        self._kept: set[int] = set()

    @contextmanager
    def saved(self):
        """Note what autograd keeps for backward."""

        def note(tensor: Tensor) -> Tensor:
            self._kept.add(tensor.untyped_storage()._cdata)
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            yield

    def finished(self) -> tuple[Operation, ...]:
        """All operations, knowing which results live on."""
        pairs = zip(self.operations, self._made, strict=True)
        return tuple(replace(op, kept=bool(made & self._kept)) if op.runs else op for op, made in pairs)

    @contextmanager
    def layers_of(self, net: nn.Module):
        """Note which operations belong to which call of a layer of neurons.

        By global hooks: a hook of its own would make a neuron take another path through ``Sequential``.
        """
        own = {id(module) for module in net.modules() if isinstance(module, Neuron)}

        def enter(module: nn.Module, args: Any) -> None:
            if id(module) in own:
                self._inside.append(len(self.layers))
                self.layers.append(_layer(module, args))
                self._spans.append((_sequence(), -1))

        def leave(module: nn.Module, args: Any, out: Any) -> None:
            if id(module) in own:
                number = self._inside.pop()
                self._spans[number] = (self._spans[number][0], _sequence())
                self.layers[number] = _with_steps(self.layers[number], out[0])

        handles = (
            nn.modules.module.register_module_forward_pre_hook(enter),
            nn.modules.module.register_module_forward_hook(leave),
        )
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        before = len(self.kernels)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        kernel = self.kernels[-1] if len(self.kernels) > before else None
        tensors = [leaf for leaf in tree_leaves((args, kwargs, result)) if isinstance(leaf, Tensor)]
        # Counters of the optimizer live on the CPU, whatever the device.
        if tensors and all(t.device.type == "meta" for t in tensors):
            self._note(func, kernel, args, kwargs or {}, result)
        return result

    def _note(self, func: Any, kernel: Kernel | None, args: tuple, kwargs: dict, result: Any) -> None:
        name = func.overloadpacket.__name__
        if name in _NOTHING:
            return
        numel = max((leaf.numel() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)), default=0)
        kind = "view" if kernel is None else _kind(func, name)
        flops, dims = 0, None
        if kind in ("matmul", "convolution"):
            flops = flop_registry[func.overloadpacket](*args, **kwargs, out_val=result)
            dims = _dims(name, args, result, flops)
        storages = [leaf.untyped_storage() for leaf in tree_leaves(result) if isinstance(leaf, Tensor)]
        self._alive += storages
        self._made.append({storage._cdata for storage in storages})
        if name in ("stack", "cat"):
            self._kept |= {t.untyped_storage()._cdata for t in tree_leaves(args) if isinstance(t, Tensor)}
        layer, function = self._place(kind)
        elementwise = numel if kind == "elementwise" else 0
        costly = elementwise if name.rstrip("_") in _COSTLY and not _squares(name, args) else 0
        reads, writes = (sum(kernel.reads), sum(kernel.writes)) if kernel else (0, 0)
        simple = elementwise - costly
        noted = Operation(name, kind, self.phase, reads, writes, numel, flops, simple, costly, dims, layer, function)
        self.operations.append(noted)

    def _place(self, kind: str) -> tuple[int | None, bool]:
        """Which layer runs now, and whether this is the first operation of a Python function's backward that runs."""
        node = torch._C._current_autograd_node()
        if node is None:
            return (self._inside[-1] if self._inside else None), False
        number = node._sequence_nr()
        layer = next((i for i, (start, end) in enumerate(self._spans) if start <= number < end), None)
        python = isinstance(node, torch.autograd.function.BackwardCFunction)
        first = python and kind not in ("view", "allocate") and number not in self._functions
        if first:
            self._functions.add(number)
        return layer, first


def _sequence() -> int:
    return torch._C._autograd._get_sequence_nr()  # pyright: ignore[reportAttributeAccessIssue]


def _layer(module: nn.Module, args: Any) -> Layer:
    x = args[0]
    state = module.initial_state(torch.empty(1, device="meta"))  # type: ignore[operator]
    neurons = math.prod(x.shape[1:]) if x.dim() > 1 else x.numel()
    return Layer(type(module).__name__, len(x), neurons, is_static(x), x.requires_grad, len(state), x.element_size())


def _with_steps(layer: Layer, out: Tensor) -> Layer:
    """What comes in once, to be repeated, tells of itself only; what comes out has all steps."""
    steps, neurons = len(out), math.prod(out.shape[1:])
    return Layer(
        layer.name, steps, neurons, layer.static or (steps, neurons) != (layer.steps, layer.neurons),
        layer.gradient, layer.states, layer.size,
    )  # fmt: skip


def _kind(func: Any, name: str) -> str:
    plain = name.rstrip("_")
    if plain in _ALLOCATE:
        return "allocate"
    if plain in _MATMUL:
        return "matmul"
    if plain in ("convolution", "convolution_backward", "_convolution"):
        return "convolution"
    if "batch_norm" in plain or "layer_norm" in plain or "group_norm" in plain:
        return "norm"
    if "pool" in plain:
        return "pool"
    if plain in _COPY or plain in _COPY_LIKE:
        return "copy"
    if plain in _REDUCTION:
        return "reduction"
    return "elementwise" if torch.Tag.pointwise in func.tags else "other"


def _squares(name: str, args: tuple) -> bool:
    return name.rstrip("_") == "pow" and args[1:2] in ((2,), (2.0,))


def _dims(name: str, args: tuple, result: Any, flops: int) -> tuple[int, int, int]:
    """(m, n, k) of a product [m, k] × [k, n]."""
    if name in ("mm", "addmm", "bmm", "baddbmm"):
        a, b = args[-2:] if name in ("mm", "bmm") else args[1:3]
        return a.shape[-2], b.shape[-1], a.shape[-1]
    weight = args[1] if name != "convolution_backward" else args[2]
    k, n = math.prod(weight.shape[1:]), weight.shape[0]
    return max(1, flops // (2 * n * k)), n, k
