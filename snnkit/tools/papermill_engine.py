"""A papermill engine that watches: it sees each message of the kernel, measures its memory and can stop it.

papermill and nbclient pass a notebook whose widgets swallow exceptions (`interact`, `with Output()`), and save the
widgets' JavaScript (5 MB for one plotly FigureWidget). This engine notes every exception that the kernel publishes,
wherever a front end would draw it, and keeps the states of widgets in memory only.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any

import psutil
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import Engine, NotebookExecutionManager, papermill_engines
from traitlets import Any as AnyTrait

ENGINE = "snnkit"
KERNEL = "python3"
MEMORY_EVERY = 0.25  # seconds
MIB = 1024 * 1024
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Problem:
    """An exception in cell `cell` (None: in a widget that belongs to no known cell)."""

    cell: int | None
    name: str
    message: str
    traceback: str = field(default="", compare=False)

    def __str__(self) -> str:
        return short(f"{self.name}: {self.message}" if self.message else self.name)


def short(text: str, limit: int = 300) -> str:
    """`text` on one line, without colour codes, at most `limit` characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def plain(text: str) -> str:
    """`text` without terminal colours."""
    return _ANSI.sub("", text)


def problem_of(cell: int | None, content: Mapping[str, Any]) -> Problem:
    """The Problem for an error output, or the content of an error message."""
    lines = content.get("traceback") or []
    return Problem(cell, content.get("ename", "Error"), plain(str(content.get("evalue", ""))), plain("\n".join(lines)))


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
        last = plain(stderr[stderr.index(_TRACEBACK) :])
        raised = re.search(r"^([A-Za-z_][\w.]*)(?:: (.*))?$", last, re.MULTILINE)
        name, message = raised.groups() if raised else ("Traceback", "")
        problems.append(Problem(cell, name, message or "", last))
    return problems


def errors_in_widgets(states: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """Errors among the outputs that widgets hold: `states` are the states of the models (OutputModel has `outputs`)."""
    problems = []
    for state in states:
        problems += errors_in_outputs(state.get("outputs") or ())
    return problems


def errors_in_notebook(notebook: Mapping[str, Any]) -> list[Problem]:
    """Errors anywhere in an executed notebook: its outputs and, where they were saved, its widgets."""
    problems = []
    for index, cell in enumerate(notebook["cells"]):
        problems += errors_in_outputs(cell.get("outputs", ()), index)
    saved = notebook["metadata"].get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    return problems + errors_in_widgets(model.get("state", {}) for model in saved.values())


class Stopped(Exception):
    """The run was cancelled."""


class Watch:
    """What is known of one run while it goes on, and after it.

    `limit`: seconds for the whole notebook, None for no limit. `environment`, `cwd`: of the kernel.
    `on_message` gets each message of the kernel.
    """

    def __init__(
        self,
        environment: dict[str, str],
        cwd: str,
        limit: float | None = None,
        on_message: Callable[[dict[str, Any]], None] = lambda message: None,
    ) -> None:
        self.environment = environment
        self.cwd = cwd
        self.limit = limit
        self.on_message = on_message
        self.notebook: Any = None  # as far as it has been executed
        self.cell: int | None = None  # index of the cell that runs, as papermill counts
        self.problems: list[Problem] = []
        self.peak_bytes = 0
        self.log = ""  # what the kernel process itself wrote: reasons of a crash
        self._deadline = float("inf")
        self._pid: int | None = None
        self._stopped = threading.Event()

    def begin(self, pid: int | None) -> None:
        """The kernel is there, as process `pid`, and the clock of `limit` starts."""
        self._pid = pid
        self._deadline = time.monotonic() + self.limit if self.limit else float("inf")
        self.raise_if_stopped()

    def remaining(self, _cell: Any = None) -> float | None:
        """Seconds that are left, for nbclient's `timeout_func` (0 would mean no limit there)."""
        return max(0.01, self._deadline - time.monotonic()) if self.limit else None

    def stop(self) -> None:
        """End the kernel and what it started; the run then fails with Stopped. Safe to call from another thread."""
        self._stopped.set()
        for process in _tree(self._pid):
            try:
                process.kill()
            except psutil.Error:
                continue

    def raise_if_stopped(self) -> None:
        if self._stopped.is_set():
            raise Stopped

    def follow_memory(self, done: threading.Event) -> None:
        """Keep `peak_bytes` true for the kernel and its children until `done` is set."""
        ended = False
        while True:
            resident = 0
            for process in _tree(self._pid):
                try:
                    resident += process.memory_info().rss
                except psutil.Error:
                    continue
            self.peak_bytes = max(self.peak_bytes, resident, _high_water_mark(self._pid))
            if ended:
                return
            ended = done.wait(MEMORY_EVERY)  # and once more after the end: the peak may be in the last moments

    def see(self, message: dict[str, Any], cell: int) -> None:
        """Note the exception that a message of the kernel tells of, if it does."""
        self.on_message(message)
        if message["msg_type"] == "error":
            self._note(problem_of(cell, message["content"]))

    def finish(self, widget_states: Iterable[dict[str, Any]]) -> None:
        """Look through the outputs and widgets as they are at the end."""
        for problem in (*errors_in_notebook(self.notebook), *errors_in_widgets(widget_states)):
            self._note(problem)

    def _note(self, problem: Problem) -> None:
        if all((problem.name, problem.message) != (other.name, other.message) for other in self.problems):
            self.problems.append(problem)


class WatchedClient(PapermillNotebookClient):
    watch: Watch = AnyTrait()  # type: ignore[assignment]

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        self.watch.see(msg, cell_index)
        return super().process_message(msg, cell, cell_index)

    def papermill_execute_cells(self) -> None:
        self.watch.begin(getattr(getattr(self.km, "provisioner", None), "pid", None))
        done = threading.Event()
        follower = threading.Thread(target=self.watch.follow_memory, args=(done,), daemon=True)
        follower.start()
        try:
            super().papermill_execute_cells()
        finally:
            done.set()
            follower.join()

    def execute_cell(self, cell: Any, cell_index: int, *args: Any, **kwargs: Any) -> Any:
        self.watch.raise_if_stopped()
        self.watch.cell = cell_index
        return super().execute_cell(cell, cell_index, *args, **kwargs)

    def set_widgets_metadata(self) -> None:
        """Nothing of the widgets goes into the file. (`store_widget_state=False` breaks nbclient's Output widgets.)"""


class WatchedEngine(Engine):
    """Takes one more keyword than papermill's own engine: `watch`, a Watch."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: NotebookExecutionManager, kernel_name: str, *, watch: Watch, start_timeout: int = 60, **_: Any
    ) -> None:
        watch.notebook = nb_man.nb
        with tempfile.TemporaryFile() as log:
            client = WatchedClient(
                nb_man,
                km=_kernel_manager(),
                watch=watch,
                kernel_name=kernel_name,
                startup_timeout=start_timeout,
                timeout_func=watch.remaining,
            )
            try:
                client.execute(env=watch.environment, cwd=watch.cwd, stdout=log, stderr=log, cleanup_kc=True)
            finally:
                watch.finish(client.widget_state.values())
                watch.log = _tail(log)


def register() -> str:
    """Make the engine known to papermill; returns its name."""
    papermill_engines.register(ENGINE, WatchedEngine)
    return ENGINE


def _kernel_manager() -> AsyncKernelManager:
    """For a kernel in the interpreter that runs this: with no folder to look in, `python3` is ipykernel's own spec for
    `sys.executable`, whatever kernels the user has installed under that name."""
    specs = KernelSpecManager(kernel_dirs=[])
    return AsyncKernelManager(kernel_name=KERNEL, kernel_spec_manager=specs)


def _tree(pid: int | None) -> list[psutil.Process]:
    if pid is None:
        return []
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _high_water_mark(pid: int | None) -> int:
    """Largest resident set that the process has had so far, in bytes; 0 where the system doesn't tell."""
    try:
        with open(f"/proc/{pid}/status") as status:
            line = next(line for line in status if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return 0
    return int(line.split()[1]) * 1024


def _tail(log: IO[bytes], size: int = 4000) -> str:
    end = log.seek(0, os.SEEK_END)
    log.seek(max(0, end - size))
    lines = log.read().decode("utf-8", "replace").splitlines()
    return "\n".join(
        line for line in lines if "running over TCP without encryption" not in line
    )  # on this machine only
