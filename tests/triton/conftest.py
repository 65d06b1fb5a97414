"""Triton on a machine without a GPU: its interpreter, its compiler, and a cache of what it has compiled."""

import os
from pathlib import Path

import pytest

pytest.importorskip("triton", reason="Triton is not installed: it is made for Linux")

os.environ.setdefault("TRITON_CACHE_DIR", str(Path(__file__).parents[2] / ".cache" / "triton"))


@pytest.fixture
def interpreter(monkeypatch):
    """Kernels run on the CPU."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
