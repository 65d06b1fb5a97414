"""What holds for the exercises and the quiz of each notebook."""

from collections import Counter

import pytest

from snnkit.course import exercises, grade, notebooks, questions
from snnkit.course.exercise import Check, Exercise
from tests.course.answers import Answers, Mistake, answers, lacking, module

EVERY = [exercise for notebook in notebooks() for exercise in exercises(notebook)]
QUESTIONS = [question for notebook in notebooks() for question in questions(notebook)]


def test_they_are_found():
    assert len(notebooks()) >= 9 and len(EVERY) >= 20


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
    def double(x):
        return 2 * x

    def add(x):
        return x + x

    def shift(x):
        return x << 1

    exercise = Exercise("99.1", "Double", double, [Check("a", print), Check("b", print)], hints=("up", "down"))
    ways, stubs = [add, shift], [...]
    wrong = [
        Mistake(lambda x: x, "a", 0),
        Mistake(lambda x: x + 1, "b", 1),
        Mistake(lambda x: x + 2, "b", "a piece of its own hint"),
        Mistake(lambda x: 3, "b", None),
    ]
    assert lacking(exercise, Answers(wrong, ways, stubs)) == []
    assert lacking(exercise, Answers([*wrong[:2], wrong[3]], ways, stubs)) == ["2 wrong answers with a hint, of 3"]
    assert lacking(exercise, Answers([*wrong[:2], wrong[1]], ways, stubs)) == ["2 wrong answers with a hint, of 3"]
    for few in ([add], [add, add], [add, double], [add, lambda x: 2 * x]):
        assert lacking(exercise, Answers(wrong, few, stubs)) == ["1 right answers that are not the reference, of 2"]
    other = [m._replace(check="b") for m in wrong]
    assert lacking(exercise, Answers(other, ways, stubs)) == ['no wrong answer fails the check "a"']
    other = [m._replace(hint=0) for m in wrong]
    assert lacking(exercise, Answers(other, ways, stubs)) == ["no wrong answer is met with hint 1: down"]
    assert lacking(exercise, Answers(other, ways, stubs, frozenset({1}))) == []
    assert lacking(exercise, Answers(wrong, ways, stubs, frozenset({1}))) != []
    assert lacking(exercise, Answers(wrong, ways, [])) == ["no stub"]


@pytest.mark.parametrize("exercise", EVERY, ids=lambda exercise: exercise.key)
def test_hints_are_sentences_and_no_two_are_alike(exercise):
    assert len(set(exercise.hints)) == len(exercise.hints) >= 3
    assert all(hint.strip() == hint and hint[-1] in ".?`!" for hint in exercise.hints)


@pytest.mark.parametrize("notebook", notebooks())
def test_there_are_three_questions(notebook):
    assert len(questions(notebook)) == 3


@pytest.mark.parametrize("notebook", notebooks())
def test_the_right_choices_are_in_different_places(notebook):
    assert len({question.answer for question in questions(notebook)}) > 1


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
