"""The ten-minute set: our engines on your GPU, compared with eager in float64, then timed, in one file to send in.

    snnkit bench record

It needs a CUDA device. Each engine is first compared with our eager engine in float64; if one differs, there is no
record. Then the benchmarks of the set run, the most wanted first, each in its share of the minutes. What there was no
time for, or failed, is named in the record. The file (without ``--out``: snnkit-record-GPU-DATE.json) is written after
each case, so that an interruption loses at most one.

With ``--device cpu`` it is a dry run in small sizes, which takes seconds and is not for sending in.
"""

from __future__ import annotations

import re
import statistics
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch
from packaging.version import Version

from snnkit import checks, records
from snnkit.data import resolve_device
from snnkit.device import Precision
from snnkit.engine import AUTO
from snnkit.lab.bench import compare, demo, frameworks, neurons, suite, training
from snnkit.lab.bench.neurons import GRADIENT_MAY_DIFFER, SPIKES_MAY_DIFFER, bytes_per_neuron_step
from snnkit.lab.bench.suite import DoesNotRun, Record, Row, Say, chosen, dtype_name, option, table
from snnkit.lab.hardware import chips
from snnkit.records.schema import LISTS
from snnkit.tables import duration_of, one_line, text_table

SUITES = {"neurons": neurons, "training": training, "compare": compare, "frameworks": frameworks, "demo": demo}

# A layer for the comparison: no block of steps or neurons divides it. A neuron that spikes differently, which rounding
# may cause, changes 2 % of the gradient.
STEPS, NEURONS = 37, 4099
EQUATIONS = ("LIF", "Leaky")  # of the layers and dense networks that are timed
_SCALES = {"neurons": "copies", "frameworks": "scales", "training": "matmuls", "compare": "matmuls"}
_BYTES = {"float64": 8, "float32": 4, frameworks.TF32: 4, "bfloat16": 2, "float16": 2}


@checks.arguments
@dataclass(frozen=True)
class Arguments(suite.Options):
    """What to run; the options of ``snnkit bench record``."""

    device: str = option("Where to measure; cpu is a dry run.", "cuda", choices=("cuda", "cpu"))
    minutes: int = option("After so many no other case begins.", 10)
    quick: bool = field(default=False, metadata={"quick": True})


@dataclass(frozen=True)
class Part:
    """A benchmark of the set, with options other than the defaults. Its time is proportional to ``share``."""

    name: str
    suite: str  # a key of ``SUITES``
    share: int
    options: Mapping[str, Any]


def low_precision(device: torch.device) -> torch.dtype:
    """That of mixed precision: older GPUs do not compute in bfloat16."""
    return Precision.choose(device, amp=True).dtype or torch.float32


def engines_of(device: torch.device, quick: bool) -> tuple[str, ...]:
    """The engines of the set. A dry run is without ``block``, which compiles for long."""
    return "eager", *(name for name, _ in AUTO[device.type] if not (quick and name == "block"))


def parts(device: torch.device, quick: bool) -> list[Part]:
    """The set, the most wanted first; its shares are seconds on a fast GPU. ``quick``: what a dry run has of it."""
    low = dtype_name(low_precision(device))
    layer = {"engines": engines_of(device, quick), "dtypes": ("float32", low)}
    if quick:
        less = {"dtypes": ("float32",), "peers": False}
        net = {"nets": ("mlp",)} | less
        return [Part("neurons", "neurons", 1, layer | less), Part("training", "training", 1, net)]
    of_32 = {"dtypes": ("float32",), "repeats": 3}
    large = {"neurons": (2**20,), "steps": (8, 32, 128), "repeats": 7} | layer
    small = {"neurons": (2**12, 2**16), "steps": (8, 32, 128), "repeats": 5} | layer
    tutorial = {"batches": (16, 128, 1024), "hidden": (128, 4096)} | of_32
    # Without ``block``, which would compile each of six equations. The size that publications name comes first.
    public = {"engines": ("triton",), "repeats": 3}
    usual = {"features": (4096,), "dtypes": ("float32",)}
    lower = {"dtypes": (frameworks.TF32, low)}
    compiled = {"nets": ("conv",), "dtypes": ("amp",), "peers": False}
    return [
        Part("neurons, large", "neurons", 70, large),
        Part("training", "training", 60, {"compiled": False, "repeats": 5}),
        Part("frameworks", "frameworks", 40, public | usual),
        Part("compare", "compare", 35, tutorial),
        Part("neurons, small", "neurons", 30, small),
        *([Part("frameworks, low", "frameworks", 30, public | usual | lower)] if low == "bfloat16" else []),
        Part("frameworks, sizes", "frameworks", 30, public | usual | {"features": (512, 16384)}),
        Part("training, compiled", "training", 40, compiled),
        Part("demo", "demo", 20, {"batches": (128,), "repeats": 3}),
    ]


class _Comparison(neurons.Case):
    """With the eager engine in float64."""

    exact = torch.float64


def compared(device: torch.device, engines: Sequence[str]) -> tuple[list[Row], list[Row]]:
    """How far each engine is from eager in float64, and the engines that differ or raise an error, with the reason.

    Spikes and the gradient of the input are compared, in float64, float32 and the dtype of mixed precision.
    """
    rows, differing = [], []
    for equation in EQUATIONS:
        for dtype in (torch.float64, torch.float32, low_precision(device)):
            case = _Comparison([], {}, (STEPS, 1, NEURONS), dtype, neurons.TRAINING, device)
            for engine in engines:
                row = {"engine": engine, "equation": equation, "dtype": dtype_name(dtype)}
                try:
                    layer = neurons.engine_layer(engine, equation)
                    compared, _ = suite.attempt("", partial(case.prepare, layer))
                    rows.append(row | {key: compared[key] for key in ("spikes_differ", "gradient_differs")})
                except DoesNotRun as reason:
                    differing.append(row | {"reason": str(reason)})
    return rows, differing


@checks.arguments
def benchmark(arguments: Arguments, say: Say = print, out: str | Path | None = None) -> Row:
    """Compare, measure, write the file and return the record; ``say`` gets lines of text on the way.

    Args:
        out: the file; by default ``snnkit-record-GPU-DATE.json`` in this folder.

    Raises:
        ValueError: there is no such device, or ``out`` can't be written.
        ArithmeticError: an engine differs from eager, so that nothing is measured.
    """
    ends = time.monotonic() + 60 * arguments.minutes
    device = resolve_device(arguments.device)
    checks.choice("device", device.type, tuple(AUTO))
    quick = arguments.quick or device.type == "cpu"
    record = suite.begin("contribution", device, asdict(arguments) | {"quick": quick}) | {"skipped": []}
    out = Path(out or _file_name(record))
    suite.check_out(out)
    todo = parts(device, quick)
    engines, unavailable = neurons.candidates(device, engines_of(device, quick), peers=False)
    record["skipped"] += [{"contestant": name, "reason": reason} for name, reason in unavailable.items()]
    say(suite.heading(record | {"complete": True}))
    say(f"\nplan: compare engines with eager in float64, then measure {'; '.join(part.name for part in todo)}")
    record["rows"], differing = compared(device, [layer.engine for layer in engines])
    say(f"\n{_comparison(record)}")
    if differing:
        cases = [f"{row['engine']}, {row['equation']}, {row['dtype']}: {row['reason']}" for row in differing]
        raise ArithmeticError(f"there is no record, as engines differ from eager in float64: {'; '.join(cases)}")
    for i, part in enumerate(todo):
        seconds = (ends - time.monotonic()) * part.share / sum(later.share for later in todo[i:])
        say(f"\n== {part.name}, up to {duration_of(max(seconds, 0))}\n")
        done = list(record["records"])

        def store(measured: Row, name: str = part.name, done: list[Row] = done) -> None:
            record["records"] = [*done, {"part": name} | measured]
            _save(record, out)

        try:
            _measure(part, device, quick, say, seconds, store)
        except DoesNotRun as reason:
            if reason.__cause__ is not None:
                say("".join(traceback.format_exception(reason.__cause__)))
            say(f"{'not whole' if len(record['records']) > len(done) else 'not measured'}: {reason}")
            record["skipped"].append({"contestant": part.name, "reason": str(reason)})
        record["complete"] = i == len(todo) - 1
        _save(record, out)
    say(f"\nrecord: {out}\n{_next(record, str(out))}")
    return record


def _save(record: Row, out: Path) -> None:
    record["sha256"] = records.checksum(record)
    suite.save(record, out)


def _measure(
    part: Part, device: torch.device, quick: bool, say: Say, seconds: float, store: Callable[[Row], object]
) -> None:
    """Give ``store`` the record of a part after each of its cases. An error in it is the reason of ``DoesNotRun``, and
    does not end the others."""
    if seconds <= 0:
        raise DoesNotRun("no time was left")
    room = SUITES[part.suite]
    arguments = chosen(room.Arguments, device.type, quick=quick, **part.options)
    suite.attempt("", lambda: room.SUITE.run(arguments, say, seconds=seconds, store=store))


def _file_name(record: Record) -> str:
    device, date = record["provenance"]["device"], record["provenance"]["date"][:10]
    gpu = device["name"] if device["type"] == "cuda" else device["type"]
    name = re.sub("[^a-z0-9]+", "-", gpu.lower().removeprefix("nvidia")).strip("-")
    return f"snnkit-record-{name}-{date}.json"


def _next(record: Record, name: str) -> str:
    """Whether the record can be sent in, and how."""
    try:
        verdict = check(record, name)
    except records.RecordError as error:
        return f"It can't be sent in: {error}"
    if why_not := refusal(record):
        return f"It is not for sending in: {why_not}."
    return (
        f"{verdict}\nTo send it in, add the file as it is to snnkit/records/contributed/ in a pull request, or attach "
        f"it to an issue: {checks.REPOSITORY}/issues"
    )


# -- checks of a record sent by other people


def refusal(record: Record) -> str:
    """Why a record of this kind is no contribution, though nothing in it is wrong; "" if it is one."""
    if (kind := record["provenance"]["device"]["type"]) != "cuda":
        return f"a dry run on a device of type {kind!r}"
    if record["arguments"]["quick"]:
        return "a dry run in small sizes"
    if not any(part["rows"] for part in record["records"]):
        return "nothing was measured"
    return "" if record["complete"] else "it was interrupted"


def check(record: Record, name: str = "this record") -> str:
    """Compare the figures of a contribution with each other and with what its chip can do at best.

    Its checksum was compared when it was read (``records.validate``). Medians must be those of the rounds; bytes,
    floors and rates those that follow from sizes and times; and no time may be below that for the bytes at the
    bandwidth of the chip's memory, less what its cache can hold, nor below that for the operations at its largest rate.

    Returns:
        What was compared with the chip, as a sentence.

    Raises:
        RecordError: naming the first figure that is wrong.
    """
    try:
        origin = record["provenance"]
        datetime.fromisoformat(origin["date"])
        for version in origin["versions"].values():
            Version(version)
        chip = chip_of(origin["device"])
        for row in record["rows"]:
            _check_comparison(row)
        for i, part in enumerate(record["records"]):
            for key in ("device", "cpu", "versions"):
                _same(f"records[{i}].provenance.{key}", part["provenance"][key], origin[key])
            for entries in LISTS[part["kind"]]:
                for j, row in enumerate(part[entries]):
                    if "median_s" in row:
                        _check_row(f"records[{i}].{entries}[{j}]", part, entries, row, chip)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise records.RecordError(f"{name}: {error}") from None
    if chip is None:
        return f"Not compared with the chip: the catalogue has no {one_line(origin['device']['name'])}."
    bandwidth = chip.value("memory_bandwidth") / 1e9
    return f"No time is below what {chip.title} allows ({bandwidth:.0f} GB/s)."


def chip_of(device: Mapping[str, Any]) -> chips.Chip | None:
    """The chip of the catalogue that a record's device is; None if its name or its memory is another."""
    words = re.split("[^a-z0-9]+", device["name"].lower())
    for chip in map(chips.get, chips.names("gpu")):
        known = chip.figures.get("memory_bytes")
        # An 80 GB A100 has faster memory than one of 40 GB. GB of sellers may be GiB.
        fits = known is None or known.value is None or device.get("memory_bytes", 0) < 1.1 * known.value
        if set(chip.name.lower().split()) <= set(words) and fits:
            return chip
    return None


def _check_comparison(row: Row) -> None:
    dtype = checks.choice("rows.dtype", row["dtype"], [dtype_name(dtype) for dtype in SPIKES_MAY_DIFFER])
    for key, limits in {"spikes_differ": SPIKES_MAY_DIFFER, "gradient_differs": GRADIENT_MAY_DIFFER}.items():
        checks.number(f"{key} of {one_line(row['engine'])}", row[key], at_most=limits[getattr(torch, dtype)])


def _check_row(where: str, part: Record, entries: str, row: Row, chip: chips.Chip | None) -> None:
    """One entry with times. ``where``: its name in messages."""
    rounds = checks.instance(f"{where}.rounds_s", row.get("rounds_s"), list, "a list of numbers")
    rounds = [checks.number(f"each of {where}.rounds_s", seconds, above=0) for seconds in rounds]
    if len(rounds) < 3:
        raise ValueError(f"{where}.rounds_s must hold at least 3 numbers, but it holds {len(rounds)}")
    low, *_, high = statistics.quantiles(rounds, n=10, method="inclusive")
    expected = {"median_s": statistics.median(rounds), "p10_s": low, "p90_s": high}
    for key, value in (expected | _follows(where, part, entries, row)).items():
        _same(f"{where}.{key}", row.get(key), value)
    if chip is not None and row.get("device") != "cpu":
        least = _least_seconds(part, entries, row, chip)
        checks.number(f"{where}.median_s, on {chip.title},", row["median_s"], at_least=least)


def _same(name: str, value: Any, expected: Any) -> None:
    """ValueError unless a value is what it must be; numbers may differ by rounding."""
    numbers = isinstance(value, (int, float)) and isinstance(expected, (int, float))
    if value != expected and not (numbers and abs(value - expected) <= 1e-9 * abs(expected)):
        raise ValueError(
            f"{name} must be {checks.shown(expected)}, as other figures say, but it is {checks.shown(value)}"
        )


def _numbers(part: Record, row: Row) -> int:
    """How many numbers x has, [T, B, N]."""
    return row["steps"] * row["neurons"] if part["kind"] == "neurons" else row["steps"] * row["batch"] * row["features"]


def _follows(where: str, part: Record, entries: str, row: Row) -> Row:
    """The figures that follow from others."""
    kind, seconds = part["kind"], row["median_s"]
    if kind == "demo":
        return {"samples_per_s": row["batch"] / seconds}
    if entries == "matmuls":
        return {"flops_per_s": 2 * row["size"] ** 3 / seconds}
    if entries == "scales":
        return {}
    if entries == "copies":
        return {"bytes": (moved := 2 * _bytes_of_x(part, row)), "bytes_per_s": moved / seconds}
    scales = suite.same_case(part[_SCALES[kind]], row, SUITES[kind].KEY)
    if len(scales) != 1:
        raise ValueError(f"{where} must have one measurement that sets its scale, but it has {len(scales)}")
    if kind in ("training", "compare"):
        floor = row["floor_flops"] / scales[0]["flops_per_s"]
        return {"floor_s": floor, "over_floor": seconds / floor, "samples_per_s": row["batch"] / seconds}
    moved = _numbers(part, row) * bytes_per_neuron_step(row["mode"], torch.float32) * _bytes(row) // 4
    copied = row.get("part") != "layer"
    floor = scales[0]["median_s"] * (moved / (2 * _bytes_of_x(part, row)) if copied else 1)
    return {"floor_bytes": moved, "floor_s": floor, "over_floor": seconds / floor}


def _bytes(row: Row) -> int:
    """Bytes of one number."""
    return _BYTES[checks.choice("dtype", row["dtype"], _BYTES)]


def _bytes_of_x(part: Record, row: Row) -> int:
    return _numbers(part, row) * _bytes(row)


def _least_seconds(part: Record, entries: str, row: Row, chip: chips.Chip) -> float:
    """What the chip needs at best for the bytes and operations that a row names."""
    flops = 2 * row["size"] ** 3 if entries == "matmuls" else row.get("floor_flops", 0)
    peak = chip.figures["fp16_flops"].value
    cache = chip.figures["cache_bytes"].value or part["provenance"]["device"].get("l2_bytes") or 0
    # What is read again, and what is written last, may be in the cache.
    moved = row.get("floor_bytes", row.get("bytes", 0)) - 2 * cache
    return max(0.0, moved / chip.value("memory_bandwidth"), flops / peak if peak else 0.0)


# -- tables


def _comparison(record: Record) -> str:
    columns = {
        "engine": lambda row: row["engine"],
        "equation": lambda row: row["equation"],
        "dtype": lambda row: row["dtype"],
        "spikes that differ": lambda row: f"{row['spikes_differ']:.2%}",
        "gradient differs by": lambda row: f"{row['gradient_differs']:.1e}",
    }
    lines = [f"not measured: {skip.get('contestant', '')}: {skip['reason']}" for skip in record["skipped"]]
    return "\n".join([table("compared with eager in float64", columns, record["rows"], left=3), *lines])


@checks.arguments
def tables(record: Record) -> str:
    """The whole record as text, and whether it can be sent in."""
    every = [suite.heading(record), _comparison(record)]
    for part in record["records"]:
        every.append(f"== {part['part']}{SUITES[part['kind']].tables(part).removeprefix(suite.heading(part))}")
    return "\n\n".join([*every, _next(record, "this record")])


def overview(names: Sequence[str]) -> str:
    """A line for each of the kit's records, and for those that users sent in whether their figures are possible."""
    lines = []
    for name in names:
        record = records.load(name)
        origin = record["provenance"]
        device, date = origin.get("device", {}).get("name", origin.get("hardware", "")), origin.get("date", "")[:10]
        verdict = _next(record, name).partition("\n")[0] if record["kind"] == "contribution" else ""
        lines.append((name, record["kind"], one_line(device), date, verdict))
    return "\n".join(text_table(("record", "kind", "device", "date", ""), lines, left=5)) if lines else ""
