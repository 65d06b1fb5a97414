"""For JupyterLab and Colab: a bar, a button that stops, a line of figures, and the curves."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from ..alt import alt_text, spoken
from ..display import mime_bundle
from ..environment import on_colab
from ..views import FigureView, page_helpers, view_of
from .curves import Curves
from .rows import epoch_row
from .standing import Standing
from .stop import StopRequest

STOP = "Stop training"
AFTER_UPDATE = "Ends the training after this update; the network keeps what it has learned. So does the notebook's ■."
AFTER_EPOCH = "Ends the training after this epoch; the network keeps what it has learned."


class NotebookFace:
    """Widgets while the run goes on, plain output when it is over: that is still there when the notebook is reopened.

    Args:
        figure: the curves it starts with.
        stop: what the button asks.
        each_update: whether the run will be stopped after any update, or only after an epoch.
    """

    draws = True

    def __init__(self, figure: Any, stop: StopRequest, *, each_update: bool) -> None:
        import ipywidgets
        from IPython.display import display

        self.bar = ipywidgets.FloatProgress(min=0.0, max=1.0, layout={"flex": "1 1 8em", "width": "auto"})
        tip = AFTER_UPDATE if each_update else AFTER_EPOCH
        self.button = ipywidgets.Button(description=STOP, icon="stop", tooltip=tip, layout={"width": "auto"})
        self.told = ipywidgets.HTML()
        self._view = view_of(figure)
        self.extends = isinstance(self._view, FigureView)
        row = ipywidgets.HBox([self.bar, self.button], layout={"align_items": "center", "max_width": "48em"})
        self.controls = ipywidgets.VBox([row, self.told])
        self._above: Any = display(self.controls, display_id=True)
        below = ipywidgets.VBox([self._view.widget, *page_helpers()])
        self._below: Any = display(below, display_id=True)
        stop.listen(self.button)
        self.button.on_click(self._heard)

    def moved(self, standing: Standing) -> None:
        self.bar.value = standing.share
        self.told.value = _line(standing.words())

    def epoch(self, series: Mapping[str, Any]) -> None:
        if not self.bar.value:  # nobody tells of updates
            self.told.value = _line([f"epoch {len(series['train_loss'])}", *_pairs(series)])

    def draw(self, figure: Any) -> None:
        self._view.update(figure)

    def extend(self, curves: Curves) -> None:
        widget: Any = self._view.widget
        with widget.batch_update():
            for trace in widget.data:
                if trace.meta in curves.lines:
                    trace.x, trace.y = curves.lines[trace.meta]
            widget.layout.title.text = curves.title

    def end(self, message: str, figure: Any) -> None:
        # Not closed: a press that still waits in the kernel's queue must find its widget.
        self.button.disabled = True
        text = f'<p role="status" style="margin:4px 0"><b>{html.escape(message)}</b></p>'
        self.told.value = text
        if figure is not None:
            self.draw(figure)
            if not on_colab():  # there the view is a picture, which has its description and is saved as it is
                self._below.update(mime_bundle(figure), raw=True)
                text += spoken(alt_text(figure))
        self._above.update({"text/html": text, "text/plain": message}, raw=True)

    def _heard(self, button: Any) -> None:
        """In a thread of the kernel's, while the update under way is finished; if it has none, never in time."""
        button.disabled, button.description = True, "Stopping …"


def _pairs(series: Mapping[str, Any]) -> list[str]:
    return [f"{head} {number}" for head, number in epoch_row(series).items()]


def _line(words: list[str]) -> str:
    return f'<div style="font-variant-numeric:tabular-nums">{html.escape(" · ".join(words))}</div>'
