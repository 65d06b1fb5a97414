"""Records of measurements: JSON that is written by the program, whole or not at all, and read only if it says enough.

A record of kind "neurons", "training", "demo", "scaling", "compare" or "plasticity" holds what ``snnkit bench``
measured, one of kind "recipe" what ``snnkit train`` reached epoch by epoch, one of kind "local" what ``snnkit bench
local`` reached pass by pass; one of kind "published" holds figures of other people with their source. Each has
``schema``, ``kind``, ``provenance`` and ``rows``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from .fields import (
    ABOVE_ZERO,
    BESIDE,
    COMMIT,
    DEVICE,
    FLAG,
    LARGEST,
    MACHINE,
    NUMBER,
    PROVENANCE,
    RECEPTIVE,
    ROW,
    SKIPPED,
    TEXT,
    TRAINED,
    TUTORIAL,
    VERSIONS,
    WHOLE,
)

SCHEMA = 1


class RecordError(ValueError):
    """A file that is no record, or one that leaves out where its numbers come from."""


def begin(kind: str, device: Any, arguments: Any, **parts: Any) -> dict[str, Any]:
    """A record of which nothing is measured yet: where and by what it is made, ``parts``, and no rows.

    Args:
        kind: as above.
        device: a torch.device.
        arguments: a dataclass.
    """
    from ..measure.machine import provenance

    made = {"schema": SCHEMA, "kind": kind, "complete": False, "provenance": provenance(device)}
    return made | {"arguments": asdict(arguments), **parts, "rows": [], "skipped": []}


def write(path: str | Path, record: Mapping[str, Any]) -> Path:
    """Write ``record`` to ``path``: the old file or the new one is there, never a part of one.

    Raises:
        RecordError: it lacks something that a reader needs.
    """
    from ..files import replacing

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
    if not isinstance(kind, str) or kind not in ROW:
        raise RecordError(f"{name}: kind must be one of {', '.join(map(repr, ROW))}, but it is {kind!r}")
    if not isinstance(record.get("provenance"), Mapping):
        raise RecordError(f"{name} does not say where its numbers come from (provenance), so they are not shown")
    origin = record["provenance"]
    _check(origin, PROVENANCE[kind], f"{name}: provenance")
    if kind != "published":
        _check(origin["device"], DEVICE, f"{name}: provenance.device")
        _check(origin["versions"], VERSIONS, f"{name}: provenance.versions")
        _check_if_there(origin["device"], {"compute_capability": TEXT}, f"{name}: provenance.device")
        if origin.get("commit") is not None:
            _check(origin["commit"], COMMIT, f"{name}: provenance.commit")
    if kind == "recipe":
        _check(record, {"arguments": (dict,), "parameters": WHOLE}, name)
        _check(record["arguments"], {"name": TEXT, "about": TEXT, "epochs": WHOLE, "seed": WHOLE}, f"{name}: arguments")
    if kind == "local":
        _check(record, {"arguments": (dict,), "fields": (dict,), "unlabelled": WHOLE}, name)
        settings = {"data": TEXT, "neurons": WHOLE, "passes": WHOLE, "steps": WHOLE}
        _check(record["arguments"], settings, f"{name}: arguments")
        _check(record["fields"], RECEPTIVE, f"{name}: fields")
    if kind == "scaling":
        _check(record, {"arguments": (dict,), "machine": (dict,)}, name)
        _check(record["arguments"], TRAINED, f"{name}: arguments")
        _check(record["machine"], MACHINE, f"{name}: machine")
    if kind in SKIPPED:
        _check(record, {"arguments": (dict,), "skipped": (list,)}, name)
        always, besides = SKIPPED[kind]
        for i, skip in enumerate(record["skipped"]):
            where = f"{name}: skipped[{i}]"
            _check(skip, always, where)
            if kind == "demo" or next(iter(besides)) in skip:
                _check(skip, besides, where)
    if kind == "compare":
        _check(record, {"arguments": (dict,)}, name)
        _check(record["arguments"], TUTORIAL, f"{name}: arguments")
    for beside, fields in BESIDE.get(kind, {}).items():
        _check(record, {beside: (list,)}, name)
        for i, entry in enumerate(record[beside]):
            _check(entry, fields, f"{name}: {beside}[{i}]")
    _check(record, {"rows": (list,)}, name)
    for i, row in enumerate(record["rows"]):
        _check(row, ROW[kind], f"{name}: rows[{i}]")
        _check_if_there(row, {"peak_bytes": WHOLE}, f"{name}: rows[{i}]")
    if kind == "scaling":
        _check_rounds(record, name)


def _check_rounds(record: Mapping[str, Any], name: str) -> None:
    """Every row has its rounds and a number of ranks that was asked for; one rank alone is among them."""
    asked = record["arguments"]["ranks"]
    for i, row in enumerate(record["rows"]):
        if not row["rounds_s"]:
            raise RecordError(f"{name}: rows[{i}].rounds_s is empty")
        for j, seconds in enumerate(row["rounds_s"]):
            _check({"step_s": seconds}, {"step_s": NUMBER}, f"{name}: rows[{i}].rounds_s[{j}]")
        if row["ranks"] not in asked:
            raise RecordError(
                f"{name}: rows[{i}].ranks is {row['ranks']}, but it must be one of arguments.ranks, {asked}"
            )
    if not any(row["ranks"] == 1 and row["mode"] == "together" for row in record["rows"]):
        raise RecordError(f"{name}: rows must hold one rank alone, with which the others are compared")


def _check_if_there(values: Mapping[str, Any], fields: Mapping[str, tuple[type, ...]], where: str) -> None:
    _check(values, {field: types for field, types in fields.items() if values.get(field) is not None}, where)


def _check(values: Any, fields: Mapping[str, tuple[type, ...]], where: str) -> None:
    if not isinstance(values, Mapping):
        raise RecordError(f"{where} must be an object, but it is {values!r}")
    for field, types in fields.items():
        value = values.get(field)
        wrong = not isinstance(value, types) or isinstance(value, bool) != (types is FLAG) or value == ""
        # A time, a size or a rate below zero or without end was not measured.
        if field in ("engine", "reason") and value == "":
            wrong = False
        if not wrong and isinstance(value, (int, float)):
            wrong = not 0 <= value <= LARGEST or (value == 0 and field in ABOVE_ZERO)
        if wrong:
            above = " above 0" if field in ABOVE_ZERO else ""
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
