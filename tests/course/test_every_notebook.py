"""What holds for the exercises and the quiz of each notebook, and for the stubs that are in it."""

import ast
import contextlib
import re
from pathlib import Path

import pytest

from snnkit.lab.course import exercises, grade, notebooks, order, question, questions
from tests.course.answers import answers, lacking, module

EVERY = [exercise for notebook in notebooks() for exercise in exercises(notebook)]
SOURCES = Path(__file__).parents[2] / "notebooks" / "src"
HEADING = re.compile(r"^# #+ Exercise (\d\d\.\d+)(?:: | · )(.+?)(?: \((\d+) min(?:utes?)?, ([●○]{3})\))?$", re.M)
CELL = re.compile(r"^# %%(.*)$\n", re.M)


def test_what_has_moved_leads_to_an_exercise_a_prediction_or_a_quiz_of_today():
    known = {*notebooks(), *(exercise.key for exercise in EVERY)}
    known |= {key for notebook in notebooks() for key in question.read(notebook)["predictions"]}
    assert set(order.MOVED.values()) <= known
    assert not order.MOVED.keys() & known and known >= order.REPLACED  # else today's could not be reached


@pytest.mark.parametrize("exercise", EVERY, ids=lambda exercise: exercise.key)
def test_the_reference_passes_every_check(exercise):
    outcome = grade(exercise, exercise.reference)
    assert (outcome.status, outcome.passed) == ("passed", len(exercise.checks)), outcome


@pytest.mark.parametrize("exercise", EVERY, ids=lambda exercise: exercise.key)
def test_there_are_wrong_and_right_answers_enough(exercise):
    assert lacking(exercise, answers(exercise)) == []


@pytest.mark.parametrize("notebook", notebooks())
def test_no_answers_are_kept_for_an_exercise_that_is_gone(notebook):
    known = {int(exercise.key.rpartition(".")[2]) for exercise in exercises(notebook)}
    tables = module(notebook)
    assert tables is not None, f"tests/course/answers/{notebook}.py is missing"
    assert set(tables.WRONG) == set(tables.RIGHT) == set(tables.STUBS) == known


@pytest.mark.parametrize("notebook", notebooks())
def test_a_quiz_can_not_be_passed_by_always_choosing_alike(notebook):
    quizzes = [question["choices"] for question in questions(notebook)]
    assert len(quizzes) == 3 and len({[choice["right"] for choice in choices].index(True) for choices in quizzes}) > 1
    assert any(not max(choices, key=lambda choice: len(choice["text"]))["right"] for choices in quizzes)


def source(notebook):
    (path,) = SOURCES.glob(f"??_{notebook}.py")
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
def test_the_title_of_a_notebook_is_the_one_on_certificates(notebook):
    (title,) = re.findall(r"^# # \d\d · ([^:\n]+)", source(notebook), re.M)
    assert title == order.TITLES[notebook]


@pytest.mark.parametrize("notebook", notebooks())
def test_headings_say_what_cards_say(notebook):
    known = {order.label(exercise.key): exercise for exercise in exercises(notebook)}
    found = HEADING.findall(source(notebook))
    assert len(found) >= 2
    for key, title, minutes, circles in found:
        assert title.lower() == known[key].title.lower()
        assert not minutes or (int(minutes), circles.count("●")) == (known[key].minutes, known[key].difficulty)
