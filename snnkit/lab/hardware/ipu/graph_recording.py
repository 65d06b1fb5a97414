"""Record a forward pass: every operation, every value that is read, every loss, and the line where it happens.

On tensors without values (PyTorch's meta device) this is what PopTorch does (poptorch/source/dispatch_tracer/
TypeInferenceHandler.cpp, release 3.4, MIT). If a value is read there, this is noted, and a made-up value is returned,
so that later mistakes are seen, too.
"""

from __future__ import annotations

import copy
import itertools
import linecache
import os
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import snnkit
from snnkit.lab.hardware.ipu.nets import WithLoss, watching_losses

# The losses that PopTorch knows as such (its user guide, "Loss functions").
LOSSES = {
    *("l1_loss", "mse_loss", "cross_entropy", "nll_loss", "binary_cross_entropy", "kl_div", "poisson_nll_loss"),
    *("hinge_embedding_loss", "binary_cross_entropy_with_logits", "smooth_l1_loss", "soft_margin_loss"),
    *("cosine_embedding_loss", "margin_ranking_loss", "triplet_margin_loss", "ctc_loss"),
}
# Functions that PopTorch handles as a whole, so that the operations inside do not matter.
_WHOLE = LOSSES | {"dropout", "lstm", "gru", "rnn_tanh", "rnn_relu"}
_WHOLE |= {f"max_pool{dimensions}d_with_indices" for dimensions in (1, 2, 3)}
# Calls that are noted by name: Python runs them while the graph is recorded.
_NOTED = {"register_hook", "grad", "backward", "__repr__", "__format__"}
_SET_DATA = torch.Tensor.data.__set__  # of ``tensor.data = …``  # type: ignore[attr-defined]
# So often one line gets a made-up value: a loop that waits for another value would never end.
_PATIENCE = 100
# Calls of one copy without values. One of 2**(calls - 1) checks misses Python's random numbers, such as
# random.random() < 0.5.
_CALLS = 3

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_SNNKIT = os.path.dirname(os.path.abspath(snnkit.__file__)) + os.sep
_HERE = os.path.abspath(__file__)


class Place(NamedTuple):
    """A line, and the module whose forward pass reached it: its path and class, as in "net.1 (Leaky)"."""

    module: str = ""
    file: str = ""
    line: int = 0

    @property
    def where(self) -> str:
        """ "net.py:12: the line itself"."""
        if not self.file:
            return ""
        code = linecache.getline(self.file, self.line).strip()
        name = "notebook cell" if "ipykernel" in self.file else os.path.basename(self.file)
        return f"{name}:{self.line}: {code}" if code else f"{name}:{self.line}"


class Operation(NamedTuple):
    """One operation below autograd: its name without "aten::"; ``part`` of a function that PopTorch handles whole.

    Such a function is also an operation itself, with its arguments, after its parts: "torch.lstm".
    """

    name: str
    overload: str
    args: list[Any]
    kwargs: dict[str, Any]
    inputs: list[Tensor]
    outputs: list[Tensor]
    place: Place
    part: bool


class Loss(NamedTuple):
    """A loss that PopTorch would see: its name, inputs, output and place."""

    name: str
    inputs: list[Tensor]
    output: Tensor
    place: Place


class Applied(NamedTuple):
    """A call of an ``autograd.Function``: its class, results and place."""

    function: type
    outputs: list[Tensor]
    place: Place


@dataclass
class Record:
    """One forward pass: its operations, losses, functions, values that were read (how, where), calls of ``_NOTED``,
    where the tensor or attribute at a path was last assigned, the first operation inside a function that torch.compile
    has made, its results, and the error that stopped it."""

    operations: list[Operation] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    functions: list[Applied] = field(default_factory=list)
    reads: list[tuple[str, Place]] = field(default_factory=list)
    calls: list[tuple[str, Place]] = field(default_factory=list)
    assigned: dict[str, Place] = field(default_factory=dict)
    compiled: Place | None = None
    outputs: list[Tensor] = field(default_factory=list)
    error: Exception | None = None
    error_place: Place = field(default_factory=Place)
    whole: int = 0  # running functions of _WHOLE


@dataclass
class Runs:
    """The runs for the rules: copies of the model, on real values and without values."""

    inputs: list[Tensor]  # one micro-batch
    real_model: nn.Module  # a copy on the CPU
    real: Record
    meta: list[Record]  # several calls of one copy without values; the first is the graph
    replaced: list[str]  # paths of parameters and buffers that the real run has replaced by other tensors
    attributes: dict[str, Tensor]  # left by the first call in plain attributes of modules, by path
    saved: int  # bytes that autograd saves for the backward pass of the graph

    @property
    def graph(self) -> Record:
        """The forward pass as PopTorch would record it."""
        return self.meta[0]


def run(model: nn.Module, inputs: list[Tensor]) -> Runs:
    """Run copies of ``model`` on ``inputs``, and on tensors without values."""
    real_model = copy.deepcopy(model).cpu()
    alive = [*real_model.parameters(), *real_model.buffers()]  # so that no other tensor gets the id of one of them
    before = _addresses(real_model)
    real = record(real_model, inputs)
    after = _addresses(real_model)
    del alive
    replaced = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    meta_model = copy.deepcopy(model).to("meta")
    values = [x.to("meta") for x in inputs]
    own = _attributes(meta_model)
    saved: dict[int, Tensor] = {}
    weights = {_memory(t) for t in (*meta_model.parameters(), *meta_model.buffers())}

    def save(tensor: Tensor) -> Tensor:
        if _memory(tensor) not in weights:
            saved[_memory(tensor)] = tensor
        return tensor

    # Also in later calls, as saving with a hook and without one are different operations.
    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        records = [record(meta_model, values, meta=True)]
        size = sum(t.untyped_storage().nbytes() for t in saved.values())
        attributes = {path: t for path, t in _attributes(meta_model).items() if t is not own.get(path)}
        records += [record(meta_model, values, meta=True) for _ in range(_CALLS - 1)]
    return Runs(inputs, real_model, real, records, replaced, attributes, size)


def record(model: nn.Module, inputs: list[Tensor], *, meta: bool = False) -> Record:
    """Call ``model`` (a copy, as the call may change it) on copies of ``inputs``; errors are recorded, not raised.

    With ``meta`` the inputs are on the meta device, and tensors made on the way have no values either.
    """
    result, inputs = Record(), [x.detach().clone() for x in inputs]
    here = threading.get_ident()  # other threads are not noted
    apply_function = torch.autograd.Function.__dict__["apply"]
    paths = {id(module): path for path, module in model.named_modules()}
    tensors = {id(tensor): path for path, tensor in (*model.named_parameters(), *model.named_buffers())}
    names = {id(module): f"{path or 'model'} ({type(module).__name__})" for path, module in model.named_modules()}
    if isinstance(model, WithLoss):
        names[id(model)] = "loss"  # what it does besides calling its network

    def marked(x: Tensor, out: Tensor) -> None:
        result.losses.append(Loss("identity_loss", [x], out, _place_here(names)))

    def applied(cls, *args, **kwargs):
        out = apply_function.__get__(None, cls)(*args, **kwargs)
        if threading.get_ident() == here:
            result.functions.append(Applied(cls, tensors_in(out), _place_here(names)))
        return out

    def noting(assign):
        def assigned(module, name, *value, **how):
            assign(module, name, *value, **how)
            if threading.get_ident() == here and id(module) in paths:
                result.assigned[f"{paths[id(module)]}.{name}".lstrip(".")] = _place_here(names)

        return assigned

    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(torch.enable_grad())
        torch.manual_seed(0)
        stack.enter_context(watching_losses(marked))
        # PyTorch has no hooks for these.
        stack.enter_context(patch.object(torch.autograd.Function, "apply", classmethod(applied)))
        for method in ("__setattr__", "register_buffer"):
            stack.enter_context(patch.object(nn.Module, method, noting(getattr(nn.Module, method))))
        if meta:
            stack.enter_context(torch.device("meta"))
        stack.enter_context(_Calls(result, names, tensors))
        stack.enter_context(_Operations(result, names, meta))
        try:
            result.outputs = tensors_in(model(*inputs))
        except Exception as error:
            inwards = list(traceback.walk_tb(error.__traceback__))
            result.error, result.error_place = error, _place(reversed(inwards), names)
    return result


def tensors_in(tree: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    return [leaf for leaf in pytree.tree_flatten(tree)[0] if isinstance(leaf, Tensor)]


class _Operations(TorchDispatchMode):
    """Below autograd: the operations that PopTorch's dispatcher sees."""

    def __init__(self, record: Record, names: dict[int, str], meta: bool) -> None:
        super().__init__()
        self.record, self.names, self.meta = record, names, meta
        self.made_up: dict[Place, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        place = _place_here(self.names)
        if self.record.compiled is None and any(
            frame.f_code.co_name == "compile_wrapper" and frame.f_code.co_filename.startswith(_TORCH)
            for frame, _ in _outwards()
        ):
            self.record.compiled = place
        if self.meta and name == "_local_scalar_dense":
            return self._make_up(args[0], place)
        device = kwargs.get("device")
        if self.meta and name == "_to_copy" and device is not None and torch.device(device).type == "cpu":
            self.record.reads.append(("a copy to the host", place))
            kwargs = {**kwargs, "device": torch.device("meta")}
        outputs: list[Tensor] = []
        inputs = tensors_in((args, kwargs))
        part = self.record.whole > 0
        self.record.operations.append(
            Operation(name, func._overloadname, list(args), kwargs, inputs, outputs, place, part)
        )
        out = func(*args, **kwargs)
        outputs += tensors_in(out)
        return out

    def _make_up(self, tensor: Tensor, place: Place) -> bool | int | float:
        if place not in self.made_up:
            self.record.reads.append(("a number or a truth value", place))
        self.made_up[place] = self.made_up.get(place, 0) + 1
        if self.made_up[place] > _PATIENCE:
            raise RuntimeError("the loop waits for a value that is not known when the graph is recorded")
        return True if tensor.dtype == torch.bool else 1.0 if tensor.is_floating_point() else 1


class _Calls(TorchFunctionMode):
    """Above autograd: the calls as they are written."""

    def __init__(self, record: Record, names: dict[int, str], tensors: dict[int, str]) -> None:
        super().__init__()
        self.record, self.names, self.tensors = record, names, tensors

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("tolist", "numpy", "__array__") and args[0].is_meta:
            self.record.reads.append((f"Tensor.{name}()", _place_here(self.names)))
        if name == "__format__" and args[0].is_meta and args[0].dim() == 0:
            self.record.reads.append(("a number in a text", _place_here(self.names)))
            return ""
        if name in _NOTED:
            self.record.calls.append((name, _place_here(self.names)))
        if func == _SET_DATA and id(args[0]) in self.tensors:
            self.record.assigned[self.tensors[id(args[0])]] = _place_here(self.names)
        if name not in _WHOLE:
            return func(*args, **kwargs)
        place = _place_here(self.names)
        self.record.whole += 1
        try:
            out = func(*args, **kwargs)
        finally:
            self.record.whole -= 1
        inputs = tensors_in((args, kwargs))
        self.record.operations.append(
            Operation(f"torch.{name}", "", list(args), kwargs, inputs, tensors_in(out), place, part=True)
        )
        if name in LOSSES and isinstance(out, Tensor):
            self.record.losses.append(Loss(name, inputs, out, place))
        return out


def _place_here(names: dict[int, str]) -> Place:
    return _place(_outwards(), names)


def _outwards() -> Iterator[tuple[FrameType, int]]:
    """Frames and lines, from here out to the call of the model in ``record``."""
    own = record.__code__
    return itertools.takewhile(lambda at: at[0].f_code is not own, traceback.walk_stack(sys._getframe(1)))


def _place(frames: Iterable[tuple[FrameType, int]], names: dict[int, str]) -> Place:
    """The innermost line of the user's code, else of this package, and the innermost named module."""
    module, theirs, ours = "", None, None
    for frame, line in frames:
        code = frame.f_code
        if not module and code.co_varnames[:1] == ("self",):
            module = names.get(id(frame.f_locals.get("self")), "")
        file = code.co_filename
        if file == _HERE or file.startswith((_TORCH, "<frozen")):
            continue
        if file.startswith(_SNNKIT):
            ours = ours or (file, line)
        else:
            theirs = theirs or (file, line)
    return Place(module, *(theirs or ours or ("", 0)))


def _addresses(model: nn.Module) -> dict[str, tuple[int, int]]:
    """Parameters and buffers by path: the tensor and the address of its values."""
    named = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    return {path: (id(tensor), tensor.data_ptr()) for path, tensor in named}


def _attributes(model: nn.Module) -> dict[str, Tensor]:
    """Tensors in plain attributes of modules (also in lists, tuples and dicts), by path."""
    return {
        f"{path}.{name}".lstrip("."): tensor
        for path, module in model.named_modules()
        for name, value in vars(module).items()
        if name not in ("_parameters", "_buffers", "_modules")
        for tensor in tensors_in(value)
    }


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
