"""Figures in words."""

import numpy as np
import plotly.graph_objects as go
import pytest

from snnkit import viz
from snnkit.viz import figures
from snnkit.viz.alt import MOST, alt_text, spoken
from snnkit.viz.marked import Marked, marked


def titled(*traces, **layout):
    named = {"title": {"text": "T"}, "xaxis": {"title": {"text": "time (ms)"}}, "yaxis": {"title": {"text": "rate"}}}
    return go.Figure(traces, layout=named | layout)


def test_title_and_axes_with_their_units():
    assert alt_text(titled()) == "Figure: T. Rate against time (ms)."
    log = titled().update_xaxes(type="log")
    assert "Rate against time (ms) (logarithmic)." in alt_text(log)
    assert alt_text(go.Figure()) == "Figure without a title."


@pytest.mark.parametrize(
    ("trace", "told"),
    [
        (go.Scatter(x=[1, 2, 3], y=[0, 2.5, 1], name="a"), "a: 3 points from 0 to 2.5, highest at 2."),
        (go.Scatter(y=[0, 1], mode="lines"), "line: 2 points from 0 to 1, highest at 1."),
        (go.Scatter(y=[1, None, 1], name="limit"), "limit: 1 throughout."),
        (go.Scatter(y=[None, np.nan], name="a"), "a: empty."),
        (go.Scatter(x=[1, 5, 9], y=[0, 3, 0], mode="markers", name="spikes"), "spikes: 3 marks between 1 and 9."),
        (go.Scatter(x=[4], y=[2], mode="markers", name="now"), "now: one at 4, 2."),
        (go.Scatter(x=[], y=[], mode="markers", name="off"), "off: none."),
        (go.Scatter(x=[1, 2, 1], y=[1, 3, 2], fill="toself", name="band"), "band: from 1 to 3."),
        (go.Bar(x=["p", "q"], y=[2, 1234], name="n"), "n: 2 bars, the longest 1,234 at q."),
        (go.Bar(y=["p", "q"], x=[2, 1], orientation="h"), "bars: 2 bars, the longest 2 at p."),
        (go.Bar(x=["p"], y=[2], name="n"), "n: 2 at p."),
        (go.Bar(x=[], y=[], name="n"), "n: none."),
        (go.Heatmap(z=[[1, 2], [3, 0.5]]), "map: 2 by 2 cells from 0.5 to 3."),
        (go.Heatmap(z=[[1, 2], [3, None]], x=["p", "q"], y=["r", "s"]), "cells from 1 to 3, highest at p, s."),
        (go.Heatmap(z=[[1, 1]]), "map: 1 by 2 cells, all 1."),
        (go.Heatmap(z=[[None]]), "map: 1 by 1 cells, all empty."),
        (go.Scatter3d(x=[1], y=[2], z=[3], name="on"), "on: 1 points."),
        (go.Pie(values=[1, 2], name="cake"), "cake: a trace of type pie."),
        (go.Scattergl(y=[1e-9, 2e-9], mode="lines", name="tiny"), "tiny: 2 points from 1e−09 to 2e−09"),
        (go.Scatter(y=[0, np.inf], mode="lines", name="a"), "a: one point at 0, 0."),
        (go.Scatter(x=[1, 2], y=[-3, -1.5], mode="lines", name="a"), "a: 2 points from −3 to −1.5, highest at 2."),
    ],
)
def test_what_a_trace_does(trace, told):
    assert told in alt_text(titled(trace))


def test_places_are_called_as_the_axis_calls_them():
    figure = titled(go.Bar(x=[1, 2], y=[3, 9], name="n"), go.Scatter(x=[2], y=[4], mode="markers", name="now"))
    figure.update_xaxes(tickvals=[1, 2], ticktext=["<b>yours</b>", "ours"])
    assert "the longest 9 at ours." in alt_text(figure) and "now: one at ours, 4." in alt_text(figure)


def test_what_rounding_leaves_of_zero_is_zero():
    figure = titled(go.Scatter(x=[-1, 1e-17, 1], y=[0, 5, 1234.5], mode="lines", name="a"))
    assert "from 0 to 1,234, highest at 1." in alt_text(figure)
    assert "highest at 0." in alt_text(titled(go.Scatter(x=[-1, 1e-17, 1], y=[0, 5, 1], mode="lines")))
    assert "highest at 1e−17." in alt_text(titled(go.Scatter(x=[0, 1e-17], y=[0, 5], mode="lines")))


def test_what_only_supports_others_is_not_told():
    figure = titled(go.Scatter(y=[1, 2], hoverinfo="skip"), go.Scatter(y=[1, 3], hoverinfo="skip", name="step"))
    assert alt_text(figure).count("points") == 1 and "step:" in alt_text(figure)


def test_the_ranges_of_marked_numbers_are_no_lines():
    words = alt_text(marked([Marked("a", "predicted", 2.0, 1.0, 4.0), Marked("b", "measured", 3.0)], "ms", title="T"))
    assert words == "Figure: T. Across: ms (logarithmic). predicted: one at 2, a. measured: one at 3, b."


def test_hidden_traces_are_not_told():
    words = alt_text(titled(go.Scatter(y=[1, 2], name="seen"), go.Scatter(y=[1, 2], name="not", visible="legendonly")))
    assert "seen" in words and "not:" not in words


def test_panels_and_lines_are_named():
    history = {"train_loss": [2.0, 1.0], "train_accuracy": [0.5, 0.9]}
    words = alt_text(figures.training_curves(history))
    assert "2 panels. Across: epoch." in words
    assert "In Loss: train: 2 points from 1 to 2, highest at 1." in words
    assert "In Accuracy (%): train: 2 points from 50 to 90, highest at 2." in words
    words = alt_text(figures.rate_histogram([0.0, 0.5]))
    assert "2 neurons, 1 silent, 0 saturated. Neurons against" in words and "In " not in words
    words = alt_text(figures.lines({"a": [1, 2]}, levels={"guess": 1.5}, marks={"here": 1.2}, title="t"))
    assert "Marked: guess, here." in words
    words = alt_text(figures.memory_bars({"a": {"b": 1e6}}, {"H200": 141e9}))
    assert "Marked: H200: 141 GB →." in words and "panel" not in words


def test_a_slider_is_told_with_where_it_stands():
    figure = viz.frames(lambda k: titled(go.Scatter(y=[0, k])), "beta", [0.5, 0.9], start=1)
    assert "Slider beta: 2 positions, now 0.9." in alt_text(figure)


def test_a_space_has_three_axes():
    figure = figures.event_cloud(np.ones((2, 2, 3, 3)), dt=1e-3)
    assert "time (ms), column (pixel), row (pixel)" in alt_text(figure)
    assert "on: 18 points." in alt_text(figure)


def test_what_does_not_fit_is_counted():
    many = alt_text(titled(*(go.Scatter(y=[0, i + 1], name=f"a rather long name of a trace, {i}") for i in range(30))))
    assert len(many) <= MOST and many.endswith(" more.")
    counted = int(many.split()[-2])
    assert counted + many.count(" points from") == 30
    endless = alt_text(titled(go.Scatter(y=[0, 1], name="n" * 999), title={"text": "t" * 999}))
    assert len(endless) <= MOST and "…" in endless


def test_markup_becomes_text():
    figure = titled(go.Scatter(y=[0, 1], name="tau<sub>m</sub> &amp; co"), title={"text": "<b>costs</b><br>$5 or $6"})
    assert "costs $5 or $6" in alt_text(figure) and "taum & co:" in alt_text(figure)
    assert spoken('a < b & "c"').endswith(">a &lt; b &amp; &quot;c&quot;</span>")


def test_only_figures_can_be_told():
    with pytest.raises(TypeError, match="figure must be a plotly Figure, not dict"):
        alt_text({})
