"""In a real kernel: after an answer that hangs, exits or prints for ever, the next cell runs."""

from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipywidgets")

START = """
import pytest
from snnkit.course import attempt, hint
from tests.course import hostile
from tests.course.examples import EXERCISE, install, leak

install(pytest.MonkeyPatch(), EXERCISE)
"""
HOSTILE = {"for_ever": "was stopped", "printing": "more lines", "exits": "exit()"}


@pytest.mark.slow
def test_the_kernel_lives_on():
    sources = [START]
    for name in HOSTILE:
        sources += [f'assert attempt("99.1", hostile.{name}) is leak', f'print("after {name}")']
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    here = {"metadata": {"path": str(Path(__file__).parents[2])}}
    cells = nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources=here).execute().cells
    for n, (name, words) in enumerate(HOSTILE.items()):
        card, buttons = cells[2 * n + 1].outputs
        assert "failed" in card.data["text/plain"] and words in " ".join(card.data["text/plain"].split()), card
        assert words in card.data["text/html"]
        assert "application/vnd.jupyter.widget-view+json" in buttons.data
        (after,) = cells[2 * n + 2].outputs
        assert (after.name, after.text) == ("stdout", f"after {name}\n")
