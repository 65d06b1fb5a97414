"""Runs a sweep: finished runs are skipped, the others run in kernels, and each result is written at once."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from snnkit import checks
from snnkit.lab.sweep import manifest as manifests
from snnkit.lab.sweep.manifest import Manifest, Run
from snnkit.lab.sweep.recorded_values import recorded, show_value
from snnkit.lab.sweep.results import Folder, RunResult
from snnkit.lab.tools import runner

if TYPE_CHECKING:
    import polars

_KILLED_TOO = 1.0  # seconds
_LOOK = 1.0  # seconds between looks at the runs of other processes


@checks.arguments
def run(
    sweep: Manifest | str | os.PathLike[str] | Mapping[str, Any],
    *,
    workers: int | None = None,
    retry: bool = False,
    quiet: bool = False,
) -> polars.DataFrame:
    """Execute the unfinished runs of ``sweep``; return the table of all runs of its folder.

    Each run is an execution of the notebook in a kernel of its own, ``workers`` at a time, which share the cores. It is
    on disk as soon as it has ended, so a sweep that was killed or interrupted continues. A run that fails is listed
    with its error and does not stop the others; ``failures`` has the tracebacks. Several processes may run the same
    sweep, on one machine or on several with a shared folder: one of them executes each run. All of them stay until all
    runs have ended, and take over those of a process that was killed.

    Args:
        sweep: a manifest, or what ``load`` takes.
        workers: instead of the manifest's.
        retry: repeat the runs that failed before.
        quiet: print no line for each run that ends.

    Returns:
        A row for each run: run (its id), status ("ok" or "failed"), the parameters that were set, what the notebook
        recorded, seconds, peak_mb and error.

    Raises:
        ManifestError: as of ``load``.
        SweepError: the folder holds other files, or a sweep with another notebook or other fixed settings.
        KeyboardInterrupt: on Ctrl-C, after kernels have been ended and the table was written.
    """
    manifest = sweep if isinstance(sweep, Manifest) else manifests.load(sweep)
    at_once = manifest.workers if workers is None else checks.integer("workers", workers, at_least=1)
    folder = Folder(manifest.out)
    with folder.opened(manifest):
        before = folder.results()
        ended = {name for name, result in before.items() if result.status == "ok" or not retry}
        todo = [one for one in manifest.runs if one.id not in ended]
        if not quiet:
            failed = sum(before[one.id].status != "ok" for one in manifest.runs if one.id in ended)
            note = f" ({failed} of them failed, and are done again only with retry)" if failed else ""
            print(f"{len(todo)} runs to do, {len(manifest.runs) - len(todo)} done before{note}", flush=True)
        try:
            if todo:
                _execute(manifest, folder, todo, before, min(at_once, len(todo)), quiet)
        finally:
            table = folder.write_table()
        return table


def _execute(
    manifest: Manifest, folder: Folder, todo: list[Run], before: Mapping[str, RunResult], at_once: int, quiet: bool
) -> None:
    kernels = runner.Kernels(manifest.notebook.path.parent, manifest.out, at_once=at_once, limit=manifest.seconds)
    done: set[str] = set()  # here or by another process
    untold: set[str] = set()  # of these, those whose line comes later

    def one(run: Run) -> RunResult | None:
        with folder.claimed(run.id) as mine:
            if not mine:
                return None  # another process does it
            if folder.result(run.id) == before.get(run.id):
                ended = execute(run, manifest, kernels)
                folder.write(ended)  # at once: while a table is written, a kill would take what waits for its turn
                untold.add(run.id)
                done.add(run.id)
                return ended
            done.add(run.id)
            return None

    def note(ended: RunResult | None) -> None:
        if ended is None:
            return
        folder.write_table()
        untold.discard(ended.run)
        if not quiet:
            varied = {name: value for name, value in ended.parameters.items() if name not in manifest.fixed}
            given = "  ".join(f"{name}={show_value(value)}" for name, value in varied.items())
            metrics = "  ".join(f"{name} {show_value(value)}" for name, value in ended.metrics.items())
            place = f"{len(done - untold)}/{len(todo)}  {ended.status:<6}  {ended.seconds:6.1f} s"
            print(f"{place}  {given}  {ended.error or metrics}", flush=True)

    left, reported = todo, quiet
    while left:
        runner.in_parallel(one, left, at_once, note, kernels.stop)
        left = [run for run in left if run.id not in done]
        if left:  # under way in another process, which may be killed: then its lock is free
            if not reported:
                print(f"waiting for other processes, which do the last {len(left)} of {len(todo)} runs", flush=True)
            reported = True
            time.sleep(_LOOK)


def execute(run: Run, manifest: Manifest, kernels: runner.Kernels) -> RunResult:
    """Run the notebook with the parameters of ``run``; a failure is a result, no exception."""
    from snnkit.lab.tools.notebook_client import Stopped

    metrics: dict[str, Any] = {}

    def listen(message: dict[str, Any]) -> None:
        # From the messages, as an output that is cleared, or goes into a widget, is not in the executed notebook.
        if message["msg_type"] in ("display_data", "update_display_data", "execute_result"):
            metrics.update(recorded(message["content"].get("data", {})))

    result = kernels.execute(runner.Job(run.id, manifest.notebook.node, dict(run.parameters)), listen)
    error = result.error
    if (error or "").startswith("DeadKernelError"):
        # Where a whole job is killed, kernels may go first; wait whether this process is about to go as well.
        time.sleep(_KILLED_TOO)
        if kernels.stopping:  # the signal that ends this process reached the kernel, too: not a failure of the run
            raise Stopped
    if clash := sorted(metrics.keys() & run.parameters.keys()):
        error = error or f"ValueError: {clash[0]} was recorded, which is the name of a parameter"
    return RunResult(
        run=run.id,
        parameters=dict(run.parameters),
        status="failed" if error else "ok",
        metrics={name: value for name, value in metrics.items() if name not in clash},
        seconds=result.seconds,
        peak_mb=result.peak_mb,
        cell=result.cell,
        error=error,
        traceback=result.traceback,
    )
