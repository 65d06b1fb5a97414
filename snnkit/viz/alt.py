"""A figure in words, for those who cannot see it: its title, its axes, and the range of each trace."""

from __future__ import annotations

import html
import math
from typing import Any

import numpy as np
from plotly.basedatatypes import BaseFigure

from .. import checks
from .png import plain

MOST = 400  # characters: what a screen reader says in half a minute
_LONGEST = 140  # of one part
_NOTES = 6
_KINDS = {"scatter": "line", "scattergl": "line", "heatmap": "map", "scatter3d": "cloud"}


def alt_text(figure: Any) -> str:
    """What ``figure`` shows, in at most 400 characters: its title, axes with units, sliders, and the traces with their
    range and where they are highest. What no longer fits is counted.

    Raises:
        TypeError: ``figure`` is no plotly Figure.
    """
    layout = checks.instance("figure", figure, BaseFigure, "a plotly Figure").layout
    title = _words(layout.title.text)
    parts = [f"Figure: {title}" if title else "Figure without a title"]
    scene = [getattr(layout.scene, f"{letter}axis").title.text for letter in "xyz"]
    across, up = (_titles(layout, letter) for letter in "xy")
    if across and up:
        parts.append(f"{up[:1].upper()}{up[1:]} against {across}")
    elif any((across, up, *scene)):
        parts.append(f"Axes: {', '.join(_words(text) for text in (across, up, *scene) if text)}")
    notes = [_words(note.text) for note in layout.annotations if "paper" in (note.xref, note.yref) and note.text]
    if 0 < len(notes) <= _NOTES:  # titles of panels, names of lines across them
        parts.append(f"Labels: {'; '.join(notes)}")
    for slider in layout.sliders:
        name, now = _words(slider.currentvalue.prefix).removesuffix("=").strip(), slider.steps[int(slider.active or 0)]
        parts.append(f"Slider {name or 'slider'}: {len(slider.steps)} positions, now {_words(now.label)}")
    # What only supports other traces is not described: it does not answer to the mouse, and has no entry in the legend.
    traces = [t for t in figure.data if t.visible in (None, True)]
    parts += [
        _trace(t, layout) for t in traces if not (t.hoverinfo == "skip" and (not t.name or t.showlegend is False))
    ]
    sentences = [f"{part if len(part) <= _LONGEST else part[: _LONGEST - 1].rstrip() + '…'}." for part in parts]
    while len(text := " ".join(sentences)) > MOST - 15:
        sentences.pop()
    left = len(parts) - len(sentences)
    return text + (f" And {left} more." if left else "")


def spoken(text: str) -> str:
    """``text`` as HTML that is read aloud and not seen.

    JupyterLab 4.6 gives neither a PNG nor a plotly figure the ``alt`` of an output's metadata, so the words are an
    output beside the picture. Only styles that its sanitizer accepts are used.
    """
    style = "display:block;width:1px;height:1px;margin:0;padding:0;overflow:hidden;white-space:nowrap"
    return f'<span class="snnkit-alt" style="{style}">{html.escape(text)}</span>'


def _titles(layout: Any, letter: str) -> str:
    """The titles of all x or y axes, each once."""
    axes = [layout[key] for key in sorted(layout) if key.startswith(f"{letter}axis")]
    named = [
        _words(axis.title.text) + (" (logarithmic)" if axis.type == "log" else "") for axis in axes if axis.title.text
    ]
    return "; ".join(dict.fromkeys(named))


def _trace(trace: Any, layout: Any) -> str:
    """Its name, how many values it has, their range, and where they are highest."""
    marks = trace.type in ("scatter", "scattergl") and trace.mode == "markers"
    unit = "marks" if marks else "bars" if trace.type == "bar" else "points"
    kind = unit if marks or trace.type == "bar" else _KINDS.get(trace.type, "something")
    name = _words(trace.meta if isinstance(trace.meta, str) else trace.name) or kind
    if trace.type not in (*_KINDS, "bar"):
        return f"{name}: a trace of type {trace.type}"
    if trace.type == "heatmap":
        numbers = np.array([_numbers(row) for row in trace.z])
        return f"{name}: {len(numbers)} by {numbers.shape[1]} cells {_span(numbers)}"
    sideways = trace.type == "bar" and trace.orientation == "h"
    (along, places), (up, values) = (("y", trace.y), ("x", trace.x)) if sideways else (("x", trace.x), ("y", trace.y))
    numbers = _numbers(places if marks or trace.type == "scatter3d" else values)
    if trace.type == "scatter3d" or not np.isfinite(numbers).any():
        return f"{name}: {numbers.size:,} {unit}" if trace.type == "scatter3d" else f"{name}: none"
    if numbers.size == 1:
        return f"{name}: one at {_place(trace, layout, along, places, 0)}, {_place(trace, layout, up, values, 0)}"
    text = f"{name}: {numbers.size:,} {unit} {_span(numbers)}"
    flat = np.ptp(numbers[np.isfinite(numbers)]) == 0
    if marks or flat or ("fill" in trace and trace.fill == "toself"):
        return text
    return f"{text}, highest at {_place(trace, layout, along, places, int(np.nanargmax(numbers)))}"


def _span(numbers: np.ndarray) -> str:
    known = numbers[np.isfinite(numbers)]
    if not known.size:
        return "without a value"
    low, high = _number(float(known.min())), _number(float(known.max()))
    return f"all {low}" if low == high else f"from {low} to {high}"


def _place(trace: Any, layout: Any, letter: str, values: Any, index: int) -> str:
    """A coordinate as its axis names it."""
    value = index if values is None else values[index]
    if not isinstance(value, (int, float, np.number)):
        return _words(value)
    axis = layout[f"{letter}axis{(trace[f'{letter}axis'] or letter)[1:]}"]
    if axis.tickvals is not None and axis.ticktext is not None:
        for at, text in zip(axis.tickvals, axis.ticktext, strict=False):
            if at == value:
                return _words(text)
    least = 1e-9 * float(np.abs(_numbers(values)).max(initial=0.0))
    return _number(float(value) if abs(value) > least else 0.0)  # rounding may leave next to nothing of a 0


def _numbers(values: Any) -> np.ndarray:
    """As floats; NaN for what is none."""
    array = np.asarray(() if values is None else values)
    if array.dtype.kind in "biuf":
        return array.astype(float)
    real = (value if isinstance(value, (int, float)) else math.nan for value in array.tolist())
    return np.fromiter(real, dtype=float, count=len(array))


def _number(value: float) -> str:
    whole = value == round(value) or abs(value) >= 1000
    text = f"{value:,.0f}" if whole and abs(value) < 1e7 else f"{value:.3g}"
    return text.replace("-", "−")  # which is read as "minus"


def _words(text: Any) -> str:
    return " ".join(plain(text or "").split())
