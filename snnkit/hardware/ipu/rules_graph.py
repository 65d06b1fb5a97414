"""Rules of the static graph: no values read, no sizes from values, known operations, the same in every call."""

from __future__ import annotations

import torch
from torch import nn

from .operations import SIZE_FROM_VALUES, is_supported
from .places import Place
from .record import Operation, Record
from .report import Finding, at
from .runs import Runs

_SIZES = (
    "choose by arithmetic instead of by taking out: x * mask, or torch.where(mask, x, 0), keeps the size; "
    "torch.topk takes a fixed number"
)


def static_graph(runs: Runs) -> list[Finding]:
    """Values that are read, results whose size depends on values, and whatever else stops the recording."""
    record = runs.graph
    found = []
    for how, place in record.reads:
        found.append(
            at(
                place,
                "static graph",
                f"the forward pass reads {how} from a tensor, but there are no values while a graph is recorded; "
                "Python would decide once, for all batches",
                "decide per element with torch.where or arithmetic, and by constants of the constructor in Python; "
                "return a tensor instead of a number",
            )
        )
    for operation in _distinct([op for op in record.operations if _sized_by_values(op)]):
        found.append(
            at(
                operation.place,
                "static graph",
                f"the size of what {_written(operation)} gives depends on values, but in a static graph every size is "
                "fixed",
                _SIZES,
            )
        )
    for operation in _distinct([op for op in record.operations if _from_the_host(op)]):
        found.append(
            at(
                operation.place,
                "static graph",
                f"{operation.name} takes a tensor that is neither input, parameter nor buffer and lies on the CPU "
                '("Expected an IPU tensor but got tensor(device=cpu …")',
                "make it a buffer (register_buffer), so that it moves with the model, or create it in the forward "
                "pass on x.device",
            )
        )
    if record.compiled is not None:
        what = "the forward pass calls a function that torch.compile has made, which PopTorch does not support"
        found.append(at(record.compiled, "static graph", what, "call the function itself, without torch.compile"))
    if record.error is not None and not found:
        found.append(_stopped(record))
    return found


def _stopped(record: Record) -> Finding:
    """An error of the forward pass on the meta device that has no other explanation."""
    text = (str(record.error).splitlines() or [""])[0][:200]
    if "saved tensor hooks" in text:
        what = "the forward pass differentiates by torch.func, into which this check can't look"
        return at(record.error_place, "static graph", what, "write the derivative down, in plain operations")
    return at(
        record.error_place,
        "static graph",
        f"the forward pass can't be recorded without values: {type(record.error).__name__}: {text}",
        "use operations whose result's type and shape follow from those of their arguments",
    )


def _from_the_host(op: Operation) -> bool:
    """Whether it takes a tensor of the CPU together with those of the graph; copies from one to the other may."""
    devices = {t.device.type for t in (*op.inputs, *op.outputs)}
    return "cpu" in devices and len(devices) > 1 and op.name not in ("_to_copy", "copy_")


def supported_operations(runs: Runs) -> list[Finding]:
    """Operations that PopTorch has no name for, and known ones asked for what it can't."""
    found = []
    unknown = [
        op for op in runs.graph.operations if not is_supported(op.name) and not op.part and not _sized_by_values(op)
    ]
    counts: dict[str, int] = {}
    for op in unknown:
        counts[op.name] = counts.get(op.name, 0) + 1
    for op in _distinct(unknown):
        times = f" ({counts[op.name]} times)" if counts[op.name] > 1 else ""
        found.append(
            at(
                op.place,
                "supported operations",
                f"{op.name}{times} is not among the operations that PopTorch 3.4 documents or handles",
                _INSTEAD.get(op.name, "write it with operations that are (snnkit.hardware.ipu.operations.SUPPORTED)"),
            )
        )
    return found + [f for op in runs.graph.operations for f in _asks_too_much(op)] + _layers(runs.model)


# What to write instead of some operations that networks of spiking neurons use.
_INSTEAD = {
    "heaviside": "write (x > 0).to(x.dtype)",
    "lerp": "write a + weight * (b - a)",
    "nan_to_num": "keep NaN from arising; torch.where(torch.isnan(x), 0, x) also works",
    "sinc": "write it with torch.sin and torch.where",
    "rand_like": "write torch.rand(x.shape)",
    "randn_like": "write torch.randn(x.shape)",
    "bernoulli_": "write torch.bernoulli(p)",
}


def _asks_too_much(op: Operation) -> list[Finding]:
    """Limits that the guide states for operations it supports."""
    what = ""
    if op.name in ("native_batch_norm", "native_group_norm", "native_layer_norm") and not any(
        p.requires_grad or p.dim() == 1 for p in _weights_of_norm(op)
    ):
        what, mend = "a norm without weights of its own", "give it affine=True (elementwise_affine=True)"
    elif op.name == "topk" and not _flag(op, 4, "sorted"):
        what, mend = "torch.topk with sorted=False", "use sorted=True"
    elif op.name == "embedding" and len(op.args) > 2 and op.args[2] not in (-1, None):
        what, mend = "an embedding with padding_idx", "leave padding_idx out and mask the result"
    elif op.name == "convolution" and op.args[6] and any(d != 1 for d in op.args[5]):
        what, mend = "a transposed convolution with dilation", "use dilation 1"
    if not what:
        return []
    return [at(op.place, "supported operations", f"{what} is not supported by PopTorch (its user guide)", mend)]


def _weights_of_norm(op: Operation) -> list:
    position = {"native_batch_norm": 1, "native_group_norm": 1, "native_layer_norm": 2}[op.name]
    weight = op.args[position] if len(op.args) > position else None
    return [] if weight is None else [weight]


def _flag(op: Operation, position: int, name: str) -> bool:
    return bool(op.args[position] if len(op.args) > position else op.kwargs.get(name, True))


def _layers(model: nn.Module) -> list[Finding]:
    """Layers whose limits can't be seen in their operations, as these are taken apart before."""
    found = []
    for path, module in model.named_modules():
        what = ""
        if isinstance(module, nn.RNNBase) and (module.num_layers > 1 or module.bidirectional or module.dropout > 0):
            what, mend = "more than one layer, two directions or dropout", "one layer, one direction, no dropout"
        elif getattr(module, "return_indices", False) is True:
            what, mend = "return_indices=True", "leave return_indices out"
        if what:
            found.append(
                Finding(
                    "supported operations",
                    "error",
                    f"{type(module).__name__} with {what} is not supported by PopTorch (its user guide)",
                    f"use {mend}",
                    f"{path or 'model'} ({type(module).__name__})",
                )
            )
    return found


def same_trace(runs: Runs) -> list[Finding]:
    """Later calls must run the same operations as the first.

    That they don't differ by values needs no second input: the recorded calls had no values to differ by.
    """
    first = runs.graph
    for later in runs.meta[1:]:
        place = _difference(first, later)
        if place is not None:
            return [
                at(
                    place,
                    "same trace",
                    "a later call runs other operations than the first, so the model keeps a count or a mood in "
                    "Python; an IPU would repeat the first call for ever",
                    "do the same in every call; what changes goes into a buffer (with copy_) or comes in as an input",
                )
            ]
    return []


def _difference(one: Record, other: Record) -> Place | None:
    """Where two records part; None if they don't."""
    if other.error is not None:
        return other.error_place
    for a, b in zip(one.operations, other.operations, strict=False):
        if (a.name, a.overload, _shapes(a)) != (b.name, b.overload, _shapes(b)):
            # The one that has more has something that the other left out.
            return a.place if len(one.operations) > len(other.operations) else b.place
    longer = max(one.operations, other.operations, key=len)
    shorter = min(len(one.operations), len(other.operations))
    return longer[shorter].place if len(longer) > shorter else None


def _shapes(op: Operation) -> list:
    return [tuple(t.shape) for t in op.outputs]


def _sized_by_values(op: Operation) -> bool:
    if op.name == "index":
        return any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in op.args[1])
    if op.name == "repeat_interleave":
        return op.overload == "Tensor" and op.kwargs.get("output_size") is None
    return op.name in SIZE_FROM_VALUES


def _written(op: Operation) -> str:
    return "x[mask]" if op.name == "index" else f"torch.{op.name}"


def _distinct(operations: list[Operation]) -> list[Operation]:
    """The first of each name and place."""
    return list({(op.name, op.place): op for op in reversed(operations)}.values())[::-1]
