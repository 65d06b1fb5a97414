"""Whatever an answer does: the card says so in words, the reference is handed back, and the notebook is as it was."""

import os
import random
import signal
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import torch

from snnkit.course import attempt, grade
from snnkit.course.exercise import Check, Exercise
from tests.course import hostile
from tests.course.examples import EXERCISE, install, leak


@pytest.fixture(autouse=True)
def notebook(monkeypatch):
    return install(monkeypatch, EXERCISE)


def _state():
    generators = torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()
    settings = torch.get_default_dtype(), torch.get_default_device(), torch.is_grad_enabled(), torch.get_num_threads()
    process = os.getcwd(), sys.stdout, sys.stderr, sys.getrecursionlimit(), list(warnings.filters), sys.gettrace()
    return generators, settings, process, signal.getsignal(signal.SIGALRM), signal.getsignal(signal.SIGINT)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("answer", hostile.CASES, ids=lambda answer: answer.__name__)
def test_it_is_said_and_put_right(answer, capsys):
    before = _state()
    assert attempt("99.1", answer) is leak
    assert _state() == before
    out = capsys.readouterr().out
    assert "failed" in out and hostile.CASES[answer] in " ".join(out.split()), out
    assert grade("99.1", lambda v, x, beta: beta * v + x).status == "passed"


def test_where_it_hung_is_told(capsys):
    attempt("99.1", hostile.asleep)
    out = capsys.readouterr().out
    assert "time.sleep(600)" in out and "a silent neuron leaks" in out and 'hint("99.1")' in out


def test_prints_are_shown_to_a_point_and_counted(capsys):
    attempt("99.1", hostile.printing)
    out = capsys.readouterr().out
    assert 5 <= out.count("still here") <= 10 and "more lines" in out and len(out) < 2000


def test_prints_of_a_right_answer_are_on_its_card(capsys):
    def mine(v, x, beta):
        print("beta is", beta)
        return beta * v + x

    assert attempt("99.1", mine) is mine
    out = capsys.readouterr().out
    assert out.index("passed (2 of 2 checks)") < out.index("printed  beta is 0.9")


def test_prints_of_a_stub_that_was_begun_are_on_its_card(capsys):
    def mine(v, x, beta):
        print(tuple(v.shape))
        return ...

    attempt("99.1", mine)
    assert "to do" in (out := capsys.readouterr().out) and "(2,)" in out


def test_random_numbers_go_on_as_if_nothing_had_been_checked():
    def draws(v, x, beta):
        torch.rand(3), np.random.rand(3), random.random()
        return beta * v + x

    def seed():
        torch.manual_seed(0), np.random.seed(0), random.seed(0)

    def drawn():
        return torch.rand(2).tolist(), np.random.rand(2).tolist(), random.random()

    seed()
    expected = drawn()
    seed()
    assert attempt("99.1", draws) is draws
    assert drawn() == expected


def test_a_list_or_a_dict_must_not_change_either(monkeypatch):
    def check(candidate, reference):
        candidate([1, 2], {"a": [torch.zeros(2)]}, np.zeros(2))

    install(monkeypatch, Exercise("99.1", "t", lambda a, b, c: 1, [Check("c", check)]))
    changes = [
        lambda a, b, c: a.append(3) or 1,
        lambda a, b, c: a.pop(),
        lambda a, b, c: b.update(c=1) or 1,
        lambda a, b, c: b["a"][0].add_(1).sum(),
        lambda a, b, c: c.fill(1) or 1,
    ]
    for n, answer in enumerate(changes):
        outcome = grade("99.1", answer)
        assert "must not change its inputs" in outcome.message, n
        assert outcome.yours == f"argument {(1, 1, 2, 2, 3)[n]} was changed"
    assert grade("99.1", lambda a, b, c: len(a) + len(b) + c.sum()).status == "passed"


def test_an_exercise_may_ask_for_changes_in_place(monkeypatch):
    def check(candidate, reference):
        candidate(torch.zeros(2))

    install(monkeypatch, Exercise("99.1", "t", lambda x: x.add_(1), [Check("c", check)], in_place=True))
    assert grade("99.1", lambda x: x.add_(2)).status == "passed"


def test_an_object_that_cannot_be_shown_is_named(monkeypatch, capsys):
    class Bad:
        def __repr__(self):
            raise RuntimeError

    class Slow:
        def __repr__(self):
            time.sleep(600)
            return ""

    for kind in (Bad, Slow):
        own = kind()
        exercise = Exercise("99.1", "t", 1.0, [Check("c", lambda a, b: len(a))])
        install(monkeypatch, exercise)
        assert attempt("99.1", own) == 1.0
    install(monkeypatch, EXERCISE)
    assert attempt("99.1", lambda v, x, beta: Slow()) is leak
    inside: list = []
    inside.append(inside)
    assert attempt("99.1", lambda v, x, beta: inside) is leak


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_kernel_ends():
    def mine(v, x, beta):
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
        return beta * v + x

    assert grade("99.1", mine).status == "passed"


def test_a_person_can_interrupt():
    def mine(v, x, beta):
        signal.raise_signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            attempt("99.1", mine)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
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
    threads = [threading.Thread(target=grade, args=("99.1", mine)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert log == ["begin", "end"] * 4 and sys.stdout is before


def test_a_plot_that_hangs_is_left_out(monkeypatch, capsys):
    slow = Exercise("99.1", "t", leak, EXERCISE.checks, plot=lambda mine, theirs: time.sleep(600), seconds=0.1)
    install(monkeypatch, slow)

    def mine(v, x, beta):
        return beta * v + x

    assert attempt("99.1", mine) is mine


def test_the_reference_has_all_the_time_it_needs(monkeypatch):
    def slow(x):
        time.sleep(0.3)
        return x

    exercise = Exercise("99.1", "t", slow, [Check("c", lambda mine, theirs: mine(1))], seconds=0.05)
    install(monkeypatch, exercise)
    assert grade(exercise, slow).status == "passed"
    assert "was stopped" in grade(exercise, lambda x: slow(x)).message
