"""What belongs to the whole notebook, and must be after a check as it was before: settings, random numbers, threads."""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .limits import stop

WAIT = 1.0  # seconds that threads of an answer get to end by themselves


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


def _to_folder(folder: str | None) -> None:
    if folder is not None:
        os.chdir(folder)


def _to_device(device: torch.device) -> None:
    torch.set_default_device(None if device.type == "cpu" else device)  # an explicit "cpu" would slow every call


SETTINGS: tuple[tuple[str, Callable[[], Any], Callable[[Any], Any]], ...] = (
    ("PyTorch's default dtype", torch.get_default_dtype, torch.set_default_dtype),
    ("PyTorch's default device", torch.get_default_device, _to_device),
    ("whether PyTorch records gradients", torch.is_grad_enabled, torch.set_grad_enabled),
    ("PyTorch's number of threads", torch.get_num_threads, torch.set_num_threads),
    ("the working folder", _folder, _to_folder),
    ("Python's recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
)


class Surroundings:
    """A snapshot. ``put_back()`` restores it and says what had been changed.

    Random number generators (torch, NumPy, random, CUDA if it is in use) are put back without a word: drawing from
    them is no mistake, but a check must not shift what the next cell draws. Setting torch's seed is told.
    """

    def __init__(self) -> None:
        self._settings = [read() for _, read, _ in SETTINGS]
        self._seed = torch.initial_seed()
        self._cpu, self._numpy, self._python = torch.get_rng_state(), np.random.get_state(), random.getstate()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
        self._warnings = warnings.catch_warnings()
        self._warnings.__enter__()
        self._filters = list(warnings.filters)
        self._threads = set(threading.enumerate())

    def put_back(self, files: set[str]) -> list[str]:
        """Restore everything; a part of a sentence for each thing, e.g. "changed the working folder (a → b)".

        Args:
            files: names of the learner's files or cells; a thread that runs code of theirs is the learner's.
        """
        told = []
        for (name, read, write), before in zip(SETTINGS, self._settings, strict=True):
            now = read()
            if now != before:
                told.append(f"changed {name} ({before} → {now})")
                with contextlib.suppress(OSError):  # the folder was removed: then this process stays where it is
                    write(before)
        if torch.initial_seed() != self._seed:
            told.append("set the seed of PyTorch's random numbers")
        torch.set_rng_state(self._cpu)
        np.random.set_state(self._numpy)
        random.setstate(self._python)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
        if self._silenced():
            self._warnings.__exit__(None, None, None)
            told.append("changed the filter of all warnings")
        return told + self._end_threads(files)

    def _silenced(self) -> bool:
        """Whether there is a new filter for warnings of every kind. Libraries add filters, too, but for their own."""
        new = [entry for entry in warnings.filters if entry not in self._filters]
        return any(message is None and kind is Warning and module is None for _, message, kind, module, _ in new)

    def _end_threads(self, files: set[str]) -> list[str]:
        deadline = time.monotonic() + WAIT
        left = []
        for thread in set(threading.enumerate()) - self._threads:
            if not _runs(thread, files):
                continue  # a library's
            thread.join(max(deadline - time.monotonic(), 0))
            if thread.is_alive():
                stop(thread, SystemExit)  # which threads do not report
                left.append(thread.name)
        what = "a thread" if len(left) == 1 else "threads"
        return [f"left {what} running ({', '.join(sorted(left))})"] if left else []


def _runs(thread: threading.Thread, files: set[str]) -> bool:
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None:
        if frame.f_code.co_filename in files:
            return True
        frame = frame.f_back
    return False
