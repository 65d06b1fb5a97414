"""Predictions and quizzes: the page asks, the learner locks an answer, and the notebook's own result judges it."""

from __future__ import annotations

import html
from typing import Any

from snnkit import checks
from snnkit.lab.course import card, exercise as registry, gate, order, progress, question
from snnkit.lab.course.card import rich
from snnkit.lab.course.question import SURE
from snnkit.lab.viz.frontend import attended, headless

_NO_SCRIPT = "Write your guess down, then read on. (To choose here, run this cell in JupyterLab, Colab or VS Code.)"


@checks.arguments
def predict(key: str) -> None:
    """Ask for a prediction ("encodings.a"). On its card the learner answers, says how sure, and locks, or skips it.

    Until then, outputs of the cells below are hidden, up to the one that calls ``outcome``. (Exercises are not, and a
    run without a reader hides nothing.) A prediction stays locked or skipped if the cell runs again, and in the next
    kernel. Without a page, the question is printed. ValueError if there is no such prediction.
    """
    prompt, line = question.find(key), card.line(receive)
    key = prompt["key"]
    gate.ask(key, line)
    shown = {name: value for name, value in prompt.items() if name not in ("answer", "why")}
    data = {"line": line, "question": shown, "record": progress.record(key)}
    card.show(
        "predictPage",
        data,
        _fallback(prompt),
        f"Prediction {prompt['label']}: {prompt['ask']}\n  {question.how(prompt)}",
    )


@checks.arguments
def outcome(key: str, value: Any = None) -> None:
    """Show the result beside the learner's prediction ("encodings.b"), and why; hidden until it is locked or skipped.

    Args:
        value: a number; the index or text of a choice; or, for a sketch, the curve (xs, ys), from lists or tensors.
            None: the answer in the notebook's file of questions, for a result that only a reader of the figures sees.

    Raises:
        ValueError: there is no such prediction, or the value is of another kind, or missing. In a headless run also if
            the answer in the file contradicts the value.
    """
    prompt = question.find(key)
    key = prompt["key"]
    stated = prompt["answer"]
    result = question.truth(prompt, stated if value is None else value)
    if headless() and stated is not None and not question.is_right(prompt, stated, result):
        stated, came = question.in_words(prompt, stated), question.in_words(prompt, result)
        raise ValueError(f"outcome of {key} must agree with the answer in its file ({stated}), but it is {came}")
    progress.current().outcomes[key] = result
    _judge(key)
    data = {"line": card.line(receive), "question": prompt, "record": progress.record(key), "truth": result}
    data["open"] = not attended()
    words = f"Outcome {prompt['label']}: {question.in_words(prompt, result)}"
    card.show("outcomePage", data, f"<p>{rich(words)}</p><p>{rich(prompt['why'])}</p>", f"{words}\n  {prompt['why']}")
    progress.tell(order.notebook_of(key))


@checks.arguments
def quiz(notebook: str) -> None:
    """Ask the questions of a notebook ("encodings"): a reply to each choice, a second try. Without a page: as text."""
    notebook, questions = order.named(notebook), registry.questions(notebook)
    lines = []
    for number, one in enumerate(questions, start=1):
        lines += [f"Question {number}: {one['text']}"]
        lines += [f"  {i}: {choice['text']}" for i, choice in enumerate(one["choices"], start=1)]
    data = {"line": card.line(receive), "notebook": notebook, "label": order.label(notebook), "questions": questions}
    fallback = "".join(f"<p>{rich(line)}</p>" for line in lines)
    card.show("quizPage", data, f"{fallback}<p>{_NO_SCRIPT}</p>", "\n".join(lines))


def _fallback(prompt: dict[str, Any]) -> str:
    return f"<p><b>{rich(prompt['ask'])}</b></p><p>{rich(question.how(prompt))}</p><p>{html.escape(_NO_SCRIPT)}</p>"


def _judge(key: str) -> None:
    """Note whether a locked prediction was right, if its outcome has come."""
    now, entry = progress.current(), progress.record(key)
    if key in now.outcomes and entry is not None and entry["guess"] is not None:
        now.progress.judged(key, question.is_right(question.find(key), entry["guess"], now.outcomes[key]))


# --- what pages say ---------------------------------------------------------------------------------------------------


def receive(message: Any) -> dict[str, Any]:
    """Note a page's message. Returns the news for all pages of this kernel: records by key, scorecards as HTML.

    A page says {"known": keys} (which of them are locked?), {"lock": key, "guess", "sure"},
    {"skip": key} or {"quiz": notebook, "index", "right"}.
    """
    now = progress.current()
    try:
        if "lock" in message:
            key, guess, sure = message["lock"], message["guess"], message["sure"]
            if not question.is_guess(question.find(key), guess) or sure not in SURE:
                raise ValueError(f"{key} must be answered, with how sure, but it is {checks.shown(message)}")
            if (record := progress.record(key)) is None or record["guess"] is not None:
                now.progress.locked(key, guess, sure, again=record is None)
                _judge(key)
            return _news(order.notebook_of(key), [key])
        if "skip" in message:
            key = question.find(message["skip"])["key"]
            if progress.record(key) is None:
                now.progress.skip(key)
            return _news(order.notebook_of(key), [key])
        if "quiz" in message:
            notebook, right = message["quiz"], checks.flag("right", message["right"])
            of = len(registry.questions(notebook))
            index = checks.integer("index", message["index"], at_least=0, at_most=of - 1)
            now.progress.answered(notebook, index, right, of)
            return _news(notebook, [])
        keys = [key for key in message["known"] if progress.record(key) is not None]
        return {"records": {key: progress.record(key) for key in keys}}
    except (KeyError, TypeError, ValueError) as error:
        return {"refused": str(error)}


def _news(notebook: str, keys: list[str]) -> dict[str, Any]:
    return progress.news(notebook) | {"records": {key: progress.record(key) for key in keys}}
