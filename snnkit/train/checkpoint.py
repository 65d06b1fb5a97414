"""Checkpoints: written whole or not at all, and holding nothing that could run code when opened."""

from __future__ import annotations

import os
from collections import Counter, OrderedDict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.train import archive
from snnkit.train.history import History

FORMAT = "snnkit checkpoint 1"

# What a file must hold, and of which kinds.
_KINDS: dict[str, tuple[type, ...]] = {
    "epoch": (int,),
    "model": (dict,),
    "optimizer": (dict, type(None)),
    "history": (dict, type(None)),
    "extra": (dict,),
}
_PRIMITIVES = (type(None), bool, int, float, str, bytes)


def save_checkpoint(
    path: str | os.PathLike[str],
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    epoch: int = 0,
    history: History | dict[str, Any] | None = None,
    extra: dict[str, Any] | None = None,
) -> Path:
    """Save a model's weights, and what is needed to go on training it; return the path.

    `epoch` is the number of finished epochs. `extra` may hold anything made of tensors, numbers, strings, None,
    lists, tuples and dicts. The file takes the place of an older one in one step, so that a crash leaves either.

    Raises TypeError, naming the entry, for anything else (`load_checkpoint` could not read it back), and ValueError
    where no file can be written at `path`.
    """
    path = archive.writable(path, "path")
    content = {
        "format": FORMAT,
        "epoch": int(epoch),
        "model": model.state_dict(),
        "optimizer": None if optimizer is None else optimizer.state_dict(),
        "optimizer_class": None if optimizer is None else type(optimizer).__name__,
        "history": history.to_dict() if isinstance(history, History) else history,
        "extra": {} if extra is None else extra,
    }
    for name, value in content.items():
        check_plain(name, value)
    archive.write(path, content)
    return path


def load_checkpoint(
    path: str | os.PathLike[str],
    model: nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    map_location: str | torch.device = "cpu",
) -> dict[str, Any]:
    """Read a checkpoint and put its weights into `model` and its state into `optimizer`, where given.

    Returns the dict with the keys "epoch", "model", "optimizer", "optimizer_class", "history" and "extra". Tensors
    arrive on `map_location`; those copied into `model` and `optimizer` stay on the devices of these.

    Only tensors and plain values are read (`weights_only=True`): a file from a stranger can't run code here.
    Raises FileNotFoundError where there is no file, ValueError, naming it, where it is damaged, is not a checkpoint of
    ours or doesn't fit the model or optimizer; both are then as they were.
    """
    path = Path(path).expanduser()
    content = _read(path, map_location)
    # Everything is checked before anything is changed: load_state_dict copies what fits before it complains.
    if model is not None:
        _check_fits_model(path, content["model"], model)
    if optimizer is not None:
        _check_fits_optimizer(path, content["optimizer"], content.get("optimizer_class"), optimizer)
    if model is not None:
        model.load_state_dict(content["model"])
    if optimizer is not None:
        optimizer.load_state_dict(content["optimizer"])
    return content


def _read(path: Path, map_location: str | torch.device) -> dict[str, Any]:
    content = archive.read(path, "checkpoint", map_location)
    if isinstance(content, dict) and "pytorch-lightning_version" in content:
        raise ValueError(
            f"{path} is a checkpoint of Lightning, which alone can go on from it: `snnkit train` with --devices or "
            "--every, or under torchrun or srun"
        )
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} is not a checkpoint written by save_checkpoint ({FORMAT!r})")
    if missing := set(_KINDS) - set(content):
        raise ValueError(f"{path} is an incomplete checkpoint: no {', '.join(sorted(missing))}")
    for name, kinds in _KINDS.items():
        if not isinstance(content[name], kinds):
            raise ValueError(f"{path} is no checkpoint: {name} is a {type(content[name]).__name__} there")
    return content


def _check_fits_model(path: Path, saved: dict[str, Any], model: nn.Module) -> None:
    own = model.state_dict()
    problems = [f"missing in the file: {name}" for name in own if name not in saved]
    problems += [f"not in the model: {name}" for name in saved if name not in own]
    for name in own:
        if not isinstance(own[name], Tensor) or name not in saved:
            continue
        if not isinstance(saved[name], Tensor):
            problems.append(f"{name}: a {type(saved[name]).__name__} in the file, a tensor in the model")
        elif own[name].shape != saved[name].shape:
            problems.append(f"{name}: {list(saved[name].shape)} in the file, {list(own[name].shape)} in the model")
    if problems:
        raise ValueError(f"{path} does not fit the model:\n  " + "\n  ".join(problems))


def _check_fits_optimizer(
    path: Path, saved: dict[str, Any] | None, saved_class: str | None, optimizer: torch.optim.Optimizer
) -> None:
    if saved is None:
        raise ValueError(f"{path} holds no optimizer state; load it without optimizer=")
    groups = saved.get("param_groups")
    if (
        not isinstance(saved.get("state"), dict)
        or not isinstance(groups, list)
        or not all(isinstance(group, dict) and isinstance(group.get("params"), list) for group in groups)
    ):
        raise ValueError(f"{path} does not fit the optimizer: it holds no state of one (state, param_groups, params)")
    own = [len(group["params"]) for group in optimizer.param_groups]
    theirs = [len(group["params"]) for group in groups]
    if own != theirs:
        raise ValueError(f"{path} does not fit the optimizer: parameters per group are {theirs} there and {own} here")
    # PyTorch would take the groups as they come, and the next step would fail, or follow another rule in silence.
    own_class = type(optimizer).__name__
    if saved_class is not None and saved_class != own_class:
        raise ValueError(f"{path} does not fit the optimizer: it was written with {saved_class}, this is {own_class}")
    for i, group in enumerate(groups):
        missing = set(optimizer.defaults) - set(group)
        if missing and saved_class is None:  # of the same class, it is from another PyTorch, which sees to that itself
            raise ValueError(
                f"{path} does not fit the optimizer: group {i} there has no {', '.join(sorted(missing))}, "
                f"which {own_class} needs"
            )


def check_plain(name: str, value: Any) -> None:
    """TypeError, naming the entry, unless `value` is made of what `load_checkpoint` reads back."""
    # By exact type: NumPy's float64 is a float to isinstance, but not to torch.load.
    kind = type(value)
    if kind in _PRIMITIVES or kind in (Tensor, nn.Parameter):
        return
    if kind in (dict, OrderedDict, Counter):
        for key, item in value.items():
            check_plain(f"{name} key", key)
            check_plain(f"{name}[{key!r}]", item)
    elif kind in (list, tuple):
        for i, item in enumerate(value):
            check_plain(f"{name}[{i}]", item)
    else:
        raise TypeError(
            f"{name} is a {kind.__module__}.{kind.__qualname__}; a checkpoint holds only tensors, numbers, strings, "
            "None, lists, tuples and dicts"
        )
