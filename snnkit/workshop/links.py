"""Links of the workshop's pages: each leads to a file, and to a heading that is in it."""

from __future__ import annotations

import re
from pathlib import Path

from .markdown import Page
from .problem import Problem


def pages(root: Path) -> list[Page]:
    """All pages of the workshop, in order."""
    return [Page.read(file, root) for file in sorted((root / "workshop").rglob("*.md"))]


def check(root: Path) -> list[Problem]:
    """Relative links of the workshop's pages that lead nowhere."""
    problems = []
    for page in pages(root):
        for line, _, target in page.links:
            if re.match(r"\w+:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (root / page.name).parent / path if path else root / page.name
            if not file.exists():
                problems.append(Problem(page.name, line, f"links to {target}, which does not exist"))
            elif anchor and file.suffix == ".md":
                found = {anchor_of(title) for _, _, title in Page("", file.read_text(encoding="utf-8")).headings}
                if anchor not in found:
                    problems.append(Problem(page.name, line, f"links to {target}, but there is no such heading"))
    return problems


def anchor_of(title: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
