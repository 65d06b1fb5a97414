"""Controls beside a figure: ``explore(fn, beta=(0.5, 0.99), steps=(10, 100))``."""

from __future__ import annotations

import html
import inspect
import math
import re
import time
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import plotly.graph_objects as go

from snnkit import checks
from snnkit.lab.viz import theme
from snnkit.lab.viz.alt import alt_text, spoken
from snnkit.lab.viz.display import FigureView, show, view_of
from snnkit.lab.viz.frame_slider import frames
from snnkit.lab.viz.frontend import headless, in_notebook, live, page_helpers

QUICK = 0.1  # seconds; updates quicker than this follow the slider while it moves
LATE = 0.3  # seconds; updates that take longer say that they are running
_STEPS = 10_000  # of a slider of real numbers at most; no screen has as many pixels

_EDGE = f"border-left:4px solid {theme.VERMILION};padding-left:8px"
_FAILED = f'<div style="{_EDGE}" role="alert"><b>✗ This setting fails.</b> {{}}<br>The picture is that of the last \
setting that works.</div>'
_POSITIONS = 48  # of a headless run's slider, about
_PREPARED = "Computed beforehand: the slider moves one setting at a time, the others stay as they were at first."
_FIXED = "This is the first setting only."
# `snnkit.lab.tools.site` knows where the link leads to.
_KERNEL = "To move all of them by yourself, run this notebook: in JupyterLab, or in <a>Colab</a>."
_COMPUTING = '<span role="status">computing…</span>'


@checks.arguments
def explore(fn: Callable[..., Any], **controls: Any) -> None:
    """Show ``fn(**values)`` beside one control per argument, and again whenever a control changes.

    ``fn`` is first called outside any Output widget, so that a mistake in it stops the cell. Later errors
    appear in red under the controls and go to the kernel's log.

    JupyterLab gets a live figure, Colab an image that the kernel redraws. A headless run (SNNKIT_HEADLESS=1) calls
    ``fn`` at the minimum, middle and maximum of every control, so that a broken explorer is noticed without a viewer,
    and where ``fn`` is quick at more values. Its page has no kernel to ask: one slider goes through all these figures,
    below a sentence that says what is needed for more.

    Args:
        fn: takes the controls as keyword arguments, and returns a plotly Figure (or anything displayable, always of the
            same kind). It should depend on its arguments only, not on the notebook's globals. Defaults of ``fn`` are
            the first values. An argument that is ``Annotated[float, "what it is, in which unit"]`` has this as its
            tooltip.
        controls: (min, max) or (min, max, step): a slider, of whole numbers when all are whole; a list: a choice; True
            or False: a tick box.

    Raises:
        TypeError: ``fn`` does not take these arguments, or a control is of no known kind.
        ValueError: a control makes no sense (min not below max, no choices, …).
        RuntimeError: in a headless run, ``fn`` failed at the values that the message names.
    """
    parsed = _parse(fn, controls)
    began = time.perf_counter()
    result = fn(**{control.name: control.first for control in parsed})
    seconds = time.perf_counter() - began
    if live():
        from IPython.display import display

        display(ExplorerBox(fn, parsed, result, seconds).widget)
        return
    figure = isinstance(result, go.Figure)
    if headless():
        most = 2 * (_POSITIONS // len(parsed) // 2) + 1 if seconds < QUICK else 3  # odd: with the middle
        results = {
            f"{control.label} = {_written(value)}": _at(fn, parsed, control, value)
            for control in parsed
            for value in control.some(most)
            if control is parsed[0] or value != control.first  # that is the same figure for all of them
        }
        # One slider can't add or remove traces.
        alike = figure and len({len(each.data) for each in results.values()}) == 1
        if in_notebook():
            from IPython.display import display

            words = f"{_PREPARED if alike else _FIXED} {_KERNEL}"
            display({"text/html": f"<p>{words}</p>", "text/plain": re.sub("<[^>]*>", "", words)}, raw=True)
        if alike:
            now = f"{parsed[0].label} = {_written(parsed[0].first)}"
            result = frames(results.__getitem__, "", list(results), start=[*results].index(now))
    if figure:
        show(result)
    elif in_notebook():
        from IPython.display import display

        display(result)


def _written(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


# ---- controls


@dataclass(frozen=True)
class Control:
    """The control of an argument: the class of its widget, the widget's options, its first value, and all its possible
    values in order. The first value may be between them."""

    name: str
    kind: str
    first: Any
    values: Sequence[Any]
    options: dict[str, Any]

    @property
    def label(self) -> str:
        return self.name.replace("_", " ")

    @property
    def trials(self) -> tuple[Any, Any, Any]:
        """Its ends and middle."""
        return self.values[0], self.values[len(self.values) // 2], self.values[-1]

    def some(self, most: int) -> list[Any]:
        """At most this many (at least 2) of its values, evenly spread from end to end, and its first value."""
        known = self.first in self.values
        values = [*self.values] if known else sorted([*self.values, self.first])
        places = {round(i * (len(values) - 1) / (most - 1)) for i in range(most)} | {values.index(self.first)}
        return [values[place] for place in sorted(places)]

    def widget(self, hint: str = "") -> Any:
        """The ipywidgets widget; ``hint`` is shown when the pointer rests on it."""
        import ipywidgets

        made = getattr(ipywidgets, self.kind)(description=self.label, value=self.first, **self.options)
        made.style.description_width = "initial"
        width = f"{240 + 8 * len(self.label)}px" if "Slider" in self.kind else "max-content"
        made.layout = {"width": width, "max_width": "100%", "margin": "2px 14px 2px 2px"}
        setattr(made, "tooltip" if made.has_trait("tooltip") else "description_tooltip", hint)  # 8 renamed it
        return made


def parse(name: str, spec: Any, default: Any = None) -> Control:
    """A control from an argument of ``explore``; ``default`` is its first value, if it is possible."""
    if isinstance(spec, bool):
        first = default if isinstance(default, bool) else spec
        return Control(name, "Checkbox", first, (False, True), {"indent": False})
    if isinstance(spec, list) and spec:
        first = default if any(default is one or default == one for one in spec) else spec[0]
        return Control(name, "Dropdown", first, tuple(spec), {"options": [(str(one), one) for one in spec]})
    rule = f"{name} must be (min, max) or (min, max, step) with min < max and at most {_STEPS:,} steps above 0,"
    rule += f" a list of choices, True or False, but it is {checks.shown(spec)}"
    if not isinstance(spec, (tuple, list)):
        raise TypeError(rule)
    if isinstance(spec, list) or len(spec) not in (2, 3):
        raise ValueError(rule)
    low, high, *given = (checks.number(f"each number of {name}", value) for value in spec)
    whole = all(isinstance(value, Integral) for value in spec)
    step = given[0] if given else 1.0 if whole else (high - low) / 50
    if not (low < high and step > 0 and (whole or (high - low) / step <= _STEPS)):
        raise ValueError(rule)
    kind = "FloatSlider"
    options: dict[str, Any] = {"min": low, "max": high, "step": step}
    if whole:
        kind, options = "IntSlider", {key: int(value) for key, value in options.items()}
        values: Sequence[Any] = range(int(low), int(high) + 1, int(step))
    else:
        options["readout_format"] = f".{max(0, min(6, -math.floor(math.log10(step) + 1e-9)))}f"
        # 0.1 * 3 is 0.30000000000000004 to a computer, but not to the reader of a label.
        values = [float(f"{low + step * i:.12g}") for i in range(math.floor((high - low) / step + 1e-6) + 1)]
    fits = isinstance(default, int if whole else (int, float)) and not isinstance(default, bool)
    first = default if fits and low <= default <= high else values[len(values) // 2]
    return Control(name, kind, first, values, options)


def _parse(fn: Callable[..., Any], controls: dict[str, Any]) -> list[Control]:
    if not controls:
        raise TypeError("explore must have at least one control, for example beta=(0.5, 0.99), but it has none")
    signature = inspect.signature(fn)
    try:
        signature.bind(**controls)
    except TypeError as error:
        raise TypeError(f"fn does not take the controls {', '.join(controls)}: {error}") from None
    parameters = signature.parameters
    defaults = {name: parameters[name].default for name in controls if name in parameters}
    return [parse(name, spec, defaults.get(name)) for name, spec in controls.items()]


def _hints(fn: Any) -> dict[str, str]:
    """Argument to text, of those that are Annotated with one."""
    try:
        annotations = typing.get_type_hints(fn, include_extras=True)
    except (TypeError, NameError):  # no function, or annotations that exist for type checkers only
        return {}
    notes = {name: getattr(kind, "__metadata__", ()) for name, kind in annotations.items()}
    return {name: str(texts[0]) for name, texts in notes.items() if texts}


# ---- with a kernel


class ExplorerBox:
    """The live form of an explorer: controls, errors, and a view that is updated in place; ``widget`` holds them all.

    ``result`` is the result of ``fn`` at the first values, ``seconds`` the time it took.
    """

    def __init__(self, fn: Callable[..., Any], controls: Sequence[Control], result: Any, seconds: float) -> None:
        import ipywidgets

        hints = _hints(fn)
        self.fn = fn
        self.view = view_of(result)
        self.words, self.status = ipywidgets.HTML(), ipywidgets.HTML()
        self.controls = {control.name: control.widget(hints.get(control.name, "")) for control in controls}
        self._tell(result, seconds)
        for widget in self.controls.values():
            widget.observe(self._changed, names="value")
        rows = {"display": "flex", "flex_flow": "row wrap", "align_items": "center"}
        box = ipywidgets.Box([*self.controls.values(), self.status], layout=rows)
        self.widget = ipywidgets.VBox([box, self.words, self.view.widget, *page_helpers()])

    def _changed(self, _: Any) -> None:
        """Draw what the controls say now."""
        if self._seconds > LATE:
            self.status.value = _COMPUTING
        began = time.perf_counter()
        try:
            result = self.fn(**{name: widget.value for name, widget in self.controls.items()})
            self.view.update(result)
        except Exception as error:
            self.words.value = _FAILED.format(html.escape(f"{type(error).__name__}: {error}"))
            raise  # for the kernel's log
        finally:
            self.status.value = ""
        self._tell(result, time.perf_counter() - began)

    def _tell(self, result: Any, seconds: float) -> None:
        """In words, and let sliders report while they move, or only when they are released."""
        self._seconds = seconds
        figure = isinstance(self.view, FigureView)
        self.words.value = f'<div role="status">{spoken(alt_text(result))}</div>' if figure else ""
        for widget in self.controls.values():
            if hasattr(widget, "continuous_update"):
                widget.continuous_update = figure and seconds < QUICK


def _at(fn: Callable[..., Any], controls: Sequence[Control], moved: Control, value: Any) -> Any:
    """The result with one control moved; RuntimeError: ``fn`` failed, says where."""
    try:
        return fn(**({control.name: control.first for control in controls} | {moved.name: value}))
    except Exception as error:
        where = f"{moved.name} = {value!r}"
        raise RuntimeError(f"the explorer fails at {where}: {type(error).__name__}: {error}") from error
