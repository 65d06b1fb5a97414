"""What an exercise is (a reference, checks of properties, hints), and where to find the exercises of a notebook."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypedDict

from snnkit import checks
from snnkit.lab.course import order, question

if TYPE_CHECKING:
    from typing_extensions import Unpack

CheckFunction = Callable[[Any, Any], None]


class Shown(TypedDict, total=False):
    """What a card shows beside the message of a violation."""

    inputs: dict[str, Any] | str | None  # that show it: name to value, or a text
    yours: Any
    expected: Any
    hint: int | str | None  # an index into the exercise's ``hints``, or a text of its own


class Violation(Exception):
    """A property that the learner's answer lacks. The message is one sentence for the learner."""

    def __init__(self, message: str, **shown: Unpack[Shown]) -> None:
        super().__init__(message)
        self.message, self.shown = message, shown


class NotWritten(Exception):
    """The answer is still a stub: it is ``...``, or returns ``...`` or ``None``. The message goes onto the card."""


@dataclass(frozen=True)
class Check:
    """One property: ``run(candidate, reference)`` raises ``Violation`` if the answer lacks it, else returns None."""

    name: str
    run: CheckFunction


@checks.arguments
@dataclass(frozen=True)
class Exercise:
    """One exercise of a notebook."""

    key: str  #: "NAME.n": the notebook's name, then the exercise's number
    title: str
    reference: Any  #: the solution: a function, a class, or (for "work out this number") a plain value
    #: Each is a Check, or a function whose name becomes the check's: ``_it_leaks`` is "it leaks". They run up to the
    #: first violation, so coarse properties come first.
    checks: Sequence[Any]
    minutes: int = 5  #: in class
    difficulty: int = 1  #: to 3
    hints: Sequence[str] = ()  #: from a nudge to nearly the answer
    plot: Callable[[Any, Any], Any] | None = None  #: (candidate, reference) to a figure, shown under the card
    in_place: bool = False  #: whether the answer may change its arguments; if not, that is a violation
    seconds: float = 10.0  #: that each check may compute or wait with a learner's answer
    list_all: bool = False  #: whether the card lists all checks, with their signs
    optional: bool = False  #: in a part of the notebook that is optional: scorecards do not wait for it

    def __post_init__(self) -> None:
        named = [c if isinstance(c, Check) else Check(c.__name__.strip("_").replace("_", " "), c) for c in self.checks]
        object.__setattr__(self, "checks", named)

    @property
    def heading(self) -> str:
        """As readers see it: "03.1 Latency" for the key "encodings.1"."""
        return f"{order.label(self.key)} {self.title}"


def notebooks() -> list[str]:
    """The names of the notebooks, in the order of the course: ["preflight", "first_spiking_neuron", …]."""
    return list(order.NOTEBOOKS)


def exercises(notebook: str) -> list[Exercise]:
    """The exercises of a notebook ("encodings" or "03"), in order."""
    return list(_module(order.named(notebook)).EXERCISES)


def questions(notebook: str) -> list[dict[str, Any]]:
    """The quiz questions of a notebook ("encodings" or "03"), in order, as ``question.parse`` gives them."""
    notebook = order.named(notebook)
    _module(notebook)  # raises where there is none
    return question.read(notebook)["quiz"]


@checks.arguments
def find(key: str) -> Exercise:
    """The exercise with this key ("encodings.1" or "03.1"). If there is none: ValueError with a list of the keys."""
    given, key = key, order.named(key)
    name = order.notebook_of(key)
    if not (name in order.NUMBERS or order.is_of_the_past(name) or _file(name) in sys.modules):
        raise ValueError(f'key must be that of an exercise, such as "03.1", but it is {checks.shown(given)}')
    known = {one.key: one for one in exercises(order.notebook_of(key))}
    if key not in known:
        listed = ", ".join(known)
        raise ValueError(
            f"key must be an exercise of this notebook ({listed}), but it is {checks.shown(key)}; {order.EARLIER}"
        )
    return known[key]


def _module(notebook: str) -> ModuleType:
    if order.is_of_the_past(notebook):
        raise ValueError(
            f"notebook {notebook} is of an earlier edition of the course. Its exercises are in "
            f"{order.where_now(notebook)}, and what you have solved counts there; {order.EARLIER}"
        )
    if _file(notebook) not in sys.modules:
        checks.choice("notebook", notebook, notebooks())
    return importlib.import_module(_file(notebook))


def _file(notebook: str) -> str:
    return f"snnkit.lab.exercises.{notebook}"
