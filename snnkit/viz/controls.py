"""What ``explore`` can turn into a control, and at which values a headless run tries it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Control:
    """One control: its first value, its extremes and middle, and how to build its widget."""

    name: str
    default: Any
    trials: tuple[Any, ...]
    build: Callable[[], Any]


def parse(name: str, spec: Any, default: Any = None) -> Control:
    """A control from what was handed to ``explore``.

    Args:
        spec: (min, max) or (min, max, step), two or three numbers: a slider, of whole numbers when all are whole;
            a list: a choice; True or False: a tick box; or an ipywidgets widget.
        default: the first value (of a slider or a choice), where it lies within; else the middle or the first.

    Raises:
        ValueError: min is not below max, step is not positive, a number is not finite, the list is empty.
        TypeError: anything else.
    """
    if isinstance(spec, bool):
        return _tick_box(name, default if isinstance(default, bool) else spec)
    if isinstance(spec, tuple):
        return _slider(name, spec, default)
    if isinstance(spec, list):
        return _choice(name, spec, default)
    if hasattr(spec, "observe") and hasattr(spec, "value"):
        return _given(name, spec)
    raise TypeError(
        f"control {name} must be (min, max), (min, max, step), a list, True or False, or a widget, not {spec!r}"
    )


def _tick_box(name: str, first: bool) -> Control:
    def build() -> Any:
        import ipywidgets

        return ipywidgets.Checkbox(value=first, description=label(name), indent=False)

    return Control(name, first, (False, True), build)


def _slider(name: str, spec: tuple[Any, ...], default: Any) -> Control:
    if len(spec) not in (2, 3):
        raise ValueError(f"control {name} must be (min, max) or (min, max, step), not {spec!r}")
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in spec):
        raise TypeError(f"control {name} must hold numbers, not {spec!r}")
    if not all(math.isfinite(v) for v in spec):
        raise ValueError(f"control {name} must hold finite numbers, not {spec!r}")
    low, high = spec[:2]
    if not low < high:
        raise ValueError(f"control {name} must have min < max, not {spec!r}")
    whole = all(isinstance(v, int) for v in spec)
    step = spec[2] if len(spec) == 3 else (1 if whole else (high - low) / 50)
    if not step > 0:
        raise ValueError(f"control {name} must have a step above 0, not {step!r}")
    middle = low + step * round((high - low) / 2 / step)
    numeric = isinstance(default, (int, float)) and not isinstance(default, bool)
    first = default if numeric and low <= default <= high and (not whole or isinstance(default, int)) else middle

    def build() -> Any:
        import ipywidgets

        kind = ipywidgets.IntSlider if whole else ipywidgets.FloatSlider
        form = {} if whole else {"readout_format": f".{max(0, min(6, -math.floor(math.log10(step) + 1e-9)))}f"}
        return kind(value=first, min=low, max=high, step=step, description=label(name), **form)

    return Control(name, first, (low, middle, high), build)


def _choice(name: str, options: list[Any], default: Any) -> Control:
    if not options:
        raise ValueError(f"control {name} must offer at least one choice, not an empty list")
    first = default if any(default is o or default == o for o in options) else options[0]
    trials = (options[0], options[len(options) // 2], options[-1])

    def build() -> Any:
        import ipywidgets

        return ipywidgets.Dropdown(options=[(str(o), o) for o in options], value=first, description=label(name))

    return Control(name, first, trials, build)


def _given(name: str, widget: Any) -> Control:
    trials = [widget.value]
    if hasattr(widget, "min") and hasattr(widget, "max"):
        trials = [widget.min, widget.value, widget.max]
    elif hasattr(widget, "options"):
        from ipywidgets.widgets.widget_selection import _make_options

        trials = [value for _, value in _make_options(widget.options)]
        trials = [trials[0], trials[len(trials) // 2], trials[-1]] if trials else [widget.value]
    elif isinstance(widget.value, bool):
        trials = [False, True]
    return Control(name, widget.value, tuple(trials), lambda: widget)


def label(name: str) -> str:
    return name.replace("_", " ")
