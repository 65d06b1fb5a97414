"""What holds for the exercises and the quiz of each notebook."""

from collections import Counter

import pytest

from snnkit.course import exercises, grade, notebooks, questions
from snnkit.course.exercise import Check, Exercise
from tests.course.answers import Answers, Mistake, answers, lacking, module

EVERY = [exercise for notebook in notebooks() for exercise in exercises(notebook)]
QUESTIONS = [question for notebook in notebooks() for question in questions(notebook)]


@pytest.mark.parametrize("exercise", EVERY, ids=lambda exercise: exercise.key)
def test_the_reference_passes_every_check(exercise):
    outcome = grade(exercise, exercise.reference)
    assert (outcome.status, outcome.passed) == ("passed", len(exercise.checks)), outcome


@pytest.mark.parametrize("exercise", EVERY, ids=lambda exercise: exercise.key)
def test_there_are_wrong_and_right_answers_enough(exercise):
    assert lacking(exercise, answers(exercise)) == []


@pytest.mark.parametrize("notebook", notebooks())
def test_no_answers_are_kept_for_an_exercise_that_is_gone(notebook):
    known = {exercise.key for exercise in exercises(notebook)}
    tables = module(notebook)
    assert tables is not None, f"tests/course/answers/nb{notebook}.py is missing"
    assert set(tables.WRONG) == set(tables.RIGHT) == set(tables.STUBS) == known


def test_what_is_lacking_is_named():
    exercise = Exercise("99.1", "Double", abs, [Check("a", print), Check("b", print)], hints=("up", "down"))
    wrong = [Mistake("one", "a", 0), Mistake("two", "b", 1), Mistake("three", "b", "of its own")]
    assert lacking(exercise, Answers(wrong, [sum, max], [...])) == []
    assert lacking(exercise, Answers(wrong[:2], [sum, abs], [], frozenset({1}))) == [
        "2 wrong answers with a hint, of 3",
        "1 right answers that are not the reference, of 2",
        "no stub",
        "hint 1 is said to be shown with no mistake, but is",
    ]
    assert lacking(exercise, Answers([m._replace(check="b", hint=0) for m in wrong], [sum, max], [...])) == [
        'no wrong answer fails the check "a"',
        "no wrong answer is met with hint 1: down",
    ]


@pytest.mark.parametrize("exercise", EVERY, ids=lambda exercise: exercise.key)
def test_hints_are_sentences_and_no_two_are_alike(exercise):
    assert len(set(exercise.hints)) == len(exercise.hints) >= 3
    assert all(hint.strip() == hint and hint[-1] in ".?`!" for hint in exercise.hints)


@pytest.mark.parametrize("notebook", notebooks())
def test_there_are_three_questions_with_the_right_choices_in_different_places(notebook):
    assert len(questions(notebook)) == 3 and len({question.answer for question in questions(notebook)}) > 1


def test_no_place_is_the_best_guess():
    places = Counter(question.answer for question in QUESTIONS)
    assert all(places[place] >= 0.25 * len(QUESTIONS) for place in range(3)), places


def test_neither_the_longest_nor_the_shortest_choice_is_the_best_guess():
    lengths = [[len(choice) for choice in question.choices] for question in QUESTIONS]
    right = [(length[q.answer], length) for q, length in zip(QUESTIONS, lengths, strict=True)]
    longest = sum(mine == max(length) for mine, length in right)
    shortest = sum(mine == min(length) for mine, length in right)
    assert max(longest, shortest) <= 0.4 * len(QUESTIONS), (longest, shortest)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.text[:40])
def test_a_right_choice_does_not_stand_out(question):
    lengths = [len(choice) for choice in question.choices]
    mine = lengths.pop(question.answer)
    assert mine <= 1.4 * max(lengths) + 3
    assert len(set(question.choices)) == len(question.choices) >= 3
