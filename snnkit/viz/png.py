"""A PNG of a plotly figure, drawn with matplotlib: no browser needed.

It covers what the kit's figures are made of: scatter, bar and heat-map traces on one or more pairs of axes (linear,
logarithmic or of categories), points in space, titles, legends, annotations, lines, rectangles and sliders. Viewers
that run no JavaScript (GitHub, nbconvert) show it in place of the interactive figure; JupyterLab shows it until one
points at it.
"""

from __future__ import annotations

import io
from typing import Any

from . import theme
from .png_extras import add_legend, add_note, add_shape, add_slider, legend_names, legend_width, plain, text_width
from .png_space import add_space, paint_space
from .png_traces import PAINTERS, px

DPI = 100


def png_bytes(figure: Any, width: int | None = None, height: int | None = None) -> bytes:
    """``figure`` (a plotly Figure) as a PNG of ``width`` × ``height`` pixels (700 × 380 where neither says).

    Raises:
        ValueError: it holds a kind of trace that the kit's figures do not use.
    """
    known = (*PAINTERS, "scatter3d")
    for trace in figure.data:
        if trace.type not in known:
            raise ValueError(f"trace type {trace.type!r} has no PNG form; those that have: {', '.join(known)}")

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    wide = width or figure.layout.width or 700
    high = height or figure.layout.height or theme.HEIGHT
    page = Figure(figsize=(wide / DPI, high / DPI), dpi=DPI)
    FigureCanvasAgg(page)
    page.patch.set_alpha(0)
    Page(figure, page, wide, high).paint()
    buffer = io.BytesIO()
    page.savefig(buffer, format="png", transparent=True)
    return buffer.getvalue()


class Page:
    """One figure on its way to paper: its axes by plotly's names, and the categories each axis has met.

    ``left``, ``right``, ``bottom`` and ``top`` bound the drawing area, in fractions of the page from the bottom left.
    """

    def __init__(self, figure: Any, page: Any, wide: float, high: float) -> None:
        self.figure, self.page, self.wide, self.high = figure, page, wide, high
        self.layout = figure.layout
        margin = {side: _first(getattr(self.layout.margin, side), theme.MARGIN[side]) for side in "lrtb"}
        self.traces = [t for t in figure.data if t.visible in (None, True)]
        self.names = legend_names(self)
        self.legend_below = self.layout.legend.orientation == "h"
        right = margin["r"]
        if self.names and not self.legend_below:
            right = max(right, legend_width(self))
        if any(t.type == "heatmap" and t.showscale is not False for t in self.traces):
            right += 75
        self.left, self.bottom = margin["l"] / wide, margin["b"] / high
        self.right, self.top = 1 - min(right, wide * 0.5) / wide, 1 - margin["t"] / high
        self.axes: dict[tuple[str, str], Any] = {}
        self.categories: dict[str, list[Any]] = {}

    def paint(self) -> None:
        bars = [t for t in self.traces if t.type == "bar"]
        stacked = self.layout.barmode in ("stack", "relative")
        floors: dict[tuple[str, str], dict[Any, float]] = {}
        meshes = []
        for index, trace in enumerate(self.traces):
            axes, names = self._axes_of(trace)
            if trace.type == "scatter3d":
                paint_space(axes, trace, index)
                continue
            meet: dict[str, Any] = {name[0]: self.categories.setdefault(name, []) for name in names if name}
            if trace.type == "bar" and stacked:
                meet["floor"] = floors.setdefault(names, {})
            elif trace.type == "bar" and self.layout.barmode in (None, "group"):
                meet["slot"] = next(i for i, bar in enumerate(bars) if bar is trace), len(bars)
            mesh = PAINTERS[trace.type](axes, trace, index, meet)
            if mesh is not None:
                meshes.append((mesh, trace, axes))
        for (x_name, y_name), axes in self.axes.items():
            if y_name:
                self._dress(axes, x_name, y_name)
        self._make_room()
        for mesh, trace, axes in meshes:
            self._colour_bar(mesh, trace, axes)
        for shape in self.layout.shapes:
            add_shape(self, shape)
        for note in self.layout.annotations:
            add_note(self, note)
        if self.layout.title.text:
            text = plain(self.layout.title.text)
            fits = min(1.0, 0.96 * self.wide / text_width(self, text, theme.TITLE_SIZE))
            font = {"fontsize": px(theme.TITLE_SIZE) * fits, "color": theme.TEXT}
            self.page.text(0.012, 1 - 11 / self.high, text, va="top", **font)
        if self.names:
            add_legend(self)
        for slider in self.layout.sliders:
            add_slider(self, slider)

    def axis(self, name: str) -> Any:
        """Plotly's axis that a trace, shape or annotation calls ``name`` ("x", "y2")."""
        return self.layout[f"{name[0]}axis{name[1:]}"]

    def paper(self, x: float, y: float) -> tuple[float, float]:
        """A point of plotly's "paper" (0 to 1 over the drawing area) in fractions of the page."""
        return self.left + x * (self.right - self.left), self.bottom + y * (self.top - self.bottom)

    def _axes_of(self, trace: Any) -> tuple[Any, tuple[str, str]]:
        if trace.type == "scatter3d":
            names = (trace.scene or "scene", "")
            if names not in self.axes:
                self.axes[names] = add_space(self, names[0])
            return self.axes[names], names
        names = (trace.xaxis or "x", trace.yaxis or "y")
        if names not in self.axes:
            axes = self.page.add_axes(self._place(*names), facecolor="none")
            if self.axis(names[1]).overlaying:
                axes.patch.set_visible(False)
                axes.yaxis.tick_right()
                axes.yaxis.set_label_position("right")
            self.axes[names] = axes
        return self.axes[names], names

    def _place(self, x_name: str, y_name: str) -> tuple[float, float, float, float]:
        x_axis, y_axis = self.axis(x_name), self.axis(y_name)
        over = self.axis(y_axis.overlaying) if y_axis.overlaying else y_axis
        return self._box(x_axis.domain or (0, 1), over.domain or (0, 1))

    def _make_room(self) -> None:
        """Move the left edge to the right where labels of an axis would leave the page, as plotly's automargin does."""
        renderer = self.page.canvas.get_renderer()
        flat = {names: axes for names, axes in self.axes.items() if names[1]}
        boxes = [axes.yaxis.get_tightbbox(renderer) for axes in flat.values()]
        beyond = max((4 - box.x0 for box in boxes if box is not None), default=0)
        if beyond > 0:
            self.left += beyond / self.wide
            for names, axes in flat.items():
                axes.set_position(self._place(*names))

    def _box(self, x: Any, y: Any) -> tuple[float, float, float, float]:
        (x0, y0), (x1, y1) = self.paper(x[0], y[0]), self.paper(x[1], y[1])
        return x0, y0, x1 - x0, y1 - y0

    def _dress(self, axes: Any, x_name: str, y_name: str) -> None:
        for name, side in ((x_name, axes.xaxis), (y_name, axes.yaxis)):
            spec = self.axis(name)
            letter = name[0]
            if spec.type == "log":
                (axes.set_xscale if letter == "x" else axes.set_yscale)("log")
            self._limits(axes, spec, letter)
            if spec.title.text:
                side.set_label_text(plain(spec.title.text), fontsize=px(theme.FONT_SIZE), color=theme.TEXT)
            self._ticks(side, spec, self.categories.get(name, []))
            side.set_tick_params(which="both", colors=theme.TEXT, labelcolor=theme.TEXT, labelsize=px(12), length=3)
            if spec.showgrid is not False and not (letter == "y" and self.axis(y_name).overlaying):
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
        from matplotlib.ticker import MaxNLocator, NullLocator

        side.set_minor_locator(NullLocator())
        if spec.tickvals is not None:
            texts = spec.ticktext if spec.ticktext is not None else [f"{v:g}" for v in spec.tickvals]
            low, high = sorted(side.get_view_interval())
            pairs = zip(spec.tickvals, texts, strict=False)
            shown = {at: plain(str(text)) for at, text in pairs if low <= at <= high}
            side.set_ticks(list(shown), list(shown.values()))
            side.set_minor_locator(NullLocator())
        elif categories:
            side.set_ticks(range(len(categories)), [str(c) for c in categories])
        elif spec.type != "log":
            side.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10]))  # as plotly steps: never by 2.5
        if spec.showticklabels is False:
            side.set_tick_params(labelbottom=False, labelleft=False)

    def _colour_bar(self, mesh: Any, trace: Any, axes: Any) -> None:
        box = axes.get_position()
        place = self.page.add_axes((box.x1 + 0.02, box.y0, 0.018, box.height))
        bar = self.page.colorbar(mesh, cax=place)
        bar.outline.set_visible(False)
        place.tick_params(colors=theme.TEXT, labelsize=px(11), length=2)
        if trace.colorbar.title.text:
            place.set_title(plain(trace.colorbar.title.text), fontsize=px(12), color=theme.TEXT, loc="left")


def _first(value: Any, otherwise: float) -> float:
    return otherwise if value is None else float(value)
