"""A trained network as a program of plain PyTorch operations, by ``torch.export``: it runs without snnkit.

    program = export.export(net, images)                      # x and state in, out and state out
    torch.export.save(program, "net.pt2")

and on any machine with PyTorch::

    program = torch.export.load("net.pt2")
    _, state = program.example_inputs[0]                      # at rest, for a batch of 2
    out, state = program.module()(x, state)                   # and again, to go on

For another batch the state at rest is ``resting_state(program, batch)``, or, without snnkit,
``torch.utils._pytree.tree_map_only(torch.Tensor, lambda part: part[:1].expand(batch, *part.shape[1:]), state)``.

The loop over time is unrolled, so that only aten operations are left, and T is that of the example. Longer sequences go
through it T steps at a time, because the state is passed in and out. The batch may have any size.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from snnkit import checks, lazy
from snnkit.engine import check_sequence, state_dtype
from snnkit.neuron import Neuron, Recurrent, RecurrentState

__all__ = ["export", "plain", "resting_state"]

_BATCH = 2  # to trace with: PyTorch takes a size of 1 for a constant


@checks.arguments
def export(model: nn.Module, example: Tensor) -> torch.export.ExportedProgram:
    """Export a network for inference, in evaluation mode.

    Its state is made of plain tuples, tensors and None in the structure of the model's own, so that files can be opened
    without the classes of this package; ``plain`` converts a state.

    Args:
        model: called ``out, state = model(x, state)``; it does not change.
        example: x [T, B, ...]; only its shape, dtype and device matter.

    Returns:
        A program ``out, state = program.module()(x, state)``, for the T of ``example`` and any batch. It begins with
        ``resting_state(program, batch)``.

    Raises:
        TypeError, ValueError: the model returns no state, or a state of an unknown neuron, whose value at rest is not
            known.
    """
    checks.copyable("model", model)
    check_sequence(example, "export")
    if example.shape[1] == 0:
        raise ValueError(f"example must have at least one sample, but its shape is {list(example.shape)}")
    # A copy, as engines of compiled code can't be exported, and a static example would fix that x is static.
    net = copy.deepcopy(model).eval().requires_grad_(False)
    x = torch.zeros((len(example), _BATCH, *example.shape[2:]), dtype=example.dtype, device=example.device)
    for neuron in net.modules():
        if isinstance(neuron, Neuron):
            neuron.engine = "eager"
    with torch.no_grad():
        rest = _rest(net, x)
        _unwrap_int8(net)
        for weight in (*net.parameters(), *net.buffers()):
            # Of others, as of convolutions in channels_last, torch.export.save warns.
            weight.data = weight.data.contiguous()
        program = _Program(net, pytree.tree_structure(rest))
        shapes = ({1: torch.export.Dim.DYNAMIC}, _open_batch(plain(rest)))
        return torch.export.export(program, (x, plain(rest)), dynamic_shapes=shapes, strict=False)


def plain(state: Any) -> Any:
    """The state of a network as exported programs take it: tuples instead of NamedTuples."""
    return tuple(plain(part) for part in state) if isinstance(state, tuple) else state


@checks.arguments
def resting_state(program: torch.export.ExportedProgram, batch: int) -> Any:
    """The state to start from, for ``batch`` samples."""
    batch = checks.integer("batch", batch, at_least=1)
    inputs = program.example_inputs
    if inputs is None:
        raise ValueError("program holds no example_inputs; was it exported by snnkit.export?")
    _, rest = inputs[0]

    def repeated(part: Tensor) -> Tensor:
        return part[:1].expand(batch, *part.shape[1:]).clone() if part.dim() else part.clone()

    return pytree.tree_map_only(Tensor, repeated, rest)


class _Program(nn.Module):
    """Calls the model with a state of its own classes, made from plain tuples."""

    def __init__(self, model: nn.Module, structure: pytree.TreeSpec) -> None:
        super().__init__()
        self.model = model
        self.structure = structure

    def forward(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        out, new = self.model(x, pytree.tree_unflatten(pytree.tree_leaves(state), self.structure))
        return out, plain(new)


def _rest(net: nn.Module, x: Tensor) -> Any:
    """The state of ``net`` before the first step: that after a step, with each neuron's tensors exchanged for those
    that the neuron began with."""
    first: dict[int, Tensor] = {}
    seen = []  # or a number of ``id`` might be given out twice

    def note(layer: nn.Module, args: tuple, result: tuple) -> None:
        after, before = pytree.tree_leaves(result[1]), pytree.tree_leaves(_beginning(layer, args[0]))
        seen.extend(after)
        first.update(zip(map(id, after), before, strict=True))

    starting = [layer for layer in net.modules() if isinstance(layer, Recurrent) or hasattr(layer, "initial_state")]
    hooks = [layer.register_forward_hook(note) for layer in starting]
    try:
        result = net(x[:1])
    finally:
        for hook in hooks:
            hook.remove()
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Tensor)):
        raise TypeError(
            f"model must return (out, state), as snnkit.nn.Sequential does, but it returned a {type(result).__name__}"
        )
    parts, structure = pytree.tree_flatten(result[1])
    for part in parts:
        if part is None:  # of a stateless module
            continue
        if not isinstance(part, Tensor):
            raise TypeError(f"the state of model must be made of tensors, but it holds a {type(part).__name__}")
        if id(part) not in first:
            raise ValueError(
                f"the state of model holds a tensor {list(part.shape)} whose value at rest is not known: it is not the "
                "state of a neuron of snnkit, nor of a module with initial_state(x)"
            )
    return pytree.tree_unflatten([None if part is None else first[id(part)] for part in parts], structure)


def _unwrap_int8(net: nn.Module) -> None:
    """Weights of torchao as the plain tensors that they consist of, so that a file of them needs no torchao."""
    if any(hasattr(parameter, "__tensor_flatten__") for parameter in net.parameters()):
        from torch._functorch._aot_autograd.subclass_parametrization import unwrap_tensor_subclass_parameters

        unwrap_tensor_subclass_parameters(net)


def _beginning(layer: nn.Module, x: Tensor) -> Any:
    like = torch.empty(x.shape[1:], dtype=state_dtype(x), device=x.device)
    if isinstance(layer, Recurrent):
        return RecurrentState(layer.neuron.initial_state(like), torch.zeros_like(like))
    return layer.initial_state(like)  # type: ignore[operator]


def _open_batch(state: Any) -> Any:
    """Which dimensions of a state are open: the first, of every tensor that has one."""
    if isinstance(state, tuple):
        return tuple(_open_batch(part) for part in state)
    return {0: torch.export.Dim.DYNAMIC} if state is not None and state.dim() else None


__getattr__ = lazy.attach(__name__)[0]  # which says where the pages are that were here once
