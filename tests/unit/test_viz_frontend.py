"""Showing a figure for the first time is quick, and a live figure is as wide as its place."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import plotly.graph_objects as go
import pytest

from snnkit.viz.views import FigureView

pytest.importorskip("ipywidgets")

SHOWN = {
    "live figure": "from snnkit.viz.views import FigureView; FigureView(go.Figure())",
    "figure on Colab": "from snnkit.viz import display; display.in_notebook = lambda: True; display.show(go.Figure())",
}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("rfc3987_syntax") is None, reason="the slow import is not installed")
@pytest.mark.parametrize("what", SHOWN)
def test_the_slow_import_is_left_out_and_still_to_be_had(what, monkeypatch):
    if "Colab" in what:
        monkeypatch.setenv("COLAB_RELEASE_TAG", "test")
    code = f"""
import sys
import plotly.graph_objects as go
{SHOWN[what]}
assert "jsonschema" in sys.modules, "it would be imported later, and slowly"
assert "rfc3987_syntax" not in sys.modules
import rfc3987_syntax
"""
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, timeout=120)


def test_a_live_figure_follows_the_width_of_its_place_whatever_is_put_into_it():
    view = FigureView(go.Figure())
    assert view.widget._config["responsive"] is True
    assert "sendChartToCloud" in view.widget._config["modeBarButtonsToRemove"]
    view.update(go.Figure(go.Scatter(y=[1, 2])))
    view.update(go.Figure(go.Scatter(y=[2, 1]), layout={"title": {"text": "again"}}))
    assert view.widget.layout.autosize is True
    assert view.widget.layout.title.text == "again"
