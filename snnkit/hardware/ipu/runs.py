"""The runs that the rules look at: of copies of the model, on real values and on none."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from .places import names_of
from .record import Record, run_recorded

# Calls of one and the same copy without values. Python's own chance, such as random.random() < 0.5, goes unnoticed in
# one of 2**(calls - 1) checks.
CALLS = 3


@dataclass
class Runs:
    """What was run, and on what.

    Attributes:
        model: as it is to be trained, untouched.
        inputs: one micro-batch.
        real_model, real: a copy on the CPU, and the record of its run.
        meta: the records of ``CALLS`` calls of one copy without values; the first is the graph.
        replaced: the paths of parameters and buffers that are other tensors after the real run.
        attributes: tensors that the first call left in plain attributes of modules, by path.
        saved: bytes that autograd kept for the backward pass of the graph.
    """

    model: nn.Module
    inputs: list[Tensor]
    real_model: nn.Module
    real: Record
    meta: list[Record]
    replaced: list[str] = field(default_factory=list)
    attributes: dict[str, Tensor] = field(default_factory=dict)
    saved: int = 0

    @property
    def graph(self) -> Record:
        """The forward pass as PopTorch would record it."""
        return self.meta[0]


def copied(model: nn.Module) -> nn.Module:
    """A copy on the CPU to run, so that the check changes nothing.

    Raises:
        TypeError: it can't be copied.
    """
    try:
        return copy.deepcopy(model).cpu()
    except Exception as error:
        raise TypeError(
            f"model can't be copied, so it can't be checked without being changed ({type(error).__name__}: {error})"
        ) from error


def run(model: nn.Module, inputs: list[Tensor]) -> Runs:
    """Run copies of ``model`` on ``inputs``, and on tensors without values."""
    real_model = copied(model)
    before = _tensors(real_model)
    with quiet():
        real = run_recorded(real_model, inputs, names_of(real_model), meta=False)
    meta_model = copied(model).to("meta")
    names = names_of(meta_model)
    values = [x.to("meta") for x in inputs]
    own = _plain_tensors(meta_model)
    saved: dict[int, Tensor] = {}
    weights = {_memory(t) for t in (*meta_model.parameters(), *meta_model.buffers())}

    def keep(tensor: Tensor) -> Tensor:
        if _memory(tensor) not in weights:
            saved[_memory(tensor)] = tensor
        return tensor

    # In later calls, too, as saving with a hook and without are different operations.
    with quiet(), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        records = [run_recorded(meta_model, values, names, meta=True)]
        kept = sum(t.untyped_storage().nbytes() for t in saved.values())
        attributes = {path: t for path, t in _plain_tensors(meta_model).items() if t is not own.get(path)}
        records += [run_recorded(meta_model, values, names, meta=True) for _ in range(CALLS - 1)]
    result = Runs(model, inputs, real_model, real, records, attributes=attributes, saved=kept)
    result.replaced = _replaced(before, _tensors(real_model))
    return result


@contextmanager
def quiet() -> Iterator[None]:
    """Gradients on, random numbers the same for all runs, and the caller's own as they were."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        yield


def _tensors(model: nn.Module) -> dict[str, tuple[Tensor, int]]:
    """Parameters and buffers by path, with where their values lie."""
    named = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
    return {path: (tensor, tensor.data_ptr()) for path, tensor in named}


def _replaced(before: dict[str, tuple[Tensor, int]], after: dict[str, tuple[Tensor, int]]) -> list[str]:
    changed = []
    for path in (*before, *(path for path in after if path not in before)):
        old, new = before.get(path), after.get(path)
        if old is None or new is None or old[0] is not new[0] or old[1] != new[1]:
            changed.append(path)
    return changed


def _plain_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Tensors that modules hold in attributes (also in lists, tuples and dicts), neither parameters nor buffers."""
    found: dict[str, Tensor] = {}
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name in ("_parameters", "_buffers", "_modules"):
                continue
            for tensor in _tensors_in(value):
                found[f"{path}.{name}".lstrip(".")] = tensor
    return found


def _tensors_in(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors_in(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors_in(part)


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata
