"""C++ text of a recurrent layer's kernels: all T steps of neurons that hear each other through dense weights.

The neurons of a few samples go through time together. In each step the rows of the weights that belong to the last
spikes are added to the input (``products.hpp``), and then the equation's step runs over them as in ``cpp_source``.
Going back in time, each step's gradient returns through the weights to the spikes of the step before. Of each step,
forward saves one number: the value from which backward computes the gradients, such as the slope of the surrogate; or,
where one is not enough, the input, on which backward first runs the equation again. So no product is repeated.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from importlib.resources import files

import torch

from snnkit.engine.cpp.cpp_source import _ROOM, TYPES, _indented, _loop, _Places, _scratch, _text, _uniform
from snnkit.engine.program import CASTS, Split, programs, split
from snnkit.engine.trace import Equation

PRODUCTS = files(__name__.rpartition(".")[0]).joinpath("products.hpp").read_text(encoding="utf-8")

# Each thread goes through groups of samples: n neurons, which begin at `begin`.
_GROUPS = [
    "#pragma omp parallel for num_threads(threads) schedule(static) reduction(|| : failed) reduction(&& : finite)",
    "for (int64_t sample = 0; sample < B; sample += group) {",
    "  const int64_t samples = min(group, B - sample), n = samples * N, begin = sample * N;",
]


def _strips(lines: list[str]) -> list[str]:
    loop = ["for (int64_t at = 0; at < n; at += STRIP) {", "  const int64_t m = min(STRIP, n - at);"]
    return [*loop, *lines, "}"]


def _needed(flags: Sequence[bool]) -> list[int]:
    return [i for i, needed in enumerate(flags) if needed]


def _gradients(equation: Equation, parameters: Iterable[int]) -> list[int]:
    """Positions, among the results of the backward program, of those of x, the state and these parameters."""
    first = 1 + equation.carried
    return [*range(first), *(first + i for i in parameters)]


@functools.lru_cache(maxsize=512)
def one_value(equation: Equation, wanted: tuple[bool, ...]) -> Split | None:
    """The sweeps of ``split``, of which forward is the first, if backward needs one value of each step, or none.

    ``wanted``: whether each parameter, and the weight, needs a gradient. That of the weight takes the outputs: only
    spikes can be saved in little memory.
    """
    forward, need_outputs = programs(equation).forward, wanted[-1]
    fires = any(op.name == forward.results[0] and op.kind in CASTS and op.dtypes[0] == torch.bool for op in forward.ops)
    sweeps = split(equation, tuple(_gradients(equation, _needed(wanted[:-1]))), out=True)
    return sweeps if len(sweeps.saved) <= 1 and (fires or not need_outputs) else None


@functools.lru_cache(maxsize=128)
def forward_source(
    equation: Equation, dims: tuple[int, ...], bias: bool, wanted: tuple[bool, ...] | None
) -> tuple[str, tuple[float, ...]]:
    """(text, constants) of the forward kernel; ``dims``: 0 or 1 for each parameter, shared or one per neuron;
    ``wanted``: as in ``one_value``, or None: it saves nothing.

    tensors: x, out, weight, room for it in blocks, the outputs before, (the bias,) (what is saved,) s0 …, last s0 …,
    p0 …; sizes: T, B, N, stride of x in time, strides of the weight, samples of a group, whether
    memory is written without reading it first, and for the outputs before and each state whether they are one value
    for all. Returns 0; 1 if there is too little memory; 2 if a weight or the last
    state is not finite.
    """
    sweeps = None if wanted is None else one_value(equation, wanted)
    program = (sweeps.recompute if sweeps else programs(equation).forward).lifted()
    saves_input, saves_value = wanted is not None and sweeps is None, bool(sweeps and sweeps.saved)
    states, scalar = range(equation.states), TYPES[equation.dtype]
    place = _Places(x=scalar, out=scalar, scalar=scalar, dims=dims)
    pointers = ["const S* x", "S* out", "const S* weight", "S* packed", "const S* before"]
    pointers += [*(["const S* bias"] if bias else []), *(["S* saved"] if saves_input or saves_value else [])]
    pointers += [*(f"const S* first{i}" for i in states), *(f"S* last{i}" for i in states)]
    writes = ["spikes[at + i] = {}", *(f"s{i}[at + i] = {{}}" for i in states)]
    writes += ["value[at + i] = {}"] if saves_value else []
    body = [
        *place.arguments(program, pointers, "T B N x_stride of_output of_input group streaming"),
        *_uniform(program, dims),
        "if (!pack(packed, weight, N, of_output, of_input, threads)) return 2;",
        "bool failed = false, finite = true;",
        *_GROUPS,
        *_scratch("group * (3 * N * sizeof(S) + (N + 16) * sizeof(int32_t))"),
        "  S* spikes = scratch;",
        *(["  S* value = spikes + 2 * group * N;"] if saves_value else []),
        "  int32_t* lists = reinterpret_cast<int32_t*>(spikes + 3 * group * N);",
        "  start(spikes, before, begin, n, same[0]);",
        *(f"  S* s{i} = last{i} + begin;" for i in states),
        *(f"  start(s{i}, first{i}, begin, n, same[{1 + i}]);" for i in states),
        "  for (int64_t t = 0; t < T; ++t) {",
        f"    S* input = {'saved + t * B * N + begin' if saves_input else 'spikes + group * N'};",
        "    memcpy(input, x + t * x_stride + begin, n * sizeof(S));",
        *(["    for (int64_t i = 0; i < n; ++i) input[i] += bias[i % N];"] if bias else []),
        "    add_products(input, spikes, samples, N, packed, lists);",
        *_indented(
            _strips(
                _loop(
                    program,
                    reads={"x": "input[at + i]", **{f"s{i}": f"s{i}[at + i]" for i in states}, **place.parameters()},
                    writes=writes,
                    dims=dims,
                )
            ),
            4,
        ),
        "    flush(out + t * B * N + begin, spikes, n * sizeof(S), streaming);",
        *(["    flush(saved + t * B * N + begin, value, n * sizeof(S), streaming);"] if saves_value else []),
        "  }",
        *(f"  finite = finite && all_finite(s{i}, n);" for i in states),
        "}",
        "return failed ? 1 : finite ? 0 : 2;",
    ]
    return _text(place, body, "int", f"{PRODUCTS}\n{_ROOM}"), tuple(program.constants.values())


@functools.lru_cache(maxsize=128)
def backward_source(
    equation: Equation, dims: tuple[int, ...], wanted: tuple[bool, ...], needs: tuple[bool, ...]
) -> tuple[str, tuple[float, ...], int]:
    """(text, constants, numbers that it saves of a neuron's step) of the backward kernel; ``wanted``: as in forward;
    ``needs``: the same now, as fewer gradients may be needed in the end. If forward saved the inputs, it also
    writes the outputs again for the gradient of the weight.

    tensors: (what forward saved,) d_out, the gradient of x, the weight, room for it in blocks, the gradient of the
    outputs before, (out,) (s0 … if forward saved the inputs,) gradients of the last state and the equation's flags, the
    same of the first, p0 …, and the sums for parameters that need one; sizes: T, B, N, stride of d_out in time, strides
    of the weight, samples of a group, streaming as in forward, and for each of these states and gradients whether it is
    one value for all. Returns 0, or 1 if there is too little memory.
    """
    carried, scalar, summed = range(equation.carried), TYPES[equation.dtype], _needed(needs[:-1])
    place = _Places(x=scalar, out=scalar, scalar=scalar, dims=dims)
    sweeps = one_value(equation, wanted)
    if sweeps:
        known = _gradients(equation, _needed(wanted[:-1]))
        program = sweeps.back.selecting([known.index(i) for i in _gradients(equation, summed)]).lifted()
        uniform, states, rows, out, again = _uniform(program, dims), range(0), [], False, []
        values = dict.fromkeys(sweeps.saved, "saved_t[at + i]")
    else:
        states, out = range(equation.states), needs[-1]
        saved, recompute, program = split(equation, tuple(_gradients(equation, summed)), out)
        recompute = recompute.lifted()
        program = program.lifted(recompute.constants)
        uniform = [*dict.fromkeys((*_uniform(program, dims), *_uniform(recompute, dims)))]
        rows = [f"k{i}" for i in range(len(saved))]
        values = {name: f"{row}[at + i]" for name, row in zip(saved, rows, strict=True)}
        again = _loop(
            recompute,
            reads={"x": "saved_t[at + i]", **{f"s{i}": f"s{i}[at + i]" for i in states}, **place.parameters()},
            writes=[
                *(["out_t[at + i] = {}"] if out else []),
                *(f"s{i}[at + i] = {{}}" for i in states),
                *(f"{row}[at + i] = {{}}" for row in rows),
            ],
            dims=dims,
        )
    pointers = ["const S* saved"] if values or not sweeps else []
    pointers += ["const S* g", "S* d_x", "const S* weight", "S* packed", "S* d_before", *(["S* out"] if out else [])]
    pointers += [*(f"const S* first{i}" for i in states), *(f"const S* d_last{i}" for i in carried)]
    pointers += [f"S* d_first{i}" for i in carried]
    sizes, out_flag = "T B N g_stride of_output of_input group streaming", f"d{equation.states}"
    back = _loop(
        program,
        reads={
            "g": "g_t[at + i] + back[at + i]",
            **values,
            **{f"d{i}": f"d{i}[at + i]" for i in carried},
            # The flag of out, if there are flags: every step but the last has a gradient through the weights.
            **({out_flag: f"t < T - 1 ? S(1) : {out_flag}[at + i]"} if equation.flags else {}),
            **place.parameters(),
        },
        writes=[
            "d_t[at + i] = {}",
            *(f"d{i}[at + i] = {{}}" for i in carried),
            *(f"sum_p{i}[at + i] += {{}}" for i in summed),
        ],
        dims=dims,
    )
    onward = [
        "  for (int64_t t = 0; t < T; ++t) {",
        "    const S* saved_t = saved + t * B * N + begin;",
        *(["    S* out_t = out + t * B * N + begin;"] if out else []),
        *(f"    S* {row} = scratch + ({i} * T + t) * group * N;" for i, row in enumerate(rows)),
        *_indented(_strips(again), 4),
        "  }",
    ]
    body = [
        *place.arguments(program, pointers, sizes, [f"S* d_p{i}" for i in summed]),
        *uniform,
        "pack(packed, weight, N, of_input, of_output, threads);",
        "bool failed = false, finite = true;",
        *_GROUPS,
        f"  const int64_t numbers = ({len(rows)} * T + {len(states) + 1}) * group * N;",
        *_scratch("numbers * sizeof(S) + group * (N + 16) * sizeof(int32_t)"),
        "  int32_t* lists = reinterpret_cast<int32_t*>(scratch + numbers);",
        "  S *back = d_before + begin, *d_t = scratch + numbers - group * N;",
        *(f"  S* s{i} = scratch + ({len(rows)} * T + {i}) * group * N;" for i in states),
        *(f"  start(s{i}, first{i}, begin, n, same[{i}]);" for i in states),
        *(f"  S* d{i} = d_first{i} + begin;" for i in carried),
        *(f"  start(d{i}, d_last{i}, begin, n, same[{len(states) + i}]);" for i in carried),
        *(f"  S* sum_p{i} = d_p{i} + begin;" for i in summed),
        *(f"  memset(sum_p{i}, 0, n * sizeof(S));" for i in summed),
        *(onward if rows or out else []),
        "  memset(back, 0, n * sizeof(S));",
        "  for (int64_t t = T - 1; t >= 0; --t) {",
        "    const S* g_t = g + t * g_stride + begin;",
        *(["    const S* saved_t = saved + t * B * N + begin;"] if sweeps and values else []),
        *(f"    const S* {row} = scratch + ({i} * T + t) * group * N;" for i, row in enumerate(rows)),
        *_indented(_strips(back), 4),
        "    memset(back, 0, n * sizeof(S));",
        "    add_products(back, d_t, samples, N, packed, lists);",
        "    flush(d_x + t * B * N + begin, d_t, n * sizeof(S), streaming);",
        "  }",
        "}",
        "return failed;",
    ]
    source = _text(place, body, "int", f"{PRODUCTS}\n{_ROOM}")
    return source, tuple(program.constants.values()), len(rows)
