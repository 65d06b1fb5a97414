"""Sequences of events that are never made dense: what the first layer of a network takes in place of a tensor.

The frames of an event camera are zero in all but a few places, and take 59 MB for 64 samples of 100 steps of N-MNIST; a
list of the places takes the memory of the events. A ``torch.nn.Linear`` adds a row of its weights for each, forward and
backward (``event_products``). A ``torch.nn.Conv2d`` sees a few frames at a time, made of the list when they are needed.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from snnkit import checks, event_products
from snnkit.engine import CompilationFailed
from snnkit.engine.memory_gate import as_stored, is_left_to_pytorch, is_plain, is_watched, uncompiled
from snnkit.engine.plan import note_product
from snnkit.engine.triton.sum_rows import by_place, sum_rows, zero_times
from snnkit.event_products import Spikes
from snnkit.linear import is_hooked

# Bytes of the frames that a convolution sees at a time.
_PART = 2**22


class EventList:
    """A sequence [T, B, ...] as the places of its events, for ``nn.Sequential(torch.nn.Linear(…), …)``, or with a
    ``torch.nn.Conv2d`` or ``torch.nn.Flatten`` as its first layer. ``data.events.to_list`` makes it of recordings.

    Args:
        starts: int64 [T B + 1], never falling: the events of sample b in step t are
            ``places[starts[t B + b]:starts[t B + b + 1]]``.
        places: integers [n], each an index of a step of one sample, flattened. One that occurs twice there counts 2.
        shape: (T, B, ...).

    Raises:
        TypeError, ValueError: tensors of another kind, shape or device; ``starts`` that fall, or do not go from 0 to n;
            places outside of a step.
    """

    def __init__(self, starts: Tensor, places: Tensor, shape: Sequence[int]) -> None:
        self.shape = torch.Size(checks.integer("shape", size, at_least=1) for size in shape)
        if len(self.shape) < 3:
            raise ValueError(f"shape must be (T, B, ...) with at least 3 sizes, but it is {list(self.shape)}")
        rows, inputs = self.shape[0] * self.shape[1], self.inputs
        if inputs >= 2**31:
            raise ValueError(f"a step of one sample must have fewer than 2³¹ places, but it has {inputs:,}")
        for name, tensor in (("starts", starts), ("places", places)):
            if not isinstance(tensor, Tensor) or tensor.is_floating_point() or tensor.dim() != 1:
                raise TypeError(
                    f"{name} must be a tensor of integers with one dimension, but it is {checks.shown(tensor)}"
                )
        if starts.device != places.device:
            raise ValueError(f"starts is on {starts.device}, but places is on {places.device}; move one of them")
        if len(starts) != rows + 1:
            raise ValueError(f"starts must have T B + 1 = {rows + 1} numbers, but it has {len(starts)}")
        if int(starts[0]) or int(starts[-1]) != len(places) or bool((starts.diff() < 0).any()):
            raise ValueError(f"starts must go from 0 to {len(places)}, the number of places, and never fall")
        if len(places) and not (int(places.min()) >= 0 and int(places.max()) < inputs):
            low, high = int(places.min()), int(places.max())
            raise ValueError(f"places must be from 0 to {inputs - 1}, but they are from {low} to {high}")
        self.starts, self.places = starts.long().contiguous(), places.to(torch.int32).contiguous()
        self._versions = self._now()

    def _now(self) -> list[tuple[int, Any]]:
        """What changes with the tensors; of those of inference mode nothing does, so they never seem the same."""
        return [(id(t), object() if t.is_inference() else t._version) for t in (self.starts, self.places)]

    def checked(self) -> EventList:
        """The same, checked again if a tensor has been changed since, as kernels read and write where it says. On a GPU
        it is not, as each look would wait for it."""
        same = self.starts.device.type != "cpu" or self._versions == self._now()
        return self if same else EventList(self.starts, self.places, self.shape)

    def _of_checked(self, starts: Tensor, places: Tensor, shape: Sequence[int]) -> EventList:
        """Of its own parts elsewhere, or in another shape: their values are not looked at again."""
        self.checked()
        events = EventList.__new__(EventList)
        events.starts, events.places, events.shape = starts, places, torch.Size(shape)
        events._versions = events._now()
        return events

    @classmethod
    def of(cls, x: Tensor) -> EventList:
        """The list of a sequence [T, B, ...] of counts: whole numbers from 0 on."""
        if x.dim() < 3 or not bool(((x >= 0) & (x == x.floor())).all()):
            raise ValueError("x must be a sequence [T, B, ...] of counts, whole numbers from 0 on")
        rows = x.flatten(0, 1).flatten(1)
        row, place = rows.nonzero(as_tuple=True)
        counts = rows[row, place].long()
        ends = torch.bincount(row.repeat_interleave(counts), minlength=len(rows)).cumsum(0)
        return cls(torch.cat([ends.new_zeros(1), ends]), place.repeat_interleave(counts), x.shape)

    @property
    def inputs(self) -> int:
        """Places of a step of one sample."""
        return math.prod(self.shape[2:])

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"EventList({len(self.places):,} events, {list(self.shape)})"

    def flatten(self) -> EventList:
        """The same with steps [B, I]."""
        return self._of_checked(self.starts, self.places, (*self.shape[:2], self.inputs))

    def to(self, device: torch.device | str, *, non_blocking: bool = False) -> EventList:
        """The same on a device; ``non_blocking``: without waiting for copies from pinned memory to a GPU."""
        checks.flag("non_blocking", non_blocking)
        starts, places = (part.to(device, non_blocking=non_blocking) for part in (self.starts, self.places))
        return self._of_checked(starts, places, self.shape)

    def pin_memory(self) -> EventList:
        """The same in memory that a GPU reads directly; ``DataLoader(pin_memory=True)`` calls it."""
        return self._of_checked(self.starts.pin_memory(), self.places.pin_memory(), self.shape)

    def dense(self, dtype: torch.dtype = torch.float32) -> Tensor:
        """The counts [T, B, ...] as a tensor."""
        return self.rows(0, len(self.starts) - 1, dtype, (0, len(self.places))).view(self.shape)

    def rows(self, begin: int, end: int, dtype: torch.dtype, span: tuple[int, int] | None = None) -> Tensor:
        """The counts of some of the T B steps of samples, [end - begin, ...]. ``span``: ``starts[begin]`` and
        ``starts[end]``, where they are known: to read them waits for a GPU."""
        starts = self.starts[begin : end + 1]
        first, last = span or starts[:: end - begin].tolist()
        places = self.places[first:last].long()
        row = torch.repeat_interleave(starts.diff(), output_size=len(places))
        counts = torch.zeros(end - begin, self.inputs, dtype=dtype, device=starts.device)
        ones = counts.new_ones(()).expand(len(places))
        return counts.index_put_((row, places), ones, accumulate=True).view(-1, *self.shape[2:])


def through_first(module: nn.Module, events: EventList, name: str = "") -> Tensor | EventList:
    """What a first layer makes of events [T, B, ...]: [T, B, ...], or of ``Flatten`` a list again.

    Raises:
        TypeError: another layer than Linear, Conv2d or Flatten, which would need ``events.dense()``.
        ValueError: a layer for another number of inputs; a list that was changed, and can't be one any more.
    """
    events = events.checked()
    if type(module) is nn.Flatten and module.start_dim == 1 and module.end_dim == -1:
        return events.flatten()
    kind = type(module).__name__
    if not isinstance(module, (nn.Linear, nn.Conv2d)):
        raise TypeError(
            f"module {name} of Sequential must be Linear, Conv2d or Flatten to take an EventList, but it is {kind}; "
            "use events.dense()"
        )
    wants = [module.in_features] if isinstance(module, nn.Linear) else [module.in_channels, *events.shape[3:]]
    if list(events.shape[2:]) != wants or (isinstance(module, nn.Conv2d) and len(wants) != 3):
        wanted = f"[T, B, {wants[0]}" + ("]" if isinstance(module, nn.Linear) else ", H, W]")
        flatten = "; put torch.nn.Flatten() before it" if isinstance(module, nn.Linear) else ""
        raise ValueError(
            f"x of module {name} ({kind}) must be {wanted}, but its shape is {list(events.shape)}{flatten}"
        )
    plain = type(module) is nn.Linear and not is_hooked(module)
    out = _linear(module, events) if plain else _in_parts(module, events)
    return out.unflatten(0, events.shape[:2])


def _linear(layer: nn.Linear | nn.Conv2d, events: EventList) -> Tensor:
    weight, bias = layer.weight, layer.bias
    spikes = Spikes(events.starts, events.places, events.inputs)

    def note(way: str, why: str = "") -> None:
        shape = torch.Size([len(spikes.starts) - 1, spikes.inputs])
        note_product(layer, shape, way, lambda: f"a list of events, {spikes.density:.1%} of all places{why}")

    if is_watched() or torch.is_autocast_enabled(weight.device.type):
        note("PyTorch", "; autocast, or who watches it, expects PyTorch's operations")
        return _by_pytorch(weight, bias, spikes)
    plain = all(is_plain(t) and t.is_contiguous() for t in (weight, bias) if t is not None)
    out = _forward(weight.detach(), None if bias is None else bias.detach(), spikes) if plain else None
    if out is not None:
        note("events")
    else:  # without a compiler, or where a weight is not finite
        note("PyTorch", "; no kernel takes its weights")
        with torch.no_grad():
            out = _by_pytorch(weight, bias, spikes)
    return _Linear.apply(weight, bias, spikes, out)  # type: ignore[return-value]


def _forward(weight: Tensor, bias: Tensor | None, spikes: Spikes) -> Tensor | None:
    """The product by a kernel; None if there is none."""
    if _on_triton(weight):
        with _said_if_refused():
            out = sum_rows(weight.t(), spikes.starts, spikes.columns)
            return out.add_(zero_times(weight) if bias is None else bias + zero_times(weight))
        return None
    return event_products.product(spikes, weight, bias) if _has_kernel(weight) else None


def _backward(gradient: Tensor, spikes: Spikes) -> tuple[Tensor, Tensor] | None:
    """The gradients of weight and bias by a kernel; None if there is none."""
    if _on_triton(gradient):
        rows = by_place(spikes.starts, spikes.columns, spikes.inputs)
        with _said_if_refused():
            return sum_rows(gradient, *rows).t(), gradient.sum(0)
        return None
    return event_products.gradients(spikes, gradient) if _has_kernel(gradient) else None


@contextlib.contextmanager
def _said_if_refused() -> Iterator[None]:
    """A kernel that its compiler refuses leaves the work to PyTorch, and a warning says so."""
    try:
        yield
    except CompilationFailed as error:
        _warn_of_refusal(str(error))


@functools.cache  # once for each reason
def _warn_of_refusal(reason: str) -> None:
    what = "products with an EventList are left to PyTorch's operations"
    warnings.warn(f"{what}: triton failed ({reason})", stacklevel=5)


def _on_triton(x: Tensor) -> bool:
    return x.is_cuda and x.dtype != torch.float64 and importlib.util.find_spec("triton") is not None


def _has_kernel(x: Tensor) -> bool:
    """Whether products with x can be made by C++."""
    known = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64, torch.bfloat16)
    return known and event_products.kernels() is not None


def _by_pytorch(weight: Tensor, bias: Tensor | None, spikes: Spikes) -> Tensor:
    """Sums of rows of the weights, by PyTorch's own operation for them."""
    rows = nn.functional.embedding_bag(
        spikes.columns, weight.t().contiguous(), spikes.starts.int(), mode="sum", include_last_offset=True
    )
    return rows if bias is None else rows + bias


class _Linear(torch.autograd.Function):
    """weight [O, I], bias [O] or None -> the product [rows, O], computed before."""

    @staticmethod
    def forward(ctx, weight: Tensor, bias: Tensor | None, spikes: Spikes, out: Tensor) -> Tensor:
        ctx.save_for_backward(spikes.starts, spikes.columns)
        ctx.inputs = spikes.inputs
        return out

    @staticmethod
    @uncompiled
    def backward(ctx, gradient: Tensor):  # type: ignore[override]
        starts, columns = ctx.saved_tensors
        made = None
        if not is_left_to_pytorch(gradient):
            made = _backward(as_stored(gradient), Spikes(starts, columns, ctx.inputs))
        if made is None:
            of_event = gradient.repeat_interleave(starts.diff(), 0, output_size=len(columns))
            d_weight = gradient.new_zeros(ctx.inputs, gradient.shape[1]).index_add(0, columns, of_event)
            made = d_weight.t(), gradient.sum(0)
        return made[0], made[1] if ctx.needs_input_grad[1] else None, None, None


def _in_parts(layer: nn.Linear | nn.Conv2d, events: EventList) -> Tensor:
    """[T B, ...], a few frames at a time, which backward makes again."""
    dtype = layer.weight.dtype
    count = max(1, _PART // (events.inputs * dtype.itemsize))
    last = len(events.starts) - 1
    reason = "a list of events, made frames again, a few at a time"
    note_product(layer, torch.Size([last, *events.shape[2:]]), "PyTorch", reason)
    begins = range(0, last, count)
    # Read at once, not for each part and direction: a GPU would be waited for each time.
    bounds = [*events.starts[:-1:count].tolist(), len(events.places)]

    def part(begin: int) -> Tensor:
        at = begin // count
        return layer(events.rows(begin, min(begin + count, last), dtype, (bounds[at], bounds[at + 1])))

    if not torch.is_grad_enabled():
        return torch.cat([part(begin) for begin in begins])
    return torch.cat([checkpoint(part, begin, use_reentrant=False) for begin in begins])  # type: ignore[misc]
