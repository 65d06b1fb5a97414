"""How each plotly trace of the kit's figures is drawn with matplotlib. ``png`` lays out the page around them."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from . import theme

_DASHES = {
    "solid": "-",
    "dash": (0, (6, 3)),
    "dot": (0, (1.5, 2)),
    "dashdot": (0, (6, 2.5, 1.5, 2.5)),
    "longdash": (0, (10, 4)),
    "longdashdot": (0, (10, 3, 1.5, 3)),
}
_MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "cross": "P",
    "x": "X",
    "star": "*",
    "line-ns": "|",
    "line-ew": "_",
}
# Plotly's patterns of bars, as dense as it draws them.
_HATCHES = {"/": "///", "\\": "\\\\\\", "x": "xxx", "-": "---", "|": "|||", "+": "+++", ".": ".."}
_STEPS = {"hv": "steps-post", "vh": "steps-pre", "hvh": "steps-mid"}


def rgba(value: Any, opacity: float = 1.0) -> tuple[float, float, float, float]:
    """A plotly colour ("#rrggbb", "rgb(…)", "rgba(…)", a CSS name) as matplotlib's four numbers."""
    from matplotlib.colors import to_rgba

    numbers = re.fullmatch(r"rgba?\(([^)]*)\)", str(value).replace(" ", ""))
    if numbers:
        parts = [float(p) for p in numbers.group(1).split(",")]
        red, green, blue = (p / 255 for p in parts[:3])
        return red, green, blue, (parts[3] if len(parts) > 3 else 1.0) * opacity
    red, green, blue, alpha = to_rgba(value)
    return red, green, blue, alpha * opacity


def colormap(scale: Any) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("plotly", [(float(at), rgba(c)) for at, c in scale])


def px(value: float) -> float:
    """CSS pixels as the points of a page drawn at 100 dots per inch."""
    return value * 0.72


def positions(values: Any, categories: list[Any]) -> np.ndarray:
    """Coordinates as numbers: categories (texts) become their places along the axis, new ones go to its end."""
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return array.astype(float)
    if array.dtype.kind == "O" and all(v is None or isinstance(v, (int, float)) for v in array):
        return np.array([math.nan if v is None else float(v) for v in array])
    for value in array.tolist():
        if value not in categories:
            categories.append(value)
    return np.array([categories.index(v) for v in array.tolist()], dtype=float)


def _coordinates(trace: Any, categories: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    y = positions(trace.y if trace.y is not None else [], categories["y"])
    x = positions(trace.x, categories["x"]) if trace.x is not None else np.arange(len(y), dtype=float)
    return x, y


def _scatter(axes: Any, trace: Any, index: int, categories: dict[str, Any]) -> None:
    x, y = _coordinates(trace, categories)
    fallback = theme.colour(index)
    opacity = 1.0 if trace.opacity is None else trace.opacity
    mode = trace.mode or ("lines+markers" if len(x) < 20 else "lines")
    style: dict[str, Any] = {"linestyle": "none", "marker": "", "label": label(trace)}
    colour = trace.line.color or trace.marker.color or fallback
    if "lines" in mode:
        style |= {"linestyle": _DASHES.get(trace.line.dash or "solid", "-"), "color": rgba(colour, opacity)}
        style["linewidth"] = px(trace.line.width if trace.line.width is not None else 2)
        style["drawstyle"] = _STEPS.get(trace.line.shape or "", "default")
    many = trace.marker.color is not None and not isinstance(trace.marker.color, str)
    if "markers" in mode and many:
        colours, cmap = marker_colours(trace, opacity)
        axes.scatter(
            x, y, c=colours, cmap=cmap, s=px(marker_size(trace)) ** 2, marker=marker(trace), label=label(trace)
        )
        style["label"] = "_"
    elif "markers" in mode:
        ink = rgba(
            trace.marker.color or colour, opacity * (1.0 if trace.marker.opacity is None else trace.marker.opacity)
        )
        tick = marker(trace) in "|_"
        size = px(marker_size(trace)) * (1.4 if tick else 1.0)  # plotly draws ticks longer than other markers are wide
        hollow = str(trace.marker.symbol).endswith("-open") and not tick
        style |= {"marker": marker(trace), "markersize": size, "markerfacecolor": "none" if hollow else ink}
        style |= {"markeredgecolor": ink, "markeredgewidth": 1.1 if tick or hollow else 0.0}
        style.setdefault("color", ink)
    if style["linestyle"] != "none" or style["marker"]:
        axes.plot(x, y, **style)
    if trace.fill == "tozeroy":
        axes.fill_between(x, y, 0, color=rgba(trace.fillcolor or colour, 1.0 if trace.fillcolor else 0.3), linewidth=0)
    elif trace.fill == "toself":
        ink = rgba(trace.fillcolor or colour, opacity if trace.fillcolor else 0.3)
        axes.fill(x, y, color=ink, linewidth=0, label=style["label"] if mode == "none" else "_")
    if "text" in mode and trace.text is not None:
        texts = [trace.text] * len(x) if isinstance(trace.text, str) else trace.text
        for at_x, at_y, text in zip(x, y, texts, strict=False):
            axes.text(at_x, at_y, str(text), color=theme.TEXT, fontsize=px(11), ha="center", va="bottom")


def _bar(axes: Any, trace: Any, index: int, categories: dict[str, Any]) -> None:
    x, y = _coordinates(trace, categories)
    colours = trace.marker.color if trace.marker.color is not None else theme.colour(index)
    ink = rgba(colours) if isinstance(colours, str) else [rgba(c) for c in colours] or rgba(theme.colour(index))
    hatch = _HATCHES.get(trace.marker.pattern.shape or "")
    look: dict[str, Any] = {"color": ink, "label": label(trace), "linewidth": 0}
    look |= {"hatch": hatch, "edgecolor": rgba(trace.marker.pattern.fgcolor or theme.WHITE)} if hatch else {}
    if not len(x):  # nothing to see; but without any bar the legend would not know the colour
        axes.bar(math.nan, math.nan, **look)
        return
    across = trace.orientation == "h"
    at, length = (y, x) if across else (x, y)
    gap = float(np.diff(np.sort(np.unique(at))).min()) if np.unique(at).size > 1 else 1.0
    slot, slots = categories.get("slot", (0, 1))
    width = np.asarray(trace.width, dtype=float) if trace.width is not None else 0.8 * gap / slots
    at = at + (slot - (slots - 1) / 2) * np.asarray(width).mean() if trace.width is None else at
    base: Any = trace.base if trace.base is not None else 0
    if "floor" in categories:
        base = _stacked(categories["floor"], at, length)
    paint = axes.barh if across else axes.bar
    paint(at, length, width, base, **look)
    if trace.text is not None:
        texts = [trace.text] * len(at) if isinstance(trace.text, str) else trace.text
        for place, end, text in zip(at, length + np.asarray(base), texts, strict=False):
            where = (end, place) if across else (place, end)
            align = {"ha": "left", "va": "center"} if across else {"ha": "center", "va": "bottom"}
            axes.text(*where, f" {text}" if across else str(text), color=theme.TEXT, fontsize=px(11), **align)


def _stacked(floors: dict[Any, float], at: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Where each bar of a stack begins: on those before it, upwards and downwards apart. Notes where it ends."""
    keys = [(place, size < 0) for place, size in zip(at.tolist(), length.tolist(), strict=True)]
    base = np.array([floors.get(key, 0.0) for key in keys])
    floors.update(zip(keys, (base + np.nan_to_num(length)).tolist(), strict=True))
    return base


def _heatmap(axes: Any, trace: Any, index: int, categories: dict[str, Any]) -> Any:
    z = np.array([[math.nan if v is None else float(v) for v in row] for row in np.asarray(trace.z, dtype=object)])
    rows, columns = z.shape
    y = positions(trace.y, categories["y"]) if trace.y is not None else np.arange(rows, dtype=float)
    x = positions(trace.x, categories["x"]) if trace.x is not None else np.arange(columns, dtype=float)
    low = trace.zmin if trace.zmin is not None else np.nanmin(z)
    high = trace.zmax if trace.zmax is not None else np.nanmax(z)
    scale = trace.colorscale if trace.colorscale is not None else theme.INK
    scale = [(1 - at, c) for at, c in reversed(scale)] if trace.reversescale else scale
    edge = {"edgecolors": theme.GRID_HEX, "linewidth": 0.4} if trace.xgap or trace.ygap else {}
    mesh = axes.pcolormesh(_edges(x), _edges(y), z, cmap=colormap(scale), vmin=low, vmax=high, **edge)
    mesh.set_antialiased(bool(edge))
    return mesh if trace.showscale is not False else None


def _edges(centres: np.ndarray) -> np.ndarray:
    if len(centres) == 1:
        return np.array([centres[0] - 0.5, centres[0] + 0.5])
    middles = (centres[:-1] + centres[1:]) / 2
    return np.concatenate([[2 * centres[0] - middles[0]], middles, [2 * centres[-1] - middles[-1]]])


def marker_colours(trace: Any, opacity: float) -> tuple[Any, Any]:
    colours = np.asarray(trace.marker.color)
    if colours.dtype.kind in "biuf":
        scale = trace.marker.colorscale if trace.marker.colorscale is not None else ((0, theme.SKY), (1, theme.BLUE))
        return colours, colormap(scale)
    return [rgba(c, opacity) for c in colours], None


def marker_size(trace: Any) -> float:
    size = trace.marker.size
    return 6.0 if size is None else float(np.mean(size))


def marker(trace: Any) -> str:
    """The trace's symbol as matplotlib calls it; hollow ones have the name of their shape."""
    return _MARKERS.get(str(trace.marker.symbol or "circle").removesuffix("-open"), "o")


def label(trace: Any) -> str:
    shown = trace.name and trace.showlegend is not False
    return str(trace.name) if shown else "_"


# How to draw each type: painter(axes, trace, index among the traces, categories met so far on each axis). What a
# painter returns, if anything, is what a colour bar can be made from.
PAINTERS = {"scatter": _scatter, "scattergl": _scatter, "bar": _bar, "heatmap": _heatmap}
