"""Docstrings on their way to the site: what is written for `help` and editors becomes reStructuredText."""

from __future__ import annotations

import pytest

from snnkit.site.docstrings import process, to_rst


def test_a_markdown_table_becomes_a_list_table_at_its_margin():
    made = to_rst(["    | name | of |", "    |---|--:|", "    | ``a`` | 1 |", "after"])
    assert made == [
        "",
        "    .. list-table::",
        "       :header-rows: 1",
        "",
        "       * - name",
        "         - of",
        "       * - ``a``",
        "         - 1",
        "",
        "after",
    ]


def test_fences_become_code_with_its_own_indentation():
    made = to_rst(["  ```python", "  for x in y:", "      print(x)", "  ```", "after"])
    assert made == ["", ".. code-block:: python", "", "   for x in y:", "       print(x)", "", "after"]


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("a slope of |u|", "a slope of \\|u\\|"),
        ("``|u|`` and `|v|` stay", "``|u|`` and `|v|` stay"),
        ("``neuron``s and ``b``", "``neuron``\\ s and ``b``"),
        ("of ``a``, ``b`` and ``c``", "of ``a``, ``b`` and ``c``"),
        ("see doi:10.1038/78829.", "see `doi:10.1038/78829 <https://doi.org/10.1038/78829>`__."),
        ("(arXiv:1803.09574)", "(`arXiv:1803.09574 <https://arxiv.org/abs/1803.09574>`__)"),
    ],
)
def test_within_a_line(line, made):
    assert to_rst([line]) == [made]


def test_indented_paragraphs_are_code_only_in_modules():
    text = ["So:", "", "    f(|x|)", "", "    g()", "", "And on."]
    assert to_rst(text)[2] == "    f(\\|x\\|)"
    made = to_rst(text, example_blocks=True)
    assert ".. code-block:: python" in made and "   f(|x|)" in made and "   g()" in made and made[-1] == "And on."


def test_code_that_two_colons_announce_stays():
    text = ["So::", "", "    f()", "", "And on."]
    assert to_rst(text, example_blocks=True) == text


def test_values_do_not_repeat_what_their_type_says():
    lines = ["dict() -> new empty dictionary"]
    process(None, "data", "snnkit.x.TABLE", {}, None, lines)
    assert lines == []
    lines = ["Said of |u|."]
    process(None, "function", "snnkit.x.f", process, None, lines)
    assert lines == ["Said of \\|u\\|."]
