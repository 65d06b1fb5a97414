"""Builds the site: pages and executed notebooks copied into a folder, and Sphinx with ``docs/conf.py`` over it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from snnkit.tools import pair, runner
from snnkit.tools.project import Project, ProjectError

if TYPE_CHECKING:
    from nbformat import NotebookNode

WIDGET, PLOT = "application/vnd.jupyter.widget-view+json", "application/vnd.plotly.v1+json"


def build(project: Project, out: Path, *, run: bool = True, echo: Callable[[str], None] = print) -> Path:
    """The site's first page, ``out/html/index.html``. A former site is replaced only by one without a fault.

    Args:
        run: show executed notebooks: the copies that ``snnkit run`` left beside ``out``, and others run now. False: as
            they are in the project, without outputs.
        echo: gets a line for each step.

    Raises:
        ProjectError: a notebook fails, or Sphinx warns: also of links within the site that lead nowhere.
    """
    copies = out.parent / "notebooks" if run else project.notebooks
    if run:
        _execute(project, copies, echo)
    source, fresh = out / "source", out / "html.new"
    shutil.rmtree(source, ignore_errors=True)
    shutil.rmtree(fresh, ignore_errors=True)
    _stage(project, copies, source)
    echo("building the pages")
    # In a process of its own: Sphinx changes locale, warnings and logging of the one it runs in.
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-b",
        "html",
        "-q",
        "-W",
        "--keep-going",
        "-c",
        str(project.root / "docs"),
    ]
    done = subprocess.run(
        [*command, "-d", str(out / "doctrees"), str(source), str(fresh)], capture_output=True, text=True
    )
    if done.returncode:
        missing = "No module named" in done.stderr
        why = "needs Sphinx: pip install 'snnkit[site]'" if missing else "has faults"
        raise ProjectError(f"the site {why}:\n{done.stderr.strip()}")
    shutil.copyfile(fresh / "README.html", fresh / "index.html")
    shutil.rmtree(out / "html", ignore_errors=True)
    fresh.rename(out / "html")
    return out / "html" / "index.html"


def _execute(project: Project, copies: Path, echo: Callable[[str], None]) -> None:
    """Run the notebooks whose copies are missing, failed, or of another text than their sources."""
    stale = [name for name in project.names() if not is_current(project, copies / f"{name}.ipynb", name)]
    if not stale:
        return
    echo(f"executing {len(stale)} notebooks first: {', '.join(stale)}")
    folder = runner.output_folder(project, copies.parent)
    results = runner.execute_all(
        project, runner.prepare(project, stale, {}), folder, on_result=lambda one: echo(f"{one.name}: {one.status}")
    )
    if failed := [f"{one.name}, cell {one.cell}: {one.error}" for one in results if one.status != "ok"]:
        raise ProjectError("a site shows no notebook that fails: " + "; ".join(failed))


def is_current(project: Project, path: Path, name: str) -> bool:
    """Whether an executed copy is whole, without errors, and of the same text as the source of notebook ``name``."""
    import nbformat

    try:
        cells = nbformat.read(path, as_version=4).cells
    except Exception:  # missing, cut off, of another format
        return False
    cells = [cell for cell in cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    failed = any(output.output_type == "error" for cell in cells for output in cell.get("outputs", []))
    code = [cell for cell in cells if cell.cell_type == "code" and cell.source.strip()]
    same = [c.source for c in cells] == [c.source for c in pair.notebook(project, name).cells]
    return same and not failed and all(cell.execution_count is not None for cell in code)


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
    (folder / "notebooks").mkdir()
    for name in project.names():
        nbformat.write(without_widgets(copies / f"{name}.ipynb"), folder / "notebooks" / f"{name}.ipynb")


def without_widgets(path: Path) -> NotebookNode:
    """An executed notebook without what a page can't show: widgets, which need a kernel, and plots with a picture.

    A page with ten interactive plots takes seconds to open, and plotly's script is on another server.
    """
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        shown = []
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if WIDGET not in data or {"image/png", "text/html"} & data.keys():
                shown.append(output)
            data.pop(WIDGET, None)
            if "image/png" in data:
                data.pop(PLOT, None)
        if cell.cell_type == "code":
            cell.outputs = shown
    return notebook
