"""Every figure of the kit: readable, in words and as a PNG; and what its arguments must be."""

import io
import math
import re

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from matplotlib.image import imread

from snnkit.lab import viz
from snnkit.lab.hardware.scaling import Measured
from snnkit.lab.pages import web
from snnkit.lab.viz import concepts, figures, png, theme
from snnkit.lab.viz.alt import MOST, alt_text
from snnkit.lab.viz.figures import Marked
from snnkit.lab.viz.png import rgba

from .every_figure import EXAMPLES, PARTS, V, recorded
from .test_viz_benchmarks import made, race

ZEROS, NAN = torch.zeros, math.nan


def test_there_is_an_example_of_each():
    assert {name for name in dir(figures) if callable(getattr(figures, name))} - PARTS == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_can_be_read_heard_and_printed(name):
    figure = EXAMPLES[name]()
    assert figure.layout.title.text
    axes = [*figure.select_xaxes(), *figure.select_yaxes(), figure.layout.scene.xaxis]
    assert any(axis.title.text or axis.ticktext for axis in axes) or figure.layout.annotations
    for trace in figure.data:  # plotly's own hover text is a pair of bare numbers and "trace 3"
        assert trace.hovertemplate or trace.hoverinfo in ("text", "text+y", "x", "skip", "none"), trace.name
    words = alt_text(figure)
    assert words.startswith("Figure: ") and 40 < len(words) <= MOST and "<" not in words
    image = imread(io.BytesIO(viz.png_bytes(figure)))
    assert image.shape[:2] == (figure.layout.height or viz.theme.HEIGHT, 700)
    inked = image[..., :3].min(axis=2) < 0.7
    assert image[0, 0].tolist() == [1, 1, 1, 1] and inked.mean() > 0.003
    assert len(np.unique(image[inked].round(1), axis=0)) > 3


@pytest.mark.parametrize("name", EXAMPLES)
def test_its_png_for_dark_pages_has_light_text_and_no_paper(name):
    """And nothing of what is drawn on white paper is lost on the way."""
    figure = EXAMPLES[name]()
    light, dark = (imread(io.BytesIO(viz.png_bytes(figure, dark=dark))) for dark in (False, True))
    assert dark.shape == light.shape and dark[0, 0, 3] == 0
    opaque = dark[dark[..., 3] == 1][:, :3]
    ink = np.array(rgba(theme.DARK_TEXT)[:3])
    assert (np.abs(opaque - ink).max(axis=1) < 0.01).any()
    assert not (np.abs(opaque - np.array(rgba(theme.INK_TEXT)[:3])).max(axis=1) < 0.01).any()
    assert (dark[..., 3] > 0.3).mean() > 0.8 * (light[..., :3].min(axis=2) < 0.7).mean()


def test_the_value_of_a_slider_is_above_a_legend_below_the_plot():
    figure = go.Figure([go.Scatter(y=[1, 2], name=name) for name in "abcdefghijkl"])
    figure.update_layout(legend=viz.theme.LEGEND_BELOW, sliders=[{"steps": [{"label": "128"}], "active": 0}])
    sheet = png._Page(figure).paint()
    boxes = [one.get_window_extent(sheet.canvas.get_renderer()) for one in (sheet.legends[0], sheet.texts[-1])]
    assert sheet.texts[-1].get_text() == "128" and boxes[0].y1 < boxes[1].y0


def test_text_of_a_png_can_be_read():
    assert min(contrast(theme.INK_TEXT, theme.WHITE), contrast(theme.DARK_TEXT, theme.DARK)) > 7


# --- contrast: 4.5 of text, 3 of lines, marks and bars, on light and on dark pages ----------------------------------

PAGES = {"light": theme.WHITE, "dark": theme.DARK}


def contrast(ink, page):
    """Of two colours, as WCAG 2 defines it; the first may let the second shine through."""
    (*rgb, alpha), under = rgba(ink), rgba(page)[:3]
    light = []
    for colour in (alpha * np.array(rgb) + (1 - alpha) * np.array(under), np.array(under)):
        linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
        light.append(float(linear @ (0.2126, 0.7152, 0.0722)) + 0.05)
    return max(light) / min(light)


def colours(part, place=""):
    """Each (place, colour) of a figure's JSON that is of a line, a mark, a bar or a text."""
    for key, value in part.items() if isinstance(part, dict) else ():
        if isinstance(value, dict):
            yield from colours(value, f"{place}.{key}")
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for one in value:
                yield from colours(one, f"{place}.{key}")
        elif key == "color" and isinstance(value, str):
            yield f"{place}.{key}", value


@pytest.mark.parametrize("name", EXAMPLES)
def test_lines_marks_and_texts_can_be_seen_on_light_and_on_dark_pages(name):
    figure = EXAMPLES[name]().to_plotly_json()
    broad = [trace for trace in figure["data"] if trace.get("line", {}).get("width", 0) > 9]  # a line runs through it
    cells = {note["text"] for note in figure["layout"].get("annotations", ())} if name == "confusion" else set()
    for trace in figure["data"]:
        for place, colour in colours(trace) if trace not in broad else ():
            assert min(contrast(colour, page) for page in PAGES.values()) >= 3, (place, colour)
    for place, colour in colours(figure["layout"] | {"template": {}}):
        if "font" not in place:
            assert ".scene" in place or min(contrast(colour, page) for page in PAGES.values()) >= 3, (place, colour)
        elif ".scene" in place:
            assert contrast(colour, figure["layout"]["scene"]["bgcolor"]) >= 4.5
        else:  # the grey that pages change; numbers on cells are held by the next test
            assert colour == theme.TEXT or cells, (place, colour)


def test_greys_and_numbers_on_cells_can_be_read():
    greys = re.findall(r'theme-light="(true|false)".*?fill: (#\w+)', web.read("plot_text.css"), re.DOTALL)
    assert [page for page, _ in greys] == ["true", "false"] and 'rgb(118, 118, 118)"' in web.read("plot_text.css")
    on_pages = zip([theme.TEXT, theme.INK_TEXT, *(grey for _, grey in greys)], "wwwd", strict=True)
    assert all(contrast(grey, theme.DARK if page == "d" else theme.WHITE) >= 4.5 for grey, page in on_pages)
    low, high = (np.array(rgba(colour)[:3]) for _, colour in theme.INK_ON_PAPER)
    for share in range(101):
        counts = torch.tensor([[share, 100 - share], [1, 1]])
        cell = low + (high - low) * share / 100
        note = figures.confusion(counts).layout.annotations[0].font.color
        assert share == 0 or contrast(note, "#" + "".join(f"{round(255 * part):02x}" for part in cell)) >= 4.5


# Of web/style.css: what is drawn on what, and the least contrast.
ON = ("page", "panel", "raised")
READ = [(text, under, 4.5) for text in ("ink", "muted", "accent", "error") for under in ON]
READ += [("on-accent", "accent", 4.5)] + [("strong-line", under, 3) for under in ON]
HUES = ("blue", "vermilion", "green", "orange", "purple", "sky", "crimson", "violet", "teal", "olive")
READ += [(hue, under, 3) for hue in HUES for under in ON[:2]]


@pytest.mark.parametrize(("ink", "under", "least"), READ)
def test_pages_and_widgets_can_be_read(ink, under, least):
    tokens = dict(re.findall(r"--([\w-]+): light-dark\((#\w+, #\w+)\)", web.read("style.css")))
    for text, page in zip(tokens[ink].split(", "), tokens[under].split(", "), strict=True):
        assert contrast(text, page) >= least


# Linear red, green and blue as people see them who lack long-, medium- or short-wave cones (Machado et al. 2009,
# doi:10.1109/TVCG.2009.113), and from these to Oklab.
EYES = {
    "all cones": torch.eye(3),
    "no long": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no medium": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "no short": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
CONES = [[0.41222147, 0.53633254, 0.05144599], [0.2119035, 0.68069955, 0.10739696], [0.08830246, 0.28171884, 0.6299787]]
OKLAB = [[0.21045426, 0.79361779, -0.00407205], [1.97799850, -2.42859220, 0.45059371]]
OKLAB += [[0.02590404, 0.78277177, -0.80867577]]


@pytest.mark.parametrize("scheme", [0, 1], ids=("light", "dark"))
@pytest.mark.parametrize(
    "together", [("orange", "blue", "crimson"), ("violet", "teal", "olive"), ("orange", "error")], ids="-".join
)
@pytest.mark.parametrize("eyes", EYES)
def test_colours_of_pages_differ_for_any_colour_vision(scheme, together, eyes):
    tokens = dict(re.findall(r"--([\w-]+): light-dark\((#\w+, #\w+)\)", web.read("style.css")))
    hexes = [tokens[name].split(", ")[scheme] for name in together]
    rgb = torch.tensor([[int(one[i : i + 2], 16) / 255 for i in (1, 3, 5)] for one in hexes])
    linear = torch.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = (linear @ torch.as_tensor(EYES[eyes]).T).clamp(0, 1) @ torch.tensor(CONES).T
    lab = seen ** (1 / 3) @ torch.tensor(OKLAB).T
    assert torch.pdist(lab).min() >= 0.07


def test_small_pictures_are_drawn_large_enough():
    for side in (8, 16, 28):
        figure = figures.image_grid(torch.zeros(100, side, side), columns=100)
        low, high = figure.layout.xaxis.range
        tile = (700 - 24) / (high - low) * side
        assert tile >= max(60, 2 * side)


TABLE = {"HIDDEN": [8, 16], "status": ["ok", "ok"], "acc": [0.6, 0.8], "spikes": [10.0, 20.0]}
# Function, arguments, options, error, what its message says.
REFUSED = [
    ("raster", [ZEROS(3, 2, 2)], {}, ValueError, r"spikes must be \[T, N\], but its shape is \[3, 2, 2\] \(pick one"),
    ("raster", [torch.ones(2, 3, device="meta")], {}, ValueError, "spikes must hold numbers, .* on the meta device"),
    ("traces", [V, V[:5]], {}, ValueError, r"spikes of membrane must be \[T\] with T = 20, as membrane has it"),
    ("traces", [{"a": V}, {"b": V}], {}, ValueError, r"spikes must hold names of v \(a\), but it holds b"),
    ("rate_histogram", [[0.5, 1.5]], {}, ValueError, r"rates must be in \[0, 1\], but they reach from 0.5 to 1.5"),
    ("lines", [{"a": [1]}], {"log": "z"}, ValueError, "log must be"),
    ("lines", [{"a": [1]}], {"levels": {"b": 0}, "log": "y"}, ValueError, r"levels\['b'\] must be greater than 0"),
    ("confusion", [ZEROS(2, 3)], {}, ValueError, r"matrix must be square \[C, C\]"),
    ("confusion", [ZEROS(2, 2)], {"labels": ["a"]}, ValueError, "labels must hold 2 names, but it holds 1"),
    ("image_grid", [ZEROS(2, 4, 4), [1]], {}, ValueError, "labels must hold 2 labels, one per image, but it holds 1"),
    ("coded_image", [ZEROS(2, 2), ZEROS(3, 5), ZEROS(2, 2)], {}, ValueError, r"spikes must be \[T, 4\]"),
    ("compared_spikes", [ZEROS(3), ZEROS(2, 4), ZEROS(2, 3)], {}, ValueError, r"yours must be \[T, N\] with N = 3"),
    ("event_cloud", [ZEROS(2, 3, 4, 4)], {}, ValueError, r"OFF and ON, but its shape is \[2, 3, 4, 4\]"),
    ("spacing", [[1.0], "int8"], {}, TypeError, "dtype must be a floating-point format .*'int8'"),
    ("shares", [{"a": {}}], {}, ValueError, "wholes must hold at least one bar with at least one part"),
    ("shares", [{"a": {"x": -1.0}}], {}, ValueError, "'x' of 'a' must be at least 0, but it is -1.0"),
    ("spans", [{"rank 0": [("forward", 2.0, 1.0)]}], {}, ValueError, "end of 'forward' of 'rank 0' must be at least 2"),
    ("gallery", [{}], {}, ValueError, "runs must hold at least one neuron"),
    ("recording", [V], {}, TypeError, "rec must be an Activity"),
    ("recording", [recorded(), 1], {}, ValueError, "sample must be at most 0, but it is 1"),
    ("recording", [recorded()], {"neurons": {"3": [0]}}, ValueError, r"recorded states \('0', '1.neuron', '2'\), but"),
    ("recording", [recorded()], {"neurons": {"0": [6]}}, ValueError, "a neuron of '0' must be at most 5, but it is 6"),
    (
        "recording",
        [recorded(False)],
        {"neurons": {"0": [0]}},
        ValueError,
        r"recorded states \(none\), but it holds '0'",
    ),
    ("spans", [{"rank 0": []}], {}, ValueError, "lanes must hold at least one lane with at least one span"),
    ("roofline", [[], 1.0, 1.0], {}, ValueError, "runs must hold at least one Run"),
    ("marked", [[], "ms"], {}, ValueError, "numbers must hold at least one Marked"),
    ("scaling_efficiency", [], {}, ValueError, "measured or predicted must hold something to draw"),
    ("races", [[]], {}, ValueError, "records must hold at least one record"),
    ("races", [race(dtype="bfloat16")], {}, ValueError, "records must hold rows in float32, but none does"),
    ("spacing", [[0.0, 1.0]], {"dtype": "float16"}, ValueError, "values must be positive and finite"),
    ("marked", [[Marked("a", "published", None)], "ms"], {}, ValueError, "'a' must have a value"),
    ("marked", [[Marked("a", "measured", 3.0, 1.0, 2.0)], "ms"], {}, ValueError, "high of 'a' must be at least 3.0"),
    ("scaling_efficiency", [[Measured(2, 0.1)]], {}, ValueError, "measured must hold one rank alone"),
    ("pareto", [TABLE], {"maximise": "acc"}, ValueError, r"two columns in all, but they name \['acc'\]"),
    ("pareto", [TABLE], {"maximise": "status", "minimise": "spikes"}, TypeError, "must be columns of numbers"),
    ("pareto", [{"m": [1.0, NAN], "n": [None, 1.0]}], {"maximise": "m", "minimise": "n"}, ValueError, "but none has"),
    ("races", [race() | {"provenance": {}}], {}, ValueError, "where their numbers come from"),
    ("device_rates", [race() | {"kind": "demo", "rows": []}], {}, ValueError, "records must hold rows, but none does"),
    ("comparison", [made() | {"kind": "training"}], {}, ValueError, "kind 'compare', but one is of kind 'training'"),
]


@pytest.mark.parametrize(
    ("name", "arguments", "options", "error", "message"), REFUSED, ids=[f"{row[0]}: {row[4]}" for row in REFUSED]
)
def test_a_bad_argument_is_refused_by_name(name, arguments, options, error, message):
    with pytest.raises(error, match=message):
        getattr(figures, name)(*arguments, **options)


def test_names_beside_lines_have_a_dot_of_its_colour_in_the_picture_too():
    series = {"Poisson": np.arange(10.0), "latency": 0.9 * np.arange(10.0)}
    image = imread(io.BytesIO(viz.png_bytes(figures.lines(series))))
    beside = image[:, -110:, :3].reshape(-1, 3)  # to the right of the plot
    for name in series:
        ink = np.array(rgba(concepts.colour(name))[:3])
        assert (np.abs(beside - ink).max(1) < 0.02).sum() > 10


def test_a_line_without_markers_is_solid_if_the_others_have_markers():
    dashes = [line.line.dash for line in figures.lines({"few": np.arange(9.0), "many": np.arange(99.0)}).data]
    assert dashes == [None, None]
    dashes = [line.line.dash for line in figures.lines({"many": np.arange(99.0), "more": np.arange(99.0)}).data]
    assert dashes == [None, "dash"]
