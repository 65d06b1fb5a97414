"""Facts about this machine, without a CUDA context of our own: a run's kernels need the GPU's memory."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib import metadata

from snnkit.measure.machine import processor

PACKAGES = (
    "numpy",
    "scikit-learn",
    "plotly",
    "ipywidgets",
    "jupyterlab",
    "ipykernel",
    "papermill",
    "nbclient",
    "jupytext",
)
GIB = 1024**3


@dataclass(frozen=True)
class Gpu:
    """One line of nvidia-smi."""

    name: str
    driver: str
    memory_gib: float
    capability: tuple[int, int] | None


def in_colab() -> bool:
    return "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_gib() -> tuple[float, float]:
    """(all, free) main memory in GiB."""
    import psutil

    memory = psutil.virtual_memory()
    return memory.total / GIB, memory.available / GIB


def version(package: str) -> str | None:
    """Installed version of `package`, without importing it; None where it isn't installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def gpus() -> list[Gpu]:
    """The NVIDIA GPUs that the driver lists; empty without a driver."""
    found = []
    fields = "--query-gpu=name,driver_version,memory.total,compute_cap"
    for line in _run("nvidia-smi", fields, "--format=csv,noheader,nounits"):
        values = [value.strip() for value in line.split(",")]
        if len(values) != 4:
            continue
        name, driver, memory, capability = values
        major, _, minor = capability.partition(".")
        known = (int(major), int(minor)) if major.isdigit() and minor.isdigit() else None
        found.append(Gpu(name, driver, float(memory) / 1024 if memory.isdigit() else 0.0, known))
    return found


def compiler() -> tuple[str, str] | None:
    """(path, first line of `--version`) of the C++ compiler for torch.compile on a CPU; None where there is none."""
    for name in (os.environ.get("CXX"), "g++", "clang++", "c++"):
        path = shutil.which(name) if name else None
        if path:
            lines = _run(path, "--version")
            return path, lines[0] if lines else "no answer to --version"
    return None


def describe() -> dict[str, object]:
    """What belongs beside every result: interpreter, versions, processor, memory, GPUs."""
    import torch

    import snnkit

    total, _ = memory_gib()
    devices = gpus() if torch.cuda.is_available() else []
    return {
        "snnkit": snnkit.__version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "devices": [gpu.name for gpu in devices],
        "driver": devices[0].driver if devices else None,
        "processor": processor(),
        "cores": cores(),
        "memory_gib": round(total, 1),
        "packages": {package: version(package) for package in PACKAGES},
    }


def _run(*command: str) -> list[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()
