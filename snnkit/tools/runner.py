"""Executes notebooks headless, straight from their sources, and says for each how it went."""

from __future__ import annotations

import logging
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snnkit import files
from snnkit.tools import pair, parameters
from snnkit.tools.project import Project, ProjectError

if TYPE_CHECKING:
    from nbformat import NotebookNode

    from snnkit.tools.papermill_engine import Problem, Watch


# These name files and folders from where the command was given, and a kernel runs elsewhere.
PATH_VARIABLES = ("SNNKIT_DATA", "SNNKIT_PROGRESS", "TORCHINDUCTOR_CACHE_DIR")


@dataclass(frozen=True)
class Result:
    """How one notebook went. `cell` counts from 0 in the notebook as `build` writes it."""

    name: str
    status: str  # "ok" or "failed"
    seconds: float
    peak_mb: float  # largest resident memory of the kernel and its children, in MiB
    cell: int | None = None
    error: str | None = None  # one line with the exception's name
    source: str | None = None  # of the cell that failed
    traceback: str | None = None


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
    `full` means QUICK=False, `solve` SOLVE=True; without `full` QUICK is True. Raises ParameterError, ProjectError.
    """
    switches: dict[str, Any] = {**({"QUICK": False} if full else {}), **({"SOLVE": True} if solve else {})}
    both = sorted(switches.keys() & wanted.keys())
    if both:
        raise parameters.ParameterError(f"parameter {both[0]} is given twice: by --full or --solve, and by name")
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
        for part in (out, out / "notebooks", out / "html"):
            part.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=part):
                pass
    except OSError as error:
        raise ProjectError(f"can't write to the output folder {out}: {error.strerror or error}") from None
    return out


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
    from snnkit.tools.papermill_engine import Watch

    own = environment(at_once)
    watches = {job.name: Watch(own, str(project.notebooks), limit) for job in jobs}
    results: dict[str, Result] = {}
    with ThreadPoolExecutor(at_once) as pool:
        waiting = {pool.submit(execute, job, out, watches[job.name]) for job in jobs}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    result = future.result()
                    results[result.name] = result
                    on_result(result)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for watch in watches.values():
                watch.stop()
            raise
    return [results[job.name] for job in jobs]


def execute(job: Job, out: Path, watch: Watch) -> Result:
    """Run one job and write its executed copy to `out/notebooks/NAME.ipynb`. A failure is a Result, no exception."""
    import papermill
    from papermill.exceptions import PapermillExecutionError

    from snnkit.tools.papermill_engine import KERNEL, register

    logging.getLogger("papermill").setLevel(logging.CRITICAL)  # what it would log is in the result
    started = time.perf_counter()
    raised: Exception | None = None
    try:
        watch.raise_if_stopped()
        papermill.execute_notebook(
            job.notebook,
            None,
            parameters=job.parameters,
            engine_name=register(),
            kernel_name=KERNEL,
            progress_bar=False,
            watch=watch,
        )
    except PapermillExecutionError as error:
        raised = None if watch.problems else error  # the watch has it with its traceback, as a rule
    except Exception as error:  # a dead kernel, a time limit, ...: this notebook's failure, and no other's
        raised = error
    seconds = time.perf_counter() - started

    _save_copy(job, out, watch)
    failure = _failure(job, watch, raised)
    peak = round(watch.peak_bytes / 2**20, 1)
    return Result(job.name, "failed" if failure else "ok", round(seconds, 2), peak, **(failure or {}))


def environment(at_once: int) -> dict[str, str]:
    """For the kernels: headless, unbuffered, and the cores shared out where several run at once."""
    environment = {
        **os.environ,
        "SNNKIT_HEADLESS": "1",
        "PYTHONUNBUFFERED": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }
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


def _failure(job: Job, watch: Watch, raised: Exception | None) -> dict[str, Any] | None:
    """The fields of a Result that say what went wrong; None if nothing did."""
    if raised is not None:
        problem = _explain(watch, raised)
    elif watch.problems:
        problem = watch.problems[0]
    else:
        return None
    cell = _as_built(job, problem.cell)
    source = job.notebook.cells[cell].source if cell is not None else None
    return {"cell": cell, "error": str(problem), "source": source, "traceback": problem.traceback}


def _explain(watch: Watch, raised: Exception) -> Problem:
    from nbclient.exceptions import CellTimeoutError, DeadKernelError

    from snnkit.tools.papermill_engine import Problem

    if isinstance(raised, CellTimeoutError):
        return Problem(watch.cell, "TimeoutError", f"the notebook took longer than {watch.limit:g} s")
    why = str(raised)
    if isinstance(raised, DeadKernelError):
        why += " (out of memory, or a crash in native code)"
    return Problem(watch.cell, type(raised).__name__, why, watch.log)


def _as_built(job: Job, cell: int | None) -> int | None:
    """Index in the notebook as built: papermill puts one cell in, after `parameters`, if it has values to set."""
    if cell is None or not job.parameters:
        return cell
    declared = next(i for i, c in enumerate(job.notebook.cells) if "parameters" in c.metadata.get("tags", []))
    return cell - 1 if cell > declared else cell


def _save_copy(job: Job, out: Path, watch: Watch) -> None:
    import nbformat

    if watch.notebook is not None:
        files.write_text(out / "notebooks" / f"{job.name}.ipynb", nbformat.writes(watch.notebook) + "\n")
