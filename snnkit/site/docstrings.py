"""From docstrings as they are written here to reStructuredText, which autodoc reads.

They are meant for ``help`` and the editor: Markdown tables, fenced code and |absolute values| read well there, and mean
something else in reStructuredText.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

FENCE = re.compile(r"\s*```(\w*)\s*$")
ROW = re.compile(r"\s*\|.*\|\s*$")
RULE = re.compile(r"\s*\|[\s:|-]+\|\s*$")
SOURCE = re.compile(r"\b(doi|arXiv):(10\.\d{4,9}/[^\s<>,;]*[\w/]|\d{4}\.\d{4,5})")
AT = {"doi": "https://doi.org/", "arXiv": "https://arxiv.org/abs/"}
LITERAL = re.compile(r"``[^`]*``|`[^`]+`")


def to_rst(lines: Iterable[str], *, example_blocks: bool = False) -> list[str]:
    """The same text for autodoc.

    Args:
        lines: of a docstring, dedented.
        example_blocks: indented paragraphs are code, as in the docstrings of modules, which have no sections.
    """
    rest, made = list(lines), []
    while rest:
        fence = FENCE.match(rest[0])
        if fence:
            made += _code(_until_fence(rest), fence[1] or "text")
        elif ROW.match(rest[0]) and len(rest) > 1 and RULE.match(rest[1]):
            made += _table(_while(rest, ROW))
        elif example_blocks and rest[0].startswith("    ") and not (made and made[-1].strip()):
            if _introduced(made):  # by "::", which makes code of it already
                made += _while(rest, re.compile(r"    |\s*$"))
            else:
                made += _code([line[4:] for line in _while(rest, re.compile(r"    |\s*$"))], "python")
        else:
            made.append(_inline(rest.pop(0)))
    return made


def process(app: object, what: str, name: str, value: object, options: object, lines: list[str]) -> None:
    """For Sphinx's event ``autodoc-process-docstring``."""
    if what == "data" and lines and value.__doc__ == type(value).__doc__:
        lines[:] = []  # what `dict` says of itself is no news about a table
        return
    lines[:] = to_rst(lines, example_blocks=what == "module")


def _introduced(made: list[str]) -> bool:
    said = [line for line in made if line.strip()]
    return bool(said) and said[-1].rstrip().endswith("::")


def _until_fence(rest: list[str]) -> list[str]:
    """What stands up to the fence that closes the one at the head of ``rest``; both are taken out."""
    opening = rest.pop(0)
    margin = len(opening) - len(opening.lstrip())
    block = []
    while rest and not FENCE.match(rest[0]):
        block.append(rest.pop(0)[margin:])
    if rest:
        rest.pop(0)
    return block


def _while(rest: list[str], pattern: re.Pattern[str]) -> list[str]:
    taken = []
    while rest and pattern.match(rest[0]):
        taken.append(rest.pop(0))
    return taken


def _code(block: list[str], language: str) -> list[str]:
    return ["", f".. code-block:: {language}", "", *("   " + line if line.strip() else "" for line in block), ""]


def _table(rows: list[str]) -> list[str]:
    margin = " " * (len(rows[0]) - len(rows[0].lstrip()))
    made = ["", ".. list-table::", "   :header-rows: 1", ""]
    for row in (rows[0], *rows[2:]):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip()[1:-1])]
        made += [f"   {'* -' if index == 0 else '  -'} {_inline(cell)}" for index, cell in enumerate(cells)]
    return [margin + line if line else "" for line in [*made, ""]]


def _inline(line: str) -> str:
    """Bars that would name a substitution, and sources as links; literals stay as they are."""
    pieces, end = [], 0
    for literal in LITERAL.finditer(line):
        pieces += [_escaped(line[end : literal.start()]), literal[0]]
        end = literal.end()
        if line[end : end + 1].isalnum():  # ``Recurrent``s: a literal ends where no letter follows
            pieces.append("\\ ")
    return "".join([*pieces, _escaped(line[end:])])


def _escaped(text: str) -> str:
    return SOURCE.sub(lambda found: f"`{found[0]} <{AT[found[1]]}{found[2]}>`__", text.replace("|", "\\|"))
