"""Executes notebooks headless, from their sources, and reports the result of each."""

from __future__ import annotations

import contextlib
import copy
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from snnkit import checks, files
from snnkit.lab.tools import pair, parameters
from snnkit.lab.tools.project import Project, ProjectError

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from snnkit.lab.tools.notebook_client import Problem, WatchedClient

T = TypeVar("T")
R = TypeVar("R")

# These name files and folders from where the command was given, and a kernel runs elsewhere.
PATH_VARIABLES = ("SNNKIT_DATA", "SNNKIT_PROGRESS", "TORCHINDUCTOR_CACHE_DIR")
INJECTED = "injected-parameters"  # tag of the cell that sets parameters, as papermill calls it
# Seconds between looks. Once polars was used, its own handler of SIGINT lets the system go on with what it interrupts:
# a wait without end would never see Ctrl-C.
_LOOK = 0.2


@dataclass(frozen=True)
class Result:
    """The result of one notebook. `cell` counts from 0 in the notebook as `build` writes it."""

    name: str
    status: str  # "ok" or "failed"
    seconds: float
    peak_mb: float  # largest resident memory of the kernel and its children, in 10⁶ bytes
    cell: int | None = None
    error: str | None = None  # one line with the exception's name
    source: str | None = None  # of the cell that failed
    traceback: str | None = None

    def __str__(self) -> str:
        where = "" if self.cell is None else f", cell {self.cell}"
        return f"{self.name}{where}: {self.error or self.status}"


@dataclass(frozen=True)
class Job:
    """A notebook that is ready to run: everything that can be refused has been checked."""

    name: str
    notebook: NotebookNode
    parameters: dict[str, Any]


def prepare(
    project: Project, names: Sequence[str], wanted: Mapping[str, Any], *, full: bool = False, solve: bool = False
) -> list[Job]:
    """Jobs for the notebooks `names`; nothing is executed.

    `wanted`: values by parameter name, a string standing for what it spells; each must exist in every notebook chosen.
    `full` means QUICK=False, `solve` SOLVE=True, where `wanted` does not have them; else QUICK is True. Raises
    ParameterError, ProjectError.
    """
    switches: dict[str, Any] = {**({"QUICK": False} if full else {}), **({"SOLVE": True} if solve else {})}
    jobs = []
    for name in names:
        notebook = pair.notebook(project, name)
        known = parameters.declared(notebook, name)
        values = parameters.resolve({**switches, **wanted}, known, name)
        if "QUICK" in known:
            values.setdefault("QUICK", True)
        jobs.append(Job(name, notebook, values))
    return jobs


def output_folder(project: Project, folder: str | Path) -> Path:
    """`folder`, made if need be and proved writable. Raises ProjectError, also where the pairs would be overwritten."""
    out = Path(folder).resolve()
    if (out / "notebooks").resolve() == project.notebooks.resolve():
        raise ProjectError(f"the output folder may not be {out}: executed copies would overwrite the notebooks there")
    try:
        for part in (out / "notebooks", out / "html"):
            part.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=part).close()
    except OSError as error:
        raise ProjectError(f"can't write to the output folder {out}: {error.strerror or error}") from None
    return out


@contextlib.contextmanager
def only_run(out: Path) -> Iterator[None]:
    """Hold an output folder for the block. Raises ProjectError where another run does: its report would be lost."""
    with contextlib.ExitStack() as stack:
        mine = True
        with contextlib.suppress(OSError):  # some network file systems have no locks
            mine = stack.enter_context(files.locked(out / ".lock", wait=False))
        if not mine:
            raise ProjectError(
                f"another run writes into {out}: wait until it has ended, or take another folder by --out"
            )
        yield


def execute_all(
    project: Project,
    jobs: Sequence[Job],
    out: Path,
    *,
    limit: float | None = None,
    at_once: int = 1,
    on_result: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Run `jobs`, `at_once` at a time; the results are in the order of `jobs`, `on_result` gets each as it ends.

    `limit`: seconds for each notebook. On KeyboardInterrupt the kernels are ended and the exception goes on.
    """
    kernels = Kernels(project.notebooks, out, at_once=at_once, limit=limit)
    return in_parallel(kernels.execute, jobs, at_once, on_result, kernels.stop)


def in_parallel(
    function: Callable[[T], R],
    items: Iterable[T],
    at_once: int,
    on_result: Callable[[R], None],
    stop: Callable[[], None],
) -> list[R]:
    """Call `function` for each of `items`, `at_once` at a time, and `on_result` with each result, in this thread.

    The results are in the order of `items`. On any exception, KeyboardInterrupt included, `stop` is called, which must
    end the calls that are under way.
    """
    with ThreadPoolExecutor(checks.integer("at_once", at_once, at_least=1)) as pool:
        futures = [pool.submit(function, item) for item in items]
        waiting = set(futures)
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=_LOOK, return_when=FIRST_COMPLETED)
                for future in done:
                    on_result(future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
            raise
    return [future.result() for future in futures]


class Kernels:
    """Executes jobs, each in a kernel of its own that works in `cwd`, from up to `at_once` threads."""

    def __init__(self, cwd: Path, out: Path, *, at_once: int = 1, limit: float | None = None) -> None:
        self.cwd, self.out, self.limit = cwd, out, limit
        self.environment = environment(at_once)
        self._clients: set[WatchedClient] = set()
        self.stopping = False

    def execute(self, job: Job, on_message: Callable[[dict[str, Any]], None] = lambda message: None) -> Result:
        """Run one job and write its executed copy to `out/notebooks/NAME.ipynb`.

        A failure is a Result, no exception. Raises Stopped after `stop`.
        """
        import nbformat
        from nbclient.exceptions import CellExecutionError

        from snnkit.lab.tools.notebook_client import Stopped, WatchedClient

        notebook, injected = _with_parameters(job)
        client = WatchedClient(notebook, self.environment, str(self.cwd), self.limit, on_message)
        self._clients.add(client)
        started = time.perf_counter()
        problem: Problem | None = None
        try:
            if not self.stopping:
                client.run()
        except Exception as error:  # this notebook's failure, and no other's
            if not (isinstance(error, CellExecutionError) and client.problems):  # there it is with its traceback
                problem = _explained(client, error)
        finally:
            self._clients.discard(client)
        seconds = round(time.perf_counter() - started, 2)
        if self.stopping:
            raise Stopped
        files.write_text(self.out / "notebooks" / f"{job.name}.ipynb", nbformat.writes(notebook) + "\n")
        peak = round(client.peak_bytes / 1e6, 1)
        problem = problem or next(iter(client.problems), None)
        if problem is None:
            return Result(job.name, "ok", seconds, peak)
        cell = problem.cell
        if cell is not None and injected is not None and cell >= injected:
            cell -= 1
        source = None if cell is None else job.notebook.cells[cell].source
        return Result(job.name, "failed", seconds, peak, cell, str(problem), source, problem.traceback)

    def stop(self) -> None:
        """End all kernels."""
        self.stopping = True
        for client in list(self._clients):
            client.stop()


def environment(at_once: int) -> dict[str, str]:
    """For the kernels: headless, unbuffered, and the cores shared out where several run at once."""
    environment = {**os.environ, "SNNKIT_HEADLESS": "1", "PYTHONUNBUFFERED": "1", "PYDEVD_DISABLE_FILE_VALIDATION": "1"}
    for name in PATH_VARIABLES:
        if environment.get(name):
            # An unknown user after ~ stays as it is, for the reader of the variable to complain of.
            environment[name] = os.path.abspath(os.path.expanduser(environment[name]))
    environment.pop("MPLBACKEND", None)  # the kernel's own draws into the notebook
    # Idle OpenMP threads spin by default and take the cores from those that work: 53 s became 16 s on a busy machine.
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if at_once > 1:
        from snnkit.measure.machine import cores  # brings PyTorch

        environment.setdefault("OMP_NUM_THREADS", str(max(1, cores() // at_once)))
    return environment


def _with_parameters(job: Job) -> tuple[NotebookNode, int | None]:
    """A copy of the notebook with a cell that sets the parameters, after the one that declares them, and its index."""
    import nbformat

    notebook = copy.deepcopy(job.notebook)
    if not job.parameters:
        return notebook, None
    at = 1 + next(i for i, cell in enumerate(notebook.cells) if "parameters" in cell.metadata.get("tags", []))
    source = "\n".join(parameters.assignment(name, value) for name, value in job.parameters.items())
    notebook.cells.insert(at, nbformat.v4.new_code_cell(source, id=INJECTED, metadata={"tags": [INJECTED]}))
    return notebook, at


def _explained(client: WatchedClient, error: Exception) -> Problem:
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    from snnkit.lab.tools.notebook_client import Problem

    if isinstance(error, CellTimeoutError):
        return Problem(client.cell, "TimeoutError", f"the notebook took longer than {client.limit:g} s")
    why = " (out of memory, or a crash in native code)" if isinstance(error, DeadKernelError) else ""
    return Problem(client.cell, type(error).__name__, f"{error}{why}", client.last_words)


checks.all_arguments(__name__)
