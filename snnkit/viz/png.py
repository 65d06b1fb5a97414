"""A PNG of a plotly figure, drawn with matplotlib: no browser needed.

It covers what the kit's figures are made of: scatter, bar and heat-map traces on one or more pairs of axes (linear,
logarithmic or of categories), points in space, titles, legends, annotations, lines, rectangles and sliders. Viewers
that run no JavaScript (GitHub, nbconvert) show it in place of the interactive figure; JupyterLab shows it until one
points at it.
"""

from __future__ import annotations

import html
import io
import math
import re
from typing import Any

import numpy as np

from . import theme

_DPI = 100
_DASHES = {
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
_ANCHORS = {"left": "left", "right": "right", "top": "top", "bottom": "bottom"}  # all others: center
_EM = 12  # pixels; a legend's sample line and its distance from the text are in ems
_HANDLE, _PAD, _GAP = 2.4, 0.8, 12


def png_bytes(figure: Any, width: int | None = None, height: int | None = None) -> bytes:
    """``figure`` (a plotly Figure) as a PNG of ``width`` × ``height`` pixels, by default its own size or 700 × 380.

    Raises:
        ValueError: it has a kind of trace that the kit's figures do not use.
    """
    for trace in figure.data:
        if trace.type not in _PAINTERS:
            raise ValueError(f"trace type {trace.type!r} has no PNG form; those that have: {', '.join(_PAINTERS)}")

    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    wide = width or figure.layout.width or 700
    high = height or figure.layout.height or theme.HEIGHT
    sheet = Figure(figsize=(wide / _DPI, high / _DPI), dpi=_DPI)
    FigureCanvasAgg(sheet)
    sheet.patch.set_alpha(0)
    _Page(figure, sheet, wide, high).paint()
    buffer = io.BytesIO()
    sheet.savefig(buffer, format="png", transparent=True)
    return buffer.getvalue()


def plain(text: Any) -> str:
    """Plotly's little HTML as text."""
    return html.unescape(re.sub(r"<[^>]+>", "", re.sub(r"<br\s*/?>", "\n", str(text))))


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
    """

    def __init__(self, figure: Any, sheet: Any, wide: float, high: float) -> None:
        self.sheet, self.wide, self.high, self.layout = sheet, wide, high, figure.layout
        self.traces = [trace for trace in figure.data if trace.visible in (None, True)]
        self.axes: dict[tuple[str, str], Any] = {}
        self.categories: dict[str, list[Any]] = {}
        self.floors: dict[tuple[Any, ...], float] = {}  # where the next bar of a stack begins
        self.bars = [trace for trace in self.traces if trace.type == "bar"]
        named = [
            t for t in self.traces if t.name and t.showlegend is not False and (t.type != "heatmap" or t.showlegend)
        ]
        self.names = list(dict.fromkeys(_text(trace.name) for trace in named))
        wanted = self.layout.showlegend
        if wanted is False or not (wanted or len(self.names) > 1 or any(trace.showlegend for trace in named)):
            self.names = []
        self.entry = (_HANDLE + _PAD) * _EM + max((self.text_width(name) for name in self.names), default=0)
        margin = {side: _first(getattr(self.layout.margin, side), theme.MARGIN[side]) for side in "lrtb"}
        right = margin["r"]
        if self.names and self.layout.legend.orientation != "h":
            right = max(right, _GAP + self.entry + 8)
        if any(trace.type == "heatmap" and trace.showscale is not False for trace in self.traces):
            right += 75
        self.left, self.bottom = margin["l"] / wide, margin["b"] / high
        self.right, self.top = 1 - min(right, wide * 0.5) / wide, 1 - margin["t"] / high

    def paint(self) -> None:
        meshes = []
        for index, trace in enumerate(self.traces):
            if trace.type == "scatter3d":
                names = (trace.scene or "scene", "")
                axes = self.axes.get(names) or self._add_space(names[0])
            else:
                names = (trace.xaxis or "x", trace.yaxis or "y")
                axes = self.axes.get(names) or self.sheet.add_axes(self._place(*names), facecolor="none")
            self.axes[names] = axes
            mesh = _PAINTERS[trace.type](self, axes, trace, theme.colour(index), names)
            if mesh is not None:
                meshes.append((mesh, trace, axes))
        flat = {names: axes for names, axes in self.axes.items() if names[1]}
        for names, axes in flat.items():
            self._dress(axes, *names)
        # The left edge moves to the right where labels would leave the page, as with plotly's automargin.
        boxes = [axes.yaxis.get_tightbbox(self.sheet.canvas.get_renderer()) for axes in flat.values()]
        self.left += max(0, *(4 - box.x0 for box in boxes if box is not None), 0) / self.wide
        for names, axes in flat.items():
            axes.set_position(self._place(*names))
        for mesh, trace, axes in meshes:
            self._add_colour_bar(mesh, trace, axes)
        for shape in self.layout.shapes:
            self._add_shape(shape)
        for note in self.layout.annotations:
            self._add_note(note)
        if self.layout.title.text:
            title = _text(self.layout.title.text)
            fits = min(1.0, 0.96 * self.wide / self.text_width(title, theme.TITLE_SIZE))
            self.write(0.012, 1 - 11 / self.high, title, theme.TITLE_SIZE * fits, va="top")
        if self.names:
            self._add_legend()
        for slider in self.layout.sliders:
            self._add_slider(slider)

    def axis(self, name: str) -> Any:
        """Plotly's axis that a trace, shape or annotation calls ``name`` ("x", "y2")."""
        return self.layout[f"{name[0]}axis{name[1:]}"]

    def paper(self, x: float, y: float) -> tuple[float, float]:
        """A point of plotly's "paper" (0 to 1 over the drawing area) in fractions of the page."""
        return self.left + x * (self.right - self.left), self.bottom + y * (self.top - self.bottom)

    def text_width(self, text: str, size: float = _EM) -> float:
        """How many pixels of the page the longest line of a text takes."""
        from matplotlib.font_manager import FontProperties

        measure, font = self.sheet.canvas.get_renderer().get_text_width_height_descent, FontProperties(size=_px(size))
        return max(measure(line, font, False)[0] for line in text.split("\n"))

    def write(self, x: float, y: float, text: str, size: float, **look: Any) -> None:
        self.sheet.text(x, y, text, fontsize=_px(size), **{"color": theme.TEXT} | look)

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

    def coordinates(self, trace: Any, names: tuple[str, str]) -> tuple[np.ndarray, np.ndarray]:
        y = self.positions(trace.y, names[1])
        return self.positions(trace.x, names[0]) if trace.x is not None else np.arange(len(y), dtype=float), y

    def _place(self, x_name: str, y_name: str) -> tuple[float, float, float, float]:
        return self._box(self.axis(x_name).domain or (0, 1), self.axis(y_name).domain or (0, 1))

    def _box(self, x: Any, y: Any) -> tuple[float, float, float, float]:
        (x0, y0), (x1, y1) = self.paper(x[0], y[0]), self.paper(x[1], y[1])
        return x0, y0, x1 - x0, y1 - y0

    def _dress(self, axes: Any, x_name: str, y_name: str) -> None:
        """Scale, limits, title and ticks of both axes."""
        for name, side in ((x_name, axes.xaxis), (y_name, axes.yaxis)):
            spec, letter = self.axis(name), name[0]
            if spec.type == "log":
                getattr(axes, f"set_{letter}scale")("log")
            low, high = getattr(axes, f"get_{letter}lim")()
            if spec.range is not None:
                low, high = (10.0**v if spec.type == "log" else v for v in spec.range)
            elif spec.rangemode == "tozero" and spec.type != "log":
                low, high = min(low, 0.0), max(high, 0.0)
                low = 0.0 if low > -0.06 * high else low
            if spec.range is None and spec.autorange == "reversed":
                low, high = high, low
            getattr(axes, f"set_{letter}lim")(low, high)
            if spec.title.text:
                side.set_label_text(_text(spec.title.text), fontsize=_px(theme.FONT_SIZE), color=theme.TEXT)
            self._add_ticks(side, spec, self.categories.get(name, []))
            side.set_tick_params(which="both", colors=theme.TEXT, labelcolor=theme.TEXT, labelsize=_px(12), length=3)
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
        elif spec.type != "log":
            side.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10]))  # as plotly steps: never by 2.5
        side.set_minor_locator(NullLocator())
        if spec.showticklabels is False:
            side.set_tick_params(labelbottom=False, labelleft=False)

    def _add_colour_bar(self, mesh: Any, trace: Any, axes: Any) -> None:
        box = axes.get_position()
        place = self.sheet.add_axes((box.x1 + 0.02, box.y0, 0.018, box.height))
        self.sheet.colorbar(mesh, cax=place).outline.set_visible(False)
        place.tick_params(colors=theme.TEXT, labelsize=_px(11), length=2)
        if trace.colorbar.title.text:
            place.set_title(_text(trace.colorbar.title.text), fontsize=_px(12), color=theme.TEXT, loc="left")

    def _add_space(self, name: str) -> Any:
        """The axes of the scene that plotly calls ``name``, seen from plotly's camera."""
        from matplotlib.ticker import MaxNLocator

        scene = self.layout[name]
        place = self._box(scene.domain.x or (0, 1), scene.domain.y or (0, 1))
        axes = self.sheet.add_axes(place, projection="3d", facecolor="none")
        x, y, z = (_first(getattr(scene.camera.eye, letter), 1.25) for letter in "xyz")
        axes.view_init(elev=math.degrees(math.atan2(z, math.hypot(x, y))), azim=math.degrees(math.atan2(y, x)))
        ratio = [getattr(scene.aspectratio, letter) or 1.0 for letter in "xyz"]
        axes.set_box_aspect(ratio, zoom=1.0)
        for letter, length in zip("xyz", ratio, strict=True):
            spec, side = getattr(scene, f"{letter}axis"), getattr(axes, f"{letter}axis")
            look = {"fontsize": _px(12), "color": theme.TEXT, "labelpad": _px(12 * length)}
            getattr(axes, f"set_{letter}label")(_text(spec.title.text or letter), **look)
            if spec.nticks:
                side.set_major_locator(MaxNLocator(spec.nticks, steps=[1, 2, 5, 10]))
            if spec.range is not None:
                getattr(axes, f"set_{letter}lim")(*spec.range)
            axes.tick_params(axis=letter, colors=theme.TEXT, labelcolor=theme.TEXT, labelsize=_px(11))
            side.set_pane_color((0.5, 0.5, 0.5, 0.0))
            side.line.set_color(theme.AXIS_HEX)
            side._axinfo["grid"].update(color=theme.GRID_HEX, linewidth=0.6)
        return axes

    def _add_legend(self) -> None:
        handles: dict[str, Any] = {}
        for axes in self.axes.values():
            for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
                handles.setdefault(label, handle)
        names = [name for name in self.names if name in handles]
        place = {"loc": "upper left", "bbox_to_anchor": (self.right + _GAP / self.wide, self.top + 0.01), "ncols": 1}
        if names and self.layout.legend.orientation == "h":
            room = (self.right - self.left) * self.wide + 1.5 * _EM
            columns = max(1, min(len(names), int(room // (self.entry + 1.5 * _EM))))
            # Matplotlib fills column by column; entries are read row by row.
            columns = -(-len(names) // -(-len(names) // columns))
            names = [names[i] for first in range(columns) for i in range(first, len(names), columns)]
            place = {"loc": "lower left", "bbox_to_anchor": (self.left, 8 / self.high), "ncols": columns}
        look = {"frameon": False, "labelcolor": theme.TEXT, "fontsize": _px(_EM), "borderaxespad": 0, "borderpad": 0}
        spacing = {"handlelength": _HANDLE, "handletextpad": _PAD, "columnspacing": 1.5}
        self.sheet.legend([handles[name] for name in names], names, **place, **look, **spacing)

    def _add_slider(self, slider: Any) -> None:
        """The slider where plotly draws it: its value, the track, the knob, and as many labels as fit."""
        from matplotlib.lines import Line2D

        labels, active = [_text(step.label) for step in slider.steps], int(slider.active or 0)
        top = self.bottom - (slider.pad.t or 20) / self.high
        value_at, track, labels_at = (top - pixels / self.high for pixels in (10, 36, 50))
        value = f"{_text(slider.currentvalue.prefix or '')}{labels[active]}{slider.currentvalue.suffix or ''}"
        self.write(self.left, value_at, value, 14, va="center")
        # Labels are centred at their places, and the outermost ones must not leave the page.
        widths = [self.text_width(label, 11) for label in labels]
        first, last = (min((widths[end] / 2 + 2) / self.wide, 0.4) for end in (0, -1))
        ends = [max(self.left, first), min(self.right, 1 - last)]
        places = np.linspace(ends[0], ends[1], len(labels))
        line = {"color": theme.AXIS_HEX, "linewidth": _px(6), "solid_capstyle": "round"}
        self.sheet.add_artist(Line2D(ends, [track, track], **line))
        knob = {"marker": "o", "markersize": _px(17), "color": theme.BLUE, "markeredgecolor": "white"}
        self.sheet.add_artist(Line2D([places[active]], [track], **knob))
        room = (ends[1] - ends[0]) * self.wide
        every = max(1, math.ceil((max(widths) + 10) * (len(labels) - 1) / room))
        for at, label in list(zip(places, labels, strict=True))[::every]:
            self.write(at, labels_at, label, 11, ha="center", va="top")

    def _add_shape(self, shape: Any) -> None:
        """A line or rectangle; other shapes are left out."""
        from matplotlib.lines import Line2D
        from matplotlib.patches import Rectangle

        (x0, y0, transform), (x1, y1, _) = (
            self._point(shape, shape.x0, shape.y0),
            self._point(shape, shape.x1, shape.y1),
        )
        opacity = _first(shape.opacity, 1.0)
        dashes = {"dash": "--", "dot": ":", "dashdot": "-."}.get(shape.line.dash or "", "-")
        look = {"transform": transform, "linestyle": dashes, "linewidth": _px(_first(shape.line.width, 2))}
        ink = rgba(shape.line.color or theme.TEXT, opacity)
        if shape.type == "line":
            self.sheet.add_artist(Line2D([x0, x1], [y0, y1], color=ink, **look))
        elif shape.type == "rect":
            fill = rgba(shape.fillcolor or theme.CLEAR, opacity)
            self.sheet.add_artist(Rectangle((x0, y0), x1 - x0, y1 - y0, edgecolor=ink, facecolor=fill, **look))

    def _add_note(self, note: Any) -> None:
        """The text of an annotation; arrows are left out."""
        from matplotlib.transforms import ScaledTranslation

        x, y, transform = self._point(note, note.x, note.y)
        shift = _px(note.xshift or 0) / 72, _px(note.yshift or 0) / 72
        transform = transform + ScaledTranslation(*shift, self.sheet.dpi_scale_trans)
        at = {"ha": _ANCHORS.get(note.xanchor, "center"), "va": _ANCHORS.get(note.yanchor, "center")}
        look = {"color": rgba(note.font.color or theme.TEXT), "transform": transform}
        self.write(x, y, _text(note.text or ""), note.font.size or theme.FONT_SIZE, **at, **look)

    def _point(self, item: Any, x: Any, y: Any) -> tuple[float, float, Any]:
        """A point of a shape or annotation in page fractions or data units, and the transform that fits."""
        from matplotlib.transforms import blended_transform_factory

        refs = item.xref or "x", item.yref or "y"
        data = {ref.split()[0] for ref in refs if ref != "paper"}
        axes = next((a for names, a in self.axes.items() if data <= set(names)), None)
        if axes is None or not data:
            return *self.paper(float(x), float(y)), self.sheet.transFigure
        places, transforms = [], []
        for ref, value, corner in zip(refs, (x, y), (0, 1), strict=True):
            if ref == "paper":
                places.append(self.paper(float(value), float(value))[corner])
                transforms.append(self.sheet.transFigure)
            elif ref.endswith(" domain"):
                places.append(float(value))
                transforms.append(axes.transAxes)
            else:
                at = float(self.positions([value], ref)[0])
                # Plotly gives annotations on a logarithmic axis as exponents, but shapes in data units.
                places.append(10.0**at if self.axis(ref).type == "log" and hasattr(item, "showarrow") else at)
                transforms.append(axes.transData)
        return places[0], places[1], blended_transform_factory(*transforms)


def _scatter(page: _Page, axes: Any, trace: Any, fallback: str, names: tuple[str, str]) -> None:
    x, y = page.coordinates(trace, names)
    opacity = _first(trace.opacity, 1.0)
    mode = trace.mode or ("lines+markers" if len(x) < 20 else "lines")
    colour = trace.line.color or _one_colour(trace, fallback)
    style: dict[str, Any] = {"linestyle": "none", "marker": "", "label": _label(trace)}
    if "lines" in mode:
        style |= {"linestyle": _DASHES.get(trace.line.dash, "-"), "color": rgba(colour, opacity)}
        style |= {"linewidth": _px(_first(trace.line.width, 2)), "drawstyle": _STEPS.get(trace.line.shape, "default")}
    if "markers" in mode:
        ink = rgba(_one_colour(trace, colour), opacity * _first(trace.marker.opacity, 1.0))
        style |= _marks(trace, ink)
    if mode != "none":
        axes.plot(x, y, **style)
    if trace.fill == "toself":
        axes.fill(x, y, color=rgba(trace.fillcolor or colour, opacity if trace.fillcolor else 0.3), linewidth=0)


def _one_colour(trace: Any, fallback: str) -> str:
    """The colour of all marks; marks with a colour each are drawn in one."""
    return trace.marker.color if isinstance(trace.marker.color, str) else fallback


def _marks(trace: Any, ink: Any) -> dict[str, Any]:
    """The markers of a line; hollow ones have the name of their shape."""
    symbol = str(trace.marker.symbol or "circle")
    shape = _MARKERS.get(symbol.removesuffix("-open"), "o")
    tick = shape in "|_"
    hollow = symbol.endswith("-open") and not tick
    size = _px(float(np.mean(_first(trace.marker.size, 6)))) * (1.4 if tick else 1.0)  # plotly draws ticks longer
    edge = {"markeredgecolor": ink, "markeredgewidth": 1.1 if tick or hollow else 0.0}
    return {"marker": shape, "markersize": size, "markerfacecolor": "none" if hollow else ink, "color": ink} | edge


def _space(page: _Page, axes: Any, trace: Any, fallback: str, names: tuple[str, str]) -> None:
    """A scatter3d trace: its marks, its line, or both."""
    places = [page.positions(values) for values in (trace.x, trace.y, trace.z)]
    mode = trace.mode or "lines+markers"
    if "markers" in mode:
        marks = _marks(trace, rgba(_one_colour(trace, fallback)))
        hollow = isinstance(marks["markerfacecolor"], str)
        ink = {"edgecolors": [marks["color"]], "facecolors": "none"} if hollow else {"c": [marks["color"]]}
        # Plotly's marks in space are about half as wide as those of the same size in the plane.
        look = {"s": (1.3 * marks["markersize"]) ** 2, "marker": marks["marker"], "linewidths": 0.8 if hollow else 0}
        axes.scatter(*places, label=_label(trace), depthshade=False, **look, **ink)
    if "lines" in mode:
        axes.plot(*places, color=rgba(trace.line.color or fallback), linewidth=_px(2))


def _bar(page: _Page, axes: Any, trace: Any, fallback: str, names: tuple[str, str]) -> None:
    x, y = page.coordinates(trace, names)
    colours = trace.marker.color if trace.marker.color is not None else fallback
    ink = rgba(colours) if isinstance(colours, str) else [rgba(colour) for colour in colours] or rgba(fallback)
    look: dict[str, Any] = {"color": ink, "label": _label(trace), "linewidth": 0}
    if hatch := _HATCHES.get(trace.marker.pattern.shape):
        look |= {"hatch": hatch, "edgecolor": rgba(trace.marker.pattern.fgcolor or theme.WHITE)}
    if not len(x):  # nothing to see; but without any bar the legend would not know the colour
        axes.bar(math.nan, math.nan, **look)
        return
    across = trace.orientation == "h"
    at, length = (y, x) if across else (x, y)
    base: Any = page.positions(trace.base) if trace.base is not None else 0
    width: Any = np.asarray(trace.width, dtype=float) if trace.width is not None else None
    if width is None:
        slots = len(page.bars) if page.layout.barmode in (None, "group") else 1
        slot = next(i for i, bar in enumerate(page.bars) if bar is trace) if slots > 1 else 0
        width = 0.8 * float(np.diff(np.unique(at)).min(initial=math.inf) if np.unique(at).size > 1 else 1.0) / slots
        at = at + (slot - (slots - 1) / 2) * width
    if page.layout.barmode in ("stack", "relative"):  # on those before it, upwards and downwards apart
        keys = [(names, place, size < 0) for place, size in zip(at.tolist(), length.tolist(), strict=True)]
        base = np.array([page.floors.get(key, 0.0) for key in keys])
        page.floors.update(zip(keys, (base + np.nan_to_num(length)).tolist(), strict=True))
    (axes.barh if across else axes.bar)(at, length, width, base, **look)
    if trace.text is not None:
        texts = [trace.text] * len(at) if isinstance(trace.text, str) else trace.text
        align = {"ha": "left", "va": "center"} if across else {"ha": "center", "va": "bottom"}
        for place, end, text in zip(at, length + np.asarray(base), texts, strict=False):
            where = (end, place) if across else (place, end)
            axes.text(*where, f" {text}" if across else str(text), color=theme.TEXT, fontsize=_px(11), **align)


def _heatmap(page: _Page, axes: Any, trace: Any, fallback: str, names: tuple[str, str]) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    z = np.array([page.positions(row) for row in trace.z])
    y = page.positions(trace.y, names[1]) if trace.y is not None else np.arange(len(z), dtype=float)
    x = page.positions(trace.x, names[0]) if trace.x is not None else np.arange(z.shape[1], dtype=float)
    scale = [(float(at), rgba(colour)) for at, colour in trace.colorscale or theme.INK]
    scale = [(1 - at, colour) for at, colour in reversed(scale)] if trace.reversescale else scale
    colours = LinearSegmentedColormap.from_list("plotly", scale)
    ends = {"vmin": _first(trace.zmin, np.nanmin(z)), "vmax": _first(trace.zmax, np.nanmax(z))}
    edge = {"edgecolors": theme.GRID_HEX, "linewidth": 0.4} if trace.xgap or trace.ygap else {}
    mesh = axes.pcolormesh(_edges(x), _edges(y), z, cmap=colours, **ends, **edge)
    mesh.set_antialiased(bool(edge))
    return mesh if trace.showscale is not False else None


def _edges(centres: np.ndarray) -> np.ndarray:
    if len(centres) == 1:
        return centres[0] + np.array([-0.5, 0.5])
    middles = (centres[:-1] + centres[1:]) / 2
    return np.concatenate([[2 * centres[0] - middles[0]], middles, [2 * centres[-1] - middles[-1]]])


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


# How to draw each type: painter(page, axes, trace, colour if it has none, names of its axes). What a painter returns,
# if anything, is what a colour bar can be made from.
_PAINTERS = {"scatter": _scatter, "scattergl": _scatter, "bar": _bar, "heatmap": _heatmap, "scatter3d": _space}
