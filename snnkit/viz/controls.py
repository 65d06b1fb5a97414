"""The controls of ``explore``: their positions, their widgets, and at which positions a headless run tries them."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

_WIDGET = 240  # pixels that a slider with its number needs beside its description
_LETTER = 8
_LARGEST = 2**53  # larger whole numbers are not exact in a browser
_MOST = 10_000  # steps of a slider of real numbers; no screen has as many pixels


@dataclass(frozen=True)
class Control:
    """One control.

    Attributes:
        name: of the argument.
        default: its first value.
        trials: its extremes and middle.
        positions: every value it can take, in order; the first value may be between them. Empty: unknown.
        build: makes its widget.
    """

    name: str
    default: Any
    trials: tuple[Any, ...]
    positions: Sequence[Any]
    build: Callable[[], Any]


def parse(name: str, spec: Any, default: Any = None, hint: str = "") -> Control:
    """A control from an argument of ``explore``.

    Args:
        spec: (min, max) or (min, max, step), two or three numbers: a slider, of whole numbers when all are whole;
            a list: a choice; True or False: a tick box; or an ipywidgets widget.
        default: the first value (of a slider or a choice), where it is valid; else the middle or the first.
        hint: shown when the pointer rests on it.

    Raises:
        ValueError: min is not below max, step is not positive, a number is not finite, the list is empty.
        TypeError: anything else.
    """
    if isinstance(spec, bool):
        first = default if isinstance(default, bool) else spec
        widget = {"kind": "Checkbox", "value": first, "indent": False}
        return Control(name, first, (False, True), (False, True), lambda: _widget(name, widget, 40, hint))
    if isinstance(spec, tuple):
        return _slider(name, spec, default, hint)
    if isinstance(spec, list):
        return _choice(name, spec, default, hint)
    if hasattr(spec, "observe") and hasattr(spec, "value"):
        return _given(name, spec)
    raise TypeError(
        f"control {name} must be (min, max), (min, max, step), a list, True or False, or a widget, but it is {spec!r}"
    )


def label(name: str) -> str:
    return name.replace("_", " ")


def same(one: Any, other: Any) -> bool:
    """Whether they are equal; False for arrays, which are equal in part."""
    try:
        return bool(one == other)
    except Exception:
        return False


def _slider(name: str, spec: tuple[Any, ...], default: Any, hint: str) -> Control:
    if len(spec) not in (2, 3):
        raise ValueError(f"control {name} must be (min, max) or (min, max, step), but it is {spec!r}")
    if not all(_is_number(v) for v in spec):
        raise TypeError(f"control {name} must hold numbers, but it is {spec!r}")
    # Widgets take Python's own numbers, and none of numpy's.
    spec = tuple(int(v) if isinstance(v, numbers.Integral) else float(v) for v in spec)
    if not all(math.isfinite(v) and abs(v) <= _LARGEST for v in spec):
        raise ValueError(f"control {name} must hold finite numbers of at most {_LARGEST:.0e}, but it is {spec!r}")
    low, high = spec[:2]
    if not low < high:
        raise ValueError(f"control {name} must have min < max, but it is {spec!r}")
    whole = all(isinstance(v, int) for v in spec)
    step = spec[2] if len(spec) == 3 else (1 if whole else (high - low) / 50)
    if not step > 0:
        raise ValueError(f"control {name} must have a step above 0, but it is {step!r}")
    count = math.floor((high - low) / step + 1e-6) + 1
    if count > (10**9 if whole else _MOST):
        raise ValueError(f"control {name} must have at most {_MOST} steps, but {step:g} is too fine for {spec!r}")
    middle = low + step * round((high - low) / 2 / step)
    first = middle
    if _is_number(default) and low <= default <= high and (not whole or isinstance(default, numbers.Integral)):
        first = int(default) if isinstance(default, numbers.Integral) else float(default)
    # 0.1 * 3 is 0.30000000000000004 to a computer, but not to the reader of a label.
    positions = range(low, high + 1, step) if whole else tuple(float(f"{low + step * i:.12g}") for i in range(count))
    widget: dict[str, Any] = {"kind": "IntSlider" if whole else "FloatSlider"}
    widget |= {"value": first, "min": low, "max": high, "step": step}
    if not whole:
        widget["readout_format"] = f".{max(0, min(6, -math.floor(math.log10(step) + 1e-9)))}f"
    hint = f"{hint + ': ' if hint else ''}from {low:g} to {high:g} in steps of {step:g}"
    return Control(name, first, (low, middle, high), positions, lambda: _widget(name, widget, _WIDGET, hint))


def _choice(name: str, options: list[Any], default: Any, hint: str) -> Control:
    if not options:
        raise ValueError(f"control {name} must offer at least one choice, but the list is empty")
    for option in options:
        if not same(option, option):
            raise TypeError(
                f"control {name} must offer choices that can be compared, such as texts, but one is {option!r}"
            )
    first = default if any(default is o or same(default, o) for o in options) else options[0]
    pairs = [(str(o), o) for o in options]
    width = 70 + _LETTER * max(len(text) for text, _ in pairs)
    widget = {"kind": "Dropdown", "options": pairs, "value": first}
    trials = (options[0], options[len(options) // 2], options[-1])
    return Control(name, first, trials, tuple(options), lambda: _widget(name, widget, width, hint))


def _given(name: str, widget: Any) -> Control:
    trials: list[Any] = [widget.value]
    positions: Sequence[Any] = ()
    if hasattr(widget, "base"):  # a logarithmic slider, whose ends are exponents
        trials = [widget.base**widget.min, widget.value, widget.base**widget.max]
    elif hasattr(widget, "min") and hasattr(widget, "max"):
        trials = [widget.min, widget.value, widget.max]
        ends = widget.min, widget.max, getattr(widget, "step", None)
        if all(isinstance(v, (int, float)) for v in ends):
            positions = _slider(name, ends, widget.value, "").positions
    elif hasattr(widget, "options"):
        from ipywidgets.widgets.widget_selection import _make_options

        positions = tuple(value for _, value in _make_options(widget.options))
        trials = [positions[0], positions[len(positions) // 2], positions[-1]] if positions else [widget.value]
    elif isinstance(widget.value, bool):
        trials, positions = [False, True], (False, True)
    return Control(name, widget.value, tuple(trials), positions, lambda: widget)


def _is_number(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _widget(name: str, arguments: dict[str, Any], width: int, hint: str) -> Any:
    """An ipywidgets widget, as wide as its description needs beside ``width`` pixels, narrower pages permitting."""
    import ipywidgets

    options = {key: value for key, value in arguments.items() if key != "kind"}
    widget = getattr(ipywidgets, arguments["kind"])(description=label(name), **options)
    widget.style.description_width = "initial"
    widget.layout.width = f"{width + _LETTER * len(widget.description)}px"
    widget.layout.max_width = "100%"
    widget.layout.margin = "2px 14px 2px 2px"
    if hint:
        # ipywidgets 8 renamed it.
        setattr(widget, "tooltip" if widget.has_trait("tooltip") else "description_tooltip", hint)
    return widget
