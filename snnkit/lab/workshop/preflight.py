"""The preflight check of a room: each machine gives one line, and the lines become a table."""

from __future__ import annotations

import codecs
import getpass
import os
import re
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, unquote

import snnkit
from snnkit import checks
from snnkit.lab.tools import doctor
from snnkit.lab.workshop.timetable import WorkshopError
from snnkit.tables import one_line, text_table

MARK = "snnkit-preflight/2"
LARGEST = 1 << 24  # bytes that are read of a file
WIDTH = 30  # letters of a fact in the table
READY, LIMITS, STOP = "READY", "LIMITS", "STOP"
VERDICTS = (STOP, LIMITS, READY)  # the worst first
FINDINGS = ("Python", "torch", "GPU", "processor", "memory", "disk")  # of the doctor: in the line, by their first words
FIELDS = ("name", "when", "kit", *FINDINGS, "amber", "red")
COLUMNS = ("name", *FINDINGS)
# Amber lines of the doctor that no notebook minds.
HARMLESS = ("GPU", "bfloat16", "Triton", "data: ")
PLACEHOLDER = "YOURNAME"  # in the invitation
LONGEST = 4000  # letters of a line, with what mail programs add
_BREAK = r"(?:[ \t]*=?\r?\n[> \t]*)?"  # of a mail program, which may quote the next line
_BEGIN = re.compile(_BREAK.join(map(re.escape, MARK)))
_LINE = re.compile(f"({'|'.join(VERDICTS)})" + "".join(f"({name}=[^=]*?)" for name in FIELDS) + "crc=([0-9a-f]{8})")
_PATH = re.compile(r" \((?:[A-Za-z]:)?[\\/][^)]*\)|(?:[A-Za-z]:)?[\\/](?:[^\s\\/:,;()]+[\\/])+")


@dataclass(frozen=True)
class Verdict:
    """What a machine is good for: READY, LIMITS (works, with a limit) or STOP, and the facts behind it, as texts."""

    verdict: str
    facts: Mapping[str, str]

    def line(self) -> str:
        """One line of ASCII without tabs or quotes; what chats turn into links or smileys is spelled out."""
        fields = " ".join(f"{name}={quote(self.facts.get(name, ''), safe='+.,-:')}" for name in FIELDS)
        return f"{MARK} {self.verdict} {fields} crc={_checksum(f'{self.verdict} {fields}')}"


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


# --- this machine -----------------------------------------------------------------------------------------------------


def check(name: str, lines: Sequence[doctor.Line]) -> Verdict:
    """This machine's verdict on the doctor's findings: STOP for what is red, LIMITS for what is amber.

    ``name`` is the learner's, or any word by which you find the machine again; if empty, the user's login name. Paths
    are left out: they hold names. Raises WorkshopError if ``name`` is the invitation's placeholder.
    """
    if _is_placeholder(name):
        raise WorkshopError(f"write your own name in place of {PLACEHOLDER}")
    wrong = _wrong(lines)
    try:
        login = getpass.getuser()
    except (ImportError, KeyError, OSError):  # a number without a name, or a system without users
        login = f"user {os.getuid()}" if hasattr(os, "getuid") else "user"
    red = [line.name for line in wrong if line.status == doctor.RED]
    amber = [line.name for line in wrong if line.status == doctor.AMBER]
    facts = {
        "name": name or login,
        "when": time.strftime("%Y-%m-%dT%H:%MZ", time.gmtime()),
        "kit": snnkit.__version__,
        "amber": ",".join(amber),
        "red": ",".join(red),
        **{word: _PATH.sub("", line.value) for line in lines if (word := line.name.removesuffix(" 0")) in FINDINGS},
    }
    return Verdict(STOP if red else LIMITS if amber else READY, facts)


def fixes(lines: Sequence[doctor.Line]) -> list[str]:
    """What to do about each red or amber finding that matters, in the doctor's words."""
    return [f"{line.name}: {line.value}{f' -> {line.fix}' if line.fix else ''}" for line in _wrong(lines)]


def _wrong(lines: Sequence[doctor.Line]) -> list[doctor.Line]:
    """What is red, then what is amber and matters."""
    red = [line for line in lines if line.status == doctor.RED]
    return red + [line for line in lines if line.status == doctor.AMBER and not line.name.startswith(HARMLESS)]


# --- a room -----------------------------------------------------------------------------------------------------------


class Room(NamedTuple):
    """What the lines of a room say."""

    verdicts: tuple[Verdict, ...]  #: the last one of each machine, the worst first
    damaged: tuple[str, ...]  #: "place: why" of each line that could not be read
    doubtful: tuple[str, ...] = ()  #: a sentence about each name that several machines have

    def count(self, verdict: str) -> int:
        return sum(one.verdict == verdict for one in self.verdicts)


def from_path(path: Path) -> Room:
    """The verdicts in a file, or in the files of a folder. Raises WorkshopError if they can't be read."""
    texts = {}
    try:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.is_file() or file == path:
                with file.open("rb") as opened:
                    content = opened.read(LARGEST)
                # PowerShell's ``>`` writes UTF-16 with its mark.
                wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
                texts[file.name] = content.decode("utf-16" if wide else "utf-8", errors="replace")
    except OSError as error:
        raise WorkshopError(f"can't read {error.filename}: {error.strerror or error}") from None
    return from_texts(texts)


def from_texts(texts: Mapping[str, str]) -> Room:
    """The verdicts in texts, by the names of their places.

    Of several of one machine the latest counts. A machine is known by its learner's name, processor, GPU, and memory.
    """
    latest: dict[tuple[str, ...], Verdict] = {}
    damaged = []
    for place, content in texts.items():
        begins = list(_BEGIN.finditer(content))
        for begin, following in zip_longest(begins, begins[1:]):
            end = begin.end() + LONGEST
            written = content[begin.end() : min(end, following.start()) if following else end]
            report = _read(written)
            if report is None:
                line = content.count("\n", 0, begin.start()) + 1
                name = re.search(r"name=(?:3D)?([^\s=]+)", written)
                whose = f"the line of {one_line(unquote(name[1]), WIDTH)} is " if name else ""
                damaged.append(f"{place}:{line}: {whose}cut off, or changed on the way: its checksum is another")
            elif report.facts["when"] >= (latest.get(machine := _machine(report)) or report).facts["when"]:
                latest[machine] = report
    ranked = sorted(latest.values(), key=lambda one: (VERDICTS.index(one.verdict), one.facts["name"].casefold()))
    return Room(tuple(ranked), tuple(damaged), tuple(_namesakes(latest)))


def _read(written: str) -> Verdict | None:
    """The verdict in a text that begins after the mark; None if it is damaged.

    A mail program breaks lines, at spaces or anywhere, quotes each, and may write "=3D" for "=" and "=" before a break
    (quoted-printable). Fields hold neither spaces nor "=", so the original can be restored, and the checksum proves it.
    """
    plain = re.sub(r"=([0-9A-Fa-f]{2})", lambda code: chr(int(code[1], 16)), re.sub(r"=[ \t]*\r?\n", "\n", written))
    for form in (written, plain):
        match = _LINE.match(re.sub(r"[\s>]+", "", form))
        if match is not None:
            *parts, crc = match.groups()
            if _checksum(" ".join(parts)) == crc:
                pairs = (part.partition("=") for part in parts[1:])
                return Verdict(parts[0], {name: unquote(value) for name, _, value in pairs})
    return None


def _is_placeholder(name: str) -> bool:
    return name.strip(" <>'\"").upper() == PLACEHOLDER


def _machine(one: Verdict) -> tuple[str, ...]:
    """What stays as it is when the check runs again on the same machine."""
    memory = one.facts["memory"].rpartition(" of ")[2]  # the part that is free changes
    return " ".join(one.facts["name"].casefold().split()), one.facts["processor"], one.facts["GPU"], memory


def _namesakes(machines: Iterable[tuple[str, ...]]) -> list[str]:
    """A sentence about each name of several machines, and the placeholder of the invitation."""
    by_name: dict[str, list[tuple[str, ...]]] = {}
    for name, *facts in machines:
        by_name.setdefault(name, []).append(tuple(facts))
    sentences = []
    for name, all_facts in by_name.items():
        kinds = zip(("processor", "GPU", "memory"), zip(*all_facts, strict=True), strict=True)
        differ = [
            f"{word}: {' / '.join(one_line(fact, WIDTH) for fact in facts)}"
            for word, facts in kinds
            if len(set(facts)) > 1
        ]
        if _is_placeholder(name):
            sentences.append(f"{PLACEHOLDER} is what the invitation says: ask who it is; there may be several")
        elif differ:
            why = f"is the name of {len(all_facts)} machines, with different facts ({'; '.join(differ)})"
            sentences.append(f"{one_line(name, WIDTH)} {why}: two people, or one with two machines?")
    return sentences


def text(room: Room, expected: int | None = None) -> str:
    """The room as a table, what stops which machines, and how many have not answered of those ``expected``."""
    if not room.verdicts and not room.damaged:
        return "there is no verdict: each machine runs `snnkit workshop preflight` and sends you its line"
    counts = ", ".join(f"{room.count(kind)} {kind}" for kind in reversed(VERDICTS))
    head = f"{len(room.verdicts)} machines: {counts}"
    if expected is not None:
        head += f"; {max(expected - len(room.verdicts), 0)} of {expected} have not answered"
    rows = [(one.verdict, *(one_line(one.facts.get(column, ""), WIDTH) for column in COLUMNS)) for one in room.verdicts]
    lines = [head, "", *text_table(("verdict", *COLUMNS), rows, left=1 + len(COLUMNS))]
    lines += _reasons("What stops machines", "red", room.verdicts)
    lines += _reasons("What limits them", "amber", room.verdicts)
    if room.doubtful:
        lines += ["", "Names to ask about", *(f"  {one}" for one in room.doubtful)]
    if room.damaged:
        lines += ["", "Lines that could not be read", *(f"  {one}" for one in room.damaged)]
    return "\n".join(lines)


def _reasons(title: str, kind: str, verdicts: Iterable[Verdict]) -> list[str]:
    """A line for each reason with the machines that it hits, the most frequent first."""
    pairs = [(word, one) for one in verdicts for word in one.facts.get(kind, "").split(",") if word]
    lines = []
    for word, count in Counter(word for word, _ in pairs).most_common():
        names = [one_line(one.facts["name"], WIDTH) for reason, one in pairs if reason == word]
        lines.append(f"  {one_line(word, WIDTH)}: {count} ({', '.join(names)})")
    return ["", title, *lines] if lines else []


checks.all_arguments(__name__)
