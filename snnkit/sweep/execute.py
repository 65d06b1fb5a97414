"""Runs a sweep: what has ended is skipped, the rest goes to kernels of its own, and each end is on disk at once."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any

from . import faces, manifest
from .faces import Face
from .folder import Ended, Folder
from .manifest import Manifest
from .plan import Run
from .table import Rows

if TYPE_CHECKING:
    import polars

# Seconds between looks. Once polars was used, its own handler of SIGINT lets the system go on with what it interrupts:
# a wait without end would never see Ctrl-C.
_LOOK = 0.2


def run(
    sweep: Manifest | str | os.PathLike[str] | Mapping[str, Any],
    *,
    workers: int | None = None,
    retry: bool = False,
    show: str = "auto",
) -> polars.DataFrame:
    """Do the runs of ``sweep`` that have not been done yet; the table of all runs of its folder.

    Each run is an execution of the notebook in a kernel of its own, ``workers`` at a time, which share the cores. It
    is on disk as soon as it has ended: a sweep that was killed, or interrupted, goes on where it was. A run that fails
    is listed with its error, and stops nothing; ``failures`` has the tracebacks.

    Args:
        sweep: a manifest, or what ``load`` takes.
        workers: in place of the manifest's.
        retry: do runs again that have failed before.
        show: "table" (a live one, for terminals), "lines" (one for each run that ends), "none", or "auto".

    Returns:
        A row for each run: run (its id), status ("ok" or "failed"), the parameters that were set, what the notebook
        recorded, seconds, peak_mb (MiB) and error.

    Raises:
        ManifestError: as of ``load``; ``workers`` or ``show`` is none of the above.
        SweepError: the folder is in use by a live sweep, holds something else, or a sweep that began with another
            notebook or other fixed settings.
        KeyboardInterrupt: on Ctrl-C, after kernels have been ended and the table was written.
    """
    asked = sweep if isinstance(sweep, Manifest) else manifest.load(sweep)
    at_once = asked.workers if workers is None else manifest.whole("workers", workers)
    folder = Folder(asked.out)
    with folder.open(asked):
        before = folder.ended()
        todo = [one for one in asked.runs if one.id not in before or (retry and before[one.id].status != "ok")]
        ahead = {one.id for one in todo}
        skipped = [before[one.id] for one in asked.runs if one.id in before and one.id not in ahead]
        face = faces.choose(show, asked, at_once)
        try:
            _do(asked, folder, todo, min(at_once, len(todo)), Rows(folder, before), face, skipped)
        finally:
            rows = Rows(folder, folder.ended()).write()
        return rows


def _do(
    asked: Manifest, folder: Folder, todo: list[Run], at_once: int, rows: Rows, face: Face, skipped: list[Ended]
) -> None:
    if not todo:
        with face.shown(todo, skipped):
            return
    from .kernels import kernels  # brings papermill

    with (
        face.shown(todo, skipped),
        kernels(asked.notebook, folder.path, at_once=at_once, limit=asked.seconds) as made,
        ThreadPoolExecutor(at_once) as pool,
    ):

        def one(run: Run) -> Ended:
            face.started(run)
            ended = made.execute(run)
            folder.write(ended)  # at once: while the table is written, a kill would take what waits for its turn
            return ended

        waiting = {pool.submit(one, run) for run in todo}
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=_LOOK, return_when=FIRST_COMPLETED)
                if not done:
                    continue
                for future in done:
                    ended = future.result()
                    rows.add(ended)
                    face.ended(ended)
                rows.write()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            made.stop()
            raise
