import json

import pytest

from snnkit.tools import run_report

nbformat = pytest.importorskip("nbformat")
pytest.importorskip("nbconvert")
go = pytest.importorskip("plotly.graph_objects")


def notebook(*figures):
    from snnkit import viz

    outputs = [nbformat.v4.new_output("display_data", viz.mime_bundle(figure)) for figure in figures]
    outputs.append(nbformat.v4.new_output("stream", text="words"))
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=outputs)])


def framed():
    from snnkit import viz

    return viz.frames(lambda k: go.Figure(go.Scatter(y=[0, k])), "k", [1, 2])


def figure_of(markup):
    """The figure that a page's script holds."""
    text = markup.split("const figure = ", 1)[1]
    return json.JSONDecoder().raw_decode(text)[0]


def test_figures_become_scripts_with_their_frames():
    made = notebook(framed(), go.Figure(go.Bar(y=[1])))
    assert run_report.embed_plotly(made) == 2
    first, second, words = made.cells[0].outputs
    assert len(figure_of(first.data["text/html"])["frames"]) == 2
    assert figure_of(second.data["text/html"])["data"][0]["type"] == "bar"
    assert 'src="data:image/png;base64,iVBOR' in first.data["text/html"]
    assert words.text == "words"
    ids = {output.data["text/html"].split('id="', 1)[1].split('"', 1)[0] for output in (first, second)}
    assert len(ids) == 2


def test_a_title_cannot_end_the_script():
    made = notebook(go.Figure(layout={"title": {"text": '</script> "quoted" <b>bold</b>'}}))
    run_report.embed_plotly(made)
    markup = made.cells[0].outputs[0].data["text/html"]
    assert markup.count("</script>") == 1
    assert figure_of(markup)["layout"]["title"]["text"] == '</script> "quoted" <b>bold</b>'
    label = markup.split('aria-label="', 1)[1].split('"', 1)[0]
    assert "&quot;quoted&quot;" in label or "quoted" in label


def test_the_page_and_its_script(tmp_path):
    for folder in ("notebooks", "html"):
        (tmp_path / folder).mkdir()
    for name, made in {"01_one": notebook(framed()), "02_none": notebook()}.items():
        nbformat.write(made, tmp_path / "notebooks" / f"{name}.ipynb")
        run_report.render_copy(tmp_path, name)
    page = (tmp_path / "html" / "01_one.html").read_text("utf-8")
    assert page.index("plotly.min.js") < page.index("require")
    assert "Plotly.newPlot" in page and "<title>01_one</title>" in page
    assert "plotly.min.js" not in (tmp_path / "html" / "02_none.html").read_text("utf-8")
    assert (tmp_path / "html" / "plotly.min.js").stat().st_size > 1_000_000
    assert len(page) < 1_000_000
