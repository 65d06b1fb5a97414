"""Begin a record."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..records import SCHEMA, RecordError, parse, read, validate, write

__all__ = ["SCHEMA", "RecordError", "begin", "parse", "read", "validate", "write"]


def begin(kind: str, device: Any, arguments: Any, **parts: Any) -> dict[str, Any]:
    """A record of which nothing is measured yet: where and by what it is made, ``parts``, and no rows."""
    from ..measure.machine import provenance

    made = {"schema": SCHEMA, "kind": kind, "complete": False, "provenance": provenance(device)}
    return made | {"arguments": asdict(arguments), **parts, "rows": [], "skipped": []}
