"""The three questions at a notebook's end: widgets in a live notebook, plain text elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from snnkit import checks
from snnkit.viz.frontend import live

from . import exercise as registry
from . import progress
from .card import Card, Line, rich
from .exercise import Question


@checks.arguments
def quiz(notebook: str, answers: Sequence[int | None] | None = None) -> tuple[bool | None, ...] | None:
    """Ask the questions of a notebook ("01").

    In a live notebook: radio buttons that explain themselves once answered. Elsewhere: the questions as text, to be
    answered with ``answers``, one choice's number (from 1) per question, None to leave one out. Returns the result
    when ``answers`` are given, else None.
    """
    questions = registry.questions(notebook)
    if answers is not None:
        return _answer(notebook, questions, answers)
    if live():
        from IPython.display import display

        display(_widgets(notebook, questions))
    else:
        for number, question in enumerate(questions, start=1):
            choices = [Line(choice, label=str(i)) for i, choice in enumerate(question.choices, start=1)]
            Card("open", f"Question {number}", "", [Line(question.text), *choices]).show()
        if questions:
            blanks = ", ".join(["…"] * len(questions))
            Card("info", "Answer with the numbers of your choices", f'quiz("{notebook}", answers=[{blanks}])').show()
    return None


def _answer(notebook: str, questions: list[Question], answers: Sequence[int | None]) -> tuple[bool | None, ...]:
    if len(answers) != len(questions):
        raise ValueError(
            f"answers must hold {len(questions)} choices, one for each question, but it is {checks.shown(answers)}"
        )
    name = "each answer (a choice's number, or None)"
    given = [(index, choice) for index, choice in enumerate(answers) if choice is not None]
    for index, choice in given:
        checks.integer(name, choice, at_least=1, at_most=len(questions[index].choices))
    marks: list[bool | None] = [None] * len(questions)
    for index, choice in given:
        marks[index] = _mark(notebook, questions, index, choice - 1)
        _explained(index + 1, questions[index], choice - 1).show()
    return tuple(marks)


def _mark(notebook: str, questions: list[Question], index: int, choice: int) -> bool:
    right = choice == questions[index].answer
    progress.current().progress.answered(notebook, index, right, len(questions))
    return right


def _explained(number: int, question: Question, choice: int) -> Card:
    if choice == question.answer:
        return Card("good", f"Question {number}", "right", [Line(question.choices[choice]), Line(question.why)])
    lines = [Line(question.choices[choice], label="You chose"), Line(question.choices[question.answer], label="Right")]
    return Card("bad", f"Question {number}", "not quite", [*lines, Line(question.why)])


def _widgets(notebook: str, questions: list[Question]) -> Any:
    import ipywidgets as widgets

    def ask(number: int, question: Question) -> Any:
        options = [(choice.replace("`", ""), i) for i, choice in enumerate(question.choices)]
        radio = widgets.RadioButtons(options=options, value=None, layout=widgets.Layout(width="auto"))
        button = widgets.Button(description="Check", tooltip=f"Check the answer to question {number}")
        verdict = widgets.HTML()

        def check(_: Any) -> None:
            if radio.value is None:
                verdict.value = "Choose an answer first."
                return
            _mark(notebook, questions, number - 1, radio.value)
            verdict.value = _explained(number, question, radio.value).announced()

        button.on_click(check)
        text = widgets.HTML(f'<div style="line-height:1.45"><b>{number}.</b> {rich(question.text)}</div>')
        return widgets.VBox([text, radio, button, verdict])

    return widgets.VBox([ask(number, question) for number, question in enumerate(questions, start=1)])
