"""Shapes of a live figure that the mouse can drag: each moves the control whose name it bears."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any


class Handles:
    """Watches a FigureWidget for shapes that somebody drags sideways.

    A shape is a handle when its ``name`` is that of a slider and its x is the slider's value; how far up it was dragged
    doesn't matter.

    Args:
        widget: the FigureWidget.
        controls: widgets by name; those without min, max and step have no handles.
        moved: called with the new values of the sliders whose shapes were dragged; it must draw the figure anew, for
            shapes stay where they were let go.
    """

    def __init__(self, widget: Any, controls: Mapping[str, Any], moved: Callable[[dict[str, float]], None]) -> None:
        self.sliders = {name: one for name, one in controls.items() if all(map(one.has_trait, ("min", "max", "step")))}
        self.moved = moved
        self._drawing: int | None = None
        if any(shape.name in self.sliders for shape in widget.layout.shapes):
            # Shapes that are ``editable`` must be clicked first. FigureWidget has no other way to what plotly.js calls
            # its configuration; this trait is the one that plotly 5 to 7 hand over when the plot is made.
            widget._config = (widget._config or {}) | {"edits": {"shapePosition": True}}
        widget.layout.on_change(self._shapes_changed, "shapes")

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """While a figure is put into the widget: nothing counts as dragged."""
        # Only what this thread changes is our own: messages of the browser may come in another one.
        self._drawing = threading.get_ident()
        try:
            yield
        finally:
            self._drawing = None

    def _shapes_changed(self, _: Any, shapes: Any) -> None:
        if self._drawing == threading.get_ident():
            return
        handles = [shape for shape in shapes if shape.name in self.sliders]
        if handles:
            places = {shape.name: _place(self.sliders[shape.name], shape) for shape in handles}
            self.moved({name: place for name, place in places.items() if place != self.sliders[name].value})


def _place(slider: Any, shape: Any) -> float:
    """The slider's position nearest to where the shape is; of a slanted one, to the end that was pulled."""
    x = max((float(shape.x0), float(shape.x1)), key=lambda end: abs(end - slider.value))
    value = slider.min + slider.step * round((x - slider.min) / slider.step)
    return type(slider.min)(min(max(value, slider.min), slider.max))
