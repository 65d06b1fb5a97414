"""One check, run so that nothing an answer does reaches further: time, prints, settings, threads, exits."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from traceback import StackSummary, extract_tb
from typing import Any

from .limits import Limited, OutOfTime
from .prints import Prints
from .surroundings import Surroundings

# Prints and settings belong to the process: two checks at a time would take one's for the other's.
_one_at_a_time = threading.RLock()


@dataclass(frozen=True)
class Trial:
    """What came of it.

    Args:
        error: what was raised, None if nothing was; ``OutOfTime`` when the time was up.
        stack: where that was, outermost call first.
        seconds: how long it took.
        abandoned: whether the code could not be stopped, and goes on in its own thread.
        changed: what of the notebook had been changed and was put back.
    """

    error: BaseException | None
    stack: StackSummary
    seconds: float
    abandoned: bool
    changed: list[str]


def run(
    work: Callable[[], Any],
    seconds: float | None,
    prints: Prints,
    files: set[str],
    tell: Callable[[], None] | None = None,
) -> Trial:
    """Call ``work()``. Raises nothing but the KeyboardInterrupt of a person.

    Args:
        work: what to do.
        seconds: how long it may take; None for no limit.
        prints: where its prints go.
        files: the file names of the learner's code.
        tell: called when the code can't be stopped and is still waited for.
    """
    with _one_at_a_time:
        return _run(Limited(seconds, tell), work, prints, files)


def _run(limited: Limited, work: Callable[[], Any], prints: Prints, files: set[str]) -> Trial:
    surroundings, process = Surroundings(), os.getpid()
    error: BaseException | None = None
    changed: list[str] = []
    try:
        with contextlib.redirect_stdout(prints), contextlib.redirect_stderr(prints):
            try:
                limited.run(work)
            except BaseException as raised:
                error = raised
            if (sys.stdout, sys.stderr) != (prints, prints):
                changed.append("changed where prints go (`sys.stdout`)")
    finally:
        if os.getpid() != process:
            os._exit(0)  # a fork of the kernel made by the answer: there must be one kernel only
        changed += surroundings.put_back(files)
    if limited.interrupted and isinstance(error, KeyboardInterrupt):
        raise error
    if isinstance(error, OutOfTime) or error is None:
        stack = limited.stack or StackSummary()
    else:
        stack = extract_tb(error.__traceback__)
    return Trial(error, stack, limited.seconds_used, limited.abandoned, changed)
