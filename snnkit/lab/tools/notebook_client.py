"""Executes a notebook in a kernel of its own, sees each of its messages, measures its memory and can stop it.

nbclient passes a notebook whose widgets swallow exceptions; this client notes every exception that a kernel publishes.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import psutil
import zmq
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode

from snnkit import checks

KERNEL = "python3"
MEMORY_EVERY = 0.25  # seconds

_LONGEST = 300  # characters of an error in one line
_LOG = 4000  # characters of what a kernel wrote
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Problem:
    """An exception in cell `cell` (None: in a widget that belongs to no known cell)."""

    cell: int | None
    name: str
    message: str
    traceback: str = field(default="", compare=False)

    def __str__(self) -> str:
        """One line, cut where it is long."""
        line = " ".join(f"{self.name}: {self.message}".split()).removesuffix(":")
        return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"


def problem_of(cell: int | None, content: Mapping[str, Any]) -> Problem:
    """The Problem for an error output, or the content of an error message."""
    traceback = "\n".join(content.get("traceback") or [])
    return Problem(cell, content.get("ename", "Error"), _plain(str(content.get("evalue", ""))), _plain(traceback))


def errors_in_outputs(outputs: Iterable[Mapping[str, Any]], cell: int | None = None) -> list[Problem]:
    """Errors among `outputs`: error outputs, and tracebacks written to stderr (by threads, callbacks, loggers)."""
    problems = []
    stderr = ""
    for output in outputs:
        if output.get("output_type") == "error":
            problems.append(problem_of(cell, output))
        elif output.get("output_type") == "stream" and output.get("name") == "stderr":
            stderr += "".join(output.get("text", ""))  # a string, or a list of lines; a traceback may come in pieces
    if _TRACEBACK in stderr:
        text = _plain(stderr[stderr.index(_TRACEBACK) :])
        raised = re.search(r"^([A-Za-z_][\w.]*)(?:: (.*))?$", text, re.MULTILINE)
        name, message = raised.groups() if raised else ("Traceback", "")
        problems.append(Problem(cell, name, message or "", text))
    return problems


def errors_in(notebook: Mapping[str, Any], widgets: Iterable[Mapping[str, Any]] = ()) -> list[Problem]:
    """Errors anywhere in an executed notebook, and in the states of its widgets (OutputModel has `outputs`)."""
    problems = []
    checks.mapping("notebook", notebook, "cells")
    for index, cell in enumerate(notebook["cells"]):
        problems += errors_in_outputs(cell.get("outputs", ()), index)
    for state in widgets:
        checks.mapping("each of widgets", state, "a widget's state")
        problems += errors_in_outputs(state.get("outputs") or ())
    return problems


class Stopped(Exception):
    """The run was cancelled."""


class WatchedClient(NotebookClient):
    """One execution of a notebook, by the interpreter that runs this, whatever kernels the user has installed.

    Args:
        notebook: executed in place.
        limit: seconds for the whole notebook, None for no limit.
        on_message: gets each message of the kernel.

    Attributes:
        cell: index of the cell that runs.
        problems: exceptions, each kind once.
        peak_bytes: largest resident memory of the kernel and its children.
        last_words: the end of what the kernel process itself wrote, such as the reason of a crash.
    """

    def __init__(
        self,
        notebook: NotebookNode,
        environment: dict[str, str],
        cwd: str,
        limit: float | None = None,
        on_message: Callable[[dict[str, Any]], None] = lambda message: None,
    ) -> None:
        # With no folder to look in, `python3` is ipykernel's own spec for `sys.executable`.
        manager = AsyncKernelManager(kernel_name=KERNEL, kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))
        super().__init__(notebook, km=manager, kernel_name=KERNEL, timeout_func=self._remaining)
        self.environment, self.cwd, self.limit, self.on_message = environment, cwd, limit, on_message
        self.cell: int | None = None
        self.problems: list[Problem] = []
        self.peak_bytes = 0
        self.last_words = ""
        self._deadline = float("inf")
        self._pid: int | None = None
        self._stopped = threading.Event()

    def run(self) -> None:
        """Execute all cells. Raises Stopped, or as nbclient does: for a cell, the time limit, a dead kernel."""
        with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory(prefix="snnkit-") as folder:
            if os.name == "posix":  # of two kernels that start at once, one may take the port that the other has chosen
                self.km.transport, self.km.ip = "ipc", f"{folder}/kernel"  # type: ignore[union-attr]
            try:
                with self.setup_kernel(env=self.environment, cwd=self.cwd, stdout=log, stderr=log, cleanup_kc=True):
                    self._execute_cells()
            finally:
                for problem in errors_in(self.nb, self.widget_state.values()):
                    self._note(problem)
                log.seek(0)
                self.last_words = log.read().decode("utf-8", "replace")[-_LOG:]

    def stop(self) -> None:
        """End the kernel and what it started; ``run`` then fails. Safe to call from another thread."""
        self._stopped.set()
        for process in _tree(self._pid):
            with contextlib.suppress(psutil.Error):
                process.kill()

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        self.on_message(msg)
        if msg["msg_type"] == "error":
            self._note(problem_of(cell_index, msg["content"]))
        try:
            return super().process_message(msg, cell, cell_index)
        finally:
            # nbclient answers an Output widget on the socket that the reply to the cell comes from, and ZeroMQ tells of
            # a reply once: if it came before that answer, only a look at the socket's events finds it.
            self.kc.shell_channel.socket.get(zmq.EVENTS)  # type: ignore[union-attr]

    def _follow_memory(self, done: threading.Event) -> None:
        """Update ``peak_bytes`` until ``done`` is set."""
        while True:
            resident = 0
            for process in _tree(self._pid):
                with contextlib.suppress(psutil.Error):
                    resident += process.memory_info().rss
            self.peak_bytes = max(self.peak_bytes, resident)
            if done.is_set():
                return
            done.wait(MEMORY_EVERY)

    def _execute_cells(self) -> None:
        self._pid = getattr(getattr(self.km, "provisioner", None), "pid", None)
        if self.limit is not None:
            self._deadline = time.monotonic() + self.limit
        done = threading.Event()
        follower = threading.Thread(target=self._follow_memory, args=(done,), daemon=True)
        follower.start()
        try:
            for index, cell in enumerate(self.nb.cells):
                if self._stopped.is_set():
                    raise Stopped
                self.cell = index
                self.execute_cell(cell, index)
        finally:
            done.set()
            follower.join()

    def _remaining(self, _cell: Any = None) -> float | None:
        """Seconds that are left (0 would mean no limit to nbclient)."""
        return None if self.limit is None else max(0.01, self._deadline - time.monotonic())

    def _note(self, problem: Problem) -> None:
        if all((problem.name, problem.message) != (other.name, other.message) for other in self.problems):
            self.problems.append(problem)


def _plain(text: str) -> str:
    """``text`` without terminal colours."""
    return re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)


def _tree(pid: int | None) -> list[psutil.Process]:
    if pid is None:
        return []
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


checks.all_arguments(__name__)
