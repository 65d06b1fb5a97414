"""What this machine lacks for compiling."""

from __future__ import annotations

import functools
import os
import shutil


@functools.cache
def missing_compiler(device_type: str) -> str:
    """What torch.compile lacks for kernels of this kind of device, or an empty string."""
    if os.environ.get("TORCH_COMPILE_DISABLE") == "1":
        return "TORCH_COMPILE_DISABLE=1 forbids compiling"
    if device_type == "cuda":
        from torch.utils._triton import has_triton

        return "" if has_triton() else "torch.compile needs Triton on CUDA, which is not installed"
    return "" if cpp_compiler() or shutil.which("cl") else f"torch.compile needs a C++ compiler, and {NO_COMPILER}"


NO_COMPILER = "none was found (Debian and Ubuntu: apt install g++)"


@functools.cache
def cpp_compiler() -> str | None:
    """The C++ compiler to use: ``$CXX``, g++ or clang++; None if there is none."""
    candidates = (os.environ.get("CXX", ""), "g++", "clang++")
    return next((found for name in candidates if name and (found := shutil.which(name))), None)
