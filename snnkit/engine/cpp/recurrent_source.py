"""C++ text of a recurrent layer's kernels: all T steps of neurons that hear each other through dense weights.

The neurons of a few samples go through time together. In each step the rows of the weights that belong to the last
spikes are added to the input (``products.hpp``), and then the equation's step runs over them as in ``cpp_source``.
Backward first runs the equation again on the input that forward has saved, so no product is repeated; going back in
time, each step's gradient returns through the weights to the spikes of the step before.
"""

from __future__ import annotations

import functools
from importlib.resources import files

from snnkit.engine.cpp.cpp_source import TYPES, _indented, _loop, _Places, _text, _uniform
from snnkit.engine.program import programs, split
from snnkit.engine.trace import Equation

PRODUCTS = files(__name__.rpartition(".")[0]).joinpath("products.hpp").read_text(encoding="utf-8")

_ROOM = "static thread_local Room room;"

# Each thread goes through groups of samples: n neurons, which begin at `begin`.
_GROUPS = [
    "#pragma omp parallel for num_threads(threads) schedule(static) reduction(|| : failed) reduction(&& : finite)",
    "for (int64_t sample = 0; sample < B; sample += group) {",
    "  const int64_t samples = std::min(group, B - sample), n = samples * N, begin = sample * N;",
]


def _strips(lines: list[str]) -> list[str]:
    loop = ["for (int64_t at = 0; at < n; at += STRIP) {", "  const int64_t m = std::min(STRIP, n - at);"]
    return [*loop, *lines, "}"]


@functools.lru_cache(maxsize=128)
def forward_source(equation: Equation, dims: tuple[int, ...], bias: bool, save: bool) -> tuple[str, tuple[float, ...]]:
    """(text, constants) of the forward kernel; ``dims``: 0 or 1 for each parameter, shared or one per neuron.

    tensors: x, out, weight, room for it in blocks, the outputs before, (the bias,) (the inputs with what comes back, to
    be saved,) s0 …, last s0 …, p0 …; sizes: T, B, N, stride of x in time, strides of the weight, samples of a group,
    and for the outputs before and each state whether they are one value for all. Returns 0; 1 if there is too little
    memory; 2 if a weight or the last state is not finite.
    """
    program = programs(equation).forward.lifted()
    states, scalar = range(equation.states), TYPES[equation.dtype]
    place = _Places(x=scalar, out=scalar, scalar=scalar, dims=dims)
    pointers = ["const S* x", "S* out", "const S* weight", "S* packed", "const S* before"]
    pointers += [*(["const S* bias"] if bias else []), *(["S* saved"] if save else [])]
    pointers += [*(f"const S* first{i}" for i in states), *(f"S* last{i}" for i in states)]
    body = [
        *place.arguments(program, pointers, "T B N x_stride of_output of_input group"),
        *_uniform(program, dims),
        "if (!pack(packed, weight, N, of_output, of_input, threads)) return 2;",
        "bool failed = false, finite = true;",
        *_GROUPS,
        "  S* spikes = static_cast<S*>(room.get(group * (2 * N * sizeof(S) + (N + 16) * sizeof(int32_t))));",
        "  if (spikes == nullptr) {",
        "    failed = true;",
        "    continue;",
        "  }",
        "  int32_t* lists = reinterpret_cast<int32_t*>(spikes + 2 * group * N);",
        "  start(spikes, before, begin, n, same[0]);",
        *(f"  S* s{i} = last{i} + begin;" for i in states),
        *(f"  start(s{i}, first{i}, begin, n, same[{1 + i}]);" for i in states),
        "  for (int64_t t = 0; t < T; ++t) {",
        f"    S* input = {'saved + t * B * N + begin' if save else 'spikes + group * N'};",
        "    std::memcpy(input, x + t * x_stride + begin, n * sizeof(S));",
        *(["    for (int64_t i = 0; i < n; ++i) input[i] += bias[i % N];"] if bias else []),
        "    add_products(input, spikes, samples, N, packed, lists);",
        *_indented(
            _strips(
                _loop(
                    program,
                    reads={"x": "input[at + i]", **{f"s{i}": f"s{i}[at + i]" for i in states}, **place.parameters()},
                    writes=["spikes[at + i] = {}", *(f"s{i}[at + i] = {{}}" for i in states)],
                    dims=dims,
                )
            ),
            4,
        ),
        "    std::memcpy(out + t * B * N + begin, spikes, n * sizeof(S));",
        "  }",
        *(f"  finite = finite && all_finite(s{i}, n);" for i in states),
        "}",
        "return failed ? 1 : finite ? 0 : 2;",
    ]
    return _text(place, body, "int", f"{PRODUCTS}\n{_ROOM}"), tuple(program.constants.values())


@functools.lru_cache(maxsize=128)
def backward_source(
    equation: Equation, dims: tuple[int, ...], needs: tuple[bool, ...], out: bool
) -> tuple[str, tuple[float, ...], int]:
    """(text, constants, numbers that it saves of a neuron's step) of the backward kernel; ``needs``: whether each
    parameter wants a gradient; ``out``: it also writes the outputs again, for the gradient of the weights.

    tensors: the saved inputs, d_out, their gradient, the weight, room for it in blocks, the gradient of the outputs
    before, (out,) s0 …, gradients of the last state and the equation's flags, the same of the first, p0 …, and the sums
    for parameters that need one; sizes: T, B, N, stride of d_out in time, strides of the weight, samples of a group,
    and for each state and each of their gradients whether it is one value for all. Returns 0, or 1 if there is too
    little memory.
    """
    states, carried, scalar = range(equation.states), range(equation.carried), TYPES[equation.dtype]
    wanted = [i for i, need in enumerate(needs) if need]
    results = (0, *(1 + i for i in carried), *(1 + equation.carried + i for i in wanted))
    saved, recompute, program = split(equation, results, out)
    recompute = recompute.lifted()
    program = program.lifted(recompute.constants)
    place = _Places(x=scalar, out=scalar, scalar=scalar, dims=dims)
    pointers = ["const S* x", "const S* g", "S* d_x", "const S* weight", "S* packed", "S* d_before"]
    pointers += ["S* out"] if out else []
    pointers += [*(f"const S* first{i}" for i in states), *(f"const S* d_last{i}" for i in carried)]
    pointers += [f"S* d_first{i}" for i in carried]
    rows = [f"k{i}" for i in range(len(saved))]
    onward = _loop(
        recompute,
        reads={"x": "x_t[at + i]", **{f"s{i}": f"s{i}[at + i]" for i in states}, **place.parameters()},
        writes=[
            *(["out_t[at + i] = {}"] if out else []),
            *(f"s{i}[at + i] = {{}}" for i in states),
            *(f"{row}[at + i] = {{}}" for row in rows),
        ],
        dims=dims,
    )
    out_flag = f"d{equation.states}"
    back = _loop(
        program,
        reads={
            "g": "g_t[at + i] + back[at + i]",
            **{name: f"{row}[at + i]" for name, row in zip(saved, rows, strict=True)},
            **{f"d{i}": f"d{i}[at + i]" for i in carried},
            # The flag of out, if there are flags: every step but the last has a gradient through the weights.
            **({out_flag: f"t < T - 1 ? S(1) : {out_flag}[at + i]"} if equation.flags else {}),
            **place.parameters(),
        },
        writes=[
            "d_t[at + i] = {}",
            *(f"d{i}[at + i] = {{}}" for i in carried),
            *(f"sum_p{i}[at + i] += {{}}" for i in wanted),
        ],
        dims=dims,
    )
    body = [
        *place.arguments(program, pointers, "T B N g_stride of_output of_input group", [f"S* d_p{i}" for i in wanted]),
        *dict.fromkeys((*_uniform(program, dims), *_uniform(recompute, dims))),
        "pack(packed, weight, N, of_input, of_output, threads);",
        "bool failed = false, finite = true;",
        *_GROUPS,
        f"  const int64_t numbers = ({len(rows)} * T + {len(states)}) * group * N;",
        "  S* scratch = static_cast<S*>(room.get(numbers * sizeof(S) + group * (N + 16) * sizeof(int32_t)));",
        "  if (scratch == nullptr) {",
        "    failed = true;",
        "    continue;",
        "  }",
        "  int32_t* lists = reinterpret_cast<int32_t*>(scratch + numbers);",
        "  S* back = d_before + begin;",
        *(f"  S* s{i} = scratch + ({len(rows)} * T + {i}) * group * N;" for i in states),
        *(f"  start(s{i}, first{i}, begin, n, same[{i}]);" for i in states),
        *(f"  S* d{i} = d_first{i} + begin;" for i in carried),
        *(f"  start(d{i}, d_last{i}, begin, n, same[{len(states) + i}]);" for i in carried),
        *(f"  S* sum_p{i} = d_p{i} + begin;" for i in wanted),
        *(f"  std::memset(sum_p{i}, 0, n * sizeof(S));" for i in wanted),
        "  for (int64_t t = 0; t < T; ++t) {",
        "    const S* x_t = x + t * B * N + begin;",
        *(["    S* out_t = out + t * B * N + begin;"] if out else []),
        *(f"    S* {row} = scratch + ({i} * T + t) * group * N;" for i, row in enumerate(rows)),
        *(_indented(_strips(onward), 4) if rows or out else []),
        "  }",
        "  std::memset(back, 0, n * sizeof(S));",
        "  for (int64_t t = T - 1; t >= 0; --t) {",
        "    const S* g_t = g + t * g_stride + begin;",
        "    S* d_t = d_x + t * B * N + begin;",
        *(f"    const S* {row} = scratch + ({i} * T + t) * group * N;" for i, row in enumerate(rows)),
        *_indented(_strips(back), 4),
        "    std::memset(back, 0, n * sizeof(S));",
        "    add_products(back, d_t, samples, N, packed, lists);",
        "  }",
        "}",
        "return failed;",
    ]
    source = _text(place, body, "int", f"{PRODUCTS}\n{_ROOM}")
    return source, tuple(program.constants.values()), len(rows)
