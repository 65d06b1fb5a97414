"""The live form of an explorer: controls, a way back, a place for what is going on, and a view updated in place."""

from __future__ import annotations

import contextlib
import html
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from . import theme
from .alt import alt_text, spoken
from .controls import Control

QUICK = 0.1  # seconds; updates quicker than this follow the slider while it moves
_VIEW = 2  # its place in the box: under the controls and the error
LATE = 0.3  # seconds after which an update says that it is under way

_EDGE = f"border-left:4px solid {theme.VERMILION};padding-left:8px"
_STILL = "The picture is that of the last setting that works."
_FAILED = f'<div style="{_EDGE}" role="alert"><b>✗ This setting fails.</b> {{}}<br>{_STILL}</div>'


class ExplorerBox:
    """Widgets of one explorer; ``widget`` holds them all.

    Slow machines are spared: pictures of settings that are over are skipped, and sliders are followed while they move
    only as long as updates are quick. Changes may come from several threads (kernels since ipykernel 7 take messages of
    widgets beside the main thread), but one at a time computes.

    Args:
        result: of ``fn`` at the first values.
        seconds: that it took.
    """

    def __init__(self, fn: Callable[..., Any], controls: Sequence[Control], result: Any, *, seconds: float) -> None:
        import ipywidgets

        from .views import page_helpers, view_of

        self.fn = fn
        self.view = view_of(result)
        self.error = ipywidgets.HTML()
        self.status = ipywidgets.HTML()
        self.spoken = ipywidgets.HTML(layout={"height": "0", "min_height": "0", "margin": "0", "overflow": "hidden"})
        self.controls = {control.name: control.build() for control in controls}
        self.handles = self._handles()
        self.reset = ipywidgets.Button(
            description="Back to start", icon="undo", tooltip="All controls back to their first values"
        )
        self._first = {name: widget.value for name, widget in self.controls.items()}
        self._seconds: deque[float] = deque(maxlen=5)
        self._lock = threading.Lock()
        self._wanted, self._busy, self._held = 0, False, False
        self._follow(seconds)
        self._speak(result)
        for widget in self.controls.values():
            widget.observe(self._changed, names="value")
        self.reset.on_click(self._back)
        rows = {"display": "flex", "flex_flow": "row wrap", "align_items": "center"}
        box = ipywidgets.Box([*self.controls.values(), self.reset, self.status], layout=rows)
        self.widget = ipywidgets.VBox([box, self.error, self.view.widget, self.spoken, *page_helpers()])

    def _handles(self) -> Any:
        from .handles import Handles
        from .views import FigureView

        return Handles(self.view.widget, self.controls, self._set) if isinstance(self.view, FigureView) else None

    def _back(self, _: Any) -> None:
        self._set(self._first)

    def _set(self, values: Mapping[str, Any]) -> None:
        """Several controls at once, then one picture."""
        self._held = True
        try:
            for name, value in values.items():
                self.controls[name].value = value
        finally:
            self._held = False
        self._changed(None)

    def _changed(self, _: Any) -> None:
        """Draw what the controls say now, unless somebody is at it: they will see that something newer is wanted."""
        if self._held:
            return
        with self._lock:
            self._wanted += 1
            if self._busy:
                return
            self._busy = True
        failure, newer = None, True
        while newer:
            drawn = self._wanted
            try:
                failure = self._draw()
            except BaseException:  # an interrupt, say: the next change must find somebody to draw it
                self._busy = False
                raise
            with self._lock:
                self._busy = newer = self._wanted != drawn
        if failure is not None:
            raise failure  # for the kernel's log

    def _draw(self) -> Exception | None:
        began = time.perf_counter()
        with _Late(self.status):
            try:
                result = self.fn(**{name: widget.value for name, widget in self.controls.items()})
                self._show(result)
                self._speak(result)
            except (Exception, SystemExit) as error:  # exit() in fn must not end the kernel
                self.error.value = _FAILED.format(html.escape(f"{type(error).__name__}: {error}"))
                return error if isinstance(error, Exception) else RuntimeError(f"fn ended with {error!r}")
        self.error.value = ""
        self._seconds.append(time.perf_counter() - began)
        self._follow(statistics.median(self._seconds))
        return None

    def _show(self, result: Any) -> None:
        from .views import fits, view_of

        if fits(self.view, result):
            with self.handles.drawing() if self.handles else contextlib.nullcontext():
                self.view.update(result)
            return
        # Text after a picture, say: another view takes the place of this one.
        self.view = view_of(result)
        self.handles = self._handles()
        children = self.widget.children
        self.widget.children = (*children[:_VIEW], self.view.widget, *children[_VIEW + 1 :])

    def _follow(self, seconds: float) -> None:
        """Let sliders report while they move, or only when they are let go."""
        from .views import FigureView

        smooth = seconds < QUICK and isinstance(self.view, FigureView)
        for widget in self.controls.values():
            if hasattr(widget, "continuous_update") and hasattr(widget, "readout"):
                widget.continuous_update = smooth

    def _speak(self, result: Any) -> None:
        from .views import FigureView

        heard = isinstance(result, go.Figure) and isinstance(self.view, FigureView)
        self.spoken.value = f'<div role="status">{spoken(alt_text(result))}</div>' if heard else ""


class _Late:
    """While an update takes long: a word in ``status`` that it is under way."""

    def __init__(self, status: Any) -> None:
        self.status = status
        self._lock = threading.Lock()
        self._over = False
        self._timer = threading.Timer(LATE, self._say)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: Any) -> None:
        self._timer.cancel()
        with self._lock:  # or a timer that has just rung would have the last word
            self._over = True
            self.status.value = ""

    def _say(self) -> None:
        with self._lock:
            if not self._over:
                self.status.value = '<span role="status">computing…</span>'
