"""Sliders beside a figure: ``explore(fn, beta=(0.5, 0.99), steps=(10, 100))``."""

from __future__ import annotations

import html
import inspect
import time
from collections.abc import Callable
from typing import Any

import plotly.graph_objects as go

from .controls import Control, parse
from .display import show
from .environment import headless, in_notebook, live

_FAST = 0.03  # seconds; a function quicker than this is followed while the slider moves


def explore(fn: Callable[..., Any], **controls: Any) -> None:
    """Show ``fn(**values)`` beside one control per argument, and again whenever a control changes.

    ``fn`` is called once right away, outside any Output widget, so that a mistake in it stops the cell. Later errors
    appear in red under the controls and go to the kernel's log. A headless run (SNNKIT_HEADLESS=1) shows the static
    figure and calls ``fn`` at the minimum, middle and maximum of every control, so that a broken explorer is found
    without a person.

    Args:
        fn: takes the controls as keyword arguments, and returns a plotly Figure (or anything displayable). It should
            depend on its arguments only, not on the notebook's globals. Defaults of ``fn`` are the first values.
        controls: (min, max) or (min, max, step): a slider; a list: a choice; True or False: a tick box; or a widget.

    Raises:
        TypeError: ``fn`` is not callable or does not take these arguments, or a control is of no known kind.
        ValueError: a control makes no sense (min not below max, no choices, …).
    """
    parsed = _parse(fn, controls)
    values = {control.name: control.default for control in parsed}
    began = time.perf_counter()
    result = fn(**values)
    seconds = time.perf_counter() - began
    if live():
        from IPython.display import display

        display(Explorer(fn, parsed, result, follow=seconds < _FAST).widget)
        return
    if isinstance(result, go.Figure):
        show(result)
    elif in_notebook():
        from IPython.display import display

        display(result)
    if headless():
        _exercise(fn, parsed, values)


class Explorer:
    """The live form: controls, a place for errors, and a view that is updated in place."""

    def __init__(self, fn: Callable[..., Any], controls: list[Control], result: Any, *, follow: bool) -> None:
        import ipywidgets

        from .views import FigureView, view_of

        self.fn = fn
        self.view = view_of(result)
        self.error = ipywidgets.HTML()
        self.controls = {control.name: control.build() for control in controls}
        smooth = follow and isinstance(self.view, FigureView)
        for control in self.controls.values():
            if hasattr(control, "continuous_update"):
                control.continuous_update = smooth
            control.style.description_width = "initial"
            control.observe(self._changed, names="value")
        rows = ipywidgets.Layout(display="flex", flex_flow="row wrap")
        box = ipywidgets.Box(list(self.controls.values()), layout=rows)
        self.widget = ipywidgets.VBox([box, self.error, self.view.widget])

    def _changed(self, _: Any) -> None:
        try:
            self.view.update(self.fn(**{name: control.value for name, control in self.controls.items()}))
        except Exception as error:
            told = html.escape(f"{type(error).__name__}: {error}")
            self.error.value = f'<div style="color:#D55E00" role="alert"><b>✗ This setting fails.</b> {told}</div>'
            raise
        self.error.value = ""


def _parse(fn: Callable[..., Any], controls: dict[str, Any]) -> list[Control]:
    if not callable(fn):
        raise TypeError(f"fn must be a function, not {type(fn).__name__}")
    if not controls:
        raise TypeError("explore needs at least one control, for example beta=(0.5, 0.99)")
    signature = inspect.signature(fn)
    try:
        signature.bind(**controls)
    except TypeError as error:
        raise TypeError(f"fn does not take the controls {', '.join(controls)}: {error}") from None
    empty = inspect.Parameter.empty
    defaults = {n: p.default for n, p in signature.parameters.items() if p.default is not empty}
    return [parse(name, spec, defaults.get(name)) for name, spec in controls.items()]


def _exercise(fn: Callable[..., Any], controls: list[Control], values: dict[str, Any]) -> None:
    """Every control at its extremes and middle, the others at their first value."""
    for control in controls:
        tried = [control.default]
        for value in control.trials:
            if any(value is one or value == one for one in tried):
                continue
            tried.append(value)
            try:
                fn(**(values | {control.name: value}))
            except Exception as error:
                raise RuntimeError(
                    f"the explorer fails at {control.name} = {value!r}: {type(error).__name__}: {error}"
                ) from error
