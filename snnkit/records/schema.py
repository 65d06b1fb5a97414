"""The fields that a record must have, kind by kind, and the check that it has them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

SCHEMA = 1
Fields = Mapping[str, type]

# In words; a number may be whole, too.
_WORDS = {str: "a text", float: "a number", int: "a whole number", bool: "true or false", list: "a list"}
_WORDS[dict] = "an object"
_LARGEST = sys.float_info.max  # a whole number above it can't be divided

_MAY_BE_EMPTY = frozenset(("engine", "reason"))


class RecordError(ValueError):
    """A file that is not a record, or one that leaves out where its numbers come from."""


def _fields(
    text: str = "", number: str = "", whole: str = "", flag: str = "", lists: str = "", objects: str = ""
) -> dict[str, type]:
    kinds = {str: text, float: number, int: whole, bool: flag, list: lists, dict: objects}
    return {name: kind for kind, names in kinds.items() for name in names.split()}


# Tables divide by these, so 0 is not a measurement. All other numbers may be 0, but not negative.
_POSITIVE = _fields(
    number="median_s samples_per_s bytes_per_s step_s latency_s low likely high",
    whole="neurons steps batch width hidden ranks cores gradient_bytes",
)
_LAYER = _fields(text="mode dtype", whole="neurons steps")
_NET = _fields(text="net equation dtype", whole="width steps batch")
_TIMES = _fields(number="median_s p10_s p90_s")
_FLOOR = _fields(number="floor_s over_floor")
_TRAINING = (
    _NET
    | _TIMES
    | _FLOOR
    | _fields(
        text="contestant library",
        number="samples_per_s first_s ready_s spikes_differ update_differs",
        whole="floor_flops",
        flag="default",
    )
)

ROWS: dict[str, Fields] = {
    "neurons": _LAYER
    | _TIMES
    | _FLOOR
    | _fields(
        text="contestant equation library engine out_dtype",
        number="first_s host_s spikes_differ",
        whole="calls floor_bytes held_bytes held_x_bytes compared_neurons",
    ),
    "training": _TRAINING,
    "compare": _TRAINING,  # of one network in many sizes
    "demo": _TIMES
    | _fields(text="model mode device dtype", number="samples_per_s first_s", whole="batch steps parameters"),
    "scaling": _TIMES
    | _fields(text="mode", number="samples_per_s launch_s ready_s", whole="ranks batch steps parameters")
    | _fields(lists="rounds_s"),
    "plasticity": _TIMES
    | _FLOOR
    | _fields(
        text="case contestant library dtype", number="rate weights_differ", whole="weights batch steps floor_bytes"
    ),
    "recipe": _fields(
        number="train_loss train_accuracy test_loss test_accuracy seconds samples_per_second", whole="epoch"
    ),
    "local": _fields(
        number="seconds spikes_per_image active similarity train_accuracy test_accuracy", whole="pass images"
    ),
    "published": _LAYER | _fields(text="contestant equation", number="seconds"),
}
KINDS = tuple(ROWS)

# Fields of the record itself and of its parts, each part by its path.
_MEASURED: dict[str, Fields] = {
    "provenance": _fields(text="date cpu", whole="threads", objects="device versions"),
    "provenance.device": _fields(text="type name"),
    "provenance.versions": _fields(text="python torch snnkit"),
}
PARTS: dict[str, dict[str, Fields]] = {kind: dict(_MEASURED) for kind in ROWS}
PARTS["published"] = {"provenance": _fields(text="source url hardware what statistic")}
PARTS["recipe"] |= {
    "": _fields(whole="parameters", objects="arguments"),
    "arguments": _fields(text="name about", whole="epochs seed"),
}
PARTS["local"] |= {
    "": _fields(whole="unlabelled", objects="arguments fields"),
    "arguments": _fields(text="data", whole="neurons passes steps"),
    "fields": _fields(text="weights", number="scale", whole="height width", lists="labels"),
}
PARTS["scaling"] |= {
    "": _fields(objects="arguments machine"),
    "arguments": _fields(text="device", whole="hidden steps batch", lists="ranks"),
    "machine": _fields(number="step_s sharing bytes_per_s latency_s", whole="cores gradient_bytes"),
}
PARTS["compare"] |= {"": _fields(objects="arguments"), "arguments": _fields(whole="batch width steps")}
for _kind in ("neurons", "training", "demo"):
    PARTS[_kind][""] = _fields(objects="arguments")

# Lists beside the rows: what was measured for scale, predicted by a model, or published by others.
_MATMULS = _NET | _fields(whole="size", number="flops_per_s")
LISTS: dict[str, dict[str, Fields]] = {kind: {"rows": fields} for kind, fields in ROWS.items()}
LISTS["neurons"]["copies"] = _LAYER | _fields(whole="bytes", number="bytes_per_s median_s")
LISTS["training"]["matmuls"] = LISTS["compare"]["matmuls"] = _MATMULS
LISTS["scaling"]["links"] = _fields(whole="ranks bytes", number="median_s")
LISTS["compare"]["predictions"] = _NET | _fields(text="chip mark source", number="low likely high")
LISTS["compare"]["claims"] = _fields(
    text="who said what source url", number="low high", whole="batch hidden", flag="derived"
)

# What was not timed. An entry for one case has all the fields of that case, one for the whole run has none of them.
_SKIPPED = _fields(text="contestant reason")
SKIPPED: dict[str, tuple[Fields, Fields]] = {
    "neurons": (_SKIPPED, _LAYER),
    "training": (_SKIPPED, _fields(text="net equation dtype")),
    "compare": (_SKIPPED, _NET),
    "demo": (_fields(text="model reason mode device dtype", whole="batch"), {}),
}

_OPTIONAL: dict[str, Fields] = {
    "provenance.device": _fields(text="compute_capability"),
    "provenance.commit": _fields(text="id", flag="dirty"),
    "rows": _fields(whole="peak_bytes"),
}


def validate(record: Any, name: str) -> None:
    """Raise ``RecordError``, naming the file and what is wrong with it, unless ``record`` is complete."""
    if not isinstance(record, Mapping) or "schema" not in record:
        raise RecordError(f"{name} is not a record of a measurement: it has no schema")
    if type(record["schema"]) is not int or record["schema"] != SCHEMA:  # to Python, True is 1
        raise RecordError(
            f"schema of {name} must be {SCHEMA}, but it is {record['schema']!r}; measure again, or use the version of "
            "snnkit that wrote it"
        )
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in ROWS:
        raise RecordError(f"kind of {name} must be one of {', '.join(map(repr, ROWS))}, but it is {kind!r}")
    if not isinstance(record.get("provenance"), Mapping):
        raise RecordError(f"{name} does not say where its numbers come from (provenance), so they are not shown")
    for path, fields in PARTS[kind].items():
        _check(_at(record, path), fields, f"{name}: {path}" if path else name)
    if kind != "published":
        device, commit = record["provenance"]["device"], record["provenance"].get("commit")
        _check_optional(device, _OPTIONAL["provenance.device"], f"{name}: provenance.device")
        if commit is not None:
            _check(commit, _OPTIONAL["provenance.commit"], f"{name}: provenance.commit")
    for part, fields in LISTS[kind].items():
        for where, entry in _entries(record, part, name):
            _check(entry, fields, where)
            if part == "rows":
                _check_optional(entry, _OPTIONAL["rows"], where)
    if kind in SKIPPED:
        always, of_case = SKIPPED[kind]
        for where, entry in _entries(record, "skipped", name):
            _check(entry, always, where)
            if of_case and next(iter(of_case)) in entry:
                _check(entry, of_case, where)
    if kind == "scaling":
        _check_rounds(record, name)


def _check_rounds(record: Mapping[str, Any], name: str) -> None:
    """Every row has its rounds and a requested number of ranks; one rank alone is among them."""
    requested = record["arguments"]["ranks"]
    for i, row in enumerate(record["rows"]):
        if not row["rounds_s"]:
            raise RecordError(f"{name}: rows[{i}].rounds_s must hold a number for each round, but it is empty")
        for j, seconds in enumerate(row["rounds_s"]):
            _check({"step_s": seconds}, {"step_s": float}, f"{name}: rows[{i}].rounds_s[{j}]")
        if row["ranks"] not in requested:
            raise RecordError(
                f"{name}: rows[{i}].ranks must be one of arguments.ranks, {requested}, but it is {row['ranks']}"
            )
    if not any(row["ranks"] == 1 and row["mode"] == "together" for row in record["rows"]):
        raise RecordError(f"{name}: rows must hold one rank alone, with which the others are compared")


def _at(record: Any, path: str) -> Any:
    for key in filter(None, path.split(".")):
        record = record.get(key) if isinstance(record, Mapping) else None
    return record


def _entries(record: Mapping[str, Any], part: str, name: str) -> list[tuple[str, Any]]:
    _check(record, {part: list}, name)
    return [(f"{name}: {part}[{i}]", entry) for i, entry in enumerate(record[part])]


def _check_optional(values: Any, fields: Fields, where: str) -> None:
    _check(values, {field: kind for field, kind in fields.items() if values.get(field) is not None}, where)


def _check(values: Any, fields: Fields, where: str) -> None:
    if not isinstance(values, Mapping):
        raise RecordError(f"{where} must be an object, but it is {values!r}")
    for field, kind in fields.items():
        value = values.get(field)
        valid = isinstance(value, (int, float) if kind is float else kind) and isinstance(value, bool) == (kind is bool)
        if valid and isinstance(value, (int, float)):
            # A time, a size or a rate that is negative or infinite was not measured.
            valid = 0 <= value <= _LARGEST and not (value == 0 and field in _POSITIVE)
        if not valid or (value == "" and field not in _MAY_BE_EMPTY):
            above = " above 0" if field in _POSITIVE else ""
            state = repr(value) if field in values else "missing"
            raise RecordError(f"{where}.{field} must be {_WORDS[kind]}{above}, but it is {state}")
