"""Launches the kernels: one for all T steps, in each direction.

``wrap`` comes between a kernel and its launch: by default it does nothing; ``torch.library.wrap_triton`` shows the
launch to a compiler, whose sizes may be symbols.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import linecache
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from subprocess import CalledProcessError
from typing import Any

import torch
from torch import Tensor

from snnkit.engine.autograd import CompilationFailed, Forward, Gradients, Pass, Results
from snnkit.engine.code_cache import secure_triton
from snnkit.engine.trace import Equation, renew_in_children
from snnkit.engine.triton.triton_source import (
    BLOCK_STEPS,
    Source,
    backward_source,
    forward_source,
    saves_state,
    values_held,
)

# Rows that begin and end at multiples of this many neurons can be read 128 bits at a time.
UNIT = 16

THREADS = 128

# Neurons below which each thread gets one: there are too few to fill a large GPU, and what counts is how many of its
# threads wait for memory at the same time.
FEW = 2**17

# Values of a block's steps that the threads of a kernel have room for, counted once for each neuron of a thread. Of 255
# registers, backward took about 60 and 8 for each of these (blocks of eight steps, sm_90); the tests look for spills.
_ROOM = 24

# Sizes must not be baked in: each number of steps or neurons would be a compilation of its own.
SIZES = ("T", "B", "N", "x_step", "g_step")

_lock = threading.Lock()
renew_in_children(globals(), _lock=threading.Lock)

# What the compiler said of kernels that it refused, by kind of launch.
_refused: dict[tuple, str] = {}


def forward(
    run: Pass,
    out_dtype: torch.dtype,
    save: bool,
    every: bool = False,
    wrap: Callable[[Any], Any] = lambda kernel: kernel,
) -> Forward:
    """See ``autograd.Backend``; saved is the state before every block of steps, [ceil(T/K), *N] for each part."""
    equation, x, state, parameters = run
    steps, *one = x.shape
    neurons = math.prod(one)
    source = forward_source(equation, run.dims, save, every)
    out = x.new_empty(x.shape, dtype=out_dtype)
    state = [s.contiguous() for s in state]
    last = [torch.empty_like(s) for s in state]
    blocks = (steps + BLOCK_STEPS - 1) // BLOCK_STEPS
    saved = [s.new_empty((blocks, *one)) for s in state] if save and saves_state(equation) else []
    states = [s.new_empty(x.shape) for s in state] if every else []
    tensors = (x, out, *state, *last, *saved, *states, *parameters)
    _launch(source, lanes(equation, neurons, x.dtype, False), tensors, (steps, neurons), (x.stride(0),), wrap)
    return Forward(out, last, saved, states=states)


def backward(
    run: Pass, saved: Sequence[Tensor], d: Gradients, wrap: Callable[[Any], Any] = lambda kernel: kernel
) -> Results:
    """See ``autograd.Backend``."""
    (equation, x, _, parameters), (d_out, d_last, needs, summed, d_states, _) = run, d
    if not saved and saves_state(equation):
        saved = forward(run, x.dtype, True, wrap=wrap).saved
    steps, *one = x.shape
    neurons = math.prod(one)
    source = backward_source(equation, run.dims, needs, summed, d.given)
    d_x = None
    if needs[0]:
        d_x = x.new_empty(one, dtype=equation.dtype) if summed else x.new_empty(x.shape)
    d_last = [d.contiguous() for d in d_last]
    d_first = [torch.empty_like(d) for d in d_last]
    # One gradient per neuron; what a parameter shared by all neurons gets is their sum.
    each = [x.new_empty(one, dtype=equation.dtype) if need else None for need in needs[1:]]
    states = (*saved, *d_last, *d_first)
    order = (*states, d_x, *each) if summed else (d_x, *states, *each)
    results = [t for t in order if t is not None]
    strides = (x.stride(0), d_out.stride(0))
    given = [d for d in d_states if d is not None]
    tensors = (x, d_out, *results, *given, *parameters)
    _launch(source, lanes(equation, neurons, x.dtype, True, len(given)), tensors, (steps, neurons), strides, wrap)
    pairs = zip(each, parameters, strict=True)
    return d_x, d_first, [d.sum() if d is not None and p.dim() == 0 else d for d, p in pairs]


def lanes(equation: Equation, neurons: int, x: torch.dtype, backward: bool, given: int = 0) -> int:
    """Neurons per thread: as many as one load of 128 bits brings, unless their values don't fit into registers.
    ``given``: how many parts of the state have gradients after every step."""
    if neurons < FEW:
        return 1
    words = 2 if equation.dtype == torch.float64 else 1
    if not backward:
        return 16 // x.itemsize
    room = _ROOM // (words * (values_held(equation) + given))
    return next(count for count in (4, 2, 1) if count <= max(room, 1))


def _launch(
    source: Source,
    per_thread: int,
    tensors: Sequence[Tensor],
    shape: Sequence[int],
    strides: Sequence[int],
    wrap: Callable[[Any], Any],
) -> None:
    steps, neurons = shape
    unit = UNIT if all(size % UNIT == 0 for size in (neurons, *strides)) else 1
    block = THREADS * per_thread
    sizes = (steps, *(size // unit for size in (neurons, *strides)))
    arguments = (*tensors, *source.constants, 0.0, *sizes)
    options = {"UNIT": unit, "BLOCK": block, "num_warps": THREADS // 32}
    start(source, ((neurons + block - 1) // block,), arguments, options, wrap)


def start(
    source: Source,
    programs: tuple[int, ...],
    arguments: Sequence[Any],
    options: Mapping[str, int],
    wrap: Callable[[Any], Any] = lambda kernel: kernel,
) -> None:
    """Launch so many programs on the device of the first argument. ``options``: the kernel's constants, and warps.

    Raises:
        CompilationFailed: the compiler refuses the kernel; for each later launch of its kind, too, without another try.
    """
    function = kernel(source)
    wrapped = wrap(function)
    kind = (source.text, *options.items(), *[a.dtype for a in arguments if isinstance(a, Tensor)])
    if kind in _refused:
        raise CompilationFailed(_refused[kind])
    with on_device_of(arguments[0]) if wrapped is function else contextlib.nullcontext():
        try:
            wrapped[programs](*arguments, **options)
        except Exception as error:  # at the first launch of its kind, which compiles
            if not _is_refusal(error):
                raise
            lines = str(error).strip().splitlines() or [""]
            _refused[kind] = f"{type(error).__name__}: {lines[0][:200]}"
            raise CompilationFailed(_refused[kind]) from error


def _is_refusal(error: Exception) -> bool:
    """Whether Triton can't compile the kernel, and not the launch is what failed.

    Passes of its compiler that fail raise a RuntimeError. To launch, it builds a small module with the C compiler,
    Python's headers and the driver's library, of which a machine may lack one. An error in its interpreter is none of
    these: there a fault of the kernel must not be taken for a refusal.
    """
    from triton.errors import TritonError
    from triton.runtime.errors import InterpreterError

    if isinstance(error, InterpreterError):
        return False
    words = ("PassManager", "C compiler", "libcuda.so")
    return isinstance(error, (TritonError, CalledProcessError)) or any(word in str(error) for word in words)


def on_device_of(tensor: Tensor) -> contextlib.AbstractContextManager:
    """Triton launches on the current device."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else contextlib.nullcontext()


def kernel(source: Source) -> Any:
    """The function of ``source``, ready for ``kernel(source)[grid](...)``; one for equal texts.

    It is a ``triton.jit`` function, which compiles itself at its first launch and for each kind of arguments; or, with
    TRITON_INTERPRET=1 in the environment, one that NumPy runs on the CPU.
    """
    with _lock:
        return _kernel(source.name, source.text, interpreting())


def interpreting() -> bool:
    """Whether kernels run in Triton's interpreter, on a CPU."""
    from triton import knobs

    return bool(knobs.runtime.interpret)


@functools.lru_cache(maxsize=1024)
def _kernel(name: str, text: str, interpreted: bool) -> Any:
    import triton
    import triton.language as tl

    if not interpreted:
        secure_triton()
    # Triton and Inductor read the text of a function again from its file.
    file = f"<snnkit {name} {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"tl": tl, "triton": triton, "__name__": __name__}
    exec(compile(text, file, "exec"), namespace)
    function = namespace[name]
    sizes = [size for size in SIZES if size in function.__code__.co_varnames[: function.__code__.co_argcount]]
    return triton.jit(do_not_specialize=sizes)(function)
