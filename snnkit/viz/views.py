"""A picture that can be replaced in place: the best kind that the front end at hand can show.

JupyterLab gets a FigureWidget. Colab and unknown front ends get an image, because FigureWidget is fragile there and
plain images work everywhere. (Updating a displayed figure through its display id leaves JupyterLab's plot as it was.)
Figures with frames play in the browser, and are replaced as a whole.
"""

from __future__ import annotations

import base64
import html
import importlib.util
from typing import Any

import plotly
import plotly.graph_objects as go

from .alt import alt_text
from .display import CONFIG, PLOTLY_MIME, plotly_json
from .frontend import on_colab, page_helper, prepare_plotly
from .png import png_bytes


def view_of(result: Any) -> FigureView | ImageView | FramesView | PageView | AnyView:
    """A view that starts with ``result`` and whose ``widget`` can be displayed."""
    if not isinstance(result, go.Figure):
        return AnyView(result)
    if result.frames:
        return PageView(result) if on_colab() else FramesView(result)
    return FigureView(result) if figure_widgets_work() else ImageView(result)


def fits(view: Any, result: Any) -> bool:
    """Whether ``view`` can show ``result``, or another must be made with ``view_of``."""
    if not isinstance(result, go.Figure):
        return isinstance(view, AnyView)
    return isinstance(view, (FramesView, PageView) if result.frames else (FigureView, ImageView))


def figure_widgets_work() -> bool:
    """Whether to trust FigureWidget here: not on Colab, and since plotly 6 only with anywidget."""
    if on_colab():
        return False
    return int(plotly.__version__.split(".")[0]) < 6 or importlib.util.find_spec("anywidget") is not None


class FigureView:
    """A FigureWidget; an update changes what differs, so that zoom and hidden traces stay."""

    def __init__(self, figure: go.Figure) -> None:
        prepare_plotly()
        # Drawn before it is on the page, it would else stay at plotly's 700 pixels, however wide the page is.
        self.widget: Any = go.FigureWidget(go.Figure(figure).update_layout(autosize=True, uirevision="constant"))
        self.widget._config = CONFIG | {"responsive": True}

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
            self.widget.layout.to_plotly_json(), figure.layout.to_plotly_json(), ("template", "uirevision", "autosize")
        )
        self.widget.layout.update(changes, overwrite=True)


def page_helpers() -> tuple[Any, ...]:
    """What belongs into a VBox with live figures or sliders besides them: one widget without a look, or none."""
    if not figure_widgets_work() or importlib.util.find_spec("anywidget") is None:
        return ()
    return (page_helper(),)


class ImageView:
    """The PNG, with its description. (ipywidgets' Image has no place for one.)"""

    def __init__(self, figure: go.Figure) -> None:
        import ipywidgets

        self.widget = ipywidgets.HTML()
        self.update(figure)

    def update(self, figure: go.Figure) -> None:
        data = base64.b64encode(png_bytes(figure)).decode("ascii")
        alt = html.escape(alt_text(figure), quote=True)
        self.widget.value = f'<img src="data:image/png;base64,{data}" alt="{alt}" style="max-width:100%">'


class FramesView:
    """A figure whose frames play in the browser. FigureWidget knows no frames, so an Output holds it."""

    def __init__(self, figure: go.Figure) -> None:
        import ipywidgets

        self.widget = ipywidgets.Output()
        self.update(figure)

    def update(self, figure: go.Figure) -> None:
        from IPython.display import display

        with self.widget:
            self.widget.clear_output(wait=True)
            # No PNG beside it: JupyterLab would show that until the pointer is over it.
            display({PLOTLY_MIME: plotly_json(figure), "text/plain": alt_text(figure)}, raw=True)


class PageView:
    """The same where Output widgets don't run plotly: a page within the page, which fetches plotly.js."""

    def __init__(self, figure: go.Figure) -> None:
        import ipywidgets

        self.widget = ipywidgets.HTML()
        self.update(figure)

    def update(self, figure: go.Figure) -> None:
        page = figure.to_html(include_plotlyjs="cdn", full_html=True, auto_play=False, config=CONFIG)
        layout: Any = figure.layout
        high = int(layout.height or 450) + 20
        title = html.escape(alt_text(figure), quote=True)
        self.widget.value = (
            f'<iframe srcdoc="{html.escape(page, quote=True)}" title="{title}" '
            f'style="width:100%;height:{high}px;border:0"></iframe>'
        )


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
