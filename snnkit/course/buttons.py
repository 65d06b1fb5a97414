"""The buttons under the card of an attempt, in a live notebook: they do what ``hint`` and ``solution`` do, in place."""

from __future__ import annotations

from typing import Any

from . import helps, session
from .exercise import Exercise


def row(exercise: Exercise, *, hints: bool) -> Any:
    """A widget with the buttons "Hint" (if ``hints``, and if there are any) and "Solution", and a place for the help.

    Hints that were opened before, by an earlier attempt, are still shown.
    """
    import ipywidgets as widgets

    opened, solved = widgets.HTML(), widgets.HTML()
    buttons = []

    def button(word: str, tooltip: str, place: Any, card: Any) -> None:
        one = widgets.Button(description=word, tooltip=tooltip)
        one.on_click(lambda _: setattr(place, "value", card(exercise).announced()))
        buttons.append(one)

    if hints and exercise.hints:
        button("Hint", f"Open the next hint of {exercise.key}", opened, helps.next_hint)
        if session.current().opened.get(exercise.key):
            opened.value = helps.open_hints(exercise).announced()
    button("Solution", f"Show the solution of {exercise.key}", solved, helps.reveal)
    return widgets.VBox([widgets.HBox(buttons), opened, solved])
