"""Finds exercises and quizzes: those of notebook "01" are in the module ``snnkit.course.nb01``, imported on demand."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from .exercise import Exercise, Question


def notebooks() -> list[str]:
    """The notebooks that have a course module, as ["00", "01", …]."""
    import snnkit.course

    found = (m.name for m in pkgutil.iter_modules(snnkit.course.__path__))
    return sorted(name[2:] for name in found if name.startswith("nb") and name[2:].isdigit())


def exercises(notebook: str) -> list[Exercise]:
    """The exercises of a notebook ("01"), in order."""
    return list(getattr(_module(notebook), "EXERCISES", ()))


def questions(notebook: str) -> list[Question]:
    """The quiz questions of a notebook ("01"), in order."""
    return list(getattr(_module(notebook), "QUIZ", ()))


def exercise(key: str) -> Exercise:
    """The exercise with this key ("01.1"). ValueError, listing the keys there are, if there is none."""
    if not isinstance(key, str):
        raise TypeError(f'key must be a text such as "01.1", not {type(key).__name__}')
    known = exercises(key.partition(".")[0])
    for one in known:
        if one.key == key:
            return one
    keys = ", ".join(e.key for e in known) or "none"
    raise ValueError(f"key is {key!r}, but the exercises of this notebook are: {keys}")


def _module(notebook: str) -> ModuleType:
    if not isinstance(notebook, str):
        raise TypeError(f'notebook must be a text such as "01", not {type(notebook).__name__}')
    name = f"snnkit.course.nb{notebook}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        known = ", ".join(notebooks()) or "none"
        raise ValueError(f"notebook is {notebook!r}, but those with exercises are: {known}") from None
