"""The Triton kernels of a recurrent layer: one launch for all T steps, each program with ROWS samples.

The state of its neurons stays in registers. What they hear of each other goes through memory that the program alone
writes and reads: in each step it adds the weights of the inputs that sent something in the step before, which all
programs read from the cache, and stores its own outputs. Forward has one sample a program and reads only the weights of
its spikes. In backward, gradients are seldom 0, so that a few samples share what is read. Forward saves the values from
which backward computes a step's gradients (``split``), and the outputs, so that backward has no products but those with
the gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from snnkit.engine.program import split
from snnkit.engine.recurrent import Layer, Results
from snnkit.engine.trace import Equation
from snnkit.engine.triton.launch import start
from snnkit.engine.triton.sum_rows import zero_times
from snnkit.engine.triton.triton_source import Source, Writer, both_programs, indented, lifted

# Samples of a program of backward; inputs whose weights a program reads at once.
ROWS, DEPTH = 4, 8

_FIXED = ("ROWS", "COLS")
_SIZES = ["B", "N", "x_step"]
_OPENING = [
    "row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]",
    "col = tl.arange(0, COLS)[None, :]",
    "lane = row * N + col",
    "inside = (row < B) & (col < N)",
    "first = 0",
    "# Rows of the program's own have COLS places for each of all samples; there is nothing in those without a neuron.",
    "place = row * COLS + col",
    "step = tl.cast(tl.num_programs(0), tl.int64) * ROWS * COLS",
    "",
]


class _Writer(Writer):
    shape = "[ROWS, COLS]"

    def product(self, sender: str, few: bool) -> list[str]:
        """Adds to ``total`` what the last outputs send through the weights. ``sender``: where a program's samples have
        them; ``few``: of one sample, most of whose outputs are 0."""
        each = range(DEPTH)
        lines = [f"sent{i} = tl.load(rows_ptr + begin + {i} + {sender})" for i in each]
        mask = ", mask=sent{i} != 0, other=0.0" if few else ""
        adds = [f"weight{i} = tl.load(weight_ptr + (begin + {i}) * COLS + col{mask.format(i=i)})" for i in each]
        adds += [f"total += sent{i} * weight{i}" for i in each]
        if few:
            adds = [f"if {' | '.join(f'(sent{i} != 0)' for i in each)}:", *indented(adds)]
        return [f"for begin in range(0, N, {DEPTH}):", *indented(lines), *indented(adds)]


@functools.lru_cache(maxsize=128)
def forward_source(equation: Equation, dims: tuple[int, ...], save: bool) -> Source:
    """The forward kernel, of one sample a program. Pointers: x, rows (the outputs, from those before on), out, weight,
    bias, values saved of each step (with ``save``), first state, last state, parameters."""
    saved, program = (), both_programs(equation).forward
    if save:
        saved, program, _ = _split(equation, dims)
    program = lifted(program, equation)
    write = _Writer(equation, dims, program)
    states, slots = [f"s{i}" for i in range(equation.states)], [f"k{i}" for i in range(len(saved))]
    out, *after = (write.result(r) for r in program.results)
    block = [
        f"total = tl.load(x_ptr + lane, mask=inside, other=0.0).to({write.type})",
        "total += tl.load(bias_ptr + col, mask=col < N, other=0.0)",
        *write.product("tl.program_id(0) * COLS", few=True),
        "x_0 = total",
        *write.step(program, 0, {}),
        *(f"tl.store({k}_ptr + place, {value})" for k, value in zip(slots, after[len(states) :], strict=True)),
        "x_ptr += x_step",
        "rows_ptr += step",
        *(f"{k}_ptr += step" for k in slots),
        f"spikes = tl.where(inside, {out}, 0.0)",
        "tl.store(rows_ptr + place, spikes)",
        "tl.store(out_ptr + lane, spikes, mask=inside)",
        "out_ptr += tl.cast(B, tl.int64) * N",
        *write.updates(states, after[: len(states)], 0),
        "# The next step reads what all threads of this program have stored.",
        "tl.debug_barrier()",
    ]
    body = [
        *_OPENING,
        "x_step = tl.cast(x_step, tl.int64)",
        *write.numbers(),
        *(f"{s} = {write.load(f'{s}_first_ptr')}" for s in states),
        "for t in range(0, T):",
        *indented(block),
        *(f"tl.store({s}_last_ptr + lane, {s}, mask=inside)" for s in states),
    ]
    pointers = ["x", "rows", "out", "weight", "bias", *slots]
    pointers += [f"{s}_{when}" for when in ("first", "last") for s in states]
    about = "All T steps of a sample, whose neurons hear each other."
    return write.kernel("recurrent_forward", about, pointers, _SIZES, body, _FIXED)


@functools.lru_cache(maxsize=128)
def backward_source(equation: Equation, dims: tuple[int, ...], needs: tuple[bool, ...]) -> Source:
    """The backward kernel; ``needs``: whether each parameter wants a gradient. Pointers: gradient of out, rows (the
    gradients of x, and zeros after the last), weight, the values saved of each step, gradients of the last state and
    flags, of the first, of the parameters that need one, parameters."""
    saved, recompute, back = _split(equation, dims, needs)
    program = lifted(back, equation, lifted(recompute, equation).constants)
    write = _Writer(equation, dims, program)
    gradients, sums = [f"d{i}" for i in range(equation.carried)], [f"d_p{i}" for i, n in enumerate(needs) if n]
    slots = [f"k{i}" for i in range(len(saved))]
    d_x, *results = (write.result(r) for r in program.results)
    flag = f"d{equation.states}"
    block = [
        f"total = tl.load(g_ptr + lane, mask=inside, other=0.0).to({write.type})",
        *write.product("row * COLS", few=False),
        "g_0 = total",
        *(f"{'x_0' if name == 'x' else name} = tl.load({k}_ptr + place)" for name, k in zip(saved, slots, strict=True)),
        # The flag of out: every step but the last has a gradient through the weights.
        *([f"{flag} = tl.where(t > 0, {write.constant(1.0)}, {flag})"] if equation.flags else []),
        *write.step(program, 0, {}),
        "rows_ptr -= step",
        f"tl.store(rows_ptr + place, tl.where(inside, {d_x}, 0.0))",
        "g_ptr -= x_step",
        *(f"{k}_ptr -= step" for k in slots),
        *write.updates(
            [*gradients, *sums],
            [*results[: len(gradients)], *(f"{d} + {r}" for d, r in zip(sums, results[len(gradients) :], strict=True))],
            0,
        ),
        "tl.debug_barrier()",
    ]
    body = [
        *_OPENING,
        "x_step = tl.cast(x_step, tl.int64)",
        *write.numbers(),
        *(f"{d} = {write.load(f'{d}_last_ptr')}" for d in gradients),
        *(f"{d} = {write.constant(0.0)}" for d in sums),
        "rows_ptr += T * step",
        "g_ptr += (T - 1) * x_step",
        *(f"{k}_ptr += (T - 1) * step" for k in slots),
        "for t in range(0, T):",
        *indented(block),
        *(f"tl.store({d}_first_ptr + lane, {d}, mask=inside)" for d in gradients),
        *(f"tl.store({d}_ptr + lane, {d}, mask=inside)" for d in sums),
    ]
    pointers = ["g", "rows", "weight", *slots, *(f"{d}_{when}" for when in ("last", "first") for d in gradients), *sums]
    about = "Gradients of all T steps of ROWS samples, back in time."
    return write.kernel("recurrent_backward", about, pointers, _SIZES, body, _FIXED)


def _split(equation: Equation, dims: tuple[int, ...], needs: Sequence[bool] | None = None) -> Any:
    """What forward saves does not depend on which gradients are wanted in the end: it is enough for all."""
    every = split(equation, tuple(range(1 + equation.carried + len(dims))), out=True)
    if needs is None:
        return every
    wanted = [1 + equation.carried + i for i, need in enumerate(needs) if need]
    return every._replace(back=every.back.selecting([*range(1 + equation.carried), *wanted]))


def has_outputs(equation: Equation, wanted: Sequence[bool]) -> bool:
    """Forward saves them."""
    return True


def forward(layer: Layer, wanted: Sequence[bool] | None) -> tuple[Tensor, list[Tensor], Tensor | None, bool]:
    """What is saved, [1 + values, T + 1, B, N]: the outputs from those before on, and the values of each step."""
    equation, x, state, before, parameters, weight, bias = layer
    save = wanted is not None
    source = forward_source(equation, layer.dims, save)
    values = len(_split(equation, layer.dims).saved) if save else 0
    saved = x.new_empty((1 + values, x.shape[0] + 1, *_padded(x)))
    saved[0, 0] = _filled(before, *_padded(x))
    out, last = torch.empty_like(x, memory_format=torch.contiguous_format), [x.new_empty(x.shape[1:]) for _ in state]
    bias = zero_times(weight) if bias is None else bias + zero_times(weight)
    first = (s.contiguous() for s in state)
    tensors = (x, saved[0], out, _square(weight.t()), bias, *saved[1:], *first, *last, *parameters)
    _launch(source, tensors, x, x.stride(0), 1)
    return out, last, saved if save else None, True


def backward(
    layer: Layer,
    saved: Tensor | None,
    d_out: Tensor,
    d_last: Sequence[Tensor],
    wanted: Sequence[bool],
    needed: Sequence[bool],
) -> Results:
    """See ``engine.recurrent.Kernels``."""
    assert saved is not None
    equation, x, _, _, parameters, weight, _ = layer
    steps, batch, features = x.shape
    source = backward_source(equation, layer.dims, tuple(needed[:-1]))
    if d_out.stride()[1:] != (features, 1):  # the gradient of a sum is one number in all places
        d_out = d_out[0].contiguous().expand_as(d_out) if d_out.stride(0) == 0 else d_out.contiguous()
    rows = torch.empty_like(saved[0])
    rows[steps] = 0.0
    d_last = [d.contiguous() for d in d_last]
    d_first = [torch.empty_like(d) for d in d_last]
    sums = [x.new_empty(x.shape[1:]) if need else None for need in needed[:-1]]
    results = (*d_last, *d_first, *(d for d in sums if d is not None))
    _launch(source, (d_out, rows, _square(weight), *saved[1:], *results, *parameters), x, d_out.stride(0), ROWS)
    d_x, before = rows[:steps, :batch, :features], saved[0, :steps, :batch, :features]
    pairs = [(d_x.flatten(0, 1), before.flatten(0, 1))] if needed[-1] else None
    return Results(d_x, d_first, d_x[0] @ weight, sums, pairs)


def warps(columns: int) -> int:
    """Of a program: each thread has four neurons, whose weights come in one load of 128 bits."""
    return max(columns // 128, 1)


def _padded(x: Tensor) -> tuple[int, int]:
    """Samples and neurons of rows that programs keep for themselves."""
    from triton import next_power_of_2

    _, batch, features = x.shape
    return -(-batch // ROWS) * ROWS, max(int(next_power_of_2(features)), DEPTH)


def _filled(tensor: Tensor, height: int, width: int) -> Tensor:
    """With zeros below and to the right."""
    return nn.functional.pad(tensor, (0, width - tensor.shape[1], 0, height - tensor.shape[0]))


def _square(weight: Tensor) -> Tensor:
    """From each input, a row, to all outputs."""
    columns = _padded(weight[None])[1]
    return _filled(weight, columns, columns).contiguous()


def _launch(source: Source, tensors: Sequence[Tensor], x: Tensor, stride: int, rows: int) -> None:
    samples, columns = _padded(x)
    fixed = {"ROWS": rows, "COLS": columns, "num_warps": warps(columns)}
    start(source, (samples // rows,), (*tensors, *source.constants, 0.0, *x.shape, stride), fixed)
