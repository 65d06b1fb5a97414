import base64
import sys

import plotly.graph_objects as go
import pytest

from snnkit import viz
from snnkit.viz import display, frontend
from snnkit.viz.alt import spoken
from snnkit.viz.png_traces import rgba

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


def test_only_figures_can_be_shown():
    with pytest.raises(TypeError, match="figure must be a plotly Figure, not int"):
        viz.show(3)


def test_frames_travel_in_the_bundle():
    figure = viz.frames(lambda k: go.Figure(go.Scatter(y=[0, k])), "k", [1, 2])
    data = viz.mime_bundle(figure)["application/vnd.plotly.v1+json"]
    assert len(data["frames"]) == 2 and data["layout"]["sliders"]


def test_every_feature_the_renderer_knows_can_be_drawn():
    figure = go.Figure()
    figure.add_scatter(x=[1, 10, 100], y=[1, None, 3], name="a<sub>1</sub>", line={"dash": "dot", "shape": "hv"})
    figure.add_scatter(
        x=[1, 10], y=[1, 2], mode="markers+text", text=["p", "q"], marker={"color": [1, 2], "size": [4, 9]}
    )
    figure.add_scatter(x=[1, 10], y=[1, 2], fill="tozeroy", mode="lines", showlegend=False)
    figure.add_bar(x=[1, 10], y=[2, 3], text=["2", "3"], marker={"color": ["red", "rgba(0,0,255,0.5)"]}, yaxis="y2")
    figure.add_annotation(x=1, y=2, text="<b>here</b> costs $5 or $6", ax=20, ay=-30)
    figure.add_annotation(x=0.5, y=1.0, xref="paper", yref="paper", text="there", showarrow=False)
    figure.add_hline(y=2.0, line={"dash": "dash"})
    figure.add_vrect(x0=2, x1=5, fillcolor="rgba(0,0,0,0.1)")
    figure.update_layout(yaxis2={"overlaying": "y", "side": "right"}, title={"text": "All"})
    figure.update_xaxes(type="log", tickvals=[1, 10, 100])
    plain = viz.png_bytes(go.Figure(), width=300, height=200)
    assert len(viz.png_bytes(figure, width=300, height=200)) > 3 * len(plain)
    space = go.Figure(go.Scatter3d(x=[0, 1], y=[0, 1], z=[0, 1], mode="lines+markers", marker={"color": [0, 1]}))
    assert len(viz.png_bytes(space)) > 2 * len(plain)
    across = go.Figure([go.Bar(y=["a", "b"], x=[1, 2], orientation="h", text=["1", "2"])])
    assert len(viz.png_bytes(across)) > len(plain)


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
