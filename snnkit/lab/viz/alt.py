"""A figure in words, for people who cannot see it: its title, its axes, and the range of each trace."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
from plotly.basedatatypes import BaseFigure

from snnkit import checks

MOST = 400  # characters: what a screen reader says in half a minute


def plain(text: Any) -> str:
    """Plotly's HTML as plain text."""
    return html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"<br\s*/?>", "\n", str(text or ""))))


@checks.arguments
def alt_text(figure: BaseFigure) -> str:
    """What ``figure`` shows, in at most 400 characters: its title, axes with units, and the traces with their range."""
    page: Any = figure  # whose methods only its subclasses have
    layout = page.layout
    title = _line(layout.title.text)
    parts = [f"Figure: {title}" if title else "Figure without a title"]
    axes = [*page.select_xaxes(), *page.select_yaxes(), *(getattr(layout.scene, f"{letter}axis") for letter in "xyz")]
    if named := dict.fromkeys(_line(axis.title.text) for axis in axes if axis.title.text):
        parts.append(f"Axes: {', '.join(named)}")
    for slider in layout.sliders:
        now = slider.steps[int(slider.active or 0)].label
        parts.append(f"Slider with {len(slider.steps)} positions: {slider.currentvalue.prefix or ''}{now}")
    # What does not answer to the mouse only supports other traces.
    shown = [trace for trace in page.data if trace.visible in (None, True) and trace.hoverinfo != "skip"]
    parts += [_trace(trace, _in_lanes(trace, layout)) for trace in shown]
    text = ". ".join(parts) + "."
    return text if len(text) <= MOST else text[: MOST - 1].rstrip() + "…"


def spoken(text: str) -> str:
    """``text`` as invisible HTML for screen readers.

    JupyterLab 4.6 does not give the ``alt`` of an output's metadata to a PNG or a plotly figure, so the words are an
    output beside the picture. It has only styles that JupyterLab's sanitizer accepts.
    """
    style = "display:block;width:1px;height:1px;margin:0;padding:0;overflow:hidden;white-space:nowrap"
    return f'<span class="snnkit-alt" style="{style}">{html.escape(text)}</span>'


def _in_lanes(trace: Any, layout: Any) -> bool:
    """Whether y only says in which of several rows, each with its name, the numbers are."""
    names = layout[f"yaxis{(trace.yaxis or 'y')[1:]}"].ticktext if trace.type == "scatter" else None
    return any(not str(name)[:1].isdigit() for name in names or ())


def _trace(trace: Any, in_lanes: bool) -> str:
    name = _line(trace.name) or trace.type
    sideways = in_lanes or (trace.type == "bar" and trace.orientation == "h")
    drawn = getattr(trace, "x" if sideways else "z" if trace.type == "heatmap" else "y", None)
    values = np.ravel(np.asarray(drawn, dtype=object))
    numbers = np.array([value for value in values if isinstance(value, (int, float, np.number))], dtype=float)
    numbers = numbers[np.isfinite(numbers)]
    if not numbers.size:
        return f"{name}: nothing"
    least, most = (f"{value:.3g}".replace("-", "−") for value in (numbers.min(), numbers.max()))
    if numbers.size == 1:
        return f"{name}: 1 value, {least}"
    return f"{name}: {numbers.size:,} values from {least} to {most}"


def _line(text: Any) -> str:
    return " ".join(plain(text).split())
