"""A training that takes too long is stopped by the button on its panel, and the notebook goes on."""

from __future__ import annotations

import re

import pytest

from .conftest import shoot

expect = pytest.importorskip("playwright.sync_api", reason="pip install -e '.[all]'").expect

MANY = 500  # epochs; minutes of training, if nothing stops it


@pytest.mark.parametrize("name", ["04_train_your_first_network"])
def test_the_stop_button_ends_the_training_and_the_next_cells_run(notebook):
    index, source = notebook.find("train.fit(")
    notebook.write(index, f"epochs = {MANY}\n{source}")
    notebook.start_from(index)
    outputs = notebook.outputs("train.fit(")
    stop = outputs.get_by_role("button", name="Stop training")
    expect(stop).to_be_enabled()
    expect(outputs).to_contain_text(
        re.compile(r"epoch ([2-9]|[1-9]\d)")
    )  # one is done, so that there is something to show
    shoot(notebook.page, "04-training")
    stop.press("Enter")  # the keyboard reaches it; test_exercise presses its buttons by the mouse

    notebook.wait_until_done(seconds=90)
    notebook.write(index, source)  # JupyterLab saves, and another test may open it anew
    assert [error for cell in notebook.code() for error in cell["errors"]] == []
    done = re.search(r"(\d+) epochs in", notebook.outputs("train.fit(").inner_text())
    assert done is not None and 0 < int(done[1]) < MANY
    shoot(notebook.page, "04-stopped")
