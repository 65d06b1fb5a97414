"""The C++ compiler: which there is, and compiling generated C++ into a shared library, once a machine."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import Future
from pathlib import Path

from snnkit.engine.autograd import CompilationFailed
from snnkit.engine.code_cache import kernel_folder, private_folder, warn_of_private
from snnkit.files import exposed

_REMEDIES = {"darwin": "macOS: xcode-select --install", "win32": "on Windows the kit compiles in WSL only"}
NO_COMPILER = f"there is none ({_REMEDIES.get(sys.platform, 'Debian and Ubuntu: apt install g++')})"

# Arithmetic as PyTorch's eager kernels do it, to the bit: nothing is contracted or reordered.
_FLAGS = ("-std=c++17", "-O3", "-march=native", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")
if platform.machine().lower() in ("x86_64", "amd64"):
    # Where there are vectors of 512 bits, GCC takes half of them by default; up to 1.07 times faster on an EPYC.
    _FLAGS += ("-mprefer-vector-width=512",)
_SHARED = ("-shared", "-fPIC", "-w", "-x", "c++")
# Threads where the compiler has OpenMP, else vectors alone.
_OPENMP = ("-fopenmp", "-fopenmp-simd")

# Bytes of the checksum at the end of a library.
_CHECKSUM = hashlib.sha256().digest_size

# A folder in which one is being made.
_UNFINISHED = re.compile(r"[0-9a-f]{24}\w{8}")

_lock = threading.Lock()
loaded: dict[str, Future[ctypes.CDLL | str]] = {}


@functools.cache
def cpp_compiler() -> str | None:
    """The C++ compiler to use: ``$CXX``, g++ or clang++; None if there is none."""
    if sys.platform == "win32":  # g++ is often on PATH, but Python does not load what its libraries need from there
        return None
    candidates = (os.environ.get("CXX", ""), "g++", "clang++")
    return next((path for name in candidates if name and (path := shutil.which(name))), None)


@functools.cache
def missing_compiler(device_type: str) -> str:
    """What torch.compile lacks for kernels of this kind of device, or an empty string."""
    if os.environ.get("TORCH_COMPILE_DISABLE") == "1":
        return "TORCH_COMPILE_DISABLE=1 forbids compiling"
    if device_type == "cuda":
        from torch.utils._triton import has_triton

        return "" if has_triton() else "torch.compile needs Triton on CUDA, which is not installed"
    return "" if cpp_compiler() or shutil.which("cl") else f"torch.compile needs a C++ compiler, and {NO_COMPILER}"


def load(source: str) -> ctypes.CDLL:
    """The library made from ``source``; compiled if neither this process nor an earlier one has done it.

    Raises:
        CompilationFailed: there is no compiler, or it refuses.
    """
    library = _requested(source).result()
    if isinstance(library, str):
        raise CompilationFailed(library)
    return library


def load_ahead(source: str) -> None:
    """Begin in another thread what ``load`` will do, as the compiler is another process."""
    with contextlib.suppress(RuntimeError):  # where no thread can be started, ``load`` does all of it
        threading.Thread(target=_requested, args=(source,)).start()


def _requested(source: str) -> Future[ctypes.CDLL | str]:
    with _lock:
        library = loaded.get(source)
        if library is not None:
            return library
        library = loaded[source] = Future()
    try:
        library.set_result(_library(source))
    except BaseException as error:  # such as Ctrl-C: the next call compiles again
        with _lock:
            loaded.pop(source, None)
        library.set_exception(error)
        raise
    return library


def _after_fork() -> None:
    """In the child the threads that were compiling are gone."""
    global _lock
    _lock = threading.Lock()
    for source in [source for source, library in loaded.items() if not library.done()]:
        del loaded[source]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _library(source: str) -> ctypes.CDLL | str:
    """The library, or the reason why there is none, which is remembered, too."""
    if cpp_compiler() is None:
        return f"of C++ compilers {NO_COMPILER}"
    try:
        try:
            return _loadable(source, kernel_folder())
        except (OSError, CompilationFailed) as error:  # on a full disk it is the linker that fails
            library = _loadable(source, private_folder())
            warn_of_private("C++ of neurons and plasticity", str(error))
            return library
    except (OSError, CompilationFailed) as error:
        return str(error)


def _loadable(source: str, folder: Path) -> ctypes.CDLL:
    program = cpp_compiler()
    assert program is not None
    # Another compiler, flag or processor makes another library.
    key = hashlib.sha256("\n".join((source, _version(program), *_FLAGS, _processor())).encode()).hexdigest()[:24]
    target = folder / f"{key}.so"
    if not _whole(target):
        _compile(program, source, target)
    return ctypes.CDLL(str(target))


def _whole(library: Path) -> bool:
    """Whether it is this user's, and as it was written: loading one that a full disk or a power cut has shortened would
    end the process, not raise an error."""
    try:
        if exposed(library) or not library.is_file():  # a pipe would be waited for
            return False
        content = library.read_bytes()
    except FileNotFoundError:
        return False
    return hashlib.sha256(content[:-_CHECKSUM]).digest() == content[-_CHECKSUM:]


def _compile(program: str, source: str, target: Path) -> None:
    error = ""
    for left in target.parent.iterdir():
        if _UNFINISHED.fullmatch(left.name):
            with contextlib.suppress(OSError):  # its compiler was just done
                if time.time() - left.lstat().st_mtime > 3600:  # its compiler was killed
                    shutil.rmtree(left)
    for openmp in _OPENMP:
        # Under another name until it is whole, as several processes may be compiling it.
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=target.stem) as folder:
            made = Path(folder) / target.name
            command = [program, *_FLAGS, openmp, *_SHARED, "-", "-o", str(made)]
            # The compiler's own files, too: /tmp may be full.
            environment = {**os.environ, "TMPDIR": folder}
            result = subprocess.run(command, input=source, capture_output=True, text=True, env=environment)
            if result.returncode == 0:
                made.chmod(made.stat().st_mode & ~0o022)
                # Loaders ignore what follows a library's last section.
                with made.open("r+b") as file:
                    file.write(hashlib.sha256(file.read()).digest())
                os.replace(made, target)
                return
            lines = (line for line in result.stderr.splitlines() if "error" in line or "failed" in line)
            error = next(lines, result.stderr[:200])
    raise CompilationFailed(f"{Path(program).name}: {error}")


@functools.cache
def _version(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True).stdout


@functools.cache
def _processor() -> str:
    """What ``-march=native`` depends on: a cache in a home folder may be seen by several kinds of machine."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    return "\n".join(sorted({line for line in lines if line.startswith(("model name", "flags", "Features"))}))
