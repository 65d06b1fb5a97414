"""The forms of the panel: widgets in a notebook, a bar and lines in a terminal, a figure in a headless run."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from snnkit.lab.viz.alt import alt_text
from snnkit.lab.viz.display import described, mime_bundle, show, view_of
from snnkit.lab.viz.frontend import on_colab, page_helpers
from snnkit.lab.viz.live.curves import epoch_words
from snnkit.lab.viz.live.stop import StopRequest

STOP = "Stop training"
AFTER_UPDATE = "Ends the training after this update; the network keeps what it has learned. So does the notebook's ■."
AFTER_EPOCH = "Ends the training after this epoch; the network keeps what it has learned."


class Renderer:
    """One form of the panel, for one run. This one shows only a figure at the end of the run."""

    def update(self, share: float, words: str) -> None:
        """Called a few times a second, with the share of the run that is done."""

    def epoch(self, series: Mapping[str, Any], epochs: int) -> None:
        """An epoch is over. ``series``: as ``training_curves`` takes them, with at least one of ``epochs`` epochs."""

    def draw(self, figure: Any) -> None:
        """The curves so far; None: there are none."""

    def end(self, message: str, figure: Any) -> None:
        """The run is over."""
        if figure is not None:
            show(figure)


class NotebookRenderer(Renderer):
    """For JupyterLab and Colab: widgets during the run, and plain output afterwards, which the notebook keeps.

    Its button requests ``stop``: after any update (``each_update``), or only after an epoch.
    """

    def __init__(self, stop: StopRequest, *, each_update: bool) -> None:
        import ipywidgets
        from IPython.display import display

        self.bar = ipywidgets.FloatProgress(min=0.0, max=1.0, layout={"flex": "1 1 8em", "width": "auto"})
        tip = AFTER_UPDATE if each_update else AFTER_EPOCH
        self.button = ipywidgets.Button(description=STOP, icon="stop", tooltip=tip, layout={"width": "auto"})
        self.text = ipywidgets.HTML()
        self._view: Any = None
        self._box = ipywidgets.VBox()
        row = ipywidgets.HBox([self.bar, self.button], layout={"align_items": "center", "max_width": "48em"})
        self._above: Any = display(ipywidgets.VBox([row, self.text]), display_id=True)
        self._below: Any = display(self._box, display_id=True)
        stop.listen(self.button)
        self.button.on_click(self._clicked)

    def update(self, share: float, words: str) -> None:
        self.bar.value = share
        self.text.value = f'<div style="font-variant-numeric:tabular-nums">{html.escape(words)}</div>'

    def epoch(self, series: Mapping[str, Any], epochs: int) -> None:
        if not self.bar.value:  # updates are not reported
            self.text.value = html.escape(f"epoch {len(series['train_loss'])} · {epoch_words(series)}")

    def draw(self, figure: Any) -> None:
        if figure is not None and self._view is None:
            self._view = view_of(figure)
            self._box.children = (self._view.widget, *page_helpers())
        elif figure is not None:
            self._view.update(figure)

    def end(self, message: str, figure: Any) -> None:
        # Not closed: a press that still waits in the kernel's queue must find its widget.
        self.button.disabled = True
        text = f'<p role="status" style="margin:4px 0"><b>{html.escape(message)}</b></p>'
        self.text.value = text
        self.draw(figure)
        if figure is not None and not on_colab():  # there the view is a picture, which is saved as it is
            self._below.update(mime_bundle(figure), raw=True)
            text += described(alt_text(figure))
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

    def update(self, share: float, words: str) -> None:
        if not self._bar.disable:
            self._bar.n = share
            self._bar.set_description_str(f"{words} · Ctrl-C stops")

    def epoch(self, series: Mapping[str, Any], epochs: int) -> None:
        self._bar.write(f"epoch {len(series['train_loss'])} of {epochs}: {epoch_words(series)}")

    def end(self, message: str, figure: Any) -> None:
        self._bar.close()
        self._bar.write(message)
