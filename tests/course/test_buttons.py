"""In a live notebook, buttons under the card give the help that ``hint`` and ``solution`` give, in place."""

import threading

import pytest

from snnkit import course
from snnkit.course import attempt, attempts, hint, scorecard
from tests.course.examples import ANSWER, EXERCISE, HINTS, install

pytest.importorskip("ipywidgets")


def stub(v, x, beta):
    return ...


def right(v, x, beta):
    return x + beta * v


@pytest.fixture(autouse=True)
def notebook(monkeypatch):
    return install(monkeypatch, EXERCISE, ANSWER)


@pytest.fixture
def shown(monkeypatch):
    """What ``attempt`` displays under its card."""
    display = pytest.importorskip("IPython.display")
    seen = []
    monkeypatch.setattr(display, "display", lambda what, **_: seen.append(what))
    monkeypatch.setattr("snnkit.course.attempts.live", lambda: True)
    return seen


def _parts(row):
    line, opened, solved = row.children
    return {button.description: button for button in line.children}, opened, solved


def test_hints_open_one_by_one(shown):
    attempt("99.1", stub)
    found, opened, solved = _parts(shown[0])
    assert list(found) == ["Hint", "Solution"] and opened.value == solved.value == ""
    assert all("99.1" in button.tooltip for button in found.values())
    for n in (1, 2, 3, 3):
        found["Hint"].click()
        assert f"hint {n} of 3" in opened.value and 'role="status"' in opened.value
        assert [text.replace("`", "") in opened.value.replace("</code>", "") for text in (HINTS[0], HINTS[2])] == [
            True,
            n == 3,
        ]
    assert scorecard("99").exercises[0].hints == 3 and solved.value == ""


def test_the_solution_is_shown_and_noted(shown):
    attempt("99.1", stub)
    found, opened, solved = _parts(shown[0])
    found["Solution"].click()
    assert "return beta * v + x" in solved.value and opened.value == ""
    assert scorecard("99").exercises[0].solution_seen


def test_hints_stay_open_over_attempts_whoever_opened_them(shown, capsys):
    hint("99.1")
    attempt("99.1", lambda v, x, beta: v)
    found, opened, _ = _parts(shown[0])
    assert "hint 1 of 3" in opened.value
    found["Hint"].click()
    hint("99.1")
    assert "hint 3 of 3" in capsys.readouterr().out
    course.start("99")
    attempt("99.1", stub)
    assert _parts(shown[1])[1].value == ""


def test_after_a_pass_there_is_the_solution_to_compare_with(shown):
    attempt("99.1", right)
    assert list(_parts(shown[0])[0]) == ["Solution"]


def test_an_exercise_without_hints_has_no_button_for_them(shown):
    attempt("99.2", ...)
    found, _, solved = _parts(shown[0])
    assert list(found) == ["Solution"]
    found["Solution"].click()
    assert "42" in solved.value


def test_nothing_of_it_in_solve_mode_or_where_nobody_looks(shown, monkeypatch, capsys):
    course.solve()
    attempt("99.1", stub)
    course.solve(False)
    monkeypatch.setattr("snnkit.course.attempts.live", lambda: False)
    attempt("99.1", stub)
    assert shown == []
    assert 'hint("99.1")' in capsys.readouterr().out


def test_pressing_while_a_cell_runs_loses_nothing():
    row = attempts._buttons(EXERCISE, hints=True)
    press = _parts(row)[0]["Hint"].click
    course.start("99")
    threads = [threading.Thread(target=press) for _ in range(2)]
    threads += [threading.Thread(target=attempt, args=("99.1", lambda v, x, beta: v)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entry = scorecard("99").exercises[0]
    assert (entry.attempts, entry.hints) == (4, 2)
