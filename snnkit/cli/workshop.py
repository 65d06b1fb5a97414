"""``snnkit workshop``: what an instructor runs before and during a workshop; ``snnkit course``: learners' progress."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path

import click

from snnkit import files
from snnkit.cli import SETTINGS, ended_in_order, errors
from snnkit.course import class_report, progress
from snnkit.tools import doctor
from snnkit.tools.project import ProjectError, find
from snnkit.workshop import bundle, handouts, minutes, timetable
from snnkit.workshop import preflight as checks

FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(context_settings=SETTINGS)
def course() -> None:
    """Progress in the notebooks: hand in your own, look at a room's."""


@course.command()
@click.argument("file", type=FILE)
@click.option("--name", default="", help="Name or nickname. Default: the file's name without its ending.")
def export(file: Path, name: str) -> None:
    """Write your progress in all notebooks to FILE (JSON): results and counts, no answers."""
    with errors(ValueError):
        click.echo(f"progress: {progress.export(file, name)}")


@course.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--html", "page", type=FILE, metavar="FILE", help="Write a page.")
def board(folder: Path, page: Path | None) -> None:
    """Show the progress of all learners whose exported file is in FOLDER."""
    room = class_report.room(folder)
    click.echo(repr(room))
    if page is not None:
        with errors():
            files.write_text(page, room.html())
        click.echo(f"\npage: {page}")


@click.group(context_settings=SETTINGS)
def workshop() -> None:
    """Prepare and run a workshop: check machines and pages, print a schedule, a budget, the cheatsheet."""


@workshop.command()
@click.option("--name", default="", help="Yours, or the machine's.  [login name]")
@click.option("--collect", metavar="FOLDER|FILE", help="Tabulate the lines in there instead of checking this machine.")
@click.option(
    "--expect", type=click.IntRange(1), metavar="N", help="With --collect: how many machines there should be."
)
def preflight(name: str, collect: str | None, expect: int | None) -> None:
    """Say in one line what this machine is good for, to be sent to the instructor; or collect many such lines.

    READY: all notebooks run. LIMITS: they run, with a limit that is named. STOP: fix that first. Exit code: 1 for STOP
    (with --collect: if any machine says so, or a line can't be read), else 0.
    """
    if collect is not None:
        with errors(ProjectError):
            room = checks.from_path(files.expanded(collect))
        click.echo(checks.text(room, expect))
        sys.exit(bool(room.count(checks.STOP) or room.damaged))
    lines = doctor.report()
    verdict = checks.check(name, lines)
    click.echo(verdict.line())
    for fix in checks.fixes(lines):
        click.echo(f"  {fix}", err=True)
    sys.exit(verdict.verdict == checks.STOP)


@workshop.command()
def check() -> None:
    """Compare the schedules and facilitator pages with the notebooks; exit code 1 if something does not fit."""
    with errors(ProjectError):
        project = find()
        problems = timetable.check(project)
    if problems:
        raise click.ClickException("\n".join(["problems in the workshop's pages:", *problems]))
    plans = timetable.pages(project.root, timetable.SCHEDULES)
    click.echo(f"{len(plans)} schedules and {len(project.names())} facilitator pages fit the notebooks")


@workshop.command("minutes")
@click.option("--write", is_flag=True, help="Bring notebooks, README, facilitator pages and schedules up to date.")
def print_minutes(write: bool) -> None:
    """Print what learners read, write and guess in each notebook, and the minutes that this takes by one rule."""
    with errors(ProjectError):
        project = find()
        written = minutes.update(project) if write else []
        click.echo("\n".join([minutes.table(project), *(f"wrote {path}" for path in written)]))


@workshop.command("schedule")
@click.argument("name", default="")
@click.option("--start", default="09:00", show_default=True, type=click.DateTime(["%H:%M"]), help="Of each day.")
def print_schedule(name: str, start: datetime) -> None:
    """Print a schedule with the times of the clock; without a NAME, the names."""
    with errors(ProjectError):
        project = find()
        if not name:
            click.echo("\n".join(timetable.pages(project.root, timetable.SCHEDULES)))
            return
        plan = timetable.load(name, project)
    for number, day in enumerate(plan.days, 1):
        if len(plan.days) > 1:
            click.echo(f"Day {number}")
        for item in day:
            gpu = "" if item.gpu == "off" else f"   [GPU {item.gpu}]"
            click.echo(f"{start + timedelta(minutes=item.start):%H:%M} {item.minutes:4} min  {item}{gpu}")
        click.echo(f"{start + timedelta(minutes=day[-1].end):%H:%M}           end")


@workshop.command("budget")
@click.argument("name")
@click.option("--people", type=click.IntRange(1), default=30, show_default=True, metavar="N", help="With a GPU each.")
def print_budget(name: str, people: int) -> None:
    """GPU hours that a schedule takes, from the rows in which it says that the GPU is on, or may be."""
    with errors(ProjectError):
        plan = timetable.load(name, find())
    on, both = plan.gpu_minutes("on"), plan.gpu_minutes("on", "optional")
    hours = f"{people * on / 60:.1f} GPU hours ({on} min each), {people * both / 60:.1f} with what is optional"
    click.echo(f"{name}, {people} people: {hours} ({both} min each)")


@workshop.command("cheatsheet")
@click.option("--html", "page", type=FILE, required=True, metavar="FILE", help="Where the page comes to.")
def write_cheatsheet(page: Path) -> None:
    """Write the cheatsheet as one page for a printer or a browser."""
    with errors():
        files.write_text(page, handouts.cheatsheet(find().root))
    click.echo(f"page: {page}; it prints on one sheet of A4")


@workshop.command("solutions")
@click.argument("notebooks", nargs=-1, metavar="[NB]...")
@click.option("--out", default="workshop/solutions", show_default=True, metavar="DIR", help="For the executed copies.")
@ended_in_order()
def write_solutions(notebooks: tuple[str, ...], out: str) -> None:
    """Execute notebooks with their solutions, each with its checks and hints below it: the instructor's copies.

    NB is a number (04), a name or a path; all where none is given. Exit code 1 if one fails, or a solution does not
    pass its own checks. Takes some minutes for all.
    """
    with errors(ProjectError):
        project = find()
        names = project.select(notebooks)
        failed = handouts.solutions(project, names, Path(out), click.echo)
    if failed:
        raise click.ClickException("no solutions of " + "; ".join(failed))
    click.echo(f"executed: {len(names)}, in {Path(out) / 'notebooks'} and {Path(out) / 'html'}")


@workshop.command("slides")
@click.argument("notebooks", nargs=-1, metavar="[NB]...")
@click.option("--copies", default="build/notebooks", show_default=True, metavar="DIR", help="Executed by `snnkit run`.")
@click.option("--out", default="build/slides", show_default=True, metavar="DIR", help="A page for each notebook.")
def write_slides(notebooks: tuple[str, ...], copies: str, out: str) -> None:
    """Make slides of the cells that are tagged `slide`, with the pictures of executed copies.

    Each page is complete, needs no network, and prints a slide a page. Arrows turn it.
    """
    with errors(ProjectError):
        names = find().select(notebooks)
        for name in names:
            files.write_text(Path(out) / f"{name}.html", handouts.slides(Path(copies) / f"{name}.ipynb"))
    click.echo(f"slides of {', '.join(names)} in {out}")


@workshop.command("bundle")
@click.option("--out", default="build/workshop", show_default=True, metavar="DIR", help="Where the zip comes to.")
@click.option("--data", multiple=True, metavar="NAME", help="Pack mnist or fashion, too; repeatable.")
@click.option("--wheels", is_flag=True, help="Pack everything that has to be installed, for machines like this one.")
def write_bundle(out: str, data: tuple[str, ...], wheels: bool) -> None:
    """Pack one zip for a room without a network: notebooks, the wheel of snnkit, pages, checksums.

    Learners unpack it and type `python start.py`.
    """
    with errors(ProjectError):
        made = bundle.build(find(), Path(out), data=data, wheels=wheels)
    click.echo(f"{made}  {made.stat().st_size / 1e6:.1f} MB")


@workshop.command()
@click.argument("place", metavar="ZIP|DIR", type=click.Path(exists=True, path_type=Path))
def verify(place: Path) -> None:
    """Prove that a bundle, packed or unpacked, is as it was made. Exit code 1 if a file is missing or other.

    A zip must hold nothing else. In a folder, files of your own are named.
    """
    try:
        whole, others = bundle.verify(place)
    except ProjectError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{whole} files are as they were packed; {len(others)} more are there")
    for name in others:
        click.echo(f"  {name}")
