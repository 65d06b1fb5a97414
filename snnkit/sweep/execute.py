"""Runs a sweep: what has ended is skipped, the rest is executed in kernels, and each result is on disk at once."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from snnkit.tools import runner

from . import manifest as manifests
from .manifest import Manifest, ManifestError, Run
from .recorded_values import recorded, show_value
from .results import Folder, RunResult

if TYPE_CHECKING:
    import polars

SHOW = ("lines", "none")
# Seconds between looks. Once polars was used, its own handler of SIGINT lets the system go on with what it interrupts:
# a wait without end would never see Ctrl-C.
_LOOK = 0.2
_KILLED_TOO = 1.0  # seconds


def run(
    sweep: Manifest | str | os.PathLike[str] | Mapping[str, Any],
    *,
    workers: int | None = None,
    retry: bool = False,
    show: str = "lines",
) -> polars.DataFrame:
    """Do the runs of ``sweep`` that have not been done yet; the table of all runs of its folder.

    Each run is an execution of the notebook in a kernel of its own, ``workers`` at a time, which share the cores. It
    is on disk as soon as it has ended: a sweep that was killed, or interrupted, continues where it was. A run that
    fails is listed with its error, and stops nothing; ``failures`` has the tracebacks. Several processes may do the
    same sweep, on one machine or on several with a shared folder: each run is done by one of them.

    Args:
        sweep: a manifest, or what ``load`` takes.
        workers: in place of the manifest's.
        retry: do runs again that have failed before.
        show: "lines" (one for each run that ends) or "none".

    Returns:
        A row for each run: run (its id), status ("ok" or "failed"), the parameters that were set, what the notebook
        recorded, seconds, peak_mb (MiB) and error.

    Raises:
        ManifestError: as of ``load``; ``workers`` or ``show`` is none of the above.
        SweepError: the folder holds something else, or a sweep that began with another notebook or fixed settings.
        KeyboardInterrupt: on Ctrl-C, after kernels have been ended and the table was written.
    """
    manifest = sweep if isinstance(sweep, Manifest) else manifests.load(sweep)
    at_once = manifest.workers if workers is None else manifests.whole("workers", workers)
    if show not in SHOW:
        raise ManifestError(f"show must be one of {', '.join(SHOW)}, but it is {show!r}")
    folder = Folder(manifest.out)
    with folder.opened(manifest):
        before = folder.results()
        todo = [one for one in manifest.runs if one.id not in before or (retry and before[one.id].status != "ok")]
        skipped = [before[one.id] for one in manifest.runs if one.id in before and one not in todo]
        at_once = min(at_once, len(todo))
        progress = _Progress(manifest, len(todo), at_once, quiet=show == "none")
        progress.begin(skipped)
        try:
            if todo:
                _execute(manifest, folder, todo, before, at_once, progress)
        finally:
            table = folder.write_table()
        return table


def _execute(
    manifest: Manifest,
    folder: Folder,
    todo: list[Run],
    before: Mapping[str, RunResult],
    at_once: int,
    progress: _Progress,
) -> None:
    kernels = Kernels(manifest, at_once)

    def one(run: Run) -> RunResult | None:
        with folder.claimed(run.id) as mine:
            if not mine or folder.result(run.id) != before.get(run.id):
                return None  # another process does it, or has done it
            ended = kernels.execute(run)
            folder.write(ended)  # at once: while a table is written, a kill would take what waits for its turn
            return ended

    with ThreadPoolExecutor(at_once) as pool:
        waiting = {pool.submit(one, run) for run in todo}
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=_LOOK, return_when=FIRST_COMPLETED)
                for future in done:
                    progress.add(future.result())
                if done:
                    folder.write_table()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            kernels.stop()
            raise


class _Progress:
    """A line for each run that ends, for terminals, logs and notebooks."""

    def __init__(self, manifest: Manifest, todo: int, at_once: int, *, quiet: bool) -> None:
        self.manifest, self.todo, self.at_once, self.quiet = manifest, todo, at_once, quiet
        self.done, self.seconds = 0, 0.0

    def begin(self, skipped: list[RunResult]) -> None:
        failed = sum(run.status != "ok" for run in skipped)
        before = f", {len(skipped)} done before" if skipped else ""
        before += f" ({failed} of them failed, and are done again only with retry)" if failed else ""
        self._print(f"{self.todo} runs to do{before}{f'; {self.at_once} at a time' if self.todo > 1 else ''}")

    def add(self, run: RunResult | None) -> None:
        self.done += 1
        if run is None:
            return
        self.seconds += run.seconds
        names = self.manifest.varied or tuple(run.parameters)
        given = "  ".join(f"{name}={show_value(run.parameters[name])}" for name in names)
        outcome = "  ".join(f"{name} {show_value(value)}" for name, value in run.metrics.items())
        if run.status != "ok":
            outcome = run.error or "failed"
        left = self.seconds / self.done * (self.todo - self.done) / self.at_once
        left = f"  (about {left:.0f} s left)" if left > 60 else ""
        place = f"{self.done:>{len(str(self.todo))}}/{self.todo}"
        self._print(f"{place}  {run.status:<6}  {run.seconds:6.1f} s  {given}  {outcome}{left}")

    def _print(self, line: str) -> None:
        if not self.quiet:
            print(line, flush=True)


class Stopped(Exception):
    """The sweep ends: what was under way doesn't count."""


class Kernels:
    """Executes runs of one notebook, from several threads at once."""

    def __init__(self, manifest: Manifest, at_once: int) -> None:
        self.manifest = manifest
        self.environment = runner.environment(at_once)
        self._watches: set[Any] = set()
        self._stopping = False

    def execute(self, run: Run) -> RunResult:
        """Run the notebook with the parameters of ``run``; a failure is a result, no exception. Raises Stopped."""
        from snnkit.tools.papermill_engine import Watch  # brings papermill

        metrics: dict[str, Any] = {}

        def listen(message: dict[str, Any]) -> None:
            # From the messages, as an output that is cleared, or goes into a widget, is not in the executed notebook.
            if message["msg_type"] in ("display_data", "update_display_data", "execute_result"):
                metrics.update(recorded(message["content"].get("data", {})))

        notebook = self.manifest.notebook
        watch = Watch(self.environment, str(notebook.path.parent), self.manifest.seconds, listen)
        self._watches.add(watch)
        started = datetime.now(timezone.utc).isoformat(timespec="seconds")
        try:
            if self._stopping:
                raise Stopped
            job = runner.Job(run.id, notebook.node, dict(run.parameters))
            result = runner.execute(job, self.manifest.out, watch)
        finally:
            self._watches.discard(watch)
        if (result.error or "").startswith("DeadKernelError"):
            # Where a whole job is killed, kernels may go first; wait whether this process is about to go as well.
            time.sleep(_KILLED_TOO)
        if self._stopping:
            raise Stopped
        error = result.error
        clash = sorted(metrics.keys() & run.parameters.keys())
        if clash and result.status == "ok":
            error = f"ValueError: {clash[0]} was recorded, which is the name of a parameter"
        return RunResult(
            run=run.id,
            parameters=dict(run.parameters),
            status="failed" if error else "ok",
            metrics={name: value for name, value in metrics.items() if name not in clash},
            seconds=result.seconds,
            peak_mb=result.peak_mb,
            started=started,
            cell=result.cell,
            error=error,
            source=result.source,
            traceback=result.traceback,
        )

    def stop(self) -> None:
        """End all kernels; ``execute`` then raises Stopped."""
        self._stopping = True
        for watch in list(self._watches):
            watch.stop()
