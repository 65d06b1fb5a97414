"""What a recipe reached, as a record and as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_HEAD = ("epoch", "train loss", "train acc", "test loss", "test acc", "seconds", "samples/s")


def table(record: Mapping[str, Any]) -> str:
    """The recipe, those of its settings that are set, and a line for each epoch."""
    settings = {name: value for name, value in record["arguments"].items() if value not in (None, False)}
    title = f"{settings.pop('name')}: {settings.pop('about')}"
    lines = [title, f"settings: {', '.join(f'{name} {value}' for name, value in settings.items())}"]
    lines += [f"parameters: {record['parameters']:,}", ""]
    cells = [_HEAD, *map(_cells, record["rows"])]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines += ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in cells]
    return "\n".join(lines)


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        str(row["epoch"]),
        f"{row['train_loss']:.4f}",
        f"{row['train_accuracy']:.2%}",
        f"{row['test_loss']:.4f}",
        f"{row['test_accuracy']:.2%}",
        f"{row['seconds']:.1f}",
        f"{row['samples_per_second']:,.0f}",
    )
