"""Ends a learner's code that computes or waits for too long.

The limit is processor time: on a busy machine much of the time on the clock belongs to other programs. Waiting (for
input, a lock, the end of a sleep) takes no processor time and has a limit of its own. Imports are free and never
interrupted: half a module, or half of what it registers, breaks the process.

In the main thread of a system with timers (Linux, macOS) a signal looks at the code every ``TICK`` and ends it.
Elsewhere the code runs in a thread of its own, which is left alone if it waits for something in C. Where no thread can
be started, there is no limit. A call into C that keeps the interpreter to itself can't be interrupted.
"""

from __future__ import annotations

import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable
from traceback import StackSummary, extract_stack
from types import FrameType
from typing import Any

TICK = 0.05  # seconds between two looks
IDLE = 0.02  # of a processor: who gets less of a tick was waiting. Code that competes with other programs gets more.
STRIKES = 20  # that a thread gets before it is left alone
# Work of these modules is done as a whole: imports, the registration of operators, the compilation of a kernel.
_WHOLE = ("importlib._bootstrap", "torch.library", "torch._library", "snnkit.engine.cpp.toolchain")


class OutOfTime(BaseException):
    """Raised in code that has used up its time. A BaseException, so that ``except Exception`` lets it pass.

    Attributes:
        waiting: whether it waited, rather than computed.
        left_at: where it still is if it could not be ended, else None.
    """

    def __init__(self, waiting: bool = False, left_at: StackSummary | None = None) -> None:
        super().__init__()
        self.waiting, self.left_at = waiting, left_at


def call(work: Callable[[], Any], seconds: float) -> None:
    """Call ``work()``, a Python function. OutOfTime after so many ``seconds`` of computing, or as many of waiting."""
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer"):
        _with_a_timer(work, seconds)
    else:
        _in_a_thread(work, seconds)


class _Allowance:
    """What is left to compute and to wait, in seconds; ``clock`` tells the processor time that was used."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.computing = self.waiting = seconds
        self.clock, self.last = clock, clock()

    def spent(self, frame: FrameType) -> bool:
        """Count the time since the last call, and say whether the code may be ended now. ``frame``: its innermost."""
        used = self.clock() - self.last
        free = _whole(frame)
        if not free and used < IDLE * TICK:
            self.waiting -= TICK
        elif not free:
            self.computing -= used
        self.last = self.clock()  # to look is no work of the code
        return not free and min(self.computing, self.waiting) <= 0


def _whole(frame: FrameType | None) -> bool:
    """Whether one of ``_WHOLE`` is at work."""
    while frame is not None and frame.f_globals is not globals():
        if str(frame.f_globals.get("__name__")).startswith(_WHOLE):
            return True
        frame = frame.f_back
    return False


def _with_a_timer(work: Callable[[], Any], seconds: float) -> None:
    allowance, here = _Allowance(seconds, time.thread_time), sys._getframe().f_code

    def look(_: int, frame: FrameType | None) -> None:
        # Again and again until the code has ended, as a destructor may swallow an exception. Never in this function.
        if working and frame is not None and frame.f_code is not here and allowance.spent(frame):
            raise OutOfTime(waiting=allowance.waiting <= 0)

    working = True
    handler = signal.signal(signal.SIGALRM, look)
    timer = signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
    try:
        work()
    finally:
        working = False
        signal.setitimer(signal.ITIMER_REAL, *timer)
        signal.signal(signal.SIGALRM, handler)


def _in_a_thread(work: Callable[[], Any], seconds: float) -> None:
    raised: list[BaseException] = []

    def body() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=body, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads
        return work()
    allowance, strikes = _Allowance(seconds, time.process_time), 0
    while thread.is_alive():
        try:
            thread.join(TICK)
        except KeyboardInterrupt:
            _strike(thread)
            raise
        frame = sys._current_frames().get(thread.ident or 0)
        if frame is not None and allowance.spent(frame):
            if strikes == STRIKES:
                raise OutOfTime(allowance.waiting <= 0, extract_stack(frame))
            _strike(thread)
            strikes += 1
    for error in raised:
        if isinstance(error, OutOfTime):
            error.waiting = allowance.waiting <= 0
        raise error


def _strike(thread: threading.Thread) -> None:
    """Raise OutOfTime in a thread: at once where it runs Python, else when it is back from C."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(OutOfTime))
