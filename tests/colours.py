"""Whether figures that show a concept of the course take its colour from the table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from snnkit.lab.viz import concepts

_PLOTLY = "application/vnd.plotly.v1+json"


def strange(figure: dict[str, Any]) -> list[str]:
    """One line for each trace of a figure's JSON that is named like a concept and has another colour.

    Of two concepts with one hue, the second has a free colour. Broad pale lines are theory, whatever their name.
    """
    first: dict[str, str] = {}
    lines = []
    for trace in figure["data"]:
        meant, ink = concepts.concept(trace.get("name")), _ink(trace)
        if not meant or not ink or trace.get("line", {}).get("width", 0) >= 9:
            continue
        wanted = concepts.colour(meant)
        if first.setdefault(wanted, meant) == meant and ink.lower() != wanted.lower():
            lines.append(f"{trace['name']!r} is drawn in {ink}, but {meant} is {wanted}")
    return lines


def in_notebook(cells: Iterable[Any]) -> list[str]:
    """The same of all figures in the outputs of executed cells."""
    outputs = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    return [line for data in outputs if _PLOTLY in data for line in strange(data[_PLOTLY])]


def _ink(trace: dict[str, Any]) -> str:
    colour = trace.get("line", {}).get("color") or trace.get("marker", {}).get("color")
    return colour if isinstance(colour, str) else ""
