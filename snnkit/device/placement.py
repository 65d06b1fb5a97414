"""The device of a model, the devices it could use, and its precision; and moving all that holds tensors there."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import platform
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.data import resolve_device

_COLLECTIONS = (list, tuple, set, frozenset, deque)


@dataclass(frozen=True)
class Precision:
    """How to run the forward pass on a device: ``dtype`` None is plain float32, else autocast to that dtype."""

    device: torch.device
    dtype: torch.dtype | None

    @classmethod
    def choose(cls, device: torch.device, amp: bool | str) -> Precision:
        """bfloat16 on CPUs and on GPUs that compute in it; float16 on older GPUs. With "auto", float32 where neither is
        faster."""
        if amp != "auto" and not checks.flag("amp", amp):
            return cls(device, None)
        native = computes_in_bfloat16(device)
        if device.type == "cuda":
            return cls(device, torch.bfloat16 if native else torch.float16)
        return cls(device, None if amp == "auto" and not native else torch.bfloat16)

    def autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def scaler(self) -> torch.amp.GradScaler:
        """Scales the loss so that gradients do not vanish in float16's narrow range; with other dtypes it does
        nothing."""
        return torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)


def computes_in_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies in bfloat16 itself; others convert every number, which takes several times as long
    as float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    if device.type != "cpu":
        return False
    if platform.machine().lower() in ("x86_64", "amd64"):
        return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def device_of(model: nn.Module, *, parameters: bool = False) -> torch.device | None:
    """The device of all parameters and buffers of ``model``; None if it has none, which ``parameters`` refuses."""
    if parameters and next(model.parameters(), None) is None:
        raise ValueError(
            f"model has no parameters: {type(model).__name__} holds nothing to train or move; "
            "put it into a network, or move its inputs with device.move_tensors_to_device"
        )
    first: dict[torch.device, str] = {}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        first.setdefault(tensor.device, name)
    if len(first) > 1:
        places = " and ".join(f"{where} ({name!r})" for where, name in first.items())
        raise ValueError(f"model is on mixed devices, {places}; move it to one first, with model.to(...)")
    return next(iter(first), None)


def check_together(model: nn.Module, x: Tensor, name: str = "x") -> None:
    """Raise ValueError unless ``x`` is on the device of ``model``."""
    where = device_of(model)
    if where is not None and x.device != where:
        raise ValueError(
            f"model is on {where} and {name} on {x.device}; move one of them, for example with "
            "device.move_tensors_to_device"
        )


@checks.arguments
def move_tensors_to_device(obj: Any, device: str | torch.device = "auto", *, non_blocking: bool = False) -> Any:
    """Return ``obj`` with every tensor in it on ``device``.

    It goes through dicts, lists, tuples, NamedTuples, sets, deques and dataclasses (also frozen ones), nested in any
    way. Containers in which a tensor moved are rebuilt; others are returned without a copy. Modules are moved in place,
    as by ``.to``. Two references to one tensor or container still refer to one object afterwards. Everything else
    (numbers, text, arrays, objects of other classes) does not change. A warning names the class of an object that holds
    tensors and can't be moved.

    As with ``.to``, gradients of a moved tensor go back to the original, so a leaf does not stay a leaf. A parameter
    stays one.

    Args:
        obj: a tensor, a module, or a nest.
        device: "auto" (CUDA, else CPU), or PyTorch's name of a device.
        non_blocking: don't wait for copies from pinned memory to a GPU.
    """
    where = device if isinstance(device, torch.device) else resolve_device(device)
    try:
        # First, so that a parameter that is also in a list is the one in the module.
        for module in _modules(obj):
            module.to(where, non_blocking=non_blocking)
        return _Mover(where, non_blocking).moved(obj)
    except RecursionError:
        raise ValueError("obj is nested too deeply, or holds itself; move its parts one by one") from None


def _modules(obj: Any) -> Iterator[nn.Module]:
    if isinstance(obj, nn.Module):
        yield obj
    elif _is_container(obj):
        for part in _parts(obj):
            yield from _modules(part)


class _Mover:
    def __init__(self, device: torch.device, non_blocking: bool) -> None:
        self.device, self.non_blocking = device, non_blocking
        self._done: dict[int, Any] = {}  # by the id of what was moved, which the nest keeps alive

    def moved(self, obj: Any) -> Any:
        if isinstance(obj, nn.Module) or not (isinstance(obj, Tensor) or _is_container(obj)):
            _warn_of_tensors(obj)
            return obj
        if id(obj) not in self._done:
            self._done[id(obj)] = self._tensor(obj) if isinstance(obj, Tensor) else self._container(obj)
        return self._done[id(obj)]

    def _tensor(self, x: Tensor) -> Tensor:
        there = x.to(self.device, non_blocking=self.non_blocking)
        if isinstance(x, nn.Parameter) and there is not x:  # of no module in the nest
            there = nn.Parameter(there.detach(), x.requires_grad)
            there.grad = None if x.grad is None else self.moved(x.grad)
        return there

    def _container(self, obj: Any) -> Any:
        parts = _parts(obj)
        new = [self.moved(part) for part in parts]
        return obj if all(a is b for a, b in zip(parts, new, strict=True)) else _rebuilt(obj, new)


def _warn_of_tensors(obj: Any) -> None:
    """Of a container of an unknown class: how to make another one of it is not known."""
    if isinstance(obj, Mapping):
        parts: Iterable[Any] = obj.values()
    elif isinstance(obj, (Sequence, Set, ValuesView)) and not isinstance(
        obj, (str, bytes, bytearray, memoryview, range)
    ):
        parts = obj
    else:
        return
    if any(isinstance(part, (Tensor, nn.Module)) for part in parts):
        kind = type(obj).__name__
        warnings.warn(f"tensors in a {kind} are not moved: make it a dict, a list or a dataclass", stacklevel=2)


def _is_container(obj: Any) -> bool:
    if isinstance(obj, (dict, *_COLLECTIONS)):
        return True
    return dataclasses.is_dataclass(obj) and not isinstance(obj, type)


def _parts(obj: Any) -> list[Any]:
    if isinstance(obj, dict):
        return [*obj, *obj.values()]
    if isinstance(obj, _COLLECTIONS):
        return list(obj)
    return [getattr(obj, field.name) for field in dataclasses.fields(obj)]


def _rebuilt(obj: Any, new: list[Any]) -> Any:
    """A container as ``obj``, of ``new`` parts."""
    if isinstance(obj, dict):
        result = copy.copy(obj)  # with the factory of a defaultdict
        result.clear()
        result.update(zip(new[: len(obj)], new[len(obj) :], strict=True))
        return result
    if hasattr(obj, "_make"):  # a NamedTuple
        return obj._make(new)
    if isinstance(obj, deque):
        return type(obj)(new, obj.maxlen)
    if isinstance(obj, _COLLECTIONS):
        return type(obj)(new)
    result = copy.copy(obj)
    for field, value in zip(dataclasses.fields(obj), new, strict=True):
        object.__setattr__(result, field.name, value)  # a frozen one refuses setattr
    return result
