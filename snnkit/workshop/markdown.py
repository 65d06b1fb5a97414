"""Just enough Markdown to hold pages to what they say: headings, tables, links and fenced code, each with its line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_HEADING = re.compile(r"(#{1,6}) (.+?)\s*$")
_RULE = re.compile(r"\|(\s*:?-+:?\s*\|)+\s*")


@dataclass(frozen=True)
class Row:
    """One row of a table: its line in the page, and its cells by the names of the columns."""

    line: int
    cells: Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """A table with the line of its head, its columns, and its rows."""

    line: int
    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Code:
    """A fenced block: the line of its first line of code, the words behind the opening fence, and the code."""

    line: int
    words: tuple[str, ...]
    text: str


@dataclass(frozen=True)
class Section:
    """What stands under a heading, up to the next of the same or a higher level."""

    title: str
    level: int
    line: int
    lines: tuple[tuple[int, str], ...] = field(repr=False)

    @property
    def text(self) -> str:
        return "\n".join(line for _, line in self.lines)

    @property
    def tables(self) -> list[Table]:
        return _tables(self.lines)


class Page:
    """A page of Markdown.

    Args:
        name: how problems call it.
        text: its content.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name, self.text = name, text
        self.codes: list[Code] = []
        self.prose: list[tuple[int, str]] = []  # all lines but those of code
        self._split()

    @classmethod
    def read(cls, file: Path, root: Path) -> Page:
        return cls(file.relative_to(root).as_posix(), file.read_text(encoding="utf-8"))

    @property
    def headings(self) -> list[tuple[int, int, str]]:
        """(line, level, title) of each heading."""
        found = ((number, _HEADING.fullmatch(line)) for number, line in self.prose)
        return [(number, len(match[1]), match[2]) for number, match in found if match]

    @property
    def sections(self) -> list[Section]:
        """One for each heading, in order."""
        heads = self.headings
        found = []
        for index, (start, level, title) in enumerate(heads):
            ends = (line for line, other, _ in heads[index + 1 :] if other <= level)
            stop = next(ends, len(self.text.splitlines()) + 1)
            lines = tuple((number, line) for number, line in self.prose if start < number < stop)
            found.append(Section(title, level, start, lines))
        return found

    def section(self, start: str) -> Section | None:
        """The first section whose title begins with ``start``."""
        return next((one for one in self.sections if one.title.startswith(start)), None)

    @property
    def tables(self) -> list[Table]:
        return _tables(tuple(self.prose))

    @property
    def links(self) -> list[tuple[int, str, str]]:
        """(line, text, target) of each link in the prose."""
        return [(number, match[1], match[2]) for number, line in self.prose for match in LINK.finditer(line)]

    def _split(self) -> None:
        opening, start, inside = "", 0, []
        words: tuple[str, ...] = ()
        for number, line in enumerate(self.text.splitlines(), 1):
            fence = re.match(r"\s*(`{3,}|~{3,})(.*)", line)
            if opening and fence and fence[1].startswith(opening) and not fence[2].strip():
                self.codes.append(Code(start + 1, words, "\n".join(inside) + "\n"))
                opening, inside = "", []
            elif opening:
                inside.append(line)
            elif fence:
                opening, start, words = fence[1], number, tuple(fence[2].split())
            else:
                self.prose.append((number, line))


def _tables(lines: tuple[tuple[int, str], ...]) -> list[Table]:
    found, index = [], 0
    while index + 1 < len(lines):
        (number, head), (_, rule) = lines[index], lines[index + 1]
        if not (head.startswith("|") and _RULE.fullmatch(rule)):
            index += 1
            continue
        columns, rows, index = tuple(_cells(head)), [], index + 2
        while index < len(lines) and lines[index][1].startswith("|"):
            line, text = lines[index]
            rows.append(Row(line, dict(zip(columns, _cells(text), strict=False))))
            index += 1
        found.append(Table(number, columns, tuple(rows)))
    return found


def _cells(line: str) -> list[str]:
    """The cells of a row; a pipe that belongs to a cell is written as ``\\|``."""
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
