"""One control of an explorer as a figure with frames: for pages without a kernel."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import plotly.graph_objects as go

from .controls import Control, label, same
from .display import plotly_json
from .frame_slider import FOLLOWING, framed

_MOST = 25  # positions
_FEWEST = 3  # a slider with fewer does not show what a control with more positions does
_BYTES = 300_000  # of a figure with all its frames on Colab, which has nothing else to load
_SAVED = 120_000  # of one that is saved in an executed notebook, where there are several
_PATIENCE = 2.0  # seconds for computing frames


class Grid:
    """What ``fn`` returns with one control moved at a time, the others at their first values; each is computed once.

    Args:
        result: of ``fn`` at the first values.
        seconds: that it took.
    """

    def __init__(self, fn: Callable[..., Any], controls: Sequence[Control], result: Any, seconds: float) -> None:
        self.fn, self.controls = fn, controls
        self.result = result = _copied(result)
        self._times = [seconds]
        self._values = {control.name: control.default for control in controls}
        self._known: dict[str, list[tuple[Any, Any]]] = {c.name: [(c.default, result)] for c in controls}

    @property
    def seconds(self) -> float:
        """What a call takes. The first one may have loaded or compiled something; it counts until there are others."""
        return statistics.median(self._times[1:] or self._times)

    def at(self, control: Control, value: Any) -> Any:
        """The result with ``control`` at ``value``. RuntimeError: ``fn`` failed; says where."""
        known = self._known[control.name]
        for tried, result in known:
            if value is tried or same(value, tried):
                return result
        began = time.perf_counter()
        try:
            result = _copied(self.fn(**(self._values | {control.name: value})))
        except Exception as error:
            where = f"{control.name} = {value!r}"
            raise RuntimeError(f"the explorer fails at {where}: {type(error).__name__}: {error}") from error
        self._times.append(time.perf_counter() - began)
        known.append((value, result))
        return result

    def exercise(self) -> None:
        """Every control at its extremes and middle."""
        for control in self.controls:
            for value in control.trials:
                self.at(control, value)


def _copied(result: Any) -> Any:
    """A copy of a figure: ``fn`` may change the one that it has handed out, and hand it out again."""
    return go.Figure(result) if isinstance(result, go.Figure) else result


def whole_sweep(grid: Grid) -> go.Figure | None:
    """The figure of an explorer with a single control of few positions, with all of them; None where that won't do."""
    if len(grid.controls) > 1:
        return None
    (control,) = grid.controls
    count = len(control.positions)
    if not 1 < count <= _MOST or grid.seconds * count > _PATIENCE:
        return None
    try:
        return _within(_BYTES, _swept(grid, control, _picked(control, count)))
    except RuntimeError:  # live controls show where fn fails
        return None


def swept(grid: Grid) -> tuple[go.Figure, Control] | tuple[None, None]:
    """A figure with a slider over the first control that allows one, and that control.

    Of many positions some are left out. None where ``fn`` is slow, the figure would be heavy, or frames can't show
    what changes, for every control.
    """
    deadline = time.perf_counter() + _PATIENCE
    for control in grid.controls:
        positions = len(control.positions)
        count = min(_MOST, positions)
        while count >= min(_FEWEST, positions) > 1:
            if grid.seconds * count < deadline - time.perf_counter():
                figure = _swept(grid, control, _picked(control, count))
                if figure is None:
                    break
                if _within(_SAVED, figure):
                    return figure, control
            count //= 2
    return None, None


def _picked(control: Control, count: int) -> list[Any]:
    """So many positions, or one more, evenly spread from end to end; the first value is always among them."""
    last = len(control.positions) - 1
    picked = [control.positions[round(i * last / (count - 1))] for i in range(count)]
    if control.default in picked:
        return picked
    if not isinstance(control.default, (int, float)):
        return [control.default, *picked]
    nearest = min(range(count), key=lambda i: abs(picked[i] - control.default))
    if 0 < nearest < count - 1:
        picked[nearest] = control.default  # its neighbour makes room for it
        return picked
    return sorted([*picked, control.default])


def _swept(grid: Grid, control: Control, values: list[Any]) -> go.Figure | None:
    figures = []
    for value in values:
        result = grid.at(control, value)
        if not isinstance(result, go.Figure) or result.frames or _form(result) != _form(grid.result):
            return None
        figures.append(result)
    start = next(i for i, value in enumerate(values) if value is control.default or same(value, control.default))
    return framed(figures, label(control.name), values, start)


def _within(most: int, figure: go.Figure | None) -> go.Figure | None:
    return figure if figure is not None and len(json.dumps(plotly_json(figure))) <= most else None


def _form(figure: Any) -> Any:
    """What frames can't change: which properties there are of traces, notes and shapes; all else of the layout."""
    layout = figure.layout.to_plotly_json()
    names = [_keys(layout.get(key)) for key in ("title", "annotations", "shapes")]
    names += [_keys(trace.to_plotly_json()) for trace in figure.data]
    fixed = {k: v for k, v in layout.items() if k not in ("title", "annotations", "shapes", "template")}
    for axis in [key for key in fixed if key[1:].startswith("axis")]:
        names.append(_keys({key: value for key, value in fixed[axis].items() if key in FOLLOWING}))
        fixed[axis] = {key: value for key, value in fixed[axis].items() if key not in (*FOLLOWING, "range")}
    return [trace.type for trace in figure.data], names, json.dumps(fixed, default=str, sort_keys=True)


def _keys(value: Any) -> Any:
    """Nested dictionaries, and lists of them, without what they hold."""
    if isinstance(value, dict):
        return {key: _keys(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], dict):
        return [_keys(part) for part in value]
    return None
