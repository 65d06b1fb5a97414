"""A ready-made explorer: a figure made from settings, the controls of these, and what to look for."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from ..controls import same
from ..explorer import explore


@dataclass(frozen=True)
class Lab:
    """One ready-made explorer.

    Attributes:
        name: of the function that shows it, such as "neuron_lab".
        title: for people.
        figure: ``figure(**settings) -> go.Figure``: pure, every setting with a default, no globals of a notebook.
        controls: name of a setting to its control, as ``viz.explore`` takes them: (min, max[, step]), a list, a bool.
        doc: one sentence: what one can find out with it.
    """

    name: str
    title: str
    figure: Callable[..., go.Figure]
    controls: Mapping[str, Any]
    doc: str

    def show(self, /, **start: Any) -> None:
        """Show it, with other first values where given.

        Raises:
            TypeError: a setting has no control, or a value is of another kind than its control gives.
            ValueError: a value is not one that its control can take.
        """
        explore(self.starting(**start), **self.controls)

    def starting(self, /, **start: Any) -> Callable[..., go.Figure]:
        """The figure's function with these first values as its defaults, checked as in ``show``."""
        for name, value in start.items():
            if name not in self.controls:
                raise TypeError(f"{self.name} has no setting {name!r}; it has {', '.join(self.controls)}")
            _check(f"{name} of {self.name}", self.controls[name], value)
        return functools.partial(self.figure, **start) if start else self.figure

    def defaults(self) -> dict[str, Any]:
        """The first value of every control."""
        parameters = inspect.signature(self.figure).parameters
        return {name: parameters[name].default for name in self.controls}


def _check(what: str, spec: Any, value: Any) -> None:
    if isinstance(spec, bool):
        if not isinstance(value, bool):
            raise TypeError(f"{what} must be True or False, not {value!r}")
    elif isinstance(spec, list):
        if not any(same(value, choice) for choice in spec):
            raise ValueError(f"{what} must be one of {', '.join(map(repr, spec))}, not {value!r}")
    else:
        whole = all(isinstance(number, int) for number in spec)
        kind = "a whole number" if whole else "a number"
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            raise TypeError(f"{what} must be {kind}, not {value!r}")
        if not (math.isfinite(value) and spec[0] <= value <= spec[1]):
            raise ValueError(f"{what} must lie in [{spec[0]:g}, {spec[1]:g}], not {value!r}")
