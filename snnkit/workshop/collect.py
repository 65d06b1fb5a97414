"""Many verdicts as a table: from files, or from what was copied out of a chat."""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .problem import WorkshopError
from .verdict import FIELDS, LIMITS, READY, STOP, DamagedLine, Verdict, read

ENDINGS = {".txt", ".md", ".log", ".csv", ".tsv", ".json", ".html", ".eml", ""}  # where people paste lines
COLUMNS = ("name", "python", "torch", "device", "cores", "memory_gib", "disk_gib", "jupyter", "data", "network")
ORDER = {STOP: 0, LIMITS: 1, READY: 2}
WRAPPED = 12  # lines that one verdict may be broken into
LARGEST = 20_000_000  # bytes of a file that is looked into


@dataclass(frozen=True)
class Room:
    """All machines of a room.

    Attributes:
        verdicts: the last one of each machine; the worst first, then by name.
        damaged: "place: why" of each line that could not be read.
    """

    verdicts: tuple[Verdict, ...]
    damaged: tuple[str, ...]

    def count(self, verdict: str) -> int:
        return sum(one.verdict == verdict for one in self.verdicts)


def from_path(path: Path) -> Room:
    """The verdicts in a file, or in the text files of a folder (not of its folders).

    Raises WorkshopError if the path is neither, or a file can't be read.
    """
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and file.suffix.lower() in ENDINGS)
    elif path.is_file():
        files = [path]
    else:
        raise WorkshopError(f"there is no file or folder {str(path)!r} to collect from")
    lines: list[tuple[str, str]] = []
    for file in files:
        try:
            if file.stat().st_size > LARGEST:
                raise WorkshopError(f"{file} is larger than {LARGEST // 1_000_000} MB: no list of verdicts")
            text = _decoded(file.read_bytes())
        except OSError as error:
            raise WorkshopError(f"can't read {file}: {error.strerror or error}") from None
        lines += [(f"{file.name}:{number}", line) for number, line in enumerate(text.splitlines(), 1)]
    return from_lines(lines)


def _decoded(content: bytes) -> str:
    """UTF-8, or UTF-16 with its mark: PowerShell's ``>`` writes that."""
    wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    return content.decode("utf-16" if wide else "utf-8", errors="replace")


def from_lines(lines: Iterable[tuple[str, str]]) -> Room:
    """The verdicts in (place, line) pairs; of several by one name on one kind of machine, the latest counts."""
    latest: dict[tuple[str, str], Verdict] = {}
    damaged = []
    numbered = list(lines)
    for index, (place, _) in enumerate(numbered):
        try:
            found = _unwrapped([line for _, line in numbered[index : index + WRAPPED]])
        except DamagedLine as error:
            damaged.append(f"{place}: {error}")
            continue
        if found:
            key = found.facts.get("name", "").casefold(), found.facts.get("system", "")
            before = latest.get(key)
            if before is None or found.facts.get("when", "") >= before.facts.get("when", ""):
                latest[key] = found
    ranked = sorted(latest.values(), key=lambda one: (ORDER[one.verdict], one.facts.get("name", "").casefold()))
    return Room(tuple(ranked), tuple(damaged))


def _unwrapped(lines: list[str]) -> Verdict | None:
    """The verdict that begins in the first line; mail programs break it into several, and quote each."""
    try:
        return read(lines[0])
    except DamagedLine:
        whole = lines[0].rstrip()
        for line in lines[1:]:
            whole += " " + line.lstrip("> \t").rstrip()
            with contextlib.suppress(DamagedLine):
                return read(whole)
        raise


def text(room: Room, expected: int | None = None) -> str:
    """The room as a table, what stops whom, and how many have not answered of those ``expected``."""
    if not room.verdicts and not room.damaged:
        return "no verdict found: each machine runs `snnkit workshop preflight` and sends you its line"
    counts = ", ".join(f"{room.count(kind)} {kind}" for kind in (READY, LIMITS, STOP))
    head = f"{len(room.verdicts)} machines: {counts}"
    if expected is not None:
        head += f"; {max(expected - len(room.verdicts), 0)} of {expected} have not answered"
    rows = [("verdict", *COLUMNS)]
    rows += [(one.verdict, *(_short(one.facts.get(column, "")) for column in COLUMNS)) for one in room.verdicts]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [head, "", *("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)]
    for title, kind in (("What stops machines", "red"), ("What limits them", "amber")):
        found = Counter(word for one in room.verdicts for word in one.facts.get(kind, "").split(",") if word)
        if found:
            lines += ["", title]
            for word, count in found.most_common():
                hit = [one for one in room.verdicts if word in one.facts.get(kind, "").split(",")]
                names = [_short(one.facts.get("name", "")) for one in hit]
                lines.append(f"  {_short(word)}: {count} ({', '.join(names[:8])}{', …' if count > 8 else ''})")
    if room.damaged:
        lines += ["", "Lines that could not be read", *(f"  {one}" for one in room.damaged)]
    return "\n".join(lines)


def table(room: Room) -> str:
    """The room as CSV, all fields."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["verdict", *FIELDS])
    writer.writerows([one.verdict, *(_harmless(one.facts.get(name, "")) for name in FIELDS)] for one in room.verdicts)
    return out.getvalue()


def _short(value: str, width: int = 30) -> str:
    printable = "".join(letter if letter.isprintable() else "?" for letter in value)
    return printable if len(printable) <= width else f"{printable[: width - 1]}…"


def _harmless(value: str) -> str:
    """A value that no spreadsheet takes for a formula: lines come from strangers."""
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
