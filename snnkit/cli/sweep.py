"""The commands ``snnkit sweep MANIFEST`` and ``snnkit sweep show FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from snnkit.cli import INTERRUPTED, SETTINGS
from snnkit.sweep.execute import run
from snnkit.sweep.manifest import Manifest, ManifestError, load
from snnkit.sweep.results import CSV, PARQUET, Folder, SweepError, failures, results

if TYPE_CHECKING:
    import polars


class _RunOrShow(click.Command):
    """``snnkit sweep MANIFEST`` is one command, ``snnkit sweep show DIR`` another."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        if args[:1] == ["show"]:
            return show.make_context(f"{info_name} show", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(cls=_RunOrShow, context_settings=SETTINGS)
@click.argument("manifest", metavar="MANIFEST.yaml", type=click.Path())
@click.option("--out", metavar="DIR", help="Folder of the results.  [the manifest's]")
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Runs at a time.  [the manifest's]")
@click.option("--retry", is_flag=True, help="Do runs again that have failed before.")
@click.option("--dry-run", "dry", is_flag=True, help="List the runs and their status; start nothing.")
def sweep(manifest: str, out: str | None, workers: int | None, retry: bool, dry: bool) -> None:
    """Run a notebook with every combination of parameters that a manifest lists.

    Runs that have ended are skipped, so the same command continues after a crash, a kill or Ctrl-C, and may be given
    several times at once; more values, seeds or samples are new runs. DIR then holds results.parquet, results.csv, a
    file for each run with its traceback if it failed, and the executed notebooks. `snnkit sweep show DIR` prints the
    table.

    Exit code: 0 if all runs are ok, 1 if any failed, 2 for wrong usage, 130 after Ctrl-C.
    """
    try:
        wanted = load(manifest, out)
        if dry:
            click.echo(_listed(wanted))
            return
        table = run(wanted, workers=workers, retry=retry)
        ids = {one.id for one in wanted.runs}
        failed = [failure for failure in failures(wanted.out) if failure.run in ids]
        drawn = _drawn(wanted.out, table)
    except (ManifestError, SweepError) as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:
        click.echo(
            f"\ninterrupted; what has ended is in {wanted.out}, and the same command continues from there", err=True
        )
        sys.exit(INTERRUPTED)
    for failure in failed:
        click.echo(f"failed: {failure}")
    click.echo(f"{len(table)} runs, {len(failed)} failed: {wanted.out / CSV}, {PARQUET}{drawn}")
    sys.exit(bool(failed))


@click.command(context_settings=SETTINGS)
@click.argument("folder", metavar="DIR", type=click.Path())
@click.option("--plot", metavar="FILE", help="Draw the Pareto front: .png or .html.  [DIR/pareto.png and .html]")
@click.option("--traceback", "with_traceback", is_flag=True, help="The whole traceback of each run that failed.")
def show(folder: str, plot: str | None, with_traceback: bool) -> None:
    """Print the results of a sweep; also while it goes on."""
    path = Path(folder).expanduser()
    if plot is not None and not plot.lower().endswith((".png", ".html")):
        raise click.UsageError(f"--plot must end in .png or .html, but it is {plot!r}")
    try:
        table, failed = results(path), failures(path)
        if plot is not None and Folder(path).description()["pareto"] is None:
            raise SweepError("there is nothing to plot: the manifest has no pareto")
        _print(table)
        for failure in failed:
            click.echo(f"failed: {failure}")
            if with_traceback and failure.traceback:
                click.echo(failure.traceback)
        click.echo(f"{len(table)} runs, {len(failed)} failed{_drawn(path, table, plot)}")
    except SweepError as error:
        raise click.UsageError(str(error)) from None


def _print(table: polars.DataFrame) -> None:
    """All rows, and the columns that hold anything."""
    import polars

    empty = [name for name in table.columns if table[name].null_count() == len(table) > 0]
    with polars.Config(
        tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True, fmt_str_lengths=60,
        tbl_width_chars=1000, tbl_formatting="NOTHING", tbl_cell_numeric_alignment="RIGHT",
    ):  # fmt: skip
        click.echo(table.drop(empty))


def _listed(wanted: Manifest) -> str:
    """The runs of a manifest, a line each."""
    folder = Folder(wanted.out)
    known: dict[str, Any] = folder.results() if folder.begun else {}
    lines = []
    for one in wanted.runs:
        state = known[one.id].status if one.id in known else "to do"
        given = "  ".join(f"{name}={value}" for name, value in one.parameters.items())
        lines.append(f"{one.id}  {state:<6}  {given}")
    left = sum(one.id not in known for one in wanted.runs)
    return "\n".join([*lines, f"{len(lines)} runs of {wanted.notebook.path}, {left} to do, in {wanted.out}"])


def _drawn(folder: Path, table: polars.DataFrame, file: str | None = None) -> str:
    """Draw the front that the manifest asks for; says where it is, or why there is none. Empty if none is wanted."""
    description = Folder(folder).description()
    if description["pareto"] is None:
        return ""
    from snnkit import viz
    from snnkit.files import replacing

    seeds = "SEED" if "SEED" in table.columns and table["SEED"].n_unique() > 1 else None
    title = f"{description['notebook']}: Pareto front"
    try:
        figure = viz.figures.pareto(table, **description["pareto"], seeds=seeds, title=title)
    except (ValueError, TypeError) as error:
        return f"; no Pareto plot: {error}"
    files = [Path(file)] if file else [folder / "pareto.png", folder / "pareto.html"]
    for path in files:
        png = path.suffix.lower() == ".png"
        content = viz.png_bytes(figure) if png else figure.to_html(include_plotlyjs="cdn").encode()
        try:
            with replacing(path) as target:
                target.write(content)
        except OSError as error:
            raise SweepError(f"can't write the plot {path}: {error.strerror or error}") from None
    return f"; plot: {', '.join(map(str, files))}"
