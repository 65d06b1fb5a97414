"""Showing figures: every form of a bundle, in words, on paper and on Colab; listings and batch scripts."""

import base64
import html
import re
import sys
from types import SimpleNamespace

import plotly.graph_objects as go
import pytest
import torch

from snnkit.lab import viz
from snnkit.lab.viz import display, embedded, frontend, listing, png
from snnkit.lab.viz.alt import MOST, alt_text, spoken
from snnkit.train import slurm

SAID = "Figure: A line. Axes: t, v. scatter: 2 values from 3 to 4."


def simple():
    named = {"title": {"text": "A line"}, "xaxis": {"title": {"text": "t"}}, "yaxis": {"title": {"text": "v"}}}
    return go.Figure(go.Scatter(x=[1, 2], y=[3, 4]), named)


@pytest.fixture
def shown(monkeypatch):
    """A pretended notebook; the list of (data, metadata) that it was given."""
    ipython = pytest.importorskip("IPython.display")
    seen = []
    monkeypatch.setattr(ipython, "display", lambda what, raw=False, metadata=None: seen.append((what, metadata)))
    monkeypatch.setattr(display, "in_notebook", lambda: True)
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    return seen


@pytest.mark.parametrize("kind", [go.Figure, go.FigureWidget])
def test_one_output_holds_plotly_and_a_png_and_one_before_words_for_screen_readers(kind, shown):
    viz.show(kind(simple()))
    (words, _), (bundle, metadata) = shown
    assert set(bundle) == {"application/vnd.plotly.v1+json", "image/png", "text/plain"}
    data = bundle["application/vnd.plotly.v1+json"]
    assert data["data"][0]["type"] == "scatter" and data["layout"]["title"]["text"] == "A line"
    assert base64.b64decode(bundle["image/png"])[:8] == b"\x89PNG\r\n\x1a\n"
    assert bundle["text/plain"] == SAID and metadata == {"image/png": {"alt": SAID}}
    assert words == {"text/html": display.described(SAID), "text/plain": ""} and spoken(SAID) in words["text/html"]


@pytest.mark.parametrize(("metadata", "png"), [({}, True), ({"cellId": "a cell"}, False)])
def test_jupyterlab_whose_requests_name_the_cell_gets_no_png_and_resizes_the_figure_itself(metadata, png, monkeypatch):
    kernel = SimpleNamespace(get_parent=lambda: {"metadata": metadata})
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=kernel))
    bundle = display.mime_bundle(simple())
    assert ("image/png" in bundle) is png
    assert "responsive" not in bundle[display.PLOTLY_MIME]["config"] and display.FOLLOWING["responsive"]


def test_a_trace_without_png_form_is_still_shown(shown):
    with pytest.warns(UserWarning, match="'pie' has no PNG form"):
        viz.show(go.Figure(go.Pie(values=[1, 2])))
    assert set(shown[1][0]) == {"application/vnd.plotly.v1+json", "text/plain"}


def test_colab_gets_plotlys_own_renderer(shown, monkeypatch):
    used = []
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    monkeypatch.setattr(go.Figure, "show", lambda figure, renderer, config: used.append(renderer))
    viz.show(simple())
    assert used == ["colab"] and [set(what) for what, _ in shown] == [{"text/html", "text/plain"}]


def test_where_the_code_runs(monkeypatch, capsys):
    viz.show(simple())
    assert capsys.readouterr().out == f"{SAID}\n"
    monkeypatch.setenv("SNNKIT_HEADLESS", "0")
    assert not frontend.headless()
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    assert frontend.headless() and not frontend.live()
    monkeypatch.delenv("COLAB_RELEASE_TAG", raising=False)
    assert not frontend.on_colab()
    monkeypatch.setitem(sys.modules, "google.colab", object())
    assert frontend.on_colab()


@pytest.mark.parametrize(
    ("trace", "words"),
    [
        (go.Scatter(y=[1, None, 2.5], name="a<sub>1</sub> &amp; b"), "a1 & b: 2 values from 1 to 2.5."),
        (go.Scatter(x=[], y=[], name="off"), "off: nothing."),
        (go.Scatter(y=[-3, -1.5], name="a"), "a: 2 values from −3 to −1.5."),
        (go.Scatter(y=[-0.5], name="a"), "a: 1 value, −0.5."),
        (go.Bar(y=["p", "q"], x=[2, 1], orientation="h"), "bar: 2 values from 1 to 2."),
        (go.Heatmap(z=[[1, None], [3, 0.5]]), "heatmap: 3 values from 0.5 to 3."),
        (go.Scatter(y=[1, 2], hoverinfo="skip"), "Figure without a title."),
        (go.Scatter(y=[0, 1], name="n" * 999), "…"),
    ],
)
def test_a_trace_in_words(trace, words):
    text = alt_text(go.Figure(trace))
    assert text.endswith(words) and len(text) <= MOST
    assert spoken('a < "c"').endswith(">a &lt; &quot;c&quot;</span>")


def test_numbers_in_named_rows_are_those_across():
    numbers = [viz.figures.Marked("a", "measured", 5.0), viz.figures.Marked("b", "measured", 70.0)]
    assert alt_text(viz.figures.marked(numbers, "ms")).endswith("measured: 2 values from 5 to 70.")


# ---- on paper


def test_what_learners_may_draw_has_a_png():
    figure = go.Figure()
    figure.add_scatter(x=[1, 10, 100], y=[1, None, 3], name="a<sub>1</sub>", line={"dash": "dot", "shape": "hv"})
    figure.add_scatter(x=[1, 10], y=[1, 2], mode="markers", marker={"color": [1, 2], "size": [4, 9]})
    figure.add_bar(x=[1, 10], y=[2, 3], text=["2", "3"], marker={"color": ["red", "rgba(0,0,255,0.5)"]})
    figure.add_annotation(x=1, y=2, text="<b>here</b> costs $5 or $6", ax=20, ay=-30)
    figure.add_hline(y=2.0, line={"dash": "dash"})
    figure.add_vrect(x0=2, x1=5, fillcolor="rgba(0,0,0,0.1)")
    figure.update_xaxes(type="log", tickvals=[1, 10, 100])
    empty = len(viz.png_bytes(go.Figure()))
    assert len(viz.png_bytes(figure)) > 2 * empty
    cloud = go.Scatter3d(x=[0, 1], y=[0, 1], z=[0, 1], mode="markers")
    assert len(viz.png_bytes(go.Figure(cloud))) > empty


def test_panels_that_share_an_axis_have_one_scale_on_paper():
    figure = viz.figures.panels(1, 2, ["a", "b"], shared_yaxes=True)
    figure.add_scatter(x=[1, 2], y=[90.0, 2.0], row=1, col=1).add_scatter(x=[1, 2], y=[3.0, 0.2], row=1, col=2)
    figure.update_yaxes(type="log", tickvals=[0.5, 5, 50])
    page = png._Page(figure)
    page.paint()
    (left, right) = page.axes.values()
    low, high = left.get_ylim()
    assert right.get_ylim() == (low, high) and low < 0.2 and high > 90
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["0.5", "5", "50"]


# ---- in the page


def test_what_computes_in_the_page_brings_its_data_and_its_program(shown, monkeypatch):
    monkeypatch.setattr(embedded, "in_notebook", lambda: True)
    spikes = torch.tensor([[1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    viz.listen({"</script>": spikes, "one": spikes[:, 0]}, seconds_per_step=0.5)
    viz.landscape(torch.ones(2, 2), torch.zeros(2, 2, 2), low=0.0, high=1.0, target=(0.5, 0.25))
    (first, _), (second, _) = shown
    assert '"neurons":[[0,2],[2]]' in first["text/html"] and first["text/html"].count("</script>") == 1
    assert first["text/plain"].startswith("To listen to, 1.5 s each: </script> 3 spikes, one 2")
    assert '"gradient":[[[0.0,0.0],[0.0,0.0]],' in second["text/html"] and "import {" not in second["text/html"]
    with pytest.raises(ValueError, match=r"trains must be .* but they are \[\[3\], \[2\]\]"):
        viz.listen({"a": spikes[:, 0], "b": spikes[:2, 0]})
    with pytest.raises(ValueError, match=r"loss must be real numbers, \[2, 2\]"):
        viz.landscape(torch.ones(2, 3), torch.zeros(2, 2, 3), low=0.0, high=1.0, target=(0, 0))


def test_a_page_in_a_notebook_is_part_of_it_unless_it_is_large(shown, monkeypatch, tmp_path, capsys):
    page = tmp_path / "net.html"
    page.write_text('<title>A &amp; B</title><p class="x">', encoding="utf-8")
    viz.embed(page)
    assert capsys.readouterr().out == "net.html, 0 kB, opens in any browser.\n" and not shown
    monkeypatch.setattr(embedded, "in_notebook", lambda: True)
    viz.embed(page, compact=True, height=520)
    ((made, _),) = shown
    assert 'name="compact" title="A &amp; B"' in made["text/html"] and "height: 520px" in made["text/html"]
    assert 'srcdoc="&lt;title&gt;A &amp;amp; B&lt;/title&gt;&lt;p class=&quot;x&quot;&gt;"' in made["text/html"]
    page.write_text("x" * (embedded.MOST_LETTERS + 1))
    viz.embed(page)
    assert "net.html, 1,000 kB" in capsys.readouterr().out and len(shown) == 1


# ---- listings and batch scripts

TEXTS = {"C++": "if (a < b) return 1.0f;  // why", "plain": "v0 = sub(x, s0) & <b>"}


def without_tags(page):
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_nothing_of_a_listing_is_lost():
    page = listing(TEXTS)._repr_html_()
    assert without_tags(page) == "C++" + TEXTS["C++"] + "plain" + TEXTS["plain"] and "<b>" not in page
    assert repr(listing(TEXTS)).startswith("== C++\nif (a < b)")


TRAIN = "snnkit train digits --checkpoint run.pt"


def test_each_line_of_a_script_is_beside_what_it_is_for_and_its_problems():
    text = slurm.script(slurm.Request(TRAIN)).replace("SIGUSR1@90", "SIGUSR1@9000").replace("#SBATCH --requeue\n", "")
    table = viz.sbatch_table(text)
    shown = " ".join(repr(table).split())
    for line, why in slurm.explain(text):
        assert " ".join(line.split()) in shown and " ".join(why.split()) in shown
    on_line, missing = table.problems
    assert on_line.what in shown[shown.index("SIGUSR1@9000") :] and on_line.fix in shown
    assert shown.endswith(f"✗ {missing.what} Fix: {missing.fix}.")


def test_the_form_explains_the_script_of_its_controls(monkeypatch):
    given = []
    monkeypatch.setattr("snnkit.lab.viz.listings.explore", lambda fn, **controls: given.append((fn, controls)))
    viz.sbatch_form(TRAIN, nodes=2, account="us")
    ((fn, controls),) = given
    assert set(controls) == {"nodes", "time", "gpus_per_node", "cpus_per_task", "signal_seconds", "requeue"}
    assert "#SBATCH --nodes=2" in repr(fn()) and "#SBATCH --account=us" in repr(fn())
    assert "#SBATCH --nodes=4" in repr(fn(nodes=4)) and "--no-requeue" in repr(fn(requeue=False))


def test_no_grid_lines_over_the_cells_of_heat_maps(shown):
    cells = go.Figure(go.Heatmap(z=[[0, 1], [1, 0]])).update_yaxes(showgrid=True)
    viz.show(cells)
    assert cells.layout.xaxis.showgrid is False and cells.layout.yaxis.showgrid is True
    lines = go.Figure(go.Scatter(x=[0, 1], y=[0, 1]))
    viz.show(lines)
    assert lines.layout.xaxis.showgrid is None
