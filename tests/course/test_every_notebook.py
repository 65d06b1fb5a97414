"""What holds for the exercises and the quiz of each notebook."""

import pytest

from snnkit.course import exercises, grade, questions
from snnkit.course.registry import notebooks

EVERY = [exercise for notebook in notebooks() for exercise in exercises(notebook)]


def test_they_are_found():
    assert len(notebooks()) >= 9 and len(EVERY) >= 20


@pytest.mark.parametrize("exercise", EVERY, ids=lambda exercise: exercise.key)
def test_the_reference_passes_every_check(exercise):
    outcome = grade(exercise, exercise.reference)
    assert (outcome.status, outcome.passed) == ("passed", len(exercise.checks)), outcome


@pytest.mark.parametrize("notebook", notebooks())
def test_there_are_three_questions(notebook):
    assert len(questions(notebook)) == 3
