"""A machine's verdict as one line that survives a chat: a word to read, fields to collect, and a checksum."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

MARK = "snnkit-preflight/1"
READY, LIMITS, STOP = "READY", "LIMITS", "STOP"
VERDICTS = (READY, LIMITS, STOP)
FIELDS = (
    "name", "when", "kit", "python", "system", "torch", "device", "cores", "memory_gib", "disk_gib", "compiler",
    "jupyter", "data", "network", "amber", "red",
)  # fmt: skip
_LINE = re.compile(rf"{re.escape(MARK)} (\w+)((?: [a-z_]+=\S*)*) crc=([0-9a-f]{{8}})")


class DamagedLine(ValueError):
    """A line with the mark of a verdict that can't be read."""


@dataclass(frozen=True)
class Verdict:
    """What a machine is good for: READY, LIMITS (works, with a limit) or STOP, and the facts behind it, as texts."""

    verdict: str
    facts: Mapping[str, str]

    def line(self) -> str:
        """One line of ASCII without tabs or quotes."""
        fields = " ".join(f"{name}={_packed(self.facts.get(name, ''))}" for name in FIELDS)
        body = f"{MARK} {self.verdict} {fields}"
        return f"{body} crc={_checksum(body)}"


def read(line: str) -> Verdict | None:
    """The verdict in a line, whatever a chat has put around it; None if there is none.

    Raises DamagedLine where the mark is there but not the rest, or the checksum is another.
    """
    if MARK not in line:
        return None
    found = _LINE.search(line)
    if not found:
        raise DamagedLine("cut off, or broken into several lines")
    body = found[0].rpartition(" crc=")[0]
    if _checksum(body) != found[3]:
        raise DamagedLine("changed on the way: its checksum is another")
    if found[1] not in VERDICTS:
        raise DamagedLine(f"its verdict is {found[1]!r}, none of {', '.join(VERDICTS)}")
    pairs = (pair.partition("=") for pair in found[2].split())
    return Verdict(found[1], {name: unquote(value) for name, _, value in pairs if name in FIELDS})


def _packed(value: str) -> str:
    """A value without spaces; what chats turn into links, marks or smileys is spelled out."""
    return quote(value, safe="+.,-:")


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
