"""A run of cheap layers that backward computes again: batch norm, neuron, pooling, as one node of the autograd graph.

Between two convolutions, training keeps the output of the batch norm (for the neuron), the spikes (for the pooling) and
the indices of the pooling, several times the bytes of the convolution's output they come from. All three cost next to
no arithmetic. ``run`` keeps the first input and nothing else; backward computes the rest anew.

Neurons and pooling do not look at other samples, so they are run on a few samples at a time, forward and backward: the
spikes at full resolution, the largest tensors of a network, never exist all at once.

What is computed again is computed by the same kernels from the same numbers: spikes and gradients are those of the
plain layers (gradients of a neuron's parameters are summed in another order).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from snnkit.nn import time_batched

from .first_order import first_order
from .pool import Pooled, pool

# Bytes of input to take at a time, at the least: enough to keep the device busy, and to leave a neuron in the engine
# that it would have for all samples.
_PIECE = {"cpu": 2**22, "cuda": 2**26}
# Pieces that are enough: what is alive at once is then a small part of the whole.
_MOST_PIECES = 16


@dataclass(frozen=True)
class Segment:
    """Layers that follow each other in a ``Sequential``.

    Attributes:
        norm: a batch norm, or None.
        neuron: called (x, state), or None (then there is no norm).
        rest: stateless layers that treat each sample by itself; without a neuron, some ``MaxPool2d`` and layers that
            change the shape.
    """

    norm: Any
    neuron: Any
    rest: tuple[nn.Module, ...]


def run(segment: Segment, x: Tensor, state: Any = None, steps: int = 0) -> tuple[Tensor, Any]:
    """``x`` through the segment: [T, B, ...] to out [T, B, ...] and the new state of its neuron (None if it has none).

    With ``steps``, x is one step [B, ...] of a static sequence of that length; a norm then sees it once (``nn.Once``).
    """
    call = _Call(segment, steps, None if state is None else type(state), x.device.type)
    given = () if state is None else tuple(state)
    own = segment_tensors(segment).values()
    out, *last = _Recomputed.apply(call, len(given), x, *given, *own)  # type: ignore[misc]
    return out, call.state_of(last) if segment.neuron is not None else None


def segment_tensors(segment: Segment) -> dict[str, Tensor]:
    """Parameters of norm and neuron, and buffers of the neuron, as "norm.weight", "neuron.tau"."""
    owners = (("norm", segment.norm), ("neuron", segment.neuron))
    found: dict[str, Tensor] = {
        f"{kind}.{name}": p for kind, module in owners if module is not None for name, p in module.named_parameters()
    }
    if segment.neuron is not None:
        # With the others they are kept as they are now; changed in place before backward, they are an error.
        found.update({f"neuron.{name}": b for name, b in segment.neuron.named_buffers()})
    return found


class _Call:
    """What forward and backward of one call share besides tensors."""

    def __init__(self, segment: Segment, steps: int, state_type: Any, device_type: str) -> None:
        self.segment = segment
        self.steps = steps  # T of a static x, else 0
        self.state_type = state_type
        self.names = list(segment_tensors(segment))
        self.training = segment.norm is not None and (segment.norm.training or segment.norm.running_mean is None)
        self.mean: Any = None
        self.var: Any = None
        if segment.norm is not None and not self.training:
            norm: Any = segment.norm
            self.mean, self.var = norm.running_mean.clone(), norm.running_var.clone()
        self._autocast = (
            torch.is_autocast_enabled(device_type),
            torch.get_autocast_dtype(device_type),
            torch.is_autocast_cache_enabled(),
        )
        self._device_type = device_type

    def autocast(self) -> torch.autocast:
        """As it was when forward ran."""
        enabled, dtype, cache = self._autocast
        return torch.autocast(self._device_type, dtype=dtype, enabled=enabled, cache_enabled=cache)

    def state_of(self, parts: Sequence[Tensor]) -> Any:
        return getattr(self.state_type, "_make", tuple)(parts)

    def norm(self, x: Tensor) -> Tensor:
        """Forward; running statistics learn."""
        norm = self.segment.norm
        if norm is None:
            return x
        return norm(x) if self.steps else time_batched(norm, x)

    def norm_again(self, x: Tensor, parameters: dict[str, Tensor]) -> Tensor:
        """By the same kernel, and running statistics learn nothing."""
        weight, bias = parameters.get("norm.weight"), parameters.get("norm.bias")
        flat = x if self.steps else x.flatten(0, 1)
        eps = self.segment.norm.eps
        y = F.batch_norm(flat, self.mean, self.var, weight, bias, self.training, 0.0, eps)
        return y if self.steps else y.unflatten(0, x.shape[:2])

    def tail(
        self,
        y: Tensor,
        state: Sequence[Tensor],
        parameters: dict[str, Tensor],
        offsets: list[Tensor] | None = None,
        again: bool = False,
    ) -> tuple[Tensor, ...]:
        """Neuron and rest on some samples: (out, *last state).

        ``offsets`` of the poolings are appended where given; ``again``: taken from there, and ``out`` is of use only
        for its gradient.
        """
        last: Sequence[Tensor] = ()
        neuron = self.segment.neuron
        if neuron is not None:
            given = self.state_of(state) if state else None
            own = {n.removeprefix("neuron."): p for n, p in parameters.items() if n.startswith("neuron.")}
            how = {"repeat": self.steps} if self.steps else {}
            y, last = torch.func.functional_call(neuron, own, (y, given), how) if own else neuron(y, given, **how)
            self.state_type = type(last)
        elif self.steps:
            y = y.unsqueeze(0).expand(self.steps, *y.shape)
        for module in self.segment.rest:
            flat: Any = y.flatten(0, 1)
            if offsets is None or type(module) is not nn.MaxPool2d or y.dim() != 5:
                flat = module(flat)
            elif again:
                flat = Pooled.apply(flat, offsets.pop(0), module)
            else:
                flat, places = pool(module, flat)
                offsets.append(places)
            y = flat.unflatten(0, y.shape[:2])
        return y, *last

    def samples(self, y: Tensor) -> int:
        return y.shape[0 if self.steps else 1]

    def windows(self, y: Tensor) -> Iterator[slice]:
        """Slices of the batch."""
        batch = self.samples(y)
        total = y.nbytes * max(self.steps, 1)
        pieces = min(total // _PIECE.get(y.device.type, _PIECE["cuda"]), _MOST_PIECES, batch)
        if pieces <= 1 or self._neuron_knows_samples(y):
            yield slice(0, batch)
            return
        size = -(-batch // pieces)
        for start in range(0, batch, size):
            yield slice(start, min(start + size, batch))

    def _neuron_knows_samples(self, y: Tensor) -> bool:
        """Whether its numbers have a batch dimension, too."""
        if self.segment.neuron is None:
            return False
        dims = y.dim() if self.steps else y.dim() - 1
        every = (*self.segment.neuron.parameters(), *self.segment.neuron.buffers())
        return any(t.dim() >= dims and t.shape[0] > 1 for t in every)

    def some(self, y: Tensor, window: slice) -> Tensor:
        return y[window] if self.steps else y[:, window]


class _Recomputed(torch.autograd.Function):
    """(call, length of the state, x, *state, *parameters) -> (out, *last state)."""

    @staticmethod
    def forward(ctx, call: _Call, count: int, x: Tensor, *tensors: Tensor):
        state, parameters = tensors[:count], dict(zip(call.names, tensors[count:], strict=True))
        offsets: list[Tensor] | None = [] if any(ctx.needs_input_grad) else None
        y = call.norm(x)
        batch = call.samples(y)
        whole: list[Tensor] = []
        for window in call.windows(y):
            results = call.tail(call.some(y, window), [s[window] for s in state], parameters, offsets)
            if window == slice(0, batch):
                whole = list(results)
                break
            if not whole:
                whole = [_room(part, batch, 0 if i else 1) for i, part in enumerate(results)]
            for i, (place, part) in enumerate(zip(whole, results, strict=True)):
                (place[window] if i else place[:, window]).copy_(part)
        kept = () if call.segment.neuron is None else (x,)
        ctx.save_for_backward(*kept, *tensors, *(offsets or ()))
        ctx.call, ctx.count, ctx.tensors = call, count, len(tensors)
        ctx.like = None if kept else (x.shape, x.stride(), x.dtype, x.device)
        ctx.set_materialize_grads(False)
        # Not as views, which autograd would not let a layer in place write to.
        return tuple(part.data for part in whole)

    @staticmethod
    @first_order
    def backward(ctx, *gradients: Tensor | None):
        call, count, saved = ctx.call, ctx.count, list(ctx.saved_tensors)
        needs_x, *needs = ctx.needs_input_grad[2:]
        # Of the input of poolings only the shape matters: their gradient can be written there at once.
        x = saved.pop(0) if ctx.like is None else _as(*ctx.like)
        tensors, offsets = saved[: ctx.tensors], saved[ctx.tensors :]
        if all(gradient is None for gradient in gradients):
            return (None,) * (3 + len(tensors))
        with_norm = call.segment.norm is not None
        with torch.enable_grad(), call.autocast():
            leaf = x.detach().requires_grad_(needs_x)
            tensors = [t.detach().requires_grad_(need) for t, need in zip(tensors, needs, strict=True)]
            state, parameters = tensors[:count], dict(zip(call.names, tensors[count:], strict=True))
            y = call.norm_again(leaf, parameters) if with_norm else leaf
            # Not detach(): a change of that would be noted in the graph of y, at the cost of another tensor.
            spare = y.data if with_norm or ctx.like is not None else None
            d_y, found = _tail_backward(call, y, state, parameters, offsets, gradients, spare)
            if with_norm and y.requires_grad:
                of_norm = {n: p for n, p in parameters.items() if n.startswith("norm.") and p.requires_grad}
                wanted = [*((leaf,) if needs_x else ()), *of_norm.values()]
                results = list(torch.autograd.grad(y, wanted, d_y))
                d_y = results.pop(0) if needs_x else None
                found.update(zip(of_norm, results, strict=True))
        d_state = [found.get(i) for i in range(count)]
        return (None, None, d_y if needs_x else None, *d_state, *(found.get(name) for name in call.names))


def _as(shape: torch.Size, stride: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Room for a tensor of this layout, or, if that has gaps, a contiguous one."""
    meta = torch.empty_strided(shape, stride, dtype=dtype, device="meta")
    return torch.empty_like(meta, device=device)


def _tail_backward(
    call: _Call,
    y: Tensor,
    state: Sequence[Tensor],
    parameters: dict[str, Tensor],
    offsets: list[Tensor],
    gradients: Sequence[Tensor | None],
    spare: Tensor | None,
) -> tuple[Tensor | None, dict[Any, Tensor]]:
    """d_y, and gradients by index of the state and by name of the parameter."""
    batch = call.samples(y)
    of_neuron = {n: p for n, p in parameters.items() if n.startswith("neuron.") and p.requires_grad}
    # What was made just now may be written over: nothing else needs it.
    d_y = (spare if spare is not None else torch.empty_like(y)) if y.requires_grad else None
    found: dict[Any, Tensor] = {}
    for window in call.windows(y):
        piece = call.some(y, window).detach().requires_grad_(y.requires_grad)
        before = [s[window].detach().requires_grad_(s.requires_grad) for s in state]
        results = call.tail(piece, before, parameters, offsets, again=True)
        pairs = [
            (r, g[window] if i else g[:, window])
            for i, (r, g) in enumerate(zip(results, gradients, strict=True))
            if g is not None and r.requires_grad
        ]
        wanted: dict[Any, Tensor] = {i: s for i, s in enumerate(before) if s.requires_grad} | of_neuron
        if piece.requires_grad:
            wanted["y"] = piece
        given = torch.autograd.grad(
            [r for r, _ in pairs], list(wanted.values()), [g for _, g in pairs], allow_unused=True
        )
        for key, gradient in zip(wanted, given, strict=True):
            if key == "y":
                place = call.some(d_y, window)  # type: ignore[arg-type]
                place.zero_() if gradient is None else place.copy_(gradient)
            elif gradient is None:
                continue
            elif key in of_neuron:
                found[key] = gradient if key not in found else found[key] + gradient
            else:
                if key not in found:
                    found[key] = _room(gradient, batch, 0).zero_()
                found[key][window] = gradient
    return d_y, found


def _room(piece: Tensor, batch: int, dim: int) -> Tensor:
    """An empty tensor for the whole batch, in the layout of a piece of it."""
    sizes = list(piece.shape)
    sizes[dim] = batch
    order = sorted(range(len(sizes)), key=lambda d: -piece.stride(d))  # stable
    inverse = [order.index(d) for d in range(len(order))]
    return piece.new_empty([sizes[d] for d in order]).permute(inverse)
