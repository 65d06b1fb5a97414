"""A figure in words, for those who cannot see it: what it is, its axes, and what each trace does."""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from plotly.basedatatypes import BaseFigure

from .png_extras import plain

MOST = 400  # characters: what a screen reader says in half a minute
_LONGEST = 140  # of one part
_NOTES = 6  # so many names of lines and the like are told


def alt_text(figure: Any) -> str:
    """What ``figure`` shows, in at most 400 characters: title, panels, axes with units, and the traces with their range
    and where they are highest. What no longer fits is counted.

    Raises:
        TypeError: ``figure`` is no plotly Figure.
    """
    if not isinstance(figure, BaseFigure):
        raise TypeError(f"figure must be a plotly Figure, not {type(figure).__name__}")
    layout: Any = figure.layout
    title = _words(layout.title.text)
    told = _short(f"Figure: {title}" if title else "Figure without a title") + "."
    data: Any = figure.data
    traces: list[Any] = [trace for trace in data if trace.visible in (None, True) and not _is_backdrop(trace)]
    heads = _heads(layout, traces)
    several = len(heads) > 1
    parts = [*_panels(layout, heads), *_axes(figure), *_sliders(layout)]
    for trace in traces:
        head = heads.pop(_panel(trace), "") if several else ""  # said once, before the first trace of its panel
        parts.append(_short((f"In {head}: " if head else "") + _trace(trace, layout)) + ".")
    for i, part in enumerate(parts):
        left = len(parts) - i
        if len(told) + len(part) + len(_more(left - 1)) + 1 > MOST:
            return told + _more(left)
        told += f" {part}"
    return told


def spoken(text: str) -> str:
    """``text`` as HTML that is read aloud and not seen.

    JupyterLab 4.6 gives neither a PNG nor a plotly figure the ``alt`` of an output's metadata, so the words stand
    beside the picture. Only styles that its sanitizer lets pass are used.
    """
    style = "display:block;width:1px;height:1px;margin:0;padding:0;overflow:hidden;white-space:nowrap"
    return f'<span class="snnkit-alt" style="{style}">{html.escape(text)}</span>'


def _is_backdrop(trace: Any) -> bool:
    """Whether it only supports others: nothing answers to the mouse, and the legend does not name it."""
    return trace.hoverinfo == "skip" and (not trace.name or trace.showlegend is False)


def _panel(trace: Any) -> tuple[int, int]:
    """The numbers of the axes that a trace is drawn on."""
    if trace.type == "scatter3d" or "xaxis" not in trace:
        return 1, 1
    return int((trace.xaxis or "x")[1:] or 1), int((trace.yaxis or "y")[1:] or 1)


def _notes(layout: Any) -> list[Any]:
    return [note for note in layout.annotations if note.text and note.showarrow is False]


def _is_head(note: Any) -> bool:
    """Whether it is the title of a panel, as plotly's ``make_subplots`` sets them."""
    return (note.xref, note.yref, note.xanchor, note.yanchor) == ("paper", "paper", "center", "bottom")


def _heads(layout: Any, traces: list[Any]) -> dict[tuple[int, int], str]:
    """The title of each panel, in the order of the axes."""
    named = [_words(note.text) for note in _notes(layout) if _is_head(note)]
    panels = sorted({_panel(trace) for trace in traces})
    return dict(zip(panels, named, strict=True)) if len(panels) == len(named) else {}


def _panels(layout: Any, heads: Any) -> Iterable[str]:
    """How many panels there are, and what is written at their edges: names of lines across them, and the like."""
    if heads:
        yield f"{len(heads)} panels." if len(heads) > 1 else _short(next(iter(heads.values()))) + "."
    written = [n for n in _notes(layout) if "paper" in (n.xref, n.yref) and not (heads and _is_head(n))]
    if 0 < len(written) <= _NOTES:
        yield _short(f"Marked: {', '.join(_words(note.text) for note in written)}") + "."


def _axes(figure: Any) -> Iterable[str]:
    layout = figure.layout
    if any(trace.type == "scatter3d" for trace in figure.data):
        named = [_words(getattr(layout.scene, f"{letter}axis").title.text) for letter in "xyz"]
        across, up = [", ".join(filter(None, named))], [""]
    else:
        across, up = (_titles(layout, letter) for letter in "xy")
    if len(across) == len(up) == 1 and across[0] and up[0]:
        yield _short(f"{up[0][:1].upper()}{up[0][1:]} against {across[0]}") + "."
        return
    for word, names in (("Across", across), ("Up", up)):
        if any(names):
            yield _short(f"{word}: {'; '.join(filter(None, names))}") + "."


def _titles(layout: Any, letter: str) -> list[str]:
    """The titles of all x or y axes, each once, in the order of the panels."""
    axes = [layout[key] for key in sorted(layout) if key.startswith(f"{letter}axis")]
    named = [_words(axis.title.text) + (" (logarithmic)" if axis.type == "log" else "") for axis in axes]
    return list(dict.fromkeys(name for name, axis in zip(named, axes, strict=True) if axis.title.text))


def _sliders(layout: Any) -> Iterable[str]:
    for slider in layout.sliders:
        name = _words(slider.currentvalue.prefix).removesuffix("=").strip() or "slider"
        now = _words(slider.steps[int(slider.active or 0)].label)
        yield _short(f"Slider {name}: {len(slider.steps)} positions, now {now}") + "."


def _trace(trace: Any, layout: Any) -> str:
    name = _words(trace.name)
    if trace.type == "scatter3d":
        return f"{name or 'cloud'}: {len(trace.x if trace.x is not None else ()):,} points"
    if trace.type not in ("heatmap", "bar", "scatter", "scattergl"):
        return f"{name or 'something'}: a trace of type {trace.type}"
    across, up = _panel(trace)
    x = _Places(trace.x, layout[f"xaxis{across if across > 1 else ''}"])
    y = _Places(trace.y, layout[f"yaxis{up if up > 1 else ''}"])
    if trace.type == "heatmap":
        return _heatmap(name, trace, x, y)
    if trace.type == "bar":
        return _bars(name, *((y, trace.x) if trace.orientation == "h" else (x, trace.y)))
    if trace.mode == "markers":
        return _marks(name, x, y)
    return _line(name, x, y, "area" if trace.fill == "toself" else "line")


class _Places:
    """Coordinates along an axis, as numbers and as the axis names them."""

    def __init__(self, values: Any, axis: Any) -> None:
        self.values = None if values is None else np.asarray(values)
        ticks = (
            () if axis.tickvals is None or axis.ticktext is None else zip(axis.tickvals, axis.ticktext, strict=False)
        )
        largest = np.abs(self.numbers).max(initial=0.0, where=np.isfinite(self.numbers))
        self.nothing = 1e-9 * float(largest)  # what rounding leaves of a 0
        self.named = {at: _words(text) for at, text in ticks}

    def __getitem__(self, index: int) -> str:
        value: Any = index if self.values is None else self.values[index]
        if not isinstance(value, (int, float, np.number)):
            return _words(value)
        return self.named.get(float(value)) or _number(0.0 if abs(value) < self.nothing else float(value))

    @property
    def numbers(self) -> np.ndarray:
        return _numbers(self.values)


def _line(name: str, x: _Places, y: _Places, kind: str) -> str:
    heights = y.numbers
    known = np.flatnonzero(np.isfinite(heights))
    if not known.size:
        return f"{name or kind}: empty"
    if known.size == 1:
        return f"{name or kind}: one point at {x[int(known[0])]}, {y[int(known[0])]}"
    low, high = float(heights[known].min()), float(heights[known].max())
    if kind == "area":
        return f"{name or kind}: from {_number(low)} to {_number(high)}"
    if low == high:
        return f"{name or kind}: {y[int(known[0])]} throughout"
    top = x[int(known[heights[known].argmax()])]
    return f"{name or kind}: {known.size} points from {_number(low)} to {_number(high)}, highest at {top}"


def _marks(name: str, x: _Places, y: _Places) -> str:
    count = 0 if y.values is None else len(y.values)
    if count == 0:
        return f"{name or 'marks'}: none"
    if count == 1:
        return f"{name or 'mark'}: one at {x[0]}, {y[0]}"
    across = x.numbers
    if not np.isfinite(across).any():
        return f"{name or 'marks'}: {count:,} marks"
    low, high = float(np.nanmin(across)), float(np.nanmax(across))
    return f"{name or 'marks'}: {count:,} marks between {_number(low)} and {_number(high)}"


def _bars(name: str, places: _Places, lengths: Any) -> str:
    values = _numbers(lengths)
    if not np.isfinite(values).any():
        return f"{name or 'bars'}: none"
    most = int(np.nanargmax(values))
    top = f"{_number(float(values[most]))} at {places[most]}"
    if values.size == 1:
        return f"{name or 'bar'}: {top}"
    return f"{name or 'bars'}: {values.size} bars, the longest {top}"


def _heatmap(name: str, trace: Any, x: _Places, y: _Places) -> str:
    cells = np.array([_numbers(row) for row in trace.z])
    size = f"{name or 'map'}: {len(cells)} by {cells.shape[1]} cells"
    if not np.isfinite(cells).any():
        return f"{size}, all empty"
    low, high = float(np.nanmin(cells)), float(np.nanmax(cells))
    if low == high:
        return f"{size}, all {_number(low)}"
    row, column = divmod(int(np.nanargmax(cells)), cells.shape[1])
    # Without coordinates of their own, cells are pixels of pictures: their numbers say nothing.
    place = f", highest at {x[column]}, {y[row]}" if trace.x is not None or trace.y is not None else ""
    return f"{size} from {_number(low)} to {_number(high)}{place}"


def _numbers(values: Any) -> np.ndarray:
    """As floats; NaN for what is none."""
    array = np.asarray(() if values is None else values)
    if array.dtype.kind in "biuf":
        return array.astype(float)
    real = (value if isinstance(value, (int, float)) else math.nan for value in array.tolist())
    return np.fromiter(real, dtype=float, count=len(array))


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "nothing" if math.isnan(value) else f"{'−' if value < 0 else ''}infinity"
    whole = value == round(value) or abs(value) >= 1000
    told = f"{value:,.0f}" if whole and abs(value) < 1e7 else f"{value:.3g}"
    return told.replace("-", "−")  # which is read as "minus"


def _words(text: Any) -> str:
    return " ".join(plain(text or "").replace(r"\$", "$").split())


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1].rstrip() + "…"


def _more(count: int) -> str:
    return f" And {count} more." if count else ""
