"""A certificate of a track of the course: what a learner has passed, predicted and answered in its notebooks."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import snnkit
from snnkit import checks, files
from snnkit.lab.course import order, progress
from snnkit.lab.course.card import Card, Line

_STYLE = """
@page { size: A4 landscape; margin: 18mm }
:root { color-scheme: light dark }
body { font-family: system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem; line-height: 1.5 }
h1 { font-size: 2.2rem; margin: 0 } .who { font-size: 1.6rem; margin: 1.2rem 0 0; font-weight: 600 }
table { border-collapse: collapse; width: 100%; margin: 1.2rem 0 } td, th { padding: .25rem .6rem; text-align: right }
td:first-child, th:first-child { text-align: left } tr + tr { border-top: 1px solid #7f7f7f55 }
.note { opacity: .8; font-size: .9rem }
"""
_NONE = "–"  # in place of a share of nothing


@dataclass(frozen=True)
class Certificate:
    """What a learner has done in a track. As a cell's last line it is shown as a card; ``save`` writes a page."""

    track: str
    name: str
    scorecards: tuple[progress.Scorecard, ...]
    when: date

    @property
    def passed(self) -> int:
        """How many of the required exercises are passed."""
        return sum(one.passed for one in self.scorecards)

    @property
    def required(self) -> int:
        return sum(len(one.required) for one in self.scorecards)

    @property
    def complete(self) -> bool:
        """Whether every exercise that is not optional has been passed."""
        return self.passed == self.required

    @property
    def missing(self) -> list[str]:
        """The required exercises that are not passed yet, as readers see them: ["05.2", …]."""
        every = (row for one in self.scorecards for row in one.required)
        return [order.label(row.key) for row in every if row.status != "passed"]

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Notebook, exercises passed, predictions right of those made, and quiz answers right; one row a notebook."""
        rows = []
        for one in self.scorecards:
            made = sum(status not in ("skipped", "to make") for status in one.predictions)
            right = f"{one.predictions.count('right')} of {made}" if made else _NONE
            answers = f"{one.quiz.count(True)} of {len(one.quiz)}"
            rows.append((order.titled(one.notebook), f"{one.passed} of {len(one.required)}", right, answers))
        return rows

    def card(self) -> Card:
        lines = [
            Line(f"{exercises} exercises, {_predicted(right)}, quiz {answers}", label=name)
            for name, exercises, right, answers in self.rows()
        ]
        if 0 < len(self.missing) < self.required:
            lines.append(Line(", ".join(self.missing), label="Still to do"))
        title = f"Track {order.TRACKS[self.track]}" + (f", {self.name}" if self.name else "")
        word = f"{self.passed} of {self.required} exercises passed"
        return Card("good" if self.complete else "open", title, word, lines)

    def html(self) -> str:
        """A complete page for a browser, which prints on one sheet of A4."""
        title = f"{order.TRACKS[self.track]}: {'certificate' if self.complete else 'so far'}"
        cells = "".join(
            "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in self.rows()
        )
        missing = f"<p>Still to do: {', '.join(self.missing)}.</p>" if 0 < len(self.missing) < self.required else ""
        scorecards = self.scorecards
        hints = sum(row.hints for one in scorecards for row in one.exercises)
        seen = sum(row.solution_seen for one in scorecards for row in one.exercises)
        return (
            f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>snnkit · {title}</title>'
            f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>'
            f'<p>snnkit, spiking neural networks</p><h1>{title}</h1><p class="who">{html.escape(self.name)}</p>'
            f"<p>passed {self.passed} of {self.required} exercises, on {self.when:%d %B %Y}.</p><table>"
            "<tr><th>notebook</th><th>exercises</th><th>predictions right</th><th>quiz</th></tr>"
            f'{cells}</table>{missing}<p class="note">Hints opened: {hints}; solutions seen: {seen}. Every exercise is '
            "checked by properties of the answer. Progress is a file on the learner’s own machine, so this page is no "
            f"proof. snnkit {snnkit.__version__}</p></body></html>\n"
        )

    @checks.arguments
    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it to ``path`` as an HTML page, and return the path."""
        target = files.expanded(path)
        files.write_text(target, self.html())
        return target

    def __repr__(self) -> str:
        return self.card().text()

    def _repr_html_(self) -> str:
        return self.card().html()


def _predicted(right: str) -> str:
    return "no predictions" if right == _NONE else f"{right} predictions right"


@checks.arguments
def certificate(track: str, name: str = "") -> Certificate:
    """The learner's certificate of a track: "spikes", "machines" or "research".

    It is complete when every exercise that is not optional has been passed. It shows ``name``, one line of text.
    """
    checks.choice("track", track, order.TRACKS)
    scorecards = tuple(progress.scorecard(notebook) for notebook in order.notebooks_of(track))
    return Certificate(track, progress.check_name(name) if name else "", scorecards, date.today())
