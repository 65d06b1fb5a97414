"""Showing figures: every form of a bundle, in words, on Colab; and listings."""

import base64
import re
import sys

import numpy as np
import plotly.graph_objects as go
import pytest

from snnkit import viz
from snnkit.viz import display, figures, frontend, listing
from snnkit.viz.alt import MOST, alt_text, spoken
from snnkit.viz.png import rgba

TOLD = "Figure: A line. V against t. line: 2 points from 3 to 4, highest at 2."


def simple():
    figure = go.Figure(go.Scatter(x=[1, 2], y=[3, 4]))
    return figure.update_layout(
        title={"text": "A line"}, xaxis={"title": {"text": "t"}}, yaxis={"title": {"text": "v"}}
    )


@pytest.fixture
def shown(monkeypatch):
    """A pretended notebook; the list of (data, metadata) that it was given."""
    ipython = pytest.importorskip("IPython.display")
    seen = []
    monkeypatch.setattr(ipython, "display", lambda what, raw=False, metadata=None: seen.append((what, metadata)))
    monkeypatch.setattr(display, "in_notebook", lambda: True)
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    return seen


def test_one_output_holds_plotly_and_a_png(shown):
    viz.show(simple())
    (bundle, metadata), _ = shown
    assert set(bundle) == {"application/vnd.plotly.v1+json", "image/png", "text/plain"}
    data = bundle["application/vnd.plotly.v1+json"]
    assert data["data"][0]["type"] == "scatter" and data["layout"]["title"]["text"] == "A line"
    assert base64.b64decode(bundle["image/png"])[:8] == b"\x89PNG\r\n\x1a\n"
    assert bundle["text/plain"] == TOLD and metadata == {"image/png": {"alt": TOLD}}


def test_a_second_output_is_heard_and_not_seen(shown):
    viz.show(simple())
    words, metadata = shown[1]
    assert words == {"text/html": spoken(TOLD), "text/plain": ""} and not metadata
    assert TOLD in words["text/html"] and "overflow:hidden" in words["text/html"]


def test_a_trace_without_png_form_is_still_shown(shown):
    with pytest.warns(UserWarning, match="'pie' has no PNG form"):
        viz.show(go.Figure(go.Pie(values=[1, 2])))
    bundle, metadata = shown[0]
    assert set(bundle) == {"application/vnd.plotly.v1+json", "text/plain"} and metadata == {}


def test_colab_gets_plotlys_own_renderer(shown, monkeypatch):
    used = []
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    monkeypatch.setattr(go.Figure, "show", lambda figure, renderer: used.append(renderer))
    viz.show(simple())
    assert used == ["colab"] and [set(what) for what, _ in shown] == [{"text/html", "text/plain"}]


def test_outside_a_notebook_it_is_told_in_words(capsys):
    viz.show(simple())
    assert capsys.readouterr().out == f"{TOLD}\n"


def test_frames_travel_in_the_bundle():
    figure = viz.frames(lambda k: go.Figure(go.Scatter(y=[0, k])), "k", [1, 2])
    data = viz.mime_bundle(figure)["application/vnd.plotly.v1+json"]
    assert len(data["frames"]) == 2 and data["layout"]["sliders"]


def test_what_learners_may_draw_has_a_png():
    figure = go.Figure()
    figure.add_scatter(x=[1, 10, 100], y=[1, None, 3], name="a<sub>1</sub>", line={"dash": "dot", "shape": "hv"})
    figure.add_scatter(x=[1, 10], y=[1, 2], mode="markers", marker={"color": [1, 2], "size": [4, 9]})
    figure.add_bar(x=[1, 10], y=[2, 3], text=["2", "3"], marker={"color": ["red", "rgba(0,0,255,0.5)"]})
    figure.add_annotation(x=1, y=2, text="<b>here</b> costs $5 or $6", ax=20, ay=-30)
    figure.add_hline(y=2.0, line={"dash": "dash"})
    figure.add_vrect(x0=2, x1=5, fillcolor="rgba(0,0,0,0.1)")
    figure.update_xaxes(type="log", tickvals=[1, 10, 100])
    empty = viz.png_bytes(go.Figure(), width=300, height=200)
    assert len(viz.png_bytes(figure, width=300, height=200)) > 3 * len(empty)
    across = go.Figure([go.Bar(y=["a", "b"], x=[1, 2], orientation="h", text=["1", "2"])])
    assert len(viz.png_bytes(across)) > len(empty)


def test_colours():
    assert rgba("rgba(255, 0, 0, 0.5)", 0.5) == (1.0, 0.0, 0.0, 0.25)
    assert rgba("rgb(0,0,255)") == (0.0, 0.0, 1.0, 1.0)
    assert rgba("#ff0000", 0.5) == (1.0, 0.0, 0.0, 0.5)


def test_where_the_code_runs(monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "0")
    assert not frontend.headless()
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    assert frontend.headless() and not frontend.live()
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    assert not frontend.on_colab()
    monkeypatch.setitem(sys.modules, "google.colab", object())
    assert frontend.on_colab()
    assert not frontend.in_notebook()


# ---- in words


def titled(*traces, **layout):
    named = {"title": {"text": "T"}, "xaxis": {"title": {"text": "time (ms)"}}, "yaxis": {"title": {"text": "rate"}}}
    return go.Figure(traces, layout=named | layout)


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (go.Scatter(x=[1, 2, 3], y=[0, 2.5, 1], name="a"), "a: 3 points from 0 to 2.5, highest at 2."),
        (go.Scatter(y=[0, 1], mode="lines"), "line: 2 points from 0 to 1, highest at 1."),
        (go.Scatter(y=[1, None, 1], name="limit"), "limit: 3 points all 1."),
        (go.Scatter(y=[None, np.nan], name="a"), "a: none."),
        (go.Scatter(x=[1, 5, 9], y=[0, 3, 0], mode="markers", name="spikes"), "spikes: 3 marks from 1 to 9."),
        (go.Scatter(x=[4], y=[2], mode="markers", name="now"), "now: one at 4, 2."),
        (go.Scatter(x=[], y=[], mode="markers", name="off"), "off: none."),
        (go.Scatter(x=[1, 2, 1], y=[1, 3, 2], fill="toself", name="band"), "band: 3 points from 1 to 3."),
        (go.Scatter(x=[1, 2], y=[-3, -1.5], mode="lines", name="a"), "a: 2 points from −3 to −1.5, highest at 2."),
        (go.Scatter(x=[-1, 1e-17, 1], y=[0, 5, 1], name="a"), "from 0 to 5, highest at 0."),
        (go.Scattergl(y=[1e-9, 2e-9], mode="lines", name="tiny"), "tiny: 2 points from 1e−09 to 2e−09"),
        (go.Bar(x=["p", "q"], y=[2, 1234], name="n"), "n: 2 bars from 2 to 1,234, highest at q."),
        (go.Bar(y=["p", "q"], x=[2, 1], orientation="h"), "bars: 2 bars from 1 to 2, highest at p."),
        (go.Bar(x=["p"], y=[2], name="n"), "n: one at p, 2."),
        (go.Heatmap(z=[[1, 2], [3, 0.5]]), "map: 2 by 2 cells from 0.5 to 3."),
        (go.Heatmap(z=[[None]]), "map: 1 by 1 cells without a value."),
        (go.Scatter3d(x=[1], y=[2], z=[3], name="on"), "on: 1 points."),
        (go.Pie(values=[1, 2], name="cake"), "cake: a trace of type pie."),
    ],
)
def test_a_trace_in_words(trace, words):
    text = alt_text(titled(trace))
    assert words in text and text.startswith("Figure: T. Rate against time (ms).")


def test_places_have_the_names_of_their_axis_and_hidden_or_supporting_traces_none():
    hidden = [go.Scatter(y=[1, 2], hoverinfo="skip"), go.Scatter(y=[1, 2], name="not", visible="legendonly")]
    figure = titled(go.Bar(x=[1, 2], y=[3, 9], name="n"), *hidden)
    text = alt_text(figure.update_xaxes(tickvals=[1, 2], ticktext=["<b>yours</b>", "ours"]))
    assert text.endswith("n: 2 bars from 3 to 9, highest at ours.")


def test_panels_levels_and_sliders_are_in_the_words():
    history = {"train_loss": [2.0, 1.0], "train_accuracy": [0.5, 0.9]}
    words = alt_text(figures.training_curves(history))
    assert "Labels: Loss; Accuracy (%)." in words and "Loss: train: 2 points from 1 to 2, highest at 1." in words
    words = alt_text(figures.lines({"a": [1, 2]}, levels={"guess": 1.5}, marks={"here": 1.2}, title="t"))
    assert "Labels: guess; here." in words
    figure = viz.frames(lambda k: titled(go.Scatter(y=[0, k])), "beta", [0.5, 0.9], start=1)
    assert "Slider beta: 2 positions, now 0.9." in alt_text(figure)


def test_what_does_not_fit_is_counted():
    many = alt_text(titled(*(go.Scatter(y=[0, i + 1], name=f"a rather long name of a trace, {i}") for i in range(30))))
    assert len(many) <= MOST and many.endswith(" more.")
    assert int(many.split()[-2]) + many.count(" points from") == 30
    endless = alt_text(titled(go.Scatter(y=[0, 1], name="n" * 999), title={"text": "t" * 999}))
    assert len(endless) <= MOST and "…" in endless


def test_markup_becomes_text():
    figure = titled(go.Scatter(y=[0, 1], name="tau<sub>m</sub> &amp; co"), title={"text": "<b>costs</b><br>$5 or $6"})
    assert "costs $5 or $6" in alt_text(figure) and "taum & co:" in alt_text(figure)
    assert spoken('a < b & "c"').endswith(">a &lt; b &amp; &quot;c&quot;</span>")
    assert alt_text(go.Figure()) == "Figure without a title."


# ---- listings


TEXTS = {"C++": ("if (a < b) return 1.0f;  // why", "cpp"), "plain": "v0 = sub(x, s0) & <b>"}


def without_tags(page):
    return re.sub(r"<[^>]+>", "", page).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def test_nothing_of_the_text_is_lost():
    page = listing(TEXTS)._repr_html_()
    assert without_tags(page) == "C++" + TEXTS["C++"][0] + "plain" + TEXTS["plain"]
    assert "<b>" not in page


def test_colours_are_written_into_the_page_and_leave_its_background():
    page = listing(TEXTS)._repr_html_()
    assert page.count("<span style=") >= 3
    assert "class=" not in page.replace('class="snnkit-listing"', "")
    assert set(re.findall(r"background[^;\"]*", page)) == {"background:none"}


def test_line_breaks_and_indentation_stay():
    text = "\n\ndef f():\n    return 1\n\n    # end"
    page = listing({"f": (text, "python")})._repr_html_()
    assert without_tags(page) == "f" + text


def test_without_pygments_there_are_no_colours(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygments", None)
    page = listing(TEXTS)._repr_html_()
    assert "<span" not in page and without_tags(page).endswith(TEXTS["plain"])


def test_as_text():
    assert repr(listing(TEXTS)).startswith("== C++\nif (a < b)")
