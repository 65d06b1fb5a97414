"""Every notebook runs with Colab's versions under Colab's kernel, and its widgets are such as Colab can show."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from snnkit.lab.tools.project import find
from tests.colours import in_notebook
from tests.notebooks.told import contradicted, told

from .environment import CORE, PINS, pins_in
from .notebook import Colab

PROJECT = find()
NOT_ON_COLAB = ["jupyterlab", "kaleido", "playwright"]
CORE_WIDGETS = {"@jupyter-widgets/base", "@jupyter-widgets/controls", "@jupyter-widgets/output"}
CHOICES = ("DropdownModel", "SelectionSliderModel", "ToggleButtonsModel")
CONTROLS = ("FloatSliderModel", "IntSliderModel", *CHOICES)
PICTURES = ("data:image/png", "<iframe")  # what HTML widgets hold: a picture, or a page of its own with frames
# What `importlib.metadata` says and what can be imported, from inside the environment.
INSIDE = """
import importlib.metadata, importlib.util, json, sys
versions = {name: importlib.metadata.version(name) for name in sys.argv[1].split()}
print(json.dumps([versions, [name for name in sys.argv[2].split() if importlib.util.find_spec(name) is None]]))
"""


def test_the_environment_has_the_versions_of_colab_and_lacks_what_colab_lacks(colab):
    pins = dict(pin.split("==") for pin in pins_in(PINS.read_text(encoding="utf-8")))
    wanted = {name: version for name, version in pins.items() if name.lower() not in colab.left_out}
    assert set(CORE) <= set(wanted)
    command = [colab.python, "-c", INSIDE, " ".join(wanted), " ".join(NOT_ON_COLAB)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL)
    versions, lacking = json.loads(done.stdout)
    assert versions == wanted
    assert lacking == NOT_ON_COLAB


@pytest.mark.notebook
@pytest.mark.parametrize("name", PROJECT.names())
def test_runs_on_colab_and_answers_when_a_control_moves(name, colab, tmp_path):
    notebook = Colab(PROJECT.pair(name), colab.python, tmp_path, timeout=240)
    with notebook.kernel():
        notebook.run_all()
        assert notebook.problems() == []
        assert told(notebook.nb.cells) == contradicted(notebook.nb.cells) == []
        assert in_notebook(notebook.nb.cells) == []
        code = [cell for cell in notebook.nb.cells if cell.cell_type == "code" and cell.source.strip()]
        assert all(cell.execution_count for cell in code), "not every cell was executed"
        # FigureWidget and its like need a manager that Colab has to fetch, and often doesn't.
        assert {state["_model_module"] for state in notebook.widget_state.values()} <= CORE_WIDGETS
        move_a_control_of_each_explorer(notebook)
        assert notebook.problems() == []


def asks_for_an_explorer(cell) -> bool:
    return re.search(r"^viz\.(explore|explorers\.\w+)\(", cell.source, re.MULTILINE) is not None


def shows_a_picture(state) -> bool:
    return any(sign in str(state.get("value")) for sign in PICTURES)


def shows_another_form(cell, models) -> bool:
    """Whether an explorer shows something that isn't a figure, or lives without a kernel."""
    if any(state["_model_name"] == "OutputModel" and state["outputs"] for state in models.values()):
        return True
    pages = [output.get("data", {}).get("text/html", "") for output in cell.outputs]
    return any("Plotly.addFrames" in page or 'class="snn explorer"' in page for page in pages)


def move_a_control_of_each_explorer(notebook: Colab) -> None:
    """From where it stands to its far end: the picture beside it must change."""
    for index, cell in enumerate(notebook.nb.cells):
        models = notebook.models(index) if cell.cell_type == "code" else {}
        pictures = [model for model, state in models.items() if shows_a_picture(state)]
        controls = [model for model, state in models.items() if state["_model_name"] in CONTROLS]
        if not (pictures and controls):
            assert not asks_for_an_explorer(cell) or shows_another_form(cell, models), f"no explorer in\n{cell.source}"
            continue
        before, control = notebook.value(pictures[0]), models[controls[0]]
        far = far_end(control)
        notebook.move(controls[0], far)
        changed = notebook.wait(lambda picture=pictures[0], old=before: notebook.value(picture) != old, index, 60)
        assert changed, f"{control['description']} went to {far}, and the picture stayed in\n{cell.source}"


def far_end(control) -> dict[str, float]:
    """What a front end sends when a slider or a choice is moved to the end where it is not."""
    if control["_model_name"] in CHOICES:
        last = len(control["_options_labels"]) - 1
        return {"index": last if control["index"] < last else 0}
    return {"value": max(control["min"], control["max"], key=lambda end: abs(end - control["value"]))}
