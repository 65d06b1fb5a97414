"""C++ text of an equation's kernels: all T steps of a tile of neurons at once, both directions.

A tile is a run of neurons whose state fits in the cache. Forward reads x once and writes spikes once, so it moves 8
bytes a neuron-step in float32; nothing else leaves the cache. Backward first runs forward again, saving in scratch
memory what the gradients need of each step, and then goes back in time: x and the gradient are read, the gradient of x
is written, which makes 20 bytes in all. Only x and the first state are saved for it. The way back of one tile runs
beside the way forward of the next, so that memory is read and written at all times, as in a copy; one after the other
took 1.1 times as long.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from importlib.resources import files

import torch

from snnkit.engine.program import Dialect, Op, Program, late_term, programs, split
from snnkit.engine.trace import Equation

TYPES = {torch.float32: "float", torch.float64: "double", torch.bool: "bool"}

# Dtypes of inputs and outputs in memory; the prelude defines those that C++ does not have.
STORAGE = {
    torch.float32: "float",
    torch.float64: "double",
    torch.bfloat16: "bfloat16",
    torch.float16: "_Float16",
    torch.uint8: "uint8_t",
}


def _number(value: float | int | bool, dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return "true" if value else "false"
    if math.isnan(value):
        return f"{TYPES[dtype]}(math::nan)"
    if math.isinf(value):
        return f"{TYPES[dtype]}({'-' if value < 0 else ''}math::inf)"
    # Rounded here, as decimal text may round the other way.
    rounded = repr(torch.tensor(value, dtype=dtype, device="cpu").item())
    return f"({rounded}f)" if dtype == torch.float32 else f"({rounded})"


def _power(base: str, exponent: str, op: Op) -> str:
    if op.arguments[1] == 2:
        return f"{base} * {base}"
    return f"math::pow({base}, {exponent})"


def _in(type_: str):
    """An expression that needs to know the type of its result, as {T}."""
    return lambda *arguments, op: type_.replace("{T}", TYPES[op.dtype]).format(*arguments)


_FUNCTIONS = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "erf", "erfc", "floor", "ceil", "trunc")
_FUNCTIONS += ("sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh")
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_INFIX |= {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "eq": "==", "ne": "!="}
_INFIX |= {"logical_and": "&&", "logical_or": "||", "bitwise_and": "&&", "bitwise_or": "||", "bitwise_xor": "!="}

EXPRESSIONS = {
    **{name: f"math::{name}({{0}})" for name in _FUNCTIONS},
    **{name: f"math::{name}({{0}}, {{1}})" for name in ("fmod", "copysign", "atan2", "hypot")},
    **{name: f"{{0}} {sign} {{1}}" for name, sign in _INFIX.items()},
    "div_trunc": "math::trunc({0} / {1})",
    "neg": "-{0}",
    "reciprocal": _in("{T}(1) / {0}"),
    "abs": "math::fabs({0})",
    "sign": _in("{T}({0} > 0) - {T}({0} < 0)"),
    "sgn": _in("{T}({0} > 0) - {T}({0} < 0)"),
    "pow": _power,
    "rsqrt": _in("{T}(1) / math::sqrt({0})"),
    "sigmoid": _in("{T}(1) / ({T}(1) + math::exp(-{0}))"),
    "round": "math::nearbyint({0})",
    "frac": "{0} - math::trunc({0})",
    # A NaN on either side stays one, as in PyTorch.
    "maximum": "({0} > {1} || {0} != {0}) ? {0} : {1}",
    "minimum": "({0} < {1} || {0} != {0}) ? {0} : {1}",
    "clamp_min": "{0} < {1} ? {1} : {0}",
    "clamp_max": "{0} > {1} ? {1} : {0}",
    "relu": "{0} < 0 ? 0 : {0}",
    "where": "{0} ? {1} : {2}",
    "isnan": "{0} != {0}",
    "logical_xor": "{0} != {1}",
    "logical_not": "!{0}",
    "bitwise_not": "!{0}",
}


def _cast(value: str, before: torch.dtype, after: torch.dtype) -> str:
    # A choice between numbers becomes a vector's mask; the conversion of a bool goes through bytes.
    if before == torch.bool:
        return f"{value} ? {TYPES[after]}(1) : {TYPES[after]}(0)"
    return f"{value} != 0" if after == torch.bool else f"{TYPES[after]}({value})"


CPP = Dialect(
    expressions=EXPRESSIONS,
    number=_number,
    cast=_cast,
    assignment="const {type} {name} = {value};",
    types=TYPES,
)

PRELUDE, POOL_ROWS = (
    files(__name__.rpartition(".")[0]).joinpath(name).read_text(encoding="utf-8")
    for name in ("prelude.hpp", "pool_rows.hpp")
)

ENTRY = 'extern "C" {result} run(void* const* tensors, const double* constants, const int64_t* sizes, int threads) {{'

_ROOM = "static thread_local Room room;"


@functools.lru_cache(maxsize=512)
def forward_source(
    equation: Equation, x: torch.dtype, out: torch.dtype, dims: tuple[int, ...], every: bool = False, window: int = 0
) -> tuple[str, tuple]:
    """(text, constants) of the forward kernel; ``dims``: 0 or 1 for each parameter, shared or one per neuron;
    ``every``: it also writes the state after every step; ``window``: out is pooled in windows of this side, or 0.

    tensors: x, out, (chosen, if pooled,) s0 …, last s0 …, (every s0 …,) p0 …; sizes: T, N, stride of x in time, tile,
    streaming, (width, channels, if pooled,) and for each state whether it is one value for all neurons. Returns whether
    the last state is finite; 2 if there is too little memory.
    """
    program = programs(equation).forward.lifted()
    states = range(equation.states)
    place = _Places(x=STORAGE[x], out=STORAGE[out], scalar=TYPES[equation.dtype], dims=dims)
    pointers = ["const X* x", "O* out", *(["uint8_t* chosen"] if window else [])]
    pointers += [*(f"const S* first{i}" for i in states), *(f"S* last{i}" for i in states)]
    written = states if every else ()
    pointers += [f"S* every{i}" for i in written]
    body = [
        *place.arguments(program, pointers, "T N x_stride tile streaming" + " width channels" * bool(window)),
        *_uniform(program, dims),
        *(_lines(window) if window else []),
        "bool finite = true, failed = false;",
        "#pragma omp parallel for num_threads(threads) schedule(static) reduction(&& : finite) reduction(|| : failed)",
        "for (int64_t begin = 0; begin < N; begin += tile) {",
        "  const int64_t n = min(tile, N - begin);",
        "  // Past the cache, the state is written once, in the end.",
        f"  const int64_t pitch = tile + 64 / sizeof(S), bytes = streaming ? {len(states)} * pitch * sizeof(S) : 0;",
        *_scratch(f"bytes + {'tile * sizeof(O)' if window else '1'}"),
        *(f"  S* s{i} = streaming ? scratch + {i} * pitch : last{i} + begin;" for i in states),
        *(["  O* out_t = reinterpret_cast<O*>(reinterpret_cast<char*>(scratch) + bytes);"] if window else []),
        *(f"  start(s{i}, first{i}, begin, n, same[{i}]);" for i in states),
        "  alignas(64) S wide[STRIP], strip[STRIP];",
        "  alignas(64) O narrow[STRIP];",
        "  for (int64_t t = 0; t < T; ++t) {",
        "    const X* x_t = x + t * x_stride + begin;",
        *([] if window else ["    O* out_t = out + t * N + begin;"]),
        "    for (int64_t at = 0; at < n; at += STRIP) {",
        "      prefetch<STRIP, AHEAD>(x_t, x_stride, T - 1 - t, at, n);",
        "      const int64_t m = min(STRIP, n - at);",
        "      const S* x_strip = widened(wide, x_t + at, m);",
        f"      S* spikes = direct<S>(out_t + at, strip, {'false' if window else 'streaming'});",
        *_loop(
            program,
            reads={"x": "x_strip[i]", **{f"s{i}": f"s{i}[at + i]" for i in states}, **place.parameters()},
            writes=["spikes[i] = {}", *(f"s{i}[at + i] = {{}}" for i in states)],
            dims=dims,
        ),
        "      if (spikes == strip)",
        f"        flush(out_t + at, narrowed(narrow, strip, m), m * sizeof(O), {'false' if window else 'streaming'});",
        *(f"      flush(every{i} + t * N + begin + at, s{i} + at, m * sizeof(S), streaming);" for i in written),
        "    }",
        *(_indented(_pool_forward(window), 4) if window else []),
        "  }",
        *(f"  finite = finite && all_finite(s{i}, n);" for i in states),
        *(f"  if (streaming) flush(last{i} + begin, s{i}, n * sizeof(S), true);" for i in states),
        "  settle();",
        "}",
        "return failed ? 2 : finite;",
    ]
    return _text(place, body, "int", _extras(window)), tuple(program.constants.values())


@functools.lru_cache(maxsize=512)
def backward_source(
    equation: Equation,
    x: torch.dtype,
    dims: tuple[int, ...],
    needs: tuple[bool, ...],
    summed: bool = False,
    given: tuple[int, ...] = (),
    first: bool = True,
    window: int = 0,
) -> tuple[str, tuple, int]:
    """(text, constants, numbers that it saves of a neuron's step) of the backward kernel.

    ``needs``: whether x, and each parameter, wants a gradient; ``summed``: that of x over time; ``given``: the parts of
    the state that have gradients after every step; ``first``: the gradients of the first state are wanted; ``window``:
    as in forward.

    tensors: x, d_out, (chosen, if pooled,) d_x (if needed), s0 …, gradients of the last state, (of the first,) those
    after every step, p0 …, the sums (d_x if it is one, and gradients of the parameters that need one); sizes: T,
    N, strides of x and d_out in time, tile, streaming, (width, channels, if pooled,) and for each state and each of
    their gradients whether it is one value for all. Returns 1 if there is too little memory.
    """
    states, carried = range(equation.states), range(equation.carried)
    wanted = [i for i, need in enumerate(needs[1:]) if need]
    results = [*([0] if needs[0] else []), *(1 + i for i in carried), *(1 + equation.carried + i for i in wanted)]
    each = needs[0] and not summed
    sums = [*(["x"] if needs[0] and summed else []), *(f"p{i}" for i in wanted)]
    saved, recompute, program = split(equation, tuple(results))
    late = late_term(equation)
    late = late if late and late.terms else None
    if late:
        program = late.added(program, int(needs[0]) + late.state)
    recompute = recompute.lifted()
    program = program.lifted(recompute.constants)
    place = _Places(x=STORAGE[x], out=STORAGE[x], scalar=TYPES[equation.dtype], dims=dims)
    pointers = [
        "const X* x",
        "const X* g",
        *(["const uint8_t* chosen"] if window else []),
        *(["X* d_x"] if each else []),
        *(f"const S* first{i}" for i in states),
        *(f"const S* d_last{i}" for i in carried),
        *(f"S* d_first{i}" for i in carried if first),
        *(f"const S* h{i}" for i in given),
    ]
    gradients = [f"S* d_{name}" for name in sums]
    sizes = "T N x_stride g_stride tile streaming" + " width channels" * bool(window)
    rows = [f"k{i}" for i in range(len(saved))]
    onward = [
        "// Forward again: what the gradients need of each step is saved.",
        "if (at < ahead) {",
        "  const int64_t m = min(STRIP, ahead - at);",
        "  prefetch<STRIP, AHEAD_OF_TWO>(x_t, x_stride, T - 1 - j, at, ahead);",
        "  const S* x_strip = widened(wide, x_t + at, m);",
        *_loop(
            recompute,
            reads={"x": "x_strip[i]", **{f"s{i}": f"s{i}[at + i]" for i in states}, **place.parameters("begin")},
            writes=[*(f"s{i}[at + i] = {{}}" for i in states), *(f"{row}[at + i] = {{}}" for row in rows)],
            dims=dims,
        ),
        "}",
    ]
    back = [
        "// Back in time.",
        "if (at < behind) {",
        "  const int64_t m = min(STRIP, behind - at);",
        *([] if window else ["  prefetch<STRIP, AHEAD_OF_TWO>(g_t, -g_stride, T - 1 - j, at, behind);"]),
        "  const S* g_strip = widened(wide_g, g_t + at, m);",
        *(
            ["  X* d_t = d_x + (T - 1 - j) * N + before + at;", "  S* d_strip = direct<S>(d_t, strip, streaming);"]
            if each
            else []
        ),
        *_loop(
            program,
            reads={
                "g": "g_strip[i]",
                **{name: f"{row}[at + i]" for name, row in zip(saved, rows, strict=True)},
                **{f"d{i}": f"d{i}[at + i]" for i in carried},
                **{f"d{i}": f"d{i}[at + i] + h{i}_t[at + i]" for i in given},
                **{f"d{equation.states + 1 + i}": "S(1)" for i in given},  # its flag, if there are flags
                **({"late": "late[at + i]"} if late else {}),
                **place.parameters("before"),
            },
            writes=[
                *(["d_strip[i] = {}"] if each else []),
                *(["sum_x[at + i] += {}"] if needs[0] and summed else []),
                *(f"d{i}[at + i] = {{}}" for i in carried),
                *(f"sum_p{i}[at + i] += {{}}" for i in wanted),
                *(["late[at + i] = {}"] if late else []),
            ],
            dims=dims,
        ),
        *(
            ["  if (d_strip == strip) flush(d_t, narrowed(narrow, strip, m), m * sizeof(X), streaming);"]
            if each
            else []
        ),
        "}",
    ]
    body = [
        *place.arguments(program, pointers, sizes, gradients),
        *dict.fromkeys((*_uniform(program, dims), *_uniform(recompute, dims))),
        *(_lines(window) if window else []),
        "const int64_t tiles = (N + tile - 1) / tile;",
        "const int64_t pitch = tile + 64 / sizeof(S);  // rows a page apart would share few places of the cache",
        "bool failed = false;",
        "#pragma omp parallel for num_threads(threads) schedule(static)",
        "for (int64_t part = 0; part < threads; ++part) {",
        *_scratch(f"({len(rows)} * T + {len(states) + len(carried) + 2}) * pitch * sizeof(S)"),
        "  const int64_t from = tiles * part / threads * tile, to = min(tiles * (part + 1) / threads * tile, N);",
        *(f"  S* s{i} = scratch + ({len(rows)} * T + {i}) * pitch;" for i in states),
        *([f"  X* g_t = reinterpret_cast<X*>(scratch + ({len(rows)} * T + {len(states)}) * pitch);"] if window else []),
        *(f"  S* d{i} = scratch + ({len(rows)} * T + {len(states) + 1 + i}) * pitch;" for i in carried if not first),
        *([f"  S* late = scratch + ({len(rows)} * T + {len(states) + len(carried) + 1}) * pitch;"] if late else []),
        "  alignas(64) S wide[STRIP], wide_g[STRIP], strip[STRIP];",
        "  alignas(64) X narrow[STRIP];",
        "  // Each round, a tile goes forward in time and the one before it back; in the last, only the latter.",
        "  // A step's place in scratch memory is read by the one and taken by the other: so the order alternates.",
        "  bool in_order = true;",
        "  for (int64_t begin = from; begin < to + tile; begin += tile, in_order = !in_order) {",
        "    const int64_t before = begin - tile;",
        "    const int64_t ahead = max(min(tile, to - begin), int64_t(0));",
        "    const int64_t behind = begin == from ? 0 : min(tile, to - before);",
        *(f"    if (ahead > 0) start(s{i}, first{i}, begin, ahead, same[{i}]);" for i in states),
        *(f"    S* d{i} = d_first{i} + before;" for i in carried if first),
        *(f"    if (behind > 0) start(d{i}, d_last{i}, before, behind, same[{len(states) + i}]);" for i in carried),
        *(f"    S* sum_{name} = d_{name} + before;" for name in sums),
        *(f"    if (behind > 0) memset(sum_{name}, 0, behind * sizeof(S));" for name in sums),
        *(["    if (behind > 0) memset(late, 0, behind * sizeof(S));"] if late else []),
        "    for (int64_t j = 0; j < T; ++j) {",
        "      const X* x_t = x + j * x_stride + begin;",
        *_indented(_pool_backward(window) if window else ["const X* g_t = g + (T - 1 - j) * g_stride + before;"], 6),
        *(f"      const S* h{i}_t = h{i} + (T - 1 - j) * N + before;" for i in given),
        *(f"      S* {row} = scratch + ({i} * T + (in_order ? j : T - 1 - j)) * pitch;" for i, row in enumerate(rows)),
        "      for (int64_t at = 0; at < max(ahead, behind); at += STRIP) {",
        *_indented(back, 8),
        *(_indented(onward, 8) if rows else []),
        "      }",
        "    }",
        *([f"    for (int64_t i = 0; i < behind; ++i) d{late.state}[i] += late[i];"] if late and first else []),
        "  }",
        "  settle();",
        "}",
        "return failed;",
    ]
    return _text(place, body, "int", _extras(window)), tuple(program.constants.values()), len(rows)


def _extras(window: int) -> str:
    """What kernels need besides the prelude."""
    return f"{POOL_ROWS}\n{_ROOM}" if window else _ROOM


def _scratch(size: str) -> list[str]:
    """So many bytes for a thread, more than none, or the end of its part of a parallel loop."""
    return [
        f"  S* scratch = static_cast<S*>(room.get({size}));",
        "  if (scratch == nullptr) {",
        "    failed = true;",
        "    continue;",
        "  }",
    ]


def _lines(window: int) -> list[str]:
    """The neurons of a row of windows, which lie side by side, and what these and all neurons become."""
    line = f"const int64_t line = {window} * width * channels, pooled = width / {window} * channels;"
    return [line, "const int64_t all = N / line * pooled;"]


def _pool_forward(window: int) -> list[str]:
    """From the outputs of a tile at step t to those of its windows."""
    return [
        "for (int64_t row = 0; row < n / line; ++row) {",
        "  const int64_t to = t * all + (begin / line + row) * pooled;",
        f"  forward_row<O, {window}>(out_t + row * line, out + to, chosen + to, width, channels, streaming, true);",
        "}",
    ]


def _pool_backward(window: int) -> list[str]:
    """From the gradients of windows at step T - 1 - j to those of the outputs of the tile that goes back in time."""
    return [
        "for (int64_t y = 0; y < behind / (width * channels); ++y) {",
        f"  const int64_t row = (before / line + y / {window}) * pooled;",
        "  const X* from = g + (T - 1 - j) * g_stride + row;",
        "  const uint8_t* places = chosen + (T - 1 - j) * all + row;",
        f"  backward_row<X, {window}>(from, places, g_t + y * width * channels, y % {window}, width, channels, false);",
        "}",
    ]


class _Places:
    """Where values lie in memory: types, and the pointers that a kernel unpacks."""

    def __init__(self, x: str, out: str, scalar: str, dims: tuple[int, ...]) -> None:
        types = [f"using X = {x};", f"using O = {out};", f"using S = {scalar};"]
        self.aliases = [*types, "constexpr int64_t STRIP = STRIP_BYTES / sizeof(S);"]
        self.dims = dims

    def arguments(self, program: Program, pointers: Sequence[str], sizes: str, last: Sequence[str] = ()) -> list[str]:
        every = [*pointers, *(f"const S* parameter{i}" for i in range(len(self.dims))), *last]
        lines = [f"{p} = static_cast<{p.rpartition(' ')[0]}>(tensors[{position}]);" for position, p in enumerate(every)]
        lines += [f"const int64_t {name} = sizes[{i}];" for i, name in enumerate(sizes.split())]
        lines.append(f"const int64_t* same = sizes + {len(sizes.split())};")
        lines += [f"const S {name} = S(constants[{i}]);" for i, name in enumerate(program.constants)]
        return lines + [f"const S p{i} = *parameter{i};" for i, dim in enumerate(self.dims) if dim == 0]

    def parameters(self, tile: str = "begin") -> dict[str, str]:
        """Those that each neuron has for itself are read in the loop over the tile that begins at ``tile``."""
        return {f"p{i}": f"parameter{i}[{tile} + at + i]" for i, dim in enumerate(self.dims) if dim}


def _shared(dims: Sequence[int]) -> set[str]:
    return {f"p{i}" for i, dim in enumerate(dims) if dim == 0}


def _uniform(program: Program, dims: Sequence[int]) -> list[str]:
    """What is the same for all neurons, before all loops."""
    uniform = program.uniform(_shared(dims))
    return [CPP.written(op) for op in program.ops if op.name in uniform]


def _loop(program: Program, reads: dict[str, str], writes: Sequence[str], dims: Sequence[int]) -> list[str]:
    """One step of the neurons of a strip."""
    outside = program.uniform(_shared(dims))
    ops: list[Op] = [op for op in program.ops if op.name not in outside]
    used = {a for op in ops for a in op.arguments} | set(program.results)
    # `i` is the position in the strip; a neuron's own values are named as in the equation.
    lines = [f"const S {name}_ = {value};" for name, value in reads.items() if name in used]
    lines += [CPP.written(op, lambda name: f"{name}_" if name in reads else name) for op in ops]
    for write, result in zip(writes, program.results, strict=True):
        value = result if isinstance(result, str) else CPP.number(result, torch.float64)
        lines.append(write.format(f"{value}_" if value in reads else value) + ";")
    return [
        "      #pragma omp simd",
        "      for (int64_t i = 0; i < m; ++i) {",
        *(f"        {line}" for line in lines),
        "      }",
    ]


def _indented(lines: Sequence[str], by: int) -> list[str]:
    return [" " * by + line for line in lines]


def _text(place: _Places, body: Sequence[str], result: str, before: str = "") -> str:
    half = ["#define HALF"] if any(STORAGE[torch.float16] in alias for alias in place.aliases) else []
    head = [*half, PRELUDE, *place.aliases, *([before] if before else []), "", ENTRY.format(result=result)]
    return "\n".join([*head, *_indented(body, 2), "}", ""])
