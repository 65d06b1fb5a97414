"""What stands on a PNG page besides axes and traces: legend, slider, shapes and annotations."""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING, Any

from . import theme
from .png_traces import positions, px, rgba

if TYPE_CHECKING:
    from .png import Page

_ANCHORS = {"left": "left", "right": "right", "center": "center", "top": "top", "bottom": "bottom", "middle": "center"}
_HANDLE, _PAD, _GAP = 2.4, 0.8, 12  # a legend's sample line and its distance from the text, in ems of 12 px; in pixels
_EM = 12


def plain(text: str) -> str:
    """Plotly's little HTML as text; a "$" is kept as it is, not read as mathematics."""
    text = re.sub(r"<br\s*/?>", "\n", str(text))
    return html.unescape(re.sub(r"<[^>]+>", "", text)).replace("$", r"\$")


def text_width(page: Page, text: str, size: float = _EM) -> float:
    """How many pixels of the page a line of text takes."""
    from matplotlib.font_manager import FontProperties

    renderer = page.page.canvas.get_renderer()
    font = FontProperties(size=px(size))
    return max(renderer.get_text_width_height_descent(line, font, False)[0] for line in text.split("\n"))


def legend_names(page: Page) -> list[str]:
    """The entries of the legend; none where plotly shows no legend."""
    named = [t for t in page.traces if t.name and t.showlegend is not False]
    named = [t for t in named if t.type != "heatmap" or t.showlegend]
    names = list(dict.fromkeys(plain(t.name) for t in named))
    wanted = page.layout.showlegend
    if wanted is False or not (wanted or len(names) > 1 or any(t.showlegend for t in named)):
        return []
    return names


def legend_width(page: Page) -> float:
    """What a legend beside the plot takes from the page, in pixels."""
    return _GAP + _entry_width(page) + 8


def add_legend(page: Page) -> None:
    handles: dict[str, Any] = {}
    for axes in page.axes.values():
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            if not label.startswith("_"):
                handles.setdefault(plain(label), handle)
    names = [name for name in page.names if name in handles]
    if not names:
        return
    place: dict[str, Any] = {"loc": "upper left", "ncols": 1}
    place["bbox_to_anchor"] = (page.right + _GAP / page.wide, page.top + 0.01)
    if page.legend_below:
        room = (page.right - page.left) * page.wide
        columns = max(1, min(len(names), int((room + 1.5 * _EM) // (_entry_width(page) + 1.5 * _EM))))
        # Matplotlib fills column by column; entries are read row by row.
        rows = -(-len(names) // columns)
        columns = -(-len(names) // rows)
        names = [names[i] for first in range(columns) for i in range(first, len(names), columns)]
        place = {"loc": "lower left", "bbox_to_anchor": (page.left, 8 / page.high), "ncols": columns}
    look = {"frameon": False, "labelcolor": theme.TEXT, "fontsize": px(_EM), "borderaxespad": 0, "borderpad": 0}
    spacing = {"handlelength": _HANDLE, "handletextpad": _PAD, "columnspacing": 1.5}
    page.page.legend([handles[name] for name in names], names, **place, **look, **spacing)


def _entry_width(page: Page) -> float:
    return (_HANDLE + _PAD) * _EM + max(text_width(page, name) for name in page.names)


def add_slider(page: Page, slider: Any) -> None:
    """The slider where plotly draws it: its value, the track, the knob, and as many labels as fit."""
    from matplotlib.lines import Line2D

    steps, active = slider.steps, int(slider.active or 0)
    top = page.bottom - (slider.pad.t or 20) / page.high
    value_at, track, labels = (top - pixels / page.high for pixels in (10, 36, 50))
    value = f"{slider.currentvalue.prefix or ''}{steps[active].label}{slider.currentvalue.suffix or ''}"
    page.page.text(page.left, value_at, plain(value), fontsize=px(14), color=theme.TEXT, va="center")
    # Labels are centred at their places, and the outermost ones must not leave the page.
    widths = (text_width(page, plain(str(step.label)), 11) for step in (steps[0], steps[-1]))
    first, last = (min((wide / 2 + 2) / page.wide, 0.4) for wide in widths)
    ends = [max(page.left, first), min(page.right, 1 - last)]
    width = ends[1] - ends[0]
    places = [ends[0] + width * i / max(len(steps) - 1, 1) for i in range(len(steps))]
    page.page.add_artist(Line2D(ends, [track, track], color=theme.AXIS_HEX, linewidth=px(6), solid_capstyle="round"))
    knob = {"marker": "o", "markersize": px(17), "color": theme.BLUE, "markeredgecolor": "white"}
    page.page.add_artist(Line2D([places[active]], [track], **knob))
    widest = max(text_width(page, plain(str(step.label)), 11) for step in steps) + 10
    every = max(1, -(-int(widest * max(len(steps) - 1, 1)) // int(width * page.wide)))
    for i in range(0, len(steps), every):
        font = {"fontsize": px(11), "color": theme.TEXT, "ha": "center", "va": "top"}
        page.page.text(places[i], labels, plain(str(steps[i].label)), **font)


def add_shape(page: Page, shape: Any) -> None:
    """A line or rectangle; other shapes are left out."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    if shape.type not in ("line", "rect"):
        return
    x0, y0, transform = _point(page, shape, shape.x0, shape.y0)
    x1, y1, _ = _point(page, shape, shape.x1, shape.y1)
    opacity = 1.0 if shape.opacity is None else shape.opacity
    ink = rgba(shape.line.color or theme.TEXT, opacity)
    width = px(2 if shape.line.width is None else shape.line.width)
    dashes = {"dash": "--", "dot": ":", "dashdot": "-."}.get(shape.line.dash or "", "-")
    style = {"transform": transform, "linestyle": dashes, "linewidth": width}
    if shape.type == "line":
        page.page.add_artist(Line2D([x0, x1], [y0, y1], color=ink, **style))
    else:
        fill = rgba(shape.fillcolor or theme.CLEAR, opacity)
        page.page.add_artist(Rectangle((x0, y0), x1 - x0, y1 - y0, edgecolor=ink, facecolor=fill, **style))


def add_note(page: Page, note: Any) -> None:
    """An annotation: text, and an arrow where it has one."""
    from matplotlib.transforms import ScaledTranslation

    x, y, transform = _point(page, note, note.x, note.y)
    shift = px(note.xshift or 0) / 72, px(note.yshift or 0) / 72
    transform = transform + ScaledTranslation(*shift, page.page.dpi_scale_trans)
    colour, size = note.font.color or theme.TEXT, note.font.size or theme.FONT_SIZE
    style: dict[str, Any] = {"color": rgba(colour), "fontsize": px(size)}
    text = plain(note.text or "")
    if note.showarrow is False:
        across = _ANCHORS.get(note.xanchor or "center", "center")
        up = _ANCHORS.get(note.yanchor or "middle", "center")
        page.page.text(x, y, text, ha=across, va=up, transform=transform, **style)
        return
    tail = px(note.ax or 0), -px(-30 if note.ay is None else note.ay)
    arrow = {"arrowstyle": "-|>", "color": rgba(note.arrowcolor or colour), "linewidth": 0.8}
    axes = next(iter(page.axes.values()))
    where = {"xycoords": transform, "textcoords": "offset points", "ha": "center", "va": "center"}
    axes.annotate(text, (x, y), tail, arrowprops=arrow, annotation_clip=False, **where, **style)


def _point(page: Page, item: Any, x: Any, y: Any) -> tuple[float, float, Any]:
    """A point of a shape or annotation in page fractions or data units, and the transform that fits."""
    x_ref, y_ref = item.xref or "x", item.yref or "y"
    data = [name.split()[0] for name in (x_ref, y_ref) if name != "paper"]
    axes = next((a for names, a in page.axes.items() if set(data) <= set(names)), None)
    if axes is None or not data:
        return *page.paper(float(x), float(y)), page.page.transFigure
    from matplotlib.transforms import blended_transform_factory

    def along(ref: str, value: Any, letter: str) -> tuple[float, Any]:
        if ref == "paper":
            return page.paper(float(value), float(value))[letter == "y"], page.page.transFigure
        if ref.endswith(" domain"):
            return float(value), axes.transAxes
        at = float(positions([value], page.categories.setdefault(ref, []))[0])
        # Plotly gives annotations on a logarithmic axis as exponents, but shapes in data units.
        exponent = page.axis(ref).type == "log" and hasattr(item, "showarrow")
        return (10.0**at if exponent else at), axes.transData

    (at_x, x_transform), (at_y, y_transform) = along(x_ref, x, "x"), along(y_ref, y, "y")
    return at_x, at_y, blended_transform_factory(x_transform, y_transform)
