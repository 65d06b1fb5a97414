"""What every figure of the kit owes its readers, whoever they are and whatever shows it."""

import inspect
import io

import numpy as np
import plotly.graph_objects as go
import pytest
from matplotlib.image import imread

from snnkit import viz
from snnkit.viz import figures
from snnkit.viz.alt import MOST, alt_text

from .every_figure import EXAMPLES, PARTS

# Their axes are numbers without a unit, names, or pixels of pictures that have no axes.
NO_AXES = {"image_grid", "weights"}
NAMED_BY_PANEL = {"training_curves"}  # the head of each panel is what its y axis counts


@pytest.fixture(scope="module")
def drawn():
    """Name to figure, each drawn once."""
    found = {}

    def figure(name):
        if name not in found:
            found[name] = EXAMPLES[name]()
        return found[name]

    return figure


def test_no_figure_is_without_an_example():
    public = {name for name, one in vars(figures).items() if name[0] != "_" and not inspect.ismodule(one)}
    assert public - PARTS <= set(EXAMPLES)
    assert public >= PARTS
    for name in public:
        assert getattr(figures, name).__doc__


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_has_a_title(name, drawn):
    figure = drawn(name)
    assert isinstance(figure, go.Figure) and len(figure.layout.title.text) > 3


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in NO_AXES])
def test_its_axes_are_named(name, drawn):
    """By a title, by names at the ticks or, in panels that share an axis, in one of them."""
    figure = drawn(name)
    if any(trace.type == "scatter3d" for trace in figure.data):
        assert all(figure.layout.scene[f"{letter}axis"].title.text for letter in "xyz")
        return
    used = {letter: {(trace[f"{letter}axis"] or letter) for trace in figure.data} for letter in "xy"}
    for letter, names in used.items():
        axes = [figure.layout[f"{letter}axis{name[1:]}"] for name in names]
        shown = [axis for axis in axes if axis.visible is not False and axis.showticklabels is not False]
        named = [axis for axis in shown if axis.title.text or axis.ticktext or axis.type == "category"]
        headed = name in NAMED_BY_PANEL and len(figure.layout.annotations) >= len(names)
        assert named or headed, f"no {letter} axis of {sorted(names)} is named"


UNITS = {
    "raster": "time (ms)",
    "traces": "time (ms)",
    "event_cloud": "time (ms)",
    "f_i_curve": "firing rate (spikes per step)",
    "rate_histogram": "firing rate (spikes per step)",
    "memory_bars": "memory (MB)",
    "races": "milliseconds",
    "per_neuron_step": "ns per neuron and step",
    "roofline": "operations per second",
    "training_curves": "Accuracy (%)",
    "spans": "ms",
    "marked": "ms",
    "supersteps": "µs",
}


@pytest.mark.parametrize("name", UNITS)
def test_units_stand_beside_the_numbers(name, drawn):
    layout = drawn(name).layout
    axes = [layout[key] for key in layout if key[1:].startswith("axis")]
    axes += [layout.scene[f"{letter}axis"] for letter in "xyz"]
    texts = [axis.title.text or "" for axis in axes] + [note.text for note in layout.annotations]
    assert any(UNITS[name] in text for text in texts), texts


@pytest.mark.parametrize("name", EXAMPLES)
def test_hovering_tells_something_and_never_traces_by_number(name, drawn):
    """Plotly's own hover text is a pair of bare numbers and "trace 3"."""
    figure = drawn(name)
    told = [t for t in figure.data if t.hovertemplate or t.hoverinfo in ("text", "text+y", "x")]
    silent = [t for t in figure.data if t.hoverinfo == "skip"]
    assert told, "nothing answers to the mouse"
    assert len(told) + len(silent) == len(figure.data), [t.name for t in figure.data if t not in told + silent]
    assert all("<extra>" in t.hovertemplate for t in told if t.hovertemplate), "plotly adds the trace's name to it"
    assert all(t.text is not None for t in told if (t.hoverinfo or "").startswith("text"))


@pytest.mark.parametrize("name", EXAMPLES)
def test_it_is_told_in_words(name, drawn):
    figure = drawn(name)
    words = alt_text(figure)
    assert words.startswith("Figure: ") and 40 < len(words) <= MOST
    assert "<" not in words and "\n" not in words and "nan" not in words.lower().split()
    assert viz.png.plain(figure.layout.title.text)[:30].replace("\\$", "$") in words


def pixels(png):
    """[H, W, 4], values in [0, 1]."""
    return imread(io.BytesIO(png))


@pytest.mark.parametrize("name", EXAMPLES)
def test_its_png_shows_what_the_figure_shows(name, drawn):
    """Each trace leaves ink on the page, and the page is clear where there is none."""
    figure = drawn(name)
    image = pixels(viz.png_bytes(figure))
    assert image.shape[:2] == (figure.layout.height or viz.theme.HEIGHT, 700)
    inked = image[..., 3] > 0.3
    assert image[..., 3].min() == 0 and inked.mean() > 0.003
    assert len(np.unique(image[inked].round(1), axis=0)) > 4
    without = go.Figure(figure.data[1:], figure.layout)
    assert not np.array_equal(pixels(viz.png_bytes(without)), image), "the first trace is not drawn"


def looks(trace):
    """What tells a trace from others besides its colour; None where its place on the axes does, or text."""
    if trace.type == "bar":
        return trace.marker.pattern.shape or ""
    if trace.type in ("scatter", "scattergl", "scatter3d"):
        return trace.line.dash or "solid", trace.marker.symbol, trace.line.width, trace.mode, trace.type
    return None


# Bars in rows of their own, each with its name at the axis; lines with a name at their end.
NAMED_IN_PLACE = {"training_rates", "inference", "number_lines", "gallery"}


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name not in NAMED_IN_PLACE])
def test_nothing_hangs_on_colour_alone(name, drawn):
    figure = drawn(name)
    seen = {}
    for trace in figure.data:
        look = looks(trace)
        if look is not None and trace.name:
            panel = trace.type == "scatter3d" or (trace.xaxis, trace.yaxis)
            seen.setdefault((panel, look), set()).add(trace.name)
    alike = [names for names in seen.values() if len(names) > 1]
    assert not alike, f"they differ in colour only: {alike}"


@pytest.mark.parametrize("name", ["confusion", "verdicts"])
def test_text_in_cells_is_read_on_every_cell(name, drawn):
    figure = drawn(name)
    (heat,) = figure.data
    scale = [(stop, colour) for stop, colour in heat.colorscale]
    written = 0
    for note in figure.layout.annotations:
        if "paper" in (note.xref, note.yref):
            continue
        value = heat.z[list(heat.y).index(note.y)][list(heat.x).index(note.x)]
        if value is not None:
            cell = viz.theme.colour_at(scale, (value - heat.zmin) / (heat.zmax - heat.zmin))
            assert viz.theme.contrast(note.font.color, cell) >= 4.5
            written += 1
    assert written > 2
