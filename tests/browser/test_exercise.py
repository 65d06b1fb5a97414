"""An exercise helps: its buttons do under the card what hint() and solution() do in a cell."""

from __future__ import annotations

import pytest

from snnkit.course import exercise as registry

from .conftest import shoot
from .test_lab import NOTEBOOKS

expect = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[all]'").expect


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_hint_button_opens_one_hint_after_the_other(notebook, name):
    exercise = registry.exercises(name[:2])[0]
    outputs = notebook.outputs(f'attempt("{exercise.key}"')
    expect(outputs.locator(".snnkit-card").first).to_contain_text("to do")
    for number, hint in enumerate(exercise.hints[:2], start=1):
        outputs.get_by_role("button", name="Hint").click()
        expect(outputs).to_contain_text(f"Hint {number}")
        expect(outputs).to_contain_text(hint.replace("`", ""))
    shoot(notebook.page, f"{name[:2]}-hint")
