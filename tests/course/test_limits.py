"""Whatever code does, it ends when its time is up, and leaves signals and timers as they were."""

import contextlib
import hashlib
import signal
import sys
import threading
import time

import pytest

from snnkit.course import limits
from snnkit.course.limits import Limited, OutOfTime

posix = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals with a timer are POSIX's")


def _spin():
    while True:
        pass


def _sleep():
    time.sleep(600)


def _swallow():
    while True:
        try:  # noqa: SIM105
            time.sleep(600)
        except Exception:
            pass


def _swallow_all():
    while True:
        try:  # noqa: SIM105
            time.sleep(600)
        except:  # noqa: E722
            pass


def _swallow_deeply():
    while True:
        try:
            try:
                time.sleep(600)
            except BaseException:
                time.sleep(600)
        except BaseException:
            pass


def _suppress():
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(600)


def _go_on_in_finally():
    while True:
        try:
            time.sleep(600)
        finally:
            continue  # noqa: B012


def _give_something_else():
    try:
        time.sleep(600)
    except BaseException:
        raise ValueError("not the clock") from None


def _pretend_nothing_was():
    try:
        time.sleep(600)
    except BaseException:
        return 1


def _wait_for_a_thread():
    threading.Event().wait(600)


ENDLESS = [
    _spin,
    _sleep,
    _swallow,
    _swallow_all,
    _swallow_deeply,
    _suppress,
    _go_on_in_finally,
    _give_something_else,
    _pretend_nothing_was,
    _wait_for_a_thread,
]


@posix
@pytest.mark.parametrize("work", ENDLESS, ids=lambda work: work.__name__.strip("_"))
def test_everything_is_stopped_in_the_main_thread(work):
    limited = Limited(0.05)
    with pytest.raises(OutOfTime):
        limited.run(work)
    assert limited.stack and any(frame.name == work.__name__ for frame in limited.stack)
    assert not limited.abandoned and limited.seconds_used >= 0.05
    assert sys.exc_info() == (None, None, None) and "relentless" not in repr(sys.gettrace())


def _run_elsewhere(limited, work):
    raised = []

    def target():
        try:
            limited.run(work)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
    return raised


def _swallow_in_short_steps():
    while True:
        with contextlib.suppress(Exception):
            time.sleep(0.001)


@pytest.mark.parametrize("work", [_spin, _swallow_in_short_steps])
def test_loops_are_stopped_in_other_threads(work):
    limited = Limited(0.05)
    (error,) = _run_elsewhere(limited, work)
    assert isinstance(error, OutOfTime) and not limited.abandoned
    assert any(frame.name == work.__name__ for frame in limited.stack)


def test_what_cannot_be_stopped_in_another_thread_is_left_behind(monkeypatch):
    monkeypatch.setattr(limits, "PATIENCE", 0.1)
    go_on = threading.Event()
    limited = Limited(0.05)
    (error,) = _run_elsewhere(limited, lambda: go_on.wait(600))
    assert isinstance(error, OutOfTime) and limited.abandoned
    go_on.set()


def test_errors_and_ends_come_through_from_other_threads():
    done = []
    assert _run_elsewhere(Limited(60), lambda: done.append(1)) == [] and done == [1]
    (error,) = _run_elsewhere(Limited(60), lambda: 1 / 0)
    assert isinstance(error, ZeroDivisionError)


def test_errors_and_ends_come_through_in_the_main_thread():
    done = []
    Limited(60).run(lambda: done.append(1))
    Limited(None).run(lambda: done.append(2))
    assert done == [1, 2]
    with pytest.raises(ZeroDivisionError):
        Limited(60).run(lambda: 1 / 0)


@posix
def test_handlers_and_timers_of_others_are_put_back():
    rang = []
    before = signal.signal(signal.SIGALRM, lambda *_: rang.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 300, 7)
        Limited(60).run(lambda: None)
        left, interval = signal.getitimer(signal.ITIMER_REAL)
        assert 0 < left <= 300 and interval == pytest.approx(7)
        signal.setitimer(signal.ITIMER_REAL, 0)
        with pytest.raises(OutOfTime):
            Limited(0.05).run(_spin)
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
        signal.raise_signal(signal.SIGALRM)
        assert rang == [1]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@posix
def test_a_tracer_is_put_back():
    seen = sys.gettrace()
    marks = []

    def tracer(frame, event, argument):
        marks.append(event)

    sys.settrace(tracer)
    try:
        with pytest.raises(OutOfTime):
            Limited(0.05).run(_swallow_all)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(seen)


@posix
def test_one_limit_inside_another():
    def inner():
        with pytest.raises(OutOfTime):
            Limited(0.05).run(_spin)
        _spin()

    outer = Limited(1.0)
    with pytest.raises(OutOfTime):
        outer.run(inner)
    assert outer.stack[-1].name == "_spin"


def test_an_operation_that_nothing_stops_is_told_and_ends_by_itself(monkeypatch):
    monkeypatch.setattr(limits, "PATIENCE", 0.01)
    told = threading.Event()
    limited = Limited(0.02, tell=told.set)
    with pytest.raises(OutOfTime):
        limited.run(lambda: hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000))  # one call into C
    assert told.is_set()


def test_nobody_is_told_of_what_ends_in_time(monkeypatch):
    monkeypatch.setattr(limits, "PATIENCE", 0.0)
    told = threading.Event()
    Limited(1.0, tell=told.set).run(lambda: None)
    assert not told.wait(1.2)


@posix
def test_ctrl_c_is_told_from_an_exception_of_that_name():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # test runners may ignore it
    try:
        _interrupts()
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupts():
    limited = Limited(60)
    with pytest.raises(KeyboardInterrupt):
        limited.run(lambda: signal.raise_signal(signal.SIGINT))
    assert limited.interrupted
    own = Limited(60)

    def work():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        own.run(work)
    assert not own.interrupted
