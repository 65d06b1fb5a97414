"""Each notebook and its source are in sync and have the skeleton that every notebook has."""

from __future__ import annotations

import json
import re

import pytest

from snnkit.tools import pair, parameters
from snnkit.tools.pair import colab_url
from snnkit.tools.project import find

PROJECT = find()
NAMES = PROJECT.names()
each_notebook = pytest.mark.parametrize("name", NAMES)


@pytest.fixture
def notebook(name):
    return json.loads(PROJECT.pair(name).read_text(encoding="utf-8"))


def test_the_first_five_notebooks_exist_and_none_is_without_a_source():
    assert [name[:2] for name in NAMES[:5]] == ["00", "01", "02", "03", "04"]
    assert PROJECT.orphans() == []


@each_notebook
def test_build_would_change_nothing(name):
    assert [str(found) for found in pair.check(PROJECT, name)] == []


@each_notebook
def test_the_badge_comes_first_then_bootstrap_and_parameters_and_nothing_of_a_run(name, notebook):
    first, *rest = notebook["cells"]
    assert first["metadata"]["tags"] == ["badge"] and colab_url(PROJECT, name) in "".join(first["source"])
    code = [cell for cell in rest if cell["cell_type"] == "code"]
    assert set(notebook["metadata"]) == {"kernelspec"} and notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert code[0]["metadata"] == {"cellView": "form", "tags": ["bootstrap"]}
    assert code[1]["metadata"]["tags"] == ["parameters"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert PROJECT.pair(name).stat().st_size < 200_000
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)


@each_notebook
def test_parameters_are_typed_literals_with_the_two_switches(name):
    known = parameters.declared(pair.notebook(PROJECT, name), name)
    assert (known["QUICK"].kind, known["QUICK"].default) == (bool, True)
    assert (known["SOLVE"].kind, known["SOLVE"].default) == (bool, False)


@each_notebook
def test_nothing_is_upgraded_in_a_notebook(name, notebook):
    others = [cell for cell in notebook["cells"] if cell["metadata"].get("tags") != ["bootstrap"]]
    text = "\n".join("".join(cell["source"]) for cell in others if cell["cell_type"] == "code")
    assert not re.search(r"(?m)^\s*[!%]\s*(pip|conda|apt)", text)
