"""Record a forward pass: every operation, every value that is read, every loss, and the line where it happens.

On tensors without values (PyTorch's meta device) this is what PopTorch does (poptorch/source/dispatch_tracer/
TypeInferenceHandler.cpp, release 3.4, MIT). If a value is read there, this is noted, and a made-up value is returned,
so that later mistakes are seen, too.
"""

from __future__ import annotations

import itertools
import linecache
import os
import sys
import threading
import traceback
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property
from types import FrameType
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import snnkit
from snnkit.lab.hardware.ipu.nets import WithLoss, identity_loss, reduced
from snnkit.lab.hardware.ipu.operations import DOCUMENTED

# The losses that PopTorch knows as such (its user guide, "Loss functions"), and what is marked as one.
_LOSSES = {f"torch.{name}" for name in ("identity_loss", *DOCUMENTED["losses"].split())}
# Functions that PopTorch handles as a whole, so that the operations inside do not matter.
_WHOLE = _LOSSES | {f"torch.{name}" for name in ("dropout", "lstm", "gru", "rnn_tanh", "rnn_relu")}
_WHOLE |= {f"torch.max_pool{dimensions}d_with_indices" for dimensions in (1, 2, 3)}
# Calls that are noted by name: Python runs them while the graph is recorded.
_NOTED = {"register_hook", "grad", "backward", "__repr__", "__format__"}
_SET_DATA = torch.Tensor.data.__set__  # of ``tensor.data = …``  # type: ignore[attr-defined]
# So often one line gets a made-up value: a loop that waits for another value would never end.
_PATIENCE = 100

_TORCH = os.path.dirname(os.path.abspath(torch.__file__)) + os.sep
_SNNKIT = os.path.dirname(os.path.abspath(snnkit.__file__)) + os.sep
_HERE = os.path.abspath(__file__)


class Location(NamedTuple):
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
    location: Location
    part: bool

    @property
    def signature(self) -> tuple:
        """What is the same in every call of a static graph."""
        return self.name, self.overload, [t.shape for t in self.outputs]


class Record:
    """One forward pass of a model, and what it left behind."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.operations: list[Operation] = []
        self.functions: dict[Any, tuple[type, Location]] = {}  # calls of an autograd.Function, by node of the gradient
        self.reads: list[tuple[str, Location]] = []  # of values: how, and where
        self.calls: list[tuple[str, Location]] = []  # of _NOTED
        self.assigned: dict[str, Location] = {}  # where the tensor or attribute at a path was last assigned
        self.compiled: Location | None = None  # the first operation inside a function that torch.compile has made
        self.outputs: list[Tensor] = []
        self.error: Exception | None = None  # that stopped it
        self.error_location = Location()
        self.replaced: list[str] = []  # paths of parameters and buffers that are now other tensors
        self.attributes: dict[str, Tensor] = {}  # left in plain attributes of modules, by path
        self.saved = 0  # bytes that autograd has saved for the backward pass, without values
        self.whole = 0  # running functions of _WHOLE
        modules = dict(model.named_modules())
        self.module_names = {id(module): module_name(path, module) for path, module in modules.items()}
        if isinstance(model, WithLoss):
            self.module_names[id(model)] = "loss"  # what it does besides calling its network
        named = (*modules.items(), *model.named_parameters(), *model.named_buffers())
        self.paths = {id(part): path for path, part in named}

    @cached_property
    def losses(self) -> list[Operation]:
        """The losses that PopTorch would see and that are not part of a later one."""
        losses = [op for op in self.operations if op.name in _LOSSES and op.outputs]
        return [
            loss
            for i, loss in enumerate(losses)
            if id(loss.outputs[0]) not in self.ancestors(t for later in losses[i + 1 :] for t in later.inputs)
        ]

    def ancestors(self, tensors: Iterable[Tensor]) -> set[int]:
        """``id`` of some tensors and of all tensors that they were computed from."""
        known = {id(t) for t in tensors}
        for op in reversed(self.operations):
            if any(id(t) in known for t in op.outputs):
                known.update(id(t) for t in op.inputs)
        return known

    def here(self) -> Location:
        """The location of the running call."""
        return self.location(_outwards())

    def location(self, frames: Iterable[tuple[FrameType, int]]) -> Location:
        """The innermost line of the user's code, else of snnkit, and the innermost named module."""
        module, theirs, ours = "", None, None
        for frame, line in frames:
            code = frame.f_code
            if not module and code.co_varnames[:1] == ("self",):
                module = self.module_names.get(id(frame.f_locals.get("self")), "")
            file = code.co_filename
            if file == _HERE or file.startswith((_TORCH, "<frozen")):
                continue
            if file.startswith(_SNNKIT):
                ours = ours or (file, line)
            else:
                theirs = theirs or (file, line)
        return Location(module, *(theirs or ours or ("", 0)))


def record(model: nn.Module, inputs: list[Tensor], *, meta: bool = False) -> Record:
    """Call ``model`` (a copy, as the call may change it) on copies of ``inputs``; errors are recorded, not raised.

    With ``meta`` the inputs are on the meta device, and tensors made on the way have no values either.
    """
    result, inputs = Record(model), [x.detach().clone() for x in inputs]
    thread = threading.get_ident()  # other threads are not noted
    apply_function = torch.autograd.Function.__dict__["apply"]
    before = [*model.parameters(), *model.buffers()]  # so that no other tensor gets the id of one of them
    addresses, attributes = _addresses(model), _attributes(model)
    saved: dict[int, Tensor] = {}

    def save(tensor: Tensor) -> Tensor:
        saved[_memory(tensor)] = tensor
        return tensor

    def applied(cls, *args, **kwargs):
        out = apply_function.__get__(None, cls)(*args, **kwargs)
        if threading.get_ident() == thread:
            result.functions.update(dict.fromkeys((t.grad_fn for t in tensors_in(out)), (cls, result.here())))
        return out

    def noting(assign):
        def assigned(module, name, *value, **how):
            assign(module, name, *value, **how)
            if threading.get_ident() == thread and id(module) in result.paths:
                result.assigned[f"{result.paths[id(module)]}.{name}".lstrip(".")] = result.here()

        return assigned

    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=[]))
        stack.enter_context(torch.enable_grad())
        torch.manual_seed(0)
        # PyTorch has no hooks for these.
        stack.enter_context(patch.object(torch.autograd.Function, "apply", classmethod(applied)))
        for method in ("__setattr__", "register_buffer"):
            stack.enter_context(patch.object(nn.Module, method, noting(getattr(nn.Module, method))))
        if meta:
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor))
            stack.enter_context(torch.device("meta"))
        stack.enter_context(_Calls(result))
        stack.enter_context(_Operations(result, meta))
        try:
            result.outputs = tensors_in(model(*inputs))
        except Exception as error:
            inwards = list(traceback.walk_tb(error.__traceback__))
            result.error, result.error_location = error, result.location(reversed(inwards))
    after = _addresses(model)
    result.replaced = [path for path in addresses | after if addresses.get(path) != after.get(path)]
    result.attributes = {path: t for path, t in _attributes(model).items() if t is not attributes.get(path)}
    activations = saved.keys() - {_memory(t) for t in before}
    result.saved = sum(saved[memory].untyped_storage().nbytes() for memory in activations)
    return result


def module_name(path: str, module: nn.Module) -> str:
    """A module's path and class, as in "net.1 (Leaky)"."""
    return f"{path or 'model'} ({type(module).__name__})"


def tensors_in(tree: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    return [leaf for leaf in pytree.tree_flatten(tree)[0] if isinstance(leaf, Tensor)]


class _Operations(TorchDispatchMode):
    """Below autograd: the operations that PopTorch's dispatcher sees."""

    def __init__(self, record: Record, meta: bool) -> None:
        super().__init__()
        self.record, self.meta = record, meta
        self.made_up: dict[Location, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        location = self.record.here()
        if self.record.compiled is None and any(
            frame.f_code.co_name == "compile_wrapper" and frame.f_code.co_filename.startswith(_TORCH)
            for frame, _ in _outwards()
        ):
            self.record.compiled = location
        if self.meta and name == "_local_scalar_dense":
            return self._make_up(args[0], location)
        device = kwargs.get("device")
        if self.meta and name == "_to_copy" and device is not None and torch.device(device).type == "cpu":
            self.record.reads.append(("a copy to the host", location))
            kwargs = {**kwargs, "device": torch.device("meta")}
        inputs, outputs, part = tensors_in((args, kwargs)), [], self.record.whole > 0
        op = Operation(name, func._overloadname, list(args), kwargs, inputs, outputs, location, part)
        self.record.operations.append(op)
        out = func(*args, **kwargs)
        outputs += tensors_in(out)
        return out

    def _make_up(self, tensor: Tensor, location: Location) -> bool | int | float:
        if location not in self.made_up:
            self.record.reads.append(("a number or a truth value", location))
        self.made_up[location] = self.made_up.get(location, 0) + 1
        if self.made_up[location] > _PATIENCE:
            raise RuntimeError("the loop waits for a value that is not known when the graph is recorded")
        return True if tensor.dtype == torch.bool else 1.0 if tensor.is_floating_point() else 1


class _Calls(TorchFunctionMode):
    """Above autograd: the calls as they are written."""

    def __init__(self, record: Record) -> None:
        super().__init__()
        self.record = record

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, record = kwargs or {}, self.record
        name = getattr(func, "__name__", "")
        if name in ("tolist", "numpy", "__array__") and args[0].is_meta:
            record.reads.append((f"Tensor.{name}()", record.here()))
        if name == "__format__" and args[0].is_meta and args[0].dim() == 0:
            record.reads.append(("a number in a text", record.here()))
            return ""
        if name in _NOTED:
            record.calls.append((name, record.here()))
        if func == _SET_DATA and id(args[0]) in record.paths:
            record.assigned[record.paths[id(args[0])]] = record.here()
        if f"torch.{name}" not in _WHOLE:
            return func(*args, **kwargs)
        record.whole += 1
        try:
            out = (reduced if func is identity_loss else func)(*args, **kwargs)
        finally:
            record.whole -= 1
        inputs, outputs = tensors_in((args, kwargs)), tensors_in(out)
        record.operations.append(
            Operation(f"torch.{name}", "", list(args), kwargs, inputs, outputs, record.here(), part=True)
        )
        return out


def _outwards() -> Iterator[tuple[FrameType, int]]:
    """Frames and lines, from here out to the call of the model in ``record``."""
    outermost = record.__code__
    return itertools.takewhile(lambda at: at[0].f_code is not outermost, traceback.walk_stack(sys._getframe(1)))


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
