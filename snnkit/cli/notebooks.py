"""Commands on notebooks: ``snnkit build``, ``run``, ``doctor`` and ``site``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from snnkit.cli import SETTINGS, exit_interrupted


@click.command(context_settings=SETTINGS)
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
        differences = [str(difference) for name in names for difference in pair.check(project, name)]
        if not notebooks:
            differences += [f"notebooks/{name}.ipynb: has no source in notebooks/src" for name in project.orphans()]
    except ProjectError as error:
        raise click.UsageError(str(error)) from None
    if differences:
        click.echo("\n".join(differences))
        raise click.ClickException("not in sync: run `snnkit build`, and commit what it writes")
    click.echo(f"{len(names)} notebooks, all in sync")


@click.command(context_settings=SETTINGS)
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
    """Execute notebooks headless and write run_report.html and report.json.

    NB is a number (04), a name or a path; all notebooks where none is given. They run in QUICK mode unless --full is
    given. Exit code: 0 if all ran, 1 if any failed, 2 for wrong usage.
    """
    from snnkit.tools import run_report, runner
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
        run_report.render_copy(folder, result.name)
        run_report.write(folder, results, environment | {"interrupted": True})  # true until the last one is in

    try:
        runner.execute_all(project, prepared, folder, limit=timeout, at_once=jobs, on_result=note)
    except KeyboardInterrupt:
        page = run_report.write(folder, results, environment | {"interrupted": True})
        exit_interrupted(f"interrupted: {len(results)} of {len(prepared)} notebooks ran; report: {page}")
    page = run_report.write(folder, results, environment | {"interrupted": False})
    click.echo(f"report: {page}")
    sys.exit(any(result.status != "ok" for result in results))


@click.command(context_settings=SETTINGS)
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


@click.command(context_settings=SETTINGS)
@click.option("--out", default="build/site", show_default=True, metavar="DIR", help="Pages come to DIR/html.")
@click.option("--no-run", is_flag=True, help="Notebooks without outputs, in place of executed ones.")
def site(out: str, no_run: bool) -> None:
    """Build the site: README, notebooks with their outputs, workshop pages, the reference of the library, a search.

    Executed notebooks that `snnkit run` left beside DIR are used where they are of the same text; the others are run.
    Exit code 1 if a notebook fails or Sphinx warns, also of links within the site that lead nowhere.
    """
    from snnkit.tools import site as sites
    from snnkit.tools.project import ProjectError, find

    try:
        first = sites.build(find(), Path(out).resolve(), run=not no_run, echo=click.echo)
    except ProjectError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"site: {first}")


def _assigned(assignments: tuple[str, ...]) -> dict[str, str]:
    """The NAME=VALUE pairs of `-p`."""
    values: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name.isidentifier():
            raise click.UsageError(f"-p takes NAME=VALUE, but it is {assignment!r}")
        if name in values:
            raise click.UsageError(f"parameter {name} is given twice")
        values[name] = value
    return values


def _environment(parameters: dict[str, Any]) -> dict[str, Any]:
    from datetime import datetime, timezone

    from snnkit.measure import machine

    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"date": now, **machine.describe(), "parameters": parameters}
