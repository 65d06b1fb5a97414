"""What this machine has, and where a number comes from: device, driver, versions, commit, date.

Nothing here makes a CUDA context: kernels of notebooks need the GPU's memory.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snnkit import checks

if TYPE_CHECKING:
    import torch

# Versions that are noted where they are installed; the last three are the peers.
PACKAGES = ("snnkit", "torch", "lightning", "triton", "numpy", "spikingjelly", "snntorch", "norse", "sinabs")

NOTEBOOK_PACKAGES = (
    "numpy", "scikit-learn", "plotly", "ipywidgets", "jupyterlab", "ipykernel", "papermill", "nbclient", "jupytext",
)  # fmt: skip
GB = 1e9


@checks.arguments
def provenance(device: torch.device) -> dict[str, Any]:
    """What belongs to every record measured on ``device`` (a torch.device) by this process."""
    import torch

    import snnkit

    known = {package: version(package) for package in PACKAGES} | {"snnkit": snnkit.__version__}
    versions = {package: text for package, text in known.items() if text}
    versions |= {"python": platform.python_version(), "torch": torch.__version__}
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "device": _device(device),
        "cpu": processor(),
        "threads": torch.get_num_threads(),
        "platform": platform.platform(),
        "versions": versions,
        "cuda": torch.version.cuda,
        "commit": commit(Path(snnkit.__file__).parent),
        "allocator": {name: value for name, value in os.environ.items() if name.startswith("MALLOC_")},
    }


def commit(folder: Path) -> dict[str, Any] | None:
    """The git commit that ``folder`` is checked out from, and whether its code differs; None outside a checkout."""

    def git(*words: str) -> list[str]:
        return _lines("git", "-C", str(folder), *words)

    # A package that is installed inside another repository is none of its files.
    if not git("ls-files", "__init__.py"):
        return None
    revision = git("rev-parse", "HEAD")
    if not revision:
        return None
    # Records are written into the package one after the other; they run nothing.
    return {"id": revision[0], "dirty": bool(git("status", "--porcelain", "--", ".", ":(exclude)*.json"))}


def processor() -> str:
    """Name of the CPU."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            return next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


@dataclass(frozen=True)
class Gpu:
    """One line of nvidia-smi."""

    name: str
    driver: str
    memory_gb: float


def in_colab() -> bool:
    return "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory_gb() -> tuple[float, float]:
    """(all, free) main memory in GB."""
    import psutil

    memory = psutil.virtual_memory()
    return memory.total / GB, memory.available / GB


def gpus() -> list[Gpu]:
    """The NVIDIA GPUs that the driver lists; empty without a driver."""
    gpus = []
    fields = "--query-gpu=name,driver_version,memory.total"
    for line in _lines("nvidia-smi", fields, "--format=csv,noheader,nounits"):
        values = [value.strip() for value in line.split(",")]
        if len(values) != 3:
            continue
        name, driver, memory = values
        gpus.append(Gpu(name, driver, float(memory) * 2**20 / GB if memory.isdigit() else 0.0))
    return gpus


def compiler() -> tuple[str, str] | None:
    """(path, first line of ``--version``) of the C++ compiler for torch.compile on a CPU; None if there is none.

    On Windows that is Microsoft's: PyTorch takes no other there.
    """
    for name in ("cl",) if sys.platform == "win32" else (os.environ.get("CXX"), "g++", "clang++", "c++"):
        path = shutil.which(name) if name else None
        if path:
            lines = _lines(path, "--version")
            return path, lines[0] if lines else "no answer to --version"
    return None


def describe() -> dict[str, object]:
    """What belongs beside every result: interpreter, versions, processor, memory, GPUs."""
    import torch

    import snnkit

    total, _ = memory_gb()
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
        "memory_gb": round(total, 1),
        "packages": {package: version(package) for package in NOTEBOOK_PACKAGES},
    }


def _device(device: Any) -> dict[str, Any]:
    if device.type != "cuda":
        return {"type": device.type, "name": processor()}
    import torch

    properties = torch.cuda.get_device_properties(device)
    listed = gpus()
    return {
        "type": "cuda",
        "name": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "driver": listed[0].driver if listed else None,
        "memory_bytes": properties.total_memory,
        "l2_bytes": getattr(properties, "L2_cache_size", None),
    }


def version(package: str) -> str | None:
    """Installed version of ``package``, without importing it; None if it isn't installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _lines(*command: str) -> list[str]:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return done.stdout.splitlines()
