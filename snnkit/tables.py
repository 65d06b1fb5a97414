"""Tables for people, as text and as HTML, and sizes, durations and counts in words."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def size_of(count: float) -> str:
    """Bytes in words: "640 B", "12.5 kB", "1.7 MB" (powers of 1000, as memory is sold)."""
    sign = "−" if count < 0 else ""
    count = abs(count)
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= 0.99995 * scale:  # what is rounded to 1000.0 of a unit is 1.0 of the next
            return f"{sign}{count / scale:.1f} {unit}"
    return f"{sign}{count:.0f} B"


def duration_of(seconds: float, digits: int | None = None) -> str:
    """A duration in words: "8 s", "2 min 05 s", "1 h 20 min"; below a minute with so many ``digits``: "8.2 s"."""
    minutes, rest = divmod(round(seconds), 60)
    if not minutes:
        return f"{rest if digits is None else round(seconds, digits)} s"
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def count_of(number: int, noun: str) -> str:
    """A number with its noun: "1 process", "2 processes", "1,000 spikes"."""
    plural = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def one_line(value: object, longest: int = 80) -> str:
    """Text that other people wrote, safe on a terminal and in a table: without control characters, cut."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in str(value)[:longest])


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1, always: int = 0) -> list[str]:
    """A line for the head and one for each row.

    Args:
        left: so many columns are aligned to the left, the others to the right.
        always: so many are shown even if they are empty.
    """
    used = [i for i in range(len(head)) if i < always or any(row[i] for row in rows)]
    widths = {i: max(len(line[i]) for line in (head, *rows)) for i in used}
    return [
        "  ".join(line[i].ljust(widths[i]) if i < left else line[i].rjust(widths[i]) for i in used).rstrip()
        for line in (head, *rows)
    ]


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = (), *, left: int = 1) -> str:
    """For notebooks: so many columns are aligned to the ``left``, the others to the right; ``notes`` below."""
    sides = ["left" if i < left else "right" for i in range(len(head))]

    def row(cells: Sequence[str], tag: str) -> str:
        styled = (
            f"<{tag} style='text-align:{side}'>{html.escape(c)}</{tag}>" for c, side in zip(cells, sides, strict=True)
        )
        return f"<tr>{''.join(styled)}</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    below = "".join(f"<div>{html.escape(note)}</div>" for note in notes)
    return f"<div style='overflow-x:auto'><table>{row(head, 'th')}{body}</table>{below}</div>"
