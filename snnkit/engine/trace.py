"""From a step function to two elementwise graphs: the step, and its vector-Jacobian product.

The step is run once on a few symbolic numbers while every PyTorch operation is written down (``make_fx``), then once
more together with its backward pass. Both graphs are functions of plain tensors, one value per neuron::

    forward(x, *state, *parameters)                    -> out, *state
    backward(x, *state, *parameters, d_out, *d_state)  -> d_x, *d_state, *d_parameters

Nothing in them knows of modules, shapes or time: an engine writes the loop over time around them. An equation that
mixes neurons, depends on the data in an ``if``, or reads tensors that it does not own can't be treated this way;
``trace`` raises ``NotElementwise`` with the reason, and the equation runs in the eager engine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from .check import check_step_result, name_of

# Neurons in the symbolic step. Any number would do; a prime one is easily told from a number in an equation.
_EXAMPLE = 13

# Operations that give one value per neuron though PyTorch does not tag them as pointwise.
_ELEMENTWISE = {
    "aten.detach.default",
    "aten.alias.default",
    "aten.clone.default",
    "aten._to_copy.default",
    "aten.zeros_like.default",
    "aten.ones_like.default",
    "aten.full_like.default",
    "aten.empty_like.default",
    "aten.lift_fresh_copy.default",
    "aten.scalar_tensor.default",
    "aten.where.self",
    "aten.where.ScalarSelf",
    "aten.where.ScalarOther",
    "aten.where.Scalar",
    "aten.fill.Scalar",
}


class NotElementwise(Exception):
    """This step can't be compiled neuron by neuron; the message says why."""


@dataclass(frozen=True)
class Equation:
    """One neuron's step and its vector-Jacobian product as graphs of elementwise operations.

    ``key`` is equal for equal equations (same operations, same constants, same dtype), so layers can share kernels.
    """

    forward: fx.GraphModule
    backward: fx.GraphModule
    states: int
    parameters: int
    dtype: torch.dtype
    key: str


class _Step(nn.Module):
    """Gives a neuron's ``step`` the name ``forward``, which ``functional_call`` needs."""

    def __init__(self, owner: nn.Module) -> None:
        super().__init__()
        self.owner = owner

    def forward(self, x: Tensor, state: Any) -> Any:
        return self.owner.step(x, state)  # type: ignore[operator]


def trace(
    step: Callable | nn.Module, like: Any, names: Sequence[str], dtype: torch.dtype, device: torch.device
) -> Equation:
    """Trace ``step(x, state) -> (out, state)``.

    Args:
        step: a function, or a module with a method ``step``.
        like: any state of it, whose structure (a NamedTuple or a tuple of tensors) the step's result must have.
        names: the module's tensors (as in ``named_parameters``/``named_buffers``) that become arguments of the graphs.
        dtype: of state and arithmetic.
        device: of the data.

    Raises:
        NotElementwise: the step can't be expressed so; the message says why.
    """
    states = len(like)
    _require_registered(step)
    functional = _functional(step, like, names)

    def forward(x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        return functional(x, rest[:states], rest[states:])

    def backward(x: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        inputs = [t.detach().requires_grad_() for t in (x, *rest[: states + len(names)])]
        with torch.enable_grad():
            outputs = functional(inputs[0], inputs[1 : 1 + states], inputs[1 + states :])
        gradients = rest[states + len(names) :]
        pairs = [(o, g) for o, g in zip(outputs, gradients, strict=True) if o.requires_grad]
        if not pairs:
            return tuple(torch.zeros_like(t) for t in inputs)
        result = torch.autograd.grad([o for o, _ in pairs], inputs, [g for _, g in pairs], allow_unused=True)
        return tuple(torch.zeros_like(t) if g is None else g for t, g in zip(inputs, result, strict=True))

    def example(count: int) -> list[Tensor]:
        return [torch.empty(_EXAMPLE, dtype=dtype, device=device) for _ in range(count)]

    arguments = 1 + states + len(names)
    graphs = [_graph(forward, example(arguments)), _graph(backward, example(arguments + 1 + states))]
    for graph in graphs:
        _require_elementwise(graph)
    key = "\n".join([str(dtype), device.type, *(g.code for g in graphs)])
    return Equation(graphs[0], graphs[1], states, len(names), dtype, key)


def _functional(step: Callable | nn.Module, like: Any, names: Sequence[str]) -> Callable:
    rebuild = getattr(type(like), "_make", tuple)
    wrapper = _Step(step) if isinstance(step, nn.Module) else None

    def functional(x: Tensor, state: Sequence[Tensor], parameters: Sequence[Tensor]) -> tuple[Tensor, ...]:
        state = rebuild(state)
        if wrapper is None:
            result = step(x, state)
        else:
            tensors = {f"owner.{name}": value for name, value in zip(names, parameters, strict=True)}
            result = torch.func.functional_call(wrapper, tensors, (x, state))
        check_step_result(result, state, name_of(step))
        return (result[0], *result[1])

    return functional


def _graph(function: Callable, example: list[Tensor]) -> fx.GraphModule:
    # Autocast would write casts of the moment into the graph.
    try:
        with torch.no_grad(), torch.autocast(example[0].device.type, enabled=False):
            return make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*example)
    except Exception as error:
        raise NotElementwise(_short(error)) from error


def _short(error: Exception) -> str:
    text = f"{type(error).__name__}: {error}".strip()
    if "data-dependent" in text.lower() or "DataDependent" in text or "GuardOnDataDependent" in text:
        return "it decides something from the values of a tensor (if, while, float(...)); use torch.where"
    return "it can't be traced: " + text.splitlines()[0][:200]


def _require_registered(step: Callable | nn.Module) -> None:
    for module in step.modules() if isinstance(step, nn.Module) else ():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                raise NotElementwise(
                    f"its attribute {name!r} is a tensor but neither parameter nor buffer; "
                    f"use self.register_buffer({name!r}, …)"
                )


def _require_elementwise(graph: fx.GraphModule) -> None:
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            raise NotElementwise(
                "it reads or makes a tensor that is neither its parameter nor its buffer; "
                "use a Python number, or register it"
            )
        if node.op != "call_function":
            continue
        target = node.target
        if torch.Tag.pointwise not in getattr(target, "tags", ()) and str(target) not in _ELEMENTWISE:
            raise NotElementwise(f"{target} is not elementwise: it mixes neurons or depends on their number")
