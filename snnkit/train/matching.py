"""What a checkpoint holds, compared with a model, an optimizer or a schedule before anything of it is taken over."""

from __future__ import annotations

import contextlib
import copy
import inspect
import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.checks import cut, shown
from snnkit.train.metrics import not_finite

NAMES = "param_names"  # in a group of an optimizer's state: as PyTorch writes those of ``named_parameters``
KERNELS = ("fused", "foreach", "capturable", "differentiable")  # options that change nothing of what is computed
# What optimizers keep that is never negative: their counters, and averages of squares and magnitudes.
_NEVER_NEGATIVE = (
    "step", "exp_avg_sq", "max_exp_avg_sq", "exp_inf", "square_avg", "acc_delta", "sum", "row_var", "col_var",
    "variance", "step_size", "mu_product",
)  # fmt: skip
_LONGEST_LIST = 4000  # letters of what does not fit


@contextlib.contextmanager
def naming(file: Any, what: str) -> Iterator[None]:
    """Errors inside become ValueErrors: the file can't be so ("loaded", "resumed from"), and why."""
    try:
        yield
    except Exception as error:  # also those of PyTorch, and of the user's classes
        reason = str(error) if isinstance(error, (ValueError, TypeError)) else f"{type(error).__name__}: {error}"
        raise ValueError(f"{file} can't be {what}: {reason}") from error


@contextlib.contextmanager
def all_or_nothing(*things: Any) -> Iterator[None]:
    """After an error inside, models, optimizers and schedulers have the state again that they had before."""
    before = [(thing, copy.deepcopy(thing.state_dict())) for thing in things]
    try:
        yield
    except BaseException:
        for thing, state in before:
            thing.load_state_dict(state)
        raise


def check_weights_fit(saved: Mapping[str, Any], expected: Mapping[str, Any], *, strict: bool = True) -> None:
    """ValueError, listing what differs, unless saved weights and buffers have the names and kinds of a model's own.

    What is finite in the model must be finite in the file. ``strict``: no name may be missing on either side.
    """
    problems = [f"missing in the file: {name}" for name in expected if name not in saved] if strict else []
    problems += [f"not in the model: {name}" for name in saved if name not in expected] if strict else []
    both = [name for name in expected if name in saved]
    fits = {name: saved[name] for name in both if kind(saved[name]) == kind(expected[name])}
    problems += [
        f"{name}: {kind(saved[name])} in the file, {kind(expected[name])} in the model"
        for name in both
        if name not in fits
    ]
    numbers = {name: value for name, value in fits.items() if _has_numbers(value)}
    problems += [
        f"{name}: NaN or infinity in the file"
        for name in not_finite(numbers)
        if not not_finite({name: expected[name]})  # a threshold may be infinite
    ]
    if problems:
        raise ValueError("it does not fit the model:\n  " + cut("\n  ".join(problems), _LONGEST_LIST))


def kind(value: Any) -> str:
    """Type, layout and shape of a tensor in words: "float32 [3, 4]", "sparse_coo float32 [3, 4]"."""
    if not isinstance(value, Tensor):
        return f"no tensor ({type(value).__name__})"
    dtype = str(value.dtype).removeprefix("torch.")
    if value.is_nested:  # it has no shape
        return f"nested {dtype}"
    layout = "" if value.layout is torch.strided else f"{str(value.layout).removeprefix('torch.')} "
    subclass = "" if type(value) in (Tensor, nn.Parameter) else f"{type(value).__name__} "
    return f"{subclass}{layout}{dtype} {list(value.shape)}{' without values' if value.is_meta else ''}"


def _is_ordinary(value: Tensor) -> bool:
    return not (value.is_nested or value.is_meta or value.is_quantized) and value.layout is torch.strided


def _has_numbers(value: Any) -> bool:
    """Whether it is an ordinary tensor of floating point, real or complex."""
    return isinstance(value, Tensor) and _is_ordinary(value) and (value.is_floating_point() or value.is_complex())


def with_names(state: dict[str, Any], optimizer: torch.optim.Optimizer, model: nn.Module) -> dict[str, Any]:
    """The state of an optimizer of ``model`` with the names of its parameters, by which ``matched`` finds them.

    Without entries that are empty: reading ``optimizer.state[p]`` makes one.
    """
    groups = zip(state["param_groups"], _names(optimizer, model), strict=True)
    return state | {
        "state": {i: entry for i, entry in state["state"].items() if entry != {}},
        "param_groups": [group | {NAMES: names} for group, names in groups],
    }


def _names(optimizer: torch.optim.Optimizer, model: nn.Module) -> list[list[str]]:
    """The names in ``model`` of the parameters of each group; those of another module have their position as a name."""
    names: dict[int, str] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):  # the first of several in any order
        names[id(parameter)] = min(name, names.get(id(parameter), name))
    return [
        [names.get(id(p), f"parameter {i} of group {g}") for i, p in enumerate(group["params"])]
        for g, group in enumerate(optimizer.param_groups)
    ]


def matched(
    saved: Any, optimizer: torch.optim.Optimizer, model: nn.Module | None = None, *, started: bool = False
) -> dict[str, Any]:
    """The saved state of an optimizer for this one: in the order of its own parameters, and checked.

    Parameters are matched by name, or by position if the state has no names (an older file) or there is no ``model``.

    Args:
        started: whether updates have been made, so that a state without averages is not that of the run.

    Raises:
        ValueError: it has other parameters or settings, or what it holds for a parameter is not what this class of
            optimizer keeps for one of its shape and type.
    """
    try:
        groups = [dict(group) for group in saved["param_groups"]]
        there = [list(group["params"]) for group in groups]
        state = dict(saved["state"])
    except (KeyError, TypeError, ValueError):
        raise ValueError("it does not fit the optimizer: it holds no state of one") from None
    here = [group["params"] for group in optimizer.param_groups]
    before, now = ([len(group) for group in each] for each in (there, here))
    if before != now:
        raise ValueError(f"it does not fit the optimizer: parameters per group must be {before}, but it is {now}")
    positions = [position for group in there for position in group]
    integers = all(type(position) is int for position in (*positions, *state))
    if not integers or len(set(positions)) < len(positions) or not state.keys() <= set(positions):
        raise ValueError(f"params of the optimizer must number each parameter once, but they are {shown(there)}")

    names = _names(optimizer, model or nn.Module())
    order = (_by_name(groups, names) if model is not None else None) or [range(size) for size in now]
    result: dict[str, Any] = {"state": {}, "param_groups": []}
    expects = False
    for current, group, numbers, places, of_group in zip(
        optimizer.param_groups, groups, there, order, names, strict=True
    ):
        options = {name: value for name, value in group.items() if name not in ("params", NAMES)}
        _check_options(options, current)
        expected: dict[str, dict[str, Any]] = {}  # by kind of parameter
        first = sum(len(each["params"]) for each in result["param_groups"])
        for i, (parameter, place) in enumerate(zip(current["params"], places, strict=True)):
            of_kind = kind(parameter)
            if of_kind not in expected:
                expected[of_kind] = _state_after_update(type(optimizer), options, parameter)
            expects = expects or bool(expected[of_kind])
            if (entry := state.get(numbers[place])) is not None:
                _check_entry(of_group[i], entry, expected[of_kind])
                result["state"][first + i] = entry
        result["param_groups"].append(options | {"params": list(range(first, first + len(places)))})
    if started and expects and not result["state"]:
        raise ValueError("it does not fit the optimizer: there must be averages after an update, but it holds none")
    return result


def _by_name(groups: list[dict[str, Any]], names: list[list[str]]) -> list[list[int]] | None:
    """For each group the saved one, and the places of its own parameters there; None if the file has no names."""
    saved = [group.get(NAMES) for group in groups]
    if all(each is None for each in saved):
        return None
    order = []
    for g, (there, here) in enumerate(zip(saved, names, strict=True)):
        if not isinstance(there, list) or sorted(map(str, there)) != sorted(here):
            raise ValueError(
                f"it does not fit the optimizer: group {g} must hold {cut(str(there), _LONGEST_LIST)}, but it holds "
                f"{cut(str(here), _LONGEST_LIST)}"
            )
        order.append([there.index(name) for name in here])
    return order


def _check_options(options: dict[str, Any], expected: dict[str, Any]) -> None:
    """ValueError unless the settings of a group are of the kinds of its own. PyTorch adds flags that are missing."""
    for name, value in expected.items():
        if name in ("params", NAMES, "initial_lr", *KERNELS):
            continue
        if name in options:
            check_like(f"{name} of the optimizer", options[name], value)
        elif not isinstance(value, (bool, type(None))):
            raise ValueError(f"the optimizer must have {name}, but it is missing")
    for name, value in options.items():
        if _is_number(value) and not math.isfinite(value):
            raise ValueError(f"{name} of the optimizer must be finite, but it is {float(value)}")


def _state_after_update(optimizer: type, options: dict[str, Any], parameter: Tensor) -> dict[str, Any]:
    """What PyTorch's optimizers of this class keep for such a parameter: looked at after an update of one by 0.

    Empty where that is not known: for a class that is none of theirs, or needs more than a gradient.

    Raises:
        ValueError: PyTorch refuses the options.
    """
    known = next(each for each in optimizer.__mro__ if each.__module__.startswith("torch.optim"))
    if known is torch.optim.Optimizer:
        return {}
    taken = [name for name in inspect.signature(known).parameters if name in options and name not in KERNELS]
    trial = nn.Parameter(torch.zeros_like(parameter, device="cpu"))
    trial.grad = torch.zeros_like(trial)
    try:
        made = known([trial], **{name: options[name] for name in taken})
    except ValueError as error:
        raise ValueError(f"it does not fit the optimizer: PyTorch refuses its settings ({error})") from None
    try:
        made.step()
    except (RuntimeError, TypeError):  # one needs a closure, another sparse gradients
        return {}
    return made.state.get(trial, {})


def _check_entry(name: str, entry: Any, expected: dict[str, Any]) -> None:
    """ValueError unless what a file holds for a parameter is what the optimizer keeps."""
    if not isinstance(entry, dict):
        raise ValueError(f"the state of {name} must be a dict, but it is {shown(entry)}")
    for key, like in expected.items():
        value = entry.get(key)
        # Numbers may be of any type: PyTorch's own has changed.
        number = isinstance(like, Tensor) and not like.ndim and _is_number(value)
        if isinstance(like, Tensor) and not number and kind(value) != kind(like):
            actual = "missing" if value is None else kind(value)
            raise ValueError(f"{key} of {name} must be {kind(like)}, as the optimizer keeps it, but it is {actual}")
    for key, value in entry.items():
        if isinstance(value, Tensor) and not _is_ordinary(value):
            raise ValueError(f"{key} of {name} must be an ordinary tensor, but it is {kind(value)}")
        if not (_is_number(value) or _has_numbers(value)):
            continue
        value = torch.as_tensor(value)
        if not_finite({key: value}):
            raise ValueError(f"{key} of {name} must be finite, but it holds NaN or infinity")
        if key in _NEVER_NEGATIVE and value.numel() and value.min() < 0:
            raise ValueError(f"{key} of {name} must be at least 0, but it holds {value.min().item():g}")


def _is_number(value: Any) -> bool:
    if isinstance(value, Tensor):
        return _is_ordinary(value) and value.ndim == 0 and not value.is_complex() and value.dtype is not torch.bool
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_like(name: str, value: Any, expected: Any) -> None:
    """ValueError unless a saved value is of the kind of ``expected``, the value that it will replace.

    Numbers are no NaN, finite where the expected ones are, and integers not negative. Lists have as many entries, and
    dicts all keys but private ones.
    """
    if expected is None:
        return
    if _is_number(expected):
        fits = _is_number(value) and not math.isnan(value)
        fits = fits and (math.isfinite(value) or not math.isfinite(expected))
        fits = fits and (not isinstance(expected, int) or expected < 0 or value >= 0)
    elif isinstance(expected, (list, tuple)):
        fits = isinstance(value, (list, tuple)) and (not expected or len(value) == len(expected))
    else:
        fits = isinstance(value, dict if isinstance(expected, dict) else type(expected))
    if not fits:
        raise ValueError(f"{name} must be like {shown(expected)}, but it is {shown(value)}")
    if isinstance(expected, dict):
        for key in expected:
            if key in value:
                check_like(f"{key} of {name}", value[key], expected[key])
            elif not str(key).startswith("_"):  # PyTorch gets new ones of these
                raise ValueError(f"{name} must have {key}, but it is missing")
    elif isinstance(expected, (list, tuple)):
        for i, each in enumerate(expected):
            check_like(f"{name}[{i}]", value[i], each)


def like(name: str, saved: Any, expected: dict[str, Any]) -> dict[str, Any]:
    """Those entries of a saved state that the expected one has, after ``check_like``.

    Others would replace whatever attribute has their name.
    """
    check_like(name, saved, expected)
    taken = {key: saved[key] for key in expected if key in saved}
    for key in expected.keys() & {"_schedulers"}:  # of one made of others
        taken[key] = [like(f"{name}[{i}]", each, expected[key][i]) for i, each in enumerate(saved[key])]
    return taken
