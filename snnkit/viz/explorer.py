"""Sliders beside a figure: ``explore(fn, beta=(0.5, 0.99), steps=(10, 100))``."""

from __future__ import annotations

import html
import inspect
import statistics
import threading
import time
import typing
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from snnkit import checks

from . import theme
from .alt import alt_text, spoken
from .controls import Control, label, parse
from .display import show
from .frontend import headless, in_notebook, live, on_colab
from .static_explorer import Grid, swept, whole_sweep
from .views import FigureView, fits, page_helpers, view_of

QUICK = 0.1  # seconds; updates quicker than this follow the slider while it moves
LATE = 0.3  # seconds; updates that take longer say that they are running
_VIEW = 2  # its place in the box: under the controls and the error

_EDGE = f"border-left:4px solid {theme.VERMILION};padding-left:8px"
_UNCHANGED = "The picture is that of the last setting that works."
_FAILED = f'<div style="{_EDGE}" role="alert"><b>✗ This setting fails.</b> {{}}<br>{_UNCHANGED}</div>'


def explore(fn: Callable[..., Any], **controls: Any) -> None:
    """Show ``fn(**values)`` beside one control per argument, and again whenever a control changes.

    ``fn`` is called once right away, outside any Output widget, so that a mistake in it stops the cell. Later errors
    appear in red under the controls and go to the kernel's log.

    The front end decides what is shown. JupyterLab gets a live figure, Colab an image that the kernel redraws, or,
    where a single control has few positions, a figure that holds them all and needs no kernel. A headless run
    (SNNKIT_HEADLESS=1) shows such a figure, too: with a slider over the first control that allows one, the others at
    their first values; so exported pages can be explored. It also calls ``fn`` at the minimum, middle and maximum of
    every control, so that a broken explorer is noticed without a viewer.

    Args:
        fn: takes the controls as keyword arguments, and returns a plotly Figure (or anything displayable). It should
            depend on its arguments only, not on the notebook's globals. Defaults of ``fn`` are the first values. An
            argument that is ``Annotated[float, "what it is, in which unit"]`` has this as its tooltip.
        controls: (min, max) or (min, max, step): a slider; a list: a choice; True or False: a tick box; or a widget.

    Raises:
        TypeError: ``fn`` is not callable or does not take these arguments, or a control is of no known kind.
        ValueError: a control makes no sense (min not below max, no choices, …).
        RuntimeError: in a headless run, ``fn`` fails at one of the values tried; says at which.
    """
    parsed = _parse(fn, controls)
    began = time.perf_counter()
    result = fn(**{control.name: control.default for control in parsed})
    grid = Grid(fn, parsed, result, time.perf_counter() - began)
    if live():
        from IPython.display import display

        if on_colab() and (figure := whole_sweep(grid)) is not None:
            show(figure)
        else:
            display(ExplorerBox(fn, parsed, grid.result, seconds=grid.seconds).widget)
        return
    if headless():
        grid.exercise()
    if isinstance(result, go.Figure):
        figure, moved = swept(grid) if headless() and in_notebook() else (None, None)
        show(figure or result)
        others = [label(control.name) for control in parsed if moved and control is not moved]
        if moved and others:
            from IPython.display import display

            note = f"Here the slider moves {label(moved.name)}."
            note += f" In a running notebook you can also move {', '.join(others)}."
            display({"text/html": f"<small>{html.escape(note)}</small>", "text/plain": note}, raw=True)
    elif in_notebook():
        from IPython.display import display

        display(result)


class ExplorerBox:
    """The live form of an explorer: controls, a reset button, errors, and a view updated in place.

    Stale updates are skipped, and sliders are followed while they move only as long as updates are quick. Changes may
    come from several threads (kernels since ipykernel 7 handle messages of widgets outside the main thread), but only
    one at a time computes.

    Args:
        result: of ``fn`` at the first values.
        seconds: that it took.

    Attributes:
        widget: holds all others.
    """

    def __init__(self, fn: Callable[..., Any], controls: Sequence[Control], result: Any, *, seconds: float) -> None:
        import ipywidgets

        self.fn = fn
        self.view = view_of(result)
        self.error = ipywidgets.HTML()
        self.status = ipywidgets.HTML()
        self.spoken = ipywidgets.HTML(layout={"height": "0", "min_height": "0", "margin": "0", "overflow": "hidden"})
        self.controls = {control.name: control.build() for control in controls}
        self.reset = ipywidgets.Button(
            description="Back to start", icon="undo", tooltip="All controls back to their first values"
        )
        self._first = {name: widget.value for name, widget in self.controls.items()}
        self._seconds: deque[float] = deque(maxlen=5)
        self._usual = seconds  # the first call may have loaded or compiled something: it counts until there are others
        self._lock = threading.Lock()
        self._wanted, self._busy, self._held = 0, False, False
        self._follow()
        self._speak(result)
        for widget in self.controls.values():
            widget.observe(self._changed, names="value")
        self.reset.on_click(lambda _: self._set(self._first))
        rows = {"display": "flex", "flex_flow": "row wrap", "align_items": "center"}
        box = ipywidgets.Box([*self.controls.values(), self.reset, self.status], layout=rows)
        self.widget = ipywidgets.VBox([box, self.error, self.view.widget, self.spoken, *page_helpers()])

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
        """Redraw for the current values; if another thread is drawing, it will pick up the change."""
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
            except BaseException:  # an interrupt, say: the next change must be drawn
                self._busy = False
                raise
            with self._lock:
                self._busy = newer = self._wanted != drawn
        if failure is not None:
            raise failure  # for the kernel's log

    def _draw(self) -> Exception | None:
        if self._usual > LATE:
            self.status.value = '<span role="status">computing…</span>'
        began = time.perf_counter()
        try:
            result = self.fn(**{name: widget.value for name, widget in self.controls.items()})
            self._show(result)
            self._speak(result)
        except (Exception, SystemExit) as error:  # exit() in fn must not end the kernel
            self.error.value = _FAILED.format(html.escape(f"{type(error).__name__}: {error}"))
            return error if isinstance(error, Exception) else RuntimeError(f"fn ended with {error!r}")
        finally:
            self.status.value = ""
        self.error.value = ""
        self._seconds.append(time.perf_counter() - began)
        self._usual = statistics.median(self._seconds)
        self._follow()
        return None

    def _show(self, result: Any) -> None:
        if fits(self.view, result):
            self.view.update(result)
            return
        # Text after a picture, say: another view takes the place of this one.
        self.view = view_of(result)
        children = self.widget.children
        self.widget.children = (*children[:_VIEW], self.view.widget, *children[_VIEW + 1 :])

    def _follow(self) -> None:
        """Let sliders report while they move, or only when they are released."""
        smooth = self._usual < QUICK and isinstance(self.view, FigureView)
        for widget in self.controls.values():
            if hasattr(widget, "continuous_update") and hasattr(widget, "readout"):
                widget.continuous_update = smooth

    def _speak(self, result: Any) -> None:
        described = isinstance(result, go.Figure) and isinstance(self.view, FigureView)
        self.spoken.value = f'<div role="status">{spoken(alt_text(result))}</div>' if described else ""


def _parse(fn: Callable[..., Any], controls: dict[str, Any]) -> list[Control]:
    checks.function("fn", fn)
    if not controls:
        raise TypeError("explore must have at least one control, for example beta=(0.5, 0.99), but it has none")
    signature = inspect.signature(fn)
    try:
        signature.bind(**controls)
    except TypeError as error:
        raise TypeError(f"fn does not take the controls {', '.join(controls)}: {error}") from None
    empty = inspect.Parameter.empty
    defaults = {n: p.default for n, p in signature.parameters.items() if p.default is not empty}
    hints = tooltips(fn)
    return [parse(name, spec, defaults.get(name), hints.get(name, "")) for name, spec in controls.items()]


def tooltips(fn: Any) -> dict[str, str]:
    """Argument to text, of those that are Annotated with one."""
    while hasattr(fn, "func"):  # functools.partial has the annotations of the function within
        fn = fn.func
    try:
        annotations = typing.get_type_hints(fn, include_extras=True)
    except (TypeError, NameError):  # no function, or annotations that exist for type checkers only
        return {}
    notes = {name: getattr(kind, "__metadata__", ()) for name, kind in annotations.items()}
    return {name: texts[0] for name, texts in notes.items() if texts and isinstance(texts[0], str)}
