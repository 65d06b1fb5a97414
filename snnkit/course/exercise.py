"""What an exercise is: a reference, checks of properties, hints. Data only; ``grading`` runs it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

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
            raise ValueError(f'key must look like "01.1" (notebook, dot, number), not {self.key!r}')
        if self.difficulty not in (1, 2, 3):
            raise ValueError(f"difficulty must be 1, 2 or 3, not {self.difficulty!r}")
        if not self.checks:
            raise ValueError(f"checks of exercise {self.key} must hold at least one Check")
        if not isinstance(self.seconds, (int, float)) or not 0 < self.seconds < float("inf"):
            raise ValueError(f"seconds of exercise {self.key} must be a number above 0, not {self.seconds!r}")
        if isinstance(self.hints, str):
            raise TypeError(f"hints of exercise {self.key} must be a sequence of texts, not one text")

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
            raise ValueError(f"choices must be a sequence of at least two texts, not {self.choices!r}")
        if not 0 <= self.answer < len(self.choices):
            raise ValueError(f"answer must be an index into the {len(self.choices)} choices, not {self.answer!r}")
