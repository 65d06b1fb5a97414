"""Errors in a notebook: in the outputs of its cells, and in the states of its widgets, where nobody else looks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

WIDGET_STATE = "application/vnd.jupyter.widget-state+json"

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_TRACEBACK = "Traceback (most recent call last)"


@dataclass(frozen=True)
class Problem:
    """An exception found in cell `cell` (None: in a widget that belongs to no known cell)."""

    cell: int | None
    name: str
    message: str
    traceback: str = field(default="", compare=False)

    def __str__(self) -> str:
        return short(f"{self.name}: {self.message}" if self.message else self.name)


def short(text: str, limit: int = 300) -> str:
    """`text` on one line, without colour codes, at most `limit` characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def plain(text: str) -> str:
    """`text` without terminal colours."""
    return _ANSI.sub("", text)


def problem(cell: int | None, content: Mapping[str, Any]) -> Problem:
    """The Problem for an error output, or the content of an error message."""
    lines = content.get("traceback") or []
    return Problem(cell, content.get("ename", "Error"), plain(str(content.get("evalue", ""))), plain("\n".join(lines)))


def in_outputs(outputs: Iterable[Mapping[str, Any]], cell: int | None = None) -> list[Problem]:
    """Errors among `outputs`: error outputs, and tracebacks written to stderr (by threads, callbacks, loggers)."""
    found = []
    stderr = ""
    for output in outputs:
        if output.get("output_type") == "error":
            found.append(problem(cell, output))
        elif output.get("output_type") == "stream" and output.get("name") == "stderr":
            stderr += "".join(output.get("text", ""))  # a string, or a list of lines; a traceback may come in pieces
    if _TRACEBACK in stderr:
        last = plain(stderr[stderr.index(_TRACEBACK) :])
        raised = re.search(r"^([A-Za-z_][\w.]*)(?:: (.*))?$", last, re.MULTILINE)
        name, message = raised.groups() if raised else ("Traceback", "")
        found.append(Problem(cell, name, message or "", last))
    return found


def in_widgets(states: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """Errors among the outputs that widgets hold: `states` are the states of the models (OutputModel has `outputs`)."""
    found = []
    for state in states:
        found += in_outputs(state.get("outputs") or ())
    return found


def in_notebook(notebook: Mapping[str, Any]) -> list[Problem]:
    """Errors anywhere in an executed notebook: its outputs and, where they were saved, its widgets."""
    found = []
    for index, cell in enumerate(notebook["cells"]):
        found += in_outputs(cell.get("outputs", ()), index)
    saved = notebook["metadata"].get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    return found + in_widgets(model.get("state", {}) for model in saved.values())
