"""The forms of the panel: widgets in a notebook, a bar and lines in a terminal, a figure in a headless run."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from ..alt import alt_text, spoken
from ..display import mime_bundle, show
from ..frontend import on_colab
from ..views import FigureView, page_helpers, view_of
from .curves import Curves, Progress, epoch_words
from .stop import StopRequest

STOP = "Stop training"
AFTER_UPDATE = "Ends the training after this update; the network keeps what it has learned. So does the notebook's ■."
AFTER_EPOCH = "Ends the training after this epoch; the network keeps what it has learned."


class Renderer:
    """One form of the panel, for one run; this one shows nothing."""

    def update(self, progress: Progress, words: str) -> None:
        """Some updates further; a few times a second."""

    def epoch(self, series: Mapping[str, Any], epochs: int) -> None:
        """An epoch is over. ``series``: as ``training_curves`` takes them, with at least one of ``epochs`` epochs."""

    def draw(self, curves: Curves) -> None:
        """The curves so far."""

    def end(self, message: str, curves: Curves | None) -> None:
        """The run is over."""


class HeadlessRenderer(Renderer):
    """For runs without a viewer: one figure, when they are over."""

    def end(self, message: str, curves: Curves | None) -> None:
        if curves is not None:
            show(curves.figure())


class NotebookRenderer(Renderer):
    """For JupyterLab and Colab: widgets during the run, and plain output afterwards, which the notebook keeps.

    Args:
        curves: those it starts with.
        stop: is requested by the button.
        each_update: whether the run stops after any update, or only after an epoch.
    """

    def __init__(self, curves: Curves | None, stop: StopRequest, *, each_update: bool) -> None:
        import ipywidgets
        from IPython.display import display

        self.bar = ipywidgets.FloatProgress(min=0.0, max=1.0, layout={"flex": "1 1 8em", "width": "auto"})
        tip = AFTER_UPDATE if each_update else AFTER_EPOCH
        self.button = ipywidgets.Button(description=STOP, icon="stop", tooltip=tip, layout={"width": "auto"})
        self.text = ipywidgets.HTML()
        self._curves = curves
        self._view: Any = view_of(curves.figure() if curves else None)
        row = ipywidgets.HBox([self.bar, self.button], layout={"align_items": "center", "max_width": "48em"})
        self._above: Any = display(ipywidgets.VBox([row, self.text]), display_id=True)
        self._below: Any = display(ipywidgets.VBox([self._view.widget, *page_helpers()]), display_id=True)
        stop.listen(self.button)
        self.button.on_click(self._clicked)

    def update(self, progress: Progress, words: str) -> None:
        self.bar.value = progress.share
        self.text.value = _line(words)

    def epoch(self, series: Mapping[str, Any], epochs: int) -> None:
        if not self.bar.value:  # updates are not reported
            self.text.value = _line(f"epoch {len(series['train_loss'])} · {epoch_words(series)}")

    def draw(self, curves: Curves) -> None:
        """Longer lines cost an eighth of a new figure, so that curves keep up with the text on slow machines, too."""
        if not isinstance(self._view, FigureView) or not curves.extends(self._curves):
            self._view.update(curves.figure())
        else:
            with self._view.widget.batch_update():
                for trace in self._view.widget.data:
                    trace.x, trace.y = curves.lines[trace.meta]
                self._view.widget.layout.title.text = curves.title
        self._curves = curves

    def end(self, message: str, curves: Curves | None) -> None:
        # Not closed: a press that still waits in the kernel's queue must find its widget.
        self.button.disabled = True
        text = f'<p role="status" style="margin:4px 0"><b>{html.escape(message)}</b></p>'
        self.text.value = text
        if curves is not None:
            figure = curves.figure()
            self._view.update(figure)
            if not on_colab():  # there the view is a picture, which has its description and is saved as it is
                self._below.update(mime_bundle(figure), raw=True)
                text += spoken(alt_text(figure))
        self._above.update({"text/html": text, "text/plain": message}, raw=True)

    def _clicked(self, button: Any) -> None:
        """In another thread of the kernel, while the current update is finished; in a kernel without, never in time."""
        button.disabled, button.description = True, "Stopping …"


class TextRenderer(Renderer):
    """For a terminal a bar, and a line for each epoch above it; for a file or a simple terminal the lines alone."""

    def __init__(self, *, each_update: bool) -> None:
        from tqdm import tqdm

        shape = "{percentage:3.0f} %|{bar:30}| {desc}"
        self._bar = tqdm(total=1.0, bar_format=shape, leave=False, disable=None if each_update else True)

    def update(self, progress: Progress, words: str) -> None:
        if not self._bar.disable:
            self._bar.n = progress.share
            self._bar.set_description_str(f"{words} · Ctrl-C stops")

    def epoch(self, series: Mapping[str, Any], epochs: int) -> None:
        done = len(series["train_loss"])
        self._bar.write(f"epoch {done} of {max(done, epochs)}: {epoch_words(series)}")

    def end(self, message: str, curves: Curves | None) -> None:
        self._bar.close()
        self._bar.write(message)


def _line(words: str) -> str:
    return f'<div style="font-variant-numeric:tabular-nums">{html.escape(words)}</div>'
