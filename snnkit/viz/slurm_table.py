"""A batch script with what each line is for, and what is wrong with it."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from textwrap import wrap

from snnkit.train import slurm

from . import theme


@dataclass(frozen=True)
class SbatchTable:
    """What ``sbatch_table`` gives: text with ``print``, a table in a notebook.

    Attributes:
        lines: (line, what it is for) of each.
        problems: what ``slurm.check`` found.
        new: numbers of lines to mark, from 1 on.
    """

    lines: tuple[tuple[str, str], ...]
    problems: tuple[slurm.Problem, ...]
    new: frozenset[int] = frozenset()

    @property
    def text(self) -> str:
        """The script itself."""
        return "\n".join(line for line, _ in self.lines) + "\n"

    def __repr__(self) -> str:
        told = [
            part
            for number, (line, why) in enumerate(self.lines, 1)
            for part in (line, *(f"    {row}" for row in wrap(why, 100)), *self._told(number))
        ]
        return "\n".join([*told, *self._told(None)])

    def _told(self, number: int | None) -> list[str]:
        found = [problem for problem in self.problems if problem.line == number]
        return [
            row
            for problem in found
            for row in wrap(f"{problem.what} Fix: {problem.fix}.", 104, initial_indent="  ✗ ", subsequent_indent="    ")
        ]

    def _repr_html_(self) -> str:
        rows = "".join(self._row(number, *line) for number, line in enumerate(self.lines, 1))
        missing = "".join(_problem(problem) for problem in self.problems if problem.line is None)
        table = f'<table style="border-collapse:collapse;margin:0;width:100%;table-layout:fixed">{rows}</table>'
        return f'<div class="snnkit-sbatch" style="font-size:13px;line-height:1.4;margin:.4em 0">{table}{missing}</div>'

    def _row(self, number: int, line: str, why: str) -> str:
        cell = "text-align:left;vertical-align:top;padding:.1em .8em .1em .4em;border:none;overflow-wrap:anywhere"
        edge = theme.BLUE if number in self.new else "transparent"
        code = f"{cell};border-left:3px solid {edge};font-family:monospace;white-space:pre-wrap;width:46%"
        problems = "".join(_problem(problem) for problem in self.problems if problem.line == number)
        return (
            f'<tr style="background:none"><td style="{code}">{html.escape(line) or "&nbsp;"}</td>'
            f'<td style="{cell};color:{theme.TEXT}">{_prose(why)}{problems}</td></tr>'
        )


def _prose(text: str) -> str:
    """HTML of a sentence, whose options, such as --time=01:00, stay on one line."""
    return re.sub(r"(?<![\w-])(--[\w=:.-]+)", r'<span style="white-space:nowrap">\1</span>', html.escape(text))


def _problem(problem: slurm.Problem) -> str:
    told = f"<b>✗ {_prose(problem.what)}</b> Fix: {_prose(problem.fix)}."
    return f'<div style="color:{theme.VERMILION};padding:.1em .4em">{told}</div>'


def sbatch_table(script: slurm.Request | str, *, before: str | None = None) -> SbatchTable:
    """Each line of a batch script beside what it is for (``slurm.explain``), and its problems (``slurm.check``).

    Args:
        script: its text, or the request that it is written from.
        before: another text; lines that are not in it are marked at their edge.

    Raises:
        TypeError: script is neither.
    """
    lines = tuple(slurm.explain(script))
    old = None if before is None else set(before.splitlines())
    new = frozenset(number for number, (line, _) in enumerate(lines, 1) if old is not None and line not in old)
    text = "\n".join(line for line, _ in lines)
    return SbatchTable(lines, tuple(slurm.check(text)), new)
