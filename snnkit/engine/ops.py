"""A sequence as one operation of PyTorch, for whole models under ``torch.compile``.

Inside a compiled model a short loop over time is inlined: Inductor then fuses normalisation, neuron and pooling. A long
loop would take minutes to compile, so it becomes one operation. An operation takes only tensors and plain values, so
the equation is passed by a handle, its registered name.

``snnkit::unroll`` is opaque to the compiler and runs any compiled engine; the operations of ``triton.triton_ops`` show
their kernel.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.engine.autograd import Gradients, Layout, Pass, backend, presence_of
from snnkit.engine.memory_gate import tensors_of
from snnkit.engine.plan import Plan, candidates, facts_of, warn_of_fallback
from snnkit.engine.trace import Equation, NotElementwise
from snnkit.engine.trace_cache import equation_of

# Steps up to which a loop is inlined.
INLINED = 16

_registered: dict[str, Equation] = {}


def as_operation(
    engine: str, step: Callable | nn.Module, x: Tensor, state: Any, dtype: torch.dtype, uint8: bool
) -> tuple[Tensor, Any] | None:
    """``step`` over x [T, B, ...] as one operation, while a model is being compiled; None: inline it.

    Dynamo traces this function.
    """
    short = engine in ("auto", "block") and x.shape[0] <= INLINED
    if engine == "eager" or short or not hasattr(step, "equation_handle"):
        return None
    handle = step.equation_handle(engine, dtype, x.device.type)  # type: ignore[union-attr, operator]
    if not handle:
        return None
    # Read for its guards: if a constant of the equation changes, the model is compiled again. The result is not used.
    step.step(x[0].to(dtype), state)  # type: ignore[union-attr, operator]
    parameters = [p.to(dtype) for p in tensors_of(step).values()]
    if handle.startswith("triton:"):
        flat = _Flat(x, state, parameters)
        name, save = handle.removeprefix("triton:"), torch.is_grad_enabled()
        every = torch.ops.snnkit.triton_forward(flat.x, flat.state, flat.parameters, name, uint8, save)
        out, last = flat.restore(every[0], every[1 : 1 + len(flat.state)])
    else:
        out, *last = torch.ops.snnkit.unroll(x, list(state), parameters, handle, uint8)
    return out, type(state)(*last) if hasattr(state, "_fields") else tuple(last)


def handle_of(step: nn.Module, engine: str, dtype: torch.dtype, device_type: str) -> str:
    """The equation of ``step`` as "engine:name", or an empty string if no compiled engine can run it.

    A neuron's ``equation_handle`` calls it.
    """
    device = torch.device(device_type)
    try:
        rest = step.initial_state(torch.empty(3, dtype=dtype, device=device))  # type: ignore[operator]
        equation = equation_of(step, rest, dtype, device)
    except (NotElementwise, AttributeError, RuntimeError):
        return ""
    # Sizes are symbols here, so it is planned as a large pass.
    planned = candidates(facts_of(engine, device_type, INLINED, 2**20, static=False))
    refusals = {name: backend(name).supports(equation, device) for name in planned}
    name = next((name for name, refusal in refusals.items() if not refusal), "")
    if engine != "auto" and name != engine:
        reason = refusals.get(engine, f"no engine compiles for {device_type!r} devices")
        warn_of_fallback(step, Plan(name or "eager", reason, fallback=True))
    if not name:
        return ""
    if name == "triton":
        importlib.import_module(f"{__package__}.triton.triton_ops")  # registers its operations
    return f"{name}:{register(equation)}"


def register(equation: Equation) -> str:
    """The name under which operations know ``equation``; equal equations have the same."""
    name = hashlib.sha256(equation.key.encode()).hexdigest()[:24]
    _registered.setdefault(name, equation)
    return name


def equation_named(name: str) -> Equation:
    """The equation given to ``register``; RuntimeError in a process that has not registered it."""
    if name not in _registered:
        raise RuntimeError(f"equation {name!r} is not known in this process: call the model itself once, uncompiled")
    return _registered[name]


class _Flat:
    """The arguments of an operation as an engine takes them."""

    def __init__(self, x: Tensor, state: Sequence[Tensor], parameters: Sequence[Tensor]) -> None:
        self.layout = Layout.of(x)
        self.x = self.layout.flatten_sequence(x)
        self.state = [self.layout.flatten_step(part) for part in state]
        self.parameters = [self.layout.flatten_parameter(p) for p in parameters]

    def run(self, name: str) -> Pass:
        return Pass(equation_named(name), self.x, self.state, self.parameters)

    def restore(self, sequence: Tensor, steps: Sequence[Tensor]) -> tuple[Tensor, list[Tensor]]:
        """[T, N] and some [N] as [T, B, ...] and [B, ...]."""
        return self.layout.restore_sequence(sequence), [self.layout.restore_step(part) for part in steps]


@torch.library.custom_op(
    "snnkit::unroll",
    mutates_args=(),
    schema="(Tensor x, Tensor[] state, Tensor[] parameters, str handle, bool uint8) -> Tensor[]",
)
def _unroll(x: Tensor, state: list[Tensor], parameters: list[Tensor], handle: str, uint8: bool) -> list[Tensor]:
    engine, _, name = handle.partition(":")
    flat, out_dtype = _Flat(x, state, parameters), torch.uint8 if uint8 else x.dtype
    done = backend(engine).forward(flat.run(name), out_dtype, save=False)
    out, last = flat.restore(done.out, done.last)
    return [out, *last]


@_unroll.register_fake
def _(x: Tensor, state: list[Tensor], parameters: list[Tensor], handle: str, uint8: bool) -> list[Tensor]:
    flat = _Flat(x, state, ())
    out = flat.x.new_empty(flat.x.shape, dtype=torch.uint8 if uint8 else x.dtype)
    out, last = flat.restore(out, [part.new_empty(part.shape) for part in flat.state])
    return [out, *last]


@torch.library.custom_op(
    "snnkit::unroll_backward",
    mutates_args=(),
    schema="(Tensor x, Tensor[] state, Tensor[] parameters, Tensor? d_out, Tensor?[] d_last, str handle, bool[] needs) "
    "-> Tensor[]",
)
def _unroll_backward(
    x: Tensor,
    state: list[Tensor],
    parameters: list[Tensor],
    d_out: Tensor | None,
    d_last: list[Tensor | None],
    handle: str,
    needs: list[bool],
) -> list[Tensor]:
    """d_x (if needed), d_state …, and the needed d_parameters, each in the shape of its tensor."""
    engine, _, name = handle.partition(":")
    flat = _Flat(x, state, parameters)
    run = flat.run(name)
    out = x.new_zeros(()).expand(x.shape) if d_out is None else d_out
    last = [
        flat.layout.flatten_step(torch.zeros_like(s) if d is None else d) for d, s in zip(d_last, state, strict=True)
    ]
    last += presence_of(run.equation, flat.x, [d_out, *d_last])
    given = Gradients(flat.layout.flatten_sequence(out), last, tuple(needs))
    d_x, d_state, d_parameters = backend(engine).backward(run, (), given)
    results = [] if d_x is None else [flat.layout.restore_sequence(d_x)]
    results += [flat.layout.restore_step(d) for d in d_state[: len(state)] if d is not None]
    for parameter, d in zip(parameters, d_parameters, strict=True):
        if d is not None:
            d = d if d.dim() == 0 else flat.layout.restore_step(d).sum_to_size(parameter.shape)
            results.append(d.reshape(parameter.shape).clone())
    return results


@_unroll_backward.register_fake
def _(x, state, parameters, d_out, d_last, handle, needs):
    flat = _Flat(x, state, ())
    results = [flat.layout.restore_sequence(flat.x.new_empty(flat.x.shape))] if needs[0] else []
    results += [flat.layout.restore_step(part.new_empty(part.shape)) for part in flat.state]
    return results + [p.new_empty(p.shape) for p, need in zip(parameters, needs[1:], strict=True) if need]


def _unroll_context(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
    x, state, parameters, ctx.handle, _ = inputs
    ctx.save_for_backward(x, *state, *parameters)
    ctx.states = len(state)
    ctx.set_materialize_grads(False)


def _unroll_gradients(ctx: Any, gradients: list[Tensor | None]) -> tuple[Any, ...]:
    x, *rest = ctx.saved_tensors
    state, parameters = rest[: ctx.states], rest[ctx.states :]
    needs = [ctx.needs_input_grad[0], *ctx.needs_input_grad[2]]
    results = torch.ops.snnkit.unroll_backward(x, state, parameters, gradients[0], gradients[1:], ctx.handle, needs)
    return *by_argument(results, needs, len(state)), None, None


def by_argument(results: Sequence[Tensor], needs: Sequence[bool], states: int) -> tuple[Any, ...]:
    """The gradients of x, of the states, and of the parameters, None if none was needed."""
    every = iter(results)
    d_x = next(every) if needs[0] else None
    d_state = [next(every) for _ in range(states)]
    return d_x, d_state, [next(every) if need else None for need in needs[1:]]


_unroll.register_autograd(_unroll_gradients, setup_context=_unroll_context)
