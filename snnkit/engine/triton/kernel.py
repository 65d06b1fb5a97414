"""From a kernel's text to a function that Triton can launch."""

from __future__ import annotations

import functools
import hashlib
import linecache
import threading
from typing import Any

from .writer import Source

# Sizes must not be baked in: each number of steps or neurons would be a compilation of its own.
_SIZES = ("T", "N", "x_step", "g_step")

_lock = threading.Lock()


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

    # Triton and Inductor read the text of a function again from its file.
    file = f"<snnkit {name} {hashlib.sha256(text.encode()).hexdigest()[:12]}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    namespace: dict[str, Any] = {"tl": tl, "triton": triton, "__name__": __name__}
    exec(compile(text, file, "exec"), namespace)
    function = namespace[name]
    sizes = [size for size in _SIZES if size in function.__code__.co_varnames[: function.__code__.co_argcount]]
    return triton.jit(do_not_specialize=sizes)(function)
