"""The exercises as they stand in the notebooks: a stub for each, which is to do, under a heading that fits."""

import ast
import contextlib
import re
from pathlib import Path

import pytest

from snnkit.course import exercises, grade, notebooks

SOURCES = Path(__file__).parents[2] / "notebooks" / "src"
HEADING = re.compile(r"^# #+ Exercise (\d\d\.\d+)(?:: | · )(.+?)(?: \((\d+) min(?:utes)?, ([●○]{3})\))?$", re.M)
CELL = re.compile(r"^# %%(.*)$\n", re.M)


def source(notebook):
    (path,) = SOURCES.glob(f"{notebook}_*.py")
    return path.read_text(encoding="utf-8")


def stubs(notebook):
    """Key to the answer that the notebook hands to ``attempt`` before a learner has written anything."""
    text, found = source(notebook), {}
    namespace = {"__name__": "__main__"}
    for node in ast.parse(text).body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            with contextlib.suppress(ModuleNotFoundError):  # written by an earlier cell
                exec(compile(ast.Module([node], []), notebook, "exec"), namespace)
    namespace["attempt"] = found.setdefault
    _, *cells = CELL.split(text)
    for tags, cell in zip(cells[::2], cells[1::2], strict=True):
        if '"exercise"' in tags:
            exec(compile(cell, notebook, "exec"), namespace)
    return found


@pytest.mark.parametrize("notebook", notebooks())
def test_each_exercise_stands_in_its_notebook_as_a_stub(notebook):
    found = stubs(notebook)
    assert list(found) == [exercise.key for exercise in exercises(notebook)]
    assert {key: grade(key, stub).status for key, stub in found.items()} == dict.fromkeys(found, "to do")


@pytest.mark.parametrize("notebook", notebooks())
def test_headings_say_what_cards_say(notebook):
    known = {exercise.key: exercise for exercise in exercises(notebook)}
    found = HEADING.findall(source(notebook))
    assert len(found) >= 2
    for key, title, minutes, circles in found:
        assert title.lower() == known[key].title.lower()
        assert not minutes or (int(minutes), circles.count("●")) == (known[key].minutes, known[key].difficulty)
