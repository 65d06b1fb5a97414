"""A picture that can be replaced in place: the best kind that the front end at hand can show.

JupyterLab gets a FigureWidget. Colab and unknown front ends get an image, because FigureWidget is fragile there and
plain images work everywhere. (Updating a displayed figure through its display id leaves JupyterLab's plot as it was.)
"""

from __future__ import annotations

import importlib.util
from typing import Any

import plotly
import plotly.graph_objects as go

from .environment import on_colab
from .png import png_bytes


def view_of(result: Any) -> FigureView | ImageView | AnyView:
    """A view that starts with ``result`` and whose ``widget`` can be displayed."""
    if not isinstance(result, go.Figure):
        return AnyView(result)
    return FigureView(result) if figure_widgets_work() else ImageView(result)


def figure_widgets_work() -> bool:
    """Whether to trust FigureWidget here: not on Colab, and since plotly 6 only with anywidget."""
    if on_colab():
        return False
    return int(plotly.__version__.split(".")[0]) < 6 or importlib.util.find_spec("anywidget") is not None


class FigureView:
    """A FigureWidget; an update changes what differs, so that zoom and hidden traces stay."""

    def __init__(self, figure: go.Figure) -> None:
        self.widget: Any = go.FigureWidget(figure)
        self.widget.update_layout(uirevision="kept")

    def update(self, figure: Any) -> None:
        old, new = self.widget.data, figure.data
        if [t.type for t in old] != [t.type for t in new]:
            self.widget.data = []
            self.widget.add_traces(new)
            self._layout(figure)
            return
        with self.widget.batch_update():
            for trace, fresh in zip(old, new, strict=True):
                trace.update(_changes(trace.to_plotly_json(), fresh.to_plotly_json(), ("type", "uid")), overwrite=True)
            self._layout(figure)

    def _layout(self, figure: Any) -> None:
        changes = _changes(
            self.widget.layout.to_plotly_json(), figure.layout.to_plotly_json(), ("template", "uirevision")
        )
        self.widget.layout.update(changes, overwrite=True)


class ImageView:
    """An Image widget holding the PNG."""

    def __init__(self, figure: go.Figure) -> None:
        import ipywidgets

        self.widget = ipywidgets.Image(value=png_bytes(figure), format="png")

    def update(self, figure: go.Figure) -> None:
        self.widget.value = png_bytes(figure)


class AnyView:
    """An Output for whatever else can be displayed."""

    def __init__(self, result: Any) -> None:
        import ipywidgets

        self.widget = ipywidgets.Output()
        self.update(result)

    def update(self, result: Any) -> None:
        from IPython.display import display

        with self.widget:
            self.widget.clear_output(wait=True)
            display(result)


def _changes(old: dict[str, Any], new: dict[str, Any], fixed: tuple[str, ...]) -> dict[str, Any]:
    """``new``, with None for what only ``old`` has."""
    gone = {key: None for key in old if key not in new and key not in fixed}
    return gone | {key: value for key, value in new.items() if key not in fixed}
