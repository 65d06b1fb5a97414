"""Whatever an answer does: the card says so in words, the reference is handed back, and the notebook goes on."""

import random
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from snnkit.lab.course import attempt, grade
from snnkit.lab.course.exercise import Check, Exercise, Violation
from snnkit.lab.course.sandbox import BYTES, fingerprint
from tests.course import hostile
from tests.course.examples import EXERCISE, install, leak


@pytest.fixture(autouse=True)
def notebook(monkeypatch):
    return install(monkeypatch, EXERCISE)


def right(v, x, beta):
    return beta * v + x


def _state():
    generators = torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()
    settings = torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled()
    return generators, settings, sys.stdout, sys.stderr, *map(signal.getsignal, (signal.SIGALRM, signal.SIGINT))


@pytest.fixture(params=["by a timer", "in a thread"])
def way(request, monkeypatch):
    """On a system without timers, or in another thread than the main one, an answer runs in a thread of its own."""
    if request.param == "in a thread":
        monkeypatch.delattr(signal, "setitimer")


@pytest.mark.parametrize("answer", hostile.CASES, ids=lambda answer: answer.__name__)
@pytest.mark.usefixtures("way")
def test_it_is_said_and_put_right(answer, capsys):
    before = _state()
    assert attempt("trial.1", answer) is leak
    assert _state() == before
    out = capsys.readouterr().out
    said = hostile.CASES[answer]
    if answer is hostile.asleep and not hasattr(signal, "setitimer"):
        said = "Your code has waited for 1 s, and can't be stopped here."
    assert "failed" in out and said in " ".join(out.split()), out
    assert grade("trial.1", right).status == "passed"


@pytest.mark.parametrize("value", [hostile.Exits(), hostile.Hangs()], ids=["exits", "hangs"])
def test_a_value_that_can_not_be_shown(value, monkeypatch, capsys):
    def fails(candidate, reference):
        raise Violation("It is not that.", yours=candidate)

    install(monkeypatch, Exercise("trial.2", "A number", 42.0, [Check("c", fails)], seconds=0.2), EXERCISE)
    assert attempt("trial.2", value) == 42.0
    assert f"yours  ({type(value).__name__} that cannot be shown)" in " ".join(capsys.readouterr().out.split("   "))
    with pytest.raises(TypeError, match=r"answer to trial\.1 must be a function .* that cannot be shown\)"):
        attempt("trial.1", value)


def test_a_name_that_exits_is_not_asked():
    class Named:
        __name__ = property(lambda self: sys.exit(3))

        def __call__(self, v, x, beta):
            return beta * v + x

    assert grade("trial.1", Named()).status == "passed"


def test_the_card_has_the_line_that_hung_and_some_of_the_prints(capsys):
    attempt("trial.1", hostile.asleep)
    out = capsys.readouterr().out
    assert "time.sleep(600)" in out and "a silent neuron leaks" in out and 'hint("trial.1")' in out
    attempt("trial.1", hostile.printing)
    out = capsys.readouterr().out
    assert 5 <= out.count("still here") <= 10 and "more lines" in out and len(out) < 2000


def test_prints_of_a_right_answer_and_of_a_stub_are_on_the_card(capsys):
    def mine(v, x, beta):
        print("beta is", beta)
        torch.rand(3), np.random.rand(3), random.random()  # is no mistake, but must not shift what the next cell draws
        return beta * v + x

    before = _state()
    assert attempt("trial.1", mine) is mine and _state() == before
    assert "printed  beta is 0.9" in capsys.readouterr().out
    attempt("trial.1", lambda v, x, beta: print(tuple(v.shape)) or ...)
    assert "to do" in (out := capsys.readouterr().out) and "(2,)" in out


def test_an_exercise_may_ask_for_changes_in_place(monkeypatch):
    check = Check("c", lambda candidate, reference: candidate(torch.zeros(2)))
    install(monkeypatch, Exercise("trial.1", "t", lambda x: x.add_(1), [check], in_place=True))
    assert grade("trial.1", lambda x: x.add_(2)).status == "passed"


def test_a_person_can_interrupt():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            attempt("trial.1", lambda v, x, beta: signal.raise_signal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)


def test_two_checks_at_a_time_wait_for_each_other():
    log = []

    def mine(v, x, beta):
        log.append("begin")
        time.sleep(0.05)
        log.append("end")
        return beta * v + x

    before = sys.stdout
    threads = [threading.Thread(target=grade, args=("trial.1", mine)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log == ["begin", "end"] * 4 and sys.stdout is before


def test_a_plot_that_hangs_is_left_out(monkeypatch):
    check = Check("c", lambda mine, theirs: mine(1))
    exercise = Exercise("trial.1", "t", lambda x: x, [check], seconds=0.1, plot=lambda mine, theirs: time.sleep(600))
    install(monkeypatch, exercise)
    assert attempt("trial.1", mine := lambda x: x) is mine


# --- the sandbox ------------------------------------------------------------------------------------------------------


CHANGES = {
    "in place, to the same value": (lambda: torch.zeros(3), lambda x: x.mul_(1)),
    "through numpy": (lambda: torch.zeros(3), lambda x: x.numpy().fill(5)),
    "in inference mode": (lambda: torch.inference_mode()(torch.zeros)(3), lambda x: torch.inference_mode()(x.fill_)(2)),
    "a parameter": (lambda: torch.nn.Parameter(torch.zeros(3)), lambda x: torch.no_grad()(x.fill_)(2)),
    "a large tensor": (lambda: torch.zeros(BYTES), lambda x: x.add_(1)),
    "an array": (lambda: np.zeros(3), lambda x: x.fill(1)),
    "a list's order": (lambda: [2, 1], lambda x: x.sort()),
    "a dict": (lambda: {"a": 1}, lambda x: x.update(b=2)),
    "a tensor in a list in a dict": (lambda: {"a": [torch.zeros(2)]}, lambda x: x["a"][0].add_(1)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name):
    make, change = CHANGES[name]
    value = make()
    before = fingerprint(value)
    assert fingerprint(value) == before
    change(value)
    assert fingerprint(value) != before


# --- in a real kernel -------------------------------------------------------------------------------------------------

START = """
import pytest
from snnkit.lab.course import attempt, hint
from tests.course import hostile
from tests.course.examples import EXERCISE, install, leak

install(pytest.MonkeyPatch(), EXERCISE)
"""
HOSTILE = {"for_ever": "was stopped", "printing": "more lines", "exits": "exit()"}


@pytest.mark.slow
def test_a_kernel_lives_on():
    """After an answer that hangs, exits or prints for ever, the next cell runs."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipywidgets")
    sources = [START]
    for name in HOSTILE:
        sources += [f'assert attempt("trial.1", hostile.{name}) is leak', f'print("after {name}")']
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    here = {"metadata": {"path": str(Path(__file__).parents[2])}}
    cells = nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources=here).execute().cells
    for n, (name, words) in enumerate(HOSTILE.items()):
        card, buttons = cells[2 * n + 1].outputs
        assert "failed" in card.data["text/plain"] and words in " ".join(card.data["text/plain"].split()), card
        assert words in card.data["text/html"]
        assert "application/vnd.jupyter.widget-view+json" in buttons.data
        (after,) = cells[2 * n + 2].outputs
        assert (after.name, after.text) == ("stdout", f"after {name}\n")
