"""Listings: escaped, coloured, side by side, and readable without a page."""

import re
import sys

import pytest

from snnkit.viz.listing import listing

TEXTS = {"C++": ("if (a < b) return 1.0f;  // why", "cpp"), "plain": "v0 = sub(x, s0) & <b>"}


def shown(page):
    return re.sub(r"<[^>]+>", "", page).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def test_nothing_of_the_text_is_lost():
    page = listing(TEXTS)._repr_html_()
    assert shown(page) == "C++" + TEXTS["C++"][0] + "plain" + TEXTS["plain"]
    assert "<b>" not in page


def test_colours_are_written_into_the_page_and_leave_its_background():
    page = listing(TEXTS)._repr_html_()
    assert page.count("<span style=") >= 3
    assert "class=" not in page.replace('class="snnkit-listing"', "")
    assert set(re.findall(r"background[^;\"]*", page)) == {"background:none"}


def test_line_breaks_and_indentation_stay():
    text = "\n\ndef f():\n    return 1\n\n    # end"
    page = listing({"f": (text, "python")})._repr_html_()
    assert shown(page) == "f" + text


def test_without_pygments_there_are_no_colours(monkeypatch):
    monkeypatch.setitem(sys.modules, "pygments", None)
    page = listing(TEXTS)._repr_html_()
    assert "<span" not in page and shown(page).endswith(TEXTS["plain"])


def test_as_text():
    assert repr(listing(TEXTS)).startswith("== C++\nif (a < b)")


@pytest.mark.parametrize(
    ("texts", "message"),
    [({}, "texts must hold"), ({"a": ("b", "cobol")}, "one of 'text', 'python', 'cpp', but it is 'cobol'")],
)
def test_bad_input(texts, message):
    with pytest.raises(ValueError, match=message):
        listing(texts)
