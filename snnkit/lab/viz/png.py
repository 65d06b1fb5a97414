"""A PNG of a plotly figure, drawn with matplotlib: no browser needed.

It covers all parts of the kit's figures: scatter, bar and heat-map traces on one or more pairs of axes (linear,
logarithmic or of categories), points in space, titles, legends, annotations, lines and rectangles. Viewers that run no
JavaScript (GitHub, nbconvert) show it instead of the interactive figure; on Colab it is what explorers show.
"""

from __future__ import annotations

import io
import math
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from snnkit import checks
from snnkit.lab.viz import theme
from snnkit.lab.viz.alt import plain

if TYPE_CHECKING:
    from plotly.basedatatypes import BaseFigure

_DASHES = {"dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (10, 4)), "longdashdot": (0, (10, 3, 2, 3))}
_MARKERS = {"square": "s", "diamond": "D", "triangle-up": "^", "triangle-down": "v", "cross": "P", "x": "X"}
_MARKERS |= {"star": "*", "line-ns": "|"}
_DOT = re.compile(r'<span style="color:([^"]+)">●</span>')  # before the name of a line, at its end
_LETTER = 7.2  # pixels of a letter in the legend


@checks.arguments
def png_bytes(figure: BaseFigure, scale: float = 1.0, *, dark: bool = False) -> bytes:
    """``figure`` as a PNG of its own size, or of 700 × 380 pixels, on white paper: viewers do not say if they are dark.

    Args:
        scale: the picture has so many times the pixels each way, above 0 to 4.
        dark: for dark pages: light text, and no paper, as these differ in how dark they are.

    Raises:
        ValueError: it has a kind of trace that the kit's figures do not use.
    """
    traces: Any = figure.data  # annotated wrongly by plotly
    for trace in traces:
        if trace.type not in _PAINTERS:
            raise ValueError(f"trace type {trace.type!r} has no PNG form; those that have: {', '.join(_PAINTERS)}")
    buffer = io.BytesIO()
    checks.number("scale", scale, above=0, at_most=4)
    _Page(figure, dark).paint().savefig(buffer, format="png", dpi=100 * scale)
    return buffer.getvalue()


def rgba(value: Any, opacity: float = 1.0) -> tuple[float, float, float, float]:
    """A plotly colour ("#rrggbb", "rgb(…)", "rgba(…)", a CSS name) as matplotlib's four numbers."""
    from matplotlib.colors import to_rgba

    numbers = re.fullmatch(r"rgba?\(([^)]*)\)", str(value).replace(" ", ""))
    if numbers:
        red, green, blue, *alpha = (float(part) for part in numbers.group(1).split(","))
        return red / 255, green / 255, blue / 255, (alpha[0] if alpha else 1.0) * opacity
    red, green, blue, alpha = to_rgba(value)
    return red, green, blue, alpha * opacity


class _Page:
    """One figure on its way to paper: its axes by plotly's names, and the categories of each axis so far.

    ``left``, ``right``, ``bottom`` and ``top`` bound the drawing area, in fractions of the page from the bottom left.
    ``ink`` is the colour of text.
    """

    def __init__(self, figure: Any, dark: bool = False) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.layout = layout = figure.layout
        self.wide, self.high = layout.width or 700, layout.height or theme.HEIGHT
        self.ink, paper = (theme.DARK_TEXT, "none") if dark else (theme.INK_TEXT, theme.WHITE)
        self.sheet: Any = Figure(figsize=(self.wide / 100, self.high / 100), dpi=100, facecolor=paper)
        FigureCanvasAgg(self.sheet)
        self.traces = [trace for trace in figure.data if trace.visible in (None, True)]
        self.axes: dict[tuple[str, str], Any] = {}
        self.categories: dict[str, list[Any]] = {}
        self.floors: dict[tuple[Any, ...], float] = {}  # where the next bar of a stack begins
        self.names = self._legend_names()
        self.entry = 54 + _LETTER * max(map(len, self.names), default=0)
        margin = {side: _first(layout.margin[side], theme.MARGIN[side]) for side in "lrtb"}
        if self.names and layout.legend.orientation != "h":
            margin["r"] = max(margin["r"], self.entry)
        self.left, self.bottom = margin["l"] / self.wide, margin["b"] / self.high
        self.right, self.top = 1 - min(margin["r"] / self.wide, 0.5), 1 - margin["t"] / self.high

    def _legend_names(self) -> list[str]:
        named = [t for t in self.traces if t.name and t.showlegend is not False and t.type != "heatmap"]
        names = list(dict.fromkeys(_text(trace.name) for trace in named))
        wanted = self.layout.showlegend is not False and (len(names) > 1 or any(t.showlegend for t in named))
        return names if wanted or self.layout.showlegend else []

    def paint(self) -> Any:
        """Everything; returns matplotlib's figure."""
        for index, trace in enumerate(self.traces):
            _PAINTERS[trace.type](self, trace, theme.colour(index))
        flat = {names: axes for names, axes in self.axes.items() if names[1]}
        limits = self._limits(flat)
        for names, axes in flat.items():
            self._dress(axes, *names, limits)
        # The left edge moves to the right where labels would leave the page, as with plotly's automargin.
        boxes = [axes.yaxis.get_tightbbox(self.sheet.canvas.get_renderer()) for axes in flat.values()]
        self.left += max(0, *(4 - box.x0 for box in boxes if box is not None), 0) / self.wide
        for names, axes in flat.items():
            axes.set_position(self._place(*names))
        for shape in self.layout.shapes:
            self._add_shape(shape)
        for note in self.layout.annotations:
            self._add_note(note)
        if self.layout.title.text:
            title = _text(self.layout.title.text)
            longest = max(map(len, title.split("\n"))) * theme.TITLE_SIZE * 0.6
            fits = min(1.0, 0.96 * self.wide / longest)
            self._write(0.012, 1 - 11 / self.high, title, theme.TITLE_SIZE * fits, va="top")
        legend = self._add_legend() if self.names else None
        for slider in self.layout.sliders:  # its value; a slider that can't be moved is no help
            now = slider.steps[int(slider.active or 0)].label
            at = 30 / self.high
            if legend is not None and self.layout.legend.orientation == "h":  # which is below the plot, too
                at = legend.get_window_extent(self.sheet.canvas.get_renderer()).y1 / self.high + 8 / self.high
            self._write(self.left, at, _text(f"{slider.currentvalue.prefix or ''}{now}"), 14)
        return self.sheet

    def axes_of(self, trace: Any) -> tuple[Any, str, str]:
        """Those that a trace is drawn on, and plotly's names of both."""
        names = trace.xaxis or "x", trace.yaxis or "y"
        if names not in self.axes:
            self.axes[names] = self.sheet.add_axes(self._place(*names), facecolor="none")
        return self.axes[names], *names

    def positions(self, values: Any, name: str = "") -> np.ndarray:
        """Coordinates as numbers: categories (texts) become their places along the axis, new ones go to its end."""
        array = np.asarray(values if values is not None else [])
        if array.dtype.kind in "biuf":
            return array.astype(float)
        if all(value is None or isinstance(value, (int, float)) for value in array.tolist()):
            return np.array([math.nan if value is None else float(value) for value in array.tolist()])
        known = self.categories.setdefault(name, [])
        known += [value for value in dict.fromkeys(array.tolist()) if value not in known]
        return np.array([known.index(value) for value in array.tolist()], dtype=float)

    def _axis(self, name: str) -> Any:
        """Plotly's axis that a trace, shape or annotation calls ``name`` ("x", "y2")."""
        return self.layout[f"{name[0]}axis{name[1:]}"]

    def _paper(self, x: float, y: float) -> tuple[float, float]:
        """A point of plotly's "paper" (0 to 1 over the drawing area) in fractions of the page."""
        return self.left + x * (self.right - self.left), self.bottom + y * (self.top - self.bottom)

    def box(self, across: Any, up: Any) -> tuple[float, float, float, float]:
        """Left, bottom, width and height of a panel with these domains."""
        (x0, y0), (x1, y1) = self._paper(across[0], up[0]), self._paper(across[1], up[1])
        return x0, y0, x1 - x0, y1 - y0

    def _place(self, x_name: str, y_name: str) -> tuple[float, float, float, float]:
        return self.box(self._axis(x_name).domain or (0, 1), self._axis(y_name).domain or (0, 1))

    def inked(self, colour: str | None) -> str:
        """The colour of a text, whose grey can have more contrast than on a page that may be light or dark."""
        return self.ink if colour in (None, theme.TEXT) else colour

    def _write(self, x: float, y: float, text: str, size: float, **look: Any) -> Any:
        return self.sheet.text(x, y, text, fontsize=_px(size), **{"color": self.ink} | look)

    def _limits(self, flat: dict[tuple[str, str], Any]) -> dict[str, tuple[float, float]]:
        """Sets the scales; where the data of each axis begin and end, those of an axis that it ``matches`` included."""
        ends_of: dict[str, list[float]] = {}
        for names, axes in flat.items():
            for name in names:
                if self._axis(name).type == "log":
                    getattr(axes, f"set_{name[0]}scale")("log")
                ends_of.setdefault(self._axis(name).matches or name, []).extend(getattr(axes, f"get_{name[0]}lim")())
        return {name: (min(ends), max(ends)) for name, ends in ends_of.items()}

    def _dress(self, axes: Any, x_name: str, y_name: str, limits: dict[str, tuple[float, float]]) -> None:
        """Limits, title and ticks of both axes."""
        for name, side in ((x_name, axes.xaxis), (y_name, axes.yaxis)):
            spec, letter = self._axis(name), name[0]
            low, high = limits[spec.matches or name]
            if spec.range is not None:
                low, high = (10.0**v if spec.type == "log" else v for v in spec.range)
            elif spec.rangemode == "tozero" and spec.type != "log":
                low, high = min(low, 0.0) if low < -0.06 * high else 0.0, max(high, 0.0)
            if spec.range is None and spec.autorange == "reversed":
                low, high = high, low
            getattr(axes, f"set_{letter}lim")(low, high)
            side.set_label_text(_text(spec.title.text), fontsize=_px(theme.FONT_SIZE), color=self.ink)
            self._add_ticks(side, spec, self.categories.get(name, []))
            side.set_tick_params(which="both", colors=self.ink, labelcolor=self.ink, labelsize=_px(12), length=3)
            if spec.showgrid is not False:
                side.grid(True, color=theme.GRID_HEX, linewidth=0.6)
            if spec.visible is False:
                side.set_visible(False)
                axes.spines[["bottom", "top"] if letter == "x" else ["left", "right"]].set_visible(False)
            if spec.scaleanchor:
                axes.set_aspect("equal", adjustable="box", anchor="C")
        axes.set_axisbelow(True)
        axes.spines[:].set_color(theme.AXIS_HEX)
        axes.spines[["top", "right"]].set_visible(False)

    def _add_ticks(self, side: Any, spec: Any, categories: list[Any]) -> None:
        from matplotlib.ticker import MaxNLocator, NullLocator

        if spec.tickvals is not None:
            texts = spec.ticktext if spec.ticktext is not None else [f"{v:g}" for v in spec.tickvals]
            low, high = sorted(side.get_view_interval())
            shown = {at: _text(text) for at, text in zip(spec.tickvals, texts, strict=False) if low <= at <= high}
            side.set_ticks(list(shown), list(shown.values()))
        elif categories:
            side.set_ticks(range(len(categories)), [_text(c) for c in categories])
        elif spec.type == "log" and spec.exponentformat == "none":
            side.set_major_formatter(lambda at, _: f"{at:g}")
        elif spec.type != "log":
            side.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10]))  # as plotly steps: never by 2.5
        side.set_minor_locator(NullLocator())
        if spec.showticklabels is False:
            side.set_tick_params(labelbottom=False, labelleft=False)

    def _add_legend(self) -> Any:
        handles: dict[str, Any] = {}
        for axes in self.axes.values():
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        names = [name for name in self.names if name in handles]
        place = {"loc": "upper left", "bbox_to_anchor": (self.right + 12 / self.wide, self.top)}
        if self.layout.legend.orientation == "h":
            columns = max(1, min(len(names), int((self.right - self.left) * self.wide // self.entry)))
            place = {"loc": "lower left", "bbox_to_anchor": (self.left, 8 / self.high), "ncols": columns}
        look = {"frameon": False, "labelcolor": self.ink, "fontsize": _px(12), "borderaxespad": 0, "borderpad": 0}
        if self.layout.legend.itemsizing == "constant":  # however small the marks are in the plot
            look["markerscale"] = _px(6) / max(1.0, min(handles[name].get_markersize() for name in names))
        return self.sheet.legend([handles[name] for name in names], names, **place, **look)

    def _add_shape(self, shape: Any) -> None:
        """A line or rectangle; other shapes are left out."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Rectangle

        x0, y0, transform = self._point(shape, shape.x0, shape.y0)
        x1, y1, _ = self._point(shape, shape.x1, shape.y1)
        opacity, width = _first(shape.opacity, 1.0), _px(_first(shape.line.width, 2))
        look = {"transform": transform, "linestyle": _DASHES.get(shape.line.dash, "-"), "linewidth": width}
        look |= {"zorder": -1} if shape.layer == "below" else {}  # axes have 0
        ink = rgba(shape.line.color or theme.TEXT, opacity)
        if shape.type == "line":
            self.sheet.add_artist(Line2D([x0, x1], [y0, y1], color=ink, **look))
        elif shape.type == "rect":
            fill = rgba(shape.fillcolor or theme.CLEAR, opacity)
            self.sheet.add_artist(Rectangle((x0, y0), x1 - x0, y1 - y0, edgecolor=ink, facecolor=fill, **look))

    def _add_note(self, note: Any) -> None:
        """The text of an annotation; arrows are left out."""
        from matplotlib.lines import Line2D
        from matplotlib.transforms import ScaledTranslation

        x, y, transform = self._point(note, note.x, note.y)
        shift = _px(note.xshift or 0) / 72, _px(note.yshift or 0) / 72
        transform = transform + ScaledTranslation(*shift, self.sheet.dpi_scale_trans)
        across = {"left": "left", "right": "right"}.get(note.xanchor, "center")
        up = {"top": "top", "bottom": "bottom"}.get(note.yanchor, "center")
        look = {"color": rgba(self.inked(note.font.color)), "transform": transform, "ha": across, "va": up}
        text = self._write(x, y, _text(note.text), note.font.size or theme.FONT_SIZE, **look)
        if dot := _DOT.match(note.text or ""):  # in the colour of its line: matplotlib has one colour for a text
            box = text.get_window_extent(self.sheet.canvas.get_renderer())
            half = 0.5 * (note.font.size or theme.FONT_SIZE)
            place = self.sheet.transFigure.inverted().transform((box.x0 + 0.8 * half, box.y1 - 1.1 * half))
            look = {"color": rgba(dot[1]), "markersize": _px(1.6 * half), "zorder": 4}
            self.sheet.add_artist(Line2D(*place[:, None], marker="o", **look))

    def _point(self, item: Any, x: Any, y: Any) -> tuple[float, float, Any]:
        """A point of a shape or annotation in page fractions or data units, and the transform that fits."""
        from matplotlib.transforms import blended_transform_factory

        refs = item.xref or "x", item.yref or "y"
        data = {ref.split()[0] for ref in refs if ref != "paper"}
        axes = next((a for names, a in self.axes.items() if data <= set(names)), None)
        if axes is None or not data:
            return *self._paper(float(x), float(y)), self.sheet.transFigure
        places, transforms = [], []
        for ref, value, corner in zip(refs, (x, y), (0, 1), strict=True):
            if ref == "paper":
                places.append(self._paper(float(value), float(value))[corner])
                transforms.append(self.sheet.transFigure)
            elif ref.endswith(" domain"):
                places.append(float(value))
                transforms.append(axes.transAxes)
            else:
                at = float(self.positions([value], ref)[0])
                # Plotly gives annotations on a logarithmic axis as exponents, but shapes in data units.
                places.append(10.0**at if self._axis(ref).type == "log" and hasattr(item, "showarrow") else at)
                transforms.append(axes.transData)
        return places[0], places[1], blended_transform_factory(*transforms)


def _scatter(page: _Page, trace: Any, fallback: str) -> None:
    axes, x_name, y_name = page.axes_of(trace)
    y = page.positions(trace.y, y_name)
    x = np.arange(len(y), dtype=float) if trace.x is None else page.positions(trace.x, x_name)
    opacity = _first(trace.opacity, 1.0)
    mode = trace.mode or ("lines+markers" if len(x) < 20 else "lines")
    colour = trace.line.color or _one_colour(trace, fallback)
    style: dict[str, Any] = {"linestyle": "none", "marker": "", "label": _label(trace)}
    if "lines" in mode:
        style |= {"linestyle": _DASHES.get(trace.line.dash, "-"), "color": rgba(colour, opacity)}
        style |= {
            "linewidth": _px(_first(trace.line.width, 2)),
            "drawstyle": "steps-post" if trace.line.shape == "hv" else "default",
        }
    if "markers" in mode:
        style |= _marks(trace, rgba(_one_colour(trace, colour), opacity * _first(trace.marker.opacity, 1.0)))
    axes.plot(x, y, **style)
    for side, bars in (("yerr", trace.error_y), ("xerr", trace.error_x)):
        if bars.array is not None:
            ends, width = np.asarray([bars.arrayminus, bars.array], dtype=float), _px(_first(bars.thickness, 2))
            look = {"ecolor": rgba(colour, opacity), "elinewidth": width, "capthick": width, "capsize": 2}
            axes.errorbar(x, y, fmt="none", **{side: ends}, **look)
    if trace.fill == "toself":
        axes.fill(x, y, color=rgba(trace.fillcolor or colour, opacity if trace.fillcolor else 0.3), linewidth=0)


def _one_colour(trace: Any, fallback: str) -> str:
    """The colour of all marks; marks with a colour each are drawn in one."""
    return trace.marker.color if isinstance(trace.marker.color, str) else fallback


def _marks(trace: Any, ink: Any) -> dict[str, Any]:
    """The markers of a line; hollow ones have the name of their shape."""
    symbol = str(trace.marker.symbol or "circle")
    shape = _MARKERS.get(symbol.removesuffix("-open"), "o")
    hollow = symbol.endswith("-open") and shape != "|"
    size = _px(float(np.mean(_first(trace.marker.size, 6)))) * (1.4 if shape == "|" else 1.0)
    edge = {"markeredgecolor": ink, "markeredgewidth": 1.1 if shape == "|" or hollow else 0.0}
    return {"marker": shape, "markersize": size, "markerfacecolor": "none" if hollow else ink, "color": ink} | edge


def _space(page: _Page, trace: Any, fallback: str) -> None:
    """The marks of a scatter3d trace, seen from plotly's camera."""
    from matplotlib import rc_context
    from matplotlib.ticker import MaxNLocator

    names, scene = (trace.scene or "scene", ""), page.layout[trace.scene or "scene"]
    if names not in page.axes:
        place = page.box(scene.domain.x or (0, 1), scene.domain.y or (0, 1))
        with rc_context({"grid.color": theme.GRID_HEX}):  # read only when the axes are made
            page.axes[names] = axes = page.sheet.add_axes(place, projection="3d", facecolor="none")
        x, y, z = (_first(scene.camera.eye[letter], 1.25) for letter in "xyz")
        axes.view_init(elev=math.degrees(math.atan2(z, math.hypot(x, y))), azim=math.degrees(math.atan2(y, x)))
        axes.set_box_aspect([scene.aspectratio[letter] or 1.0 for letter in "xyz"])
        for letter in "xyz":
            spec = scene[f"{letter}axis"]
            getattr(axes, f"set_{letter}label")(_text(spec.title.text), fontsize=_px(12), color=page.ink)
            getattr(axes, f"set_{letter}lim")(*(spec.range or (None, None)))
            getattr(axes, f"{letter}axis").set_pane_color(theme.CLEAR_HEX)  # as the theme has it: without walls
            if spec.nticks:
                getattr(axes, f"{letter}axis").set_major_locator(MaxNLocator(spec.nticks - 1, integer=True))
            axes.tick_params(axis=letter, colors=page.ink, labelsize=_px(11))
    marks = _marks(trace, rgba(_one_colour(trace, fallback)))
    page.axes[names].plot(trace.x, trace.y, trace.z, linestyle="none", label=_label(trace), **marks)


def _bar(page: _Page, trace: Any, fallback: str) -> None:
    axes, x_name, y_name = page.axes_of(trace)
    x, y = page.positions(trace.x, x_name), page.positions(trace.y, y_name)
    colours = trace.marker.color if trace.marker.color is not None else fallback
    ink = rgba(colours) if isinstance(colours, str) else [rgba(colour) for colour in colours]
    look: dict[str, Any] = {"color": ink, "label": _label(trace), "linewidth": 0}
    if shape := trace.marker.pattern.shape:
        look |= {"hatch": 3 * shape, "edgecolor": theme.WHITE}
    if not len(x):  # nothing to see; but without any bar the legend would not know the colour
        axes.bar(math.nan, math.nan, **look)
        return
    across = trace.orientation == "h"
    at, length = (y, x) if across else (x, y)
    base: Any = page.positions(trace.base) if trace.base is not None else np.zeros(len(at))
    width = 0.8 if trace.width is None else np.asarray(trace.width, dtype=float)
    if page.layout.barmode in ("stack", "relative"):  # on those before it, upwards and downwards apart
        keys = [(x_name, y_name, place, size < 0) for place, size in zip(at.tolist(), length.tolist(), strict=True)]
        base = np.array([page.floors.get(key, 0.0) for key in keys])
        page.floors.update(zip(keys, (base + np.nan_to_num(length)).tolist(), strict=True))
    (axes.barh if across else axes.bar)(at, length, width, base, **look)
    for place, end, text in zip(at, length + base, trace.text if trace.text is not None else (), strict=False):
        align = {"ha": "left", "va": "center"} if across else {"ha": "center", "va": "bottom"}
        axes.text(*((end, place) if across else (place, end)), text, color=page.ink, fontsize=_px(11), **align)


def _heatmap(page: _Page, trace: Any, fallback: str) -> None:
    from matplotlib.colors import LinearSegmentedColormap

    axes, x_name, y_name = page.axes_of(trace)
    z = np.array([page.positions(row) for row in trace.z])
    y = page.positions(trace.y, y_name) if trace.y is not None else np.arange(len(z)) + _first(trace.y0, 0)
    x = page.positions(trace.x, x_name) if trace.x is not None else np.arange(z.shape[1]) + _first(trace.x0, 0)
    scale = [(float(at), rgba(colour)) for at, colour in trace.colorscale or theme.INK]
    ends = {"vmin": _first(trace.zmin, np.nanmin(z)), "vmax": _first(trace.zmax, np.nanmax(z))}
    edge = {"edgecolors": theme.GRID_HEX, "linewidth": 0.4} if trace.xgap or trace.ygap else {}
    colours = LinearSegmentedColormap.from_list("plotly", scale)
    mesh = axes.pcolormesh(x, y, z, shading="nearest", cmap=colours, **ends, **edge)
    mesh.set_antialiased(bool(edge))


def _label(trace: Any) -> str:
    return _text(trace.name) if trace.name and trace.showlegend is not False else "_"


def _text(text: Any) -> str:
    """For matplotlib, which would read a "$" as mathematics."""
    return plain(text).replace("$", r"\$")


def _px(value: float) -> float:
    """CSS pixels as the points of a page drawn at 100 dots per inch."""
    return value * 0.72


def _first(value: Any, otherwise: float) -> Any:
    return otherwise if value is None else value


# How to draw each type: painter(page, trace, colour if it has none).
_PAINTERS = {"scatter": _scatter, "scattergl": _scatter, "bar": _bar, "heatmap": _heatmap, "scatter3d": _space}
