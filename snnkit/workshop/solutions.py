"""Executed instructor's notebooks: every exercise solved, its source and all its hints below it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from snnkit.tools import run_report, runner
from snnkit.tools.project import Project

from .problem import WorkshopError

if TYPE_CHECKING:
    from nbformat import NotebookNode

KEY = re.compile(r'\battempt\(\s*"(\d\d\.\d+)"')


def build(project: Project, names: Sequence[str], out: Path, told: Callable[[str], None]) -> None:
    """Run the notebooks with their solutions; ``out/notebooks`` and ``out/html`` get the copies.

    Raises:
        WorkshopError: a notebook fails, be it a check of an exercise that its own solution does not pass; all such are
            named, with cell and error, after the others were made.
    """
    jobs = runner.prepare(project, names, {}, solve=True)
    for job in jobs:
        job.notebook.cells = annotated(job.notebook)
    folder = runner.output_folder(project, out)

    def note(result: runner.Result) -> None:
        told(f"{result.name}: {result.status}, {result.seconds:.0f} s")
        run_report.render_copy(folder, result.name)

    results = runner.execute_all(project, jobs, folder, on_result=note)
    failed = [f"{one.name}, cell {one.cell}: {one.error}" for one in results if one.status != "ok"]
    if failed:
        raise WorkshopError("no solutions of " + "; ".join(failed))


def annotated(notebook: NotebookNode) -> list[NotebookNode]:
    """The cells of a notebook, with a page for the instructor after each exercise."""
    import nbformat

    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        for key in KEY.findall(cell.source) if cell.cell_type == "code" else ():
            page = nbformat.v4.new_markdown_cell(_page(key))
            page.id = f"solution-{key.replace('.', '-')}"
            cells.append(page)
    return cells


def _page(key: str) -> str:
    from snnkit.course import attempts
    from snnkit.course import exercise as registry

    exercise = registry.find(key)
    checks = "\n".join(f"1. {check.name}" for check in exercise.checks)
    hints = "\n".join(f"1. {hint}" for hint in exercise.hints)
    return (
        f"> **For the instructor: {exercise.key} {exercise.title}** ({exercise.minutes} minutes)\n\n"
        f"```python\n{attempts.source(exercise)}\n```\n\n"
        f"What is checked, in this order:\n\n{checks}\n\nThe hints, as they open:\n\n{hints}"
    )
