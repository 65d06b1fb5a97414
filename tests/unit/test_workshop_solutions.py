"""The instructor's notebooks."""

from __future__ import annotations

import nbformat
import pytest

from snnkit.tools import pair
from snnkit.tools.project import find
from snnkit.workshop import bundle
from snnkit.workshop.problem import WorkshopError
from snnkit.workshop.solutions import annotated, build
from tests.unit import tiny_project


def test_each_exercise_is_followed_by_its_solution_checks_and_hints():
    cells = annotated(pair.notebook(find(), "01_first_spiking_neuron"))
    at = next(i for i, cell in enumerate(cells) if 'attempt("01.1"' in cell.source)
    page = cells[at + 1]
    assert page.cell_type == "markdown" and page.id == "solution-01-1"
    from snnkit.course import exercise as registry

    exercise = registry.find("01.1")
    assert f"def {exercise.reference.__name__}" in page.source
    assert all(hint in page.source for hint in exercise.hints)
    assert all(check.name in page.source for check in exercise.checks)
    nbformat.validate(nbformat.v4.new_notebook(cells=cells))


def test_they_run_solved_and_a_solution_that_fails_is_named(tmp_path):
    said = []
    failing = 'if SOLVE: raise RuntimeError("the reference of exercise 01.1 does not pass its own checks")'
    project = tiny_project.make(tmp_path / "kit", {"00_good": "print('solved', SOLVE)", "01_bad": failing})
    with pytest.raises(
        WorkshopError, match=r"no solutions of 01_bad, cell 4: RuntimeError: the reference of exercise 01\.1"
    ):
        build(project, project.names(), tmp_path / "out", said.append)
    assert any(line.startswith("00_good: ok") for line in said)
    assert "solved True" in (tmp_path / "out" / "notebooks" / "00_good.ipynb").read_text()
    assert (tmp_path / "out" / "html" / "00_good.html").is_file()


def test_solutions_are_packed_only_when_they_are_complete(tmp_path):
    project = tiny_project.make(tmp_path / "kit", {"00_good": "pass", "01_more": "pass"})
    (project.root / "workshop").mkdir()
    (project.root / "workshop" / "README.md").write_text("# Run of show")
    solutions = tmp_path / "solutions"
    (solutions / "notebooks").mkdir(parents=True)
    (solutions / "notebooks" / "00_good.ipynb").write_text("{}")
    with pytest.raises(WorkshopError, match="has no solutions of all notebooks: run `snnkit workshop solutions`"):
        bundle.build_solutions(project, solutions, tmp_path)
    (solutions / "notebooks" / "01_more.ipynb").write_text("{}")
    packed = bundle.build_solutions(project, solutions, tmp_path)
    from snnkit.workshop.sealed import verify

    assert verify(packed).files == 3
