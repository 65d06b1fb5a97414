"""The command ``snnkit course``: hand in progress, and look at a room."""

from __future__ import annotations

from pathlib import Path

import click

from snnkit.cli import SETTINGS


@click.group(context_settings=SETTINGS)
def course() -> None:
    """Progress in the notebooks: hand in your own, look at a room's."""


@course.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--name", default="", help="Name or nickname. Default: the file's name without its ending.")
def export(file: Path, name: str) -> None:
    """Write your progress in all notebooks to FILE (JSON): results and counts, no answers."""
    from snnkit.course import progress

    try:
        click.echo(f"progress: {progress.export(file, name)}")
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"can't write {str(file)!r}: {error.strerror or error}") from None


@course.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--html", "page", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write a page.")
def board(folder: Path, page: Path | None) -> None:
    """Show the progress of all learners whose exported file is in FOLDER."""
    from snnkit.course import class_report
    from snnkit.files import write_text

    room = class_report.room(folder)
    click.echo(repr(room))
    if page is None:
        return
    try:
        write_text(page, room.html())
    except OSError as error:
        raise click.ClickException(f"can't write {str(page)!r}: {error.strerror or error}") from None
    click.echo(f"\npage: {page}")
