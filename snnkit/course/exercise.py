"""What an exercise is: a reference, checks of properties, hints; and where those of a notebook are."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from snnkit import checks

CheckFunction = Callable[[Any, Any], None]


class Violation(Exception):
    """A property that the learner's answer does not have. Raised by a check, shown on the card.

    Args:
        message: the property in one sentence, as the learner should read it.
        inputs: the inputs that show it, as a dict of name to value or as text.
        yours: what the learner's answer gave.
        expected: what it should have given.
        hint: what to show with it: an index into the exercise's ``hints``, a text of its own, or None.
    """

    def __init__(
        self,
        message: str,
        *,
        inputs: dict[str, Any] | str | None = None,
        yours: Any = None,
        expected: Any = None,
        hint: int | str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.inputs = inputs
        self.yours = yours
        self.expected = expected
        self.hint = hint


class NotWritten(Exception):
    """The answer is still a stub: it is ``...``, or gives ``...`` or ``None``."""

    def __init__(self, note: str = "") -> None:
        super().__init__(note)
        self.note = note


@dataclass(frozen=True)
class Check:
    """One property: ``run(candidate, reference)`` raises ``Violation``, or returns None when all is well."""

    name: str
    run: CheckFunction


@dataclass(frozen=True)
class Exercise:
    """One exercise of a notebook.

    Args:
        key: "NN.n": the notebook's two digits, then the exercise's number.
        title: a few words.
        reference: the solution: a function, a class, or (for "work out this number") a plain value.
        checks: run in this order; the first violation is shown, so put the coarse properties first.
        minutes: how long it takes in class.
        difficulty: 1, 2 or 3.
        hints: from a nudge to nearly the answer; ``hint(key)`` opens one after another.
        plot: ``plot(candidate, reference)`` gives a plotly figure, shown under the card of a written answer.
        in_place: whether the answer may change its arguments. If not, changing them is a violation.
        seconds: how long each check may take with a learner's answer before it is stopped.
    """

    key: str
    title: str
    reference: Any
    checks: Sequence[Check]
    minutes: int = 5
    difficulty: int = 1
    hints: Sequence[str] = ()
    plot: Callable[[Any, Any], Any] | None = None
    in_place: bool = False
    seconds: float = 10.0

    def __post_init__(self) -> None:
        notebook, _, number = self.key.partition(".")
        if not (len(notebook) == 2 and notebook.isdigit() and number.isdigit()):
            raise ValueError(f'key must look like "01.1" (notebook, dot, number), but it is {self.key!r}')
        checks.choice(f"difficulty of exercise {self.key}", self.difficulty, (1, 2, 3))
        if not self.checks:
            raise ValueError(f"checks of exercise {self.key} must hold at least one Check")
        checks.number(f"seconds of exercise {self.key}", self.seconds, above=0)
        if isinstance(self.hints, str):
            raise TypeError(f"hints of exercise {self.key} must be a sequence of texts, but it is one text")

    @property
    def notebook(self) -> str:
        return self.key.partition(".")[0]


@dataclass(frozen=True)
class Question:
    """One quiz question: a text, at least two choices, the index of the right one, and why it is right."""

    text: str
    choices: Sequence[str]
    answer: int
    why: str

    def __post_init__(self) -> None:
        if isinstance(self.choices, str) or len(self.choices) < 2:
            raise ValueError(f"choices must be a sequence of at least two texts, but it is {self.choices!r}")
        if not 0 <= self.answer < len(self.choices):
            raise ValueError(f"answer must be an index into the {len(self.choices)} choices, but it is {self.answer!r}")


def notebooks() -> list[str]:
    """The notebooks that have a course module, as ["00", "01", …]."""
    import snnkit.course

    names = (module.name for module in pkgutil.iter_modules(snnkit.course.__path__))
    return sorted(name[2:] for name in names if name.startswith("nb") and name[2:].isdigit())


def exercises(notebook: str) -> list[Exercise]:
    """The exercises of a notebook ("01"), in order."""
    return list(getattr(_module(notebook), "EXERCISES", ()))


def questions(notebook: str) -> list[Question]:
    """The quiz questions of a notebook ("01"), in order."""
    return list(getattr(_module(notebook), "QUIZ", ()))


def find(key: str) -> Exercise:
    """The exercise with this key ("01.1"). ValueError, listing the keys there are, if there is none."""
    checks.instance("key", key, str, 'a text such as "01.1"')
    known = exercises(key.partition(".")[0])
    for one in known:
        if one.key == key:
            return one
    keys = ", ".join(e.key for e in known) or "none"
    raise ValueError(f"key must be an exercise of this notebook ({keys}), but it is {key!r}")


def _module(notebook: str) -> ModuleType:
    checks.instance("notebook", notebook, str, 'a text such as "01"')
    name = f"snnkit.course.nb{notebook}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        known = ", ".join(notebooks()) or "none"
        raise ValueError(f"notebook must be one of those with exercises ({known}), but it is {notebook!r}") from None
