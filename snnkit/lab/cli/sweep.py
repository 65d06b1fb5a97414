"""The commands ``snnkit sweep MANIFEST`` and ``snnkit sweep show FOLDER``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from snnkit.lab.cli import SETTINGS, ended_in_order, errors, exit_interrupted
from snnkit.lab.sweep.execute import run
from snnkit.lab.sweep.manifest import ManifestError, load
from snnkit.lab.sweep.results import CSV, PARQUET, Folder, SweepError, failures, results
from snnkit.train.slurm.requeue import RequeueError, requeue
from snnkit.train.slurm.syntax import REQUEUE_SIGNAL


class _RunOrShow(click.Command):
    """``snnkit sweep MANIFEST`` is one command, ``snnkit sweep show DIR`` another."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        if args[:1] == ["show"]:
            return show.make_context(f"{info_name} show", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(cls=_RunOrShow, context_settings=SETTINGS)
@click.argument("manifest", metavar="MANIFEST.yaml", type=click.Path())
@click.option("--out", metavar="DIR", help="Folder of the results.  [the manifest's]")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Number of runs at a time.  [the manifest's]")
@click.option("--retry", is_flag=True, help="Repeat the runs that failed before.")
@ended_in_order()
def sweep(manifest: str, out: str | None, workers: int | None, retry: bool) -> None:
    """Run a notebook with every combination of parameters that a manifest lists.

    Runs that have ended are skipped. So the same command continues after a crash, a kill or Ctrl-C, and several of it
    may run at once. New values, seeds or samples are new runs. DIR then holds results.parquet, results.csv, the
    executed notebooks, and a file for each run, with its traceback if it failed. `snnkit sweep show DIR` prints the
    table.

    In a job of SLURM, SIGUSR1 before the time limit puts the job back into the queue, to continue there.

    Exit code: 0 if all runs are ok, 1 if any failed, 2 for wrong usage, 130 or 143 after Ctrl-C or SIGTERM.
    """
    more = [REQUEUE_SIGNAL] if "SLURM_JOB_ID" in os.environ else []
    with errors(ManifestError, SweepError), ended_in_order(*more):
        wanted = load(manifest, out)
        before = _ended(wanted.out)
        try:
            table = run(wanted, workers=workers, retry=retry)
        except KeyboardInterrupt as interrupt:
            what = f"interrupted; what has ended is in {wanted.out}, and the same command continues there"
            if signal.Signals(next(iter(interrupt.args), signal.SIGINT)).name == REQUEUE_SIGNAL:
                what = _requeued(_ended(wanted.out) > before)
            exit_interrupted(what, interrupt)
        ids = {one.id for one in wanted.runs}
        failed = [failure for failure in failures(wanted.out) if failure.run in ids]
        drawn = _draw(wanted.out, table)
    for failure in failed:
        click.echo(f"failed: {failure}")
    click.echo(f"{len(table)} runs, {len(failed)} failed: {wanted.out / CSV}, {PARQUET}{drawn}")
    sys.exit(bool(failed))


def _ended(folder: Path) -> int:
    """How many runs have ended in a folder."""
    return len(list((folder / "runs").glob("*.json")))


def _requeued(progress: bool) -> str:
    """Put the job back into the queue; what was done, or why not."""
    if not progress:  # it would be stopped at the same point, for ever
        return "not requeued: no run has ended within the time limit of this job; give it more time (--time)"
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # SLURM ends what it requeues
    try:
        return f"{requeue()}, and continues with the runs that are left"
    except RequeueError as error:
        return str(error)


@click.command(context_settings=SETTINGS)
@click.argument("folder", metavar="DIR", type=click.Path())
@click.option("--traceback", "with_traceback", is_flag=True, help="Print the whole traceback of each run that failed.")
def show(folder: str, with_traceback: bool) -> None:
    """Print the results of a sweep, also while it runs."""
    import polars

    with errors(SweepError):
        table, failed = results(folder), failures(folder)
    with polars.Config(
        tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, fmt_str_lengths=60,
        tbl_width_chars=1000, tbl_formatting="NOTHING", tbl_cell_numeric_alignment="RIGHT",
    ):  # fmt: skip
        click.echo(table if failed else table.drop("error"))  # which is empty then
    for failure in failed:
        click.echo(f"failed: {failure}")
        if with_traceback:
            click.echo(failure.traceback)
    click.echo(f"{len(table)} runs, {len(failed)} failed")


def _draw(folder: Path, table: Any) -> str:
    """Draw the front if the manifest has one. Says where it is, or why it is missing; "" if there is none."""
    description = Folder(folder).description()
    if description["pareto"] is None:
        return ""
    from snnkit.files import replacing
    from snnkit.lab import viz

    seeds = "SEED" if len(description["seeds"]) > 1 else None
    title = f"{description['notebook']}: Pareto front"
    try:
        figure = viz.figures.pareto(table, **description["pareto"], seeds=seeds, title=title)
    except (ValueError, TypeError) as error:
        return f"; no Pareto plot: {error}"
    page = figure.to_html(include_plotlyjs="cdn").encode()
    for path, content in ((folder / "pareto.png", viz.png_bytes(figure)), (folder / "pareto.html", page)):
        with replacing(path) as target:
            target.write(content)
    return "; pareto.png, pareto.html"
