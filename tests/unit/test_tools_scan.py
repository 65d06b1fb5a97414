"""Errors that nobody raises again: in outputs, in widgets, on stderr."""

from __future__ import annotations

import nbformat.v4 as v4

from snnkit.tools.papermill_engine import WIDGET_STATE, errors_in_notebook, errors_in_outputs, short

ERROR = {
    "output_type": "error",
    "ename": "ValueError",
    "evalue": "\x1b[31mbad\x1b[0m",
    "traceback": ["line 1", "line 2"],
}


def notebook(outputs, widgets=None):
    made = v4.new_notebook(cells=[v4.new_markdown_cell("text"), v4.new_code_cell("f()")])
    made.cells[1].outputs = outputs
    if widgets is not None:
        made.metadata["widgets"] = {WIDGET_STATE: {"state": {"id": {"state": widgets}}}}
    return made


def test_a_clean_notebook_has_no_problems():
    outputs = [{"output_type": "stream", "name": "stderr", "text": "a warning\n"}]
    assert (
        errors_in_notebook(notebook(outputs, {"outputs": [{"output_type": "stream", "name": "stdout", "text": "1"}]}))
        == []
    )


def test_an_error_output_is_found_with_its_cell():
    (found,) = errors_in_notebook(notebook([ERROR]))
    assert (found.cell, str(found), found.traceback) == (1, "ValueError: bad", "line 1\nline 2")


def test_an_error_inside_a_widget_is_found():
    (found,) = errors_in_notebook(notebook([], {"outputs": [ERROR]}))
    assert (found.cell, str(found)) == (None, "ValueError: bad")


def test_a_traceback_on_stderr_is_found_even_in_pieces():
    pieces = ["Exception in thread 1:\nTraceback (most recent ", "call last):\n  File 'a', line 1\nKey", "Error: 'x'\n"]
    (found,) = errors_in_outputs([{"output_type": "stream", "name": "stderr", "text": piece} for piece in pieces], 3)
    assert (found.cell, str(found)) == (3, "KeyError: 'x'")


def test_a_traceback_that_is_printed_on_purpose_is_not():
    text = "Traceback (most recent call last):\nValueError: this is what you will see\n"
    assert errors_in_outputs([{"output_type": "stream", "name": "stdout", "text": text}]) == []


def test_long_messages_are_cut_to_one_line():
    text = short("a\n\n b " + "x" * 1000)
    assert text.startswith("a b x") and len(text) == 300 and text.endswith("…")
