"""A PNG of a plotly figure, drawn with matplotlib: no browser needed.

It covers what the kit's figures are made of: scatter, bar and heat-map traces on one or more pairs of axes (linear,
logarithmic or of categories), titles, legends, annotations, lines and rectangles. Viewers that run no JavaScript
(GitHub, nbconvert) show it in place of the interactive figure.
"""

from __future__ import annotations

import html
import io
import re
from typing import Any

from . import theme
from .png_traces import PAINTERS, positions, px, rgba

DPI = 100
_ANCHORS = {"left": "left", "right": "right", "center": "center", "top": "top", "bottom": "bottom", "middle": "center"}


def png_bytes(figure: Any, width: int | None = None, height: int | None = None) -> bytes:
    """``figure`` (a plotly Figure) as a PNG of ``width`` × ``height`` pixels (700 × 380 where neither says).

    Raises:
        ValueError: it holds a kind of trace that the kit's figures do not use.
    """
    for trace in figure.data:
        if trace.type not in PAINTERS:
            raise ValueError(f"trace type {trace.type!r} has no PNG form; those that have: {', '.join(PAINTERS)}")

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    wide = width or figure.layout.width or 700
    high = height or figure.layout.height or 380
    page = Figure(figsize=(wide / DPI, high / DPI), dpi=DPI)
    FigureCanvasAgg(page)
    page.patch.set_alpha(0)
    _Page(figure, page, wide, high).paint()
    buffer = io.BytesIO()
    page.savefig(buffer, format="png", transparent=True)
    return buffer.getvalue()


class _Page:
    """One figure on its way to paper: its axes by plotly's names, and the categories each axis has met."""

    def __init__(self, figure: Any, page: Any, wide: float, high: float) -> None:
        self.figure, self.page = figure, page
        self.layout = figure.layout
        margin = {side: _first(getattr(self.layout.margin, side), theme.MARGIN[side]) for side in "lrtb"}
        shown = [t for t in figure.data if t.visible in (None, True)]
        self.traces = shown
        names = {str(t.name) for t in shown if t.name and t.showlegend is not False}
        default = len(names) > 1 or any(t.showlegend for t in shown if t.name)
        self.legend = bool(names) and self.layout.showlegend is not False and default
        bar = any(t.type == "heatmap" and t.showscale is not False for t in shown)
        right = margin["r"]
        self.legend_below = self.layout.legend.orientation == "h"
        if self.legend and not self.legend_below:
            right += 50 + 7.2 * max(len(_plain(name)) for name in names)
        if bar:
            right += 75
        # The drawing area in fractions of the page, from the bottom left.
        self.left, self.bottom = margin["l"] / wide, margin["b"] / high
        self.right, self.top = 1 - min(right, wide * 0.45) / wide, 1 - margin["t"] / high
        self.axes: dict[tuple[str, str], Any] = {}
        self.categories: dict[str, list[Any]] = {}

    def paint(self) -> None:
        bars = [t for t in self.traces if t.type == "bar" and self.layout.barmode in (None, "group")]
        for index, trace in enumerate(self.traces):
            axes, names = self._axes_of(trace)
            meet = {"x": self.categories.setdefault(names[0], []), "y": self.categories.setdefault(names[1], [])}
            if trace in bars:
                meet["slot"] = [bars.index(trace), len(bars)]
            mesh = PAINTERS[trace.type](axes, trace, index, meet)
            if mesh is not None:
                self._colour_bar(mesh, trace, axes)
        for (x_name, y_name), axes in self.axes.items():
            if not x_name.startswith("scene"):
                self._dress(axes, x_name, y_name)
        for shape in self.layout.shapes:
            self._shape(shape)
        for note in self.layout.annotations:
            self._note(note)
        if self.layout.title.text:
            font = {"fontsize": px(theme.TITLE_SIZE), "color": theme.TEXT}
            self.page.text(0.012, 1 - 0.26 * (1 - self.top), _plain(self.layout.title.text), va="center", **font)
        if self.legend:
            self._legend()

    def _axes_of(self, trace: Any) -> tuple[Any, tuple[str, str]]:
        if trace.type == "scatter3d":
            names = (trace.scene or "scene", "")
            if names not in self.axes:
                box = self._box((0, 1), (0, 1))
                self.axes[names] = self.page.add_axes(box, projection="3d", facecolor="none")
                self._dress_scene(self.axes[names], getattr(self.layout, names[0]))
            return self.axes[names], names
        names = (trace.xaxis or "x", trace.yaxis or "y")
        if names not in self.axes:
            x_axis, y_axis = self._axis(names[0]), self._axis(names[1])
            over = self._axis(y_axis.overlaying) if y_axis.overlaying else y_axis
            box = self._box(x_axis.domain or (0, 1), over.domain or (0, 1))
            axes = self.page.add_axes(box, facecolor="none")
            if y_axis.overlaying:
                axes.patch.set_visible(False)
                axes.yaxis.tick_right()
                axes.yaxis.set_label_position("right")
            self.axes[names] = axes
        return self.axes[names], names

    def _axis(self, name: str) -> Any:
        return self.layout[f"{name[0]}axis{name[1:]}"]

    def _box(self, x: Any, y: Any) -> tuple[float, float, float, float]:
        (x0, y0), (x1, y1) = self._paper(x[0], y[0]), self._paper(x[1], y[1])
        return x0, y0, x1 - x0, y1 - y0

    def _paper(self, x: float, y: float) -> tuple[float, float]:
        return self.left + x * (self.right - self.left), self.bottom + y * (self.top - self.bottom)

    def _dress(self, axes: Any, x_name: str, y_name: str) -> None:
        for name, side in ((x_name, axes.xaxis), (y_name, axes.yaxis)):
            spec = self._axis(name)
            letter = name[0]
            if spec.type == "log":
                (axes.set_xscale if letter == "x" else axes.set_yscale)("log")
            self._limits(axes, spec, letter)
            if spec.title.text:
                side.set_label_text(_plain(spec.title.text), fontsize=px(theme.FONT_SIZE), color=theme.TEXT)
            self._ticks(side, spec, self.categories.get(name, []))
            side.set_tick_params(which="both", colors=theme.TEXT, labelcolor=theme.TEXT, labelsize=px(12), length=3)
            if spec.showgrid is not False and not (letter == "y" and self._axis(y_name).overlaying):
                side.grid(True, color=theme.GRID_HEX, linewidth=0.6)
            if spec.visible is False:
                side.set_visible(False)
                for edge in ("bottom", "top") if letter == "x" else ("left", "right"):
                    axes.spines[edge].set_visible(False)
            if spec.scaleanchor:
                axes.set_aspect("equal", adjustable="box", anchor="C")
        axes.set_axisbelow(True)
        for name, spine in axes.spines.items():
            spine.set_color(theme.AXIS_HEX)
            if name in ("top", "right"):
                spine.set_visible(False)

    def _limits(self, axes: Any, spec: Any, letter: str) -> None:
        get, put = (axes.get_xlim, axes.set_xlim) if letter == "x" else (axes.get_ylim, axes.set_ylim)
        if spec.range is not None:
            low, high = (10.0**v if spec.type == "log" else v for v in spec.range)
            put(low, high)
            return
        low, high = get()
        if spec.rangemode == "tozero" and spec.type != "log":
            low, high = min(low, 0.0), max(high, 0.0)
            low = 0.0 if low > -0.06 * high else low
        put((high, low) if spec.autorange == "reversed" else (low, high))

    def _ticks(self, side: Any, spec: Any, categories: list[Any]) -> None:
        if spec.tickvals is not None:
            texts = spec.ticktext if spec.ticktext is not None else [f"{v:g}" for v in spec.tickvals]
            side.set_ticks(list(spec.tickvals), [_plain(str(t)) for t in texts])
            side.set_ticks([], minor=True)
        elif categories:
            side.set_ticks(range(len(categories)), [str(c) for c in categories])
        if spec.showticklabels is False or (
            spec.matches and spec.showticklabels is None and spec.matches != spec.anchor
        ):
            side.set_tick_params(
                labelbottom=spec.showticklabels is not False, labelleft=spec.showticklabels is not False
            )

    def _colour_bar(self, mesh: Any, trace: Any, axes: Any) -> None:
        box = axes.get_position()
        place = self.page.add_axes((box.x1 + 0.02, box.y0, 0.018, box.height))
        bar = self.page.colorbar(mesh, cax=place)
        bar.outline.set_visible(False)
        place.tick_params(colors=theme.TEXT, labelsize=px(11), length=2)
        if trace.colorbar.title.text:
            place.set_title(_plain(trace.colorbar.title.text), fontsize=px(12), color=theme.TEXT, loc="left")

    def _dress_scene(self, axes: Any, scene: Any) -> None:
        for letter in "xyz":
            title = getattr(scene, f"{letter}axis").title.text
            getattr(axes, f"set_{letter}label")(_plain(title or letter), fontsize=px(12), color=theme.TEXT)
            axes.tick_params(axis=letter, colors=theme.TEXT, labelsize=px(10))
            getattr(axes, f"{letter}axis").set_pane_color((0.5, 0.5, 0.5, 0.06))

    def _point(self, item: Any, x: Any, y: Any) -> tuple[float, float, Any]:
        """A point of a shape or annotation in page fractions or data units, and the transform that fits."""
        x_ref, y_ref = item.xref or "x", item.yref or "y"
        data = [name.split()[0] for name in (x_ref, y_ref) if name != "paper"]
        axes = next((a for names, a in self.axes.items() if set(data) <= set(names)), None)
        if axes is None or not data:
            return *self._paper(float(x), float(y)), self.page.transFigure
        from matplotlib.transforms import blended_transform_factory

        def along(ref: str, value: Any, letter: str) -> tuple[float, Any]:
            if ref == "paper":
                return self._paper(float(value), float(value))[letter == "y"], self.page.transFigure
            if ref.endswith(" domain"):
                return float(value), axes.transAxes
            at = float(positions([value], self.categories.setdefault(ref, []))[0])
            return (10.0**at if self._axis(ref).type == "log" and hasattr(item, "showarrow") else at), axes.transData

        (at_x, x_transform), (at_y, y_transform) = along(x_ref, x, "x"), along(y_ref, y, "y")
        return at_x, at_y, blended_transform_factory(x_transform, y_transform)

    def _shape(self, shape: Any) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Rectangle

        if shape.type not in ("line", "rect"):
            return
        x0, y0, transform = self._point(shape, shape.x0, shape.y0)
        x1, y1, _ = self._point(shape, shape.x1, shape.y1)
        ink = rgba(shape.line.color or theme.TEXT, _first(shape.opacity, 1.0))
        width = px(_first(shape.line.width, 2))
        dashes = {"dash": "--", "dot": ":", "dashdot": "-."}.get(shape.line.dash or "", "-")
        style = {"transform": transform, "linestyle": dashes, "linewidth": width}
        if shape.type == "line":
            self.page.add_artist(Line2D([x0, x1], [y0, y1], color=ink, **style))
        else:
            fill = rgba(shape.fillcolor or theme.CLEAR, _first(shape.opacity, 1.0))
            self.page.add_artist(Rectangle((x0, y0), x1 - x0, y1 - y0, edgecolor=ink, facecolor=fill, **style))

    def _note(self, note: Any) -> None:
        x, y, transform = self._point(note, note.x, note.y)
        colour, size = note.font.color or theme.TEXT, note.font.size or theme.FONT_SIZE
        style: dict[str, Any] = {"color": rgba(colour), "fontsize": px(size)}
        text = _plain(note.text or "")
        if note.showarrow is False:
            across = _ANCHORS.get(note.xanchor or "center", "center")
            up = _ANCHORS.get(note.yanchor or "middle", "center")
            self.page.text(x, y, text, ha=across, va=up, transform=transform, **style)
            return
        shift = (px(_first(note.ax, 0)), -px(_first(note.ay, -30)))
        arrow = {"arrowstyle": "-|>", "color": rgba(note.arrowcolor or colour), "linewidth": 0.8}
        axes = next(iter(self.axes.values()))
        where = {"xycoords": transform, "textcoords": "offset points", "ha": "center", "va": "center"}
        axes.annotate(text, (x, y), shift, arrowprops=arrow, annotation_clip=False, **where, **style)

    def _legend(self) -> None:
        handles: dict[str, Any] = {}
        for axes in self.axes.values():
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                if not label.startswith("_"):
                    handles.setdefault(_plain(label), handle)
        if handles:
            place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (self.right + 0.012, self.top + 0.01)}
            if self.legend_below:
                place = {"loc": "lower left", "bbox_to_anchor": (self.left, 0.012), "ncols": min(len(handles), 4)}
            look = {"frameon": False, "labelcolor": theme.TEXT, "fontsize": px(12), "handlelength": 2.4}
            self.page.legend(list(handles.values()), list(handles), borderaxespad=0, **place, **look)


def _first(value: Any, otherwise: float) -> float:
    return otherwise if value is None else float(value)


def _plain(text: str) -> str:
    """Plotly's little HTML as text; a "$" is kept as it is, not read as mathematics."""
    text = re.sub(r"<br\s*/?>", "\n", str(text))
    return html.unescape(re.sub(r"<[^>]+>", "", text)).replace("$", r"\$")
