"""What a learner must find in every notebook: something to touch, to guess, to write, to check, and to read on."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import NamedTuple

import pytest

from snnkit.tools.project import find
from snnkit.viz.labs import LABS

PROJECT = find()
NAMES = PROJECT.names()
LAB_CALLS = {f"viz.labs.{lab.name}" for lab in LABS}
README = (PROJECT.root / "README.md").read_text(encoding="utf-8")
UNITS = (
    r"(?i:\b(nats?|volts?|seconds?|bytes?|(time )?steps?|cycles|in units of|without units|per neuron)\b)"
    r"|\b(m[sVWJ]|nA|MΩ|Hz|[kMGn]B|[pn]J|GB/s|FLOPs?)\b"
)


class Cell(NamedTuple):
    """One cell: "markdown" or "code", its tags, its text."""

    kind: str
    tags: tuple[str, ...]
    text: str


def cells(text: str) -> list[Cell]:
    """Those of a source in py:percent, the header left out. (Far quicker than jupytext, which test_pairs.py asks.)"""
    _, *parts = re.split(r"(?m)^# %%(.*)\n", text)
    found = []
    for head, body in zip(parts[::2], parts[1::2], strict=True):
        markdown = "[markdown]" in head
        tags = re.search(r"tags=(\[.*?\])", head)
        body = re.sub(r"(?m)^# ?", "", body) if markdown else body
        found.append(Cell("markdown" if markdown else "code", tuple(ast.literal_eval(tags[1])) if tags else (), body))
    return found


def source(name: str) -> str:
    return PROJECT.source(name).read_text(encoding="utf-8")


def calls(cell: Cell, *names: str) -> list[ast.Call]:
    """Calls in a code cell of functions with these dotted names."""
    if cell.kind != "code":
        return []
    nodes = (node for node in ast.walk(ast.parse(cell.text)) if isinstance(node, ast.Call))
    return [node for node in nodes if ast.unparse(node.func) in names]


def first_argument(call: ast.Call) -> object:
    return ast.literal_eval(call.args[0]) if call.args else None


def paragraphs(cell: Cell) -> list[str]:
    """Of a markdown cell, quotes without their marks."""
    text = re.sub(r"(?m)^> ?", "", cell.text) if cell.kind == "markdown" else ""
    return [part for part in re.split(r"\n\s*\n", text) if part.strip()]


def places(found: list[Cell], test: Callable[[Cell], object]) -> list[int]:
    return [index for index, cell in enumerate(found) if test(cell)]


def code_between(found: list[Cell], start: int, stop: int) -> bool:
    return any(cell.kind == "code" for cell in found[start + 1 : stop])


# ---- one function for each thing that must be there: (name of the notebook, its cells) -> an error in words, or None


def explorer(name: str, found: list[Cell]) -> str | None:
    shown = places(found, lambda cell: calls(cell, "viz.explore", *LAB_CALLS))
    return None if shown else "no viz.explore(…) and no ready-made explorer"


def prediction(name: str, found: list[Cell]) -> str | None:
    for index, cell in enumerate(found):
        for part in paragraphs(cell):
            asked = re.search(r"\*\*Predict first[^*]*\*\*(.*)", part, re.DOTALL)
            if asked and "?" in asked[1] and code_between(found, index, len(found)):
                return None
    return "no question under **Predict first** with a cell to run below it"


def two_exercises(name: str, found: list[Cell]) -> str | None:
    tagged = [cell for cell in found if "exercise" in cell.tags]
    keys = [first_argument(call) for cell in tagged for call in calls(cell, "attempt")]
    wanted = [f"{name[:2]}.{number}" for number in range(1, len(keys) + 1)]
    return None if len(keys) >= 2 and keys == wanted else f"exercises {keys}, not two or more from {name[:2]}.1 on"


def quiz(name: str, found: list[Cell]) -> str | None:
    asked = [first_argument(call) for cell in found for call in calls(cell, "quiz")]
    return None if asked == [name[:2]] else f"quiz of {asked}, not of {name[:2]} once"


def scorecard(name: str, found: list[Cell]) -> str | None:
    quizzes = places(found, lambda cell: calls(cell, "quiz"))
    scores = places(found, lambda cell: calls(cell, "scorecard"))
    shown = [first_argument(call) for cell in found for call in calls(cell, "scorecard")]
    if shown != [name[:2]]:
        return f"scorecard of {shown}, not of {name[:2]} once"
    return None if quizzes and scores[0] > quizzes[-1] else "the scorecard must come after the quiz"


def what_broke(name: str, found: list[Cell]) -> str | None:
    box = places(found, lambda cell: cell.kind == "markdown" and re.search(r"(?m)^#{2,3} .*What broke\?", cell.text))
    end = places(found, lambda cell: calls(cell, "quiz"))
    if not box:
        return 'no heading "What broke?"'
    return None if end and code_between(found, box[0], end[0]) else "nothing runs under What broke?"


def equation(name: str, found: list[Cell]) -> str | None:
    """With its units in the same cell."""
    for cell in found:
        formulas = re.findall(r"\$\$.+?\$\$", cell.text, re.DOTALL) if cell.kind == "markdown" else []
        around = re.sub(r"\$.+?\$", "", re.sub(r"\$\$.+?\$\$", "", cell.text, flags=re.DOTALL))
        if formulas and re.search(UNITS, around):
            return None
    return "no displayed equation with units beside it"


def references(name: str, found: list[Cell]) -> str | None:
    heading = r"(?m)^(#+ (Sources|References)|\*\*Worth reading\*\*)\s*$"
    lists = [re.split(heading, cell.text)[-1] for cell in found if re.search(heading, cell.text)]
    links = re.findall(r"\]\(https://doi\.org/(10\.\d{4,9}/[^\s)]+)\)", "".join(lists))
    return None if len(set(links)) >= 2 else f"{len(set(links))} references with a DOI, not two or more"


def minutes(name: str, found: list[Cell]) -> str | None:
    """Those of the class as in the README's table, and those of a GPU."""
    top = found[1].text
    said = re.search(r"(\d+) min", top)
    row = re.search(rf"\(notebooks/{name}\.ipynb\) \| (\d+) \|", README)
    if said is None or row is None or said[1] != row[1]:
        return f"minutes {said and said[1]}, in the README {row and row[1]}"
    return None if re.search(r"GPU minutes", top) else "nothing about GPU minutes"


def what_is_next(name: str, found: list[Cell]) -> str | None:
    scores = places(found, lambda cell: calls(cell, "scorecard"))
    below = "\n".join(cell.text for cell in found[scores[-1] :] if cell.kind == "markdown") if scores else ""
    parts = re.split(r"(?m)^## (?:Where next|Next)\s*$", below)
    following = f"{int(name[:2]) + 1:02d}"
    return (
        None if len(parts) == 2 and f"**{following} · " in parts[1].replace("**[", "**") else f"no way to {following}"
    )


CRITERIA = {
    "an explorer": explorer,
    "a question to predict": prediction,
    "two exercises": two_exercises,
    "a quiz": quiz,
    "a scorecard": scorecard,
    "what broke": what_broke,
    "an equation with units": equation,
    "references": references,
    "minutes": minutes,
    "the next notebook": what_is_next,
}
each_notebook = pytest.mark.parametrize("name", NAMES)
each_criterion = pytest.mark.parametrize("wanted", CRITERIA)


@each_criterion
@each_notebook
def test_a_notebook_has(name, wanted):
    assert CRITERIA[wanted](name, cells(source(name))) is None


@each_notebook
def test_ready_made_explorers_stand_between_a_question_and_what_to_notice(name):
    found = cells(source(name))
    for index in places(found, lambda cell: calls(cell, *LAB_CALLS)):
        before, after = found[index - 1], found[index + 1]
        assert "**Predict first" in before.text and "?" in before.text.split("**Predict first")[-1], before.text
        assert re.search(r"\*\*(What to n|N)otice", after.text), after.text


def test_every_ready_made_explorer_is_in_one_notebook_only():
    shown = [lab for name in NAMES for lab in LAB_CALLS for cell in cells(source(name)) if calls(cell, lab)]
    assert len(set(shown)) == len(shown)


@each_notebook
def test_no_control_characters_spoil_a_formula(name):
    # A "\\times" that went through a plain string is a tab and "imes".
    spoilt = re.findall(r"[^\n\x20-\x7e\xa0-\U0010ffff]", source(name))
    assert spoilt == []


@each_notebook
def test_names_of_the_kit_are_public(name):
    """One level below ``snnkit``: what a notebook needs, a reader can find."""
    below = re.findall(r"(?m)^\s*(?:from snnkit\.\w+\.[\w.]+ import|import snnkit\.).*", source(name))
    private = re.findall(r"(?m)^\s*from snnkit.* import .*\b_\w+.*", source(name))
    assert below + private == []
