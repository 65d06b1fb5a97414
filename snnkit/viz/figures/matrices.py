"""Tables of numbers as heat maps: confusion, similarity, and which of two machines is ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from ... import checks
from .. import theme
from ..drawing import as_array, class_names, colour_bar, compact, finish, panels

# From "behind for certain" over "open" to "ahead for certain": pale enough for black text.
_INKS = ("#f2c9ad", "#e4e4e4", "#a9d0e8")


def confusion(matrix: Any, labels: Sequence[str] | None = None, title: str = "Confusion matrix") -> go.Figure:
    """Which class is taken for which.

    Args:
        matrix: [C, C] counts; row: the true class, column: the predicted one.
        labels: names of the classes; without them their numbers.
    """
    counts = as_array(matrix, "matrix", "[C, C]")
    size = len(counts)
    if counts.shape[1] != size or not (np.isfinite(counts.astype(float)) & (counts >= 0)).all():
        raise ValueError(f"matrix must be square [C, C] with counts of at least 0, but it is {checks.shown(matrix)}")
    names = class_names(labels, size, "labels")
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    hover = "true %{y}, taken for %{x}<br>%{customdata} times (%{z:.1f} %)<extra></extra>"
    look = {"name": "share in %", "zmin": 0, "zmax": 100, "colorscale": theme.INK_ON_PAPER, "xgap": 1, "ygap": 1}
    look |= {"colorbar": colour_bar("% of row"), "customdata": compact(counts), "hovertemplate": hover}
    figure = go.Figure(go.Heatmap(z=compact(share * 100), x=names, y=names, **look))
    notes = []
    for row, column in np.argwhere(counts):
        font = {"color": theme.WHITE if share[row, column] > 0.6 else theme.BLACK, "size": 11}
        text = f"{counts[row, column]:g}"
        notes.append({"x": names[column], "y": names[row], "text": text, "showarrow": False, "font": font})
    right = 100 * np.trace(counts) / max(counts.sum(), 1)
    classes = {"type": "category", "showgrid": False}
    across, up = {"title_text": "predicted"} | classes, {"title_text": "true", "autorange": "reversed"} | classes
    return finish(figure, f"{title}: {right:.1f} % right", across, up, height=440, annotations=notes)


def similarity(vectors: Any, groups: Mapping[str, Sequence[str]], *, title: str = "Cosine of each two") -> go.Figure:
    """The cosine of each two vectors; lines separate the groups.

    Args:
        vectors: [N, features], in the order of ``groups``. The cosine with a vector of zeros is 0.
        groups: names of the vectors by the name of their group.
    """
    array = as_array(vectors, "vectors", "[N, features]").astype(np.float64)
    for group, members in checks.mapping("groups", groups, "group to names").items():
        checks.instance(f"groups[{group!r}]", members, (list, tuple), "a list of names")
    names = class_names([name for members in groups.values() for name in members], len(array), "groups")
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    unit = array / np.where(lengths > 0, lengths, 1)
    cosines = unit @ unit.T
    look = {"name": "cosine", "colorscale": theme.INK, "zmin": min(0.0, float(cosines.min())), "zmax": 1.0}
    pairs = [[f"{a}, {b}" for b in names] for a in names]
    hover = {"customdata": pairs, "hovertemplate": "%{customdata}: %{z:.2f}<extra></extra>"}
    figure = go.Figure(go.Heatmap(z=compact(cosines.round(3)), colorbar=colour_bar("cosine"), **look, **hover))
    size, sizes = len(names), np.array([len(members) for members in groups.values()])
    ends = np.cumsum(sizes)
    line = {"color": theme.TEXT, "width": 1}
    for end in ends[:-1] - 0.5:
        figure.add_shape(type="line", x0=-0.5, x1=size - 0.5, y0=end, y1=end, line=line)
        figure.add_shape(type="line", x0=end, x1=end, y0=-0.5, y1=size - 0.5, line=line)
    bare = {"showgrid": False, "ticks": ""}
    across = {"tickvals": (ends - sizes / 2 - 0.5).tolist(), "ticktext": list(groups), "range": [-0.5, size - 0.5]}
    up = {"tickvals": list(range(size)), "ticktext": names, "range": [size - 0.5, -0.5]}
    height = theme.MARGIN["t"] + theme.MARGIN["b"] + min(max(15 * size, 260), 640)
    return finish(figure, title, across | bare, up | bare, height=height)


def verdicts(
    ratios: Mapping[str, Sequence[Sequence[tuple[float, float] | None]]],
    x: Sequence[Any],
    y: Sequence[Any],
    *,
    x_title: str = "",
    y_title: str = "",
    title: str = "",
) -> go.Figure:
    """A panel for each entry of ``ratios``: blue where the ratio is certainly above 1, red where below, else grey.

    Args:
        ratios: title of a panel to [row of y][column of x] of (low, high); None where there is none.
        x, y: sizes of columns and rows.
    """
    if not checks.mapping("ratios", ratios, "title to rows of (low, high)"):
        raise ValueError("ratios must hold at least one panel, but it is empty")
    figure = panels(1, len(ratios), list(ratios), horizontal_spacing=0.07, shared_yaxes=True)
    scale = [(at, ink) for i, ink in enumerate(_INKS) for at in (i / 3, (i + 1) / 3)]
    for col, (name, rows) in enumerate(ratios.items(), start=1):
        if len(rows) != len(y) or any(len(row) != len(x) for row in rows):
            raise ValueError(f"{name!r} must have {len(y)} rows of {len(x)}, but it has {[len(row) for row in rows]}")
        figure.add_heatmap(
            name="verdict", z=[[None if cell is None else _verdict(*cell) for cell in row] for row in rows],
            x=list(range(len(x))), y=list(range(len(y))), zmin=-1.5, zmax=1.5, colorscale=scale, showscale=False,
            xgap=2, ygap=2, hoverinfo="none", row=1, col=col,
        )  # fmt: skip
        for j, row in enumerate(rows):
            for i, cell in enumerate(row):
                text = "does<br>not fit" if cell is None else f"{_short(cell[0])} …<br>{_short(cell[1])}"
                note = {"showarrow": False, "font": {"color": theme.BLACK if cell else theme.TEXT, "size": 11}}
                figure.add_annotation(x=i, y=j, text=text, row=1, col=col, **note)
    figure.update_yaxes(title_text=y_title, row=1, col=1)
    across, up = (
        {"tickvals": list(range(len(sizes))), "ticktext": list(map(str, sizes)), "showgrid": False} for sizes in (x, y)
    )
    margin = {"t": theme.MARGIN["t"] + 22, "b": 58}
    return finish(figure, title, {"title_text": x_title} | across, up, height=46 * len(y) + 132, margin=margin)


def _verdict(low: float, high: float) -> int:
    """Of a ratio that is between the two: 1 ahead for certain, -1 behind for certain, 0 open."""
    if not 0 <= low <= high:  # refuses NaN as well
        raise ValueError(f"a ratio must have 0 <= low <= high, but they are {low} and {high}")
    return 1 if low > 1 else -1 if high < 1 else 0


def _short(number: float) -> str:
    """Two digits, without an exponent."""
    return f"{number:.0f}" if number >= 10 else f"{number:.2g}"
