"""Processes that train together: which rank this process is, and a launcher for the ranks of one machine.

```python
from snnkit import train

result = train.launch([sys.executable, "train.py"], processes=2, timeout=600)      # from a notebook, too
print(result.seconds, result.outputs[0][-1])
```

Each process finds RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR, MASTER_PORT and
TORCHELASTIC_RUN_ID in its environment, as from ``torchrun``, so that torch.distributed and Lightning see no difference.
Beyond ``torchrun``, this launcher has a time limit, hands lines to the caller, blames the rank that failed first, and
ends the ranks even if it is killed.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from snnkit.checks import integer, number
from snnkit.data import resolve_device
from snnkit.measure import missing_malloc_settings

PEER = 76  # exit code of a rank that ended only because it lost another one
REQUEUED = 75  # of one that has saved and handed its job back to SLURM; EX_TEMPFAIL of sysexits.h
_HOST = "127.0.0.1"
_LAST = 12  # lines of a failed rank that the error repeats
_POLL = 0.1  # seconds between looks at processes that print nothing
_SHORT_GRACE = 5.0  # seconds that ranks have to end when one has failed
_BLAME = 3.0  # seconds in which a rank that has failed should have ended after those that lost it
_DRAIN = 1.0  # seconds to wait for the rest of the output, where a child of a rank holds its pipe open
_INTERACTIVE = ("bash", "interactive")  # names of SLURM jobs in which a person types, by Lightning's convention

# Ends the ranks of a launcher that is killed. Its standard input is a pipe that only the launcher holds: a line means
# that all is done, the end of the pipe that the launcher is gone. "$0" is the grace, "$@" are process groups.
_GUARD = """trap "" INT TERM HUP; read line && exit
kill -s TERM -- "$@"; sleep "$0"; kill -s KILL -- "$@" """


@dataclass(frozen=True)
class RankInfo:
    """A process among those that train together.

    Attributes:
        rank, world: of all processes.
        local_rank, per_node: of those on this machine.
        nodes: machines.
        launcher: "torchrun" (or ``launch``), "srun", or "alone".
    """

    rank: int = 0
    world: int = 1
    local_rank: int = 0
    per_node: int = 1
    nodes: int = 1
    launcher: str = "alone"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> RankInfo:
        """As ``os.environ`` (or the mapping given) says.

        Raises:
            ValueError: naming the variable that makes no sense; inside a SLURM job of several tasks, this process was
                not started by ``srun``, and would wait for the others for ever.
        """
        env = os.environ if environment is None else environment
        if "TORCHELASTIC_RUN_ID" in env or ("RANK" in env and "WORLD_SIZE" in env):
            world, rank, local = (_number(env, name) for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK"))
            per_node = _number(env, "LOCAL_WORLD_SIZE", world)
            return cls(rank, world, local, per_node, -(-world // per_node), "torchrun")._checked()
        tasks = _number(env, "SLURM_NTASKS", 1)
        if "SLURM_STEP_ID" in env and env.get("SLURM_JOB_NAME") not in _INTERACTIVE:
            world = _number(env, "SLURM_STEP_NUM_TASKS", tasks)
            nodes = _number(env, "SLURM_STEP_NUM_NODES", _number(env, "SLURM_NNODES", 1))
            rank, local = _number(env, "SLURM_PROCID"), _number(env, "SLURM_LOCALID")
            return cls(rank, world, local, -(-world // nodes), nodes, "srun")._checked()
        if tasks > 1 and "SLURM_PROCID" in env and env.get("SLURM_JOB_NAME") not in _INTERACTIVE:
            raise ValueError(
                f"this is a SLURM job of SLURM_NTASKS={tasks} tasks, but the command runs once: put srun before it"
            )
        return cls()

    def _checked(self) -> RankInfo:
        if not (0 <= self.rank < self.world and 0 <= self.local_rank < self.per_node):
            raise ValueError(
                f"the environment of this process makes no sense: rank {self.rank} of {self.world}, "
                f"local rank {self.local_rank} of {self.per_node}"
            )
        if self.per_node * self.nodes != self.world:
            raise ValueError(
                f"every node must have as many ranks, but there are {self.world} ranks on {self.nodes} nodes, "
                f"{self.per_node} of them here"
            )
        return self

    def check_batch(self, batch_size: int) -> None:
        """ValueError where the ranks can't share a batch evenly."""
        if batch_size % self.world:
            raise ValueError(
                f"batch_size, of all ranks together, must be a multiple of their number, {self.world}, "
                f"but it is {batch_size}"
            )

    def check(self, devices: int | None, nodes: int | None) -> None:
        """ValueError where other numbers are requested than the launcher started."""
        for name, requested, actual, what in (
            ("devices", devices, self.per_node, "processes per node"),
            ("nodes", nodes, self.nodes, "nodes"),
        ):
            if requested is not None and requested != actual:
                advice = {
                    "alone": "start it with snnkit.train.launch, torchrun or srun (`snnkit train --devices` does)",
                    "torchrun": "set --nproc-per-node and --nnodes of torchrun to the same",
                    "srun": "set --ntasks-per-node and --nodes in the batch script to the same",
                }[self.launcher]
                raise ValueError(f"{name} is {requested}, but there are {actual} {what}: {advice}")

    def device(self, device: str | torch.device) -> torch.device:
        """The device of this rank, for "auto", "cpu" or "cuda" of all. ValueError where there are too few."""
        # resolve_device("cuda") tries the first device, which every rank would do then.
        target = resolve_device("auto" if str(device) == "cuda" and torch.cuda.is_available() else device)
        if target.type not in ("cpu", "cuda"):
            raise ValueError(f"device of ranks must be 'auto', 'cpu' or 'cuda', but it is {str(target)!r}")
        if target.type == "cpu":
            return target
        visible = torch.cuda.device_count()
        if self.per_node > visible:
            raise ValueError(
                f"{self.per_node} ranks on this machine need a CUDA device each, but PyTorch sees {visible} here: "
                "start fewer, or use device='cpu'. Under SLURM each task must see all: no --gpus-per-task, and where "
                "the cluster binds one to each task by itself, srun --gpu-bind=none, or CUDA_VISIBLE_DEVICES=0,1,2,3"
            )
        if target.index is not None and self.world > 1:
            raise ValueError(
                f"device must be 'cuda', as each rank takes that of its local rank, but it is {str(target)!r}"
            )
        return torch.device("cuda", self.local_rank if target.index is None else target.index)


def _number(environment: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = environment.get(name)
    if text is None:
        if default is None:
            raise ValueError(f"{name} is missing in the environment of this process: start it with torchrun or srun")
        return default
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{name} must be a number in the environment of this process, but it is {text!r}") from None


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
    """The result of ranks that ended well.

    Attributes:
        seconds: from the start of the ranks to the end of the last one, in the last attempt.
        outputs: lines that each rank printed (standard output and error), [ranks] lists of text.
        attempts: 1, and one more for each restart that was needed.
    """

    seconds: float
    outputs: list[list[str]]
    attempts: int


def launch(
    command: Sequence[str | os.PathLike[str]],
    processes: int,
    *,
    timeout: float | None = None,
    env: Mapping[str, str] | None = None,
    on_line: Callable[[int, str], object] | None = None,
    restarts: int = 0,
    grace: float = 10.0,
) -> Launched:
    """Run ``command`` as ``processes`` ranks of one job on this machine, and wait for all of them.

    Args:
        command: program and arguments; not a shell's line.
        processes: ranks, at least 1.
        timeout: seconds for all of it, restarts included; None: no limit.
        env: variables in place of or beside those of this process. With more than one rank,
            OMP_NUM_THREADS is 1 where neither sets it, as with ``torchrun`` (ranks would fight for the cores), and the
            C library keeps freed memory (``measure.MALLOC_SETTINGS``).
        on_line: called with (rank, line) for each line as it comes, in the thread of the caller.
        restarts: how often to start all ranks again after one has failed; for commands that resume.
        grace: seconds that ranks have after SIGTERM, before SIGKILL, where they have to be ended; after a failure at
            most 5, as without all of them there is nothing to save.

    Raises:
        LaunchError: a rank failed (the others were ended), or the time was up. Names the rank, its exit code or
            signal, and its last lines.
        ValueError, TypeError: naming the argument.
        OSError: the program can't be started.

    On Ctrl-C and SIGTERM, too, all ranks are ended before it takes effect here; where this process is killed, a small
    guard process ends them.
    """
    words = _words(command)
    integer("processes", processes, at_least=1)
    integer("restarts", restarts, at_least=0)
    for name, value in (("timeout", timeout), ("grace", grace)):
        if value is not None:
            number(name, value, above=0)
    until = None if timeout is None else time.monotonic() + timeout
    with _exit_on_sigterm():
        for attempt in range(1, restarts + 2):
            port, job, started = free_port(), secrets.token_hex(4), time.monotonic()
            ranks = _Ranks(on_line, grace)
            with ranks:
                ranks.start(words, [_environment(env or {}, i, processes, port, job) for i in range(processes)])
                failed = ranks.wait(until)
                seconds = time.monotonic() - started
                code = None if failed is None else ranks.codes[failed]
                late = failed is None and None in ranks.codes
                if failed is not None or late:
                    ranks.grace = min(grace, _SHORT_GRACE)
            outputs = ranks.outputs
            if late:
                quiet = min(range(processes), key=lambda rank: len(outputs[rank]))
                message = f"the ranks did not end within timeout={timeout:g} s, and were ended."
                raise LaunchError(f"{message} {_last_lines(quiet, outputs)}", None, None, outputs)
            if failed is None:
                return Launched(seconds, outputs, attempt)
            if attempt > restarts:
                others = "" if processes == 1 else "; the others were ended"
                message = f"rank {failed} of {processes} {_exit_reason(code or 0)} after {seconds:.1f} s{others}."
                raise LaunchError(f"{message} {_last_lines(failed, outputs)}", failed, code, outputs)
    raise AssertionError


class _Ranks:
    """A context of processes, each the leader of a process group of its own. When it is left, all of them have ended.

    Attributes:
        outputs: lines of each rank.
        grace: seconds between SIGTERM and SIGKILL.
    """

    def __init__(self, on_line: Callable[[int, str], object] | None, grace: float) -> None:
        self.on_line, self.grace = on_line, grace
        self.outputs: list[list[str]] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._guard: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[tuple[int, bytes | None]] = queue.Queue()  # None: the end of a rank's output
        self._open = 0  # outputs that have not ended

    def __enter__(self) -> _Ranks:
        return self

    def start(self, command: Sequence[str], environments: Sequence[Mapping[str, str]]) -> None:
        for rank, env in enumerate(environments):
            process = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            self._processes.append(process)
            self.outputs.append([])
            self._open += 1
            threading.Thread(target=self._read, args=(rank, process.stdout), daemon=True).start()
        groups = [f"-{process.pid}" for process in self._processes]
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, f"{self.grace:g}", *groups],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def codes(self) -> list[int | None]:
        """Exit code of each rank, None while it runs."""
        return [process.poll() for process in self._processes]

    def wait(self, until: float | None) -> int | None:
        """Until all have ended well, or one hasn't, whose rank is returned, or ``until`` (of ``time.monotonic``)."""
        while until is None or time.monotonic() < until:
            self._take(_POLL)
            codes = self.codes
            if any(codes):
                # A rank may end because it lost another, which is about to end itself: wait to see which was first.
                enough = time.monotonic() + _BLAME
                while {code for code in codes if code} == {PEER} and None in codes and time.monotonic() < enough:
                    self._take(_POLL)
                    codes = self.codes
                failed = [rank for rank, code in enumerate(codes) if code]
                return min(failed, key=lambda rank: (codes[rank] == PEER, (codes[rank] or 0) > 0, rank))
            if None not in codes:
                return None
        return None

    def __exit__(self, *_: object) -> None:
        try:
            self._signal(signal.SIGTERM, [process for process in self._processes if process.poll() is None])
            until = time.monotonic() + self.grace
            while None in self.codes and time.monotonic() < until:
                self._take(0.05)
        finally:
            self._signal(signal.SIGKILL, self._processes)  # children, too: groups live on where one ignored SIGTERM
            for process in self._processes:
                process.wait()
            until = time.monotonic() + _DRAIN
            while self._open and time.monotonic() < until:
                self._take(_POLL)
            if self._guard is not None:
                with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                    self._guard.communicate(b"done\n", timeout=_DRAIN)

    def _signal(self, number: int, processes: Sequence[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            with contextlib.suppress(OSError):
                os.killpg(process.pid, number)

    def _read(self, rank: int, stream: Any) -> None:
        """In a thread of its own: hand over the lines of a rank."""
        with stream:
            for line in stream:
                self._lines.put((rank, line))
        self._lines.put((rank, None))

    def _take(self, seconds: float) -> None:
        """Handle the lines that have come; wait so long for the first."""
        with contextlib.suppress(queue.Empty):
            rank, data = self._lines.get(timeout=seconds)
            while True:
                if data is None:
                    self._open -= 1
                else:  # of a progress bar only the last state
                    line = data.decode(errors="replace").rstrip("\r\n").rpartition("\r")[2]
                    self.outputs[rank].append(line)
                    if self.on_line is not None:
                        self.on_line(rank, line)
                rank, data = self._lines.get_nowait()


def free_port() -> int:
    """A port on which no process listens now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def _exit_reason(code: int) -> str:
    """An exit code of ``subprocess`` in words; it is negative for a signal."""
    if code >= 0:
        return f"failed with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name} (signal {-code})"
    except ValueError:
        return f"was ended by signal {-code}"


def _words(command: Any) -> list[str]:
    if isinstance(command, (str, bytes, os.PathLike)) or not isinstance(command, Sequence):
        raise TypeError(f'command must be a list such as [sys.executable, "train.py"], but it is {command!r}')
    words = [os.fspath(word) if isinstance(word, (str, os.PathLike)) else word for word in command]
    for word in words:
        if not isinstance(word, str):
            raise TypeError(f"command must be a list of texts and paths, but it contains {word!r}")
    if not words:
        raise ValueError("command must name a program, but it is empty")
    return words


def _environment(given: Mapping[str, str], rank: int, world: int, port: int, job: str) -> dict[str, str]:
    env = {**os.environ, **given}
    if world > 1:
        env.setdefault("OMP_NUM_THREADS", "1")
        # A rank that has new pages cleared by the kernel in the middle of an update lets all the others wait.
        env |= missing_malloc_settings(env)
    if sys.platform == "linux":
        # Without it gloo looks up the address of this machine's name, which many a laptop lacks, or has a stale one.
        env.setdefault("GLOO_SOCKET_IFNAME", "lo")
    place = {
        "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "GROUP_RANK": 0,
        "GROUP_WORLD_SIZE": 1, "MASTER_ADDR": _HOST, "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": job,
        "PYTHONUNBUFFERED": 1,
    }  # fmt: skip
    env.pop("TORCHELASTIC_USE_AGENT_STORE", None)  # of a torchrun around us: here rank 0 keeps the store itself
    return env | {name: str(value) for name, value in place.items()}


@contextlib.contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    """SIGTERM as SystemExit, so that ranks are ended; only where it has its default effect, and can be handled."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return

    def leave(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one would interrupt the ending of ranks
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _last_lines(rank: int, outputs: list[list[str]]) -> str:
    lines = outputs[rank][-_LAST:]
    if not lines:
        return f"Rank {rank} had printed nothing."
    return f"Last lines of rank {rank}:\n" + "\n".join(f"  {line}" for line in lines)
