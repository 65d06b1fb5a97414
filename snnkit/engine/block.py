"""The block engine: ``torch.compile`` of K time steps at once, looped over T.

A step of a neuron is a dozen small operations; one by one, each reads and writes all of memory. Here Inductor fuses
the operations of K steps into one loop over neurons (C++ on a CPU, Triton on CUDA), and the state stays in registers.
Measured reasons for its speed (CPU, 2^18 neurons, 32 steps):

- The compiled graph takes each time slice as a separate argument and writes into slices of an output that is
  allocated once. Indexing inside the graph costs five times as much.
- Forward saves only x and the state at the block boundaries. Backward runs the K steps again and then the
  vector-Jacobian products, in one compiled graph, so intermediate values are never in memory.
- Neurons are one dynamic dimension, so layers and batches of all sizes share one kernel; T is a sum of block sizes.
"""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from snnkit.engine.autograd import CompilationFailed, Forward, Gradients, Pass, Results
from snnkit.engine.code_cache import secure_inductor
from snnkit.engine.cpp.toolchain import missing_compiler
from snnkit.engine.page_pool import fresh
from snnkit.engine.trace import Disturbed, Equation, renew_in_children, undisturbed
from snnkit.engine.trace_cache import recent

# Steps in a block: the largest that fits is used, so T = 25 is 4 + 4 + 4 + 4 + 4 + 4 + 1 on a CPU. There, forward plus
# backward of 32 steps of 2^18 neurons took 12.1, 10.6, 14.3 and 19.2 ms in blocks of 2, 4, 8 and 16. Each step is a
# separate stream in memory: cores follow a dozen well, but not two dozen.
BLOCKS = {"cpu": (4, 1), "cuda": (8, 4, 1)}

# Neurons that Inductor assumes when it decides on tiles and threads; the kernel takes any number.
_TYPICAL_NEURONS = 2**18

# - The default of 64 operations per fused loop would cut a block into pieces.
# - Inductor writes an expression out again at each of its uses until it has 50 operations. In a recurrence that grows
#   exponentially: 8 steps took 13 s forward and 22 s backward to compile; with 8 operations, 2.3 s each. A named
#   value costs nothing at run time: within a fused loop it is a register, not memory.
# - A value that is made float16 or bfloat16 and float32 again is rounded, which Inductor would take for nothing to do.
#   On CUDA this also forbids fused multiply-adds, which eager PyTorch has not.
# - As a CUDA graph of Inductor's, if the user has these for whole models, a block would give memory that its next call
#   overwrites.
_INDUCTOR = {
    "max_fusion_size": 1024,
    "realize_opcount_threshold": 8,
    "emulate_precision_casts": True,
    "triton.cudagraphs": False,
}

# On CUDA, a quotient of two tensors may be off by two units in the last place, unless this is set, under either name.
_EXACT_DIVISION = {
    "eager_numerics": {"eager_numerics.division_rounding": True},
    "emulate_divison_rounding": {"emulate_divison_rounding": True},  # before PyTorch 2.10
}

# Inductor's kernels for GPUs count neurons in 32 bits, and the example by which it decides that has few.
_MOST_NEURONS = 2**31 - 2**16


def _expm1(x: Tensor) -> Tensor:
    power = torch.exp(x)
    return torch.where(x.abs() < 0.5, torch.tanh(x / 2) * (power + 1), power - 1)


def _atanh(x: Tensor) -> Tensor:
    size = x.abs()
    return torch.copysign(torch.log1p(2 * size / (1 - size)) / 2, x)


def _erf(x: Tensor) -> Tensor:
    if x.dtype != torch.float32:
        return NotImplemented
    square, series = x * x, 0.0
    for n in reversed(range(6)):  # of Taylor
        series = 2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) + square * series
    return torch.where(x.abs() < 0.5, x * series, 1 - torch.special.erfc(x))


# Inductor's vectors on a CPU compute these with an absolute error: expm1 as exp(x) - 1, which is 0 for 1e-8.
_ACCURATE = {
    torch.ops.aten.expm1.default: _expm1,
    torch.ops.aten.atanh.default: _atanh,
    torch.ops.aten.erf.default: _erf,
}

# Cached kernels; the least recently used one goes first.
_MOST_KERNELS = 256

_kernels: OrderedDict[Any, Callable | str] = OrderedDict()
_lock = threading.RLock()
# One thread at a time: PyTorch notes in a global variable that it is tracing, and two threads leave it set, which
# ``torch.compile`` then refuses for the rest of the process.
_tracing = threading.Lock()
renew_in_children(globals(), _lock=threading.RLock, _tracing=threading.Lock)


def supports(equation: Equation, device: torch.device) -> str:
    """An empty string, or the reason why this engine can't run ``equation`` there."""
    if device.type not in BLOCKS:
        return f"the block engine is not made for {device.type!r} devices"
    return missing_compiler(device.type)


def forward(run: Pass, out_dtype: torch.dtype, save: bool, every: bool = False) -> Forward:
    """Run over x; saved are the states at the starts of all blocks but the first. See ``autograd.Backend``."""
    shape = run.x.shape
    equation, x, state, parameters = run = run.flat()
    current = [s.contiguous() for s in state]
    out = fresh(shape, out_dtype, x.device)
    states = [fresh(shape, equation.dtype, x.device) for _ in state] if every else []
    boundaries: list[Tensor] = []
    xs = x.unbind(0)
    filled = [sequence.flatten(1).unbind(0) for sequence in (out, *states)]
    for start, steps in _blocks(len(xs), x.device):
        if save and start:
            boundaries += current
        kernel = _kernel(equation, steps, x, out_dtype, run.dims, None, written=len(states))
        window = slice(start, start + steps)
        rows = (row for sequence in filled for row in sequence[window])
        current = list(kernel(*xs[window], *rows, *current, *parameters))
    last = [part.resize_(shape[1:]) for part in current]
    return Forward(out, last, boundaries, states=states)


def backward(run: Pass, saved: Sequence[Tensor], d: Gradients) -> Results:
    """Gradients, block after block back in time. See ``autograd.Backend``."""
    shape, run = run.x.shape, run.flat()
    (equation, x, state, parameters), (d_out, d_last, needs, summed, d_states, _) = run, d
    blocks, states, carried = list(_blocks(len(x), x.device)), equation.states, equation.carried
    if len(saved) < states * (len(blocks) - 1):
        saved = forward(run, x.dtype, save=True).saved
    every = [*(s.contiguous() for s in state), *saved]
    # One gradient per neuron; a parameter shared by all neurons gets their sum.
    sums = (needs[0] and summed, *needs[1:])
    d_needed = [x.new_zeros(x.shape[1], dtype=equation.dtype) for need in sums if need]
    d_x = fresh(shape, x.dtype, x.device) if needs[0] and not summed else None
    d_state = [d.reshape(-1).contiguous() for d in d_last]
    sequences = [t.flatten(1).unbind(0) for t in (x, d_out, *(d_states[i] for i in d.given), d_x) if t is not None]
    for number, (start, steps) in reversed(list(enumerate(blocks))):
        kernel = _kernel(equation, steps, x, x.dtype, run.dims, needs, summed, given=d.given)
        rows = (row for sequence in sequences for row in sequence[start : start + steps])
        before = every[number * states : (number + 1) * states]
        result = kernel(*rows, *before, *parameters, *d_state, *d_needed)
        d_state, d_needed = list(result[:carried]), list(result[carried:])
    per_neuron = iter(d.view(shape[1:]) for d in d_needed)
    if sums[0]:
        d_x = next(per_neuron)
    d_parameters: list[Tensor | None] = []
    for parameter, need in zip(parameters, needs[1:], strict=True):
        gradient = next(per_neuron) if need else None
        d_parameters.append(gradient.sum() if gradient is not None and parameter.dim() == 0 else gradient)
    return d_x, [d.view(shape[1:]) for d in d_state], d_parameters


def _blocks(total: int, device: torch.device) -> Iterator[tuple[int, int]]:
    """(start, steps) of each block, in order: as many large ones as fit, then smaller, then single steps."""
    start = 0
    for size in BLOCKS[device.type]:
        while total - start >= size:
            yield start, size
            start += size


def _kernel(
    equation: Equation,
    steps: int,
    x: Tensor,
    out_dtype: torch.dtype,
    dims: tuple[int, ...],
    needs: tuple[bool, ...] | None,
    summed: bool = False,
    written: int = 0,
    given: tuple[int, ...] = (),
) -> Callable:
    """The compiled block; with ``needs`` (whether x, and each parameter, needs a gradient) the backward one. With
    ``summed`` it adds up the gradient of x. ``written``: the parts of the state that forward writes at every step;
    ``given``: those that have gradients there."""
    if x.device.type != "cpu" and x.shape[1] > _MOST_NEURONS:
        raise CompilationFailed(f"it takes at most {_MOST_NEURONS:,} neurons on a GPU, but there are {x.shape[1]:,}")
    kind = (dims, needs, summed, written, given)
    key = (equation.key, steps, x.dtype, out_dtype, x.device, *kind, torch.get_num_threads())
    with _lock:
        if key not in _kernels:
            try:
                _kernels[key] = undisturbed(_compile, equation, steps, x, out_dtype, *kind)
            except Disturbed as error:
                raise CompilationFailed(str(error)) from None
            except Exception as error:
                _kernels[key] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:200]}"
        kernel = recent(_kernels, key, _MOST_KERNELS)
    if isinstance(kernel, str):
        raise CompilationFailed(kernel)
    return kernel


def _compile(
    equation: Equation,
    steps: int,
    x: Tensor,
    out_dtype: torch.dtype,
    dims: tuple[int, ...],
    needs: tuple[bool, ...] | None,
    summed: bool,
    written: int,
    given: tuple[int, ...],
) -> Callable:
    def neurons(count: int, dtype: torch.dtype) -> list[Tensor]:
        return [torch.empty(_TYPICAL_NEURONS, dtype=dtype, device=x.device) for _ in range(count)]

    states = neurons(equation.states, equation.dtype)
    parameters = [torch.empty([_TYPICAL_NEURONS] * dim, dtype=equation.dtype, device=x.device) for dim in dims]
    if needs is None:
        block = _forward_block(equation, steps, written)
        rows = [*neurons(steps, x.dtype), *neurons(steps, out_dtype), *neurons(steps * written, equation.dtype)]
        example = [*rows, *states, *parameters]
    else:
        block = _backward_block(equation, steps, needs, summed, given)
        each = needs[0] and not summed
        rows = [*neurons(2 * steps, x.dtype), *neurons(steps * len(given), equation.dtype)]
        rows += neurons(steps * each, x.dtype)
        gradients = neurons(equation.carried + sum(needs) - each, equation.dtype)
        example = [*rows, *states, *parameters, *gradients]

    return _by_inductor(block, example)


def _by_inductor(block: Callable, example: list[Tensor]) -> Callable:
    """``block`` compiled for tensors like ``example``, of any number of neurons."""
    from torch._inductor import config, cpu_vec_isa, standalone_compile
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    secure_inductor()

    def compiled(**settings: Any) -> Callable:
        exact = [setting for name, setting in _EXACT_DIVISION.items() if hasattr(config, name)]
        with torch.no_grad(), config.patch(_INDUCTOR | settings | (exact[0] if exact else {})):
            # Some operations know no symbolic sizes until they are taken apart, as Inductor would do anyway.
            table = select_decomp_table() | (_ACCURATE if on_cpu else {})
            with _tracing:
                trace = make_fx(block, table, tracing_mode="symbolic", _allow_non_fake_inputs=False)
                graph = trace(*example)
            return standalone_compile(graph, list(example), dynamic_shapes="from_graph")

    on_cpu = example[0].device.type == "cpu"
    if not on_cpu:
        return compiled()
    here = {"compile_threads": 1}  # a single kernel needs no pool of threads, and there may be none
    if config.cpp.vec_isa_ok is not None:
        return compiled(**here)
    # Inductor tests which vectors the compiler knows: it builds a program for each kind and loads it in a new Python.
    # That takes 6 of the 13 s of a first compilation. A compiler without the processor's vectors says so itself.
    try:
        return compiled(**here, **{"cpp.vec_isa_ok": True})
    except Exception:
        cpu_vec_isa.valid_vec_isa_list.cache_clear()
        return compiled(**here)


def _forward_block(equation: Equation, steps: int, written: int) -> Callable:
    """(x_1 … x_K, out_1 … out_K, rows of the states, state, parameters) -> state; fills the outs, and the rows of each
    part of the state that is ``written``: K for the first part, then K for the second."""

    def block(*tensors: Tensor) -> tuple[Tensor, ...]:
        sequences, rest = _sequences(tensors, 2 + written, steps)
        state, parameters = rest[: equation.states], rest[equation.states :]
        for x, *rows in zip(*sequences, strict=True):
            results = equation.forward(x.to(equation.dtype), *state, *parameters)
            state = results[1:]
            for row, result in zip(rows, results, strict=False):  # out, and the state if it is written
                row.copy_(result)
        # A state that the equation does not change must still be another tensor.
        return tuple(part.clone() for part in state)

    return block


def _sequences(tensors: Sequence[Tensor], count: int, steps: int) -> tuple[list[Sequence[Tensor]], Sequence[Tensor]]:
    """The first ``count`` · ``steps`` tensors as rows of so many sequences, and the rest."""
    return [tensors[i * steps : (i + 1) * steps] for i in range(count)], tensors[count * steps :]


def _backward_block(
    equation: Equation, steps: int, needs: Sequence[bool], summed: bool, given: Sequence[int]
) -> Callable:
    """(x_1 …, d_out_1 …, gradients of the states after every step, d_x_1 …, state, parameters, d_state, d_needed) ->
    d_state, d_needed; fills the d_xs. ``given``: the parts of the state that have such gradients.

    There are no d_xs if x needs no gradient, or one summed over time: that is then the first of d_needed.
    """
    states, carried, each = equation.states, equation.carried, needs[0] and not summed

    def block(*tensors: Tensor) -> tuple[Tensor, ...]:
        sequences, rest = _sequences(tensors, 2 + len(given) + each, steps)
        xs, d_outs = sequences[:2]
        state, rest = rest[:states], rest[states:]
        parameters, rest = rest[: equation.parameters], rest[equation.parameters :]
        d_state, d_needed = list(rest[:carried]), list(rest[carried:])
        # A parameter shared by all neurons is expanded, so that there is a gradient per neuron.
        spread = [p.expand_as(xs[0]) if p.dim() == 0 else p for p in parameters]
        xs = [x.to(equation.dtype) for x in xs]
        before = [state]
        for x in xs[:-1]:
            before.append(equation.forward(x, *before[-1], *parameters)[1:])
        for i in reversed(range(steps)):
            for part, d_part in zip(given, sequences[2:], strict=False):
                d_state[part] = d_state[part] + d_part[i]
                if equation.flags:
                    d_state[states + 1 + part] = torch.ones_like(d_state[part])
            gradients = (d_outs[i].to(equation.dtype), *d_state)
            d_x, *d_rest = equation.backward(xs[i], *before[i], *spread, *gradients)
            if each:
                sequences[-1][i].copy_(d_x)
            d_state = d_rest[:carried]
            every = zip((d_x, *d_rest[carried:]), (needs[0] and summed, *needs[1:]), strict=True)
            wanted = [d for d, need in every if need]
            d_needed = [total + d for total, d in zip(d_needed, wanted, strict=True)]
        return (*d_state, *d_needed)

    return block
