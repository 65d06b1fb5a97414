"""What a learner finds in every notebook: something to touch, guess, write, check and read on, in one skeleton."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import torch

from snnkit import data, loss, neuron, nn
from snnkit.lab import course
from snnkit.lab.course import order, question
from snnkit.lab.tools import pair, parameters
from snnkit.lab.tools.project import find
from snnkit.lab.workshop import minutes

from .told import FOLDED, told

PROJECT = find()
NAMES = PROJECT.names()
UNITS = (
    r"(?i:\b(nats?|volts?|seconds?|bytes?|(time )?steps?|cycles|in units of|without units|per neuron)\b)"
    r"|\b(m[sVWJ]|nA|MΩ|Hz|[kMGn]B|[pn]J|GB/s|FLOPs?)\b"
)
WANTED = {
    "an explorer": r"^viz\.(explore|explorers\.\w+)\(",
    "a question to predict": r"\*\*Predict first[^*]*\*\*[^%]*\?.*^# %%(?! *\[markdown)",
    "what broke, with a cell below": r"^# #{2,3} [^\n]*What broke\?.*^# %%(?! *\[markdown).*^# %%.*^quiz\(",
    "a word on a GPU": r"GPU minutes",
    "two references with a DOI": r"^# (?:#+ (?:Sources|References)|\*\*Worth reading\*\*)\s*$(.*\]\(https://doi\.org/10\.\d+/){2}",
}
each_notebook = pytest.mark.parametrize("name", NAMES)


def source(name: str) -> str:
    return PROJECT.source(name).read_text(encoding="utf-8")


@pytest.mark.parametrize("wanted", WANTED)
@each_notebook
def test_a_notebook_has(name, wanted):
    assert re.search(WANTED[wanted], source(name), re.DOTALL | re.MULTILINE)


MOVES = re.compile(r"viz\.(explore|explorers\.\w+|frames|embed|landscape|LivePanel)\(|train\.fit\(")


@each_notebook
def test_a_picture_that_moves_comes_within_250_words(name):
    """Of prose, without goals and table at the top."""
    words = 0
    for cell in pair.notebook(PROJECT, name).cells:
        if cell.cell_type == "code" and MOVES.search(cell.source):
            break
        if cell.cell_type == "markdown" and "badge" not in cell.metadata.get("tags", []):
            words += len(
                re.findall(
                    r"\w[\w'’.,-]*", minutes.NO_PROSE.sub(" ", cell.source.partition("**Afterwards you can**")[0])
                )
            )
    assert words <= 250


@each_notebook
def test_at_most_a_sixth_of_the_minutes_is_optional(name):
    """15 %, and a rounding of minutes."""
    load = minutes.count(PROJECT, name)
    optional = sum(one.minutes for one in load.optional.values())
    assert optional <= 0.165 * (optional + load.total.minutes)


@each_notebook
def test_certificates_know_a_notebook_by_its_title(name):
    (title,) = re.findall(r"(?m)^# # (.+)$", source(name))
    assert title.partition(":")[0] == order.titled(name[3:])


@each_notebook
def test_exercises_quiz_scorecard_and_the_way_on_come_in_this_order(name):
    text, name_only = source(name), name[3:]
    code = re.sub(r"(?m)^#.*\n", "", text)
    keys = re.findall(r'\battempt\(\s*"(\w+\.\d+)"', code)
    assert len(keys) >= 2 and keys == [f"{name_only}.{n}" for n in range(1, len(keys) + 1)]
    assert re.findall(r'\b(attempt|quiz|scorecard)\(\s*"', code) == ["attempt"] * len(keys) + ["quiz", "scorecard"]
    assert re.findall(r'\b(?:quiz|scorecard)\("(\w+)"', code) == [name_only] * 2
    (below,) = re.split(r"(?m)^# ## (?:Where next|Next)\s*$", text[text.rindex("scorecard(") :])[1:]
    of_the_track = order.notebooks_of(order.track_of(name_only))
    following = of_the_track[of_the_track.index(name_only) + 1 :]
    assert not following or re.search(rf"\*\*\[?{order.label(following[0])} · ", below)


@each_notebook
def test_exercises_of_optional_parts_are_those_that_scorecards_do_not_wait_for(name):
    optional, apart = [], 0  # the level of the heading with "(optional", or 0
    for line in source(name).splitlines():
        if heading := re.match(r"# (#{2,6}) ", line):
            level = len(heading[1])
            apart = level if re.search(r"\((optional|stretch)", line) else 0 if level <= apart else apart
        if apart and (key := re.search(r'attempt\(\s*"(\w+\.\d+)"', line)):
            optional.append(key[1])
    assert optional == [one.key for one in course.exercises(name[3:]) if one.optional]


@each_notebook
def test_every_prompt_to_predict_has_its_card_and_every_card_its_prompt(name):
    known = question.read(name[3:])["predictions"]
    text = source(name)
    predicted, came = (re.findall(rf"(?m)^ *{word}\(\s*\"(\w+\.\w)\"", text) for word in ("predict", "outcome"))
    # Letters keep their predictions, and so what learners have locked, wherever these move in the notebook.
    assert sorted(predicted) == sorted(known) == sorted(set(came)) and len(predicted) >= 3
    events = re.findall(r"\*\*Predict first|^predict\(", text, re.MULTILINE)
    assert re.fullmatch("(Pp+)+", "".join("P" if event.startswith("*") else "p" for event in events))
    for cell in re.split(r"(?m)^# %%", text):
        assert "\npredict(" not in cell or re.search(r"\npredict\(\"\S+\"\)\s*\Z", cell), "what follows is another cell"


@each_notebook
def test_no_text_tells_an_answer_before_its_prediction_and_what_to_notice_is_folded(name):
    """``test_execute`` looks at what cells print."""
    cells = pair.notebook(PROJECT, name).cells
    assert told(cells) == []
    texts = [FOLDED.sub("", cell.source) for cell in cells if cell.cell_type == "markdown"]
    assert [text for text in texts if re.search(r"\*\*What to notice|</?details|</?summary", text)] == []
    # JupyterLab leaves no gap between such a block and a paragraph below it, only between cells, and above headings.
    assert [cell.source for cell in cells if re.search(r"</details>\s*[^\s#]", cell.source)] == []


@each_notebook
def test_an_equation_has_units_beside_it(name):
    cells = [cell for cell in re.split(r"(?m)^# %%", source(name)) if re.search(r"\$\$.+?\$\$", cell, re.DOTALL)]
    assert any(re.search(UNITS, re.sub(r"\$\$.+?\$\$|\$.+?\$", "", cell, flags=re.DOTALL)) for cell in cells)


@each_notebook
def test_no_control_characters_spoil_a_formula(name):
    # A "\\times" that went through a plain string is a tab and "imes".
    assert re.findall(r"[^\n\x20-\x7e\xa0-\U0010ffff]", source(name)) == []


@each_notebook
def test_results_are_printed_as_lines_not_as_dicts(name):
    assert re.findall(r"print\(\{.*", source(name)) == []


@each_notebook
def test_names_of_the_kit_are_public(name):
    """One level below ``snnkit`` or ``snnkit.lab``: what a notebook needs, a reader can find."""
    below = re.findall(r"(?m)^\s*(?:from snnkit\.(?!lab\.\w+ )\w+\.[\w.]+ import|import snnkit\.).*", source(name))
    private = re.findall(r"(?m)^\s*from snnkit.* import .*\b_\w+.*", source(name))
    assert below + private == []


@each_notebook
def test_setup_and_imports_are_folded_and_the_imports_are_few(name):
    cells = [cell for cell in pair.notebook(PROJECT, name).cells if cell.cell_type == "code"]
    setup, imports = (next(c for c in cells if mark in c.source) for mark in ("find_spec", "\ncourse.start("))
    for cell in (setup, imports):
        assert cell.metadata.jupyter == {"source_hidden": True} and cell.metadata.cellView == "form"
        assert cell.source.startswith("# @title ")
    assert sum("source_hidden" in str(cell.metadata) for cell in cells) == 2
    statements = re.findall(r"(?m)^(?:import|from) ", imports.source)
    assert len(statements) <= 9


# ---- the file: in sync with its source, the badge first, nothing of a run ----


@pytest.fixture
def notebook(name):
    return json.loads(PROJECT.pair(name).read_text(encoding="utf-8"))


def test_notebooks_are_counted_from_00_and_none_is_without_a_source():
    assert [f"{order.label(name)}_{name}" for name in order.NOTEBOOKS] == NAMES
    assert PROJECT.orphans() == []


@each_notebook
def test_build_would_change_nothing(name):
    assert [str(found) for found in pair.check(PROJECT, name)] == []


@each_notebook
def test_parameters_are_typed_literals_with_the_two_switches(name):
    known = parameters.declared(pair.notebook(PROJECT, name), name)
    assert (known["QUICK"].kind, known["QUICK"].default) == (bool, True)
    assert (known["SOLVE"].kind, known["SOLVE"].default) == (bool, False)


@each_notebook
def test_nothing_is_upgraded_in_a_notebook(name, notebook):
    others = [cell for cell in notebook["cells"] if cell["metadata"].get("tags") != ["bootstrap"]]
    text = "\n".join("".join(cell["source"]) for cell in others if cell["cell_type"] == "code")
    assert not re.search(r"(?m)^\s*[!%]\s*(pip|conda|apt)", text)


def test_the_result_to_beat_in_the_challenge_of_04_is_what_its_advice_gives():
    spikes, accuracy = re.search(
        r"about (\d+) spikes are left at ([\d.]+) %", source("04_train_your_first_network")
    ).groups()
    torch.manual_seed(0)
    (images, labels), (test_images, test_labels) = (data.load("digits", half) for half in ("train", "test"))
    net = nn.Sequential(torch.nn.Linear(64, 64), neuron.Leaky(0.9), torch.nn.Linear(64, 10), neuron.Leaky(0.9))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(10):
        for rows in torch.randperm(len(images)).split(64):
            recording = net.record(data.to_unit(images[rows]).flatten(1).expand(10, -1, -1))
            few = loss.spike_rate_regulariser([recording.layers[1]], target=0.02, weight=50)
            optimizer.zero_grad()
            (loss.count_cross_entropy(recording.out, labels[rows]) + few).backward()
            optimizer.step()
    recording = net.record(data.to_unit(test_images).flatten(1).expand(10, -1, -1))
    assert recording.layers[1].sum((0, 2)).mean().item() == pytest.approx(int(spikes), rel=0.15)
    assert 100 * loss.accuracy(recording.out, test_labels) == pytest.approx(float(accuracy), abs=1)


def test_microspike_is_a_program_of_its_own():
    """At most 150 lines, which learn to read digits where there is no snnkit."""
    cells = pair.notebook(PROJECT, "05_microspike").cells
    program = "\n\n\n".join(cell.source for cell in cells if "microspike" in cell.metadata.get("tags", []))
    assert len(program.splitlines()) <= 150
    program = f"import sys; sys.modules['snnkit'] = None\n{program}"
    done = subprocess.run([sys.executable, "-I", "-"], input=program, capture_output=True, text=True)
    assert float(re.findall(r"test accuracy ([\d.]+)%", done.stdout)[-1]) >= 95, done.stderr
