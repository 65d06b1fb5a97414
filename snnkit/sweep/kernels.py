"""One run of a notebook in a kernel of its own, and no kernel left behind where the sweep is killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import snnkit
from snnkit.tools import runner
from snnkit.tools.papermill_engine import Watch

from .folder import Ended
from .notebook import Notebook
from .plan import Run
from .recording import recorded

# A program; not imported, as that would bring the whole room of training along.
_GUARD = Path(snnkit.__file__).parent / "train" / "guard.py"
_GRACE = 2.0  # seconds that kernels have to end by themselves
_KILLED_TOO = 1.0  # seconds


class Guard:
    """A small process that ends the kernels if this one is killed: its pipe closes with us, however we go.

    (A kernel looks after its parent by itself once a second, but not after what it has started, and not while it is in
    code that holds Python's lock.)
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        if os.name == "posix":
            command = [sys.executable, "-I", "-S", str(_GUARD), str(_GRACE)]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def tell(self, number: int) -> None:
        """A process group that has begun, or with a minus one that has ended."""
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):  # somebody killed the guard; kernels still look after us themselves
                self._process.stdin.write(f"{number}\n".encode())
                self._process.stdin.flush()

    def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
            self._process.wait()


class SweepWatch(Watch):
    """A Watch that tells a guard of the kernel, and keeps what the notebook records.

    The records are taken from the messages as they come: an output that is cleared later, or that goes into a widget,
    is not in the executed notebook.
    """

    def __init__(self, environment: dict[str, str], cwd: str, limit: float | None, guard: Guard) -> None:
        super().__init__(environment, cwd, limit)
        self.guard = guard
        self.metrics: dict[str, Any] = {}
        self.group: int | None = None

    def begin(self, pid: int | None) -> None:
        if pid is not None:
            self.group = pid  # a kernel leads a process group of its own
            self.guard.tell(pid)
        super().begin(pid)

    def see(self, message: dict[str, Any], cell: int) -> None:
        super().see(message, cell)
        if message["msg_type"] in ("display_data", "update_display_data", "execute_result"):
            self.metrics.update(recorded(message["content"].get("data", {})))


class Stopped(Exception):
    """The sweep ends: what was under way doesn't count."""


class Kernels:
    """Runs of one notebook; from several threads at once."""

    def __init__(self, notebook: Notebook, out: Path, *, at_once: int, limit: float | None) -> None:
        self.notebook, self.out, self.limit = notebook, out, limit
        self.environment = runner.environment(at_once)
        self._guard = Guard()
        self._watches: set[SweepWatch] = set()
        self._stopping = False

    def execute(self, run: Run) -> Ended:
        """Run the notebook with the parameters of `run`; a failure is a result, no exception. Raises Stopped."""
        watch = SweepWatch(self.environment, str(self.notebook.path.parent), self.limit, self._guard)
        self._watches.add(watch)
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        try:
            if self._stopping:
                raise Stopped
            job = runner.Job(run.id, self.notebook.node, dict(run.parameters))
            result = runner.execute(job, self.out, watch)
        finally:
            self._watches.discard(watch)
            if watch.group is not None:
                self._guard.tell(-watch.group)
        if (result.error or "").startswith("DeadKernelError"):
            # Where a whole job is killed, kernels may go first; wait whether this process is about to go as well.
            time.sleep(_KILLED_TOO)
        if self._stopping:
            raise Stopped
        problem = {"cell": result.cell, "error": result.error, "source": result.source, "traceback": result.traceback}
        clash = sorted(watch.metrics.keys() & run.parameters.keys())
        if clash and result.status == "ok":
            problem["error"] = f"ValueError: {clash[0]} was recorded, which is the name of a parameter"
        return Ended(
            run=run.id,
            parameters=dict(run.parameters),
            status="failed" if problem["error"] else "ok",
            metrics={name: value for name, value in watch.metrics.items() if name not in clash},
            seconds=result.seconds,
            peak_mb=result.peak_mb,
            started=started,
            **problem,
        )

    def stop(self) -> None:
        """End all that runs; `execute` then raises Stopped."""
        self._stopping = True
        for watch in list(self._watches):
            watch.stop()


@contextlib.contextmanager
def kernels(notebook: Notebook, out: Path, *, at_once: int, limit: float | None) -> Iterator[Kernels]:
    """Kernels for the block, and none of them after it."""
    made = Kernels(notebook, out, at_once=at_once, limit=limit)
    try:
        yield made
    finally:
        made.stop()
        made._guard.close()
