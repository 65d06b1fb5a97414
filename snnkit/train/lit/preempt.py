"""Stopped from outside: all ranks agree after an update, save together, and end, or hand the job back to SLURM.

A signal reaches each rank at another moment, in the middle of a step. Lightning's handler for SLURM saves there and
then: weights of which some have been updated, by a rank that the others wait for. Here a handler only notes the signal.
After each update the ranks exchange what they have noted, in a group of their own and without waiting: what was begun
after one update is read after the next, so all of them stop after the same one.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

REQUEUE = 1  # less than any other, so that who cancels a job that is about to be requeued is obeyed
CTRL_C = 2
TERMINATE = 3
_TOLD = {REQUEUE: "the signal to requeue", CTRL_C: "Ctrl-C", TERMINATE: "SIGTERM"}


class Stopped(Exception):
    """All ranks stop here, in order.

    Attributes:
        cause: REQUEUE, CTRL_C or TERMINATE.
    """

    def __init__(self, cause: int) -> None:
        super().__init__(f"stopped by {_TOLD[cause]}")
        self.cause = cause


class Notes:
    """What was asked of this process by signals, the most urgent.

    Args:
        requeue_signal: that means REQUEUE; None: no such signal.
    """

    def __init__(self, requeue_signal: signal.Signals | None) -> None:
        self.causes = {signal.SIGTERM: TERMINATE, signal.SIGINT: CTRL_C}
        if requeue_signal is not None:
            self.causes[requeue_signal] = REQUEUE
        self.noted = 0
        self._before: dict[int, Any] = {}

    @contextlib.contextmanager
    def listening(self) -> Iterator[Notes]:
        """In here the signal to requeue is noted, at any moment; the others once ``take_over`` was called.

        Before there is anything to save they should end the process as they always do. Outside of the main thread,
        where Python allows no handlers, nothing is noted.
        """
        try:
            for number, cause in self.causes.items():
                if cause == REQUEUE:
                    self._handle(number)
            yield self
        finally:
            for number, handler in self._before.items():
                signal.signal(number, handler)
            self._before = {}

    def take_over(self) -> None:
        """From now on everything is noted."""
        for number in self.causes:
            self._handle(number)

    def _handle(self, number: int) -> None:
        if threading.current_thread() is threading.main_thread():
            before = signal.signal(number, self._note)
            if before != self._note:
                self._before.setdefault(number, before if before is not None else signal.SIG_DFL)

    def _note(self, number: int, _: Any) -> None:
        if number == signal.SIGINT and self.noted >= CTRL_C:
            raise KeyboardInterrupt  # the second one does not wait for the end of an update
        self.noted = max(self.noted, self.causes[signal.Signals(number)])


class Agreement:
    """What all ranks have noted. Every rank must make the same calls; alone, a rank agrees with itself.

    Args:
        timeout: seconds to wait for another rank.
    """

    def __init__(self, timeout: float) -> None:
        several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        # A group of its own, on CPUs: an exchange in the one of the gradients would wait for a GPU's work.
        self._group: Any = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout)) if several else None
        self._pending: tuple[Any, torch.Tensor] | None = None

    def exchange(self, noted: int) -> int:
        """The most urgent of all notes of the last call; those of this call are on their way."""
        if self._group is None:
            return noted
        said = self._arrived()
        self._begin(noted)
        return said

    def now(self, noted: int) -> int:
        """The most urgent of all notes, this call's included; waits for the slowest rank."""
        if self._group is None:
            return noted
        said = self._arrived()
        self._begin(noted)
        return max(said, self._arrived())

    def requeue(self) -> str:
        """Rank 0 puts the job back into the queue, and all ranks wait for what it has to tell.

        A rank that ended earlier would take rank 0 along, in the middle of it: srun --kill-on-bad-exit.
        RequeueError, on all ranks, where it fails.
        """
        told = ["", ""]
        if self._group is None or dist.get_rank(self._group) == 0:
            try:
                told = [requeue(), ""]
            except RequeueError as error:
                told = ["", str(error)]
        if self._group is not None:
            dist.broadcast_object_list(told, src=0, group=self._group)
        if told[1]:
            raise RequeueError(told[1])
        return told[0]

    def same(self, **values: Any) -> None:
        """ValueError, on all ranks, where they don't hold the same values; names the first that differs."""
        if self._group is None:
            return
        every: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(every, values, group=self._group)
        for name, value in every[0].items():
            for rank, other in enumerate(every):
                if other[name] != value:
                    raise ValueError(
                        f"{name} must be the same on all ranks; got {value!r} on rank 0 and {other[name]!r} on {rank}"
                    )

    def _begin(self, noted: int) -> None:
        said = torch.tensor([noted], dtype=torch.int32)
        self._pending = dist.all_reduce(said, dist.ReduceOp.MAX, group=self._group, async_op=True), said

    def _arrived(self) -> int:
        if self._pending is None:
            return 0
        work, said = self._pending
        self._pending = None
        work.wait()
        return int(said)


class RequeueError(RuntimeError):
    """The run is saved, but its job could not be put back into the queue."""


def requeue() -> str:
    """Put this SLURM job back into the queue; what to tell. RequeueError, saying why, where that fails."""
    job = os.environ.get("SLURM_JOB_ID", "")
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        job = f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID', '')}"
    if not re.fullmatch(r"\d+(_\d+)?", job):
        raise RequeueError(f"the job can't be requeued: SLURM_JOB_ID is {job!r}, no job of SLURM")
    try:
        done = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RequeueError(f"job {job} can't be requeued: {error}; submit it again by hand") from None
    if done.returncode:
        why = (done.stderr or done.stdout).strip()
        raise RequeueError(f"job {job} can't be requeued: scontrol said {why!r}; submit it again by hand")
    return f"job {job} is requeued"
