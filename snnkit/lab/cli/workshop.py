"""``snnkit workshop``: what an instructor runs before and during a workshop; ``snnkit course``: learners' progress."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from pathlib import Path

import click

from snnkit import files
from snnkit.lab.cli import SETTINGS, ended_in_order, errors
from snnkit.lab.course import certificates, class_report, order, progress
from snnkit.lab.tools import doctor
from snnkit.lab.tools.project import ProjectError, find
from snnkit.lab.workshop import bundle, handouts, minutes, preflight as checks, timetable

FILE = click.Path(dir_okay=False, path_type=Path)


@click.group(context_settings=SETTINGS)
def course() -> None:
    """Progress in the notebooks: export it, a certificate, a class."""


@course.command()
@click.argument("file", type=FILE)
@click.option("--name", default="", help="Name or nickname. Default: the file's name without its ending.")
def export(file: Path, name: str) -> None:
    """Write your progress in all notebooks to FILE. It is JSON with results and counts, without answers."""
    with errors(ValueError):
        click.echo(f"progress: {progress.export(file, name)}")


@course.command()
@click.argument("track", type=click.Choice(list(order.TRACKS)))
@click.option("--name", default="", help="Name written on it.")
@click.option("--html", "page", type=FILE, metavar="FILE", help="Also write it as a page, to print.")
def certificate(track: str, name: str, page: Path | None) -> None:
    """Show what you have passed in a TRACK: spikes, machines or research."""
    with errors(ValueError):
        made = certificates.certificate(track, name)
        click.echo(repr(made))
        if page is not None:
            click.echo(f"\npage: {made.save(page)}")


@course.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--html", "page", type=FILE, metavar="FILE", help="Also write it as a page.")
def board(folder: Path, page: Path | None) -> None:
    """Show the progress of a class. FOLDER holds the learners' exported files."""
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
@click.option("--name", default="", help="Your name, or the machine's.  [login name]")
@click.option("--collect", metavar="FOLDER|FILE", help="Tabulate the lines of others; do not check this machine.")
@click.option(
    "--expect", type=click.IntRange(1), metavar="N", help="With --collect: the number of machines that should answer."
)
def preflight(name: str, collect: str | None, expect: int | None) -> None:
    """Print one line about this machine, to send to the instructor, or collect such lines.

    READY: all notebooks run. LIMITS: they run, and the line names a limit. STOP: fix that first. Exit code: 1 for STOP
    (with --collect: if any machine says STOP, or a line can't be read), else 0.
    """
    if collect is not None:
        with errors(ProjectError):
            room = checks.from_path(files.expanded(collect))
        click.echo(checks.text(room, expect))
        sys.exit(bool(room.count(checks.STOP) or room.damaged))
    lines = doctor.report()
    with errors(ProjectError):
        verdict = checks.check(name, lines)
    click.echo(verdict.line())
    for fix in checks.fixes(lines):
        click.echo(f"  {fix}", err=True)
    sys.exit(verdict.verdict == checks.STOP)


@workshop.command()
def check() -> None:
    """Compare schedules, facilitator pages and stated minutes with the notebooks. Exit code 1 if something is wrong."""
    with errors(ProjectError):
        project = find()
        problems = [*timetable.check(project), *minutes.stale(project)]
    if problems:
        raise click.ClickException("\n".join(["problems in the workshop's pages:", *problems]))
    plans = timetable.pages(project.root, timetable.SCHEDULES)
    click.echo(f"{len(plans)} schedules and {len(project.names())} facilitator pages fit the notebooks")


@workshop.command("minutes")
@click.option("--write", is_flag=True, help="Bring notebooks, covers, facilitator pages and schedules up to date.")
def print_minutes(write: bool) -> None:
    """Print the minutes of each notebook by one rule, from what learners read, write and guess."""
    with errors(ProjectError):
        project = find()
        written = minutes.update(project) if write else []
        click.echo("\n".join([minutes.table(project), *(f"wrote {path}" for path in written)]))


@workshop.command("schedule")
@click.argument("name", default="")
@click.option("--start", default="09:00", show_default=True, type=click.DateTime(["%H:%M"]), help="Start of each day.")
def print_schedule(name: str, start: datetime) -> None:
    """Print a schedule with clock times. Without NAME, list the schedules."""
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
@click.option("--people", type=click.IntRange(1), default=30, show_default=True, metavar="N", help="People with a GPU.")
def print_budget(name: str, people: int) -> None:
    """Print the GPU hours of a schedule. It counts the rows in which the GPU is on, or may be on."""
    with errors(ProjectError):
        plan = timetable.load(name, find())
    on, both = plan.gpu_minutes("on"), plan.gpu_minutes("on", "optional")
    hours = f"{people * on / 60:.1f} GPU hours ({on} min each), {people * both / 60:.1f} with what is optional"
    click.echo(f"{name}, {people} people: {hours} ({both} min each)")


@workshop.command("cheatsheet")
@click.option("--html", "page", type=FILE, required=True, metavar="FILE", help="Write the page into this file.")
def write_cheatsheet(page: Path) -> None:
    """Write the cheatsheet as one page for a printer or a browser."""
    with errors():
        files.write_text(page, handouts.cheatsheet(find().root))
    click.echo(f"page: {page}; it prints on one sheet of A4")


@workshop.command("solutions")
@click.argument("notebooks", nargs=-1, metavar="[NB]...")
@click.option(
    "--out", default="workshop/solutions", show_default=True, metavar="DIR", help="Folder of executed copies."
)
@ended_in_order()
def write_solutions(notebooks: tuple[str, ...], out: str) -> None:
    """Execute notebooks with their solutions for instructors. Checks and hints are below each exercise.

    NB is a number (04), a name or a path. Without NB, all notebooks, which takes some minutes. Exit code 1 if a
    notebook fails, or if a solution does not pass its own checks.
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
@click.option("--copies", default="build/notebooks", show_default=True, metavar="DIR", help="Folder from `snnkit run`.")
@click.option("--out", default="build/slides", show_default=True, metavar="DIR", help="Folder of the pages.")
def write_slides(notebooks: tuple[str, ...], copies: str, out: str) -> None:
    """Make slides of the cells with the tag `slide`. The pictures come from executed copies.

    Each HTML page is complete and needs no network. The arrow keys change the slide. In print, a slide is a page.
    """
    with errors(ProjectError):
        names = find().select(notebooks)
        for name in names:
            files.write_text(Path(out) / f"{name}.html", handouts.slides(Path(copies) / f"{name}.ipynb"))
    click.echo(f"slides of {', '.join(names)} in {out}")


@workshop.command("bundle")
@click.option("--out", default="build/workshop", show_default=True, metavar="DIR", help="Folder for the zip.")
@click.option("--data", multiple=True, metavar="NAME", help="Also pack mnist or fashion; repeatable.")
@click.option("--wheels", is_flag=True, help="Also pack all packages to install, for machines like this one.")
@click.option(
    "--platform",
    "platforms",
    multiple=True,
    metavar="NAME",
    help="With --wheels: for windows, macos or linux; repeatable.",
)
@click.option(
    "--python",
    "pythons",
    multiple=True,
    metavar="3.N",
    help="With --platform: the Python there; repeatable.  [this one]",
)
def write_bundle(
    out: str, data: tuple[str, ...], wheels: bool, platforms: tuple[str, ...], pythons: tuple[str, ...]
) -> None:
    """Pack a zip for a room without a network. It has notebooks, the wheel of snnkit, pages and checksums.

    Learners unpack it and type `python start.py` (or `python3`, or on Windows `py`). Without --wheels, this needs a
    network, or a Python that has snnkit and JupyterLab. The wheels are for machines like this one, or for each
    --platform that is named: windows (64 bit), macos (14 or newer, Apple silicon), linux (x86_64, glibc 2.28).
    """
    with errors(ProjectError):
        made = bundle.build(find(), Path(out), data=data, wheels=wheels, platforms=platforms, pythons=pythons)
    click.echo(f"{made}  {made.stat().st_size / 1e6:.1f} MB")


@workshop.command()
@click.argument("place", metavar="ZIP|DIR", type=click.Path(exists=True, path_type=Path))
def verify(place: Path) -> None:
    """Check that a bundle, packed or unpacked, is complete and unchanged. Exit code 1 if a file is missing or differs.

    A zip may hold nothing else. In a folder, other files are listed.
    """
    try:
        whole, others = bundle.verify(place)
    except ProjectError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"{whole} files are as they were packed; {len(others)} more are there")
    for name in others:
        click.echo(f"  {name}")
