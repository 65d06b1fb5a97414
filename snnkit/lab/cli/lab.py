"""The command ``snnkit lab``: the notebooks in a folder of the learner's, open in JupyterLab."""

from __future__ import annotations

import contextlib
import shutil
from importlib.util import find_spec
from pathlib import Path

import click

import snnkit
from snnkit import checks, files
from snnkit.lab.cli import SETTINGS, errors
from snnkit.lab.tools.project import MARK, Copies, ProjectError, carried, find_notebooks

SUGGESTED = "snnkit-notebooks"
REMEMBERED = "lab.txt"  # in the user's cache: the folder of the last time


@click.command(context_settings=SETTINGS)
@click.option("--to", metavar="FOLDER", help="Folder for the notebooks.  [the one of the last time, or asks]")
@click.option("--no-open", is_flag=True, help="Copy the notebooks, and do not open JupyterLab.")
def lab(to: str | None, no_open: bool) -> None:
    """Copy the notebooks into a folder, and open it in JupyterLab.

    The folder is new or empty: nothing is overwritten. Called again, it opens the folder that it made, with the
    notebooks as you left them.
    """
    if not no_open and find_spec("jupyterlab") is None:
        raise click.ClickException(f"JupyterLab is missing here: {checks.pip_install('course')}")
    with errors(ProjectError):
        folder = _made_before() if to is None else files.expanded(to)
        if folder is None:
            folder = files.expanded(_prompted_folder())
        folder = folder.resolve()
        new = not (folder / MARK).is_file()
        if new:
            _copy(folder)
        version = (folder / MARK).read_text(encoding="utf-8").strip()
        with contextlib.suppress(OSError):  # no home folder, or a full disk: then it asks the next time
            files.write_text(files.user_cache() / REMEMBERED, f"{folder}\n")
    names = Copies(folder).names()
    click.echo(f"{len(names)} notebooks {'copied to' if new else 'are in'} {folder}")
    if version != snnkit.__version__:
        click.echo(f"They are of snnkit {version}; `snnkit lab --to NEW_FOLDER` copies those of {snnkit.__version__}")
    if not no_open:
        from jupyterlab.labapp import main

        # The first notebook, the first time; later JupyterLab opens what was open.
        main([str(folder / f"{names[0]}.ipynb") if new else str(folder)])


def _made_before() -> Path | None:
    """The folder of an earlier call: at or above the current one, or that of the last time."""
    with contextlib.suppress(ProjectError):
        if isinstance(notebooks := find_notebooks(), Copies):
            return notebooks.root
    with contextlib.suppress(OSError, UnicodeDecodeError):
        folder = Path((files.user_cache() / REMEMBERED).read_text(encoding="utf-8").strip())
        if (folder / MARK).is_file():
            return folder
    return None


def _prompted_folder() -> str:
    try:
        return click.prompt("Folder for the notebooks", default=SUGGESTED)
    except click.Abort:  # no terminal to answer in; or Ctrl-C
        raise click.UsageError("no folder for the notebooks was given: snnkit lab --to FOLDER") from None


def _copy(folder: Path) -> None:
    """Copy the notebooks into a new or empty folder; if that fails, it is as it was before."""
    new = not folder.exists()
    if not new and not folder.is_dir():
        raise ProjectError(f"the notebooks need a folder, but {folder} is a file")
    if not new and (there := sorted(path.name for path in folder.iterdir())):
        listed = checks.cut(", ".join(there[:3]))
        raise ProjectError(f"{folder} is not empty ({listed}), and nothing is overwritten: name a new folder by --to")
    source = carried()
    try:
        for notebook in [*source.glob("[0-9][0-9]_*.ipynb"), *source.glob("workers/*.ipynb")]:
            target = folder / notebook.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(notebook, target)  # without its mode, which may be read-only
        files.write_text(folder / MARK, f"{snnkit.__version__}\n")  # last: a folder with it is whole
    except BaseException:
        for path in folder.iterdir() if folder.is_dir() else ():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if new and folder.is_dir():
            folder.rmdir()
        raise
