"""Sliders beside a figure: ``explore(fn, beta=(0.5, 0.99), steps=(10, 100))``."""

from __future__ import annotations

import html
import inspect
import time
import typing
from collections.abc import Callable, Sequence
from typing import Any

import plotly.graph_objects as go

from .controls import Control, label, parse
from .display import show
from .environment import headless, in_notebook, live, on_colab
from .sweep import Grid, swept, whole_sweep


def explore(fn: Callable[..., Any], **controls: Any) -> None:
    """Show ``fn(**values)`` beside one control per argument, and again whenever a control changes.

    ``fn`` is called once right away, outside any Output widget, so that a mistake in it stops the cell. Later errors
    appear in red under the controls and go to the kernel's log.

    What is shown depends on who looks. JupyterLab gets a live figure, Colab an image that the kernel redraws, or, where
    a single control has few positions, a figure that holds them all and needs no kernel. A headless run
    (SNNKIT_HEADLESS=1) shows such a figure, too: with a slider over the first control that allows one, the others at
    their first values; exported pages stay alive that way. It also calls ``fn`` at the minimum, middle and maximum of
    every control, so that a broken explorer is found without a person.

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
    seconds = time.perf_counter() - began
    grid = Grid(fn, parsed, result, seconds)
    if live():
        _show_live(grid)
        return
    if headless():
        grid.exercise()
    if isinstance(result, go.Figure):
        figure, moved = swept(grid) if headless() and in_notebook() else (None, None)
        show(figure or result)
        if moved:
            _tell_of_others(moved, parsed)
    elif in_notebook():
        from IPython.display import display

        display(result)


def _show_live(grid: Grid) -> None:
    from IPython.display import display

    from .explorer_box import ExplorerBox

    figure = whole_sweep(grid) if on_colab() else None
    if figure is not None:
        show(figure)
    else:
        display(ExplorerBox(grid.fn, grid.controls, grid.result, seconds=grid.seconds).widget)


def _tell_of_others(moved: Control, controls: Sequence[Control]) -> None:
    """Under a figure with one slider: what else a reader could move."""
    from IPython.display import display

    others = [label(control.name) for control in controls if control is not moved]
    if not others:
        return
    told = f"Here the slider moves {label(moved.name)}. In a running notebook you can also move {', '.join(others)}."
    display({"text/html": f"<small>{html.escape(told)}</small>", "text/plain": told}, raw=True)


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
    hints = _hints(fn)
    return [parse(name, spec, defaults.get(name), hints.get(name, "")) for name, spec in controls.items()]


def _hints(fn: Any) -> dict[str, str]:
    """Argument to text, of those that are Annotated with one."""
    while hasattr(fn, "func"):  # functools.partial keeps the annotations within
        fn = fn.func
    try:
        annotations = typing.get_type_hints(fn, include_extras=True)
    except (TypeError, NameError):  # no function, or annotations that exist for type checkers only
        return {}
    notes = {name: getattr(kind, "__metadata__", ()) for name, kind in annotations.items()}
    return {name: texts[0] for name, texts in notes.items() if texts and isinstance(texts[0], str)}
