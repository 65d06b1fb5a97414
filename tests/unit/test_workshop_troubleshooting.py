"""What the troubleshooting page quotes is what the kit says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from snnkit.tools.project import find
from snnkit.workshop.markdown import Page

ROOT = find(Path(__file__).parent).root
PAGE = Page.read(ROOT / "workshop" / "troubleshooting.md", ROOT)
QUOTED = sorted({quote for _, line in PAGE.prose if line.startswith("|") for quote in re.findall("“([^”]+)”", line)})


@pytest.fixture(scope="module")
def said():
    """Every text of the kit and its notebooks, one behind the other; the fixed parts of f-strings stand apart."""
    texts: list[str] = []
    for file in [*(ROOT / "snnkit").rglob("*.py"), *(ROOT / "notebooks" / "src").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\0".join(texts)


@pytest.mark.parametrize("quote", QUOTED)
def test_the_kit_says_what_is_quoted(quote, said):
    assert quote in said, f"no source says {quote!r}"


def test_there_are_quotes_and_every_place_has_its_table():
    assert len(QUOTED) > 15
    titles = [title for _, level, title in PAGE.headings if level == 2]
    assert titles[:6] == [
        "Anywhere",
        "Colab",
        "JupyterLab on your own machine",
        "Windows",
        "macOS",
        "Clusters and JupyterHub",
    ]
    for title in titles[:6]:
        section = PAGE.section(title)
        assert section is not None and len(section.tables) == 1
        (table,) = section.tables
        assert table.columns == ("symptom", "cause", "fix") and len(table.rows) >= 5
        assert all(all(row.cells.values()) and len(row.cells) == 3 for row in table.rows)
