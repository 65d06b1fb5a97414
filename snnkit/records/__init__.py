"""Records: measured results as JSON, each with its provenance. Some come with the kit.

    from snnkit import records

    records.names()
    records.load("spikingjelly_rtx2080ti")
    records.read("mine.json")

``snnkit bench ... --out FILE.json`` and ``snnkit train NAME --out FILE.json`` write one. Each has ``schema``, ``kind``,
``provenance`` (machine, versions, commit and date, or a source) and ``rows``. Records of kind "recipe" have a row for
each epoch, those of kind "local" one for each pass; those of kind "published" hold figures of other people. Those of
kind "contribution" are what ``snnkit bench record`` writes on anybody's GPU: they hold records of other kinds.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from snnkit import checks
from snnkit.files import expanded, read_small, write_text
from snnkit.records.schema import KINDS, SCHEMA, RecordError, checksum, validate

__all__ = ["KINDS", "SCHEMA", "RecordError", "checksum", "contributed", "load", "names", "parse", "read"]
__all__ += ["validate", "write"]

LARGEST = 1 << 26  # bytes of a record


def names(kind: str | None = None) -> list[str]:
    """Names of all records that come with the kit, or of one of ``KINDS``."""
    every = _names_in("")
    return every if kind is None else [name for name in every if load(name)["kind"] == kind]


def contributed() -> list[str]:
    """Names of the records that users sent in, such as "contributed/snnkit-record-tesla-t4-2027-01-31"."""
    return _names_in("contributed/")


def _names_in(folder: str) -> list[str]:
    names = (entry.name for entry in files(__name__).joinpath(folder).iterdir())
    return sorted(folder + name.removesuffix(".json") for name in names if name.endswith(".json"))


def load(name: str) -> dict[str, Any]:
    """The record of this name that comes with the kit: one of ``names()`` or of ``contributed()``.

    Raises:
        ValueError: there is none of that name; or (``RecordError``) it is damaged or lacks its provenance.
    """
    checks.choice("name", name, [*names(), *contributed()])
    return parse(files(__name__).joinpath(f"{name}.json").read_bytes(), f"{name}.json")


def read(path: str | Path) -> dict[str, Any]:
    """The record in the file at ``path``.

    Raises:
        RecordError: the file is damaged, of another schema, or without provenance, or no file of at most 64 MiB.
        OSError: it can't be read.
    """
    try:
        data = read_small(expanded(path), LARGEST)
    except ValueError as error:
        raise RecordError(f"{path} is not a record: {error}") from None
    return parse(data, str(path))


def parse(data: bytes, name: str) -> dict[str, Any]:
    """The record in ``data``, the content of a file called ``name``. Raises ``RecordError`` as ``read``."""
    try:
        record = json.loads(data)
    except (ValueError, RecursionError) as error:  # of the encoding, too; brackets in brackets in brackets
        raise RecordError(f"{name} is not a record: it is damaged or not JSON ({error})") from None
    validate(record, name)
    return record


def write(path: str | Path, record: Mapping[str, Any]) -> Path:
    """Write ``record`` to ``path``; readers see the old file or the new one. RecordError: it lacks what they need."""
    path = expanded(path)
    validate(record, str(path))
    text = json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(path, text)
    return path


checks.all_arguments(__name__)
