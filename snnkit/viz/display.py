"""Show a figure once, in every form a viewer may need: interactive plotly and a PNG in one MIME bundle."""

from __future__ import annotations

import base64
import json
import warnings
from typing import Any

from plotly.basedatatypes import BaseFigure

from .. import checks
from .alt import alt_text, spoken
from .frontend import in_notebook, on_colab, prepare_plotly
from .png import png_bytes

PLOTLY_MIME = "application/vnd.plotly.v1+json"
# Newer plotly.js has a button that uploads the figure to a company's server: not from a classroom.
CONFIG = {"displaylogo": False, "modeBarButtonsToRemove": ["sendChartToCloud"]}


def show(figure: Any) -> None:
    """Display ``figure`` (a plotly Figure).

    In a notebook one output holds both ``application/vnd.plotly.v1+json`` and ``image/png``: JupyterLab draws the
    first, GitHub, nbconvert and mail show the second. On Colab plotly's own renderer draws it. A second output holds
    the figure in words (``alt_text``) for screen readers; they are also the ``alt`` of the PNG in the output's
    metadata. Outside a notebook these words are printed (``figure.show()`` opens a browser).

    Raises:
        TypeError: ``figure`` is no plotly Figure.
    """
    words = alt_text(figure)
    if not in_notebook():
        print(words)
        return
    from IPython.display import display

    if on_colab():
        prepare_plotly()
        figure.show(renderer="colab")
    else:
        bundle = mime_bundle(figure)
        metadata = {"image/png": {"alt": words}} if "image/png" in bundle else {}
        display(bundle, raw=True, metadata=metadata)
    display({"text/html": spoken(words), "text/plain": ""}, raw=True)


def mime_bundle(figure: Any) -> dict[str, Any]:
    """The forms of ``figure`` by MIME type: plotly's JSON, a PNG (base64) and its description in words."""
    bundle = {PLOTLY_MIME: plotly_json(figure), "text/plain": alt_text(figure)}
    try:
        bundle["image/png"] = base64.b64encode(png_bytes(figure)).decode("ascii")
    except Exception as error:  # the PNG is the fallback: a figure without one is still worth showing
        warnings.warn(f"This figure is shown without a PNG: {error}", stacklevel=3)
    return bundle


def plotly_json(figure: Any) -> dict[str, Any]:
    """``figure`` as plain JSON data, as plotly's renderers send it to the notebook."""
    data = json.loads(checks.instance("figure", figure, BaseFigure, "a plotly Figure").to_json())
    data.setdefault("config", {}).update(CONFIG, responsive=True)
    return data
