"""Products of spikes with weights on a CPU, at the cost of the spikes.

A spike adds a row of the transposed weights to the outputs, and to the gradient of its weights a row of the outputs'
gradient; what is 0 adds nothing. So only the places of the ones are needed (``Spikes``), which one pass over the input
lists (``spikes_of``) for both directions. Sums have another order and fewer terms than in a dense product: they differ
in the last bits. The kernels are in ``engine/cpp/event_products.cpp``.

``break_even`` says up to which density lists are used. Measured on one thread of an AMD EPYC with AVX-512, over oneDNN,
whose dense products are the fastest of all: there they take half the time or less at that density, and as long as the
dense product at 1.5 times as many spikes. Where products have narrower vectors, lists pay longer.
"""

from __future__ import annotations

import ctypes
import functools
from importlib.resources import files
from typing import NamedTuple

import torch
from torch import Tensor

from snnkit.engine import CompilationFailed, missing_compiler
from snnkit.engine.cpp import load, threads_for
from snnkit.engine.cpp.cpp_source import PRELUDE
from snnkit.engine.page_pool import fresh

# Densities up to which lists pay where rows, inputs and outputs are many. oneDNN multiplies bfloat16 faster.
_MOST = {torch.float32: 0.22, torch.float64: 0.22, torch.bfloat16: 0.08}

# Outputs of a tile, as far as costs are concerned: 256 bytes of float32.
_TILE = 64

# Rows that are looked at first, so that a dense input costs little more than it did; and the share of what pays up to
# which all may have, as lists that are made already pay a little longer.
_SAMPLED, _MORE = 16, 1.25

_OTHER_VALUES, _TOO_MANY, _NO_MEMORY = -1, -2, -3
TOO_LITTLE = "too little memory for lists"

# Finding the spikes of each window takes a part of the time of their product.
_WINDOWS = 0.8


class Spikes(NamedTuple):
    """The ones of a matrix [B, I] of zeros and ones."""

    starts: Tensor  # int64 [B + 1]: those of row b are at columns[starts[b]:starts[b + 1]]
    columns: Tensor  # int32 [n], ascending in each row
    inputs: int  # I

    @property
    def density(self) -> float:
        """Their share of all values."""
        return len(self.columns) / ((len(self.starts) - 1) * self.inputs)

    def dense(self, dtype: torch.dtype) -> Tensor:
        """The matrix [B, I], by PyTorch's operations."""
        rows = torch.repeat_interleave(self.starts.diff(), output_size=len(self.columns))
        matrix = torch.zeros(len(self.starts) - 1, self.inputs, dtype=dtype, device="cpu")
        return matrix.index_put((rows, self.columns.long()), matrix.new_ones(()))


def break_even(rows: int, inputs: int, outputs: int, dtype: torch.dtype) -> float:
    """The largest density at which a product [rows, inputs] x [inputs, outputs] is by lists; 0 or less: never.

    A pass over the input, the transposition of the weights and writing the outputs cost as much as so many dense
    outputs, rows and inputs. A tile that is not full costs as much as a full one.
    """
    if dtype not in _MOST or not rows * inputs * outputs:
        return 0.0
    full = outputs / (-(-outputs // _TILE) * _TILE)
    return _MOST[dtype] * (full - 40 / outputs - 80 / rows - 30 / inputs)


def break_even_of_windows(windows: int, inputs: int, outputs: int, dtype: torch.dtype) -> float:
    """The same for a convolution with so many windows, each of so many inputs."""
    return _WINDOWS * break_even(windows, inputs, outputs, dtype)


def spikes_of(x: Tensor, most: float) -> Spikes | str:
    """The spikes of x [B, I], plain and contiguous, if their density is at most about ``most``, or why not."""
    rows, inputs = x.shape
    if most <= 0:
        return "lists of spikes do not pay for so few rows, inputs or outputs"
    if kernels() is None:
        return "event-driven products can't be compiled here (engine.missing_compiler says why)"
    find, up_to = _kernel("spikes", x.dtype), f"lists of spikes pay up to {most:.1%}"
    starts = _empty(rows + 1, torch.int64)
    if starts is None:
        return _refused(_NO_MEMORY, up_to)
    if rows > 4 * _SAMPLED:
        part = _SAMPLED * inputs
        seen = find(x.data_ptr(), _SAMPLED, inputs, rows // _SAMPLED * inputs, part, starts.data_ptr(), 1)
        if seen > most * part:
            return f"about {seen / part:.1%} of the inputs are spikes, and {up_to}"
        if seen < 0:
            return _refused(seen, up_to)
    count = find(x.data_ptr(), rows, inputs, inputs, int(_MORE * most * x.numel()), starts.data_ptr(), threads_for(x))
    if count < 0:
        return _refused(count, up_to)
    columns = _empty(count, torch.int32)
    kernels().take(None if columns is None else ctypes.c_void_p(columns.data_ptr()))  # type: ignore[union-attr]
    return _refused(_NO_MEMORY, up_to) if columns is None else Spikes(starts, columns, inputs)


def _empty(count: int, dtype: torch.dtype) -> Tensor | None:
    """Room for a part of a list; None if there is too little memory, where a dense product may still have enough."""
    try:
        return torch.empty(count, dtype=dtype, device="cpu")
    except RuntimeError:
        return None


def _refused(failure: int, up_to: str) -> str:
    if failure == _TOO_MANY:
        return f"more of the inputs are spikes than pay; {up_to}"
    return "the input has values other than 0 and 1" if failure == _OTHER_VALUES else TOO_LITTLE


def unfolded(lines: Spikes, sizes: tuple[int, ...]) -> Spikes | None:
    """The spikes of each window of a convolution [B Y X, KY KX C], of those of the lines of its input [B H, W C].

    None: there is too little memory.

    ``sizes``: B, H, C, windows Y and X, the kernel KY and KX, strides and paddings of y and x.
    """
    batch, _, channels, height, width, *kernel = sizes[:7]
    starts, columns = _empty(batch * height * width + 1, torch.int64), None
    if starts is None:
        return None
    threads = threads_for(starts)
    for _ in range(2):  # how many in each window, and which
        pointers = [None if t is None else ctypes.c_void_p(t.data_ptr()) for t in (*lines[:2], starts, columns)]
        numbers = (ctypes.c_int64 * len(sizes))(*sizes)
        kernels().unfold(*pointers[:2], numbers, *pointers[2:], threads)  # type: ignore[union-attr]
        if columns is None and (columns := _empty(int(starts[-1]), torch.int32)) is None:
            return None
    return Spikes(starts, columns, kernel[0] * kernel[1] * channels)  # type: ignore[arg-type]


def product(spikes: Spikes, weight: Tensor, bias: Tensor | None) -> Tensor | None:
    """The product [B, O] with plain, contiguous weights [O, I], and bias [O]; None if a weight is not finite, as then 0
    times it is not 0."""
    rows, outputs = len(spikes.starts) - 1, len(weight)
    out = fresh((rows, outputs), weight.dtype, torch.device("cpu"))
    tensors = spikes.starts, spikes.columns, weight, bias, out
    return None if _run("product", tensors, spikes, outputs, weight.dtype, threads_for(out)) else out


def gradients(spikes: Spikes, gradient: Tensor) -> tuple[Tensor, Tensor] | None:
    """The gradients of weights [O, I] and bias [O] by the plain one of the product [B, O]; None if it is not finite."""
    gradient, outputs = gradient.contiguous(), gradient.shape[1]
    d_weight = fresh((outputs, spikes.inputs), gradient.dtype, torch.device("cpu"))
    d_bias = torch.empty(outputs, dtype=gradient.dtype, device="cpu")
    tensors = spikes.starts, spikes.columns, gradient, d_weight, d_bias
    failed = _run("gradients", tensors, spikes, outputs, gradient.dtype, threads_for(gradient))
    return None if failed else (d_weight, d_bias)


@functools.cache
def kernels() -> ctypes.CDLL | None:
    """The library of ``event_products.cpp``; None if nothing can be compiled."""
    if missing_compiler("cpu"):
        return None
    source = files(f"{__package__}.engine.cpp").joinpath("event_products.cpp").read_text(encoding="utf-8")
    try:
        return load(PRELUDE + source)
    except CompilationFailed:
        return None


@functools.cache
def _kernel(name: str, dtype: torch.dtype) -> ctypes._NamedFuncPointer:
    kernel = getattr(kernels(), f"{name}_{str(dtype).removeprefix('torch.')}")
    number, pointer = ctypes.c_int64, ctypes.c_void_p
    kernel.argtypes = (pointer, *[number] * 3, *([number, pointer] if name == "spikes" else []), ctypes.c_int)
    kernel.restype = number
    return kernel


def _run(
    name: str, tensors: tuple[Tensor | None, ...], spikes: Spikes, outputs: int, dtype: torch.dtype, threads: int
) -> int:
    pointers = (ctypes.c_void_p * 5)(*(None if t is None else t.data_ptr() for t in tensors))
    return _kernel(name, dtype)(pointers, len(spikes.starts) - 1, spikes.inputs, outputs, threads)
