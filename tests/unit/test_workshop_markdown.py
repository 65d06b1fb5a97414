"""The little Markdown that the workshop's pages are held to: headings, tables, links and code, with their lines."""

from __future__ import annotations

import pytest

from snnkit.workshop.markdown import Page

TEXT = """# A page

Words and a [link](a.md#x), ![a picture](b.png).

## First

| a | b |
|---|--:|
| 1 | x \\| y |
| 2 | |

```python ours
# no heading
| no | table |
|---|---|
```

### Inner

more

## Second

~~~
```
not closed by the other fence
~~~
the end
"""
PAGE = Page("p.md", TEXT)


def test_headings_and_sections():
    assert PAGE.headings == [(1, 1, "A page"), (5, 2, "First"), (18, 3, "Inner"), (22, 2, "Second")]
    first = PAGE.section("First")
    assert first is not None and first.line == 5
    assert "more" in first.text and "the end" not in first.text  # a section holds those below it
    assert PAGE.section("Nothing") is None


def test_tables():
    (table,) = PAGE.tables
    assert (table.line, table.columns) == (7, ("a", "b"))
    assert [(row.line, dict(row.cells)) for row in table.rows] == [
        (9, {"a": "1", "b": "x | y"}),
        (10, {"a": "2", "b": ""}),
    ]


def test_links_are_no_pictures_and_no_code():
    assert PAGE.links == [(3, "link", "a.md#x")]


def test_code():
    ours, other = PAGE.codes
    assert (ours.line, ours.words) == (13, ("python", "ours"))
    assert ours.text == "# no heading\n| no | table |\n|---|---|\n"
    assert "```" in other.text and other.words == ()


@pytest.mark.parametrize("text", ["", "\n", "no heading", "| a |", "| a |\n|---|", "```\nopen"])
def test_odd_pages_are_read(text):
    page = Page("odd", text)
    assert page.headings == [] and page.links == [] and page.codes == []
    assert all(not table.rows for table in page.tables)
