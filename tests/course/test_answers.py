"""Every exercise tells wrong answers from right ones: each mistake meets its check and its hint, each other way passes.

The answers themselves are in ``tests/course/answers``.
"""

import pytest
import torch

from snnkit.course import exercises, grade, notebooks
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


@pytest.mark.parametrize(("exercise", "answer"), _cases("right"))
def test_other_right_answers_pass(exercise, answer):
    outcome = grade(exercise, answer)
    assert (outcome.status, outcome.passed) == ("passed", len(exercise.checks)), outcome


@pytest.mark.parametrize(("exercise", "stub"), _cases("stubs"))
def test_stubs_are_to_do(exercise, stub):
    assert grade(exercise, stub).status == "to do"
