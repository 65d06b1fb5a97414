"""Figures in space on a PNG page: one scene of points and lines, seen as plotly's camera sees it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from . import theme
from .png_extras import plain
from .png_traces import label, marker, marker_colours, marker_size, positions, px, rgba

if TYPE_CHECKING:
    from .png import Page

_EYE = (1.25, 1.25, 1.25)  # where plotly looks from if nobody says


def add_space(page: Page, name: str) -> Any:
    """The axes of the scene that plotly calls ``name``, in its domain of the page's drawing area."""
    from matplotlib.ticker import MaxNLocator

    scene: Any = page.layout[name]
    across, up = scene.domain.x or (0, 1), scene.domain.y or (0, 1)
    (x0, y0), (x1, y1) = page.paper(across[0], up[0]), page.paper(across[1], up[1])
    axes: Any = page.page.add_axes((x0, y0, x1 - x0, y1 - y0), projection="3d", facecolor="none")
    eye = [_first(getattr(scene.camera.eye, letter), way) for letter, way in zip("xyz", _EYE, strict=True)]
    flat = math.hypot(eye[0], eye[1])
    axes.view_init(elev=math.degrees(math.atan2(eye[2], flat)), azim=math.degrees(math.atan2(eye[1], eye[0])))
    ratio = [getattr(scene.aspectratio, letter) or 1.0 for letter in "xyz"]
    axes.set_box_aspect(ratio, zoom=1.0)
    for letter in "xyz":
        spec, side = getattr(scene, f"{letter}axis"), getattr(axes, f"{letter}axis")
        title = plain(spec.title.text or letter)
        getattr(axes, f"set_{letter}label")(
            title, fontsize=px(12), color=theme.TEXT, labelpad=px(12 * ratio["xyz".index(letter)])
        )
        if spec.nticks:
            side.set_major_locator(MaxNLocator(spec.nticks, steps=[1, 2, 5, 10]))
        if spec.range is not None:
            getattr(axes, f"set_{letter}lim")(*spec.range)
        axes.tick_params(axis=letter, colors=theme.TEXT, labelcolor=theme.TEXT, labelsize=px(11))
        side.set_pane_color((0.5, 0.5, 0.5, 0.0))
        side.line.set_color(theme.AXIS_HEX)
        side._axinfo["grid"].update(color=theme.GRID_HEX, linewidth=0.6)
    return axes


def paint_space(axes: Any, trace: Any, index: int) -> None:
    """One scatter3d trace: its marks, its line, or both."""
    places = [positions(values, []) for values in (trace.x, trace.y, trace.z)]
    fallback = theme.colour(index)
    if trace.marker.color is not None and not isinstance(trace.marker.color, str):
        colours, cmap = marker_colours(trace, 1.0)
    else:
        colours, cmap = [rgba(trace.marker.color or fallback)], None
    mode = trace.mode or "lines+markers"
    if "markers" in mode:
        # Plotly's marks in space are about half as wide as those of the same size in the plane.
        hollow = str(trace.marker.symbol).endswith("-open")
        look: dict[str, Any] = {"s": (1.3 * px(marker_size(trace))) ** 2, "marker": marker(trace), "depthshade": False}
        ink = {"edgecolors": colours, "facecolors": "none"} if hollow else {"c": colours, "cmap": cmap}
        axes.scatter(*places, label=label(trace), linewidths=0.8 if hollow else 0, **look, **ink)
    if "lines" in mode:
        axes.plot(*places, color=rgba(trace.line.color or fallback), linewidth=px(2))


def _first(value: Any, otherwise: float) -> float:
    return otherwise if value is None else float(value)
