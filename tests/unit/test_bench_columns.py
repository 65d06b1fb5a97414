"""Tables of text."""

from snnkit.bench.columns import megabytes, times
from snnkit.tables import text_table

HEAD = ("who", "ms", "note", "x")


def test_columns_are_as_wide_as_their_widest_cell_and_empty_ones_are_left_out():
    lines = text_table(HEAD, [("eager", "12.5", "", "1"), ("a", "3", "", "10")])
    assert lines == ["who      ms   x", "eager  12.5   1", "a         3  10"]


def test_some_columns_stay_even_empty_and_some_are_to_the_left():
    lines = text_table(HEAD, [("a", "3", "", "10")], left=2, always=3)
    assert lines == ["who  ms  note   x", "a    3         10"]


def test_no_cell_is_made_up():
    assert (megabytes(None), megabytes(2**21), times(3.0, None), times(3.0, 2.0)) == ("", "2", "", "1.50")
