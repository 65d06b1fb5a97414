"""An attempt: a card with what is wrong, and something that works to go on with; hints, solutions, buttons."""

import dataclasses
import threading

import numpy as np
import pytest
import torch

from snnkit.lab import course
from snnkit.lab.course import attempt, attempts, exercise as registry, grade, hint, scorecard, solution
from snnkit.lab.course.card import Card, Line
from snnkit.lab.course.exercise import Check, Exercise, Violation
from snnkit.lab.course.sandbox import Candidate
from snnkit.lab.exercises import local_learning
from tests.course.examples import ANSWER, EXERCISE, HINTS, install, leak


@pytest.fixture(autouse=True)
def notebook(monkeypatch):
    return install(monkeypatch, EXERCISE, ANSWER)


@pytest.fixture
def shown(monkeypatch):
    """What ``attempt`` displays under its card in a live notebook."""
    display = pytest.importorskip("IPython.display")
    pytest.importorskip("ipywidgets")
    seen = []
    monkeypatch.setattr(display, "display", lambda what, **_: seen.append(what))
    monkeypatch.setattr("snnkit.lab.course.attempts.live", lambda: True)
    return seen


def right(v, x, beta):
    return v * beta + x


def _ellipsis(v, x, beta):
    """Still to write."""
    return ...


def _empty(v, x, beta): ...


def _half_done(v, x, beta):
    decayed = ...
    return decayed + x


def _forgot_return(v, x, beta):
    v = beta * v + x


def test_a_right_answer_is_handed_back(capsys):
    assert attempt("trial.1", right) is right
    assert "trial.1 One leaky step: passed (2 of 2 checks)" in capsys.readouterr().out


@pytest.mark.parametrize(
    "stub", [_ellipsis, _empty, _half_done, _forgot_return, lambda v, x, beta: (v, ...), ..., None]
)
def test_a_stub_is_to_do_and_gives_the_reference(stub, capsys):
    assert attempt("trial.1", stub) is leak
    out = capsys.readouterr().out
    assert "to do" in out and ("Is a `return` missing?" in out) == (stub is _forgot_return)


def test_a_wrong_answer_shows_the_first_violation_and_gives_the_reference(capsys):
    assert attempt("trial.1", lambda v, x, beta: v + x) is leak
    out = capsys.readouterr().out
    assert "failed (check 1 of 2)" in out and "Without input the potential" in out
    assert "[0.45 0.9 ]" in out and "[0.5 1. ]" in out and "v shrinks." in out and "The input is added" not in out
    outcome = grade("trial.1", lambda v, x, beta: beta * v)
    assert (outcome.status, outcome.check, outcome.passed) == ("failed", "input charges", 1)
    assert outcome.hint == "Where is x?"


def test_a_card_can_list_every_check(notebook, capsys):
    notebook.EXERCISES = [dataclasses.replace(EXERCISE, list_all=True)]
    wrong, half = lambda v, x, beta: v + x, lambda v, x, beta: beta * v
    for answer, signs in ((..., "○○"), (wrong, "✗✓"), (half, "✓✗"), (right, "✓✓")):
        attempt("trial.1", answer)
        out = capsys.readouterr().out
        assert f"{signs[0]} a silent neuron leaks" in out and f"{signs[1]} input charges" in out


def test_a_raising_answer_shows_its_line(capsys):
    def mine(v, x, beta):
        return v / missing_name  # noqa: F821

    assert attempt("trial.1", mine) is leak
    out = capsys.readouterr().out
    assert "NameError" in out and "return v / missing_name" in out


@pytest.mark.parametrize(
    ("mine", "words"),
    [
        (lambda v, x, beta: 3.0, "must be a tensor, not a float"),
        (lambda v, x, beta: (beta * v + x)[:1], "wrong shape"),
        (lambda v, x, beta: (beta * v + x).double(), "wrong dtype"),
        (lambda v, x: v, "takes 2 positional arguments"),
    ],
)
def test_wrong_types_are_named(mine, words):
    outcome = grade("trial.1", mine)
    assert outcome.status == "failed" and words in outcome.message


def test_a_class_with_a_stub_method_is_to_do():
    class Reference:
        def step(self, x):
            return x

    class Mine:
        def step(self, x):
            return ...

    exercise = Exercise("trial.3", "A class", Reference, [Check("steps", lambda mine, theirs: mine().step(1.0))])
    assert grade(exercise, Mine).status == "to do" and grade(exercise, Reference).status == "passed"


def test_value_exercises():
    for answer in (42.0, 41.0, ..., "many"):
        assert attempt("trial.2", answer) == 42.0


def test_kinds_and_keys_are_checked(capsys):
    for key, answer in (("trial.1", 3.0), ("trial.2", leak)):
        with pytest.raises(TypeError, match=f"answer to {key} must be a"):
            attempt(key, answer)
    with pytest.raises(ValueError, match=r"trial\.1, trial\.2.*trial\.7"):
        attempt("trial.7", leak)
    for key in ("77.1", "1", "somewhere"):
        with pytest.raises(ValueError, match=f"such as \"03.1\", but it is '{key}'"):
            hint(key)
    assert registry.find("03.1") is registry.find("encodings.1")  # as its card says
    assert attempt("trial.1", leak) is leak
    assert "run your definition again" in capsys.readouterr().out


def test_solve_mode_uses_the_reference_and_records_nothing(capsys, progress_file, shown, notebook):
    course.start("trial", solve=True)
    assert attempt("trial.1", _ellipsis) is leak
    assert "passed (solution" in capsys.readouterr().out and not progress_file.exists() and shown == []

    def never(candidate, reference):
        raise Violation("It never holds.")

    notebook.EXERCISES = [Exercise("trial.1", "Broken", leak, [Check("never", never)])]
    with pytest.raises(RuntimeError, match=r"trial\.1 does not pass its own checks \(never: It never holds"):
        attempt("trial.1", ...)


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_a_notebook_gets_one_bundle_of_text_and_escaped_html(monkeypatch):
    display = pytest.importorskip("IPython.display")
    seen = []
    monkeypatch.setattr(display, "display", lambda bundle, raw: seen.append(bundle))
    monkeypatch.setattr("snnkit.lab.course.card.in_notebook", lambda: True)
    attempt("trial.1", lambda v, x, beta: v + x)
    (bundle,) = seen
    page = bundle["text/html"]
    assert "&lt;b&gt;decays&lt;/b&gt;" in page and "<b>decays" not in page and "[0.45 0.9 ]" in page
    assert "failed" in bundle["text/plain"]
    page = Card("info", "h", "w", [Line("use `v < 1`")]).html()
    assert "<code" in page and "v &lt; 1" in page


def test_a_plot_is_shown_for_written_answers_only(monkeypatch, notebook):
    drawn = []
    monkeypatch.setattr("snnkit.lab.viz.show", drawn.append)
    notebook.EXERCISES = [dataclasses.replace(EXERCISE, plot=lambda mine, theirs: float(mine(1.0, 0.0, 0.5)))]
    for answer in (_ellipsis, lambda v, x, beta: v + x, lambda v, x, beta: v / 0):
        attempt("trial.1", answer)
    assert drawn == [1.0]


# --- hints, solutions, buttons ----------------------------------------------------------------------------------------


def test_hints_open_one_by_one_and_solutions_show_the_source(capsys):
    for n in (1, 2, 3, 3):
        hint("trial.1")
        out = capsys.readouterr().out
        assert [text in out for text in HINTS] == [True, n > 1, n > 2] and f"hint {n} of 3" in out
    assert 'solution("trial.1")' in out
    course.start("trial")
    hint("trial.1")
    assert "factor" not in capsys.readouterr().out
    solution("trial.1")
    solution("trial.2")
    out = capsys.readouterr().out
    assert "return beta * v + x" in out and "42" in out


def _parts(row):
    line, opened, solved, _style = row.children
    return {button.description: button for button in line.children}, opened, solved


def test_buttons_do_what_hint_and_solution_do(shown, capsys):
    attempt("trial.1", _ellipsis)
    found, opened, solved = _parts(shown[0])
    assert 'hint("' not in capsys.readouterr().out  # the buttons say it
    assert list(found) == ["Hint", "Solution"] and opened.value == solved.value == ""
    assert all("trial.1" in button.tooltip for button in found.values())
    found["Hint"].click()
    assert "hint 1 of 3" in opened.value and 'role="status"' in opened.value and HINTS[0] in opened.value
    found["Solution"].click()
    assert "return beta * v + x" in solved.value
    entry = scorecard("trial").exercises[0]
    assert (entry.hints, entry.solution_seen) == (1, True)
    attempt("trial.1", lambda v, x, beta: v)
    assert "hint 1 of 3" in _parts(shown[1])[1].value  # still open
    attempt("trial.1", right)
    attempt("trial.2", ...)
    assert [list(_parts(row)[0]) for row in shown[2:]] == [["Solution"], ["Solution"]]


def test_pressing_while_a_cell_runs_loses_nothing():
    pytest.importorskip("ipywidgets")
    press = _parts(attempts._buttons(EXERCISE, hints=True))[0]["Hint"].click
    course.start("trial")
    threads = [threading.Thread(target=press) for _ in range(2)]
    threads += [threading.Thread(target=attempt, args=("trial.1", lambda v, x, beta: v)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entry = scorecard("trial").exercises[0]
    assert (entry.attempts, entry.hints) == (4, 2)


def _adds(v, x, beta):
    v += x
    x.numpy()[...] = 7
    return v


def _adds_and_raises(v, x, beta):
    v.zero_()
    raise ValueError("too late")


@pytest.mark.parametrize("spoils", [_adds, _adds_and_raises])
def test_values_of_a_check_that_an_answer_changes_are_put_back(spoils):
    """They may be the exercise's own, which other checks and later attempts use."""
    given = [torch.ones(3), torch.ones(3), 0.5]
    watched = Candidate(spoils, EXERCISE).answer
    with pytest.raises((Violation, ValueError)):
        watched(*given)
    assert torch.equal(given[0], torch.ones(3)) and torch.equal(given[1], torch.ones(3))
    inside = {"pair": [np.ones(2), (torch.ones(2),)]}

    def spoils_what_is_inside(both):
        both["pair"][0][:] = 3
        both["pair"][1][0].add_(1)
        return 0

    with pytest.raises(Violation, match="must not change its inputs"):
        Candidate(spoils_what_is_inside, EXERCISE).answer(inside)
    assert inside["pair"][0].tolist() == inside["pair"][1][0].tolist() == [1, 1]


def test_an_answer_in_place_leaves_the_weights_of_the_exercise():
    def in_place(pre, post, w, tau, up, down, traces=None):
        w += 0.2
        return w, traces

    before = local_learning._START.clone()
    assert "in place" in grade("local_learning.4", in_place).message
    assert torch.equal(local_learning._START, before)
