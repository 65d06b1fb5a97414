"""``snnkit workshop``: what an instructor runs before and during a workshop."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from snnkit.cli import SETTINGS


@contextlib.contextmanager
def _errors(kind: type[click.ClickException] = click.ClickException) -> Iterator[None]:
    """What is wrong with the project, its pages or a file becomes a message without a traceback."""
    from snnkit.tools.project import ProjectError

    try:
        yield
    except ProjectError as error:
        raise kind(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"can't read or write {error.filename}: {error.strerror or error}") from None


@click.group(context_settings=SETTINGS)
def workshop() -> None:
    """Prepare and run a workshop: check machines and pages, print a schedule, a budget, the cheatsheet."""


@workshop.command()
@click.option("--name", default="", help="Yours, or the machine's.  [login name]")
@click.option("--need", "needs", multiple=True, metavar="WHAT", help="gpu, network, mnist or fashion; repeatable.")
@click.option(
    "--collect", metavar="FOLDER|FILE|-", help="Tabulate the lines in there instead of checking this machine."
)
@click.option(
    "--expect", type=click.IntRange(1), metavar="N", help="With --collect: how many machines there should be."
)
@click.option("--csv", "table", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="With --collect.")
def preflight(name: str, needs: tuple[str, ...], collect: str | None, expect: int | None, table: Path | None) -> None:
    """Say in one line what this machine is good for, to be sent to the instructor; or collect many such lines.

    READY: all notebooks run. LIMITS: they run, with a limit that is named. STOP: fix that first. Exit code: 1 for STOP
    (with --collect: if any machine says so, or a line can't be read), else 0.
    """
    from snnkit.workshop import preflight as checks

    if collect is not None:
        _collect(collect, expect, table)
        return
    if expect is not None or table is not None:
        raise click.UsageError("--expect and --csv go with --collect")
    from snnkit.tools import doctor

    lines = doctor.report()
    try:
        verdict = checks.check(name, needs, lines)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(verdict.line())
    for fix in checks.fixes(lines):
        click.echo(f"  {fix}", err=True)
    sys.exit(verdict.verdict == checks.STOP)


def _collect(place: str, expect: int | None, table: Path | None) -> None:
    from snnkit import files
    from snnkit.workshop import preflight as checks

    with _errors(click.UsageError):
        if place == "-":
            lines = sys.stdin.buffer.read().decode(errors="replace").splitlines()
            room = checks.from_lines((f"line {number}", line) for number, line in enumerate(lines, 1))
        else:
            room = checks.from_path(Path(place).expanduser())
    click.echo(checks.text(room, expect))
    if table is not None:
        with _errors():
            files.write_text(table, checks.table(room))
        click.echo(f"\ntable: {table}")
    sys.exit(bool(room.count(checks.STOP) or room.damaged))


@workshop.command()
def check() -> None:
    """Compare the schedules and facilitator pages with the notebooks; exit code 1 if something does not fit."""
    from snnkit.tools.project import find
    from snnkit.workshop import timetable

    with _errors(click.UsageError):
        project = find()
        problems = timetable.check(project)
    for problem in problems:
        click.echo(str(problem))
    if problems:
        raise click.ClickException(f"{len(problems)} problem{'s' * (len(problems) > 1)} in the workshop's pages")
    plans = timetable.pages(project.root, timetable.SCHEDULES)
    click.echo(f"{len(plans)} schedules and {len(project.names())} facilitator pages fit the notebooks")


@workshop.command("schedule")
@click.argument("name", default="")
@click.option("--start", default="09:00", show_default=True, metavar="HH:MM", help="When each day begins.")
def print_schedule(name: str, start: str) -> None:
    """Print a schedule with the times of the clock; without a NAME, the names."""
    from snnkit.tools.project import find
    from snnkit.workshop import timetable

    begins = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", start)
    if not begins:
        raise click.UsageError(f"--start must be a time such as 09:00, but it is {start!r}")
    with _errors(click.UsageError):
        project = find()
        if not name:
            click.echo("\n".join(timetable.pages(project.root, timetable.SCHEDULES)))
            return
        plan = timetable.load(name, project)

    def clock(minutes: int) -> str:
        at = (60 * int(begins[1]) + int(begins[2]) + minutes) % (24 * 60)
        return f"{at // 60:02}:{at % 60:02}"

    for number, day in enumerate(plan.days, 1):
        if len(plan.days) > 1:
            click.echo(f"Day {number}")
        for item in day:
            gpu = "" if item.gpu == "off" else f"   [GPU {item.gpu}]"
            click.echo(f"{clock(item.start)} {item.minutes:4} min  {item}{gpu}")
        click.echo(f"{clock(sum(item.minutes for item in day))}           end")


@workshop.command("budget")
@click.argument("name")
@click.option("--people", type=click.IntRange(1), default=30, show_default=True, metavar="N", help="With a GPU each.")
def print_budget(name: str, people: int) -> None:
    """GPU hours that a schedule takes, from the rows in which it says that the GPU is on, or may be."""
    from snnkit.tools.project import find
    from snnkit.workshop import timetable

    with _errors(click.UsageError):
        plan = timetable.load(name, find())
    least, most = plan.gpu_hours(people)
    on, both = plan.gpu_minutes("on"), plan.gpu_minutes("on", "optional")
    click.echo(f"{name}, {people} people: {least:.1f} GPU hours ({on} min each), {most:.1f} with what is optional")
    click.echo(
        f"({both} min each, if GPUs are connected where the schedule says on or optional, and given back after it)"
    )


@workshop.command("cheatsheet")
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a page.")
def print_cheatsheet(page: Path | None) -> None:
    """Print the cheatsheet; with --html, write it as one page for a printer or a browser."""
    from snnkit import files
    from snnkit.tools.project import find
    from snnkit.workshop import handouts

    with _errors():
        root = find().root
        if page is None:
            click.echo((root / handouts.CHEATSHEET).read_text(encoding="utf-8"))
            return
        files.write_text(page, handouts.cheatsheet(root))
    click.echo(f"page: {page}; it prints on one sheet of A4")


@workshop.command("solutions")
@click.argument("notebooks", nargs=-1, metavar="[NB]...")
@click.option("--out", default="workshop/solutions", show_default=True, metavar="DIR", help="For the executed copies.")
def write_solutions(notebooks: tuple[str, ...], out: str) -> None:
    """Execute notebooks with their solutions, each with its checks and hints below it: the instructor's copies.

    NB is a number (04), a name or a path; all where none is given. Exit code 1 if one fails, or a solution does not
    pass its own checks. Takes some minutes for all.
    """
    from snnkit.tools.project import find
    from snnkit.workshop import handouts

    with _errors():
        project = find()
        names = project.select(notebooks)
        handouts.solutions(project, names, Path(out), click.echo)
    click.echo(f"executed: {len(names)}, in {Path(out) / 'notebooks'} and {Path(out) / 'html'}")


@workshop.command("slides")
@click.argument("notebooks", nargs=-1, metavar="[NB]...")
@click.option("--copies", default="build/notebooks", show_default=True, metavar="DIR", help="Executed by `snnkit run`.")
@click.option("--out", default="build/slides", show_default=True, metavar="DIR", help="A page for each notebook.")
def write_slides(notebooks: tuple[str, ...], copies: str, out: str) -> None:
    """Make slides of the cells that are tagged `slide`, with the pictures of executed copies.

    Each page is complete, needs no network, and prints a slide a page. Arrows turn it.
    """
    from snnkit import files
    from snnkit.tools.project import find
    from snnkit.workshop import handouts

    with _errors():
        pages = {name: handouts.slides(Path(copies) / f"{name}.ipynb") for name in find().select(notebooks)}
        for name, page in pages.items():
            files.write_text(Path(out) / f"{name}.html", page)
    click.echo(f"{len(pages)} {'page' if len(pages) == 1 else 'pages'} in {out}")


@workshop.command("bundle")
@click.option("--out", default="build/workshop", show_default=True, metavar="DIR", help="Where the zips come to.")
@click.option("--data", multiple=True, metavar="NAME", help="Pack mnist or fashion, too; repeatable.")
@click.option("--wheels", is_flag=True, help="Pack everything that has to be installed, for machines like this one.")
@click.option(
    "--solutions", "solved", metavar="DIR", help="Of `snnkit workshop solutions`: packed in a zip of their own."
)
def write_bundle(out: str, data: tuple[str, ...], wheels: bool, solved: str | None) -> None:
    """Pack one zip for a room without a network: notebooks, the wheel of snnkit, pages, checksums.

    Learners unpack it and type `python start.py`.
    """
    from snnkit.tools.project import find
    from snnkit.workshop import bundle

    with _errors():
        project = find()
        made = [bundle.build(project, Path(out), data=data, wheels=wheels)]
        if solved is not None:
            made.append(bundle.build_solutions(project, Path(solved), Path(out)))
    for one in made:
        click.echo(f"{one}  {one.stat().st_size / 1e6:.1f} MB")


@workshop.command()
@click.argument("place", metavar="ZIP|DIR", type=click.Path(exists=True, path_type=Path))
@click.option("--run", "names", multiple=True, metavar="NB", help="Execute this notebook of an unpacked bundle, too.")
@click.option("--out", default="build", show_default=True, metavar="DIR", help="For executed copies.")
def verify(place: Path, names: tuple[str, ...], out: str) -> None:
    """Prove that a bundle, packed or unpacked, is as it was made; with --run, that its notebooks run here, too.

    Exit code 1 if a file is missing or other than it was, or a notebook fails.
    """
    from snnkit.workshop import bundle

    with _errors():
        files, others = bundle.verify(place)
        click.echo(f"{files} files are as they were packed; {len(others)} more are there")
        if names:
            if not place.is_dir():
                raise click.UsageError("--run needs a bundle that is unpacked")
            bundle.run(place.resolve(), names, Path(out), click.echo)
