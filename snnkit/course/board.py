"""A room as text and as HTML: the same tables in both."""

from __future__ import annotations

import html as _html
from typing import TYPE_CHECKING

from .room_files import Learner

if TYPE_CHECKING:
    from .rooms import Room

SHOWN = 10  # rows of "who is stuck" and of "what fails most"
WIDTH = 8  # characters of a bar
GREEN, GREY = "#009E73", "rgba(127,127,127,.25)"
_CELL = "padding:.3em .7em;text-align:left;white-space:nowrap;border-bottom:1px solid rgba(127,127,127,.25)"


def summary(room: Room) -> str:
    """One line: how many, how far."""
    if not room.learners:
        return "no learner's file yet: each runs `course.export(…)` and puts the file here"
    passed, of = (sum(numbers) for numbers in zip(*map(room.done, room.learners), strict=True))
    far = f"{passed} of {of} exercises passed ({passed / of:.0%})" if of else "nothing done yet"
    return f"{_count(len(room.learners), 'learner')}, {far}"


def stuck(room: Room) -> list[str]:
    """Who needs help, as sentences."""
    found = room.stuck()
    lines = [
        f"{one.learner}: {one.entry.key} {one.entry.title}, {one.entry.attempts} attempts, "
        f"{_count(one.entry.hints, 'hint')}" + (f", mostly fails at “{one.check}”" if one.check else "")
        for one in found[:SHOWN]
    ]
    return lines + _more(len(found))


def hurdles(room: Room) -> list[str]:
    """What fails most, as sentences."""
    found = room.hurdles()
    lines = [
        f"{one.key} {one.title}: {one.failed} of {_count(one.tried, 'learner')} failed at “{one.check}”"
        for one in found[:SHOWN]
    ]
    return lines + _more(len(found))


def refused(room: Room) -> list[str]:
    return [f"{file}: {why}" for file, why in room.refused]


LISTS = (("Stuck", stuck), ("Failed most", hurdles), ("Not read", refused))


def text(room: Room) -> str:
    """For a terminal."""
    heads = ["learner", *room.notebooks, "quiz", "exported"]
    rows = [
        [room.label(one), *(_bar(*_passed(one, n)) for n in room.notebooks), _quiz(room, one), _when(one)]
        for one in room.learners
    ]
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    lines = [f"Room {room.folder}: {summary(room)}"]
    if rows:
        lines += ["", *("  ".join(map(str.ljust, row, widths)).rstrip() for row in (heads, *rows))]
    for title, told in LISTS:
        if sentences := told(room):
            lines += ["", title, *(f"  {sentence}" for sentence in sentences)]
    return "\n".join(lines)


def html(room: Room) -> str:
    """For a notebook. No colour alone: each bar has its numbers, and no style sheet: a notebook may drop it."""
    heads = "".join(_head(word) for word in ("learner", *room.notebooks, "quiz", "exported"))
    rows = "".join(f"<tr>{_row(room, learner)}</tr>" for learner in room.learners)
    table = (
        f'<div style="overflow-x:auto"><table style="border-collapse:collapse"><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )
    lists = "".join(_list(title, told(room)) for title, told in LISTS)
    head = f"<div><b>Room {_safe(room.folder)}</b> · {_safe(summary(room))}</div>"
    return f'<div class="snnkit-room" style="line-height:1.45">{head}{table if room.learners else ""}{lists}</div>'


def page(room: Room) -> str:
    """A page of its own, for a browser: light or dark as the reader has it."""
    style = "body{font-family:system-ui,sans-serif;margin:1.5em;max-width:80em}:root{color-scheme:light dark}"
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>snnkit: the room</title><style>{style}</style></head><body>{html(room)}</body></html>\n"
    )


def _passed(learner: Learner, notebook: str) -> tuple[int, int]:
    work = learner.notebooks.get(notebook)
    return (sum(row.passed for row in work.exercises), len(work.exercises)) if work else (0, 0)


def _bar(passed: int, of: int) -> str:
    if not of:
        return "–"
    full = passed * WIDTH // of
    return f"{'█' * full}{'░' * (WIDTH - full)} {passed}/{of}"


def _quiz(room: Room, learner: Learner) -> str:
    marks = [m for n in room.notebooks if n in learner.notebooks for m in learner.notebooks[n].quiz]
    return f"{sum(m is True for m in marks)}/{len(marks)}" if marks else "–"


def _when(learner: Learner) -> str:
    return f"{learner.when:%d %b %H:%M}" if learner.when else "–"


def _head(word: str) -> str:
    return f'<th scope="col" style="{_CELL}">{_safe(word)}</th>'


def _row(room: Room, learner: Learner) -> str:
    name = f'<th scope="row" style="{_CELL};font-weight:600">{_safe(room.label(learner))}</th>'
    bars = "".join(f'<td style="{_CELL}">{_bar_html(*_passed(learner, n))}</td>' for n in room.notebooks)
    rest = "".join(f'<td style="{_CELL}">{_safe(word)}</td>' for word in (_quiz(room, learner), _when(learner)))
    return name + bars + rest


def _bar_html(passed: int, of: int) -> str:
    if not of:
        return "–"
    outer = f"display:inline-block;width:4.5em;height:.7em;background:{GREY};border-radius:2px;margin-right:.5em"
    inner = f"display:block;width:{100 * passed / of:.0f}%;height:100%;background:{GREEN};border-radius:2px"
    return f'<span aria-hidden="true" style="{outer}"><span style="{inner}"></span></span>{passed}/{of}'


def _list(title: str, sentences: list[str]) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{_safe(sentence)}</li>" for sentence in sentences)
    return f'<p style="margin:.8em 0 .2em"><b>{title}</b></p><ul style="margin:0 0 0 1.2em;padding:0">{items}</ul>'


def _safe(text: str) -> str:
    return _html.escape(text)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _more(total: int) -> list[str]:
    return [f"… and {total - SHOWN} more"] if total > SHOWN else []
