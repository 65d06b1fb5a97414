"""What ``explore`` can turn into a control, its positions, and at which of them a headless run tries it."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_WIDGET = 240  # pixels that a slider with its number needs beside its description
_LETTER = 8
_LARGEST = 2**53  # whole numbers beyond are no longer told apart by a browser
_MOST = 10**9  # steps of a slider


@dataclass(frozen=True)
class Control:
    """One control.

    Attributes:
        name: of the argument.
        default: its first value.
        trials: its extremes and middle.
        positions: every value it can take, in order; the first value may lie between them. Empty: nobody knows.
        build: makes its widget.
    """

    name: str
    default: Any
    trials: tuple[Any, ...]
    positions: Sequence[Any]
    build: Callable[[], Any]


def parse(name: str, spec: Any, default: Any = None, hint: str = "") -> Control:
    """A control from what was handed to ``explore``.

    Args:
        spec: (min, max) or (min, max, step), two or three numbers: a slider, of whole numbers when all are whole;
            a list: a choice; True or False: a tick box; or an ipywidgets widget.
        default: the first value (of a slider or a choice), where it lies within; else the middle or the first.
        hint: shown when the pointer rests on it.

    Raises:
        ValueError: min is not below max, step is not positive, a number is not finite, the list is empty.
        TypeError: anything else.
    """
    if isinstance(spec, bool):
        return _tick_box(name, default if isinstance(default, bool) else spec, hint)
    if isinstance(spec, tuple):
        return _slider(name, spec, default, hint)
    if isinstance(spec, list):
        return _choice(name, spec, default, hint)
    if hasattr(spec, "observe") and hasattr(spec, "value"):
        return _given(name, spec)
    raise TypeError(
        f"control {name} must be (min, max), (min, max, step), a list, True or False, or a widget, not {spec!r}"
    )


def label(name: str) -> str:
    return name.replace("_", " ")


def _tick_box(name: str, first: bool, hint: str) -> Control:
    def build() -> Any:
        import ipywidgets

        return _dressed(ipywidgets.Checkbox(value=first, description=label(name), indent=False), 40, hint)

    return Control(name, first, (False, True), (False, True), build)


def _slider(name: str, spec: tuple[Any, ...], default: Any, hint: str) -> Control:
    if len(spec) not in (2, 3):
        raise ValueError(f"control {name} must be (min, max) or (min, max, step), not {spec!r}")
    if not all(_is_number(v) for v in spec):
        raise TypeError(f"control {name} must hold numbers, not {spec!r}")
    spec = tuple(_plain(v) for v in spec)
    if not all(math.isfinite(v) and abs(v) <= _LARGEST for v in spec):
        raise ValueError(f"control {name} must hold finite numbers of at most {_LARGEST:.0e}, not {spec!r}")
    low, high = spec[:2]
    if not low < high:
        raise ValueError(f"control {name} must have min < max, not {spec!r}")
    whole = all(isinstance(v, int) for v in spec)
    step = spec[2] if len(spec) == 3 else (1 if whole else (high - low) / 50)
    if not step > 0:
        raise ValueError(f"control {name} must have a step above 0, not {step!r}")
    if (high - low) / step > _MOST:
        raise ValueError(f"control {name} must have at most {_MOST:.0e} steps, but {step:g} is too fine for {spec!r}")
    middle = low + step * round((high - low) / 2 / step)
    numeric = _is_number(default)
    default = _plain(default) if numeric else default
    first = default if numeric and low <= default <= high and (not whole or isinstance(default, int)) else middle

    def build() -> Any:
        import ipywidgets

        kind = ipywidgets.IntSlider if whole else ipywidgets.FloatSlider
        form = {} if whole else {"readout_format": f".{max(0, min(6, -math.floor(math.log10(step) + 1e-9)))}f"}
        widget = kind(value=first, min=low, max=high, step=step, description=label(name), **form)
        return _dressed(widget, _WIDGET, f"{hint + ': ' if hint else ''}from {low:g} to {high:g} in steps of {step:g}")

    return Control(name, first, (low, middle, high), _Steps(low, high, step), build)


def _choice(name: str, options: list[Any], default: Any, hint: str) -> Control:
    if not options:
        raise ValueError(f"control {name} must offer at least one choice, not an empty list")
    for option in options:
        if not same(option, option):
            raise TypeError(f"control {name} must offer choices that can be compared, such as texts, not {option!r}")
    first = default if any(default is o or same(default, o) for o in options) else options[0]
    trials = (options[0], options[len(options) // 2], options[-1])

    def build() -> Any:
        import ipywidgets

        pairs = [(str(o), o) for o in options]
        widget = ipywidgets.Dropdown(options=pairs, value=first, description=label(name))
        return _dressed(widget, 70 + _LETTER * max(len(text) for text, _ in pairs), hint)

    return Control(name, first, trials, tuple(options), build)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _plain(value: Any) -> int | float:
    """A number (one of numpy's, say) as Python's own, which widgets take."""
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def same(one: Any, other: Any) -> bool:
    """Whether they are equal; not where arrays say that they are so in part, or nothing knows."""
    try:
        return bool(one == other)
    except Exception:
        return False


def _given(name: str, widget: Any) -> Control:
    trials: list[Any] = [widget.value]
    positions: Sequence[Any] = ()
    if hasattr(widget, "base"):  # a logarithmic slider, whose ends are exponents
        trials = [widget.base**widget.min, widget.value, widget.base**widget.max]
    elif hasattr(widget, "min") and hasattr(widget, "max"):
        trials = [widget.min, widget.value, widget.max]
        step: Any = getattr(widget, "step", None)
        if all(isinstance(v, (int, float)) for v in (widget.min, widget.max, step)) and step > 0:
            positions = _Steps(widget.min, widget.max, step)
    elif hasattr(widget, "options"):
        from ipywidgets.widgets.widget_selection import _make_options

        positions = tuple(value for _, value in _make_options(widget.options))
        trials = [positions[0], positions[len(positions) // 2], positions[-1]] if positions else [widget.value]
    elif isinstance(widget.value, bool):
        trials, positions = [False, True], (False, True)
    return Control(name, widget.value, tuple(trials), positions, lambda: widget)


def _dressed(widget: Any, width: int, hint: str) -> Any:
    """The widget, as wide as its description needs beside ``width`` pixels, narrower pages permitting."""
    widget.style.description_width = "initial"
    widget.layout.width = f"{width + _LETTER * len(widget.description)}px"
    widget.layout.max_width = "100%"
    widget.layout.margin = "2px 14px 2px 2px"
    if hint:
        # ipywidgets 8 renamed it.
        setattr(widget, "tooltip" if widget.has_trait("tooltip") else "description_tooltip", hint)
    return widget


class _Steps(Sequence):
    """The positions of a slider; there may be thousands, so they are computed when somebody asks."""

    def __init__(self, low: float, high: float, step: float) -> None:
        self.low, self.step = low, step
        self.whole = all(isinstance(v, int) for v in (low, high, step))
        self.size = math.floor((high - low) / step + 1e-6) + 1

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self.size))]
        if not -self.size <= index < self.size:
            raise IndexError(f"there are {self.size} positions, not {index + 1}")
        value = self.low + self.step * (index % self.size)
        # 0.1 * 3 is 0.30000000000000004 to a computer, but not to a person who reads a label.
        return value if self.whole else float(f"{value:.12g}")
