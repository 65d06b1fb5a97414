"""Settings of the C library with which a process keeps its pages, for processes that are about to start."""

from __future__ import annotations

from collections.abc import Mapping

# glibc hands tensors of more than 32 MiB back to the kernel as soon as they are freed, and smaller ones now and then;
# faulting their pages in again takes longer than the arithmetic. Read once, when a process starts.
KEPT = {
    "MALLOC_MMAP_THRESHOLD_": "8589934592",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "MALLOC_TOP_PAD_": "268435456",
}


def kept(environment: Mapping[str, str]) -> dict[str, str]:
    """Those of the settings that ``environment`` does not have: what a user set stays."""
    return {name: value for name, value in KEPT.items() if name not in environment}
