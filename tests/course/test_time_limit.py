"""Code that computes or waits for too long is ended. A slow or busy machine ends nothing, and no import is cut."""

import contextlib
import functools
import importlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from snnkit.lab.course import grade, time_limit
from snnkit.lab.course.exercise import Check, Exercise
from snnkit.lab.course.time_limit import TICK, OutOfTime, call


@pytest.fixture(params=["by a timer", "in a thread"])
def way(request, monkeypatch):
    if request.param == "in a thread":
        monkeypatch.delattr(signal, "setitimer")


def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def _catches_exceptions():
    while True:
        with contextlib.suppress(Exception):
            spin(600)


def _cleans_up():
    try:
        spin(600)
    finally:
        spin(600)


def _waits():
    threading.Event().wait()


def _reads():
    os.read(os.pipe()[0], 1)


def _sleeps():
    time.sleep(600)


@pytest.mark.parametrize("work", [_catches_exceptions, _cleans_up, _waits, _reads, _sleeps])
@pytest.mark.usefixtures("way")
def test_it_ends(work):
    with pytest.raises(OutOfTime) as caught:
        call(work, 0.2)
    assert caught.value.waiting == (work not in (_catches_exceptions, _cleans_up))


@pytest.mark.usefixtures("way")
def test_code_in_time_is_left_alone_and_its_error_is_passed_on():
    done = []
    call(lambda: done.append(spin(0.1)), 10)
    assert done == [None]
    with pytest.raises(KeyError, match="mine"):
        call(functools.partial({}.__getitem__, "mine"), 10)


def test_timers_and_handlers_are_as_before():
    def mine(*_):
        raise AssertionError

    handler, timer = signal.signal(signal.SIGALRM, mine), signal.setitimer(signal.ITIMER_REAL, 500)
    try:
        with pytest.raises(OutOfTime):
            call(_catches_exceptions, 0.1)
        assert signal.getsignal(signal.SIGALRM) is mine and 400 < signal.getitimer(signal.ITIMER_REAL)[0] <= 500
    finally:
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def test_without_threads_and_timers_there_is_no_limit(monkeypatch):
    monkeypatch.delattr(signal, "setitimer")
    monkeypatch.setattr(threading.Thread, "start", _no_more_threads)
    call(lambda: spin(0.2), 0.1)


def _no_more_threads(thread):
    raise RuntimeError("can't start new thread")


# --- what counts ------------------------------------------------------------------------------------------------------


def ticks_until_spent(share, *, limit, most=1000):
    """How many ticks the code gets of which it computes this share of a tick."""
    ticks = (TICK * share * n for n in range(10_000))
    used = [next(ticks)]
    allowance = time_limit._Allowance(limit, lambda: used[0])
    for n in range(1, most):
        used[0] = next(ticks)
        if allowance.spent(sys._getframe()):
            return n, allowance.waiting <= 0
    return None


@pytest.mark.parametrize(
    ("share", "want"),
    [(1.0, (20, False)), (0.1, (200, False)), (0.021, (953, False)), (0.0, (20, True)), (0.001, (20, True))],
)
def test_only_its_own_computing_counts_on_a_busy_machine(share, want):
    assert ticks_until_spent(share, limit=0.9999) == want


@pytest.fixture
def slow_module(tmp_path, monkeypatch):
    """The name of a module that computes and waits for longer than ``call`` below allows."""
    text = """
        import time
        end = time.thread_time() + 0.3
        while time.thread_time() < end:
            pass
        time.sleep(0.3)
        whole = 1
    """
    (tmp_path / "a_slow_module.py").write_text(textwrap.dedent(text))
    monkeypatch.syspath_prepend(tmp_path)
    yield "a_slow_module"
    sys.modules.pop("a_slow_module", None)


@pytest.mark.usefixtures("way")
def test_an_import_is_free(slow_module):
    call(lambda: importlib.import_module(slow_module), 0.15)
    assert sys.modules[slow_module].whole == 1


@pytest.mark.usefixtures("way")
def test_an_import_is_never_cut_but_what_follows_is(slow_module):
    def work():
        importlib.import_module(slow_module)
        spin(600)

    with pytest.raises(OutOfTime):
        call(work, 0.15)
    assert sys.modules[slow_module].whole == 1


def test_what_a_check_needs_is_rehearsed_with_the_reference():
    """The first call takes longer than an answer may: something is imported, traced or compiled in it."""
    needed = []

    def needs(candidate, reference):
        if not needed:
            needed.append(spin(0.3))
        assert candidate() == reference()

    exercise = Exercise("trial.1", "t", lambda: 1, [Check("needs", needs)], seconds=0.15)
    assert grade(exercise, lambda: 1).status == "passed" and needed == [None]


def test_the_reference_has_the_limit_of_an_answer():
    """So that a run with SOLVE finds what would stop a learner."""

    def slow():
        spin(0.3)
        return 1

    outcome = grade(Exercise("trial.1", "t", slow, [Check("c", lambda mine, theirs: mine())], seconds=0.1), slow)
    assert "it had computed for 0.1 s" in outcome.message


# --- every exercise of the course, in a process where nothing is imported or compiled yet -----------------------------

COLD = '''
import dataclasses, inspect, os, sys, time, types
import torch
torch.set_num_threads(1)
from snnkit.lab.course import exercises, grade, notebooks, time_limit

SLOWER = 20

def never(*args, **kwargs):
    while True:
        pass

def in_a_fork(exercise):
    """The first exercise of a process, on a machine that is so many times slower; then after an answer that hangs."""
    time_limit.time = types.SimpleNamespace(thread_time=lambda: SLOWER * time.thread_time())
    first = grade(exercise, exercise.reference)
    hangs = type("Hangs", (), {"__init__": never, "apply": never}) if inspect.isclass(exercise.reference) else never
    hung = grade(dataclasses.replace(exercise, seconds=0.1), hangs) if callable(exercise.reference) else None
    again = grade(exercise, exercise.reference)
    if (first.status, again.status) != ("passed", "passed") or hung and "was stopped" not in hung.message:
        print(exercise.key, first, hung, again, flush=True)

for notebook in notebooks():
    for exercise in exercises(notebook):
        if not (child := os.fork()):
            in_a_fork(exercise)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            print(exercise.key, "ended", flush=True)
'''


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_right_answers_pass_cold_on_a_slow_machine_and_after_one_that_hangs(tmp_path):
    environment = {**os.environ, "SNNKIT_KERNELS": str(tmp_path), "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", COLD], cwd=root, env=environment, capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
