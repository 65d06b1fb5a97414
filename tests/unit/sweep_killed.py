"""A program: sweeps 24 runs without kernels, and kills itself at the moments given. Prints how each child ended.

    python -m tests.unit.sweep_killed FOLDER N N N ...

For each N a child process does the sweep, and is killed by SIGKILL at its N-th replacement of a file: just after it, or
for a negative N just before it. A last child does the rest.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

from snnkit.lab import sweep
from snnkit.lab.tools import runner
from snnkit.measure import machine

from .sweep_cases import Fake, asked, without_kernels

MANIFEST = {"parameters": {"A": [1, 2, 3, 13], "RATE": [0.5, 1.0]}, "seeds": [0, 1, 2], "workers": 3}


def main(folder: Path, moments: list[int]) -> None:
    keys = asked(folder, **MANIFEST)
    sweep.load(keys)  # brings nbformat, and this PyTorch, once for all children
    machine.describe()
    for moment in [*moments, 0]:
        child = os.fork()
        if child == 0:
            kill_at(moment)
            runner.Kernels = without_kernels(Fake(0.005, folder / "begun"))
            sweep.run(keys, quiet=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        ended = os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        print(moment, ended, flush=True)


def kill_at(moment: int) -> None:
    replace, lock, calls = os.replace, threading.Lock(), 0

    def counted(*arguments) -> None:
        nonlocal calls
        with lock:
            calls += 1
            mine = calls == abs(moment)
        if not mine or moment > 0:
            replace(*arguments)
        if mine:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = counted


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(word) for word in sys.argv[2:]])
