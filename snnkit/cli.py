"""The `snnkit` command. Heavy modules are imported where a command needs them."""

from __future__ import annotations

import signal
import sys
import threading
import time
from typing import Any, NoReturn

import click

import snnkit
from snnkit.bench.command import neurons
from snnkit.bench.compare_command import compare
from snnkit.bench.demo_command import demo
from snnkit.bench.events_command import events
from snnkit.bench.explorers_command import explorers
from snnkit.bench.local_command import local
from snnkit.bench.plasticity_command import plasticity
from snnkit.bench.scaling_command import scaling
from snnkit.bench.training_command import training

INTERRUPTED = 130  # what a shell reports for Ctrl-C
PATIENCE = 2.0  # seconds after a Ctrl-C in which another one is the same


class Interrupts:
    """A handler of Ctrl-C: raises KeyboardInterrupt, but not again at once, as that would break the clearing up."""

    def __init__(self) -> None:
        self.last = float("-inf")

    def __call__(self, *_: Any) -> None:
        now = time.monotonic()
        # Not for ever: code that swallows exceptions, as some imports do, may have swallowed the last one.
        if now - self.last > PATIENCE:
            self.last = now
            raise KeyboardInterrupt


class Interruptible(click.Group):
    """Commands that Ctrl-C ends with exit code 130 and no traceback, wherever they are: in an import, too."""

    def invoke(self, ctx: click.Context) -> Any:
        if threading.current_thread() is not threading.main_thread():  # only there may handlers be set
            return super().invoke(ctx)
        interrupts = Interrupts()
        before = signal.signal(signal.SIGINT, interrupts)
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            _exit_interrupted("interrupted")
        except Exception:
            # An import that is interrupted may fail by another exception than the one raised in it.
            if time.monotonic() - interrupts.last > PATIENCE:
                raise
            _exit_interrupted("interrupted")
        finally:
            if signal.getsignal(signal.SIGINT) is interrupts:
                signal.signal(signal.SIGINT, before)


def _exit_interrupted(message: str) -> NoReturn:
    """End with exit code 130. Further interrupts are ignored from here on: threads are still to be joined."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    click.echo(f"\n{message}", err=True)
    sys.exit(INTERRUPTED)


@click.group(cls=Interruptible, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(snnkit.__version__, prog_name="snnkit")
def main() -> None:
    """Learn and experiment with spiking neural networks: build, run and check the notebooks."""


@main.command()
@click.argument("notebooks", nargs=-1, metavar="[NB]...")
@click.option("--check", is_flag=True, help="Write nothing; say what differs, and exit with 1 if anything does.")
def build(notebooks: tuple[str, ...], check: bool) -> None:
    """Make notebooks/NN_name.ipynb from notebooks/src/NN_name.py.

    NB is a number (04), a name or a path; all notebooks where none is given.
    """
    from snnkit.tools import pair
    from snnkit.tools.project import ProjectError, find

    try:
        project = find()
        names = project.select(notebooks) + ([] if notebooks else project.workers())
        if not check:
            written = [file for name in names for file in pair.build(project, name)]
            click.echo("\n".join(f"wrote {file}" for file in written) or f"{len(names)} notebooks, all up to date")
            return
        found = [str(difference) for name in names for difference in pair.check(project, name)]
        if not notebooks:
            found += [f"notebooks/{name}.ipynb: has no source in notebooks/src" for name in project.orphans()]
    except ProjectError as error:
        raise click.UsageError(str(error)) from None
    if found:
        click.echo("\n".join(found))
        raise click.ClickException("not in sync: run `snnkit build`, and commit what it writes")
    click.echo(f"{len(names)} notebooks, all in sync")


@main.command()
@click.argument("notebooks", nargs=-1, metavar="[NB]...")
@click.option("--full", is_flag=True, help="Full size: QUICK=False.")
@click.option("--solve", is_flag=True, help="Use the reference solutions: SOLVE=True.")
@click.option("-p", "assignments", multiple=True, metavar="NAME=VALUE", help="Set a parameter of every notebook run.")
@click.option("--out", default="build", show_default=True, metavar="DIR", help="For the report and executed copies.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Limit for each notebook.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Notebooks at a time.")
def run(
    notebooks: tuple[str, ...],
    full: bool,
    solve: bool,
    assignments: tuple[str, ...],
    out: str,
    timeout: float | None,
    jobs: int,
) -> None:
    """Execute notebooks headless and write report.html and report.json.

    NB is a number (04), a name or a path; all notebooks where none is given. They run in QUICK mode unless --full is
    given. Exit code: 0 if all ran, 1 if any failed, 2 for wrong usage.
    """
    from snnkit.tools import report
    from snnkit.tools import run as runner
    from snnkit.tools.parameters import ParameterError
    from snnkit.tools.project import ProjectError, find

    try:
        project = find()
        prepared = runner.prepare(project, project.select(notebooks), _assigned(assignments), full=full, solve=solve)
        folder = runner.output_folder(project, out)
    except (ProjectError, ParameterError) as error:
        raise click.UsageError(str(error)) from None

    environment = _environment({name: value for job in prepared for name, value in job.parameters.items()})
    order = [job.name for job in prepared]
    width = max(map(len, order))
    results: list[runner.Result] = []

    def note(result: runner.Result) -> None:
        results.append(result)
        results.sort(key=lambda result: order.index(result.name))
        line = f"{result.name:<{width}}  {result.status:<6}  {result.seconds:7.1f} s  {result.peak_mb:7.0f} MB"
        if result.status != "ok":
            line += f"  {f'cell {result.cell}: ' if result.cell is not None else ''}{result.error}"
        click.echo(line)
        report.render_copy(folder, result.name)
        report.write(folder, results, environment | {"interrupted": True})  # true until the last one is in

    try:
        runner.execute_all(project, prepared, folder, limit=timeout, at_once=jobs, on_result=note)
    except KeyboardInterrupt:
        page = report.write(folder, results, environment | {"interrupted": True})
        _exit_interrupted(f"interrupted: {len(results)} of {len(prepared)} notebooks ran; report: {page}")
    page = report.write(folder, results, environment | {"interrupted": False})
    click.echo(f"report: {page}")
    sys.exit(any(result.status != "ok" for result in results))


@main.command()
@click.option("--json", "as_json", is_flag=True, help="For programs: a list of {name, status, value, fix}.")
def doctor(as_json: bool) -> None:
    """Say what this machine has: each line green, amber or red with the fix. Exit code 1 if any line is red."""
    import json

    from snnkit.tools import doctor as checks

    lines = checks.report()
    if as_json:
        click.echo(json.dumps(checks.as_dict(lines), indent=1, ensure_ascii=False))
    else:
        checks.print_report(lines)
    sys.exit(any(line.status == checks.RED for line in lines))


@main.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="RECIPE [OPTIONS]")
def train(words: tuple[str, ...]) -> None:
    """Train a network by a named recipe; `snnkit train --help` lists them, and every option."""
    # Here, as the options come from the recipes, and those need PyTorch.
    from snnkit.train.command import train as command

    command.main(list(words), prog_name="snnkit train", standalone_mode=False)


@main.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS] COMMAND ...")
def slurm(words: tuple[str, ...]) -> None:
    """Write a batch script for SLURM, explain it, check it, submit it; `snnkit slurm --help` lists the options."""
    from snnkit.train.slurm.command import slurm as command

    command.main(list(words), prog_name="snnkit slurm", standalone_mode=False)


@main.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS] COMMAND ...")
def course(words: tuple[str, ...]) -> None:
    """Hand in progress in the notebooks, or look at a room's; `snnkit course --help` lists both."""
    from snnkit.course.command import course as command

    command.main(list(words), prog_name="snnkit course", standalone_mode=False)


@main.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS]")
def site(words: tuple[str, ...]) -> None:
    """Build the site: README, executed notebooks, workshop pages, the library's reference, a search."""
    from snnkit.site.command import site as command

    command.main(list(words), prog_name="snnkit site", standalone_mode=False)


@main.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS] COMMAND ...")
def workshop(words: tuple[str, ...]) -> None:
    """Prepare and run a workshop: schedules, machines, GPU budget; `snnkit workshop --help` lists the commands."""
    from snnkit.workshop.command import workshop as command

    command.main(list(words), prog_name="snnkit workshop", standalone_mode=False)


@main.command(add_help_option=False, context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="MANIFEST.yaml|show DIR [OPTIONS]")
def sweep(words: tuple[str, ...]) -> None:
    """Run a notebook with every combination of parameters that a manifest lists; `snnkit sweep --help` says more."""
    from snnkit.sweep import command

    command.main(list(words))


@main.group()
def bench() -> None:
    """Measure, and show what was measured."""


for measurement in (neurons, training, demo, scaling, compare, explorers, events, local, plasticity):
    bench.add_command(measurement)


@bench.command()
@click.argument("record", metavar="FILE|NAME")
@click.option("--plot", type=click.Path(dir_okay=False), metavar="FILE", help="Draw it: .png or .html.")
@click.option("--beside", multiple=True, metavar="FILE|NAME", help="Another record for the plot; repeatable.")
@click.option("--neurons", "size", type=click.IntRange(1), metavar="N", help="Size to plot. Default: the largest.")
@click.option("--dtype", default="float32", show_default=True, help="Of the input, in the plot.")
def show(record: str, plot: str | None, beside: tuple[str, ...], size: int | None, dtype: str) -> None:
    """Print a record: a file that `snnkit bench ... --out` wrote, or the name of one that comes with the kit."""
    from snnkit.bench import (
        compare_table,
        demo_table,
        local,
        plasticity_table,
        scaling_command,
        scaling_table,
        table,
        training_table,
    )

    first = _record(record)
    tables = {"training": training_table.tables, "demo": demo_table.tables, "scaling": scaling_table.tables}
    tables |= {"compare": compare_table.tables, "plasticity": plasticity_table.tables}
    click.echo(tables.get(first["kind"], table.tables)(first))
    if plot is None:
        return
    suffix = plot.rpartition(".")[2].lower()
    if first["kind"] == "plasticity":
        raise click.UsageError("there is no plot of records of this kind")
    if suffix not in ("png", "html"):
        raise click.UsageError(f"--plot must end in .png or .html, was {plot!r}")
    from pathlib import Path

    from snnkit import viz
    from snnkit.files import replacing

    every = [first, *map(_record, beside)]
    try:
        if first["kind"] == "training":
            figure = viz.figures.training_rates(every)
        elif first["kind"] == "demo":
            figure = viz.figures.device_rates(every)
        elif first["kind"] == "scaling":
            figure = scaling_command.figure(first)
        elif first["kind"] == "local":
            figure = local.figure(first)
        elif first["kind"] == "compare":
            figure = viz.figures.comparison(every)
        else:
            figure = viz.figures.races(every, neurons=size, dtype=dtype)
        content = viz.png_bytes(figure) if suffix == "png" else figure.to_html(include_plotlyjs="cdn").encode()
        with replacing(Path(plot)) as file:
            file.write(content)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"\nplot: {plot}")


def _record(name: str) -> dict[str, Any]:
    """The record of this name, or in this file."""
    from pathlib import Path

    from snnkit import records
    from snnkit.bench.record import RecordError, read

    try:
        return records.load(name) if name in records.names() else read(Path(name))
    except FileNotFoundError:
        known = ", ".join(records.names())
        raise click.UsageError(f"there is no file {name!r}, and no record of that name; there are: {known}") from None
    except (OSError, RecordError) as error:
        raise click.ClickException(str(error)) from None


def _assigned(assignments: tuple[str, ...]) -> dict[str, str]:
    """The NAME=VALUE pairs of `-p`."""
    values: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.isidentifier():
            raise click.UsageError(f"-p takes NAME=VALUE, was {assignment!r}")
        if name in values:
            raise click.UsageError(f"parameter {name} is given twice")
        values[name] = value
    return values


def _environment(parameters: dict[str, Any]) -> dict[str, Any]:
    from datetime import datetime, timezone

    from snnkit.tools import machine

    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"date": now, **machine.describe(), "parameters": parameters}


if __name__ == "__main__":
    main()
