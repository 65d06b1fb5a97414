"""When a rank is lost: a reason in place of a socket's last words, and no rank without a launcher."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator

import torch.distributed as dist

from snnkit.train.lit.preempt import RequeueError
from snnkit.train.place import Place

_FAILED = "snnkit/failed"  # key in the ranks' store: what the first one that failed of itself has to say
_PATIENCE = 10.0  # seconds between SIGTERM and the end of a rank that has lost its launcher

# What torch, gloo and NCCL say where another rank can't be reached any more ...
_LOST = (
    "connection closed by peer", "connection reset by peer", "broken pipe", "connection refused", "socket closed",
    "connection was likely closed", "failed to recv", "remote process has terminated", "remote process exited",
    "ncclremoteerror", "nccl communicator was aborted", "unhandled system error", "pair closure",
)  # fmt: skip
# ... where it does not answer ...
_SILENT = ("timed out waiting", "timed out after", "wait timeout", "has timed out", "watchdog caught")
# ... and where it never came.
_ABSENT = ("clients joined", "trying to connect")


class RankError(RuntimeError):
    """This rank ended only because another one is gone, stuck, or never came."""


@contextlib.contextmanager
def explained(place: Place, timeout: float) -> Iterator[None]:
    """Errors of communication as RankError with a reason; an error of this rank's own is told to the others."""
    try:
        yield
    except (RankError, RequeueError):  # of which all ranks know
        raise
    except Exception as error:
        if place.world == 1:
            raise
        if (text := _port_in_use(error)) is not None:
            raise RankError(text) from error
        if (text := reason(error, place, timeout)) is None:
            _tell(f"rank {place.rank}: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}", place)
            raise
        raise RankError(text) from error


def reason(error: BaseException, place: Place, timeout: float) -> str | None:
    """What an error of communication means; None for any other error."""
    text = str(error)
    low = text.lower()
    # Without the file that it was said in, and the advice that follows.
    first = re.sub(r"^\[[^\]]*\]\s*", "", text.strip()).partition("\n")[0].partition(". ")[0]
    if last := text.partition("Last error:")[2].strip().partition("\n")[0]:  # where NCCL says what it was
        first = f"{first}: {last}"
    of_theirs = isinstance(error, (dist.DistError, ConnectionError)) or "gloo" in low or "nccl" in low
    said = f"it said: {first}"
    if any(sign in low for sign in _ABSENT) and not dist.is_initialized():
        where = f"{os.environ.get('MASTER_ADDR', '?')}:{os.environ.get('MASTER_PORT', '?')}"
        return (
            f"rank {place.rank} of {place.world} waited {timeout:g} s for the others at {where}, and some did not "
            f"come. Look at what they printed, that all were started with the same address and port (MASTER_ADDR, "
            f"MASTER_PORT), and that no firewall is between the nodes; {said}"
        )
    if not of_theirs and not any(sign in low for sign in _LOST[:3]):
        return None
    who = told() or "look at the output of the rank that ended first, and at the system's log for its end (memory)"
    if any(sign in low for sign in _SILENT):
        return (
            f"rank {place.rank} of {place.world} waited {timeout:g} s for another rank, which is stuck, stopped, or so "
            f"much slower (timeout= sets the limit): {who}; {said}"
        )
    system = "unhandled system error" in low and not re.search("remote process|connection|socket", low)
    if any(sign in low for sign in _LOST) and not system:  # but the want of shared memory, say
        return f"rank {place.rank} of {place.world} lost another rank, which has ended: {who}; {said}"
    return (
        f"rank {place.rank} of {place.world} can't exchange data with the others: {who}; {said}. "
        "Between nodes, GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME name the network to take"
    )


def _port_in_use(error: BaseException) -> str | None:
    if "EADDRINUSE" not in str(error) and "address already in use" not in str(error).lower():
        return None
    port = os.environ.get("MASTER_PORT", "?")
    return (
        f"port {port} of this machine is in use, so the ranks can't meet there: set MASTER_PORT to another one "
        "(torchrun: --master-port; snnkit train --devices takes a free one by itself)"
    )


def _tell(text: str, place: Place) -> None:
    """Leave a word for the others, who will only see that a connection is closed."""
    with contextlib.suppress(Exception):
        dist.distributed_c10d._get_default_store().set(_FAILED, text)
        if place.rank == 0:
            time.sleep(1.0)  # it keeps the store: the others have to read it there


def told() -> str | None:
    """What a rank that failed of itself has left for the others; None: no rank did."""
    with contextlib.suppress(Exception):
        store = dist.distributed_c10d._get_default_store()
        if store.check([_FAILED]):
            return store.get(_FAILED).decode(errors="replace")
    return None


@contextlib.contextmanager
def watching_launcher(place: Place) -> Iterator[None]:
    """End this rank where the process that started it is gone: asked to by SIGTERM first, so that it may save."""
    if place.launcher != "torchrun" or sys.platform == "win32":
        yield
        return
    parent, over = os.getppid(), threading.Event()

    def watch() -> None:
        while not over.wait(1.0):
            if os.getppid() != parent:
                break
        else:
            return
        print(f"rank {place.rank}: its launcher (process {parent}) is gone, so it ends", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGTERM)
        if not over.wait(_PATIENCE):
            os._exit(128 + signal.SIGTERM)

    threading.Thread(target=watch, name="snnkit launcher watch", daemon=True).start()
    try:
        yield
    finally:
        over.set()
