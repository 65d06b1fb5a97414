"""Tables for people, as text and as HTML, and sizes in words."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence


def size_of(count: float) -> str:
    """Bytes in words: "640 B", "12.5 kB", "1.7 MB" (powers of 1000, as memory is sold)."""
    sign = "−" if count < 0 else ""
    count = abs(count)
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{sign}{count / scale:.1f} {unit}"
    return f"{sign}{count:.0f} B"


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


def html_table(head: Sequence[str], rows: Iterable[Sequence[str]], notes: Iterable[str] = ()) -> str:
    """For notebooks: the first column to the left, the others to the right; ``notes`` below."""
    left, right = "text-align:left", "text-align:right"

    def row(cells: Sequence[str], tag: str) -> str:
        styled = (f"<{tag} style='{right if i else left}'>{html.escape(c)}</{tag}>" for i, c in enumerate(cells))
        return f"<tr>{''.join(styled)}</tr>"

    body = "".join(row(cells, "td") for cells in rows)
    below = "".join(f"<div>{html.escape(note)}</div>" for note in notes)
    return f"<div style='overflow-x:auto'><table>{row(head, 'th')}{body}</table>{below}</div>"
