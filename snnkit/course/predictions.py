"""Predictions and quizzes: the page asks, the learner locks an answer, and the notebook's own result judges it."""

from __future__ import annotations

import html
from typing import Any

from snnkit import checks
from snnkit.viz.frontend import headless

from . import card, progress, question
from . import exercise as registry
from .card import rich
from .question import SURE

_NO_SCRIPT = "Write your guess down, then read on. (To choose here, run this cell in JupyterLab, Colab or VS Code.)"


@checks.arguments
def predict(key: str) -> None:
    """Ask for a prediction ("01.a"). On its card the learner answers, says how sure, and locks; then the card explains.

    A locked prediction stays locked if the cell runs again, and in the next kernel. Without a page, the question is
    printed. ValueError if there is no such prediction.
    """
    prompt = question.find(key)
    data = {"line": card.line(receive), "question": prompt, "record": _record(key)}
    card.show("predictPage", data, _fallback(prompt), f"Prediction {key}: {prompt['ask']}\n  {question.how(prompt)}")


@checks.arguments
def outcome(key: str, value: Any) -> None:
    """Show the result beside the learner's prediction ("01.b"). The page hides it until the prediction is locked.

    Args:
        value: a number; the index or text of a choice; or, for a sketch, the curve (xs, ys), from lists or tensors.

    Raises:
        ValueError: there is no such prediction, or the value is of another kind. In a headless run also if the answer
            in the notebook's file of questions contradicts the value.
    """
    prompt = question.find(key)
    result = question.truth(prompt, value)
    stated = prompt["answer"]
    if headless() and stated is not None and not question.is_right(prompt, stated, result):
        stated, came = question.in_words(prompt, stated), question.in_words(prompt, result)
        raise ValueError(f"outcome of {key} must agree with its answer in questions/ ({stated}), but it is {came}")
    progress.current().outcomes[key] = result
    _judge(key)
    data = {"line": card.line(receive), "question": prompt, "record": _record(key), "truth": result}
    words = f"Outcome {key}: {question.in_words(prompt, result)}"
    card.show("outcomePage", data, f"<p>{rich(words)}</p>", words)
    progress.tell(key[:2])


@checks.arguments
def quiz(notebook: str) -> None:
    """Ask the questions of a notebook ("01"), with a reply to each choice and a second try. Without a page: as text."""
    questions = registry.questions(notebook)
    lines = []
    for number, one in enumerate(questions, start=1):
        lines += [f"Question {number}: {one['text']}"]
        lines += [f"  {i}: {choice['text']}" for i, choice in enumerate(one["choices"], start=1)]
    data = {"line": card.line(receive), "notebook": notebook, "questions": questions}
    fallback = "".join(f"<p>{rich(line)}</p>" for line in lines)
    card.show("quizPage", data, f"{fallback}<p>{_NO_SCRIPT}</p>", "\n".join(lines))


def _fallback(prompt: dict[str, Any]) -> str:
    return f"<p><b>{rich(prompt['ask'])}</b></p><p>{rich(question.how(prompt))}</p><p>{html.escape(_NO_SCRIPT)}</p>"


def _record(key: str) -> dict[str, Any] | None:
    """The learner's locked prediction, if there is one and it still fits the question."""
    entry = progress.current().progress.predictions().get(key)
    return entry if entry is not None and question.is_guess(question.find(key), entry["guess"]) else None


def _judge(key: str) -> None:
    """Note whether a locked prediction was right, by the notebook's run or else by the file."""
    now, prompt, entry = progress.current(), question.find(key), _record(key)
    result = now.outcomes.get(key, prompt["answer"])
    if entry is not None and result is not None:
        now.progress.judged(key, question.is_right(prompt, entry["guess"], result))


# --- what pages say ---------------------------------------------------------------------------------------------------


def receive(message: Any) -> dict[str, Any]:
    """Note a page's message. Returns the news for all pages of this kernel: records by key, scorecards as HTML.

    A page says {"known": keys} (which of them are locked?), {"lock": key, "guess", "sure"} or
    {"quiz": notebook, "index", "right"}.
    """
    now = progress.current()
    try:
        if "lock" in message:
            key, guess, sure = message["lock"], message["guess"], message["sure"]
            if not question.is_guess(question.find(key), guess) or sure not in SURE:
                raise ValueError(f"{key} must be answered, with how sure, but it is {checks.shown(message)}")
            now.progress.locked(key, guess, sure, again=_record(key) is None)
            _judge(key)
            return _news(key[:2], [key])
        if "quiz" in message:
            notebook, right = message["quiz"], checks.flag("right", message["right"])
            of = len(registry.questions(notebook))
            index = checks.integer("index", message["index"], at_least=0, at_most=of - 1)
            now.progress.answered(notebook, index, right, of)
            return _news(notebook, [])
        keys = [key for key in message["known"] if _record(key) is not None]
        return {"records": {key: _record(key) for key in keys}}
    except (KeyError, TypeError, ValueError) as error:
        return {"refused": str(error)}


def _news(notebook: str, keys: list[str]) -> dict[str, Any]:
    return progress.news(notebook) | {"records": {key: _record(key) for key in keys}}
