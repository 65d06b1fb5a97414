"""Builds the site: pages and executed notebooks copied into a folder, and Sphinx with ``docs/conf.py`` over it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from snnkit import checks, files
from snnkit.tools import static_pages
from snnkit.tools.project import Project, ProjectError

_EMBEDDED = re.compile(r'<img width="760" alt="([^"]*)" src="data:[^"]*" data-file="([^"]*)">')


def build(project: Project, out: Path, copies: Path, echo: Callable[[str], None] = print) -> Path:
    """The site's first page, ``out/html/index.html``. A former site is replaced only by one without a fault.

    Args:
        copies: folder of the notebooks to show, as ``snnkit run`` leaves it, or the project's own.
        echo: gets a line for each step.

    Raises:
        ProjectError: a notebook is missing there, or Sphinx warns: also of links within the site that lead nowhere.
    """
    if missing := [name for name in project.names() if not (copies / f"{name}.ipynb").is_file()]:
        raise ProjectError(f"not in {copies}: {', '.join(missing)}; `snnkit run` makes executed notebooks")
    source, fresh = out / "source", out / "html.new"
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(fresh, ignore_errors=True)
    _stage(project, copies, source)
    echo("building the pages")
    # In a process of its own: Sphinx changes locale, warnings and logging of the one it runs in.
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going"]
    places = ["-c", str(project.root / "docs"), "-d", str(out / "doctrees"), str(source), str(fresh)]
    done = subprocess.run([*command, *places], capture_output=True, text=True)
    if done.returncode:
        missing = "No module named" in done.stderr
        why = f"needs Sphinx: {checks.pip_install('site')}" if missing else "has faults"
        raise ProjectError(f"the site {why}:\n{done.stderr.strip()}")
    shutil.copyfile(fresh / "README.html", fresh / "index.html")
    for name, text in static_pages.scripts().items():
        files.write_text(fresh / "_static" / name, text)
    shutil.rmtree(out / "html", ignore_errors=True)
    fresh.rename(out / "html")
    return out / "html" / "index.html"


def _stage(project: Project, copies: Path, folder: Path) -> None:
    """Copy the pages to the places that they have in the project, with the pictures in ``docs``."""
    import nbformat

    pages = [path for path in (project.root / "workshop").rglob("*.md") if "solutions" not in path.parts]
    pages += [project.root / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG")]
    pages += [path for path in (project.root / "docs").glob("*") if path.suffix in (".png", ".gif", ".md")]
    for path in pages:
        target = folder / path.relative_to(project.root)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        if path.suffix == ".md":
            target.write_text(static_pages.badges_in_words(path.read_text("utf-8")), encoding="utf-8")
    (folder / "notebooks").mkdir()
    if (drawings := project.notebooks / "drawings").is_dir():
        shutil.copytree(drawings, folder / "notebooks" / "drawings", ignore=shutil.ignore_patterns("*.webp", "*.css"))
    for name in project.names():
        notebook = static_pages.read(copies / f"{name}.ipynb")
        for cell in notebook.cells:  # the drawing itself, which has colours for dark pages, too
            cell.source = _EMBEDDED.sub(r"![\1](\2)", cell.source)
        nbformat.write(notebook, folder / "notebooks" / f"{name}.ipynb")
