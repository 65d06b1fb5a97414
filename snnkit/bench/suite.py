"""How every benchmark runs: warm up, verify results, time all candidates in turns, and write a record after each case.

A suite says what its cases are and how their rows become a table. ``run`` does the rest, so no suite can skip the
verification or the provenance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import torch

from .. import records
from ..measure import Clock, Timing, provenance, race

T = TypeVar("T")
OURS = "snnkit"
Row = dict[str, Any]
_SCALE = " scale"  # no candidate is called that


class DoesNotRun(Exception):
    """A candidate can't be timed; the message says why."""


@dataclass(frozen=True)
class Outcome:
    """What one case gave.

    Attributes:
        rows: one for each candidate that was timed.
        scale: by name of a list of the record, what was measured or predicted beside them.
        skipped: the candidates that were not timed, each with its "reason".
    """

    rows: list[Row]
    scale: dict[str, list[Row]]
    skipped: list[Row]


class Race(ABC):
    """A case whose candidates are verified, then timed in turns with an operation that sets the scale.

    Attributes:
        labels: the fields of a row that name this case.
        candidates: with a ``name``, a ``library`` and an ``equation`` or none.
        clock: for the timing.
    """

    labels: Row
    candidates: Sequence[Any]
    clock: Clock | None = None

    @abstractmethod
    def prepare(self, candidate: Any) -> tuple[Row, Callable[[], object]]:
        """Warm up and verify: a row without times, and the function to time. Raises ``DoesNotRun``."""

    @abstractmethod
    def scale(self) -> Callable[[], object]:
        """The operation that is timed in the same rounds, such as a copy."""

    @abstractmethod
    def finish(self, row: Row, timing: Timing, scale: Timing) -> Row:
        """The row with its times."""

    def beside(self, scale: Timing) -> dict[str, list[Row]]:
        """``Outcome.scale``, made of the timing of the operation that sets the scale."""
        return {}

    def skip(self, candidate: Any, reason: str) -> Row:
        """An entry for ``Outcome.skipped``."""
        return self.labels | {"contestant": candidate.name, "reason": reason}

    def key(self, candidate: Any) -> str:
        """Unique among the candidates."""
        return candidate.name

    def measure(self, repeats: int) -> Outcome:
        """Verify, then time. Without rows where no candidate runs."""
        ready: dict[str, tuple[Row, Callable[[], object]]] = {}
        skipped = []
        for candidate in self.candidates:
            try:
                ready[self.key(candidate)] = self.prepare(candidate)
            except DoesNotRun as reason:
                skipped.append(self.skip(candidate, str(reason)))
        if not ready:
            return Outcome([], {}, skipped)
        runs = {name: run for name, (_, run) in ready.items()}
        timings = race({_SCALE: self.scale(), **runs}, repeats, clock=self.clock)
        scale = timings.pop(_SCALE)
        rows = [self.finish(ready[name][0], timing, scale) for name, timing in timings.items()]
        return Outcome(rows, self.beside(scale), skipped)


def attempt(library: str, function: Callable[[], Any], too_large: str) -> Any:
    """What ``function`` returns; ``DoesNotRun`` if memory runs out or a library other than ours fails."""
    try:
        return function()
    except DoesNotRun:
        raise
    except (torch.cuda.OutOfMemoryError, MemoryError) as error:
        raise DoesNotRun(too_large) from error
    except Exception as error:  # a defect of one library must not end the run of all others
        if library == OURS:
            raise
        first_line = str(error).strip().partition("\n")[0]
        raise DoesNotRun(f"{type(error).__name__}: {first_line[:200]}") from error


@dataclass(frozen=True)
class Suite:
    """A benchmark.

    Attributes:
        kind: of its records.
        arguments: the dataclass of its options.
        key: the fields of a row that name its case.
        cases: (arguments, device) to what is measured; each has ``measure(repeats)``.
        table: (record, rows of one case) to text.
        place: of an entry of "skipped", in parentheses behind the candidate's name, or "".
        parts: (arguments, device) to what a record holds besides rows.
        ending: a record to text below all tables, or "".
    """

    kind: str
    arguments: type
    key: tuple[str, ...]
    cases: Callable[[Any, torch.device], Iterable[Any]]
    table: Callable[[Mapping[str, Any], Sequence[Mapping[str, Any]]], str]
    place: Callable[[Mapping[str, Any]], str] = lambda skip: ""
    parts: Callable[[Any, torch.device], Row] = lambda arguments, device: {}
    ending: Callable[[Mapping[str, Any]], str] = lambda record: ""

    def run(self, arguments: Any, say: Callable[[str], object] = print, out: str | Path | None = None) -> Row:
        """Measure every case and return the record.

        Args:
            arguments: a dataclass with ``device`` and ``repeats``.
            say: takes the tables as text, one when each case is done.
            out: file for the record. It is written after each case, so that an interruption loses one case at most
                (``complete`` is false until the end).
        """
        device = torch.device(arguments.device)
        record = begin(self.kind, device, asdict(arguments), skipped=[]) | self.parts(arguments, device)
        say(heading(record | {"complete": True}))
        self._say_skipped(record["skipped"], say)
        for case in self.cases(arguments, device):
            outcome = case.measure(arguments.repeats)
            record["rows"] += outcome.rows
            record["skipped"] += outcome.skipped
            for name, entries in outcome.scale.items():
                record[name] += entries
            if outcome.rows:
                say("\n" + self.table(record, outcome.rows))
            self._say_skipped(outcome.skipped, say)
            save(record, out)
        record["complete"] = True
        if ending := self.ending(record):
            say("\n" + ending)
        save(record, out)
        return record

    def tables(self, record: Mapping[str, Any]) -> str:
        """The whole record as text."""
        cases = (self.table(record, rows) for _, rows in by_case(record["rows"], self.key))
        skipped: list[str] = []
        self._say_skipped(record.get("skipped", []), skipped.append)
        return "\n\n".join(filter(None, [heading(record), *cases, "\n".join(skipped), self.ending(record)]))

    def _say_skipped(self, skipped: Iterable[Mapping[str, Any]], say: Callable[[str], object]) -> None:
        for skip in skipped:
            name = skip.get("contestant") or skip["model"]
            say(f"not timed: {name}{self.place(skip)}: {skip['reason']}")


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
    """A field of a suite's ``Arguments`` that is an option of its command. A tuple may be given value by value.

    Args:
        text: its help.
        default: on a CPU, and on CUDA where ``cuda`` is None; with ``--quick``, unless ``quick`` is None, that.
        flag: its name on the command line; by default that of the field.
        choices: the values that it may have.
        least: the smallest whole number that it may be.
    """
    about = {"text": text, "cuda": cuda, "quick": quick, "flag": flag, "choices": choices, "least": least}
    return field(default=default, metadata=about)


DEVICES = ("auto", "cpu", "cuda")


def device_option() -> Any:
    """``--device``."""
    return option("Where to measure.", "auto", choices=DEVICES)


def peers_option() -> Any:
    """``--peers/--no-peers``."""
    return option("Time the other libraries that are installed (`make peers`).", True)


def repeats_option(default: int, least: int = 3) -> Any:
    """``--repeats``."""
    return option("Rounds of which the median is taken.", default, quick=least, least=least)


def chosen(kind: type[T], device: str, quick: bool = False, **given: Any) -> T:
    """``Arguments`` of a kind with the defaults of the device for what is None, empty or not given."""
    values = {}
    for each in fields(kind):  # type: ignore[arg-type]
        about, value = each.metadata, quick if each.name == "quick" else given.get(each.name)
        if value is None or value == ():
            value = about.get("quick") if quick else None
            value = about.get("cuda") if value is None and device == "cuda" else value
            value = each.default if value is None else value
        values[each.name] = value
    return kind(**values | {"device": device})


def begin(kind: str, device: torch.device, arguments: Mapping[str, Any], **parts: Any) -> Row:
    """A record of which nothing is measured yet."""
    made = {"schema": records.SCHEMA, "kind": kind, "complete": False, "provenance": provenance(device)}
    return made | {"arguments": dict(arguments), **parts, "rows": []}


def save(record: Row, out: str | Path | None) -> None:
    """Write the record, if it has a file."""
    if out is not None:
        records.write(out, record)


def by_case(rows: Iterable[Any], key: Sequence[str]) -> Iterator[tuple[tuple[Any, ...], list[Any]]]:
    """(values of ``key``, the rows that have them), in the order of the record."""
    cases: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        cases.setdefault(tuple(row[name] for name in key), []).append(row)
    yield from cases.items()


def same_case(entries: Iterable[Any], row: Mapping[str, Any], key: Sequence[str]) -> list[Any]:
    """Those of ``entries`` that belong to the case of ``row``."""
    return [entry for entry in entries if all(entry[name] == row[name] for name in key)]


def seconds_of(timing: Timing, calls: int = 1) -> Row:
    """The times in a row: of one of so many calls that were timed as one."""
    low, high = (seconds / calls for seconds in timing.spread)
    return {"median_s": timing.median / calls, "p10_s": low, "p90_s": high}


def dtype_name(dtype: torch.dtype | None) -> str:
    """As records have it: "bfloat16"; None is float32."""
    return str(dtype or torch.float32).removeprefix("torch.")


# What each row of a training throughput begins with.
THROUGHPUT = ("candidate", "samples/s", "ms", "10-90 %", "first s")


def throughput(row: Mapping[str, Any]) -> tuple[str, ...]:
    """The cells of ``THROUGHPUT``."""
    return (row["contestant"], f"{row['samples_per_s']:,.0f}", *milliseconds(row), f"{row['first_s']:.3g}")


def milliseconds(row: Mapping[str, Any], scale: float = 1e3) -> tuple[str, str]:
    """Median, and the 10th and 90th percentile."""
    return f"{row['median_s'] * scale:.4g}", f"{row['p10_s'] * scale:.4g} - {row['p90_s'] * scale:.4g}"


def mebibytes(count: float | None) -> str:
    """Of memory; empty where it was not measured."""
    return "" if count is None else f"{count / 2**20:.0f}"


def times(value: float, base: float | None) -> str:
    """``value`` as a multiple of ``base``; empty without one."""
    return "" if base is None else f"{value / base:.2f}"


def heading(record: Mapping[str, Any]) -> str:
    """Where the numbers of a record come from, in a few lines."""
    origin = record["provenance"]
    if record["kind"] == "published":
        labels = ("source", "url", "hardware", "what", "statistic")
        return "\n".join([*(f"{label}: {origin[label]}" for label in labels), "Published figures, not measured here."])
    device, commit = origin["device"], origin.get("commit")
    facts = [device["name"]]
    if device.get("compute_capability"):
        facts.append(f"sm_{device['compute_capability'].replace('.', '')}, driver {device.get('driver')}")
    if device["type"] == "cpu":
        facts.append(f"{origin['threads']} thread(s)")
    lines = [
        f"device: {', '.join(facts)}",
        f"versions: {', '.join(f'{name} {version}' for name, version in origin['versions'].items())}",
    ]
    if commit:
        lines.append(f"commit: {commit['id'][:12]}{' with changes that are not committed' if commit['dirty'] else ''}")
    lines.append(f"date: {origin['date']}{'' if record.get('complete', True) else ' (interrupted: not complete)'}")
    return "\n".join(lines)
