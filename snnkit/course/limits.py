"""Run code for so many seconds and no longer, whatever it does: loops, sleeps, `except: pass` in a loop.

In the main thread a timer's signal raises ``OutOfTime`` in the running code, again and again until it has left.
Elsewhere (other threads, Windows) the code runs in a thread of its own that is asked to end, and is left behind if it
does not. A call into C that holds no Python line cannot be interrupted by either: who waits is told.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

import torch

AGAIN = 0.05  # seconds from one request to stop to the next
PATIENCE = 3.0  # seconds after which code that does not stop is given up, or told to whoever waits


class OutOfTime(BaseException):
    """Raised in code that has used up its time. A BaseException, so that ``except Exception`` lets it pass."""


class Limited:
    """One run under a time limit.

    Args:
        seconds: the limit; None for none.
        tell: called (in another thread) if the code is still running ``PATIENCE`` seconds after the limit.

    Attributes:
        stack: where the code was when its time was up; None as long as it is not.
        seconds_used: how long it took.
        interrupted: whether somebody pressed Ctrl-C, or Jupyter's stop button.
        abandoned: whether it could not be stopped, and still runs in its own thread.
    """

    def __init__(self, seconds: float | None, tell: Callable[[], None] | None = None) -> None:
        self.seconds = seconds
        self.tell = tell
        self.stack: traceback.StackSummary | None = None
        self.seconds_used = 0.0
        self.interrupted = False
        self.abandoned = False

    def run(self, work: Callable[[], Any]) -> None:
        """Call ``work()``. Raises what it raises, or OutOfTime when it was out of time, whatever it made of that."""
        began = time.monotonic()
        in_main = threading.current_thread() is threading.main_thread() and hasattr(signal, "setitimer")
        try:
            self._in_main_thread(work) if in_main else self._in_own_thread(work)
        except BaseException as error:
            if self.stack is None or isinstance(error, OutOfTime) or self.interrupted:
                raise
            raise OutOfTime from error
        finally:
            self.seconds_used = time.monotonic() - began
        if self.stack is not None:
            raise OutOfTime

    # --- by a signal ---

    def _in_main_thread(self, work: Callable[[], Any]) -> None:
        tracer, waiting = sys.gettrace(), None
        restore = {signal.SIGALRM: signal.getsignal(signal.SIGALRM), signal.SIGINT: signal.getsignal(signal.SIGINT)}
        if callable(restore[signal.SIGINT]):
            signal.signal(signal.SIGINT, self._noting(restore[signal.SIGINT]))
        others = (0.0, 0.0)
        began = time.monotonic()
        if self.seconds is not None:
            signal.signal(signal.SIGALRM, self._expire)
            others = signal.setitimer(signal.ITIMER_REAL, self.seconds, AGAIN)
            if self.tell is not None:
                waiting = threading.Timer(self.seconds + PATIENCE, self.tell)
                waiting.daemon = True
                waiting.start()
        try:
            _guarded(work)
        finally:
            sys.settrace(tracer)
            if self.seconds is not None:
                left = max(others[0] - (time.monotonic() - began), 1e-3) if others[0] else 0.0
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, restore[signal.SIGALRM] or signal.SIG_DFL)
                signal.setitimer(signal.ITIMER_REAL, left, others[1])
            if callable(restore[signal.SIGINT]):
                signal.signal(signal.SIGINT, restore[signal.SIGINT])
            if waiting is not None:
                waiting.cancel()

    def _noting(self, handler: Any) -> Callable[[int, FrameType | None], Any]:
        def note(number: int, frame: FrameType | None) -> Any:
            self.interrupted = True
            return handler(number, frame)

        return note

    def _expire(self, _: int, frame: FrameType | None) -> None:
        """The timer's signal, which comes again and again. Raises only in the guarded code, never in ours around it."""
        frames = []
        while frame is not None and frame.f_code is not _guarded.__code__:
            frames.append(frame)
            frame = frame.f_back
        if frame is None or not frames:
            return
        if self.stack is None:
            self.stack = _summary(frames)
        else:
            # OutOfTime was raised before and swallowed: from here on, lines that they come to raise it, too.
            for one in frames:
                one.f_trace = _relentless
            sys.settrace(_relentless)
        raise OutOfTime

    # --- in a thread of its own ---

    def _in_own_thread(self, work: Callable[[], Any]) -> None:
        context, gradients = contextvars.copy_context(), torch.is_grad_enabled()
        raised: list[BaseException] = []

        def target() -> None:
            with contextlib.suppress(OutOfTime):  # one that comes when the work has just ended
                try:
                    torch.set_grad_enabled(gradients)
                    context.run(_guarded, work)
                except BaseException as error:
                    raised.append(error)

        thread = threading.Thread(target=target, name="snnkit check", daemon=True)
        thread.start()
        try:
            thread.join(self.seconds)
        except KeyboardInterrupt:
            self.interrupted = True
            stop(thread)
            raise
        if thread.is_alive():
            self._end(thread)
        elif raised:
            raise raised[0]

    def _end(self, thread: threading.Thread) -> None:
        frame = sys._current_frames().get(thread.ident or 0)
        frames = []
        while frame is not None and frame.f_code is not _guarded.__code__:
            frames.append(frame)
            frame = frame.f_back
        self.stack = _summary(frames)
        deadline = time.monotonic() + PATIENCE
        while thread.is_alive() and time.monotonic() < deadline:
            stop(thread)
            thread.join(AGAIN)
        self.abandoned = thread.is_alive()
        raise OutOfTime


def stop(thread: threading.Thread, exception: type[BaseException] = OutOfTime) -> None:
    """Ask a thread to end: it raises ``exception`` as soon as it runs a line of Python."""
    if thread.ident is not None and thread.is_alive():
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(exception))


def _guarded(work: Callable[[], Any]) -> None:
    work()


def _relentless(frame: FrameType, event: str, argument: Any) -> Any:
    # Not on the way into a handler, nor in it: what a tracer raises there leaves the interpreter with an exception that
    # is being handled for ever.
    if event == "exception":
        return _spared
    if event in ("call", "line") and not isinstance(sys.exc_info()[1], OutOfTime):
        raise OutOfTime
    return _relentless


def _spared(frame: FrameType, event: str, argument: Any) -> Any:
    return _relentless if event == "line" else _spared


def _summary(frames: list[FrameType]) -> traceback.StackSummary:
    return traceback.StackSummary.extract(((f, f.f_lineno) for f in reversed(frames)), lookup_lines=False)
