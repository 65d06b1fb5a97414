"""Records of measurements: JSON that is written by the program, whole or not at all, and read only if it says enough.

A record of kind "neurons", "training" or "demo" holds what ``snnkit bench`` measured, one of kind "recipe" what
``snnkit train`` reached epoch by epoch; one of kind "published" holds figures of other people with their source. Each
has ``schema``, ``kind``, ``provenance`` and ``rows``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA = 1

_TEXT, _NUMBER, _WHOLE, _FLAG = (str,), (int, float), (int,), (bool,)

# What each row must say, with its type.
_LABELS = {"contestant": _TEXT, "equation": _TEXT, "mode": _TEXT, "dtype": _TEXT, "neurons": _WHOLE, "steps": _WHOLE}
_CASE = {"net": _TEXT, "equation": _TEXT, "dtype": _TEXT, "width": _WHOLE, "steps": _WHOLE, "batch": _WHOLE}
_ROW = {
    "neurons": _LABELS
    | {
        "library": _TEXT,
        "engine": _TEXT,
        "out_dtype": _TEXT,
        "first_s": _NUMBER,
        "median_s": _NUMBER,
        "p10_s": _NUMBER,
        "p90_s": _NUMBER,
        "host_s": _NUMBER,
        "calls": _WHOLE,
        "floor_bytes": _WHOLE,
        "floor_s": _NUMBER,
        "over_floor": _NUMBER,
        "held_bytes": _WHOLE,
        "held_x_bytes": _WHOLE,
        "compared_neurons": _WHOLE,
        "spikes_differ": _NUMBER,
    },
    "recipe": {
        "epoch": _WHOLE,
        "train_loss": _NUMBER,
        "train_accuracy": _NUMBER,
        "test_loss": _NUMBER,
        "test_accuracy": _NUMBER,
        "seconds": _NUMBER,
        "samples_per_second": _NUMBER,
    },
    "training": _CASE
    | {
        "contestant": _TEXT,
        "library": _TEXT,
        "samples_per_s": _NUMBER,
        "first_s": _NUMBER,
        "ready_s": _NUMBER,
        "median_s": _NUMBER,
        "p10_s": _NUMBER,
        "p90_s": _NUMBER,
        "floor_flops": _WHOLE,
        "floor_s": _NUMBER,
        "over_floor": _NUMBER,
        "spikes_differ": _NUMBER,
        "update_differs": _NUMBER,
        "default": _FLAG,
    },
    "demo": {
        "model": _TEXT,
        "mode": _TEXT,
        "device": _TEXT,
        "dtype": _TEXT,
        "batch": _WHOLE,
        "steps": _WHOLE,
        "parameters": _WHOLE,
        "samples_per_s": _NUMBER,
        "first_s": _NUMBER,
        "median_s": _NUMBER,
        "p10_s": _NUMBER,
        "p90_s": _NUMBER,
    },
    "published": _LABELS | {"seconds": _NUMBER},
}

# Without these a number is not shown.
_MEASURED = {"date": _TEXT, "device": (dict,), "cpu": _TEXT, "threads": _WHOLE, "versions": (dict,)}
_PROVENANCE = {
    "neurons": _MEASURED,
    "recipe": _MEASURED,
    "training": _MEASURED,
    "demo": _MEASURED,
    "published": {"source": _TEXT, "url": _TEXT, "hardware": _TEXT, "what": _TEXT, "statistic": _TEXT},
}
_DEVICE = {"type": _TEXT, "name": _TEXT}
_VERSIONS = {"python": _TEXT, "torch": _TEXT, "snnkit": _TEXT}
_MATMUL = _CASE | {"size": _WHOLE, "flops_per_s": _NUMBER}
_LAYER = {"mode": _TEXT, "dtype": _TEXT, "neurons": _WHOLE, "steps": _WHOLE}
_COPY = _LAYER | {"bytes": _WHOLE, "bytes_per_s": _NUMBER, "median_s": _NUMBER}
_COMMIT = {"id": _TEXT, "dirty": _FLAG}

# The largest float: a whole number above it can't be divided.
_LARGEST = sys.float_info.max

# Of these 0 is no measure either: tables divide by them.
_ABOVE_ZERO = ("neurons", "steps", "batch", "width", "median_s", "samples_per_s", "bytes_per_s")

# What was not timed: what each entry says, and what besides if it names the first of these.
_NOT_TIMED = {"contestant": _TEXT, "reason": _TEXT}
_SKIPPED: dict[str, tuple[Mapping[str, tuple[type, ...]], Mapping[str, tuple[type, ...]]]] = {
    "neurons": (_NOT_TIMED, _LAYER),
    "training": (_NOT_TIMED, {"net": _TEXT, "equation": _TEXT, "dtype": _TEXT}),
    "demo": ({"model": _TEXT, "reason": _TEXT}, {"mode": _TEXT, "device": _TEXT, "dtype": _TEXT, "batch": _WHOLE}),
}

# What was measured beside the rows, for scale.
_SCALE: dict[str, tuple[str, Mapping[str, tuple[type, ...]]]] = {
    "neurons": ("copies", _COPY),
    "training": ("matmuls", _MATMUL),
}


class RecordError(ValueError):
    """A file that is no record, or one that leaves out where its numbers come from."""


def write(path: str | Path, record: Mapping[str, Any]) -> Path:
    """Write ``record`` to ``path``: the old file or the new one is there, never a part of one.

    Raises:
        RecordError: it lacks something that a reader needs.
    """
    from ..data._files import replacing

    path = Path(path)
    validate(record, str(path))
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    with replacing(path) as file:
        file.write(text.encode())
    return path


def read(path: str | Path) -> dict[str, Any]:
    """The record in the file at ``path``.

    Raises:
        RecordError: the file is damaged, of another schema, or without provenance.
        OSError: it can't be read.
    """
    return parse(Path(path).read_bytes(), str(path))


def parse(data: bytes, name: str) -> dict[str, Any]:
    """The record in ``data``, which came from a file called ``name``. RecordError as ``read``."""
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:  # of the encoding, too; brackets in brackets in brackets
        raise RecordError(f"{name} is no record: it is damaged or no JSON ({error})") from None
    validate(record, name)
    return record


def validate(record: Any, name: str) -> None:
    """RecordError, naming the file and what is wrong, unless ``record`` is complete."""
    if not isinstance(record, Mapping) or "schema" not in record:
        raise RecordError(f"{name} is no record of a measurement: it says no schema")
    if type(record["schema"]) is not int or record["schema"] != SCHEMA:  # to Python, True is 1
        raise RecordError(
            f"{name} has schema {record['schema']!r}, but this snnkit reads schema {SCHEMA}; "
            "measure anew, or use the snnkit that wrote it"
        )
    kind = record.get("kind")
    if not isinstance(kind, str) or kind not in _ROW:
        raise RecordError(f"{name}: kind must be one of {', '.join(map(repr, _ROW))}, but it is {kind!r}")
    if not isinstance(record.get("provenance"), Mapping):
        raise RecordError(f"{name} does not say where its numbers come from (provenance), so they are not shown")
    origin = record["provenance"]
    _check(origin, _PROVENANCE[kind], f"{name}: provenance")
    if kind != "published":
        _check(origin["device"], _DEVICE, f"{name}: provenance.device")
        _check(origin["versions"], _VERSIONS, f"{name}: provenance.versions")
        _check_if_there(origin["device"], {"compute_capability": _TEXT}, f"{name}: provenance.device")
        if origin.get("commit") is not None:
            _check(origin["commit"], _COMMIT, f"{name}: provenance.commit")
    if kind == "recipe":
        _check(record, {"arguments": (dict,), "parameters": _WHOLE}, name)
        _check(
            record["arguments"], {"name": _TEXT, "about": _TEXT, "epochs": _WHOLE, "seed": _WHOLE}, f"{name}: arguments"
        )
    if kind in _SKIPPED:
        _check(record, {"arguments": (dict,), "skipped": (list,)}, name)
        always, besides = _SKIPPED[kind]
        for i, skip in enumerate(record["skipped"]):
            where = f"{name}: skipped[{i}]"
            _check(skip, always, where)
            if kind == "demo" or next(iter(besides)) in skip:
                _check(skip, besides, where)
    if kind in _SCALE:
        scale, fields = _SCALE[kind]
        _check(record, {scale: (list,)}, name)
        for i, entry in enumerate(record[scale]):
            _check(entry, fields, f"{name}: {scale}[{i}]")
    _check(record, {"rows": (list,)}, name)
    for i, row in enumerate(record["rows"]):
        _check(row, _ROW[kind], f"{name}: rows[{i}]")
        _check_if_there(row, {"peak_bytes": _WHOLE}, f"{name}: rows[{i}]")


def _check_if_there(values: Mapping[str, Any], fields: Mapping[str, tuple[type, ...]], where: str) -> None:
    _check(values, {field: types for field, types in fields.items() if values.get(field) is not None}, where)


def _check(values: Any, fields: Mapping[str, tuple[type, ...]], where: str) -> None:
    if not isinstance(values, Mapping):
        raise RecordError(f"{where} must be an object, but it is {values!r}")
    for field, types in fields.items():
        value = values.get(field)
        wrong = not isinstance(value, types) or isinstance(value, bool) != (types is _FLAG) or value == ""
        # A time, a size or a rate below zero or without end was not measured.
        if field in ("engine", "reason") and value == "":
            wrong = False
        if not wrong and isinstance(value, (int, float)):
            wrong = not 0 <= value <= _LARGEST or (value == 0 and field in _ABOVE_ZERO)
        if wrong:
            above = " above 0" if field in _ABOVE_ZERO else ""
            what = "is missing" if field not in values else f"is {value!r}"
            raise RecordError(f"{where}.{field} {what}, but it must be {_said(types)}{above}")


def _said(types: tuple[type, ...]) -> str:
    names = {
        bool: "true or false",
        str: "a text",
        int: "a whole number",
        float: "a number",
        dict: "an object",
        list: "a list",
    }
    return names[types[-1]]
