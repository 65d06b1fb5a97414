"""Ranks that end in order: signals stop all after the same update, jobs are requeued, and lost ranks have a reason.

A signal reaches each rank at a different time, in the middle of a step. Lightning's handler for SLURM saves at once:
then some weights have been updated and others not, and the other ranks wait. Here a handler only sets a flag.
After each update the ranks exchange their flags, in a group of their own and without waiting: an exchange that starts
after one update is read after the next, so all of them stop after the same one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from snnkit import checks
from snnkit.train.distributed import RankInfo
from snnkit.train.slurm.requeue import RequeueError as RequeueError, requeue as requeue

REQUEUE = 1  # the least urgent: cancelling a job that is about to be requeued wins
CTRL_C = 2
TERMINATE = 3
_NAMES = {REQUEUE: "the signal to requeue", CTRL_C: "Ctrl-C", TERMINATE: "SIGTERM"}
_FAILED = "snnkit/failed"  # key in the ranks' store: the error of the first rank that failed by itself


class Stopped(Exception):
    """All ranks stop here, in order.

    Attributes:
        cause: REQUEUE, CTRL_C or TERMINATE.
    """

    def __init__(self, cause: int) -> None:
        super().__init__(f"stopped by {_NAMES[cause]}")
        self.cause = cause


class RankError(RuntimeError):
    """This rank ended only because another one is gone, stuck, or never came."""


@checks.arguments
class SignalFlags:
    """Requests to this process by signals: SIGTERM, Ctrl-C, and the one that means REQUEUE, if any."""

    def __init__(self, requeue_signal: signal.Signals | None) -> None:
        self.causes = {signal.SIGTERM: TERMINATE, signal.SIGINT: CTRL_C}
        self.requeue_signal = requeue_signal
        if requeue_signal is not None:
            self.causes[requeue_signal] = REQUEUE
        self.received = 0  # the most urgent cause so far
        self._before: dict[int, Any] = {}

    @contextlib.contextmanager
    def listening(self) -> Iterator[SignalFlags]:
        """Inside it, the signal to requeue always sets its flag; the other signals do so after ``handle_all``.

        Before there is something to save, the others should end the process as usual. Outside the main thread Python
        allows no handlers, so no flag is set.
        """
        try:
            if self.requeue_signal is not None:
                self._handle(self.requeue_signal)
            yield self
        finally:
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def handle_all(self) -> None:
        """From now on every signal sets its flag."""
        for number in self.causes:
            self._handle(number)

    def _handle(self, number: int) -> None:
        if threading.current_thread() is threading.main_thread():
            self._before.setdefault(number, signal.getsignal(number) or signal.SIG_DFL)
            signal.signal(number, self._receive)

    def _receive(self, number: int, _: Any) -> None:
        if number == signal.SIGINT and self.received >= CTRL_C:
            raise KeyboardInterrupt  # the second one does not wait for the end of an update
        self.received = max(self.received, self.causes[signal.Signals(number)])


class RankConsensus:
    """Agreement of all ranks. Every rank must make the same calls; a single rank agrees with itself."""

    def __init__(self, timeout: float) -> None:
        several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
        # A group of its own, on CPUs: an exchange in that of the gradients would wait for a GPU's work.
        self._group: Any = dist.new_group(backend="gloo", timeout=timedelta(seconds=timeout)) if several else None
        self._pending: tuple[Any, torch.Tensor] | None = None

    def exchange(self, value: int, wait: bool = False) -> int:
        """The largest value of all ranks in the last call; with ``wait`` also in this one, after the slowest rank."""
        if self._group is None:
            return value
        largest = self._finish()
        tensor = torch.tensor([value], dtype=torch.int32)
        self._pending = dist.all_reduce(tensor, dist.ReduceOp.MAX, group=self._group, async_op=True), tensor
        return max(largest, self._finish()) if wait else largest

    def _finish(self) -> int:
        if self._pending is None:
            return 0
        work, tensor = self._pending
        self._pending = None
        work.wait()
        return int(tensor)

    def requeue(self) -> str:
        """Rank 0 puts the job back into the queue, and all ranks wait for its message.

        If a rank ended earlier, srun --kill-on-bad-exit would kill rank 0 during the call. Raises RequeueError, on all
        ranks, if it fails.
        """
        result = ["", ""]  # message, error
        if self._group is None or dist.get_rank(self._group) == 0:
            try:
                result[0] = requeue()
            except RequeueError as failure:
                result[1] = str(failure)
        if self._group is not None:
            dist.broadcast_object_list(result, src=0, group=self._group)
        if result[1]:
            raise RequeueError(result[1])
        return result[0]

    def check_same(self, **values: Any) -> None:
        """Raise ValueError, on all ranks, if they don't hold the same values; names the first that differs."""
        if self._group is None:
            return
        every: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(every, values, group=self._group)
        for name, value in every[0].items():
            for other in every:
                if other[name] != value:
                    raise ValueError(f"{name} must be the same on all ranks, but it is {value!r} and {other[name]!r}")


@contextlib.contextmanager
def explained(rank_info: RankInfo, timeout: float) -> Iterator[None]:
    """Errors of communication become RankError with a reason; other errors of this rank are passed to the others."""
    try:
        yield
    except (RankError, RequeueError):  # of which all ranks know
        raise
    except Exception as error:
        if rank_info.world == 1:
            raise
        if _is_of_communication(error):
            raise RankError(_lost_rank(error, rank_info, timeout)) from error
        with contextlib.suppress(Exception):
            summary = f"rank {rank_info.rank}: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
            dist.distributed_c10d._get_default_store().set(_FAILED, summary)
            if rank_info.rank == 0:
                time.sleep(1.0)  # it has the store: the others have to read it there
        raise


def _is_of_communication(error: Exception) -> bool:
    """Whether torch.distributed could not reach another rank; gloo's errors are plain ones that name their source.

    All but one: whoever waits on a connection that another wait has given up gets "Application timeout caused pair
    closure".
    """
    if isinstance(error, (dist.DistError, ConnectionError)):
        return True
    sources = re.compile("gloo|nccl|pair closure", re.IGNORECASE)
    return isinstance(error, RuntimeError) and sources.search(str(error)) is not None


def _lost_rank(error: BaseException, rank_info: RankInfo, timeout: float) -> str:
    quoted = re.sub(r"^\[[^\]]*\]\s*", "", str(error).strip()).partition("\n")[0][:300]  # without its source file
    rank, address = f"rank {rank_info.rank} of {rank_info.world}", os.environ.get("MASTER_ADDR", "?")
    meeting = f"{address}:{os.environ.get('MASTER_PORT', '?')}"
    if not dist.is_initialized():
        return (
            f"{rank} did not meet all others at {meeting} within {timeout:g} s. Look at what they printed, that all "
            "were started with the same address (MASTER_ADDR) and a free port (MASTER_PORT), and that no firewall is "
            f"between the nodes; it said: {quoted}"
        )
    cause = "look at the output of the rank that ended first, and at the system's log for its end (memory)"
    with contextlib.suppress(Exception):
        store = dist.distributed_c10d._get_default_store()
        if store.check([_FAILED]):
            cause = store.get(_FAILED).decode(errors="replace")
    return (
        f"{rank} lost another one, which has ended, or is stuck for more than {timeout:g} s (timeout= sets the limit): "
        f"{cause}; it said: {quoted}"
    )


@atexit.register
def _close_connections() -> None:
    """Lightning leaves a gloo group open, whose threads then may end the process by SIGABRT after all is done.

    Not where an error ends the process: then others may be gone, and closing would wait for them.
    """
    failed = hasattr(sys, "last_value")
    if not failed and dist.is_available() and dist.is_initialized() and dist.get_backend() == "gloo":
        dist.destroy_process_group()
