"""Tables of text."""

from snnkit.tables import text_table

HEAD = ("name", "ms", "note", "x")


def test_columns_are_as_wide_as_their_widest_cell_and_empty_ones_are_left_out():
    lines = text_table(HEAD, [("eager", "12.5", "", "1"), ("a", "3", "", "10")])
    assert lines == ["name     ms   x", "eager  12.5   1", "a         3  10"]


def test_some_columns_are_there_even_if_empty_and_some_are_to_the_left():
    lines = text_table(HEAD, [("a", "3", "", "10")], left=2, always=3)
    assert lines == ["name  ms  note   x", "a     3         10"]
