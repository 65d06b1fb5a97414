import json
import sys
from types import ModuleType

import pytest

from snnkit.course import quiz, quizzes, scorecard
from snnkit.course.exercise import Question

QUIZ = [
    Question("Does `v` leak?", ("no", "yes <always>"), answer=1, why="It decays by beta."),
    Question("What is a spike?", ("0 or 1", "a float", "a text"), answer=0, why="All or nothing."),
    Question("And the reset?", ("hard", "soft"), answer=1, why="It subtracts."),
]


@pytest.fixture(autouse=True)
def notebook(monkeypatch):
    module = ModuleType("snnkit.course.nb99")
    module.QUIZ = QUIZ
    monkeypatch.setitem(sys.modules, "snnkit.course.nb99", module)


def test_text_questions_outside_a_notebook(capsys):
    assert quiz("99") is None
    out = capsys.readouterr().out
    assert "Question 1" in out and "Does `v` leak?" in out and "2: yes <always>" in out
    assert 'quiz("99", answers=[…, …, …])' in out
    assert "It decays" not in out


def test_answers_are_marked_and_explained(capsys, progress_file):
    assert quiz("99", answers=[2, 3, None]) == (True, False, None)
    out = capsys.readouterr().out
    assert "Question 1: right" in out and "It decays by beta." in out
    assert "Question 2: not quite" in out and "You chose: a text" in out and "Right: 0 or 1" in out
    assert "It subtracts." not in out
    assert json.loads(progress_file.read_text())["quiz"]["99"] == [True, False, None]
    assert scorecard("99").quiz == (True, False, None)


@pytest.mark.parametrize("answers", [[1, 1], [1, 1, 1, 1], [0, 1, 1], [3, 1, 1]])
def test_impossible_answers_are_refused(answers, progress_file):
    with pytest.raises(ValueError, match="answer"):
        quiz("99", answers=answers)
    assert not progress_file.exists()


@pytest.mark.parametrize("answer", ["yes", True, 1.0])
def test_answers_are_numbers(answer):
    with pytest.raises(TypeError, match="choice's number"):
        quiz("99", answers=[answer, 1, 1])


def test_widgets_explain_after_the_answer():
    pytest.importorskip("ipywidgets")
    box = quizzes._widgets("99", QUIZ)
    text, radio, button, verdict = box.children[0].children
    assert "<code" in text.value and radio.value is None
    button.click()
    assert verdict.value == "Choose an answer first."
    radio.value = 1
    button.click()
    assert "right" in verdict.value and "It decays by beta." in verdict.value
    assert "yes &lt;always&gt;" in verdict.value and "<always>" not in verdict.value
    radio.value = 0
    button.click()
    assert "not quite" in verdict.value
    assert scorecard("99").quiz == (False, None, None)
