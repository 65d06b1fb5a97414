"""The fields that a record must have, kind by kind, and the check that it has them."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from typing import Any

from snnkit import checks

SCHEMA = 1
Fields = Mapping[str, type]

# In words; a number may be whole, too.
_WORDS = {str: "a text", float: "a number", int: "a whole number", bool: "true or false", list: "a list"}
_WORDS[dict] = "an object"
_LARGEST = sys.float_info.max  # a whole number above it can't be divided

_MAY_BE_EMPTY = ("engine", "reason")
# Tables divide by these, so 0 is not a measurement. All other numbers may be 0, but not negative.
_POSITIVE = (
    *("median_s", "samples_per_s", "bytes_per_s", "step_s", "latency_s", "low", "likely", "high"),
    *("neurons", "features", "steps", "batch", "width", "hidden", "ranks", "cores", "gradient_bytes"),
)


class RecordError(ValueError):
    """A file that is not a record, or one that leaves out where its numbers come from."""


def _fields(
    text: str = "", number: str = "", whole: str = "", flag: str = "", lists: str = "", objects: str = ""
) -> dict[str, type]:
    kinds = {str: text, float: number, int: whole, bool: flag, list: lists, dict: objects}
    return {name: kind for kind, names in kinds.items() for name in names.split()}


_LAYER = _fields("mode dtype", whole="neurons steps")
_PASS = _fields("part mode dtype", whole="features steps batch")
_NET = _fields("net equation dtype", whole="width steps batch")
_TIMES = _fields(number="median_s p10_s p90_s")
_FLOOR = _fields("contestant library", "floor_s over_floor")
_TRAINING = _NET | _TIMES | _FLOOR
_TRAINING |= _fields("", "samples_per_s first_s ready_s spikes_differ update_differs", "floor_flops", "default")
_MATMULS = _NET | _fields(number="flops_per_s", whole="size")
_CLAIMS = _fields("who said what source url", "low high", "batch hidden", "derived")
_LOCAL = "seconds spikes_per_image active similarity train_accuracy test_accuracy"
_RECIPE = "train_loss train_accuracy test_loss test_accuracy seconds samples_per_second"

# By kind, the lists of a record and the fields of their entries: rows, and what was measured, predicted or published
# beside them.
LISTS: dict[str, dict[str, Fields]] = {
    "neurons": {
        "rows": _LAYER
        | _TIMES
        | _FLOOR
        | _fields("equation engine", "first_s host_s spikes_differ", "calls floor_bytes compared_neurons"),
        "copies": _LAYER | _fields(whole="bytes", number="bytes_per_s median_s"),
    },
    "frameworks": {
        "rows": _PASS
        | _TIMES
        | _FLOOR
        | _fields("equation engine", "first_s spikes_differ peak_bytes", "floor_bytes compared_neurons"),
        "scales": _PASS | _fields(number="median_s"),
    },
    "training": {"rows": _TRAINING, "matmuls": _MATMULS},
    "compare": {  # one network in many sizes
        "rows": _TRAINING,
        "matmuls": _MATMULS,
        "predictions": _NET | _fields("chip mark source", "low likely high"),
        "claims": _CLAIMS,
    },
    "demo": {"rows": _TIMES | _fields("model mode device dtype", "samples_per_s first_s", "batch steps parameters")},
    "scaling": {
        "rows": _TIMES | _fields("mode", "samples_per_s", "ranks batch steps parameters", lists="rounds_s"),
        "links": _fields(whole="ranks bytes", number="median_s"),
    },
    "plasticity": {
        "rows": _TIMES | _FLOOR | _fields("case dtype", "rate weights_differ", "weights batch steps floor_bytes")
    },
    "ports": {
        "rows": _TIMES
        | _fields("port contestant library dtype", "outputs_differ gradients_differ", "steps batch lines")
    },
    "sparsity": {"rows": _TIMES | _fields("case mode dtype contestant library", "density differ")},
    "recipe": {"rows": _fields(number=_RECIPE, whole="epoch")},
    "local": {"rows": _fields(number=_LOCAL, whole="pass images")},
    "published": {"rows": _LAYER | _fields("contestant equation", "seconds")},
    "contribution": {  # whole records of other kinds, and how far each engine is from eager in float64
        "rows": _fields("engine equation dtype", "spikes_differ gradient_differs"),
        "records": _fields("kind part"),
    },
}
KINDS = tuple(LISTS)

# Fields of the record itself and of its parts, each part by its path.
_MEASURED: dict[str, Fields] = {
    "provenance": _fields("date cpu", whole="threads", objects="device versions"),
    "provenance.device": _fields("type name"),
    "provenance.versions": _fields("python torch snnkit"),
}
PARTS: dict[str, dict[str, Fields]] = {kind: _MEASURED | {"": _fields(objects="arguments")} for kind in KINDS}
PARTS["plasticity"] = _MEASURED
PARTS["published"] = {"provenance": _fields("source url hardware what statistic")}
PARTS["recipe"] |= {"": _fields(whole="parameters"), "arguments": _fields("name about", whole="epochs seed")}
PARTS["local"] |= {
    "": _fields(whole="unlabelled"),
    "arguments": _fields("data", whole="neurons passes steps"),
    "fields": _fields("weights", "scale", "height width", lists="labels"),
}
PARTS["scaling"] |= {
    "arguments": _fields("device", whole="hidden steps batch", lists="ranks"),
    "machine": _fields("", "step_s sharing bytes_per_s latency_s", "cores gradient_bytes"),
}
PARTS["compare"] |= {"arguments": _fields(whole="batch width steps")}
PARTS["contribution"] |= {"": _fields("sha256", flag="complete", objects="arguments")}
PARTS["contribution"] |= {"arguments": _fields(whole="minutes", flag="quick")}
IN_CONTRIBUTIONS = ("neurons", "frameworks", "training", "compare", "demo")

# Where they are given, they are of these kinds.
_OPTIONAL = {"provenance.device": _fields("compute_capability"), "provenance.commit": _fields("id", flag="dirty")}


def validate(record: Any, name: str) -> None:
    """Raise ``RecordError``, naming the file and what is wrong with it, unless ``record`` is complete."""
    if not isinstance(record, Mapping) or "schema" not in record:
        raise RecordError(f"{name} is not a record of a measurement: it has no schema")
    if type(record["schema"]) is not int or record["schema"] != SCHEMA:  # to Python, True is 1
        raise RecordError(
            f"schema of {name} must be {SCHEMA}, but it is {checks.shown(record['schema'])}; measure again, or "
            "use the version of snnkit that wrote it"
        )
    kind = record.get("kind")
    if kind not in KINDS:
        raise RecordError(
            f"kind of {name} must be one of {', '.join(map(repr, KINDS))}, but it is {checks.shown(kind)}"
        )
    if not isinstance(record.get("provenance"), Mapping):
        raise RecordError(f"{name} does not say where its numbers come from (provenance), so they are not shown")
    for path, fields in PARTS[kind].items():
        _check(_at(record, path), fields, f"{name}: {path}" if path else name)
    for path, fields in _OPTIONAL.items():
        if (part := _at(record, path)) is not None:
            given = fields if path == "provenance.commit" else {key: fields[key] for key in fields if part.get(key)}
            _check(part, given, f"{name}: {path}")
    for part, fields in LISTS[kind].items():
        for where, entry in _entries(record, part, name):
            _check(entry, fields, where)
            if isinstance(entry.get("peak_bytes", 0), (str, float)):
                _check(entry, {"peak_bytes": int}, where)
    if "skipped" in record:
        for where, entry in _entries(record, "skipped", name):
            _check(entry, _fields("reason"), where)
    if kind == "scaling":
        _check_rounds(record, name)
    if kind == "contribution":
        _check_contribution(record, name)


@checks.arguments
def checksum(record: Mapping[str, Any]) -> str:
    """SHA-256 of a record without its ``sha256``, as JSON with sorted keys; ValueError if it holds NaN or infinity."""
    content = {key: value for key, value in record.items() if key != "sha256"}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _check_contribution(record: Mapping[str, Any], name: str) -> None:
    """It is as it was written, and so are the records in it, which hold no others."""
    for i, part in enumerate(record["records"]):
        if part["kind"] not in IN_CONTRIBUTIONS:
            known = ", ".join(map(repr, IN_CONTRIBUTIONS))
            raise RecordError(f"{name}: records[{i}].kind must be one of {known}, but it is {part['kind']!r}")
        validate(part, f"{name}: records[{i}]")
    try:
        unchanged = checksum(record) == record["sha256"]
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{name} must hold finite numbers, nested a few levels deep ({error})") from None
    if not unchanged:
        raise RecordError(
            f"{name} was changed after it was written, as its SHA-256 is another; send in the file as "
            "`snnkit bench record` wrote it"
        )


def _check_rounds(record: Mapping[str, Any], name: str) -> None:
    """Every row has its rounds and a requested number of ranks; one rank alone is among them."""
    requested = record["arguments"]["ranks"]
    for i, row in enumerate(record["rows"]):
        where = f"{name}: rows[{i}]"
        if not row["rounds_s"]:
            raise RecordError(f"{where}.rounds_s must hold a number for each round, but it is empty")
        for j, seconds in enumerate(row["rounds_s"]):
            _check({"step_s": seconds}, {"step_s": float}, f"{where}.rounds_s[{j}]")
        if row["ranks"] not in requested:
            raise RecordError(f"{where}.ranks must be one of arguments.ranks, {requested}, but it is {row['ranks']}")
    if not any(row["ranks"] == 1 and row["mode"] == "together" for row in record["rows"]):
        raise RecordError(f"{name}: rows must hold one rank alone, with which the others are compared")


def _at(record: Any, path: str) -> Any:
    for key in filter(None, path.split(".")):
        record = record.get(key) if isinstance(record, Mapping) else None
    return record


def _entries(record: Mapping[str, Any], part: str, name: str) -> list[tuple[str, Any]]:
    _check(record, {part: list}, name)
    return [(f"{name}: {part}[{i}]", entry) for i, entry in enumerate(record[part])]


def _check(values: Any, fields: Fields, where: str) -> None:
    if not isinstance(values, Mapping):
        raise RecordError(f"{where} must be an object, but it is {checks.shown(values)}")
    for field, kind in fields.items():
        value = values.get(field)
        valid = isinstance(value, (int, float) if kind is float else kind) and isinstance(value, bool) == (kind is bool)
        if valid and isinstance(value, (int, float)):
            # A time, a size or a rate that is negative or infinite was not measured.
            valid = 0 <= value <= _LARGEST and not (value == 0 and field in _POSITIVE)
        if not valid or (value == "" and field not in _MAY_BE_EMPTY):
            above = " above 0" if field in _POSITIVE else ""
            state = checks.shown(value) if field in values else "missing"
            raise RecordError(f"{where}.{field} must be {_WORDS[kind]}{above}, but it is {state}")
