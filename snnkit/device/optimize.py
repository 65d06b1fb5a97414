"""Training in less memory: what ``optimize_memory_usage`` switches on, and what each part saves."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.nn import Sequential

from .economy import Economical, check_over_time, check_release, economise, release
from .layers import layers_of, predicted_held
from .measure import Taken, training_step
from .place import check_module, check_together, device_of
from .plan import Settings, left_alone
from .report import Item, MemoryReport
from .usage import get_gpu_memory_usage


def optimize_memory_usage(
    model: nn.Module,
    sample: Tensor | Sequence[int] | None = None,
    *,
    recompute: bool = True,
    pool: bool = True,
    pack: bool = True,
    steps: int | None = None,
    channels_last: bool | None = None,
    free_caches: bool = True,
) -> MemoryReport:
    """Make ``model`` train in less memory, in place, with the same outputs and gradients.

    Parameters, names, ``state_dict`` and the way to call it stay; it may be called again with other choices, and
    ``restore_memory_usage`` undoes it. In each ``snnkit.nn.Sequential`` (the model itself or inside it):

    - ``pool``: max-pooling (2-D) keeps a byte per output value; PyTorch's keeps its input and a 64-bit index.
    - ``pack``: where a convolution or linear layer keeps its input for backward and that is spikes, it is kept as bits,
      1/32 of float32. Spikes of neurons of this package are known; those of your own neurons are looked at first.
    - ``recompute``: batch norm, neurons and pooling between two weighted layers are computed again in backward, some
      samples at a time, so that their outputs are neither kept nor ever alive all at once (checkpointing over layers).
    - ``steps``: run so many time steps at once and compute each chunk of time again in backward (checkpointing over
      time); costs a second forward pass, weighted layers included, and takes the place of the three above while
      gradients are wanted.

    A model without such a ``Sequential`` gets ``packed_spikes`` around its forward pass. Under ``torch.compile`` and
    ``torch.func`` the model runs as it did before: they have means of their own. What has hooks is run as it is, and so
    are neurons of your own whose step draws random numbers or mixes samples; the report names those. For second
    derivatives, call ``restore_memory_usage`` first.

    Args:
        model: to be changed.
        sample: an input [T, B, ...]: each item is measured on it, by a training step with and without it. Or the shape
            of one, all of whose steps differ: then savings are predicted from shapes. None: they are not known.
        recompute, pool, pack, steps: as above.
        channels_last: also put the weights of 2-D convolutions into channels-last memory format; None: on CUDA, where
            convolutions on tensor cores would else make copies in it.
        free_caches: give memory that PyTorch or the C library keeps, but nobody uses, back to the device.

    Raises:
        TypeError, ValueError: no module, a flag that is no bool, ``steps`` below 1 or with a batch norm that learns
            or has no running statistics (its mean is taken over all steps), a sample of another kind, shape or device.
    """
    check_module(model)
    if not (channels_last is None or isinstance(channels_last, bool)):
        raise TypeError(f"channels_last must be True, False or None, but it is {channels_last!r}")
    for name, flag in (
        ("recompute", recompute),
        ("pool", pool),
        ("pack", pack),
        ("free_caches", free_caches),
    ):
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be True or False, but it is {flag!r}")
    _check_steps(model, steps)
    device_of(model)
    if isinstance(sample, Tensor):
        check_together(model, sample, "sample")
    elif sample is not None:
        sample = _checked_shape(sample)
    chosen = [
        ("max-pooling without indices", pool, "pool", True),
        ("spikes as bits", pack, "pack", True),
        ("batch norm, neurons and pooling computed again", recompute, "recompute", True),
        (f"checkpointing every {steps} steps", steps is not None, "steps", steps),
    ]
    earlier = economical_parts(model)
    _unwrap(model)
    try:
        return _switched_on(model, sample, chosen, channels_last, free_caches)
    except BaseException:
        # A sample that does not fit to the model, say: that is no reason to give up what was switched on before.
        _unwrap(model)
        for module, settings in earlier:
            economise(module, settings)
        raise


def _switched_on(
    model: nn.Module, sample: Any, chosen: list[tuple], channels_last: bool | None, free_caches: bool
) -> MemoryReport:
    off = Settings(recompute=False, pool=False, pack=False, steps=None)
    now, items, history = off, [], [_amount(model, off, sample)]
    for name, wanted, field, value in chosen:
        if not wanted:
            continue
        now = Settings(**{**vars(now), field: value})
        history.append(_amount(model, now, sample))
        items.append(Item(name, *_less(history), _source(sample), _note(model, field)))
    _apply(model, now)
    where = device_of(model)
    if channels_last or (channels_last is None and where is not None and where.type == "cuda"):
        note = _to_channels_last(model)
        history.append(_amount(model, now, sample) if isinstance(sample, Tensor) else history[-1])
        items.append(Item("channels-last weights", *_less(history), _source(sample), note))
    if free_caches:
        items.append(_freed(model))
    measured = isinstance(sample, Tensor)
    return MemoryReport(tuple(items), history[0] if measured else None, history[-1] if measured else None)


def restore_memory_usage(model: nn.Module) -> nn.Module:
    """Undo ``optimize_memory_usage``; gives the model back."""
    _unwrap(check_module(model))
    return model


def economical_parts(model: nn.Module) -> list[tuple[Any, Settings]]:
    """The modules that ``optimize_memory_usage`` has changed, with their settings."""
    return [(module, module.economy) for module in model.modules() if isinstance(module, Economical)]


def _apply(model: nn.Module, settings: Settings) -> None:
    _unwrap(model)
    if settings == Settings(recompute=False, pool=False, pack=False, steps=None):
        return
    parts = [module for module in model.modules() if isinstance(module, Sequential)] or [model]
    if settings.steps is not None:
        # The outermost only: checkpoints within checkpoints would compute the same again and again.
        inner = {id(m) for part in parts for m in part.modules() if m is not part}
        parts = [part for part in parts if id(part) not in inner]
    for part in parts:
        economise(part, settings)


def _unwrap(model: nn.Module) -> None:
    parts = [module for module, _ in economical_parts(model)]
    for module in parts:
        check_release(module)
    for module in parts:
        release(module)


def _amount(model: nn.Module, settings: Settings, sample: Any) -> Any:
    if sample is None:
        return None
    if isinstance(sample, Tensor):
        _apply(model, settings)
        return training_step(model, sample)
    _unwrap(model)
    return predicted_held(model, settings, layers_of(model, sample), steps=sample[0])


def _less(history: list[Any]) -> tuple[int | None, int | None]:
    """(held, at the peak)"""
    before, after = history[-2:]
    if isinstance(before, Taken):
        return before.held - after.held, before.peak - after.peak
    return (None if before is None else before - after), None


def _source(sample: Any) -> str:
    return "unknown" if sample is None else "measured" if isinstance(sample, Tensor) else "predicted"


def _note(model: nn.Module, field: str) -> str:
    if field == "steps":
        return "costs a second forward pass"
    if not any(isinstance(module, Sequential) for module in model.modules()):
        return "each tensor is looked at" if field == "pack" else "needs a snnkit.nn.Sequential; not used here"
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
    free_caches_of(where)
    after = get_gpu_memory_usage(where)
    freed = (before.reserved or 0) - (after.reserved or 0)
    return Item("freed caches", max(freed, 0), None, "measured", "given back once, now: no part of a step")


def free_caches_of(device: torch.device) -> None:
    """Give what Python and PyTorch keep without need back to the device."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    elif device.type == "mps":
        torch.mps.empty_cache()
    else:
        with contextlib.suppress(OSError, TypeError, AttributeError):  # where the C library has no such function
            ctypes.CDLL(None).malloc_trim(0)


def _check_steps(model: nn.Module, steps: int | None) -> None:
    if steps is None:
        return
    if isinstance(steps, bool) or not isinstance(steps, int):
        raise TypeError(f"steps must be an int of at least 1 or None, but it is {steps!r}")
    if steps < 1:
        raise ValueError(f"steps must be at least 1, but it is {steps}")
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
