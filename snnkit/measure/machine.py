"""Where a number comes from: device, driver, versions, commit, date."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

# Versions that are noted where they are installed; the last three are the peers.
PACKAGES = ("snnkit", "torch", "lightning", "triton", "numpy", "spikingjelly", "snntorch", "norse")

# The C library's settings that keep large tensors from being handed back to the kernel, see ``train.pages``.
ALLOCATOR_SETTINGS = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "MALLOC_TOP_PAD_")


def provenance(device: Any) -> dict[str, Any]:
    """What belongs to every record measured on ``device`` (a torch.device) by this process."""
    import torch

    import snnkit

    found = {package: _version(package) for package in PACKAGES} | {"snnkit": snnkit.__version__}
    versions = {package: version for package, version in found.items() if version}
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
        "allocator": {name: os.environ[name] for name in ALLOCATOR_SETTINGS if name in os.environ},
    }


def commit(folder: Path) -> dict[str, Any] | None:
    """The git commit that ``folder`` is checked out from, and whether its code differs; None outside a checkout."""

    def git(*words: str) -> list[str]:
        return _lines("git", "-C", str(folder), *words)

    # A package that is installed inside somebody else's repository is none of its files.
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
        with open("/proc/cpuinfo") as info:
            return next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _device(device: Any) -> dict[str, Any]:
    if device.type != "cuda":
        return {"type": device.type, "name": processor()}
    import torch

    properties = torch.cuda.get_device_properties(device)
    driver = _lines("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return {
        "type": "cuda",
        "name": properties.name,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "driver": driver[0].strip() if driver else None,
        "memory_bytes": properties.total_memory,
        "l2_bytes": getattr(properties, "L2_cache_size", None),
    }


def _version(package: str) -> str | None:
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
