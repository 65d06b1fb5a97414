"""Measured results that come with the kit, each with its provenance: machine, versions, commit and date, or source.

    from snnkit import records

    records.names()
    records.load("spikingjelly_rtx2080ti")

``snnkit bench neurons --out FILE.json`` and ``snnkit train NAME --out FILE.json`` write one; those of kind "published"
hold figures of other people.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from ..bench.record import parse


def names(kind: str | None = None) -> list[str]:
    """Names of all records, or of one kind: "neurons", "training", "compare", "demo", "scaling", "recipe", "local",
    "plasticity" or "published".
    """
    found = sorted(e.name.removesuffix(".json") for e in files(__name__).iterdir() if e.name.endswith(".json"))
    return found if kind is None else [name for name in found if load(name)["kind"] == kind]


def load(name: str) -> dict[str, Any]:
    """The record called ``name``.

    Raises:
        ValueError: there is none of that name; or (``RecordError``) it is damaged or says not where it comes from.
    """
    known = names()
    if name not in known:
        raise ValueError(f"name must be one of {', '.join(map(repr, known))}, but it is {name!r}")
    return parse(files(__name__).joinpath(f"{name}.json").read_bytes(), f"{name}.json")
