"""Show a figure, in every form that a viewer may need, or in a widget that shows one after the other."""

from __future__ import annotations

import base64
import html
import json
import warnings
from typing import Any

import plotly.graph_objects as go
from plotly.basedatatypes import BaseFigure

from snnkit import checks
from snnkit.lab.pages import web
from snnkit.lab.viz.alt import alt_text, spoken
from snnkit.lab.viz.frontend import in_jupyterlab, in_notebook, on_colab, prepare_plotly
from snnkit.lab.viz.png import png_bytes

PLOTLY_MIME = "application/vnd.plotly.v1+json"
# Newer plotly.js has a button that uploads the figure to a company's server: not from a classroom. Nor buttons that
# select, which does nothing here, or zoom in steps: one drags over what is to be larger, and a double click ends it.
NO_BUTTONS = ["sendChartToCloud", "select2d", "lasso2d", "autoScale2d", "zoomIn2d", "zoomOut2d"]
CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": NO_BUTTONS}
# Follows the window. Not in a MIME bundle: JupyterLab resizes those itself, and a plot that is as high as its place has
# no height where the place is as high as the plot.
FOLLOWING = CONFIG | {"responsive": True}


def show(figure: BaseFigure) -> None:
    """Display ``figure``, a plotly Figure or FigureWidget.

    In a notebook the output is that of ``mime_bundle``: JupyterLab draws its ``application/vnd.plotly.v1+json``,
    viewers without scripts show its PNG. On Colab plotly's own renderer draws it. An output before it holds the figure
    in words (``alt_text``) for screen readers; they are also the ``alt`` of the PNG in the output's metadata. Outside a
    notebook these words are printed (``figure.show()`` opens a browser).
    """
    without_grid(figure)
    words = alt_text(figure)
    if not in_notebook():
        print(words)
        return
    from IPython.display import display

    display({"text/html": described(words), "text/plain": ""}, raw=True)
    if on_colab():
        prepare_plotly()
        figure.show(renderer="colab", config=FOLLOWING)
    else:
        display(mime_bundle(figure), raw=True, metadata={"image/png": {"alt": words}})


def without_grid(figure: BaseFigure) -> BaseFigure:
    """The figure without grid lines over the cells of heat maps, unless its author has chosen some."""
    page: Any = figure
    for trace in page.data:
        if trace.type == "heatmap":
            for name in (f"{letter}axis{(trace[f'{letter}axis'] or letter)[1:]}" for letter in "xy"):
                if page.layout[name].showgrid is None:
                    page.layout[name].showgrid = False
    return figure


def described(words: str) -> str:
    """HTML beside a figure: words for screen readers, and the colour of its text on light and dark pages."""
    return f"{spoken(words)}<style>{web.read('plot_text.css')}</style>"


@checks.arguments
def mime_bundle(figure: BaseFigure) -> dict[str, Any]:
    """The forms of ``figure`` by MIME type: plotly's JSON, a PNG (base64) and its description in words.

    There is no PNG in JupyterLab, which would show it instead of the figure until the mouse meets it.
    """
    bundle = _drawn(figure)
    if in_jupyterlab():
        return bundle
    try:
        bundle["image/png"] = base64.b64encode(png_bytes(figure)).decode("ascii")
    except Exception as error:  # the PNG is the fallback: a figure without one is still worth showing
        warnings.warn(f"This figure is shown without a PNG: {error}", stacklevel=3)
    return bundle


def _drawn(figure: BaseFigure) -> dict[str, Any]:
    data = json.loads(without_grid(figure).to_json())  # type: ignore[arg-type]
    data.setdefault("config", {}).update(CONFIG)
    return {PLOTLY_MIME: data, "text/plain": alt_text(figure)}


def view_of(result: Any) -> FigureView | ImageView | OutputView:
    """The best view of ``result`` that can be updated in place here: its ``widget`` is displayed."""
    if not isinstance(result, go.Figure):
        return OutputView(result)
    return ImageView(result) if on_colab() else FigureView(result)


class FigureView:
    """A figure in an Output, which draws it as ``show`` does.

    Not a FigureWidget: anywidget gives up a model whose module is not loaded after 2 s, and what the kernel says later
    is lost. Plotly's module has 5 MB, so on a slow machine the figure stayed empty.
    """

    def __init__(self, figure: go.Figure) -> None:
        import ipywidgets

        self.widget = ipywidgets.Output(outputs=self._outputs(figure))

    def update(self, figure: go.Figure) -> None:
        self.widget.outputs = self._outputs(figure)

    def _outputs(self, figure: go.Figure) -> tuple[dict[str, Any], ...]:
        return ({"output_type": "display_data", "data": _drawn(figure), "metadata": {}},)


class ImageView:
    """The PNG, with its description. (ipywidgets' Image has no place for one.)"""

    def __init__(self, figure: go.Figure) -> None:
        import ipywidgets

        self.widget = ipywidgets.HTML()
        self.update(figure)

    def update(self, figure: go.Figure) -> None:
        data = base64.b64encode(png_bytes(without_grid(figure))).decode("ascii")
        alt = html.escape(alt_text(figure), quote=True)
        self.widget.value = f'<img src="data:image/png;base64,{data}" alt="{alt}" style="max-width:100%">'


class OutputView:
    """An Output for everything else that can be displayed."""

    def __init__(self, result: Any) -> None:
        import ipywidgets

        self.widget = ipywidgets.Output()
        self.update(result)

    def update(self, result: Any) -> None:
        from IPython.display import display

        with self.widget:
            self.widget.clear_output(wait=True)
            display(result)
