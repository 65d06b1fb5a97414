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


@dataclass(frozen=True)
class Listing:
    """Result of ``listing``: text with ``print``, columns in a notebook."""

    parts: Mapping[str, str]

    def __repr__(self) -> str:
        return "\n\n".join(f"== {title}\n{text.rstrip()}" for title, text in self.parts.items())

    def _repr_html_(self) -> str:
        inside = "margin:0;padding:.2em 0;overflow:auto;max-height:30em;white-space:pre;background:none"
        inside += ";font-size:12px;line-height:1.4"
        heading = f"opacity:.8;border-bottom:1px solid {theme.AXIS}"
        columns = "".join(
            f'<div style="flex:1 1 22em;min-width:0"><div style="{heading}">{html.escape(title)}</div>'
            f'<pre style="{inside}">{html.escape(text.rstrip())}</pre></div>'
            for title, text in self.parts.items()
        )
        box = "display:flex;flex-wrap:wrap;align-items:flex-start;gap:.4em 1.6em;margin:.4em 0"
        return f'<div class="snnkit-listing" style="{box}">{columns}</div>'


@checks.arguments
def listing(texts: Mapping[str, str]) -> Listing:
    """Listings, title to text, side by side if the page is wide enough, otherwise one below the other."""
    if not texts:
        raise ValueError("texts must hold at least one title with its text, but it is empty")
    return Listing(texts)


@dataclass(frozen=True)
class SbatchTable:
    """Result of ``sbatch_table``: text, each line above what it is for and its problems.

    Attributes:
        lines: (line, what it is for) of each.
        problems: the result of ``slurm.check``.
    """

    lines: tuple[tuple[str, str], ...]
    problems: tuple[slurm.Problem, ...]

    def __repr__(self) -> str:
        rows = []
        for number, (line, why) in [*enumerate(self.lines, 1), (None, ("", ""))]:  # at the end problems of no line
            problems = [f"✗ {one.what} Fix: {one.fix}." for one in self.problems if one.line == number]
            rows += [line, *(f"    {row}" for text in (why, *problems) for row in wrap(text, 100))]
        return "\n".join(rows)


def sbatch_table(script: slurm.Request | str) -> SbatchTable:
    """Each line of a batch script, given as a text or a request, with what it is for, and its problems."""
    lines = tuple(slurm.explain(script))
    return SbatchTable(lines, tuple(slurm.check("\n".join(line for line, _ in lines))))


def sbatch_form(command: str, **values: Any) -> None:
    """An explorer that writes a batch script and explains each line.

    Args:
        command: what each process runs, as typed in a shell.
        values: of ``slurm.Request``, to begin with.
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
