"""Start the ranks of a run on this machine, watch them, and leave none behind.

```python
from snnkit.train.launch import launch

done = launch([sys.executable, "train.py"], processes=2, timeout=600)      # from a notebook, too
print(done.seconds, done.outputs[0][-1])
```

Each process finds its place where ``torchrun`` would have put it (RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE,
GROUP_RANK, MASTER_ADDR, MASTER_PORT, TORCHELASTIC_RUN_ID), so that torch.distributed and Lightning see no difference.
Unlike it, this takes no interpreter of its own that imports PyTorch before the first rank can begin.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from snnkit.data._batches import check_positive_int, check_real
from snnkit.train.ranks import Ranks

PEER = 76  # exit code of a rank that ended only because it lost another one
REQUEUED = 75  # of one that has saved and handed its job back to SLURM; EX_TEMPFAIL of sysexits.h
HERE = "127.0.0.1"
_HASTE = 5.0  # seconds
TOLD = 12  # lines of a failed rank that the error repeats


class LaunchError(RuntimeError):
    """A rank failed, or the time was up; all ranks have ended.

    Attributes:
        rank: the first that failed; None where the time was up.
        code: its exit code, negative for a signal, as in ``subprocess``; None where the time was up.
        outputs: lines of each rank, [ranks] lists of text.
    """

    def __init__(self, message: str, rank: int | None, code: int | None, outputs: list[list[str]]) -> None:
        super().__init__(message)
        self.rank, self.code, self.outputs = rank, code, outputs


@dataclass(frozen=True)
class Launched:
    """What ranks that ended well left.

    Attributes:
        seconds: from the start of the ranks to the end of the last one, in the last attempt.
        outputs: lines that each rank printed (standard output and error), [ranks] lists of text.
        attempts: 1, and one more for each restart that was needed.
        port: where the ranks met.
    """

    seconds: float
    outputs: list[list[str]]
    attempts: int
    port: int


def launch(
    command: Sequence[str | os.PathLike[str]],
    processes: int,
    *,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[int, str], object] | None = None,
    restarts: int = 0,
    port: int | None = None,
    grace: float = 10.0,
) -> Launched:
    """Run ``command`` as ``processes`` ranks of one job on this machine, and wait for all of them.

    Args:
        command: program and arguments; not a shell's line.
        processes: ranks, at least 1.
        timeout: seconds for all of it, restarts included; None: no limit.
        env: variables in place of or beside those of this process. OMP_NUM_THREADS is 1 where neither sets it and
            there is more than one rank, as with ``torchrun``: ranks would fight for the cores.
        on_line: called with (rank, line) for each line as it comes, in the thread of the caller. None: they are kept
            in ``outputs`` only.
        restarts: how often to start all ranks again after one has failed; for commands that resume.
        port: on which the ranks meet; None: a free one.
        grace: seconds that ranks have after SIGTERM, before SIGKILL, where they have to be ended; after a failure at
            most 5, as without all of them there is nothing to save.

    Raises:
        LaunchError: a rank failed (the others were ended), or the time was up. Names the rank, its exit code or
            signal, and its last lines.
        ValueError, TypeError: naming the argument; a ``port`` that is in use.
        OSError: the program can't be started.

    On Ctrl-C and SIGTERM, too, all ranks are ended before it takes effect here; where this process is killed, a small
    guard process ends them.
    """
    words = _words(command)
    check_positive_int("processes", processes)
    if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0:
        raise ValueError(f"restarts must be an int of at least 0; got {restarts!r}")
    for name, value in (("timeout", timeout), ("grace", grace)):
        if value is not None:
            check_real(name, value)
            if not 0 < value < float("inf"):
                raise ValueError(f"{name} must be a finite number of seconds above 0; got {value!r}")
    if port is not None:
        check_port(port)
    until = None if timeout is None else time.monotonic() + timeout
    attempt = 0
    with _terminated_as_exit():
        while True:
            attempt += 1
            meet = port or free_port()
            job = secrets.token_hex(4)
            started = time.monotonic()
            ranks = Ranks(on_line, grace)
            with ranks:
                for rank in range(processes):
                    ranks.start(words, _environment(env or {}, rank, processes, meet, job))
                failed = ranks.wait(until, bystander=PEER)
                late = failed is None and ranks.running
                code = 0 if failed is None else ranks.codes[failed] or 0
                seconds = time.monotonic() - started
                if failed is not None or late:
                    ranks.grace = min(grace, _HASTE)
            outputs = ranks.outputs
            if late:
                raise LaunchError(_late(timeout, outputs), None, None, outputs)
            if failed is None:
                return Launched(seconds, outputs, attempt, meet)
            if attempt > restarts:
                raise LaunchError(_failure(failed, processes, code, seconds, outputs), failed, code, outputs)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def check_port(port: int) -> None:
    """ValueError where ``port`` is none, or somebody listens on it on this machine; says how to choose another."""
    if isinstance(port, bool) or not isinstance(port, int):
        raise TypeError(f"port must be an int; got {port!r} ({type(port).__name__})")
    if not 0 < port < 65536:
        raise ValueError(f"port must lie in 1 .. 65535; got {port}")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError as error:
            raise ValueError(
                f"port {port} can't be used: {error.strerror}; take another one, or None for any that is free"
            ) from None


def _words(command: Any) -> list[str]:
    if isinstance(command, (str, bytes, os.PathLike)) or not isinstance(command, Sequence):
        raise TypeError(f'command must be a list of words, such as [sys.executable, "train.py"]; got {command!r}')
    words = [os.fspath(word) if isinstance(word, (str, os.PathLike)) else word for word in command]
    if wrong := [word for word in words if not isinstance(word, str)]:
        raise TypeError(f"command must be a list of texts and paths; got {wrong[0]!r} in it")
    if not words:
        raise ValueError("command must name a program; got an empty list")
    return words


def _environment(given: Mapping[str, str], rank: int, world: int, port: int, job: str) -> dict[str, str]:
    own = {**os.environ, **given}
    if world > 1:
        own.setdefault("OMP_NUM_THREADS", "1")
    if sys.platform == "linux":
        # Without it gloo asks what address this machine's name has, which on many a laptop is none, or a stale one.
        own.setdefault("GLOO_SOCKET_IFNAME", "lo")
    place = {
        "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "GROUP_RANK": 0,
        "GROUP_WORLD_SIZE": 1, "MASTER_ADDR": HERE, "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": job,
        "SNNKIT_LAUNCHER": os.getpid(), "PYTHONUNBUFFERED": 1,
    }  # fmt: skip
    own.pop("TORCHELASTIC_USE_AGENT_STORE", None)  # of a torchrun around us: here rank 0 keeps the store itself
    return own | {name: str(value) for name, value in place.items()}


@contextmanager
def _terminated_as_exit() -> Iterator[None]:
    """SIGTERM as SystemExit, so that ranks are ended; where it does what it does by default, and can be caught."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def leave(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one would break the ending of ranks
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _failure(rank: int, world: int, code: int, seconds: float, outputs: list[list[str]]) -> str:
    others = "" if world == 1 else "; the others were ended"
    head = f"rank {rank} of {world} {ending(code)} after {seconds:.1f} s{others}."
    return f"{head} {_last(rank, outputs)}"


def ending(code: int) -> str:
    """What an exit code says, as ``subprocess`` gives it: negative for a signal."""
    if code >= 0:
        return f"failed with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name} (signal {-code})"
    except ValueError:
        return f"was ended by signal {-code}"


def _late(timeout: Any, outputs: list[list[str]]) -> str:
    quiet = min(range(len(outputs)), key=lambda rank: len(outputs[rank]))
    return f"the ranks did not end within timeout={timeout:g} s, and were ended. {_last(quiet, outputs)}"


def _last(rank: int, outputs: list[list[str]]) -> str:
    lines = outputs[rank][-TOLD:]
    if not lines:
        return f"Rank {rank} had printed nothing."
    return f"Last lines of rank {rank}:\n" + "\n".join(f"  {line}" for line in lines)
