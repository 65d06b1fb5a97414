"""What `fit` and `evaluate` refuse before they start."""

from __future__ import annotations

import os
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.data._batches import check_positive_int, check_real


def check_arguments(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None,
    lr: float,
    epochs: int,
    batch_size: int,
    checkpoint: str | os.PathLike[str] | None,
    resume: bool,
) -> None:
    check_positive_int("epochs", epochs)
    check_positive_int("batch_size", batch_size)
    if not isinstance(model, nn.Module):
        hint = "; take its .model, and device=its .device" if hasattr(model, "model") else ""
        raise TypeError(f"model must be a torch.nn.Module; got {type(model).__name__}{hint}")
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError("model has no parameters to train: none of them has requires_grad")
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"optimizer must be a torch.optim.Optimizer or None; got {type(optimizer).__name__}")
    if optimizer is not None:
        required = [p.name for p in signature(optimizer.step).parameters.values() if p.default is p.empty]
        if "closure" in required:
            raise ValueError(
                f"optimizer must be able to step without a closure; {type(optimizer).__name__} works the loss out "
                "several times per step, which fit does not do"
            )
        own = {id(p) for p in model.parameters()}
        if not any(id(p) in own for group in optimizer.param_groups for p in group["params"]):
            raise ValueError("optimizer holds none of the model's parameters; was it made for another model?")
    check_real("lr", lr)
    if not 0 < lr < float("inf"):
        raise ValueError(f"lr must be a finite number above 0; got {lr!r}")
    if scheduler is not None and (optimizer is None or scheduler.optimizer is not optimizer):
        raise ValueError("scheduler must come with the optimizer it was made for: pass that as optimizer=")
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint=, the file to go on from")


def check_update(clip: float | None, accumulate: int, **flags: bool) -> None:
    """What one update is made of."""
    check_positive_int("accumulate", accumulate)
    if clip is not None:
        check_real("clip", clip)
        if not 0 < clip < float("inf"):
            raise ValueError(f"clip must be a finite number above 0, or None; got {clip!r}")
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise TypeError(f"{name} must be True or False; got {flag!r} ({type(flag).__name__})")


def check_callables(*, optional: bool = False, **functions: Any) -> None:
    for name, function in functions.items():
        if not callable(function) and not (optional and function is None):
            choice = "a function or None" if optional else "a function"
            raise TypeError(f"{name} must be {choice}; got {function!r} ({type(function).__name__})")


def check_same_dtype(train: Tensor, test: Tensor) -> None:
    """Found here, not after the first epoch."""
    dtypes = [torch.float32 if samples.dtype == torch.uint8 else samples.dtype for samples in (train, test)]
    if dtypes[0] != dtypes[1]:
        raise TypeError(f"test_data: the samples must have the dtype of train_data's; got {dtypes[1]} and {dtypes[0]}")
