"""Every exercise tells wrong answers from right ones: each mistake meets its check and its hint, each other way passes.

The answers themselves are in ``tests/course/answers``.
"""

import inspect
from pathlib import Path

import numpy as np
import pytest
import torch

from snnkit.lab.course import exercises, grade, notebooks, order
from snnkit.lab.tools.project import find
from snnkit.lab.workshop import timetable
from tests.course.answers import answers, named

EVERY = [(exercise, answers(exercise)) for notebook in notebooks() for exercise in exercises(notebook)]


def _cases(kind):
    """Exercise and answer of every row, with a name for the test."""
    cases = []
    for exercise, table in EVERY:
        for number, row in enumerate(getattr(table, kind), start=1):
            name = row.name if kind == "wrong" else named(row)
            cases.append(pytest.param(exercise, row, id=f"{exercise.key}-{number}-{name}"))
    return cases


@pytest.fixture(autouse=True)
def random_state():
    """Some answers seed PyTorch, which is their mistake."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(12345)  # none that an answer sets
        yield


@pytest.mark.parametrize(("exercise", "mistake"), _cases("wrong"))
def test_a_mistake_fails_its_check_with_its_hint(exercise, mistake):
    outcome = grade(exercise, mistake.answer)
    assert (outcome.status, outcome.check) == ("failed", mistake.check), outcome
    if isinstance(mistake.hint, str):
        assert mistake.hint in outcome.hint
    else:
        assert outcome.hint == ("" if mistake.hint is None else exercise.hints[mistake.hint]), outcome


def test_what_a_facilitator_page_calls_a_common_mistake_fails_its_check():
    failing = {(order.label(exercise.key), mistake.check) for exercise, table in EVERY for mistake in table.wrong}
    columns = ("exercise", "what they do", "check that fails", "what to answer")
    for page in timetable.pages(find(Path(__file__).parent).root, timetable.FACILITATOR).values():
        (rows,) = timetable.tables(page, columns)
        unknown = [cells for _, cells in rows if (cells["exercise"], cells["check that fails"]) not in failing]
        assert rows and unknown == []


@pytest.mark.parametrize(("exercise", "answer"), _cases("right"))
def test_other_right_answers_pass(exercise, answer):
    outcome = grade(exercise, answer)
    assert (outcome.status, outcome.passed) == ("passed", len(exercise.checks)), outcome


@pytest.mark.parametrize(("exercise", "stub"), _cases("stubs"))
def test_stubs_are_to_do(exercise, stub):
    assert grade(exercise, stub).status == "to do"


# --- answers of the wrong kind: the card says so in a sentence, and the notebook goes on ---

FUNCTIONS = [e for e, _ in EVERY if inspect.isfunction(e.reference)]
CLASSES = [e for e, _ in EVERY if inspect.isclass(e.reference)]
VALUES = [e for e, _ in EVERY if not callable(e.reference)]

# What a function may return by mistake.
ODD = {
    "a text": "spikes",
    "not a number": float("nan"),
    "a complex number": 2j,
    "a tensor of nothing": torch.zeros(0),
    "a tensor elsewhere": torch.zeros(3, device="meta"),
    "a number elsewhere": torch.zeros((), device="meta"),
    "two texts": ("one", "two"),
    "a list and a text": ([0, 1], "half"),
    "an array of objects": np.array([None, {}], dtype=object),
    "a function": print,
    "a generator": (number for number in range(3)),
    "an instance": object(),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("exercise", FUNCTIONS, ids=lambda exercise: exercise.key)
def test_a_function_that_gives_something_odd(exercise, odd):
    outcome = grade(exercise, lambda *args, **kwargs: ODD[odd])
    assert outcome.status == "failed" and outcome.message
    assert "could not be checked" not in outcome.message, outcome


def test_functions_that_take_other_arguments():
    for exercise in FUNCTIONS:
        outcome = grade(exercise, lambda one, two, three, four, five, six, seven, eight: one)
        assert outcome.status == "failed" and "argument" in outcome.message, outcome


class Empty:
    pass


class WithoutForward(torch.nn.Module):
    def __init__(self, *_, **__):
        super().__init__()


@pytest.mark.parametrize("odd", [Empty, WithoutForward, dict, object()], ids=lambda o: getattr(o, "__name__", "object"))
@pytest.mark.parametrize("exercise", CLASSES, ids=lambda exercise: exercise.key)
def test_a_class_that_is_another(exercise, odd):
    outcome = grade(exercise, odd)
    assert outcome.status == "failed" and outcome.message


@pytest.mark.parametrize(
    "odd",
    [{}, 0, "", "20", [], [[]], object(), torch.zeros(3), float("nan")],
    ids=lambda odd: f"{type(odd).__name__}-{odd}" if type(odd) is not object else "object",
)
@pytest.mark.parametrize("exercise", VALUES, ids=lambda exercise: exercise.key)
def test_a_value_of_another_kind(exercise, odd):
    outcome = grade(exercise, odd)
    assert outcome.status == "failed" and outcome.message
