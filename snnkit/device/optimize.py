"""Training in less memory: what ``optimize_memory_usage`` switches on, and what each part saves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from .. import checks
from ..nn import Sequential, detach
from ..tables import html_table, size_of
from .memory_saving import MemorySaving, check_over_time, disable, enable, enabled_parts, left_alone
from .memory_table import layers_of, predicted_held
from .placement import check_module, check_together, device_of
from .usage import StepMemory, get_gpu_memory_usage, release_caches, training_step

_HEAD = ("saves bytes", "held", "at the peak", "", "")


@dataclass(frozen=True)
class Item:
    """One way to save memory.

    Attributes:
        name: what it is.
        saved: bytes less that are held between forward and backward; None: not known without a sample.
        peak: bytes less at the peak of a training step; None where nothing was measured.
        source: of ``saved``: "measured", "predicted" from shapes, or "unknown".
        note: what it costs, or why it does nothing here.
    """

    name: str
    saved: int | None
    peak: int | None
    source: str
    note: str = ""

    def cells(self) -> tuple[str, ...]:
        sizes = ["?" if size is None else size_of(size) for size in (self.saved, self.peak)]
        return (self.name, *sizes, self.source, self.note)


@dataclass(frozen=True)
class MemoryReport:
    """What ``optimize_memory_usage`` did; prints as a table.

    Attributes:
        items: in the order in which they were switched on; each counts what it saves beyond those before it.
        before, after: bytes of a training step beyond weights and input, as measured; None without a sample.
    """

    items: tuple[Item, ...]
    before: StepMemory | None = None
    after: StepMemory | None = None

    @property
    def saved(self) -> int | None:
        """Bytes less that are held for backward, of all items where that is known; None if there is none."""
        known = [item.saved for item in self.items if item.saved is not None]
        return sum(known) if known else None

    def __repr__(self) -> str:
        rows = [_HEAD, *(item.cells() for item in self.items)]
        width = max(len(row[0]) for row in rows)
        lines = [f"{a.ljust(width)}  {b:>11}  {c:>11}  {d:9}  {e}".rstrip() for a, b, c, d, e in rows]
        return "\n".join([*lines, *self._totals()])

    def _totals(self) -> list[str]:
        if self.before is None or self.after is None:
            unknown = any(item.source == "unknown" for item in self.items)
            return ["give it an input, optimize_memory_usage(model, x), and each line is measured"] if unknown else []
        factor = self.before.peak / max(self.after.peak, 1)
        return [
            f"peak of a training step: {size_of(self.before.peak)} → {size_of(self.after.peak)} "
            f"({factor:.2f} times less); held for backward: {size_of(self.before.held)} → {size_of(self.after.held)}"
        ]

    def _repr_html_(self) -> str:
        return html_table(_HEAD, [item.cells() for item in self.items], self._totals())


def optimize_memory_usage(
    model: nn.Module,
    sample: Tensor | Sequence[int] | None = None,
    *,
    recompute: bool = True,
    pack: bool = True,
    steps: int | None = None,
    channels_last: bool | None = None,
    free_caches: bool = True,
) -> MemoryReport:
    """Make ``model`` train in less memory, in place, with the same outputs and gradients.

    Parameters, names, ``state_dict`` and the way to call it stay; it may be called again with other choices, and
    ``restore_memory_usage`` undoes it. In each ``snnkit.nn.Sequential`` (the model itself or inside it):

    - ``pack``: where a convolution or linear layer saves its input for backward and that is spikes, it is saved as
      bits, 1/32 of float32. Spikes of neurons of this package are known; those of your own neurons are checked first.
    - ``recompute``: neurons and the pooling after them run on some samples at a time, and neurons are computed again in
      backward, so that spikes at full resolution are neither saved nor ever alive all at once (checkpointing over
      layers); max-pooling in two dimensions saves a byte for each place only.
    - ``steps``: run so many time steps at once and compute each chunk of time again in backward (checkpointing over
      time); costs a second forward pass, weighted layers included, and replaces the two above while gradients are
      computed.

    A model without such a ``Sequential`` gets ``packed_spikes`` around its forward pass. Under ``torch.compile`` and
    ``torch.func`` the model runs as it did before: they have means of their own. What has hooks is run as it is, and so
    are neurons of your own whose step draws random numbers or mixes samples; the report names those.

    Args:
        model: to be changed.
        sample: an input [T, B, ...]: each item is measured on it, by a training step with and without it. Or the shape
            of one, all of whose steps differ: then savings are predicted from shapes. None: they are not known.
        recompute, pack, steps: as above.
        channels_last: also put the weights of 2-D convolutions into channels-last memory format; None: on CUDA, where
            convolutions on tensor cores would otherwise make copies in it.
        free_caches: return memory that PyTorch or the C library holds without need to the device.

    Raises:
        TypeError, ValueError: not a module, a flag that is not a bool, ``steps`` below 1 or with a batch norm that
            learns or has no running statistics (its mean is taken over all steps), a sample of another kind, shape or
            device.
    """
    check_module(model)
    if channels_last is not None and not isinstance(channels_last, bool):
        raise TypeError(f"channels_last must be True, False or None, but it is {checks.shown(channels_last)}")
    for name, flag in (("recompute", recompute), ("pack", pack), ("free_caches", free_caches)):
        checks.flag(name, flag)
    _check_steps(model, steps)
    device_of(model)
    if isinstance(sample, Tensor):
        check_together(model, sample, "sample")
    elif sample is not None:
        sample = _checked_shape(sample)
    earlier = enabled_parts(model)
    try:
        _disable(model)
        items, history = _enable_in_turn(model, sample, recompute, pack, steps)
        where = device_of(model)
        if channels_last or (channels_last is None and where is not None and where.type == "cuda"):
            note = _to_channels_last(model)
            history.append(training_step(model, sample) if isinstance(sample, Tensor) else history[-1])
            items.append(Item("channels-last weights", *_less(history), _source(sample), note))
    except BaseException:
        # A sample that does not fit the model is no reason to undo what was enabled before.
        _disable(model)
        for module, settings in earlier:
            enable(module, settings)
        raise
    if free_caches:
        items.append(_freed(model))
    measured = isinstance(sample, Tensor)
    return MemoryReport(tuple(items), history[0] if measured else None, history[-1] if measured else None)


def _enable_in_turn(
    model: nn.Module, sample: Any, recompute: bool, pack: bool, steps: int | None
) -> tuple[list[Item], list[Any]]:
    """Enable one saving after the other: an item for each, and the bytes before and after."""
    now = MemorySaving(recompute=False, pack=False)
    items, history = [], [_amount(model, now, sample)]
    for name, wanted, change in (
        ("spikes as bits", pack, {"pack": True}),
        ("neurons computed again, pooling by pieces", recompute, {"recompute": True}),
        (f"checkpointing every {steps} steps", steps is not None, {"steps": steps}),
    ):
        if wanted:
            now = replace(now, **change)
            history.append(_amount(model, now, sample))
            items.append(Item(name, *_less(history), _source(sample), _note(model, next(iter(change)))))
    _apply(model, now)
    return items, history


def restore_memory_usage(model: nn.Module) -> nn.Module:
    """Undo ``optimize_memory_usage``; returns the model."""
    _disable(check_module(model))
    return model


def _apply(model: nn.Module, settings: MemorySaving) -> None:
    _disable(model)
    if settings == MemorySaving(recompute=False, pack=False):
        return
    parts = [module for module in model.modules() if isinstance(module, Sequential)] or [model]
    if settings.steps is not None:
        # The outermost only: checkpoints within checkpoints would compute the same again and again.
        inner = {id(m) for part in parts for m in part.modules() if m is not part}
        parts = [part for part in parts if id(part) not in inner]
    for part in parts:
        enable(part, settings)


def _disable(model: nn.Module) -> None:
    for module, _ in enabled_parts(model):
        disable(module)


def _amount(model: nn.Module, settings: MemorySaving, sample: Any) -> Any:
    if sample is None:
        return None
    if isinstance(sample, Tensor):
        _apply(model, settings)
        return training_step(model, sample)
    _disable(model)
    return predicted_held(model, settings, layers_of(model, sample), steps=sample[0])


def _less(history: list[Any]) -> tuple[int | None, int | None]:
    """(held, at the peak)"""
    before, after = history[-2:]
    if isinstance(before, StepMemory):
        return before.held - after.held, before.peak - after.peak
    return (None if before is None else before - after), None


def _source(sample: Any) -> str:
    return "unknown" if sample is None else "measured" if isinstance(sample, Tensor) else "predicted"


def _note(model: nn.Module, field: str) -> str:
    if field == "steps":
        return "costs a second forward pass"
    if not any(isinstance(module, Sequential) for module in model.modules()):
        return "each tensor is checked" if field == "pack" else "needs a snnkit.nn.Sequential; not used here"
    if field == "recompute":
        return "; ".join(why for net in model.modules() if isinstance(net, Sequential) for why in left_alone(net))
    return ""


def _to_channels_last(model: nn.Module) -> str:
    convolutions = [m for m in model.modules() if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d))]
    if convolutions:
        model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return f"{len(convolutions)} convolutions" if convolutions else "no 2-D convolution here"


def _freed(model: nn.Module) -> Item:
    where = device_of(model) or torch.device("cpu")
    before = get_gpu_memory_usage(where)
    release_caches(where)
    after = get_gpu_memory_usage(where)
    freed = (before.reserved or 0) - (after.reserved or 0)
    return Item("freed caches", max(freed, 0), None, "measured", "returned once, now: not part of a step")


def _check_steps(model: nn.Module, steps: int | None) -> None:
    if steps is None:
        return
    checks.integer("steps", steps, at_least=1)
    check_over_time(model)
    if not any(isinstance(m, Sequential) for m in model.modules()):
        raise ValueError("steps needs a snnkit.nn.Sequential in the model: only that can be run some steps at a time")


def _checked_shape(sample: Any) -> tuple[int, ...]:
    whole = isinstance(sample, (tuple, list, torch.Size)) and all(
        isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in sample
    )
    if not whole or len(sample) < 2:
        raise TypeError(
            "sample must be an input [T, B, ...], its shape such as (16, 128, 1, 28, 28), or None, "
            f"but it is {sample!r}"
        )
    return tuple(sample)


def truncated(model: nn.Module, x: Tensor, steps: int, state: Any = None) -> Iterator[tuple[Tensor, Any]]:
    """Truncated backpropagation through time: run ``model`` on a few steps after the other, each cut from the graph of
    those before it, so that memory holds one chunk, however long the sequence::

        for out, state in device.truncated(net, x, steps=10):
            loss(out, y).backward()
        optimizer.step()

    The state carries on, gradients don't: what happened more than ``steps`` steps ago is not blamed. Batch norm that
    learns sees each chunk by itself.

    Args:
        model: called ``out, state = model(x, state)``.
        x: [T, B, ...]; T need not be a multiple of ``steps``.
        steps: of a chunk, at least 1.
        state: to start from; None: at rest.

    Yields:
        out [steps, B, ...] of a chunk, and the state after it, detached.

    Raises:
        TypeError, ValueError: when called: not a module, not a sequence, ``steps`` that is not an int of at least 1.
    """
    check_module(model)
    checks.instance("x", x, Tensor, "a torch.Tensor [T, B, ...]")
    checks.integer("steps", steps, at_least=1)
    if x.dim() < 2 or not len(x):
        raise ValueError(f"x must be a sequence [T, B, ...], but its shape is {list(x.shape)}")

    def walk(state: Any) -> Iterator[tuple[Tensor, Any]]:
        for chunk in x.split(steps):
            out, state = model(chunk, state)
            state = detach(state)
            yield out, state

    return walk(state)
