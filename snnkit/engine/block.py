"""The block engine: ``torch.compile`` of K time steps at once, looped over T.

A step of a neuron is a dozen small operations; done one by one, each reads and writes all of memory. Here Inductor
fuses the operations of K steps into one loop over neurons (C++ on a CPU, Triton on CUDA), in which the state stays in
registers. What makes it fast, as measured (CPU, 2^18 neurons, 32 steps):

- The compiled graph takes each time slice as an argument of its own and writes into slices of an output that was
  allocated once. Indexing inside the graph costs five times as much.
- Forward keeps x and the state at the block boundaries, nothing else. Backward runs the K steps again and then the
  vector-Jacobian products, in one compiled graph: the intermediate values never see memory.
- Neurons are one dynamic dimension, so layers and batches of all sizes share one kernel; T is a sum of block sizes.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from .fingerprint import Opaque, fingerprint, owner
from .layout import Layout
from .trace import Equation, NotElementwise, trace

# Steps in a block: the largest that fits is taken, so T = 25 is 4 + 4 + 4 + 4 + 4 + 4 + 1 on a CPU. There, forward plus
# backward of 32 steps of 2^18 neurons took 12.1, 10.6, 14.3 and 19.2 ms in blocks of 2, 4, 8 and 16: each step is a
# stream of its own in memory, and cores follow a dozen of them well, but not two dozen.
BLOCKS = {"cpu": (4, 1), "cuda": (8, 4, 1)}

# Neurons that Inductor assumes when it decides on tiles and threads; the kernel takes any number.
_TYPICAL_NEURONS = 2**18

# - The default of 64 operations a fused loop would cut a block into pieces.
# - Inductor writes an expression out anew at each of its uses until it has 50 operations. In a recurrence that grows
#   exponentially: 8 steps took 13 s forward and 22 s backward to compile; with 8 operations, 2.3 s each. A value that
#   has a name costs nothing at run time: within a fused loop it is a register, not memory.
_INDUCTOR = {"max_fusion_size": 1024, "realize_opcount_threshold": 8}

# Versions of one equation (its constants change) and kernels to keep; the least recently used one goes first.
_VERSIONS, _MOST_KERNELS = 8, 256

# Equations by what their steps are remembered by; a text is the reason why there is none.
_equations: weakref.WeakKeyDictionary[Any, OrderedDict[Any, Equation | str]] = weakref.WeakKeyDictionary()
_kernels: OrderedDict[Any, Callable | str] = OrderedDict()
_lock = threading.RLock()


class CompilationFailed(Exception):
    """Inductor or the C++ compiler could not make a kernel; the message is theirs."""


def equation_of(step: Callable | nn.Module, state: Any, dtype: torch.dtype, device: torch.device) -> Equation:
    """The traced equation of ``step``; traced once and again only when a constant in it changes.

    Raises:
        NotElementwise: the step can't be compiled neuron by neuron.
    """
    try:
        key = (fingerprint(step), type(state), len(state), dtype, device.type)
        known = _equations.setdefault(owner(step), OrderedDict())
    except (Opaque, TypeError):  # TypeError: neither hashable nor open to weak references
        return trace(step, state, list(_tensors(step)), dtype, device)
    with _lock:
        if key not in known:
            try:
                known[key] = trace(step, state, list(_tensors(step)), dtype, device)
            except NotElementwise as reason:
                # Its text only: an exception holds the frames that it came through, and they hold the data.
                known[key] = str(reason)
        found = _recent(known, key, _VERSIONS)
    if isinstance(found, str):
        raise NotElementwise(found)
    return found


def _recent(entries: OrderedDict[Any, Any], key: Any, most: int) -> Any:
    """``entries[key]``, now the most recently used; of more than ``most`` entries the oldest are dropped."""
    entries.move_to_end(key)
    while len(entries) > most:
        entries.popitem(last=False)
    return entries[key]


def run(equation: Equation, step: Callable | nn.Module, x: Tensor, state: Any) -> tuple[Tensor, Any]:
    """As ``eager.run``, with the ``equation`` of ``step`` compiled. Raises CompilationFailed if it can't be."""
    layout = Layout.of(x)
    tensors = [
        layout.flatten_sequence(x),
        *(layout.flatten_step(part) for part in state),
        *(layout.flatten_parameter(p.to(equation.dtype)) for p in _tensors(step).values()),
    ]
    if torch.is_grad_enabled() and any(t.requires_grad for t in tensors):
        out, *last = _Unroll.apply(equation, *tensors)  # type: ignore[misc]
    else:
        out, last, _ = _forward(equation, tensors, keep=False)
    rebuild = getattr(type(state), "_make", tuple)
    return layout.restore_sequence(out), rebuild([layout.restore_step(part) for part in last])


class _Unroll(torch.autograd.Function):
    """The whole sequence as one node of the autograd graph."""

    @staticmethod
    def forward(ctx, equation: Equation, *tensors: Tensor) -> tuple[Tensor, ...]:
        out, last, boundaries = _forward(equation, tensors, keep=True)
        ctx.equation, ctx.blocks = equation, len(boundaries)
        ctx.needs = tuple(t.requires_grad for t in tensors[1 + equation.states :])
        parameters = tensors[1 + equation.states :]
        ctx.save_for_backward(tensors[0], *parameters, *(part for state in boundaries for part in state))
        return (out, *last)

    @staticmethod
    def backward(ctx, *gradients: Tensor):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "the block engine gives first derivatives only; use engine='eager' to differentiate twice "
                "(create_graph=True)"
            )
        x, *rest = ctx.saved_tensors
        equation: Equation = ctx.equation
        parameters = rest[: equation.parameters]
        states, flat = equation.states, rest[equation.parameters :]
        boundaries = [flat[i * states : (i + 1) * states] for i in range(ctx.blocks)]
        try:
            d_x, d_state, d_parameters = _backward(equation, x, boundaries, parameters, gradients, ctx.needs)
        except CompilationFailed as error:
            raise RuntimeError(f"the backward pass can't be compiled ({error}); use engine='eager'") from None
        return (None, d_x, *d_state, *d_parameters)


def _forward(equation: Equation, tensors: Sequence[Tensor], keep: bool) -> tuple[Tensor, list[Tensor], list]:
    """Run over x [T, N]; ``keep``: collect the state at the start of each block."""
    x, state, parameters = tensors[0], list(tensors[1 : 1 + equation.states]), tensors[1 + equation.states :]
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    boundaries = []
    xs, outs = x.unbind(0), out.unbind(0)
    for start, steps in _blocks(len(xs), x.device):
        if keep:
            boundaries.append(tuple(state))
        kernel = _kernel(equation, steps, x, tuple(p.dim() for p in parameters), None)
        state = list(kernel(*xs[start : start + steps], *outs[start : start + steps], *state, *parameters))
    return out, state, boundaries


def _backward(equation: Equation, x: Tensor, boundaries, parameters, gradients, needs: tuple[bool, ...]):
    d_out, *d_state = gradients
    if x.shape[1] > 1 and d_out.stride(1) != 1:
        d_out = d_out.contiguous()
    d_state = [d.contiguous() for d in d_state]
    # One gradient per neuron; what a parameter shared by all neurons gets is their sum.
    d_needed = [x.new_zeros(x.shape[1], dtype=equation.dtype) for need in needs if need]
    d_x = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    xs, d_outs, d_xs = x.unbind(0), d_out.unbind(0), d_x.unbind(0)
    for (start, steps), state in zip(reversed(list(_blocks(len(xs), x.device))), reversed(boundaries), strict=True):
        kernel = _kernel(equation, steps, x, tuple(p.dim() for p in parameters), needs)
        window = slice(start, start + steps)
        result = kernel(*xs[window], *d_outs[window], *d_xs[window], *state, *parameters, *d_state, *d_needed)
        d_state, d_needed = list(result[: equation.states]), list(result[equation.states :])
    per_neuron = iter(d_needed)
    d_parameters = []
    for parameter, need in zip(parameters, needs, strict=True):
        d = next(per_neuron) if need else None
        d_parameters.append(d.sum() if d is not None and parameter.dim() == 0 else d)
    return d_x, d_state, d_parameters


def _blocks(total: int, device: torch.device) -> Iterator[tuple[int, int]]:
    """(start, steps) of each block, in order: as many large ones as fit, then smaller, then single steps."""
    start = 0
    for size in BLOCKS[device.type]:
        while total - start >= size:
            yield start, size
            start += size


def _kernel(equation: Equation, steps: int, x: Tensor, dims: tuple[int, ...], needs: tuple[bool, ...] | None):
    """The compiled block; ``needs`` (which parameters want a gradient) makes it the backward one."""
    key = (equation.key, steps, x.dtype, x.device, dims, needs, torch.get_num_threads())
    with _lock:
        if key not in _kernels:
            try:
                _kernels[key] = _compile(equation, steps, x, dims, needs)
            except Exception as error:
                _kernels[key] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
        kernel = _recent(_kernels, key, _MOST_KERNELS)
    if isinstance(kernel, str):
        raise CompilationFailed(kernel)
    return kernel


def _compile(equation: Equation, steps: int, x: Tensor, dims: tuple[int, ...], needs: tuple[bool, ...] | None):
    from torch._inductor import config, standalone_compile
    from torch._inductor.decomposition import select_decomp_table

    def neurons(count: int, dtype: torch.dtype) -> list[Tensor]:
        return [torch.empty(_TYPICAL_NEURONS, dtype=dtype, device=x.device) for _ in range(count)]

    states = neurons(equation.states, equation.dtype)
    parameters = [torch.empty([_TYPICAL_NEURONS] * dim, dtype=equation.dtype, device=x.device) for dim in dims]
    if needs is None:
        block = _forward_block(equation, steps)
        example = [*neurons(2 * steps, x.dtype), *states, *parameters]
    else:
        block = _backward_block(equation, steps, needs)
        gradients = neurons(equation.states + sum(needs), equation.dtype)
        example = [*neurons(3 * steps, x.dtype), *states, *parameters, *gradients]
    device_type = x.device.type
    with torch.no_grad(), torch.autocast(device_type, enabled=False), config.patch(_INDUCTOR):
        # Some operations know no symbolic sizes until they are taken apart, as Inductor would do anyway.
        graph = make_fx(block, select_decomp_table(), tracing_mode="symbolic")(*example)
        return standalone_compile(graph, list(example), dynamic_shapes="from_graph")


def _forward_block(equation: Equation, steps: int) -> Callable:
    """(x_1 … x_K, out_1 … out_K, state, parameters) -> state; fills the outs."""

    def block(*tensors: Tensor) -> tuple[Tensor, ...]:
        xs, outs, rest = tensors[:steps], tensors[steps : 2 * steps], tensors[2 * steps :]
        state, parameters = rest[: equation.states], rest[equation.states :]
        for x, out in zip(xs, outs, strict=True):
            spike, *state = equation.forward(x.to(equation.dtype), *state, *parameters)
            out.copy_(spike)
        return tuple(state)

    return block


def _backward_block(equation: Equation, steps: int, needs: Sequence[bool]) -> Callable:
    """(x_1 …, d_out_1 …, d_x_1 …, state, parameters, d_state, d_needed) -> d_state, d_needed; fills the d_xs."""
    states = equation.states

    def block(*tensors: Tensor) -> tuple[Tensor, ...]:
        xs, d_outs, d_xs = (tensors[i * steps : (i + 1) * steps] for i in range(3))
        rest = tensors[3 * steps :]
        state, rest = rest[:states], rest[states:]
        parameters, rest = rest[: equation.parameters], rest[equation.parameters :]
        d_state, d_needed = rest[:states], list(rest[states:])
        # A parameter that all neurons share is spread out, so that its gradient comes out per neuron.
        spread = [p.expand_as(xs[0]) if p.dim() == 0 else p for p in parameters]
        xs = [x.to(equation.dtype) for x in xs]
        before = [state]
        for x in xs[:-1]:
            before.append(equation.forward(x, *before[-1], *parameters)[1:])
        for i in reversed(range(steps)):
            gradients = (d_outs[i].to(equation.dtype), *d_state)
            d_x, *d_rest = equation.backward(xs[i], *before[i], *spread, *gradients)
            d_xs[i].copy_(d_x)
            d_state = d_rest[:states]
            wanted = [d for d, need in zip(d_rest[states:], needs, strict=True) if need]
            d_needed = [total + d for total, d in zip(d_needed, wanted, strict=True)]
        return (*d_state, *d_needed)

    return block


def _tensors(step: Callable | nn.Module) -> dict[str, Tensor]:
    """A module's floating-point parameters and buffers, which become arguments of the kernel."""
    if not isinstance(step, nn.Module):
        return {}
    named = (*step.named_parameters(), *step.named_buffers())
    return {name: tensor for name, tensor in named if tensor.is_floating_point()}
