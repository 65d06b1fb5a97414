"""The predictions and quiz questions of a notebook: data in ``snnkit/lab/exercises/NAME.yaml``, read and checked here.

A prediction is one of three kinds: "choice" (of ``choices``), "number" (with ``unit``, ``low`` and ``high``) or
"sketch" (of a curve over ``x`` and ``y``). The learner's answer is the *guess*, the notebook's result the *truth*. Both
are the index of a choice, or a number. For a sketch, the guess is heights at ``POINTS`` places, the truth (xs, ys).
"""

from __future__ import annotations

import functools
import string
from importlib import resources
from typing import Any

import numpy as np
import torch

from snnkit import checks
from snnkit.files import read_yaml
from snnkit.lab.course import order

POINTS = 41  # of a sketch, evenly over its x axis
SURE = (50, 70, 90, 99)  # percent
_MOST = 400  # points of a result's curve that go into a page


@functools.cache
def read(notebook: str) -> dict[str, Any]:
    """{"predictions": {key: prediction}, "quiz": [question, …]} of a notebook ("encodings"); empty if it has no file.

    Raises:
        ModuleNotFoundError: PyYAML is missing.
        ValueError: the file is not as CONTRIBUTING says; the message names the place.
    """
    file = resources.files("snnkit.lab.exercises") / f"{notebook}.yaml"
    return parse(file.read_text(encoding="utf-8"), notebook) if file.is_file() else {"predictions": {}, "quiz": []}


def find(key: str) -> dict[str, Any]:
    """The prediction with this key ("encodings.a" or "03.a"). If there is none: ValueError with a list of the keys."""
    key = order.named(str(key))
    notebook = order.notebook_of(key)
    known = read(notebook)["predictions"] if notebook.isidentifier() else {}
    if key not in known:
        listed = ", ".join(known) or "there are none"
        raise ValueError(
            f"key must be a prediction of its notebook ({listed}), but it is {checks.shown(key)}; {order.EARLIER}"
        )
    return known[key]


# --- the file ---------------------------------------------------------------------------------------------------------


def parse(text: str, notebook: str) -> dict[str, Any]:
    """What ``read`` returns, from the text of a file. ValueError for the first mistake."""
    try:
        data = read_yaml(text)
    except ModuleNotFoundError:
        command = checks.pip_install("lab")
        raise ModuleNotFoundError(f"predictions and quizzes need PyYAML: {command}") from None
    except ValueError as error:
        raise ValueError(f"{notebook}.yaml must be YAML, but: {error}") from None
    _fields(f"{notebook}.yaml", data, (), ("predictions", "quiz"))
    predictions, quiz = data.get("predictions", {}), data.get("quiz", [])
    letters = list(predictions) if isinstance(predictions, dict) else [None]
    if letters != [one for one in string.ascii_lowercase if one in letters]:  # a letter may be missing: it has gone
        raise ValueError(f"predictions of {notebook}.yaml must be a, b, … in this order")
    if not isinstance(quiz, list):
        raise ValueError(f"quiz of {notebook}.yaml must be a list of questions, but it is {checks.shown(quiz)}")
    return {
        "predictions": {
            (key := f"{notebook}.{letter}"): {"key": key, "label": order.label(key)} | _prediction(key, one)
            for letter, one in predictions.items()
        },
        "quiz": [_question(f"question {number} of {notebook}", one) for number, one in enumerate(quiz, start=1)],
    }


def _fields(name: str, given: Any, needed: tuple[str, ...], others: tuple[str, ...]) -> None:
    if not isinstance(given, dict):
        raise ValueError(f"{name} must have fields, but it is {checks.shown(given)}")
    if missing := [one for one in needed if one not in given]:
        raise ValueError(f"{name} must have a field {missing[0]}, but it has {', '.join(map(str, given))}")
    if unknown := [one for one in given if one not in needed + others]:
        raise ValueError(f"{name} must have no fields but {', '.join(needed + others)}, but it has {unknown[0]}")


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or "\\" in value or "$" in value or value.count("`") % 2:
        raise ValueError(f"{name} must be text without LaTeX, in quotes if needed, but it is {checks.shown(value)}")
    return " ".join(value.split())


def _number(name: str, value: Any, **bounds: Any) -> float:
    try:
        return checks.number(name, value, **bounds)
    except TypeError as error:
        raise ValueError(str(error)) from None


def _choices(name: str, given: Any) -> list[Any]:
    if not isinstance(given, list) or not 2 <= len(given) <= 4:
        raise ValueError(f"choices of {name} must be two to four, but they are {checks.shown(given)}")
    return given


def _prediction(name: str, given: Any) -> dict[str, Any]:
    kinds = ("choices", "number", "sketch")
    _fields(name, given, ("ask", "why"), (*kinds, "answer"))
    if len(of := [kind for kind in kinds if kind in given]) != 1:
        raise ValueError(f"{name} must have one of choices, number and sketch, but it has {' and '.join(of) or 'none'}")
    one: dict[str, Any] = {field: _text(f"{field} of {name}", given[field]) for field in ("ask", "why")}
    one["answer"] = answer = given.get("answer")
    if of == ["choices"]:
        texts = [_text(f"a choice of {name}", choice) for choice in _choices(name, given["choices"])]
        if len(set(texts)) < len(texts):
            raise ValueError(f"choices of {name} must differ, but they are {checks.shown(texts)}")
        one |= {"kind": "choice", "choices": texts}
        if answer is not None and (type(answer) is not int or not 0 <= answer < len(texts)):
            raise ValueError(f"answer of {name} must be the index of a choice, but it is {checks.shown(answer)}")
    elif of == ["number"]:
        scale = given["number"]
        _fields(f"number of {name}", scale, ("unit", "low", "high"), ("tolerance", "within"))
        if len(scale) != 4:
            raise ValueError(f"number of {name} must have tolerance (a share) or within, but not both")
        low = _number(f"low of {name}", scale["low"])
        high = _number(f"high of {name}", scale["high"], above=low)
        near = {f: _number(f"{f} of {name}", scale[f], at_least=0) for f in ("tolerance", "within") if f in scale}
        one |= {"kind": "number", "unit": "" if scale["unit"] == "" else _text(f"unit of {name}", scale["unit"])}
        one |= {"low": low, "high": high} | near
        if answer is not None:
            one["answer"] = _number(f"answer of {name}", answer, at_least=low, at_most=high)
    else:
        axes = given["sketch"]
        _fields(f"sketch of {name}", axes, ("x", "y", "tolerance"), ())
        one |= {"kind": "sketch", "x": _axis(f"x of {name}", axes["x"]), "y": _axis(f"y of {name}", axes["y"])}
        one["tolerance"] = _number(f"tolerance of {name}", axes["tolerance"], above=0, at_most=1)
        if answer is not None:
            raise ValueError(f"answer of {name} must come from outcome(), as of every sketch, but it is in the file")
    return one


def _axis(name: str, given: Any) -> list[Any]:
    if not isinstance(given, list) or len(given) != 3:
        raise ValueError(f"{name} must be [low, high, label], but it is {checks.shown(given)}")
    low = _number(f"low end of {name}", given[0])
    return [low, _number(f"high end of {name}", given[1], above=low), _text(f"label of {name}", given[2])]


def _question(name: str, given: Any) -> dict[str, Any]:
    _fields(name, given, ("text", "choices", "why"), ())
    choices = []
    for number, choice in enumerate(_choices(name, given["choices"]), start=1):
        place = f"choice {number} of {name}"
        _fields(place, choice, ("text", "reply"), ("right",))
        right = choice.get("right", False)
        if type(right) is not bool:
            raise ValueError(f"right of {place} must be true or false, but it is {checks.shown(right)}")
        choices.append({field: _text(f"{field} of {place}", choice[field]) for field in ("text", "reply")})
        choices[-1]["right"] = right
    if sum(choice["right"] for choice in choices) != 1 or len({choice["text"] for choice in choices}) < len(choices):
        raise ValueError(f"choices of {name} must differ, and one of them must be right")
    return {field: _text(f"{field} of {name}", given[field]) for field in ("text", "why")} | {"choices": choices}


# --- guesses and results ----------------------------------------------------------------------------------------------


def is_guess(question: dict[str, Any], guess: Any) -> bool:
    """Whether ``guess``, from a page or a file, is an answer to the question: a choice, or within the axes."""
    if question["kind"] == "choice":
        return type(guess) is int and 0 <= guess < len(question["choices"])
    low, high = question["y"][:2] if question["kind"] == "sketch" else (question["low"], question["high"])
    heights = guess if question["kind"] == "sketch" else [guess]
    if not isinstance(heights, list) or len(heights) != (POINTS if question["kind"] == "sketch" else 1):
        return False
    return all(type(height) in (int, float) and low <= height <= high for height in heights)


def truth(question: dict[str, Any], value: Any) -> Any:
    """A value given to ``outcome``, in the form of the file's ``answer`` or as a curve [xs, ys]; or ValueError."""
    name = f"outcome of {question['key']}"
    if question["kind"] == "choice":
        choices = question["choices"]
        if isinstance(value, str) and value in choices:
            return choices.index(value)
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < len(choices):
            listed = checks.shown(choices)
            raise ValueError(f"{name} must be one of {listed} or its index, but it is {checks.shown(value)}")
        return int(value)
    if question["kind"] == "number":
        number = _floats(name, value)
        if number.size != 1 or not np.isfinite(number).all():
            raise ValueError(f"{name} must be a finite number, but it is {checks.shown(value)}")
        return float(number.reshape(()))
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise ValueError(f"{name} must be (xs, ys), but it is {checks.shown(value)}")
    xs, ys = (_floats(name, part).reshape(-1) for part in value)
    if len(xs) != len(ys) or len(xs) < 2 or not (np.isfinite(xs) & np.isfinite(ys)).all():
        raise ValueError(f"{name} must be two or more finite xs and as many ys, but they are {len(xs)} and {len(ys)}")
    order = np.argsort(xs, kind="stable")
    chosen = order[np.unique(np.linspace(0, len(xs) - 1, min(len(xs), _MOST)).round().astype(int))]
    return [[float(f"{one:.5g}") for one in part[chosen]] for part in (xs, ys)]


def _floats(name: str, value: Any) -> Any:
    try:
        return np.asarray(value.detach().cpu() if isinstance(value, torch.Tensor) else value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be of numbers, but it is {checks.shown(value)}") from None


def is_right(question: dict[str, Any], guess: Any, result: Any) -> bool:
    """Whether a guess counts as right if ``truth`` is the result. ``course_answers.js`` has the same rule for pages."""
    if question["kind"] == "choice":
        return guess == result
    if question["kind"] == "number":
        return abs(guess - result) <= question.get("within", question.get("tolerance", 0) * abs(result)) * (1 + 1e-9)
    (left, right, _), (low, high, _) = question["x"], question["y"]
    at = np.linspace(left, right, POINTS)
    xs, ys = np.asarray(result)
    where = (at >= xs[0]) & (at <= xs[-1])
    far = np.abs(np.asarray(guess) - np.interp(at, xs, ys).clip(low, high))[where]
    return bool(far.size and far.mean() <= question["tolerance"] * (high - low))


def in_words(question: dict[str, Any], value: Any) -> str:
    """A guess or a result in words: "overshoots", "2.7 times", "a curve, loss from 0.1 to 1.8"."""
    if question["kind"] == "choice":
        return question["choices"][value]
    if question["kind"] == "number":
        return f"{value:.3g} {question['unit']}".strip()
    ys = value[1] if value and isinstance(value[0], list) else value
    return f"a curve, {question['y'][2]} from {min(ys):.3g} to {max(ys):.3g}"


def how(question: dict[str, Any]) -> str:
    """The possible answers, in one line of text."""
    if question["kind"] == "choice":
        return " · ".join(f"({i}) {choice}" for i, choice in enumerate(question["choices"], start=1))
    if question["kind"] == "number":
        unit = question["unit"] and f", {question['unit']}"
        return f"(a number{unit}, from {question['low']:g} to {question['high']:g})"
    (x0, x1, x), (y0, y1, y) = question["x"], question["y"]
    return f"(a curve: {x} from {x0:g} to {x1:g}, {y} from {y0:g} to {y1:g})"
