"""The command ``snnkit workshop``: what an instructor runs before and during a workshop."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from snnkit.cli import SETTINGS


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

    READY: all notebooks run. LIMITS: they run, with a limit that is named. STOP: mend that first. Exit code: 1 for STOP
    (with --collect: if any machine says so, or a line can't be read), else 0.
    """
    if collect is not None:
        _collect(collect, expect, table)
        return
    if expect is not None or table is not None:
        raise click.UsageError("--expect and --csv go with --collect")
    from snnkit.tools import doctor
    from snnkit.workshop import preflight as check
    from snnkit.workshop.verdict import STOP

    lines = doctor.report()
    try:
        verdict = check.verdict(name, needs, lines)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(verdict.line())
    for fix in check.fixes(lines):
        click.echo(f"  {fix}", err=True)
    sys.exit(verdict.verdict == STOP)


def _collect(place: str, expect: int | None, table: Path | None) -> None:
    from snnkit import files
    from snnkit.workshop import collect
    from snnkit.workshop.problem import WorkshopError
    from snnkit.workshop.verdict import STOP

    try:
        if place == "-":
            lines = sys.stdin.buffer.read().decode(errors="replace").splitlines()
            room = collect.from_lines((f"line {number}", line) for number, line in enumerate(lines, 1))
        else:
            room = collect.from_path(Path(place).expanduser())
    except WorkshopError as error:
        raise click.UsageError(str(error)) from None
    click.echo(collect.text(room, expect))
    if table is not None:
        try:
            files.write_text(table, collect.table(room))
        except OSError as error:
            raise click.ClickException(f"can't write {str(table)!r}: {error.strerror or error}") from None
        click.echo(f"\ntable: {table}")
    sys.exit(bool(room.count(STOP) or room.damaged))


@workshop.command()
def check() -> None:
    """Hold the schedules and facilitator pages to the notebooks; exit code 1 if something does not fit."""
    from snnkit.tools.project import find
    from snnkit.workshop import facilitator, links, material, schedule

    with _told():
        root = (project := find()).root
        known = material.notebooks(project)
    found = material.check(project, known) + facilitator.check(known, facilitator.pages(root))
    problems = sorted({*found, *schedule.check(root, known), *links.check(root)})
    for problem in problems:
        click.echo(str(problem))
    if problems:
        raise click.ClickException(f"{len(problems)} problem{'s' * (len(problems) > 1)} in the workshop's pages")
    plans = schedule.pages(root)
    click.echo(f"{len(plans)} schedules and {len(known)} facilitator pages fit the notebooks")


@workshop.command("schedule")
@click.argument("name", default="")
@click.option("--start", default="09:00", show_default=True, metavar="HH:MM", help="When each day begins.")
def print_schedule(name: str, start: str) -> None:
    """Print a schedule with the times of the clock; without a NAME, the names."""
    import re

    from snnkit.workshop import schedule

    root, known = _project()
    if not name:
        click.echo("\n".join(schedule.pages(root)))
        return
    begins = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", start)
    if not begins:
        raise click.UsageError(f"--start must be a time such as 09:00, but it is {start!r}")
    first = 60 * int(begins[1]) + int(begins[2])
    with _told():
        plan = schedule.load(name, root, known)
    for number, day in enumerate(plan.days, 1):
        if len(plan.days) > 1:
            click.echo(f"Day {number}")
        for item in day:
            at = (first + item.start) % (24 * 60)
            gpu = "" if item.gpu == "off" else f"   [GPU {item.gpu}]"
            click.echo(f"{at // 60:02}:{at % 60:02} {item.minutes:4} min  {schedule.plain(item)}{gpu}")
        at = (first + sum(item.minutes for item in day)) % (24 * 60)
        click.echo(f"{at // 60:02}:{at % 60:02}           end")


@workshop.command("budget")
@click.argument("name")
@click.option("--people", type=click.IntRange(1), default=30, show_default=True, metavar="N", help="With a GPU each.")
def print_budget(name: str, people: int) -> None:
    """GPU hours that a schedule takes, from the rows in which it says that the GPU is on, or may be."""
    from snnkit.workshop import budget, schedule

    root, known = _project()
    with _told():
        plan = schedule.load(name, root, known)
    hours = budget.of(plan, people)
    on, both = plan.gpu_minutes("on"), plan.gpu_minutes("on", "optional")
    click.echo(
        f"{name}, {people} people: {hours.least:.1f} GPU hours ({on} min each), {hours.most:.1f} with what is optional"
    )
    click.echo(
        f"({both} min each, if GPUs are connected where the schedule says on or optional, and given back after it)"
    )


@workshop.command("cheatsheet")
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a page.")
def print_cheatsheet(page: Path | None) -> None:
    """Print the cheatsheet; with --html, write it as one page for a printer or a browser."""
    from snnkit import files
    from snnkit.workshop import cheatsheet

    root, _ = _project(notebooks=False)
    with _told():
        if page is None:
            click.echo((root / cheatsheet.FILE).read_text(encoding="utf-8"))
            return
        content = cheatsheet.html(root)
    try:
        files.write_text(page, content)
    except OSError as error:
        raise click.ClickException(f"can't write {str(page)!r}: {error.strerror or error}") from None
    click.echo(f"page: {page}; it prints on one sheet of A4")


@workshop.command("solutions")
@click.argument("notebooks", nargs=-1, metavar="[NB]...")
@click.option("--out", default="workshop/solutions", show_default=True, metavar="DIR", help="For the executed copies.")
def write_solutions(notebooks: tuple[str, ...], out: str) -> None:
    """Execute notebooks with their solutions, each with its checks and hints below it: the instructor's copies.

    NB is a number (04), a name or a path; all where none is given. Exit code 1 if one fails, or a solution does not
    pass its own checks. Takes some minutes for all.
    """
    from snnkit.tools.project import ProjectError, find
    from snnkit.workshop.problem import WorkshopError
    from snnkit.workshop.solutions import build

    try:
        project = find()
        names = project.select(notebooks)
        build(project, names, Path(out), click.echo)
    except (ProjectError, WorkshopError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"executed: {len(names)}, in {Path(out) / 'notebooks'} and {Path(out) / 'html'}")


@workshop.command("slides")
@click.argument("notebooks", nargs=-1, metavar="[NB]...")
@click.option("--copies", default="build/notebooks", show_default=True, metavar="DIR", help="Executed by `snnkit run`.")
@click.option("--out", default="build/slides", show_default=True, metavar="DIR", help="A page for each notebook.")
def write_slides(notebooks: tuple[str, ...], copies: str, out: str) -> None:
    """Make slides of the cells that are tagged `slide`, with the pictures of executed copies.

    Each page stands alone, needs no network, and prints a slide a page. Arrows turn it.
    """
    from snnkit import files
    from snnkit.tools.project import ProjectError, find
    from snnkit.workshop import slides as making
    from snnkit.workshop.problem import WorkshopError

    try:
        pages = {
            name: making.html(making.read(Path(copies) / f"{name}.ipynb"), name) for name in find().select(notebooks)
        }
        for name, page in pages.items():
            files.write_text(Path(out) / f"{name}.html", page)
    except (ProjectError, WorkshopError, OSError) as error:
        raise click.ClickException(str(error)) from None
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
    from snnkit.tools.project import ProjectError, find
    from snnkit.workshop import bundle as packing
    from snnkit.workshop.problem import WorkshopError

    try:
        project = find()
        made = [packing.build(project, Path(out), data=data, wheels=wheels)]
        if solved is not None:
            made.append(packing.build_solutions(project, Path(solved), Path(out)))
    except (ProjectError, WorkshopError, OSError) as error:
        raise click.ClickException(str(error)) from None
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
    from snnkit.tools.project import ProjectError
    from snnkit.workshop import bundle as packing
    from snnkit.workshop import sealed
    from snnkit.workshop.problem import WorkshopError

    try:
        found = sealed.verify(place)
        click.echo(f"{found.files} files are as they were packed; {len(found.more)} more are there")
        if names:
            if not place.is_dir():
                raise click.UsageError("--run needs a bundle that is unpacked")
            packing.run(place.resolve(), names, Path(out), click.echo)
    except (ProjectError, WorkshopError) as error:
        raise click.ClickException(str(error)) from None


def _project(notebooks: bool = True):
    """The project's folder, and its notebooks by name."""
    from snnkit.tools.project import find
    from snnkit.workshop import material

    with _told():
        project = find()
        return project.root, material.notebooks(project) if notebooks else {}


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """What is wrong with the project or its pages, as a message and no traceback."""
    from snnkit.tools.project import ProjectError
    from snnkit.workshop.problem import WorkshopError

    try:
        yield
    except (ProjectError, WorkshopError) as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"can't read {error.filename}: {error.strerror or error}") from None
