"""The kit as a newcomer has it: a clone of the last commit, set up by its own Makefile, with nothing in any cache."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from .conftest import ROOT


class FreshClone:
    """Clones and sets up in ``folder``, which must be empty.

    Attributes:
        root: the clone.
        python: of its environment.
        empty: environment variables that lead all caches to places where nothing is.
        seconds: that cloning and ``make setup`` took.

    Raises:
        subprocess.CalledProcessError: one of the two failed; what it said is on the terminal.
    """

    def __init__(self, folder: Path) -> None:
        self.root = folder / "snnkit"
        self.python = self.root / ".venv" / "bin" / "python"
        home, temporary = folder / "home", folder / "tmp"
        home.mkdir()
        temporary.mkdir()
        # The home holds those of snnkit's kernels and of matplotlib, the folder for temporary files Inductor's.
        self.empty = {"HOME": str(home), "TMPDIR": str(temporary), "XDG_CACHE_HOME": str(home / ".cache")}
        began = time.perf_counter()
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(self.root)], check=True)
        base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
        clean = {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
        subprocess.run(["make", "--silent", "setup", f"PYTHON={base}"], cwd=self.root, env=clean, check=True)
        self.seconds = time.perf_counter() - began
