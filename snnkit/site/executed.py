"""Executed notebooks for the site: those that a run left, where they are still what their sources say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from snnkit.tools import pair
from snnkit.tools.project import Project, ProjectError

if TYPE_CHECKING:
    from nbformat import NotebookNode

WIDGET, PLOT = "application/vnd.jupyter.widget-view+json", "application/vnd.plotly.v1+json"


def stale(project: Project, folder: Path, names: Sequence[str]) -> list[str]:
    """Those of ``names`` whose executed copy in ``folder`` is missing, failed, or of another text than the source."""
    return [name for name in names if not _current(project, folder / f"{name}.ipynb", name)]


def execute(project: Project, names: Sequence[str], out: Path, told: Callable[[str], None]) -> None:
    """Run notebooks in QUICK mode; the copies come to ``out/notebooks``.

    Raises:
        ProjectError: one of them fails; it names the notebook, the cell and the error.
    """
    from snnkit.tools import runner

    jobs = runner.prepare(project, names, {})
    results = runner.execute_all(
        project,
        jobs,
        runner.output_folder(project, out),
        on_result=lambda result: told(f"{result.name}: {result.status}"),
    )
    failed = [f"{one.name}, cell {one.cell}: {one.error}" for one in results if one.status != "ok"]
    if failed:
        raise ProjectError("a site shows no notebook that fails: " + "; ".join(failed))


def read(path: Path) -> NotebookNode:
    """An executed notebook without what a page can't show: widgets, which need a kernel, plots beside their pictures.

    Plots are shown as pictures: a page with ten live ones takes seconds to open, and plotly's script is on another
    server.
    """
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.pop("widgets", None)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if _can_be_shown(output)]
            for output in cell.outputs:
                data = output.get("data", {})
                data.pop(WIDGET, None)
                if "image/png" in data:
                    data.pop(PLOT, None)
    return notebook


def _can_be_shown(output: NotebookNode) -> bool:
    data = output.get("data", {})
    return WIDGET not in data or bool({"image/png", "text/html"} & data.keys())


def _current(project: Project, path: Path, name: str) -> bool:
    import nbformat

    try:
        copy = nbformat.read(path, as_version=4)
    except Exception:  # missing, cut off, of another format: it is made anew
        return False
    ran = [cell for cell in copy.cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    sources = [(cell.cell_type, cell.source) for cell in pair.notebook(project, name).cells]
    failed = any(output.output_type == "error" for cell in ran for output in cell.get("outputs", []))
    finished = all(cell.execution_count is not None for cell in ran if cell.cell_type == "code" and cell.source.strip())
    return finished and not failed and [(cell.cell_type, cell.source) for cell in ran] == sources
