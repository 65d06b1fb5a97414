"""The preflight check of a room: each machine says in one line what it is good for; the instructor tabulates the lines.

A line survives a chat: it has a word to read (READY, LIMITS, STOP), fields to collect, and a checksum. What it says is
what `snnkit doctor` finds.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import getpass
import io
import platform
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote, unquote

import snnkit
from snnkit.measure import machine
from snnkit.tables import text_table
from snnkit.tools import doctor

from .timetable import WorkshopError

MARK = "snnkit-preflight/1"
READY, LIMITS, STOP = "READY", "LIMITS", "STOP"
VERDICTS = (READY, LIMITS, STOP)
FIELDS = (
    "name", "when", "kit", "python", "system", "torch", "device", "cores", "memory_gib", "disk_gib", "compiler",
    "jupyter", "data", "network", "amber", "red",
)  # fmt: skip
NEEDS = ("gpu", "network", "mnist", "fashion")  # what a workshop may ask for beyond the usual
# Amber lines of the doctor that no notebook minds, unless the workshop needs them.
HARMLESS = ("GPU", "bfloat16", "Triton", "data: mnist", "data: fashion")
PATIENCE = 5.0  # seconds for an answer from the network
ENDINGS = {".txt", ".md", ".log", ".csv", ".tsv", ".json", ".html", ".eml", ""}  # where people paste lines
COLUMNS = ("name", "python", "torch", "device", "cores", "memory_gib", "disk_gib", "jupyter", "data", "network")
ORDER = {STOP: 0, LIMITS: 1, READY: 2}
WRAPPED = 12  # lines that one verdict may be broken into
LARGEST = 20_000_000  # bytes of a file that is looked into
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


def read_line(line: str) -> Verdict | None:
    """The verdict in a line, whatever a chat has put around it; None if there is none.

    Raises DamagedLine where the mark is there but not the rest, or the checksum is another.
    """
    if MARK not in line:
        return None
    match = _LINE.search(line)
    if not match:
        raise DamagedLine("cut off, or broken into several lines")
    body = match[0].rpartition(" crc=")[0]
    if _checksum(body) != match[3]:
        raise DamagedLine("changed on the way: its checksum is another")
    if match[1] not in VERDICTS:
        raise DamagedLine(f"its verdict is {match[1]!r}, none of {', '.join(VERDICTS)}")
    pairs = (pair.partition("=") for pair in match[2].split())
    return Verdict(match[1], {name: unquote(value) for name, _, value in pairs if name in FIELDS})


def _packed(value: str) -> str:
    """A value without spaces; what chats turn into links, marks or smileys is spelled out."""
    return quote(value, safe="+.,-:")


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


# --- this machine -----------------------------------------------------------------------------------------------------


def check(name: str = "", needs: Sequence[str] = (), lines: Sequence[doctor.Line] | None = None) -> Verdict:
    """This machine's verdict: STOP for what is red, or needed and not there, LIMITS for what is amber.

    Args:
        name: the learner's, or any word by which you find the machine again. Default: the user's login name.
        needs: what this workshop cannot do without, of ``NEEDS``.
        lines: the doctor's findings; looked for if not given.

    Raises:
        ValueError: an unknown need.
    """
    unknown = [need for need in needs if need not in NEEDS]
    if unknown:
        raise ValueError(f"needs must be of {', '.join(NEEDS)}, but it is {unknown[0]!r}")
    lines = doctor.report() if lines is None else lines
    by_name = {line.name: line for line in lines}
    online = reachable()
    has_gpu = any(line.name.startswith("GPU ") for line in lines)
    missing = {
        "gpu": not has_gpu,
        "network": online is False,
        **{
            data: by_name.get(f"data: {data}", doctor.Line("", doctor.RED, "")).status != doctor.GREEN
            for data in NEEDS[2:]
        },
    }
    red = [line.name for line in lines if line.status == doctor.RED] + [need for need in needs if missing[need]]
    amber = [line.name for line in lines if line.status == doctor.AMBER and not line.name.startswith(HARMLESS)]
    facts = {
        "name": name or _user(),
        "when": datetime.now(timezone.utc).isoformat(timespec="minutes").replace("+00:00", "Z"),
        "kit": snnkit.__version__,
        "network": {True: "yes", False: "no", None: "untried"}[online],
        "amber": ",".join(amber),
        "red": ",".join(red),
        **_facts(by_name, has_gpu),
    }
    return Verdict(STOP if red else LIMITS if amber else READY, facts)


def fixes(lines: Sequence[doctor.Line]) -> list[str]:
    """What to do about each red or amber finding that matters, in the doctor's words."""
    return [
        f"{line.name}: {line.value}" + (f" -> {line.fix}" if line.fix else "")
        for line in sorted(lines, key=lambda line: line.status != doctor.RED)
        if line.status == doctor.RED or (line.status == doctor.AMBER and not line.name.startswith(HARMLESS))
    ]


def reachable() -> bool | None:
    """Whether the home of the project on the web answers, by a proxy if one is set; None where it is unknown."""
    import urllib.error
    import urllib.request

    from snnkit.tools.project import ProjectError, find

    try:
        address = find().repository
    except ProjectError:  # installed without its repository
        return None
    try:
        request = urllib.request.Request(address, method="HEAD")
        with urllib.request.urlopen(request, timeout=PATIENCE):
            return True
    except urllib.error.HTTPError:  # an answer is an answer
        return True
    except (OSError, ValueError):
        return False


def _facts(by_name: dict[str, doctor.Line], has_gpu: bool) -> dict[str, str]:
    """Versions and sizes; empty texts for what is unknown."""
    place = "Colab" if machine.in_colab() else platform.system()
    return {
        "python": platform.python_version(),
        "system": f"{place} {platform.machine()}",
        "torch": _torch(),
        "device": by_name["GPU 0"].value if has_gpu else "cpu",
        "cores": str(machine.cores()),
        "memory_gib": _memory(),
        "disk_gib": f"{shutil.disk_usage(Path.cwd()).free / machine.GIB:.1f}",
        "compiler": "yes" if machine.compiler() else "no",
        "jupyter": "yes" if _green(by_name, "Jupyter") and _green(by_name, "pictures") else "no",
        "data": ",".join(data for data in ("digits", "mnist", "fashion") if _green(by_name, f"data: {data}")),
    }


def _green(by_name: dict[str, doctor.Line], name: str) -> bool:
    return name in by_name and by_name[name].status == doctor.GREEN


def _memory() -> str:
    """Free and all main memory, "6.2/7.8"."""
    try:
        total, free = machine.memory_gib()
    except ImportError:  # psutil comes with snnkit[lab]
        return ""
    return f"{free:.1f}/{total:.1f}"


def _torch() -> str:
    return machine.version("torch") or ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # no login name: a container, or Windows without its variables
        return "unknown"


# --- a room -----------------------------------------------------------------------------------------------------------


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
            verdict = _unwrapped([line for _, line in numbered[index : index + WRAPPED]])
        except DamagedLine as error:
            damaged.append(f"{place}: {error}")
            continue
        if verdict:
            key = verdict.facts.get("name", "").casefold(), verdict.facts.get("system", "")
            before = latest.get(key)
            if before is None or verdict.facts.get("when", "") >= before.facts.get("when", ""):
                latest[key] = verdict
    ranked = sorted(latest.values(), key=lambda one: (ORDER[one.verdict], one.facts.get("name", "").casefold()))
    return Room(tuple(ranked), tuple(damaged))


def _unwrapped(lines: list[str]) -> Verdict | None:
    """The verdict that begins in the first line; mail programs break it into several, and quote each."""
    try:
        return read_line(lines[0])
    except DamagedLine:
        whole = lines[0].rstrip()
        for line in lines[1:]:
            whole += " " + line.lstrip("> \t").rstrip()
            with contextlib.suppress(DamagedLine):
                return read_line(whole)
        raise


def text(room: Room, expected: int | None = None) -> str:
    """The room as a table, what stops which machines, and how many have not answered of those ``expected``."""
    if not room.verdicts and not room.damaged:
        return "there is no verdict: each machine runs `snnkit workshop preflight` and sends you its line"
    counts = ", ".join(f"{room.count(kind)} {kind}" for kind in (READY, LIMITS, STOP))
    head = f"{len(room.verdicts)} machines: {counts}"
    if expected is not None:
        head += f"; {max(expected - len(room.verdicts), 0)} of {expected} have not answered"
    rows = [("verdict", *COLUMNS)]
    rows += [(one.verdict, *(_short(one.facts.get(column, "")) for column in COLUMNS)) for one in room.verdicts]
    lines = [head, "", *text_table(rows[0], rows[1:], left=len(rows[0]), always=len(rows[0]))]
    for title, kind in (("What stops machines", "red"), ("What limits them", "amber")):
        reasons = Counter(word for one in room.verdicts for word in one.facts.get(kind, "").split(",") if word)
        if reasons:
            lines += ["", title]
            for word, count in reasons.most_common():
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
