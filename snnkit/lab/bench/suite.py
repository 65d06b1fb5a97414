"""How every benchmark runs: warm up, verify results, time all candidates in turns, and write a record after each case.

A suite defines its cases and the table of their rows. ``run`` does the rest, so no suite can skip the verification or
the provenance.
"""

from __future__ import annotations

import contextlib
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import torch

from snnkit import checks, records
from snnkit.data import resolve_device
from snnkit.measure import Clock, Timing, provenance, race
from snnkit.records.schema import LISTS
from snnkit.tables import count_of, text_table
from snnkit.train.checkpoint import writable

T = TypeVar("T")
Row = dict[str, Any]
Record = Mapping[str, Any]
Rows = Sequence[Record]
Say = Callable[[str], object]
OURS = "snnkit"
NO_TIME = {"contestant": "all", "reason": "no time was left for this case and those after it"}
LATE = "no time was left for it"


class DoesNotRun(Exception):
    """A candidate can't be timed; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """What one case gave."""

    rows: list[Row]  # one for each candidate that was timed
    references: dict[str, list[Row]]  # by list of the record, what the rows are compared with: measured or predicted
    skipped: list[Row]  # the candidates that were not timed, each with its "reason"
    defects: list[Exception] = field(default_factory=list)  # of our own; they are among the skipped, too


class Race(ABC):
    """A case: its candidates are verified, then timed in turns with an operation that sets the scale."""

    labels: Row  # the fields of a row that name this case
    candidates: Sequence[Any]  # with a ``name``, a ``library`` and an ``equation`` or none
    clock: Clock | None = None
    ends: float = math.inf  # on the clock of ``time.monotonic``; later, no other candidate is prepared

    @abstractmethod
    def prepare(self, candidate: Any) -> tuple[Row, Callable[[], object]]:
        """Warm up and verify: what its row says beside times, and the function to time. Raises ``DoesNotRun``."""

    @abstractmethod
    def scale(self) -> Callable[[], object]:
        """The operation that is timed in the same rounds, such as a copy."""

    @abstractmethod
    def floor(self, row: Row, scale: Timing) -> float:
        """Fewest seconds that a candidate needs, by the operation that sets the scale."""

    def finish(self, row: Row, timing: Timing) -> Row:
        """The row with its times."""
        return row | seconds_of(timing)

    def references(self, scale: Timing) -> dict[str, list[Row]]:
        """``Outcome.references``, from the timing of the operation that sets the scale."""
        return {}

    def measure(self, repeats: int) -> Outcome:
        """Verify, then time. There are no rows if no candidate runs."""
        prepared, runs, skipped, defects = [], [], [], []
        for candidate in self.candidates:
            row = self.labels | {"contestant": candidate.name}
            try:
                if runs and time.monotonic() > self.ends:  # compilers may take a minute for one
                    raise DoesNotRun(LATE)
                about, run = self.prepare(candidate)
            except Exception as error:
                if not isinstance(error, DoesNotRun):
                    defects.append(error)
                skipped.append({"equation": getattr(candidate, "equation", "")} | row | {"reason": reason_of(error)})
                continue
            prepared.append(row | {"library": candidate.library} | about)
            runs.append(run)
        if not runs:
            return Outcome([], {}, skipped, defects)
        scale, *timings = race(dict(enumerate([self.scale(), *runs])), repeats, clock=self.clock).values()
        rows = []
        for about, timing in zip(prepared, timings, strict=True):
            row = self.finish(about, timing)
            floor = self.floor(row, scale)
            rows.append(row | {"floor_s": floor, "over_floor": row["median_s"] / floor})
        return Outcome(rows, self.references(scale), skipped, defects)


def reason_of(error: Exception) -> str:
    """Why a candidate was not timed, in one line."""
    if isinstance(error, DoesNotRun):
        return str(error)
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:200]}"


def attempt(library: str, function: Callable[[], T]) -> T:
    """The result of ``function``; ``DoesNotRun`` if memory runs out or a library other than ours fails."""
    try:
        return function()
    except DoesNotRun:
        raise
    except (torch.cuda.OutOfMemoryError, MemoryError) as error:
        raise DoesNotRun("too little memory; choose a smaller size") from error
    except Exception as error:  # a defect of one library must not end the run of all others
        if library == OURS:
            raise
        raise DoesNotRun(reason_of(error)) from error


def distance(result: torch.Tensor, exact: torch.Tensor) -> float:
    """Of a result from the exact one: their difference in L2, relative to the size of the exact one."""
    return ((result - exact).norm() / exact.norm().clamp_min(1e-30)).item()


@contextlib.contextmanager
def tf32(allowed: bool) -> Iterator[None]:
    """Within it, products of float32 matrices on CUDA may be rounded to TF32, or may not."""
    usual = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = allowed
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = usual


@dataclass(frozen=True)
class Suite:
    """A benchmark."""

    kind: str  # of its records
    key: tuple[str, ...]  # the fields of a row that name its case
    cases: Callable[[Any, torch.device], Iterable[Any]]  # each has ``labels`` and ``measure(repeats)``
    table: Callable[[Record, Rows], str]  # of one case
    unavailable: Callable[[Any, torch.device], Mapping[str, str]] = lambda arguments, device: {}  # candidates, and why
    ending: Callable[[Record], str] = lambda record: ""  # below all tables
    constants: Row = field(default_factory=dict)  # what each record holds, whatever is measured

    def run(
        self,
        arguments: Any,
        say: Say = print,
        out: str | Path | None = None,
        *,
        seconds: float = math.inf,
        store: Callable[[Row], object] | None = None,
    ) -> Row:
        """Measure every case and return the record; ``say`` gets a table as text after each case.

        ``out`` is a file for the record. It is written after each case, so that an interruption loses at most one case
        (``complete`` is false until the end). After so many ``seconds`` no other case or candidate begins; the record
        says so. ``store`` gets the record in place of a file.

        A defect of our own does not end the run: the record says what it left out, and is complete. Then the first one
        is raised.
        """
        ends = time.monotonic() + seconds
        check_out(out)
        store = store or (lambda record: save(record, out))
        defects: list[Exception] = []
        device = resolve_device(arguments.device)
        missing = self.unavailable(arguments, device)
        skipped = [{"contestant": name, "reason": reason} for name, reason in missing.items()]
        record = begin(self.kind, device, asdict(arguments)) | {"skipped": skipped} | self.constants
        say("\n".join([heading(record | {"complete": True}), *self._skipped(record["skipped"])]))
        for case in self.cases(arguments, device):
            late = time.monotonic() > ends
            if isinstance(case, Race):
                case.ends = ends
            outcome = Outcome([], {}, [case.labels | NO_TIME]) if late else _measured(case, arguments.repeats)
            defects += outcome.defects
            record["rows"] += outcome.rows
            record["skipped"] += outcome.skipped
            for name, entries in outcome.references.items():
                record[name] += entries
            tables = [self.table(record, outcome.rows)] if outcome.rows else []
            say("\n" + "\n".join([*tables, *self._skipped(outcome.skipped)]))
            store(record)
            if late:
                break
        record["complete"] = True
        if ending := self.ending(record):
            say("\n" + ending)
        store(record)
        if defects:
            raise defects[0]
        return record

    def tables(self, record: Record) -> str:
        """The whole record as text."""
        cases = [self.table(record, rows) for rows in by_case(record["rows"], self.key)]
        skipped = "\n".join(self._skipped(record.get("skipped", [])))
        return "\n\n".join(filter(None, [heading(record), *cases, skipped, self.ending(record)]))

    def _skipped(self, skipped: Rows) -> Iterator[str]:
        for skip in skipped:
            case = [f"{name} {value}" for name, value in skip.items() if value and name not in ("contestant", "reason")]
            yield f"not timed: {skip.get('contestant', '')} ({', '.join(case)}): {skip['reason']}".replace(" ()", "")


def _measured(case: Any, repeats: int) -> Outcome:
    """What a case gave; if it fails as a whole, why."""
    try:
        return case.measure(repeats)
    except Exception as error:
        return Outcome([], {}, [case.labels | {"contestant": "all", "reason": reason_of(error)}], [error])


# -- options of the commands


def option(
    text: str,
    default: Any,
    *,
    cuda: Any = None,
    quick: Any = None,
    flag: str = "",
    choices: Sequence[str] = (),
    least: int = 1,
) -> Any:
    """A field of a suite's ``Arguments`` that is an option of its command. The option of a tuple may be repeated.

    Args:
        text: its help.
        default: on a CPU; also on CUDA if ``cuda`` is None. With ``--quick`` it is ``quick``, unless that is None.
        flag: its name on the command line; by default the field's.
        choices: its possible values.
        least: its smallest whole number.
    """
    about = {"text": text, "cuda": cuda, "quick": quick, "flag": flag, "choices": choices, "least": least}
    return field(default=default, metadata=about)


@dataclass(frozen=True)
class Options:
    """The options of a command; their ranges are checked when they are made, before anything is measured.

    Only the device is checked when the suite runs, as it may be any in Python.
    """

    device: str = option("Where to measure.", "auto", choices=("auto", "cpu", "cuda"))

    def __post_init__(self) -> None:
        for each in fields(self):
            if "text" not in each.metadata or each.name == "device":
                continue
            about, value, default = each.metadata, getattr(self, each.name), each.default
            name = f"--{about['flag'] or each.name}"
            if not isinstance(default, tuple):
                value, default = (value,), (default,)
            for one in value:
                if about["choices"]:
                    checks.choice(name, one, about["choices"])
                elif type(default[0]) is float:
                    checks.number(name, one, at_least=0, at_most=1)
                elif type(default[0]) is int:
                    checks.integer(name, one, at_least=min(about["least"], default[0]))


def peers_option() -> Any:
    """``--peers/--no-peers``."""
    return option("Time the other libraries that are installed (`make peers`).", True)


def repeats_option(default: int, least: int = 3) -> Any:
    """``--repeats``."""
    return option("Rounds; the median counts.", default, quick=least, least=least)


def chosen(kind: type[T], device: str, quick: bool = False, **given: Any) -> T:
    """``Arguments`` of a kind; fields that are None, empty or missing get the defaults of the device."""
    values: dict[str, Any] = {"device": device}
    for each in fields(kind):  # type: ignore[arg-type]
        about, value = each.metadata, given.get(each.name)
        choices = [value, about.get("quick") if quick else None, about.get("cuda") if device == "cuda" else None]
        choices = [choice for choice in choices if choice is not None and choice != ()]
        if choices:
            values.setdefault(each.name, choices[0])
    return kind(**values)


# -- records


def begin(kind: str, device: torch.device, arguments: Record) -> Row:
    """A record whose lists are empty yet."""
    made = {"schema": records.SCHEMA, "kind": kind, "complete": False, "provenance": provenance(device)}
    return made | {"arguments": dict(arguments)} | {name: [] for name in LISTS[kind]}


def check_out(out: str | Path | None) -> None:
    """Before all measurements: ValueError if no record could be written."""
    if out is not None:
        writable(out, "--out")


def save(record: Row, out: str | Path | None) -> None:
    """Write the record, if it has a file."""
    if out is not None:
        records.write(out, record)


def by_case(rows: Iterable[Any], key: Sequence[str]) -> list[list[Any]]:
    """The rows in groups of equal values of ``key``, in the order of the record."""
    cases: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        cases.setdefault(tuple(row[name] for name in key), []).append(row)
    return list(cases.values())


def same_case(entries: Iterable[Any], row: Record, key: Sequence[str]) -> list[Any]:
    """Those of ``entries`` that belong to the case of ``row``."""
    return [entry for entry in entries if all(entry[name] == row[name] for name in key)]


def seconds_of(timing: Timing, calls: int = 1) -> Row:
    """The times in a row: those of one call, if so many calls were timed together."""
    low, high = (seconds / calls for seconds in timing.spread)
    times = {"median_s": timing.median / calls, "p10_s": low, "p90_s": high}
    rounds = [seconds / calls for seconds in timing.rounds]
    return times | {"host_s": timing.host / calls, "calls": timing.calls, "rounds_s": rounds}


def dtype_name(dtype: torch.dtype | None) -> str:
    """As records have it: "bfloat16"; None is float32."""
    return str(dtype or torch.float32).removeprefix("torch.")


# -- tables

Columns = Mapping[str, Callable[[Record], str]]


def table(title: str, columns: Columns, rows: Rows, *, left: int = 1) -> str:
    """Text with a line for each row (head to cell); columns without cells are left out, except the first."""
    cells = [[cell(row) for cell in columns.values()] for row in rows]
    return "\n".join([title, *text_table(list(columns), cells, left=left, always=1)])


def milliseconds(row: Record, scale: float = 1e3) -> str:
    """The median."""
    return f"{row['median_s'] * scale:.4g}"


def spread(row: Record, scale: float = 1e3) -> str:
    """The 10th and 90th percentile."""
    return f"{row['p10_s'] * scale:.4g} - {row['p90_s'] * scale:.4g}"


def over_floor(row: Record) -> str:
    """The time as a multiple of the floor."""
    return f"{row['over_floor']:.2f}"


def times(value: float, base: float | None) -> str:
    """``value`` as a multiple of ``base``; empty without one."""
    return "" if base is None else f"{value / base:.2f}"


# Those that several suites have, in their order.
COLUMNS: Columns = {
    "candidate": lambda row: row["contestant"],
    "equation": lambda row: row["equation"],
    "samples/s": lambda row: f"{row['samples_per_s']:,.0f}",
    "ms": milliseconds,
    "10-90 %": spread,
    "first s": lambda row: f"{row['first_s']:.3g}",
    "x floor": over_floor,
    "peak MB": lambda row: "" if row.get("peak_bytes") is None else f"{row['peak_bytes'] / 1e6:.0f}",
}


def columns(*heads: str) -> dict[str, Callable[[Record], str]]:
    """Some of ``COLUMNS``."""
    return {head: COLUMNS[head] for head in heads}


# The first columns of every table of training.
THROUGHPUT = columns("candidate", "samples/s", "ms", "10-90 %", "first s", "x floor", "peak MB")


@checks.arguments
def heading(record: Record) -> str:
    """The origin of a record's numbers, in a few lines."""
    origin = record["provenance"]
    if record["kind"] == "published":
        labels = ("source", "url", "hardware", "what", "statistic")
        return "\n".join([*(f"{label}: {origin[label]}" for label in labels), "Published figures, not measured here."])
    device, commit = origin["device"], origin.get("commit")
    facts = [device["name"]]
    if device.get("compute_capability"):
        facts.append(f"sm_{device['compute_capability'].replace('.', '')}, driver {device.get('driver')}")
    if device["type"] == "cpu":
        facts.append(count_of(origin["threads"], "thread"))
    lines = [
        f"device: {', '.join(facts)}",
        f"versions: {', '.join(f'{name} {version}' for name, version in origin['versions'].items())}",
    ]
    if commit:
        lines.append(f"commit: {commit['id'][:12]}{' with changes that are not committed' if commit['dirty'] else ''}")
    lines.append(f"date: {origin['date']}{'' if record.get('complete', True) else ' (interrupted: not complete)'}")
    return "\n".join(lines)
