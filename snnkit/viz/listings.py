"""Program text: listings side by side, and a batch script with what each line is for."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, replace
from textwrap import wrap
from typing import Any

from snnkit.train import slurm

from .. import checks
from . import theme
from .explorer import explore

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
    if language == "text":
        return html.escape(text)
    from pygments import highlight  # comes with IPython
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.style import Style
    from pygments.token import Comment, Keyword, Number, String

    class Kit(Style):
        """Colours of the theme: no background, and nothing for names, which stay as the page has them."""

        styles = {Comment: theme.TEXT, Keyword: theme.BLUE, Number: theme.VERMILION, String: theme.GREEN}  # noqa: RUF012

    lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    return highlight(text, lexer, HtmlFormatter(nowrap=True, noclasses=True, style=Kit)).removesuffix("\n")


@dataclass(frozen=True)
class SbatchTable:
    """Result of ``sbatch_table``: text with ``print``, a table in a notebook.

    Attributes:
        lines: (line, what it is for) of each.
        problems: the result of ``slurm.check``.
    """

    lines: tuple[tuple[str, str], ...]
    problems: tuple[slurm.Problem, ...]

    def _rows(self) -> list[tuple[str, str, list[str]]]:
        """Each line, what it is for, and its problems; at the end those of no line in particular."""
        numbered = [*enumerate(self.lines, 1), (None, ("", ""))]
        return [
            (line, why, [f"✗ {one.what} Fix: {one.fix}." for one in self.problems if one.line == number])
            for number, (line, why) in numbered
        ]

    def __repr__(self) -> str:
        rows = []
        for line, why, problems in self._rows():
            rows += [line, *(f"    {row}" for text in (why, *problems) for row in wrap(text, 100))]
        return "\n".join(rows)

    def _repr_html_(self) -> str:
        cell = "text-align:left;vertical-align:top;padding:.1em .8em .1em .4em;border:none;overflow-wrap:anywhere"
        rows = []
        for line, why, problems in self._rows():
            bad = "".join(f'<div style="color:{theme.VERMILION}">{html.escape(text)}</div>' for text in problems)
            rows.append(
                f'<tr style="background:none"><td style="{cell};font-family:monospace;white-space:pre-wrap;width:46%">'
                f'{html.escape(line)}</td><td style="{cell};color:{theme.TEXT}">{html.escape(why)}{bad}</td></tr>'
            )
        table = "border-collapse:collapse;margin:0;width:100%;table-layout:fixed;font-size:13px;line-height:1.4"
        return f'<table class="snnkit-sbatch" style="{table}">{"".join(rows)}</table>'


def sbatch_table(script: slurm.Request | str) -> SbatchTable:
    """Each line of a batch script beside what it is for (``slurm.explain``), and its problems (``slurm.check``).

    Args:
        script: its text, or the request that it is written from.

    Raises:
        TypeError: script is neither.
    """
    lines = tuple(slurm.explain(script))
    return SbatchTable(lines, tuple(slurm.check("\n".join(line for line, _ in lines))))


def sbatch_form(command: str, **values: Any) -> None:
    """An explorer that writes a batch script and explains each line.

    Args:
        command: what each process runs, as typed in a shell.
        values: of ``slurm.Request``, to begin with.

    Raises:
        ValueError, TypeError: as ``slurm.Request``.
    """
    request = slurm.Request(command, **values)

    def written(
        nodes: int = request.nodes,
        time: str | int = request.time,
        gpus_per_node: int = request.gpus_per_node,
        cpus_per_task: int = request.cpus_per_task,
        signal_seconds: int = request.signal_seconds,
        requeue: bool = request.requeue,
    ) -> SbatchTable:
        changed = {"nodes": nodes, "time": time, "gpus_per_node": gpus_per_node, "cpus_per_task": cpus_per_task}
        try:
            return sbatch_table(replace(request, signal_seconds=signal_seconds, requeue=requeue, **changed))
        except ValueError as error:  # a mistake that the form is there to show
            return SbatchTable(((f"# {error}", "no script is written"),), ())

    limits = list(dict.fromkeys(["00:02:00", "00:30:00", request.time, "24:00:00"]))
    sliders: dict[str, Any] = {"nodes": (1, 16), "time": limits, "gpus_per_node": (0, 8), "cpus_per_task": (1, 64)}
    explore(written, **sliders, signal_seconds=(10, 600, 10), requeue=request.requeue)
