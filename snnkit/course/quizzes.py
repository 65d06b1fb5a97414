"""The three questions at a notebook's end: widgets in a live notebook, plain text elsewhere."""

from __future__ import annotations

from typing import Any

from snnkit import checks
from snnkit.viz.frontend import live

from . import exercise as registry
from . import progress
from .card import Card, Line, rich
from .exercise import Question


@checks.arguments
def quiz(notebook: str) -> None:
    """Ask the questions of a notebook ("01"): with buttons and explanations in a live notebook, elsewhere as text."""
    questions = registry.questions(notebook)
    if live():
        from IPython.display import display

        display(_widgets(notebook, questions))
        return
    for number, question in enumerate(questions, start=1):
        choices = [Line(choice, label=str(i)) for i, choice in enumerate(question.choices, start=1)]
        Card("open", f"Question {number}", "", [Line(question.text), *choices]).show()


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
            right = radio.value == question.answer
            progress.current().progress.answered(notebook, number - 1, right, len(questions))
            verdict.value = _explained(number, question, radio.value).announced()

        button.on_click(check)
        text = widgets.HTML(f'<div style="line-height:1.45"><b>{number}.</b> {rich(question.text)}</div>')
        return widgets.VBox([text, radio, button, verdict])

    return widgets.VBox([ask(number, question) for number, question in enumerate(questions, start=1)])
