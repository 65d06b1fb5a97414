"""Prints are kept to a point and counted beyond it."""

import pytest

from snnkit.course.prints import CHARACTERS, LINES, Prints


def test_what_fits_is_kept_as_it_is():
    prints = Prints()
    assert prints.text() == ""
    print("a", 1, file=prints)
    print("b", end="", file=prints)
    assert prints.text() == "a 1\nb" and prints.lines == 2


def test_lines_beyond_the_first_are_counted():
    prints = Prints()
    for n in range(LINES + 1234):
        print(n, file=prints)
    assert prints.text().splitlines() == [*map(str, range(LINES)), "… and 1,234 more lines"]
    one = Prints()
    one.write("x\n" * (LINES + 1))
    assert one.text().endswith("… and 1 more line")


def test_one_line_without_end_is_cut():
    prints = Prints()
    for _ in range(10_000):
        prints.write("x" * 100)
    assert prints.text() == "x" * CHARACTERS + "\n…"


def test_it_is_a_stream_of_text():
    prints = Prints()
    assert prints.writable() and not prints.isatty()
    with pytest.raises(TypeError, match="must be str"):
        prints.write(b"bytes")
