"""Encoders, losses, optimizers and schedules by name, as ``SpikingModule`` takes them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn

from snnkit import encode, loss
from snnkit.data._batches import check_real
from snnkit.device import optimize_memory_usage
from snnkit.train.onecycle import OneCycle

ENCODERS = ("repeat", "poisson", "latency", "constant_current_lif", "sequence")
LOSSES = ("rate_cross_entropy", "count_cross_entropy", "membrane_max_cross_entropy", "rate_mse", "count_mse")
OPTIMIZERS = ("adam", "adamw", "sgd")
SCHEDULES = ("constant", "cosine", "one-cycle")

_CLASSES: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": partial(torch.optim.SGD, momentum=0.9),
}


def sequence(x: Tensor) -> Tensor:
    """Samples that are sequences already, [B, T, ...], as networks take them, [T, B, ...]; a view."""
    if x.ndim < 3:
        raise ValueError(f"encoder 'sequence' is for samples that are sequences, [B, T, ...]; got {list(x.shape)}")
    return x.transpose(0, 1)


def encoder_of(encoder: Any, steps: int) -> Callable[[Tensor], Tensor]:
    """Samples [B, ...] to sequences [T, B, ...]: one of ``ENCODERS`` with so many steps, or a function of one's own."""
    if isinstance(encoder, str):
        check_choice("encoder", encoder, ENCODERS)
        return sequence if encoder == "sequence" else partial(getattr(encode, encoder), steps=steps)
    return check_function("encoder", encoder, ENCODERS)


def loss_of(criterion: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """(out [T, B, C], labels int64 [B]) to a scalar: one of ``LOSSES`` or a function of one's own."""
    if isinstance(criterion, str):
        check_choice("loss", criterion, LOSSES)
        return getattr(loss, criterion)
    return check_function("loss", criterion, LOSSES)


def check_optimizer(optimizer: Any) -> None:
    if isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(
            "optimizer must be a name, a class such as torch.optim.SGD or a function of the parameters, as the "
            f"trainer makes it when the model is on its device; got the {type(optimizer).__name__} itself"
        )
    if isinstance(optimizer, str):
        check_choice("optimizer", optimizer, OPTIMIZERS)
    else:
        check_function("optimizer", optimizer, OPTIMIZERS)


def optimizer_of(
    optimizer: Any, model: nn.Module, lr: float, weight_decay: float, *, fused: bool
) -> torch.optim.Optimizer:
    """The optimizer of the parameters that are trained; ``fused`` counts for those with a name."""
    weights = [p for p in model.parameters() if p.requires_grad]
    if isinstance(optimizer, str):
        return _CLASSES[optimizer](weights, lr=lr, weight_decay=weight_decay, **({"fused": True} if fused else {}))
    made = optimizer(weights, lr=lr) if isinstance(optimizer, type) else optimizer(weights)
    if not isinstance(made, torch.optim.Optimizer):
        raise TypeError(f"optimizer must make a torch.optim.Optimizer; it made a {type(made).__name__}")
    return made


def check_scheduler(scheduler: Any) -> None:
    if isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler):
        raise TypeError(
            "scheduler must be a name or a function of the optimizer, which is made later; "
            f"got the {type(scheduler).__name__} itself"
        )
    if isinstance(scheduler, str):
        check_choice("scheduler", scheduler, SCHEDULES)
    elif scheduler is not None:
        check_function("scheduler", scheduler, SCHEDULES)


def schedule_of(scheduler: Any, optimizer: torch.optim.Optimizer, lr: float, epochs: int, updates: int) -> Any:
    """What Lightning wants to know of a schedule, or None for a constant rate.

    Args:
        scheduler: one of ``SCHEDULES``; a function of the optimizer that gives a scheduler, stepped after each epoch,
            or Lightning's dict {"scheduler": ..., "interval": "step"}; None.
        epochs, updates: of the whole run; "cosine" falls to 0 over the former, "one-cycle" rises and falls over the
            latter as ``train.onecycle.OneCycle``.
    """
    if scheduler is None or scheduler == "constant":
        return None
    if scheduler == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    if scheduler == "one-cycle":
        rate = OneCycle(optimizer, lr, updates).rate
        for group in optimizer.param_groups:
            group["lr"] = lr
        factor = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda update: rate(update) / lr)
        return {"scheduler": factor, "interval": "step"}
    return scheduler(optimizer)


def check_model(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module; got {type(model).__name__}")
    if isinstance(model, LightningModule):
        raise TypeError("model must be the plain network, not a LightningModule; take its .model")
    if not any(p.requires_grad for p in model.parameters()):
        raise ValueError("model has no parameters to train: none of them has requires_grad")


def check_numbers(lr: float, weight_decay: float) -> None:
    check_real("lr", lr)
    check_real("weight_decay", weight_decay)
    if not 0 < lr < math.inf:
        raise ValueError(f"lr must be a finite number above 0; got {lr!r}")
    if not 0 <= weight_decay < math.inf:
        raise ValueError(f"weight_decay must be a finite number of at least 0; got {weight_decay!r}")


def economise(model: nn.Module, choice: bool | int) -> None:
    """``checkpoint_activations`` of ``SpikingModule``."""
    if not isinstance(choice, int):
        raise TypeError(f"checkpoint_activations must be True, False or a number of time steps; got {choice!r}")
    if choice is False:
        return
    steps = None if choice is True else choice
    optimize_memory_usage(model, steps=steps, channels_last=False, free_caches=False)


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; got {value!r}")


def check_function(name: str, value: Any, choices: tuple[str, ...]) -> Any:
    if not callable(value):
        raise TypeError(
            f"{name} must be a function, or one of {', '.join(map(repr, choices))}; got {value!r} "
            f"({type(value).__name__})"
        )
    return value
