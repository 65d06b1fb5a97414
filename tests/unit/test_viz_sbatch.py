"""The explained batch script and its form: what they show, and what a change does."""

import html
import re

import pytest

from snnkit import viz
from snnkit.train import slurm
from snnkit.viz.slurm_form import SbatchForm

TRAIN = "snnkit train digits --checkpoint run.pt"


def shown(page):
    return html.unescape(re.sub(r"<[^>]+>", "", page))


def test_each_line_stands_beside_what_it_is_for():
    table = viz.sbatch_table(slurm.Request(TRAIN, nodes=2))
    page = table._repr_html_()
    assert page.count("<tr") == len(table.lines) and "✗" not in page
    for line, why in slurm.explain(table.text):
        assert line in shown(page) and why in shown(page)
        assert line in repr(table)
    assert table.text == slurm.script(slurm.Request(TRAIN, nodes=2))


def test_problems_stand_beside_their_line_or_below():
    text = slurm.script(slurm.Request(TRAIN)).replace("SIGUSR1@90", "SIGUSR1@9000").replace("#SBATCH --requeue\n", "")
    table = viz.sbatch_table(text)
    on_line, missing = table.problems
    page = table._repr_html_()
    row = next(row for row in page.split("<tr") if "SIGUSR1@9000" in row and "<td" in row)
    assert on_line.what in shown(row) and on_line.fix in shown(row)
    assert missing.what in shown(page[page.index("</table>") :])
    words = " ".join(repr(table).split())
    assert all(f"✗ {problem.what} Fix: {problem.fix}." in words for problem in table.problems)


def test_text_from_others_can_do_no_harm():
    page = viz.sbatch_table("#!/bin/bash\n#SBATCH --job-name=<script>\necho '<b>'")._repr_html_()
    assert "<script>" not in page and "<b>'" not in page


def test_new_lines_are_marked():
    old, new = (slurm.script(slurm.Request(TRAIN, nodes=nodes)) for nodes in (1, 2))
    table = viz.sbatch_table(new, before=old)
    marked = [new.splitlines()[number - 1] for number in sorted(table.new)]
    assert marked == ["#SBATCH --nodes=2", "  --nodes 2 --devices 1 --requeue-signal SIGUSR1 --resume"]
    assert viz.sbatch_table(new).new == frozenset()
    assert table._repr_html_().count("border-left:3px solid transparent") == len(table.lines) - 2


def test_without_a_person_the_form_is_its_script(monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    IPython = pytest.importorskip("IPython.display")
    given = []
    monkeypatch.setattr(IPython, "display", given.append)
    form = viz.sbatch_form(TRAIN, gpus_per_node=2)
    form._ipython_display_()
    assert given == [form.table] and form.text == slurm.script(slurm.Request(TRAIN, gpus_per_node=2))
    assert repr(form) == repr(form.table)


def test_in_a_live_notebook_it_is_a_form(monkeypatch):
    widgets = pytest.importorskip("ipywidgets")
    IPython = pytest.importorskip("IPython.display")
    given = []
    monkeypatch.setattr(IPython, "display", given.append)
    monkeypatch.setattr("snnkit.viz.frontend.headless", lambda: False)
    monkeypatch.setattr("snnkit.viz.frontend.in_notebook", lambda: True)
    viz.sbatch_form()._ipython_display_()
    assert isinstance(given[0], widgets.VBox)


@pytest.fixture
def form():
    pytest.importorskip("ipywidgets")
    made = viz.sbatch_form(TRAIN, name="mine")
    made.box = made.widget()
    return made


def test_a_change_writes_the_script_again(form):
    before = form.text
    for name, value in {
        "nodes": 2,
        "gpus_per_node": 4,
        "cpus_per_task": 8,
        "signal_seconds": 60,
        "time": "02:00:00",
        "partition": "fast",
        "account": "us",
        "memory": "9G",
        "venv": "/v",
        "command": f"{TRAIN} --every 5",
    }.items():
        form.fields[name].value = value
        assert form.message.value == ""
    expected = slurm.Request(
        f"{TRAIN} --every 5", nodes=2, gpus_per_node=4, cpus_per_task=8, signal_seconds=60, time="02:00:00",
        partition="fast", account="us", memory="9G", venv="/v", name="mine",
    )  # fmt: skip
    assert form.request == expected and form.text == slurm.script(expected) != before
    assert form.view.value == form.table._repr_html_()
    assert "--every 5" in shown(form.view.value)
    form.fields["requeue"].value = False
    assert "#SBATCH --no-requeue" in form.text
    form.fields["partition"].value = " "
    assert "--partition" not in form.text


def test_a_value_that_is_refused_is_explained_and_changes_nothing(form):
    before = form.text
    form.fields["time"].value = "<soon>"
    assert "time must be written as" in form.message.value and "&lt;soon&gt;" in form.message.value
    assert form.text == before and form.view.value == form.table._repr_html_()
    form.fields["time"].value = "03:00:00"
    assert form.message.value == "" and "#SBATCH --time=03:00:00" in form.text


def test_bad_beginnings_are_refused():
    with pytest.raises(ValueError, match="nodes must be at least 1"):
        viz.sbatch_form(TRAIN, nodes=0)
    with pytest.raises(TypeError, match="command must be a text, as typed in a shell"):
        viz.sbatch_form(["python"])
    with pytest.raises(TypeError, match="script must be a text"):
        viz.sbatch_table(3)
    assert isinstance(viz.sbatch_form(), SbatchForm)
