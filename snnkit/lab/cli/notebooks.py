"""Commands on notebooks: ``snnkit build``, ``run``, ``doctor`` and ``site``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from snnkit.lab.cli import SETTINGS, ended_in_order, errors, exit_interrupted
from snnkit.lab.tools import doctor as checks, pair, run_report, runner, site as sites
from snnkit.lab.tools.parameters import ParameterError
from snnkit.lab.tools.project import ProjectError, find, find_notebooks
from snnkit.measure import machine
from snnkit.tables import count_of


@click.command(context_settings=SETTINGS)
@click.argument("notebooks", nargs=-1, metavar="[NB]...")
@click.option("--check", is_flag=True, help="Write nothing. Say what differs; exit code 1 if anything does.")
def build(notebooks: tuple[str, ...], check: bool) -> None:
    """Make notebooks/NN_name.ipynb from notebooks/src/NN_name.py.

    NB is a number (04), a name or a path. Without NB, all notebooks.
    """
    with errors(ProjectError):
        project = find()
        names = project.select(notebooks) + ([] if notebooks else project.workers())
        lines = [line for name in names for line in (pair.check if check else pair.build)(project, name)]
    number = count_of(len(names), "notebook")
    if not check:
        click.echo("\n".join(f"wrote {file}" for file in lines) or f"{number}, all up to date")
        return
    if not notebooks:
        lines += [f"notebooks/{name}.ipynb: has no source in notebooks/src" for name in project.orphans()]
    if lines:
        click.echo("\n".join(lines))
        raise click.ClickException("not in sync: run `snnkit build`, and commit what it writes")
    click.echo(f"{number}, all in sync")


@click.command(context_settings=SETTINGS)
@click.argument("notebooks", nargs=-1, metavar="[NB]...")
@click.option("--full", is_flag=True, help="Full size: QUICK=False.")
@click.option("--solve", is_flag=True, help="Use the reference solutions: SOLVE=True.")
@click.option("-p", "assignments", multiple=True, metavar="NAME=VALUE", help="Set a parameter of all notebooks.")
@click.option("--out", default="build", show_default=True, metavar="DIR", help="Folder of report and executed copies.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS", help="Time limit of a notebook.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Notebooks at a time.")
@ended_in_order()
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

    NB is a number (04), a name or a path. Without NB, all notebooks. They run in QUICK mode unless --full is given.
    The report is that of the last run; one folder takes one run at a time. Exit code: 0 if all ran, 1 if any failed, 2
    for wrong usage, 130 or 143 after Ctrl-C or SIGTERM. The report then has the notebooks that ran.
    """
    wanted: dict[str, str] = {}
    for one in assignments:
        name, equals, value = one.partition("=")
        if not equals or name in wanted:
            raise click.UsageError(f"-p takes NAME=VALUE, each name once, but it is {one!r}")
        wanted[name] = value
    with errors(ProjectError, ParameterError):
        project = find_notebooks()
        prepared = runner.prepare(project, project.select(notebooks), wanted, full=full, solve=solve)
        folder = runner.output_folder(project, out)
        click.get_current_context().with_resource(runner.only_run(folder))

    environment = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **machine.describe(),
        "parameters": {name: value for job in prepared for name, value in job.parameters.items()},
    }
    order = [job.name for job in prepared]
    results: list[runner.Result] = []

    def write(interrupted: bool) -> Path:
        return run_report.write(folder, results, {**environment, "interrupted": interrupted})

    def note(result: runner.Result) -> None:
        results.append(result)
        results.sort(key=lambda result: order.index(result.name))
        failure = "" if result.status == "ok" else str(result).removeprefix(result.name)
        width = max(map(len, order))
        numbers = f"{result.seconds:7.1f} s  {result.peak_mb:7.0f} MB"
        click.echo(f"{result.name:<{width}}  {result.status:<6}  {numbers}{failure}")
        run_report.render_copy(folder, result.name)
        write(interrupted=True)  # true until the last one is in

    try:
        runner.execute_all(project, prepared, folder, limit=timeout, at_once=jobs, on_result=note)
    except KeyboardInterrupt as interrupt:
        page = write(interrupted=True)
        exit_interrupted(f"interrupted: {len(results)} of {len(prepared)} notebooks ran; report: {page}", interrupt)
    click.echo(f"report: {write(interrupted=False)}")
    sys.exit(any(result.status != "ok" for result in results))


@click.command(context_settings=SETTINGS)
@click.option("--warm", is_flag=True, help="Also compile the kernels of all neurons, so that no first call waits.")
def doctor(warm: bool) -> None:
    """Check this machine: each line is green, amber or red, with the fix. Exit code 1 if any line is red."""
    lines = checks.report()
    if warm:
        lines.append(checks.warm())
    for line in lines:
        colours = {checks.GREEN: "green", checks.AMBER: "yellow", checks.RED: "red"}
        click.secho(str(line), fg=colours[line.status])
    sys.exit(any(line.status == checks.RED for line in lines))


@click.command(context_settings=SETTINGS)
@click.option("--out", default="build/site", show_default=True, metavar="DIR", help="Write the pages into DIR/html.")
@click.option("--no-run", is_flag=True, help="Show notebooks without outputs instead of executed ones.")
def site(out: str, no_run: bool) -> None:
    """Build the site: README, notebooks with their outputs, workshop pages, the reference of the library, a search.

    It shows the executed notebooks that `snnkit run` wrote beside DIR. Exit code 1 if one is missing or if Sphinx
    warns. Sphinx also warns about links within the site that lead nowhere.
    """
    with errors(ProjectError):
        project, folder = find(), Path(out).resolve()
        copies = project.notebooks if no_run else folder.parent / "notebooks"
        first = sites.build(project, folder, copies, echo=click.echo)
    click.echo(f"site: {first}")
