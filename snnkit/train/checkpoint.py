"""Checkpoints: written whole or not at all, without anything that could run code, and exact to resume."""

from __future__ import annotations

import os
import warnings
import zipfile
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.checks import cut, instance, integer, number, shown
from snnkit.data import resolve_device
from snnkit.files import check_size, destination, expanded, replacing
from snnkit.train.history import TAGS, History
from snnkit.train.matching import KERNELS, all_or_nothing, check_weights_fit, like, matched, naming, with_names

FORMAT = "snnkit checkpoint 1"
LIGHTNING_KEY = "pytorch-lightning_version"  # by which Lightning recognises its own checkpoints

_PRIMITIVES = (type(None), bool, int, float, str, bytes)
_LONGEST_INT = 2000  # bits; torch.load reads none of more than 255 bytes


@checks.arguments
def save_checkpoint(
    path: str | os.PathLike[str],
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
    *,
    epoch: int = 0,
    history: History | dict[str, Any] | None = None,
    extra: dict[Any, Any] | None = None,
) -> Path:
    """Save a model's weights, and what is needed to continue training; return the path.

    ``epoch`` is the number of finished epochs. ``extra`` may hold tensors, numbers, strings, None, lists, tuples and
    dicts, nested in any way. The file replaces an older one in one step, so after a crash there is the old one or the
    new one.

    Raises:
        TypeError, ValueError: an entry is of another kind (``load_checkpoint`` could not read it back), or no file can
            be written at ``path``. Nothing has been written.
    """
    path = writable(path, "path")
    content = {
        "format": FORMAT,
        "epoch": epoch,
        "model": model.state_dict(),
        "optimizer": None if optimizer is None else with_names(optimizer.state_dict(), optimizer, model),
        "optimizer_class": None if optimizer is None else type(optimizer).__name__,
        "scheduler": None if scheduler is None else scheduler.state_dict(),
        "scheduler_class": None if scheduler is None else type(scheduler).__name__,
        "history": history.to_dict() if isinstance(history, History) else history,
        "extra": {} if extra is None else extra,
    }
    _check_entries(content)
    check_plain(content)
    write_archive(path, content)
    return path


def _check_entries(content: dict[str, Any]) -> None:
    """TypeError or ValueError unless a checkpoint has all entries, each of its kind."""
    integer("epoch", content.get("epoch"), at_least=0)
    for name in ("model", "optimizer", "scheduler", "history", "extra"):
        instance(name, content.get(name), dict, "a dict", optional=name in ("optimizer", "scheduler", "history"))


@checks.arguments
def load_checkpoint(
    path: str | os.PathLike[str],
    model: nn.Module | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    map_location: str | torch.device = "cpu",
    *,
    scheduler: torch.optim.lr_scheduler.LRScheduler | None = None,
) -> dict[str, Any]:
    """Read a checkpoint. Its weights go into ``model``, its states into ``optimizer`` and ``scheduler``, if given.

    Returns the dict with the keys "epoch", "model", "optimizer", "scheduler" (with the names of their classes as
    "optimizer_class" and "scheduler_class"), "history" and "extra". Tensors come to ``map_location``; those of
    ``model`` and ``optimizer`` stay on their devices.

    Only tensors and plain values are read (``weights_only=True``): an untrusted file can't run code here.

    The optimizer's averages are matched with parameters by the names that these have in ``model``; without a model, and
    for a file without names, by position.

    Raises:
        FileNotFoundError: there is no file.
        ValueError: the file is damaged, is no checkpoint of snnkit, or does not fit the model, optimizer or scheduler:
            another name, shape, dtype or layout, NaN or infinity, an impossible setting. All are then unchanged.
    """
    path, content = _read(path, resolve_device(map_location, "map_location"))
    # Everything is checked before anything is changed: load_state_dict copies what fits before it complains.
    with naming(path, "loaded"):
        if model is not None:
            check_weights_fit(content["model"], model.state_dict())
        state = None if optimizer is None else _optimizer_state(content, optimizer, model)
        schedule = None if scheduler is None else _scheduler_state(content, scheduler)
        with all_or_nothing(*(each for each in (model, optimizer, scheduler) if each is not None)):
            if model is not None:
                model.load_state_dict(content["model"])
            if optimizer is not None and state is not None:
                optimizer.load_state_dict(state)
            if scheduler is not None and schedule is not None:
                scheduler.load_state_dict(schedule)
    return content


def _read(path: str | os.PathLike[str], device: torch.device) -> tuple[Path, dict[str, Any]]:
    """A file and its content, which has all entries, each of its kind."""
    path, content = read_archive(path, "checkpoint", device)
    if isinstance(content, dict) and LIGHTNING_KEY in content:
        raise ValueError(
            f"{path} is a checkpoint of Lightning, and only Lightning can resume from it: use `snnkit train` with "
            "--devices or --every, or under torchrun or srun"
        )
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"{path} must be a checkpoint written by save_checkpoint ({FORMAT!r}), but it is none")
    try:
        _check_entries(content)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} is not a complete checkpoint: {error}") from None
    return path, content


def _optimizer_state(
    content: dict[str, Any], optimizer: torch.optim.Optimizer, model: nn.Module | None, *, started: bool = False
) -> dict[str, Any]:
    """The state that ``optimizer.load_state_dict`` takes."""
    if content["optimizer"] is None:
        raise ValueError("it holds no optimizer state; load it without optimizer=")
    before, now = content.get("optimizer_class"), type(optimizer).__name__
    if before != now:  # PyTorch would take another's state as it comes, and silently follow another rule
        raise ValueError(f"it does not fit the optimizer: the class must be {shown(before)}, but it is {now!r}")
    return matched(content["optimizer"], optimizer, model, started=started)


def _scheduler_state(content: dict[str, Any], scheduler: torch.optim.lr_scheduler.LRScheduler) -> dict[str, Any]:
    """The state that ``scheduler.load_state_dict`` takes."""
    if content.get("scheduler") is None:
        raise ValueError("it holds no state of a scheduler; load it without scheduler=")
    before, now = content.get("scheduler_class"), type(scheduler).__name__
    if before != now:
        raise ValueError(f"it does not fit the scheduler: the class must be {shown(before)}, but it is {now!r}")
    return like("scheduler", content["scheduler"], scheduler.state_dict())


@dataclass(frozen=True)
class RunState:
    """Everything that the next epoch of ``fit`` depends on, except the data."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    scheduler: torch.optim.lr_scheduler.LRScheduler | None
    scaler: torch.amp.GradScaler
    order: torch.Generator  # of the samples
    generators: Sequence[torch.Generator] = ()  # those that the user's functions hold
    settings: dict[str, Any] = field(default_factory=dict)  # arguments that a resumed run takes from the file
    metric: str | None = None  # the name of one that the user gave
    regularised: bool = False

    def save(self, path: str | os.PathLike[str], history: History) -> None:
        """After an epoch."""
        extra = self._extra()
        save_checkpoint(path, self.model, self.optimizer, epoch=history.epochs, history=history, extra=extra)

    def _extra(self) -> dict[str, Any]:
        """All but model, optimizer and history."""
        return {
            "scheduler": None if self.scheduler is None else self.scheduler.state_dict(),
            "scheduler_class": type(self.scheduler).__name__,
            "scaler": self.scaler.state_dict(),
            "order": self.order.get_state(),
            "rng": torch.get_rng_state(),
            "cuda_rng": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
            "generators": [generator.get_state() for generator in self.generators],
            "settings": dict(self.settings),
            "others": {name: parameter.detach().cpu() for name, parameter in self._others().items()},
        }

    def _others(self) -> dict[str, nn.Parameter]:
        """Parameters that the optimizer holds and the model does not, such as those of a loss."""
        own = {id(p) for p in self.model.parameters()}
        held = [p for group in self.optimizer.param_groups for p in group["params"] if id(p) not in own]
        return {f"parameter {i} of the optimizer that is not the model's": p for i, p in enumerate(held)}

    def read(self, path: str | os.PathLike[str]) -> dict[str, Any]:
        """What ``save`` has written, for ``restore``. Nothing is changed yet.

        Raises ValueError, naming the file and the entry, if it does not fit or was changed.
        """
        path, content = _read(path, torch.device("cpu"))
        extra, current = content["extra"], self._extra()
        for name in ("settings", "others"):  # which files of before do not have
            extra.setdefault(name, {})
        if missing := current.keys() - extra.keys():
            raise ValueError(
                f"{path} must hold all that a run goes on from, but it has no {', '.join(sorted(missing))}: it was not "
                "written by fit, or by that of another version"
            )
        with naming(path, "resumed from"):
            history = History.from_dict(content["history"])
            self._check_fits(content["epoch"], history, extra, current)
            taken = {name: like(name, extra[name], current[name]) for name in ("scheduler", "scaler") if current[name]}
            check_weights_fit(content["model"], self.model.state_dict())
            check_weights_fit(instance("others", extra["others"], dict, "a dict"), current["others"])
            state = _optimizer_state(content, self.optimizer, self.model, started=content["epoch"] > 0)
        optimizer = keep_kernels(self.optimizer, state)
        return content | {"path": path, "history": history, "optimizer": optimizer, "extra": extra | taken}

    def restore(self, content: dict[str, Any]) -> History:
        """Take over what ``read`` has returned, PyTorch's generators included; return the history so far."""
        extra, optional = content["extra"], [] if self.scheduler is None else [self.scheduler]
        with (
            naming(content["path"], "resumed from"),
            all_or_nothing(self.model, self.optimizer, self.scaler, *optional),
        ):
            self.model.load_state_dict(content["model"])
            self.optimizer.load_state_dict(content["optimizer"])
            self.scaler.load_state_dict(extra["scaler"])
            for scheduler in optional:
                scheduler.load_state_dict(extra["scheduler"])
        with torch.no_grad():
            for name, parameter in self._others().items():
                parameter.copy_(extra["others"][name])
        for generator, state in zip(self.generators, extra["generators"], strict=True):
            generator.set_state(state)
        self.order.set_state(extra["order"])
        self._warn_of_changes(extra["settings"])
        torch.set_rng_state(extra["rng"])
        if torch.cuda.is_available() and len(extra["cuda_rng"]) == torch.cuda.device_count():
            torch.cuda.set_rng_state_all(extra["cuda_rng"])
        return content["history"]

    def _warn_of_changes(self, before: Mapping[str, Any]) -> None:
        """Of settings that are not those of the run that wrote the file."""
        for name, now in list(self.settings.items()):
            if before.get(name, now) == now:
                continue
            which = f"{name} is {shown(now)}, but it was {shown(before[name])} in the run to resume"
            if name in ("lr", "seed"):  # a part of the optimizer's and the generators' states
                self.settings[name] = before[name]
                which += ", and stays so; to change it, load the weights with load_checkpoint and begin a new run"
            else:
                which += ", so this run goes on otherwise than that would have"
            warnings.warn(which, stacklevel=4)

    def _check_fits(self, epoch: int, history: History, extra: dict[str, Any], current: dict[str, Any]) -> None:
        """TypeError or ValueError, naming the entry, unless all of a file can be taken over."""
        optional = ("train_accuracy", "train_metric", "regulariser")
        series = {name: len(getattr(history, name)) for name in TAGS if not name.startswith("test")}
        lengths = sorted({length for name, length in series.items() if length or name not in optional})
        if lengths != [epoch]:
            raise ValueError(f"epoch must be the length of the lists of history, {lengths}, but it is {shown(epoch)}")
        history.check_continued(self.metric, self.regularised)
        for what, before, now in (
            ("scheduler", *(str(one["scheduler_class"]).replace("NoneType", "None") for one in (extra, current))),
            (
                "the number of random generators in encode, augment, loss, regulariser and model",
                *(len(instance("generators", one["generators"], list, "a list")) for one in (extra, current)),
            ),
        ):
            if before != now:
                raise ValueError(f"{what} must be {cut(str(before))}, as in the run that wrote it, but it is {now}")
        for name in ("scheduler", "scaler"):
            instance(name, extra[name], dict, "a dict", optional=current[name] is None)
        if current["scaler"]:
            number("scale of scaler", extra["scaler"].get("scale"), above=0)
        states = [("order", extra["order"], self.order), ("rng", extra["rng"], self.order)]
        states += [("generators", *pair) for pair in zip(extra["generators"], self.generators, strict=True)]
        if len(instance("cuda_rng", extra["cuda_rng"], list, "a list")) == len(current["cuda_rng"]):
            states += [("cuda_rng", state, torch.Generator("cuda")) for state in extra["cuda_rng"]]
        for name, state, generator in states:
            try:
                torch.Generator(generator.device).set_state(state)
            except (TypeError, RuntimeError):
                raise ValueError(f"{name} must be the state of a random generator, but it is {shown(state)}") from None


def keep_kernels(optimizer: torch.optim.Optimizer, saved: dict[str, Any]) -> dict[str, Any]:
    """The saved state with this optimizer's choice of kernels: that belongs to the device, not to the run."""
    groups = [
        other | {name: current[name] for name in KERNELS if name in current}
        for other, current in zip(saved["param_groups"], optimizer.param_groups, strict=True)
    ]
    return saved | {"param_groups": groups}


def check_plain(content: dict[str, Any]) -> None:
    """Raise TypeError, naming the entry, unless ``content`` is made of what ``load_checkpoint`` reads back."""
    for name, value in content.items():
        try:
            _check_plain(name, value)
        except RecursionError:
            raise ValueError(f"{name} must not be nested so deeply, to be in a checkpoint") from None


def _check_plain(name: str, value: Any) -> None:
    # By exact type: NumPy's float64 is a float to isinstance, but not to torch.load.
    kind = type(value)
    if kind in (Tensor, nn.Parameter, OrderedDict):
        for key, item in vars(value).items():  # what is attached to it is saved with it
            _check_plain(f"{name}.{key}", item)
    if kind is int and value.bit_length() > _LONGEST_INT:
        raise ValueError(f"{name} must be an int of at most {_LONGEST_INT} bits, but it is {shown(value)}")
    if kind in _PRIMITIVES or kind in (Tensor, nn.Parameter):
        return
    if kind in (dict, OrderedDict, Counter):
        for key, item in value.items():
            _check_plain(f"{name} key", key)
            _check_plain(f"{name}[{shown(key)}]", item)
    elif kind in (list, tuple):
        for i, item in enumerate(value):
            _check_plain(f"{name}[{i}]", item)
    else:
        raise TypeError(
            f"{name} must be made of tensors, numbers, strings, None, lists, tuples and dicts, to be in a checkpoint, "
            f"but it is a {kind.__module__}.{kind.__qualname__}"
        )


def checkpoint_file(checkpoint: str | os.PathLike[str] | None, resume: bool) -> Path | None:
    """The file of an argument ``checkpoint``, which ``resume`` needs."""
    if resume and checkpoint is None:
        raise ValueError("resume=True needs checkpoint=, the file to resume from")
    if checkpoint is None:
        return None
    file = writable(checkpoint, "checkpoint")
    if file.exists() and not resume:
        warnings.warn(f"checkpoint {file} exists, and will be replaced; resume=True goes on from it", stacklevel=4)
    return file


def writable(path: str | os.PathLike[str], name: str) -> Path:
    """``path`` with its ~ resolved, if a file could be written there; nothing is created. ``name``: of the argument."""
    try:
        file = expanded(path)
        if not file.name or file.is_dir():
            raise ValueError(f"{name} must be a file to write, but {str(path)!r} is a folder")
        existing = next(folder for folder in destination(file).parents if folder.exists())
    except OSError as error:  # an unknown user after ~, a name that is too long, a device, ...
        raise ValueError(f"{name} can't be written at {path}: {error}") from error
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(f"{name} can't be written at {file}: {existing} is not a folder that you may write into")
    return file


def write_archive(path: Path, content: dict[str, Any]) -> None:
    """Write tensors and plain values as one file that replaces an older one in one step. OSError, naming the file."""
    with replacing(path) as file:
        try:
            torch.save(content, file)
        except RuntimeError as error:
            if isinstance(error.__context__, OSError):  # PyTorch's archive then fails with an error of its own
                raise error.__context__ from None
            raise


def read_archive(
    path: str | os.PathLike[str], what: str, map_location: str | torch.device | Callable[..., Any]
) -> tuple[Path, Any]:
    """Inverse of ``write_archive``: the file and its content. Every byte is compared with its checksum.

    It can't run code, and takes no more memory than the file has bytes. Raises ValueError if it can't be read as
    ``what``.
    """
    path = expanded(path)
    if not path.is_file():
        raise FileNotFoundError(f"no {what} at {path}")
    with open(path, "rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                # PyTorch packs nothing, so that the parts are not larger than the whole.
                stored = os.fstat(file.fileno()).st_size
                check_size("its parts", sum(entry.file_size for entry in archive.infolist()), stored)
                if (damaged := archive.testzip()) is not None:
                    raise zipfile.BadZipFile(f"{damaged} does not have its checksum")
            file.seek(0)
            content = torch.load(file, map_location=map_location, weights_only=True)
            _check_contents(content, stored)
            return path, content
        except Exception as error:
            # PyTorch's own text advises weights_only=False, the one thing not to do with a file that looks wrong.
            kind = type(error).__name__
            reason = (str(error).splitlines() or [""])[0]
            if kind == "UnpicklingError":
                reason = "refused by weights_only=True"
            raise ValueError(
                f"{path} can't be read as a {what}: it is damaged, cut short, or holds more than tensors and plain "
                f"values ({kind}: {reason})"
            ) from None


def _check_contents(content: Any, stored: int) -> None:
    """Raise ValueError if lists in lists, or tensors that repeat their numbers, are far more than the file has
    bytes."""
    count, todo = 0, [content]
    while todo:
        item = todo.pop()
        count += 1
        if isinstance(item, Tensor) and (nbytes := item.numel() * item.element_size()) > stored:
            check_size("a tensor in it", nbytes)
        elif isinstance(item, (dict, list, tuple)):
            todo += item.values() if isinstance(item, dict) else item
            if count + len(todo) > stored:
                check_size("the lists in it", count + len(todo), stored)
