"""Predictions and the quiz: their files, what is right, what pages say to the kernel, and what is shown where."""

import atexit
import json
import math
import re
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from snnkit.lab import course, exercises
from snnkit.lab.course import card, gate, order, outcome, predict, predictions, progress, question, quiz, scorecard
from snnkit.lab.pages import web
from tests.course.examples import EXERCISE, install
from tests.javascript import run

TEXT = """
predictions:
  a:
    ask: Does `v` creep?
    choices: [creeps, jumps <b>]
    answer: 1
    why: It "jumps".
  b:
    ask: By what factor?
    number: {unit: times, low: 0.5, high: 10, tolerance: 0.2}
    answer: 2.5
    why: Because.
  c:
    ask: Sketch it.
    sketch: {x: [0, 1.5, w], y: [0, 2, loss], tolerance: 0.15}
    why: A staircase.
quiz:
  - text: How often?
    choices:
      - {text: never, right: true, reply: Yes.}
      - {text: once, reply: Think of the leak.}
      - {text: twice, reply: "More than once?"}
    why: Below the threshold.
"""
A, B, C = question.parse(TEXT, "trial")["predictions"].values()
FLAT = [1.0] * question.POINTS


@pytest.fixture(autouse=True)
def notebook(monkeypatch):
    install(monkeypatch, EXERCISE, texts=TEXT)
    monkeypatch.setattr("snnkit.lab.course.exercise.notebooks", lambda: ["trial"])


@pytest.fixture
def shown(monkeypatch):
    """Names and data of all pages, as in a notebook with a kernel."""
    pages = []
    monkeypatch.setattr(card, "show", lambda name, data, fallback, words: pages.append((name, data)))
    return pages


# --- the files --------------------------------------------------------------------------------------------------------

FILES = sorted(Path(exercises.__path__[0]).glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_as_it_should_be(path):
    question.parse(path.read_text(encoding="utf-8"), path.stem)


def test_files_are_of_notebooks():
    assert {path.stem for path in FILES} == set(course.notebooks())
    assert {path.stem for path in FILES} | {"__init__"} == {path.stem for path in FILES[0].parent.glob("*.py")}


def test_letters_of_predictions_that_have_gone_may_be_missing():
    known = question.parse(TEXT.replace("  c:", "  f:"), "trial")["predictions"]
    assert list(known) == ["trial.a", "trial.b", "trial.f"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("quiz:", "quizz:", "no fields but predictions, quiz, but it has quizz"),
        ("  b:", "  a:", "trial.yaml must be YAML, but: .*the key a is given twice"),
        ("  b:", "  d:", "predictions of trial.yaml must be a, b, … in this order"),
        ("  b:", "  bb:", "predictions of trial.yaml must be a, b, … in this order"),
        ("why: Because.", "", "trial.b must have a field why"),
        ("why: Because.", "why: [x]", "why of trial.b must be text"),
        ("why: Because.", r"why: $\\tau$", "without LaTeX"),
        ("[creeps, jumps <b>]", "[creeps]", "two to four"),
        ("[creeps, jumps <b>]", "[yes, no]", "a choice of trial.a must be text.*True"),
        ("[creeps, jumps <b>]", "[same, same]", "must differ"),
        ("answer: 1", "answer: 2", "index of a choice"),
        ("answer: 2.5", "answer: 20", "answer of trial.b must be"),
        ("answer: 2.5", "answer: 2.5\n    tip: x", "but it has tip"),
        ("high: 10", "high: 0.1", "high of trial.b must be"),
        ("tolerance: 0.2}", "tolerance: 0.2, within: 1}", "or within"),
        ("[0, 1.5, w]", "[0, 1.5]", r"x of trial.c must be \[low, high, label\]"),
        ("why: A staircase.", "why: A.\n    answer: 3", "outcome"),
        ("right: true, ", "", "one of them must be right"),
        ("reply: Yes.", "reply: ''", "reply of choice 1 of question 1 of trial"),
        ("predictions:", "predictions: [", "must be YAML"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(old, new, message):
    assert old in TEXT
    with pytest.raises(ValueError, match=message):
        question.parse(TEXT.replace(old, new), "trial")


def test_unknown_predictions_are_refused():
    for key in ("trial.z", "98.a", "", "../x"):
        with pytest.raises(ValueError, match="key must be a prediction"):
            predict(key)


# --- what is right ----------------------------------------------------------------------------------------------------

CURVE = [[0.0, 0.75, 1.5], [0.5, 1.5, 5.0]]  # the last is above the axis, and counts as 2
WHOLE = B | {"tolerance": None, "within": 0, "unit": "neurons", "answer": None}
CASES = [
    (A, 1, 1, True),
    (A, 0, 1, False),
    (B, 2.0, 2.5, True),
    (B, 3.0, 2.5, True),
    (B, 1.99, 2.5, False),
    (B | {"tolerance": None, "within": 0.1} | {"answer": None}, 2.45, 2.5, True),
    (WHOLE, 1.0, 3.0, False),
    (WHOLE | {"within": 1, "unit": "%"}, 2.0, 4.0, False),
    (C, FLAT, [[0.0, 1.5], [1.2, 0.8]], True),
    (C, FLAT, CURVE, False),
    (C, FLAT, [[2.0, 3.0], [1.0, 1.0]], False),  # nowhere to compare
]


@pytest.mark.parametrize(("prompt", "guess", "result", "right"), CASES)
def test_what_is_right_in_python(prompt, guess, result, right):
    assert question.is_guess(prompt, guess)
    assert question.is_right({k: v for k, v in prompt.items() if v is not None}, guess, result) is right


def test_pages_judge_as_python_does_and_say_how_far_off():
    typed = ["2.5", " 1e0 ", "−1", "1,5", "2 x", "", "99", "nan", "0x3"]
    cases = [({k: v for k, v in prompt.items() if v is not None}, guess, result) for prompt, guess, result, _ in CASES]
    script = """
    const judged = cases.map(([prompt, guess, result]) => judge(prompt, guess, result));
    return [judged, typed.map((text) => numberOf(text, asked))];"""
    judged, read = run(script, "course_answers.js", cases=cases, typed=typed, asked=B)
    assert [one["right"] for one in judged] == [right for *_, right in CASES]
    assert "20 % too low" in judged[2]["words"] and "0.05 too low" in judged[5]["words"]
    assert judged[6]["words"] == "You said 1, it is 3 neurons: 2 too low. Only this number is right."
    assert judged[7]["words"] == "You said 2, it is 4 %: 2 points too low. Right is within 1 point."
    assert "% of the height" in judged[9]["words"]
    (far, near), _ = run(script, "course_answers.js", cases=[(B, 4.1, 1640.0), (B, 820.0, 1640.0)], typed=[], asked=B)
    assert "1/400 of the result, too low" in far["words"] and "50 % too low" in near["words"]
    assert [one.get("value") for one in read] == [2.5, 1, None, None, None, None, None, None, None]
    for place, words in ((3, "1.5"), (4, "without “times”"), (6, "from 0.5 to 10")):
        assert words in read[place]["problem"]


@pytest.mark.parametrize(
    ("prompt", "value", "truth"),
    [
        (A, "jumps <b>", 1),
        (A, np.int64(0), 0),
        (B, torch.tensor([2.5]), 2.5),
        (B, np.float32(3), 3.0),
        (C, (torch.tensor([1.0, 0.0]), [2.0, 1]), [[0.0, 1.0], [1.0, 2.0]]),
    ],
)
def test_outcomes_come_in_several_forms(prompt, value, truth):
    assert question.truth(prompt, value) == truth


@pytest.mark.parametrize(
    ("prompt", "value"),
    [
        (A, "walks"),
        (A, 2),
        (A, True),
        (B, "x"),
        (B, math.nan),
        (B, [1, 2]),
        (C, 3),
        (C, ([1], [1])),
        (C, ([1, 2], [1, math.inf])),
        (C, None),
    ],
)
def test_an_outcome_of_another_kind_is_refused(prompt, value):
    with pytest.raises(ValueError, match=f"outcome of {prompt['key']} must be"):
        question.truth(prompt, value)


# --- what a page says -------------------------------------------------------------------------------------------------


def test_a_prediction_locks_once_and_is_judged_by_its_outcome(shown):
    assert predictions.receive({"known": ["trial.a"]}) == {"records": {}}
    record = predictions.receive({"lock": "trial.a", "guess": 1, "sure": 90})["records"]["trial.a"]
    assert (record["guess"], record["sure"], record["right"]) == (1, 90, None)  # though its answer is in the file
    assert predictions.receive({"lock": "trial.a", "guess": 0, "sure": 50})["records"]["trial.a"] == record
    assert predictions.receive({"lock": "trial.c", "guess": FLAT, "sure": 50})["records"]["trial.c"]["right"] is None
    outcome("trial.c", ([0, 1.5], [1.9, 1.9]))
    assert shown[-1][0] == "outcomePage" and shown[-1][1]["record"]["right"] is False
    outcome("trial.a")  # as the file says
    assert shown[-1][1]["truth"] == 1 and shown[-1][1]["record"] == record | {"right": True}
    course.start("trial")  # the next kernel
    predict("trial.a")
    asked = {
        "key": "trial.a",
        "label": "trial.a",
        "kind": "choice",
        "ask": A["ask"],
        "choices": A["choices"],
    }  # neither answer nor why
    assert shown[-1] == ("predictPage", {"line": None, "question": asked, "record": record | {"right": True}})
    card = scorecard("trial")
    assert card.predictions == ("right", "to make", "wrong")
    assert card.calibration == ("50 % sure: right 0 of 1 times", "90 % sure: right 1 of 1 times")
    assert "✓ ○ ✗  (2 of 3 made, 1 right)" in repr(card) and "90 % sure: right 1 of 1" in card._repr_html_()


def test_a_skipped_prediction_stays_without_a_guess(shown, progress_file):
    record = {"guess": None, "sure": None, "right": None, "when": ""}
    for message in ({"skip": "trial.b"}, {"lock": "trial.b", "guess": 2.5, "sure": 70}, {"known": ["trial.b"]}):
        assert predictions.receive(message)["records"] == {"trial.b": record}
    predictions.receive({"lock": "trial.a", "guess": 1, "sure": 90})
    assert predictions.receive({"skip": "trial.a"})["records"]["trial.a"]["guess"] == 1
    outcome("trial.b", 5.0)
    course.start("trial")  # the next kernel
    assert scorecard("trial").predictions == ("locked", "skipped", "to make") and scorecard("trial").calibration == ()
    assert "· – ○  (1 of 3 made, 0 right)" in repr(scorecard("trial"))
    course.export(progress_file.with_name("ada.json"))
    handed = json.loads(progress_file.with_name("ada.json").read_text())["notebooks"]["trial"]["predictions"]
    assert [one["key"] for one in handed] == ["trial.a"]


def test_an_outcome_that_ran_before_judges_what_is_locked_later(shown):
    outcome("trial.b", 5.0)
    assert shown[-1][1]["record"] is None
    assert predictions.receive({"lock": "trial.b", "guess": 2.5, "sure": 99})["records"]["trial.b"]["right"] is False


@pytest.mark.parametrize(
    "message",
    [
        {"lock": "trial.a", "guess": 2, "sure": 90},
        {"lock": "trial.a", "guess": True, "sure": 90},
        {"lock": "trial.b", "guess": math.nan, "sure": 90},
        {"lock": "trial.b", "guess": "3", "sure": 90},
        {"lock": "trial.b", "guess": 3, "sure": 80},
        {"lock": "trial.c", "guess": [*FLAT[:-1], 2.1], "sure": 50},
        {"lock": "trial.c", "guess": FLAT[:-1], "sure": 50},
        {"lock": "98.a", "guess": 1, "sure": 50},
        {"skip": "98.a"},
        {"skip": None},
        {"quiz": "trial", "index": 1, "right": True},
        {"quiz": "trial", "index": 0, "right": "yes"},
        {},
        "lock",
    ],
)
def test_a_page_that_says_nonsense_is_refused(message, progress_file):
    assert "refused" in predictions.receive(message)
    assert not progress_file.exists()


def test_a_guess_that_no_longer_fits_its_question_may_be_made_again(shown):
    progress.current().progress.locked("trial.b", 400.0, 50)
    predict("trial.b")
    assert shown[-1][1]["record"] is None
    assert predictions.receive({"lock": "trial.b", "guess": 2.5, "sure": 70})["records"]["trial.b"]["guess"] == 2.5


def test_a_scorecard_on_a_page_hears_of_everything(monkeypatch, capsys):
    sent = []
    monkeypatch.setattr(card, "tell", sent.append)
    course.attempt("trial.1", lambda v, x, beta: beta * v + x)
    assert sent == []  # no scorecard yet
    scorecard("trial")._repr_html_()
    course.attempt("trial.1", lambda v, x, beta: beta * v + x)
    assert "passed, 2 attempts" in sent[-1]["scorecards"]["trial"]
    assert "1 of 3 made" in predictions.receive({"lock": "trial.a", "guess": 0, "sure": 50})["scorecards"]["trial"]
    assert "1 of 1 right" in predictions.receive({"quiz": "trial", "index": 0, "right": True})["scorecards"]["trial"]


# --- where there is no page -------------------------------------------------------------------------------------------


def test_without_a_page_questions_are_printed(capsys):
    for key in ("trial.a", "trial.b", "trial.c"):
        predict(key)
    outcome("trial.c", ([0, 1.5], [0.1, 1.9]))
    quiz("trial")
    out = capsys.readouterr().out
    assert "Prediction trial.a: Does `v` creep?\n  (1) creeps · (2) jumps <b>" in out
    assert "(a number, times, from 0.5 to 10)" in out and "w from 0 to 1.5, loss from 0 to 2" in out
    assert "Outcome trial.c: a curve, loss from 0.1 to 1.9\n  A staircase." in out
    assert "Question 1: How often?" in out and "2: once" in out and "leak" not in out


def test_a_headless_run_holds_the_answers_to_what_comes_out(monkeypatch, capsys):
    outcome("trial.a", "creeps")  # a learner may change the numbers
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    outcome("trial.b", 2.4)
    for key, value in (("trial.a", "creeps"), ("trial.b", 4)):
        with pytest.raises(ValueError, match=f"outcome of {key} must agree"):
            outcome(key, value)


def test_a_page_needs_no_kernel_and_ends_no_script():
    text = card.page("predictPage", {"line": None, "question": A | {"why": "</script><!--"}, "record": None}, "Guess.")
    assert "Guess." in text and text.count("</script") == 1 and "<!--" not in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_on_colab_pages_reach_the_kernel_by_its_callback_and_a_cell_reaches_them(monkeypatch):
    pytest.importorskip("IPython")
    sent = []
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "colab" / "stub")
    for name in ("google", "google.colab", "google.colab.output"):  # gone after this test: other tests are not on Colab
        monkeypatch.setitem(sys.modules, name, None)
        del sys.modules[name]
    monkeypatch.setattr(card, "_lines", {})
    monkeypatch.setattr(card, "live", lambda: True)
    monkeypatch.setattr(card, "on_colab", lambda: True)
    monkeypatch.setattr("IPython.display.display", sent.append)
    line = card.line(predictions.receive)
    from google.colab import output

    reply = output.callbacks[line]({"lock": "trial.a", "guess": 1, "sure": 50})
    assert reply.data["records"]["trial.a"]["guess"] == 1
    card.tell({"scorecards": {"trial": "</script>"}})
    assert "BroadcastChannel" in sent[0].data and sent[0].data.count("</script") == 1


def test_a_line_that_no_page_hears_is_opened_again(monkeypatch):
    """anywidget gives up a model whose module takes more than 2 s: messages to it are lost, those from it come."""
    pytest.importorskip("anywidget")
    monkeypatch.setattr(card, "_lines", {})
    monkeypatch.setattr(card, "live", lambda: True)
    sent = []
    monkeypatch.setattr(card._line_class(), "send", lambda widget, news: sent.append((widget, news)))
    name = card.line(predictions.receive)
    first = card._lines[name]
    say = {"method": "custom"}.__or__
    first._handle_msg({"content": {"data": say({"content": {"known": []}})}, "buffers": []})
    first._handle_msg({"content": {"data": say({"content": {"deaf": True}})}, "buffers": []})
    second = card._lines[name]
    assert second is not first and sent == [(first, {"records": {}})] and card.line(predictions.receive) == name
    first._handle_msg({"content": {"data": say({"content": {"deaf": True}})}, "buffers": []})  # known already
    second._handle_msg({"content": {"data": say({"content": {"skip": "trial.a"}})}, "buffers": []})
    card.tell({"scorecards": {}})
    assert [widget for widget, _ in sent[1:]] == [second, second]


# --- the gate ---------------------------------------------------------------------------------------------------------


def test_cells_wait_from_the_question_to_its_outcome_and_exercises_do_not(shown):
    predict("trial.a")
    predict("trial.b")
    assert gate.closes("print(1)", "one") == ["trial.a", "trial.b"]
    assert gate.closes('mine = attempt("trial.1", mine)', "two") == []
    assert gate.closes("if luck:\n    outcome('trial.a', 0)", "three") == [
        "trial.a",
        "trial.b",
    ]  # or not reached
    assert gate.closes("print(3)", "four") == ["trial.b"]
    predictions.receive({"lock": "trial.b", "guess": 2.5, "sure": 70})
    assert gate.closes("print(3)", "four") == []
    assert (
        gate.closes("print(1, 1)", "one") == gate.closes('outcome( "trial.a", 1)', "five") == ["trial.a"]
    )  # run again
    predictions.receive({"skip": "trial.a"})
    assert gate.closes("print(1)", "one") == []


def test_cells_of_an_earlier_edition_wait_for_the_prediction_of_today(shown, monkeypatch):
    monkeypatch.setitem(order.MOVED, "earlier.a", "trial.b")
    predict("earlier.a")
    last = 'outcome("earlier.a", 2.5)'
    assert gate.closes(last, "one") == ["trial.b"]
    predictions.receive({"lock": "trial.b", "guess": 2.5, "sure": 70})
    assert gate.closes(last, "one") == gate.closes("print(1)", "two") == []


@pytest.mark.parametrize("watched", [True, False])
def test_a_gate_comes_before_what_a_cell_shows(monkeypatch, watched, capsys):
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    atexit.unregister(shell.atexit_operations)
    shell.kernel = types.SimpleNamespace(_allow_stdin=watched)  # papermill and nbconvert allow none
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    monkeypatch.setattr(card, "_lines", {"here": None})
    monkeypatch.setattr("IPython.display.display", lambda data, **_: print(data["text/html"]))
    for _ in range(2):
        predict("trial.b")
    assert len([one for one in shell.events.callbacks["pre_run_cell"] if one.__module__ == gate.__name__]) == watched
    capsys.readouterr()
    shell.run_cell("print('it is', 1 + 1)")
    before, after = capsys.readouterr().out.split("it is 2")
    assert ("snn-gate closed" in before) is watched and after.strip() == ""
    shell.run_cell("from snnkit.lab.course import outcome; outcome('trial.b', 2)")
    page = capsys.readouterr().out
    assert ("snn-gate closed" in page) is watched and (r"\"open\":false" in page) is watched
    shell.run_cell("# outcome('trial.b')\n1 / 0")
    assert ("snn-failed" in capsys.readouterr().out) is watched
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    shell.run_cell("print('it is', 1 + 1)")
    assert capsys.readouterr().out == "it is 2\n"


def test_without_pyyaml_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ModuleNotFoundError, match=r"need PyYAML.*pip install .*lab"):
        question.parse(TEXT, "trial")


@pytest.mark.parametrize("sheet", ["style.css", "course.css"])
def test_no_page_is_a_container_of_queries(sheet):
    """In JupyterLab under load, Chromium 156 left what was in one without boxes: cards of height 0."""
    assert "container-type" not in web.read(sheet)
