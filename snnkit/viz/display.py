"""Show a figure once, in every form a viewer may want: interactive plotly and a PNG in one MIME bundle."""

from __future__ import annotations

import base64
import json
import warnings
from typing import Any

from plotly.basedatatypes import BaseFigure

from .environment import in_notebook, on_colab
from .png import png_bytes

PLOTLY_MIME = "application/vnd.plotly.v1+json"


def show(figure: Any) -> None:
    """Display ``figure`` (a plotly Figure).

    In a notebook one output holds both ``application/vnd.plotly.v1+json`` and ``image/png``: JupyterLab draws the
    first, GitHub, nbconvert and mail show the second. On Colab plotly's own renderer draws it. Outside a notebook a
    line of text says what would be shown (``figure.show()`` opens a browser).

    Raises:
        TypeError: ``figure`` is no plotly Figure.
    """
    bundle = mime_bundle(figure) if in_notebook() and not on_colab() else None
    if bundle is None and not in_notebook():
        print(alt_text(figure))
    elif bundle is None:
        _checked(figure).show(renderer="colab")
    else:
        from IPython.display import display

        display(bundle, raw=True)


def mime_bundle(figure: Any) -> dict[str, Any]:
    """The forms of ``figure`` by MIME type: plotly's JSON, a PNG (base64) and a line of text."""
    bundle = {PLOTLY_MIME: plotly_json(figure), "text/plain": alt_text(figure)}
    try:
        bundle["image/png"] = base64.b64encode(png_bytes(figure)).decode("ascii")
    except Exception as error:  # the PNG is the fallback: a figure that has none is still worth showing
        warnings.warn(f"This figure is shown without a PNG: {error}", stacklevel=3)
    return bundle


def plotly_json(figure: Any) -> dict[str, Any]:
    """``figure`` as plain JSON data, as plotly's renderers send it to the notebook."""
    data = json.loads(_checked(figure).to_json())
    data.setdefault("config", {}).update(displaylogo=False, responsive=True)
    return data


def alt_text(figure: Any) -> str:
    """One line for those who cannot see the figure: its title and its axes."""
    layout = _checked(figure).layout
    axes = [axis.title.text for axis in (layout.xaxis, layout.yaxis) if axis.title.text]
    return f"Figure: {layout.title.text or 'untitled'}" + (f" ({' against '.join(reversed(axes))})" if axes else "")


def _checked(figure: Any) -> Any:
    if not isinstance(figure, BaseFigure):
        raise TypeError(f"figure must be a plotly Figure, not {type(figure).__name__}")
    return figure
