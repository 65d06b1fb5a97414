"""A ``ModuleTree`` as text for a terminal and as an HTML table for light and dark pages."""

from __future__ import annotations

import html
from collections import Counter
from typing import TYPE_CHECKING

from . import theme

if TYPE_CHECKING:
    from .modules import ModuleTree, Part

_HEAD = ("part", "kind", "shape", "dtype", "device", "size", "")
_COLOURS = {
    "parameter": theme.BLUE,
    "buffer": theme.GREEN,
    "unsaved buffer": theme.SKY,
    "state": theme.PURPLE,
    "plain attribute": theme.VERMILION,
}


def text(tree: ModuleTree) -> str:
    """The tree in columns, two spaces per level, and a summary."""
    rows = [_HEAD, *(_cells(part) for part in tree.parts)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([*lines, "", *summary(tree)])


def page(tree: ModuleTree) -> str:
    """The tree as a table; kinds have a word as well as a colour."""
    cell = "text-align:left;padding:.12em .8em .12em 0;white-space:nowrap;border:none"
    head = "".join(f'<th style="{cell};font-weight:normal;opacity:.7">{title}</th>' for title in _HEAD)
    rows = "".join(_row(part, cell) for part in tree.parts)
    table = f'<table style="border-collapse:collapse;margin:0"><tr>{head}</tr>{rows}</table>'
    told = "<br>".join(html.escape(line) for line in summary(tree))
    box = "overflow-x:auto;line-height:1.4;font-size:13px;margin:.4em 0"
    return f'<div class="snnkit-modules" style="{box}">{table}<div style="margin-top:.5em">{told}</div></div>'


def summary(tree: ModuleTree) -> list[str]:
    """Bytes by kind and device, and what stays behind."""
    bytes_of, count = Counter(), Counter()
    for part in tree.parts:
        if part.kind != "module":
            bytes_of[part.kind, str(part.device)] += part.bytes
            count[part.kind, str(part.device)] += 1
    told = [
        f"{kind}: {count[kind, where]} on {where}, {size_of(size)}"
        for (kind, where), size in sorted(bytes_of.items(), key=lambda item: list(_COLOURS).index(item[0][0]))
    ]
    lines = [" · ".join(told) or "no tensors"]
    if tree.left_behind:
        lines.append(f"⚠ neither moved by .to() nor saved by state_dict(): {', '.join(tree.left_behind)}")
    return lines


def size_of(count: int) -> str:
    """Bytes for people: "640 B", "12.5 kB", "1.7 MB" (powers of 1000)."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} B"


def _cells(part: Part) -> tuple[str, ...]:
    name = "  " * part.depth + part.name
    notes = ", ".join(part.notes)
    if part.kind == "module":
        label = f"{name}: {part.type}" if part.name else part.type
        return (label, "", "", "", "", "", notes)
    notes = ", ".join(["⚠ stays behind", *part.notes]) if part.stays else notes
    shape = "?" if part.shape is None else str(list(part.shape))
    dtype = str(part.dtype).removeprefix("torch.")
    return (name, part.kind, shape, dtype, str(part.device), size_of(part.bytes), notes)


def _row(part: Part, cell: str) -> str:
    name, kind, *others = (html.escape(value) for value in _cells(part))
    colour = _COLOURS.get(part.kind, theme.AXIS_HEX)
    weight = "600" if part.kind == "module" else "400"
    tint = f"background:{theme.faint(colour, 0.14)}" if part.stays else "background:none"
    indent = f"padding-left:{0.4 + 1.3 * part.depth:.1f}em"
    badge = ""
    if kind:
        look = f"background:{theme.faint(colour, 0.22)};border-left:3px solid {colour};padding:0 .5em"
        badge = f'<span style="{look}">{kind}</span>'
    cells = [
        f'<td style="{cell};{indent};font-weight:{weight};font-family:monospace">{name.strip()}</td>',
        f'<td style="{cell}">{badge}</td>',
        *(f'<td style="{cell}">{value}</td>' for value in others),
    ]
    return f'<tr style="{tint}">{"".join(cells)}</tr>'
