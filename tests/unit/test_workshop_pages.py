"""What the workshop's pages tell people to type exists."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path

import click
import pytest

from snnkit import course
from snnkit.course import exercise as registry
from snnkit.tools.project import find

from .test_readme import calls, parsed

ROOT = find(Path(__file__).parent).root
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in (ROOT / "workshop").rglob("*.md")
}
each_page = pytest.mark.parametrize("name", PAGES)


@each_page
def test_every_command_is_one(name, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "FOLDER").mkdir()
    bundle = tmp_path / "build" / "workshop" / "snnkit-workshop.zip"
    bundle.parent.mkdir(parents=True)
    for file in (bundle, tmp_path / "job.sh"):
        file.touch()
    for words in calls("snnkit", PAGES[name]):
        if not words:
            continue  # `snnkit` alone: the name of the kit
        try:
            parsed(words)
        except click.exceptions.Exit:
            assert "--help" in words or "-h" in words
        except click.ClickException as error:
            pytest.fail(f"{name}: snnkit {shlex.join(words)}: {error.format_message()}")


@pytest.mark.parametrize("name", [name for name in PAGES if "budget" not in name])  # its hours look like keys
def test_every_exercise_that_is_named_exists(name):
    keys = {one.key for number in registry.notebooks() for one in registry.exercises(number)}
    text = re.sub(r"(?ms)^```.*?^```", "", PAGES[name])
    for key in re.findall(r"(?<![\d.,/])(\d\d\.\d)(?![\d.%–]| ?×)", text):
        if key[:2] in registry.notebooks():
            assert key in keys, f"{name} names an exercise {key}"


def test_the_functions_that_pages_name_exist():
    for page, text in PAGES.items():
        for attribute in re.findall(r"`course\.(\w+)\(", text):
            assert hasattr(course, attribute), f"{page} names course.{attribute}"


# --- what the troubleshooting page quotes is what the kit says --------------------------------------------------------

TROUBLES = [line for line in PAGES["workshop/troubleshooting.md"].splitlines() if line.startswith("|")]
QUOTED = sorted({quote for line in TROUBLES for quote in re.findall("“([^”]+)”", line)})


@pytest.fixture(scope="module")
def said():
    """Every text of the kit and its notebooks, one behind the other; the fixed parts of f-strings stand apart."""
    texts: list[str] = []
    for file in [*(ROOT / "snnkit").rglob("*.py"), *(ROOT / "notebooks" / "src").glob("*.py")]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return "\0".join(texts)


def test_the_kit_says_what_is_quoted(said):
    assert len(QUOTED) > 15 and [quote for quote in QUOTED if quote not in said] == []
