import builtins
import sys

import pytest
import torch

from snnkit import course
from snnkit.course import attempt, expect, grade, hint, solution
from snnkit.course.card import Card, Line, short
from snnkit.course.exercise import Check, Exercise, Violation
from tests.course.examples import ANSWER, EXERCISE, install, leak, question


@pytest.fixture(autouse=True)
def notebook(monkeypatch):
    return install(monkeypatch, EXERCISE, ANSWER, questions=[question()])


def test_a_right_answer_is_handed_back(capsys):
    def mine(v, x, beta):
        return v * beta + x

    assert attempt("99.1", mine) is mine
    assert "99.1 One leaky step: passed (2 of 2 checks)" in capsys.readouterr().out


def _ellipsis(v, x, beta):
    """Still to write."""
    return ...


def _empty(v, x, beta): ...


def _half_done(v, x, beta):
    decayed = ...
    return decayed + x


def _forgot_return(v, x, beta):
    v = beta * v + x


@pytest.mark.parametrize("stub", [_ellipsis, _empty, _half_done, _forgot_return, ..., None])
def test_a_stub_is_to_do_and_gives_the_reference(stub, capsys):
    assert attempt("99.1", stub) is leak
    assert "to do" in capsys.readouterr().out


def test_a_missing_return_is_named(capsys):
    attempt("99.1", _forgot_return)
    assert "Is a `return` missing?" in capsys.readouterr().out


def test_a_tuple_with_an_ellipsis_is_to_do():
    assert grade("99.1", lambda v, x, beta: (v, ...)).status == "to do"


def test_a_wrong_answer_shows_the_first_violation_and_gives_the_reference(capsys):
    assert attempt("99.1", lambda v, x, beta: v + x) is leak
    out = capsys.readouterr().out
    assert "failed (0 of 2 checks hold)" in out
    assert "Without input the potential" in out
    assert "[0.45 0.9 ]" in out and "[0.5 1. ]" in out
    assert "v shrinks." in out
    assert "The input is added" not in out


def test_the_second_check_carries_its_own_hint():
    outcome = grade("99.1", lambda v, x, beta: beta * v)
    assert (outcome.status, outcome.check, outcome.passed) == ("failed", "input charges", 1)
    assert outcome.hint == "Where is x?"


def test_a_raising_answer_shows_its_line(capsys):
    def mine(v, x, beta):
        return v / missing_name  # noqa: F821

    assert attempt("99.1", mine) is leak
    out = capsys.readouterr().out
    assert "NameError" in out and "return v / missing_name" in out


def test_an_answer_without_end_is_stopped_by_the_recursion_limit():
    def mine(v, x, beta):
        return mine(v, x, beta)

    outcome = grade("99.1", mine)
    assert outcome.status == "failed" and "RecursionError" in outcome.message


def test_an_answer_that_exits_does_not_stop_the_kernel():
    assert grade("99.1", lambda v, x, beta: sys.exit(3)).status == "failed"


@pytest.mark.parametrize(
    ("mine", "words"),
    [
        (lambda v, x, beta: 3.0, "must be a tensor, not a float"),
        (lambda v, x, beta: (beta * v + x)[:1], "wrong shape"),
        (lambda v, x, beta: (beta * v + x).double(), "wrong dtype"),
        (lambda v, x: v, "takes 2 positional arguments"),
        (lambda v, x, beta: v.mul_(beta).add_(x), "must not change its inputs"),
    ],
)
def test_wrong_types_and_side_effects_are_named(mine, words):
    outcome = grade("99.1", mine)
    assert outcome.status == "failed" and words in outcome.message


def test_a_class_with_a_stub_method_is_to_do():
    class Reference:
        def step(self, x):
            return x

    class Mine:
        def step(self, x):
            return ...

    def steps(candidate, reference):
        expect.close(candidate().step(1.0), reference().step(1.0), "It steps.")

    exercise = Exercise("99.3", "A class", Reference, [Check("steps", steps)])
    assert grade(exercise, Mine).status == "to do"
    assert grade(exercise, Reference).status == "passed"


def test_value_exercises():
    assert attempt("99.2", 42.0) == 42.0
    assert attempt("99.2", 41.0) == 42.0
    assert attempt("99.2", ...) == 42.0
    assert attempt("99.2", "many") == 42.0


def test_kinds_are_not_mixed_up():
    with pytest.raises(TypeError, match=r"answer to 99\.1 must be a function"):
        attempt("99.1", 3.0)
    with pytest.raises(TypeError, match=r"answer to 99\.2 must be a value"):
        attempt("99.2", leak)


def test_unknown_keys_list_the_known():
    with pytest.raises(ValueError, match=r"99\.1, 99\.2.*99\.7"):
        attempt("99.7", leak)
    with pytest.raises(ValueError, match="notebook must be one of"):
        hint("77.1")
    with pytest.raises(TypeError, match="key must be a text"):
        attempt(1.1, leak)


def test_the_reference_itself_is_no_answer(capsys):
    assert attempt("99.1", leak) is leak
    assert "run your definition again" in capsys.readouterr().out


def test_hints_open_one_by_one(capsys):
    hint("99.1")
    first = capsys.readouterr().out
    assert "v shrinks." in first and "factor" not in first and "2 more hints" in first
    hint("99.1")
    second = capsys.readouterr().out
    assert "v shrinks." in second and "factor `beta`" in second and "beta * v + x" not in second
    hint("99.1")
    hint("99.1")
    assert 'solution("99.1")' in capsys.readouterr().out
    course.start("99")
    hint("99.1")
    assert "factor" not in capsys.readouterr().out


def test_solution_shows_the_source(capsys):
    solution("99.1")
    solution("99.2")
    out = capsys.readouterr().out
    assert "return beta * v + x" in out and "42" in out


def test_solve_mode_uses_the_reference_and_records_nothing(capsys, progress_file):
    course.start("99", solve=True)
    assert attempt("99.1", _ellipsis) is leak
    assert "passed (solution" in capsys.readouterr().out
    assert not progress_file.exists()
    course.solve(False)
    assert attempt("99.1", _ellipsis) is leak
    assert "to do" in capsys.readouterr().out


def test_solve_mode_refuses_a_reference_that_fails(monkeypatch, notebook):
    def never(candidate, reference):
        raise Violation("It never holds.")

    notebook.EXERCISES = [Exercise("99.1", "Broken", leak, [Check("never", never)])]
    course.solve()
    with pytest.raises(RuntimeError, match=r"99\.1 does not pass its own checks \(never: It never holds"):
        attempt("99.1", ...)
    with pytest.raises(TypeError, match="solve must be True or False"):
        course.solve("false")


def test_html_is_escaped_and_holds_the_violation(monkeypatch):
    shown = []
    monkeypatch.setattr(Card, "show", lambda card: shown.append(card.html()))
    attempt("99.1", lambda v, x, beta: v + x)
    page = shown[0]
    assert "&lt;b&gt;decays&lt;/b&gt;" in page and "<b>decays" not in page
    assert "failed" in page and "[0.45 0.9 ]" in page
    assert "<code" in Card("info", "h", "w", [Line("use `v < 1`")]).html()
    assert "v &lt; 1" in Card("info", "h", "w", [Line("use `v < 1`")]).html()


def test_a_notebook_gets_one_bundle_with_html_and_text(monkeypatch):
    display = pytest.importorskip("IPython.display")
    seen = []
    monkeypatch.setattr(display, "display", lambda bundle, raw: seen.append((bundle, raw)))
    monkeypatch.setattr("snnkit.course.card.in_notebook", lambda: True)
    attempt("99.1", _ellipsis)
    (bundle, raw), *more = seen
    assert raw and not more
    assert set(bundle) == {"text/html", "text/plain"}
    assert all("to do" in text for text in bundle.values())


def test_a_plot_is_shown_for_written_answers_only(monkeypatch, notebook):
    drawn = []
    monkeypatch.setattr("snnkit.viz.show", drawn.append)
    notebook.EXERCISES = [
        Exercise("99.1", "Plotted", leak, EXERCISE.checks, plot=lambda mine, theirs: float(mine(1.0, 0.0, 0.5)))
    ]
    attempt("99.1", _ellipsis)
    assert drawn == []
    attempt("99.1", lambda v, x, beta: v + x)
    attempt("99.1", lambda v, x, beta: builtins.undefined)
    assert drawn == [1.0]


def test_short_values():
    assert short(0.1 + 0.2) == "0.3"
    assert short(torch.tensor(2.5, dtype=torch.bfloat16)) == "2.5"
    assert "shape (100,) float32" in short(torch.zeros(100))
    assert len(short("x" * 1000)) == 400

    class Bad:
        def __repr__(self):
            raise RuntimeError

    assert short([Bad()]) == "(list that cannot be shown)"
    assert "no numbers" in short(torch.zeros(3, device="meta"))
    assert short(torch.tensor([1 + 2j]).conj()) == "[1.-2.j]"
    assert short(torch.eye(2).to_sparse()).startswith("[[1. 0.]")
    assert short({n: n for n in range(100)}).count("\n") == 12


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"key": "1"}, "key must look like"),
        ({"difficulty": 4}, "difficulty of exercise 99.1 must be one of 1, 2, 3"),
        ({"checks": []}, "at least one Check"),
        ({"seconds": 0}, "seconds of exercise 99.1 must be"),
        ({"seconds": "long"}, "seconds of exercise 99.1 must be"),
        ({"seconds": float("inf")}, "seconds of exercise 99.1 must be"),
    ],
)
def test_bad_exercises_are_refused(changes, words):
    good = {"key": "99.1", "title": "t", "reference": leak, "checks": EXERCISE.checks}
    with pytest.raises((TypeError, ValueError), match=words):
        Exercise(**(good | changes))
    with pytest.raises(TypeError, match="but it is one text"):
        Exercise(**(good | {"hints": "one"}))
