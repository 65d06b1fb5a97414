"""A neuron's step as the text of a Python function of plain PyTorch, written from the operations that it runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

__all__ = ["rest_and_step"]

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/",
    "gt": ">", "ge": ">=", "lt": "<", "le": "<=", "eq": "==", "ne": "!=",
}  # fmt: skip
_SAME = ("alias", "lift_fresh_copy", "contiguous")
# Where a tensor lies is the IPU's own affair.
_LEFT_OUT = ("layout", "device", "pin_memory", "memory_format", "non_blocking")


class NoText(ValueError):
    """What can't be written as a function of plain PyTorch, and why."""


def rest_and_step(neuron: nn.Module, x: Tensor, name: str) -> tuple[str, list[str]]:
    """Two functions: ``rest_NAME(x, tensors…)`` to the state, ``step_NAME(x, state…, tensors…)`` to (out, state…).

    Args:
        neuron: with its surrogate in detach form.
        x: a step [B, ...] as it comes to the neuron, of at least two samples.
        name: of the functions.

    Returns:
        Their text; and the names of the neuron's parameters and buffers, in the order in which they are handed over.

    Raises:
        NoText: the step counts on the size of the batch, or computes with tensors of its own that are neither parameter
            nor buffer, or with an operation that PyTorch has no function for.
    """
    x = x.detach()
    whole, fewer = (_Writer(neuron, x[:samples]).text(name) for samples in (len(x), len(x) - 1))
    if whole != fewer:
        raise NoText(f"the step of {type(neuron).__name__} counts on the size of the batch")
    return whole, [path for path, _ in _tensors(neuron)]


def _tensors(neuron: nn.Module) -> list[tuple[str, Tensor]]:
    return [*neuron.named_parameters(), *neuron.named_buffers()]


class _Method(nn.Module):
    """One method of a module as its ``forward``, which ``functional_call`` needs."""

    def __init__(self, owner: nn.Module, name: str) -> None:
        super().__init__()
        self.owner, self.name = owner, name

    def forward(self, *args: Any) -> Any:
        return getattr(self.owner, self.name)(*args)


class _Writer:
    """The text of one neuron on steps of one shape."""

    def __init__(self, neuron: nn.Module, x: Tensor) -> None:
        self.neuron, self.x = neuron, x
        self.paths = [path for path, _ in _tensors(neuron)]
        self.values = [value.detach() for _, value in _tensors(neuron)]
        self.state, self.form = pytree.tree_flatten(neuron.initial_state(x))  # type: ignore[operator]

    def text(self, name: str) -> str:
        own = [path.replace(".", "_") for path in self.paths]
        fields = getattr(type(self.neuron), "State", None)
        named = list(getattr(fields, "_fields", ()))
        state = named if len(named) == len(self.state) else [f"state_{i}" for i in range(len(self.state))]
        rest = self._function(f"rest_{name}", self._rest, ["x", *own], [self.x, *self.values])
        step = self._function(f"step_{name}", self._step, ["x", *state, *own], [self.x, *self.state, *self.values])
        return f"{rest}\n\n\n{step}"

    def _rest(self, x: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(pytree.tree_leaves(self._call("initial_state", tensors, x)))

    def _step(self, x: Tensor, *given: Tensor) -> tuple[Tensor, ...]:
        count = len(self.state)
        state = pytree.tree_unflatten(list(given[:count]), self.form)
        out, new = self._call("step", given[count:], x, state)
        return (out, *pytree.tree_leaves(new))

    def _call(self, method: str, tensors: Sequence[Tensor], *args: Any) -> Any:
        exchanged = {f"owner.{path}": tensor for path, tensor in zip(self.paths, tensors, strict=True)}
        return torch.func.functional_call(_Method(self.neuron, method), exchanged, args)

    def _function(self, name: str, call: Callable, arguments: list[str], values: list[Tensor]) -> str:
        from torch.fx.experimental.proxy_tensor import make_fx  # takes a second to import

        try:
            graph = make_fx(call)(*values).graph
        except Exception as error:
            told = (str(error).splitlines() or [type(error).__name__])[0]
            raise NoText(
                f"{type(self.neuron).__name__} can't be written down operation by operation: {told}"
            ) from error
        graph.eliminate_dead_code()
        lines = _lines(graph, arguments)
        return "\n".join([f"def {name}({', '.join(arguments)}):", *(f"    {line}" for line in lines)])


def _lines(graph: fx.Graph, arguments: list[str]) -> list[str]:
    """The body: a line for each operation, and what it returns."""
    names: dict[fx.Node, str] = {}
    free, lines = iter(arguments), []
    for node in graph.nodes:
        if node.op == "placeholder":
            names[node] = next(free)
        elif node.op == "output":
            results = [_written(result, names) for result in node.args[0]]
            lines.append(f"return {', '.join(results)}" + ("," if len(results) == 1 else ""))
        elif node.op == "call_function":
            text = _expression(node, names)
            if text.isidentifier():  # the same under another name
                names[node] = text
                continue
            names[node] = _new_name(node, {*arguments, *names.values()})
            lines.append(f"{names[node]} = {text}")
        else:
            raise NoText(
                f"it computes with a tensor ({node.target}) that is neither its argument, parameter nor buffer"
            )
    return lines


def _new_name(node: fx.Node, taken: set[str]) -> str:
    name = node.name.lstrip("_")
    while name in taken or name in ("x", "F", "nn", "torch"):
        name += "_"
    return name


def _expression(node: fx.Node, names: dict[fx.Node, str]) -> str:
    packet = getattr(node.target, "overloadpacket", None)
    kind = getattr(packet, "__name__", "")
    args = [_written(arg, names) for arg in node.args]
    options = {key: value for key, value in node.kwargs.items() if key not in _LEFT_OUT and value is not None}
    if kind in _SAME:
        return args[0]
    if kind == "detach":
        return f"{args[0]}.detach()"
    if kind == "_to_copy" and set(options) == {"dtype"}:
        return f"{args[0]}.to({_written(options['dtype'], names)})"
    if kind in _INFIX and len(args) == 2 and not options:
        return f"{args[0]} {_INFIX[kind]} {args[1]}"
    if kind.startswith("_") or kind.endswith("_") or not hasattr(torch, kind):
        raise NoText(f"there is no function of PyTorch for its operation {node.target}")
    given = [*args, *(f"{key}={_written(value, names)}" for key, value in options.items())]
    return f"torch.{kind}({', '.join(given)})"


def _written(value: Any, names: dict[fx.Node, str]) -> str:
    if isinstance(value, fx.Node):
        return names[value]
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_written(part, names) for part in value)}]"
    return repr(value) if not isinstance(value, torch.dtype) else str(value)
