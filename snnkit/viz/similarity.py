"""How alike vectors are, each with each: a heat map of cosines, with borders between groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from . import theme
from .arguments import named, told
from .arrays import as_array, compact

_CELL, _MOST = 15, 60  # pixels of a row; names that can be read


def similarity(vectors: Any, groups: Mapping[str, Sequence[str]], *, title: str = "Cosine of each two") -> go.Figure:
    """The cosine of each two vectors; lines separate the groups.

    Args:
        vectors: [N, features], in the order of ``groups``. The cosine with a vector of zeros is 0.
        groups: names of the vectors by the name of their group.

    Raises:
        ValueError: vectors is of another shape, or there is not one name for each.
    """
    array = as_array(vectors, "vectors", "[N, features]").astype(np.float64)
    for group, members in named(groups, "groups", "group to names").items():
        if isinstance(members, str) or not isinstance(members, Sequence):
            raise TypeError(f"groups[{group!r}] must be a list of names, not {told(members)}")
    names = [name for members in groups.values() for name in members]
    if len(names) != len(array):
        raise ValueError(f"groups must hold one name for each of the {len(array)} vectors, not {len(names)}")
    lengths = np.linalg.norm(array, axis=1, keepdims=True)
    unit = array / np.where(lengths > 0, lengths, 1)
    cosines = unit @ unit.T
    look = {"name": "cosine", "colorscale": theme.INK, "zmin": min(0.0, float(cosines.min())), "zmax": 1.0}
    bar = {"title": {"text": "cosine"}, "thickness": 12, "outlinewidth": 0}
    pairs = [[f"{a}, {b}" for b in names] for a in names]
    hover = {"customdata": pairs, "hovertemplate": "%{customdata}: %{z:.2f}<extra></extra>"}
    figure = go.Figure(go.Heatmap(z=compact(cosines.round(3)), colorbar=bar, **look, **hover))
    size, ends = len(names), np.cumsum([len(members) for members in groups.values()])
    line = {"color": theme.TEXT, "width": 1}
    for end in ends[:-1] - 0.5:
        figure.add_shape(type="line", x0=-0.5, x1=size - 0.5, y0=end, y1=end, line=line)
        figure.add_shape(type="line", x0=end, x1=end, y0=-0.5, y1=size - 0.5, line=line)
    middles = (ends - np.array([len(members) for members in groups.values()]) / 2 - 0.5).tolist()
    figure.update_xaxes(tickvals=middles, ticktext=list(groups), showgrid=False, range=[-0.5, size - 0.5], ticks="")
    rows = (list(range(size)), names) if size <= _MOST else (middles, list(groups))
    figure.update_yaxes(tickvals=rows[0], ticktext=rows[1], showgrid=False, range=[size - 0.5, -0.5], ticks="")
    height = theme.MARGIN["t"] + theme.MARGIN["b"] + min(max(_CELL * size, 260), 640)
    figure.update_layout(title={"text": title}, height=height)
    return figure
