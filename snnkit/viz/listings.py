"""Program text: listings side by side, and a batch script with what each line is for."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import wrap

from snnkit.train import slurm

from .. import checks
from . import theme

LANGUAGES = ("text", "python", "cpp")


@dataclass(frozen=True)
class Listing:
    """Result of ``listing``: text with ``print``, columns in a notebook.

    Attributes:
        parts: (title, text, language) of each.
    """

    parts: tuple[tuple[str, str, str], ...]

    def __repr__(self) -> str:
        return "\n\n".join(f"== {title}\n{text.rstrip()}" for title, text, _ in self.parts)

    def _repr_html_(self) -> str:
        inside = "margin:0;padding:.2em 0;overflow:auto;max-height:30em;white-space:pre;background:none"
        inside += ";font-size:12px;line-height:1.4"
        heading = f"color:{theme.TEXT};border-bottom:1px solid {theme.AXIS}"
        columns = "".join(
            f'<div style="flex:1 1 22em;min-width:0"><div style="{heading}">{html.escape(title)}</div>'
            f'<pre style="{inside}">{_coloured(text.rstrip(), language)}</pre></div>'
            for title, text, language in self.parts
        )
        box = "display:flex;flex-wrap:wrap;align-items:flex-start;gap:.4em 1.6em;margin:.4em 0"
        return f'<div class="snnkit-listing" style="{box}">{columns}</div>'


def listing(texts: Mapping[str, str | tuple[str, str]]) -> Listing:
    """Listings side by side where the page is wide enough, else one under the other.

    Args:
        texts: title to text, or to (text, language) with a language of ``LANGUAGES``.

    Raises:
        ValueError: nothing to show, or an unknown language.
    """
    parts = [(title, *(given if isinstance(given, tuple) else (given, "text"))) for title, given in texts.items()]
    if not parts:
        raise ValueError("texts must hold at least one title with its text, but it is empty")
    for _, _, language in parts:
        checks.choice("language", language, LANGUAGES)
    return Listing(tuple(parts))


def _coloured(text: str, language: str) -> str:
    """HTML of ``text``; without colours where Pygments, which comes with IPython, is missing."""
    if language == "text":
        return html.escape(text)
    try:
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name
        from pygments.style import Style
        from pygments.token import Comment, Keyword, Name, Number, String
    except ImportError:
        return html.escape(text)

    class Kit(Style):
        """Colours of the theme: no background, and nothing for names, which stay as the page has them."""

        styles = {  # noqa: RUF012 - Pygments reads a plain class attribute
            Comment: theme.TEXT,
            Keyword: theme.BLUE,
            Name.Builtin: theme.BLUE,
            Number: theme.VERMILION,
            String: theme.GREEN,
        }

    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return highlight(text, lexer, HtmlFormatter(nowrap=True, noclasses=True, style=Kit)).removesuffix("\n")


@dataclass(frozen=True)
class SbatchTable:
    """Result of ``sbatch_table``: text with ``print``, a table in a notebook.

    Attributes:
        lines: (line, what it is for) of each.
        problems: the result of ``slurm.check``.
        new: numbers of lines to mark, from 1 on.
    """

    lines: tuple[tuple[str, str], ...]
    problems: tuple[slurm.Problem, ...]
    new: frozenset[int] = frozenset()

    @property
    def text(self) -> str:
        """The script itself."""
        return "\n".join(line for line, _ in self.lines) + "\n"

    def _problems_of(self, number: int | None) -> list[slurm.Problem]:
        """The problems of a line, or (None) of none in particular."""
        return [problem for problem in self.problems if problem.line == number]

    def __repr__(self) -> str:
        rows: list[str] = []
        for number, (line, why) in [*enumerate(self.lines, 1), (None, ("", ""))]:
            rows += [line, *(f"    {row}" for row in wrap(why, 100))] if number else []
            for problem in self._problems_of(number):
                text = f"{problem.what} Fix: {problem.fix}."
                rows += wrap(text, 104, initial_indent="  ✗ ", subsequent_indent="    ")
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        cell = "text-align:left;vertical-align:top;padding:.1em .8em .1em .4em;border:none;overflow-wrap:anywhere"
        rows = []
        for number, (line, why) in enumerate(self.lines, 1):
            edge = theme.BLUE if number in self.new else "transparent"
            code = f"{cell};border-left:3px solid {edge};font-family:monospace;white-space:pre-wrap;width:46%"
            problems = "".join(map(_problem, self._problems_of(number)))
            rows.append(
                f'<tr style="background:none"><td style="{code}">{html.escape(line) or "&nbsp;"}</td>'
                f'<td style="{cell};color:{theme.TEXT}">{_prose(why)}{problems}</td></tr>'
            )
        table = "border-collapse:collapse;margin:0;width:100%;table-layout:fixed"
        missing = "".join(map(_problem, self._problems_of(None)))
        box = '<div class="snnkit-sbatch" style="font-size:13px;line-height:1.4;margin:.4em 0">'
        return f'{box}<table style="{table}">{"".join(rows)}</table>{missing}</div>'


def _prose(text: str) -> str:
    """HTML of a sentence, whose options, such as --time=01:00, stay on one line."""
    return re.sub(r"(?<![\w-])(--[\w=:.-]+)", r'<span style="white-space:nowrap">\1</span>', html.escape(text))


def _problem(problem: slurm.Problem) -> str:
    text = f"<b>✗ {_prose(problem.what)}</b> Fix: {_prose(problem.fix)}."
    return f'<div style="color:{theme.VERMILION};padding:.1em .4em">{text}</div>'


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
