"""Where this code runs: a notebook with a kernel, Colab, or a headless run."""

from __future__ import annotations

import os
import sys


def headless() -> bool:
    """Whether nobody is looking: the notebook runner sets SNNKIT_HEADLESS=1. Then nothing live is built."""
    return os.environ.get("SNNKIT_HEADLESS", "") not in ("", "0")


def on_colab() -> bool:
    return "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules


def in_notebook() -> bool:
    """Whether an IPython kernel runs this, so that rich output reaches someone."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


def live() -> bool:
    """Whether widgets make sense here: a notebook, a person in front of it, and ipywidgets installed."""
    if headless() or not in_notebook():
        return False
    try:
        import ipywidgets  # noqa: F401
    except ImportError:
        return False
    return True
