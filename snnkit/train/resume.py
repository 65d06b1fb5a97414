"""Stop at the end of an epoch, and go on from there as if nothing had happened."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from snnkit.train.checkpoint import load_checkpoint, save_checkpoint
from snnkit.train.history import History


def save_run(
    path: str | os.PathLike[str],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None,
    scaler: torch.amp.GradScaler,
    order: torch.Generator,
    history: History,
    generators: Sequence[torch.Generator] = (),
) -> None:
    """Everything that the next epoch depends on; ``generators`` are those of the user's functions."""
    extra = {
        "scheduler": None if scheduler is None else scheduler.state_dict(),
        "scheduler_class": None if scheduler is None else type(scheduler).__name__,
        "scaler": scaler.state_dict(),
        "order": order.get_state(),
        "rng": torch.get_rng_state(),
        "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "generators": [generator.get_state() for generator in generators],
    }
    save_checkpoint(path, model, optimizer, epoch=history.epochs, history=history, extra=extra)


def resume_run(
    path: str | os.PathLike[str],
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None,
    scaler: torch.amp.GradScaler,
    order: torch.Generator,
    generators: Sequence[torch.Generator] = (),
) -> History:
    """Undo the time since `save_run`; the history so far."""
    extra = load_checkpoint(path)["extra"]
    if missing := {"scheduler", "scaler", "order", "rng", "cuda_rng"} - set(extra):
        raise ValueError(f"{path} was not written by fit (no {', '.join(sorted(missing))}); it can't be resumed from")
    if (scheduler is None) != (extra["scheduler"] is None):
        was, now = ("without", "with") if extra["scheduler"] is None else ("with", "without")
        raise ValueError(f"{path} was written {was} a scheduler; this call is {now} one")
    was, now = extra.get("scheduler_class"), type(scheduler).__name__
    if was is not None and was != now:  # older files don't say
        raise ValueError(f"{path} was written with the scheduler {was}; this call is with {now}")
    states = extra.get("generators", [])  # older files have none
    if len(states) != len(generators):
        raise ValueError(
            f"{path} was written with {len(states)} random generators in encode, augment, loss and model; "
            f"this call has {len(generators)}"
        )
    hook = optimizer.register_load_state_dict_pre_hook(in_its_own_way)
    try:
        content = load_checkpoint(path, model, optimizer)
    finally:
        hook.remove()
    for generator, state in zip(generators, states, strict=True):
        generator.set_state(state)
    if scheduler is not None:
        scheduler.load_state_dict(extra["scheduler"])
    scaler.load_state_dict(extra["scaler"])
    order.set_state(extra["order"])
    torch.set_rng_state(extra["rng"])
    if torch.cuda.is_available() and len(extra["cuda_rng"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(extra["cuda_rng"])
    return History.from_dict(content["history"])


def in_its_own_way(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
    """The saved state with this optimizer's choice of kernels, which belongs to the device and not to the run."""
    groups = [
        theirs | {way: own[way] for way in ("fused", "foreach", "capturable") if way in own}
        for theirs, own in zip(saved["param_groups"], optimizer.param_groups, strict=True)
    ]
    return saved | {"param_groups": groups}
