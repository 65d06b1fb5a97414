"""A forward pass written down: every operation, every value that is read, every loss, and where each comes from.

On tensors without values (PyTorch's meta device) this is what PopTorch does: its dispatcher records each operation and
asks the meta implementation for types and shapes (poptorch/source/dispatch_tracer/TypeInferenceHandler.cpp, release
3.4, MIT). There, a value that is read is noted and one is made up, so that more than the first mistake is found.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from .losses import watching_losses
from .places import NOWHERE, Place, is_compiled_here, place_here, place_of

# The losses that PopTorch knows as such (its user guide, "Loss functions").
LOSSES = {
    *("l1_loss", "mse_loss", "cross_entropy", "nll_loss", "binary_cross_entropy", "kl_div", "poisson_nll_loss"),
    *("hinge_embedding_loss", "binary_cross_entropy_with_logits", "smooth_l1_loss", "soft_margin_loss"),
    *("cosine_embedding_loss", "margin_ranking_loss", "triplet_margin_loss", "ctc_loss"),
}
# Functions that PopTorch takes as a whole, so that it doesn't matter what they consist of here.
WHOLE = LOSSES | {"dropout"}
# As often, at one line, a made-up value is given: a loop that waits for another would never end.
_PATIENCE = 100


@dataclass
class Operation:
    """One operation below autograd: its name without "aten::", overload, arguments, results and place.

    ``part`` says that it is part of one of the functions in ``WHOLE``.
    """

    name: str
    overload: str
    args: list[Any]
    kwargs: dict[str, Any]
    inputs: list[Tensor]
    outputs: list[Tensor]
    place: Place
    part: bool


@dataclass
class Loss:
    """A loss that PopTorch would find: what it is called, what went in, what came out, and its place."""

    name: str
    inputs: list[Tensor]
    output: Tensor
    place: Place
    weighted: bool = False


@dataclass
class Applied:
    """A call of an ``autograd.Function``: its class, its results and its place."""

    function: type
    outputs: list[Tensor]
    place: Place


@dataclass
class Record:
    """All that happened in one forward pass.

    Attributes:
        operations, losses, functions: in order.
        reads: values that were read, as (how, place).
        hooks: gradient hooks that were set, their places.
        compiled: where an operation was reached through a function of torch.compile's first; None if none was.
        outputs: the tensors that came out.
        error: what stopped it, and where; None if nothing did.
    """

    operations: list[Operation] = field(default_factory=list)
    losses: list[Loss] = field(default_factory=list)
    functions: list[Applied] = field(default_factory=list)
    reads: list[tuple[str, Place]] = field(default_factory=list)
    hooks: list[Place] = field(default_factory=list)
    compiled: Place | None = None
    outputs: list[Tensor] = field(default_factory=list)
    error: Exception | None = None
    error_place: Place = NOWHERE
    whole: int = 0  # functions of WHOLE that are at work

    @property
    def finished(self) -> bool:
        """Whether the forward pass came to its end, and without made-up values."""
        return self.error is None and not self.reads


def run_recorded(
    model: nn.Module, inputs: list[Tensor], names: dict[int, str], *, meta: bool, detach_functions: bool = False
) -> Record:
    """Call ``model(*inputs)`` and write down what happens; errors are kept, not raised.

    Args:
        model: a copy, as it may be changed by the call.
        inputs: tensors, on the meta device with ``meta``.
        names: what to call its modules.
        meta: tensors made on the way have no values either.
        detach_functions: each ``autograd.Function`` gives its results without a gradient, as if it had no backward.
    """
    record = Record()

    def marked(x: Tensor, out: Tensor) -> None:
        record.losses.append(Loss("identity_loss", [x], out, place_here(names)))

    def applied(function: type, out: Any) -> None:
        outputs = tensors_in(out)
        record.functions.append(Applied(function, outputs, place_here(names)))

    with ExitStack() as stack:
        stack.enter_context(watching_losses(marked))
        stack.enter_context(_watching_functions(applied, detach_functions))
        if meta:
            stack.enter_context(torch.device("meta"))
        stack.enter_context(_Calls(record, names))
        stack.enter_context(_Operations(record, names, meta))
        try:
            out = model(*inputs)
        except Exception as error:
            record.error, record.error_place = error, place_of(error.__traceback__, names)
        else:
            record.outputs = tensors_in(out)
    return record


class _Operations(TorchDispatchMode):
    """Below autograd: what PopTorch's dispatcher gets to see."""

    def __init__(self, record: Record, names: dict[int, str], meta: bool) -> None:
        super().__init__()
        self.record = record
        self.names = names
        self.meta = meta
        self.made_up: dict[Place, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name.removeprefix("aten::")
        place = place_here(self.names)
        if self.record.compiled is None and is_compiled_here():
            self.record.compiled = place
        if self.meta and name == "_local_scalar_dense":
            return self._make_up(args[0], place)
        if self.meta and name == "_to_copy" and _to_host(kwargs):
            self.record.reads.append(("a copy to the host", place))
            kwargs = {**kwargs, "device": torch.device("meta")}
        inputs = tensors_in((args, kwargs))
        operation = Operation(name, func._overloadname, list(args), kwargs, inputs, [], place, self.record.whole > 0)
        self.record.operations.append(operation)
        out = func(*args, **kwargs)
        operation.outputs = tensors_in(out)
        return out

    def _make_up(self, tensor: Tensor, place: Place) -> bool | int | float:
        """A value in place of the one that is asked for."""
        if place not in self.made_up:
            self.record.reads.append(("a number or a truth value", place))
        self.made_up[place] = self.made_up.get(place, 0) + 1
        if self.made_up[place] > _PATIENCE:
            raise RuntimeError("the loop waits for a value that is not known when the graph is recorded")
        return True if tensor.dtype == torch.bool else 1.0 if tensor.is_floating_point() else 1


class _Calls(TorchFunctionMode):
    """Above autograd: the calls as they are written."""

    def __init__(self, record: Record, names: dict[int, str]) -> None:
        super().__init__()
        self.record = record
        self.names = names

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in ("tolist", "numpy", "__array__") and args[0].is_meta:
            self.record.reads.append((f"Tensor.{name}()", place_here(self.names)))
        if name == "register_hook" and args and isinstance(args[0], Tensor):
            self.record.hooks.append(place_here(self.names))
        if name not in WHOLE:
            return func(*args, **kwargs)
        place = place_here(self.names)
        self.record.whole += 1
        try:
            out = func(*args, **kwargs)
        finally:
            self.record.whole -= 1
        if name in LOSSES and isinstance(out, Tensor):
            inputs = tensors_in((args, kwargs))
            weighted = name in ("cross_entropy", "nll_loss") and _argument(args, kwargs, 2, "weight") is not None
            self.record.losses.append(Loss(name, inputs, out, place, weighted))
        return out


def tensors_in(tree: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts."""
    return [leaf for leaf in pytree.tree_flatten(tree)[0] if isinstance(leaf, Tensor)]


def _argument(args: tuple, kwargs: dict, position: int, name: str) -> Any:
    return args[position] if len(args) > position else kwargs.get(name)


def _to_host(kwargs: dict) -> bool:
    device = kwargs.get("device")
    return device is not None and torch.device(device).type == "cpu"


@contextmanager
def _watching_functions(note: Callable[[type, Any], None], detached: bool) -> Iterator[None]:
    """Have ``note(class, result)`` called of every ``autograd.Function`` that is applied in this thread.

    There is no hook for it in PyTorch, so ``Function.apply`` is exchanged meanwhile; other threads get the original.
    """
    original = torch.autograd.Function.__dict__["apply"]
    here = threading.get_ident()

    def apply(cls, *args, **kwargs):
        call = original.__get__(None, cls)
        if threading.get_ident() != here:
            return call(*args, **kwargs)
        if detached:
            args, kwargs = pytree.tree_map_only(Tensor, Tensor.detach, (args, kwargs))
        out = call(*args, **kwargs)
        note(cls, out)
        return out

    torch.autograd.Function.apply = classmethod(apply)  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        torch.autograd.Function.apply = original  # type: ignore[method-assign]
