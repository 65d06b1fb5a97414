"""Notebooks run with their solutions, and hide no error; tests/colab runs each as a learner finds it."""

from __future__ import annotations

import json
import re

import nbformat
import pytest

from snnkit.lab.tools import notebook_client, runner
from snnkit.lab.tools.project import find

from ..colours import in_notebook
from .told import told

PROJECT = find()
REPORT = json.loads((PROJECT.root / "workshop" / "quick_runs" / "00_to_21.json").read_text(encoding="utf-8"))
# With solutions the others compute what they compute without (`attempt` returns the reference): see tests/colab.
SHORT = [one["name"] for one in REPORT["notebooks"] if one["seconds"] < 16 or one["name"].startswith("04")]


@pytest.mark.notebook
@pytest.mark.parametrize("name", SHORT)
def test_runs_in_quick_mode(name, tmp_path):
    out = runner.output_folder(PROJECT, tmp_path)
    (result,) = runner.execute_all(PROJECT, runner.prepare(PROJECT, [name], {}, solve=True), out, limit=600)
    assert result.status == "ok", f"cell {result.cell}: {result.error}\n{result.source}\n{result.traceback}"

    copy = out / "notebooks" / f"{name}.ipynb"
    notebook = nbformat.read(copy, as_version=4)
    assert notebook_client.errors_in(notebook) == []
    assert told(notebook.cells) == []
    assert in_notebook(notebook.cells) == []
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code if cell.source.strip()), "not every cell was executed"
    assert any(cell.outputs for cell in code)
    assert copy.stat().st_size < 3_000_000  # with all its figures as pictures, too
    if name.startswith("04"):
        assert accuracy_printed(code) >= 0.95


def accuracy_printed(cells) -> float:
    """The test accuracy that a training notebook prints on a line of its own."""
    printed = [output for cell in cells for output in cell.outputs if output.get("name") == "stdout"]
    text = "\n".join(output.text for output in printed)
    (value,) = re.findall(r"^test accuracy: (\d\.\d+)$", text, re.MULTILINE)
    return float(value)
