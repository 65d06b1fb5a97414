"""Compiles generated C++ into a shared library, once a machine, and loads it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import subprocess
import tempfile
import threading
from pathlib import Path

from ..compiled import CompilationFailed
from ..missing import NO_COMPILER, cpp_compiler

# Arithmetic as PyTorch's eager kernels do it, to the bit: nothing is contracted or reordered.
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
_SHARED = ("-shared", "-fPIC", "-w", "-x", "c++")
# Threads where the compiler has OpenMP, else vectors alone.
_OPENMP = ("-fopenmp", "-fopenmp-simd")

_lock = threading.Lock()
_loaded: dict[str, ctypes.CDLL] = {}


def load(source: str) -> ctypes.CDLL:
    """The library made from ``source``; compiled if neither this process nor an earlier one has done it.

    Raises:
        CompilationFailed: there is no compiler, or it refuses.
    """
    with _lock:
        if source not in _loaded:
            _loaded[source] = ctypes.CDLL(str(_built(source)))
        return _loaded[source]


def cache_folder() -> Path:
    """Where libraries are kept between processes: ``$SNNKIT_KERNELS``, or the user's cache."""
    given = os.environ.get("SNNKIT_KERNELS")
    if given:
        return Path(given)
    # Never a folder that others can write to: what lies there is loaded into the process.
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "snnkit" / "kernels"


def _built(source: str) -> Path:
    program = cpp_compiler()
    if program is None:
        raise CompilationFailed(f"of C++ compilers {NO_COMPILER}")
    key = hashlib.sha256("\n".join((source, _version(program), *_FLAGS, _processor())).encode()).hexdigest()[:24]
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        folder = _private_folder()
    target = folder / f"{key}.so"
    if not target.exists():
        _compile(program, source, target)
    return target


def _compile(program: str, source: str, target: Path) -> None:
    error = ""
    for openmp in _OPENMP:
        # Under another name until it is whole, as several processes may be at it.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=target.stem) as folder:
            made = Path(folder) / target.name
            command = [program, *_FLAGS, openmp, *_SHARED, "-", "-o", str(made)]
            result = subprocess.run(command, input=source, capture_output=True, text=True)
            if result.returncode == 0:
                os.replace(made, target)
                return
            error = next((line for line in result.stderr.splitlines() if "error" in line), result.stderr[:200])
    raise CompilationFailed(f"{Path(program).name}: {error}")


@functools.cache
def _private_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="snnkit-kernels-"))


@functools.cache
def _version(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True).stdout


@functools.cache
def _processor() -> str:
    """What ``-march=native`` depends on: a cache in a home folder may be seen by several kinds of machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
