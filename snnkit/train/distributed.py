"""Processes that train together: which rank this process is, and a launcher for the ranks of one machine.

```python
from snnkit import train

result = train.launch([sys.executable, "train.py"], processes=2, timeout=600)      # from a notebook, too
print(result.seconds, result.outputs[0][-1])
```

Each process has the environment of ``torchrun`` (RANK, WORLD_SIZE, MASTER_ADDR, …), so that torch.distributed and
Lightning see no difference. Unlike ``torchrun``, this launcher has a time limit, passes lines to the caller, names the
rank that failed first, and ends the ranks even if it is killed.
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

from snnkit import checks
from snnkit.checks import integer, number, shown
from snnkit.data import resolve_device

PEER = 76  # exit code of a rank that ended only because it lost another one
REQUEUED = 75  # of one that has saved and handed its job back to SLURM; EX_TEMPFAIL of sysexits.h
_LAST = 12  # lines of a failed rank that the error repeats
_POLL = 0.1  # seconds between looks at processes that print nothing
_SHORT_GRACE = 5.0  # seconds that ranks have to end when one has failed: without all of them there is nothing to save
_BLAME = 3.0  # seconds in which a rank that has failed should have ended after those that lost it
_DRAIN = 1.0  # seconds to wait for the rest of the output, where a child of a rank holds its pipe open
_INTERACTIVE = ("bash", "interactive")  # names of SLURM jobs in which a person types, by Lightning's convention

# Ends the ranks of a launcher that is killed. Its standard input is a pipe that only the launcher holds: a line means
# that all is done, the end of the pipe that the launcher is gone. "$0" is the grace, "$@" are process groups.
_GUARD = """trap "" INT TERM HUP; read line && exit
kill -s TERM -- "$@"; sleep "$0"; kill -s KILL -- "$@" """


@dataclass(frozen=True)
class RankInfo:
    """One of the processes that train together."""

    rank: int = 0  #: of all processes
    world: int = 1  #: how many they are
    local_rank: int = 0  #: of those on this machine
    per_node: int = 1  #: how many these are
    nodes: int = 1  #: machines
    launcher: str = "alone"  #: or "torchrun" (or ``launch``), or "srun"

    @classmethod
    @checks.arguments
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> RankInfo:
        """Read it from ``os.environ``, or from the mapping given.

        Raises:
            ValueError: a variable is missing or no number; nodes have different numbers of ranks; or the process is in
                a SLURM job of several tasks, but ``srun`` did not start it, so it would wait for the others for ever.
        """
        env = os.environ if environment is None else environment

        def read(name: str, default: int | None = None) -> int:
            text = env.get(name, default)
            try:
                return int(text)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                raise ValueError(f"{name} of the environment must be a number, but it is {shown(text)}") from None

        info = cls()
        tasks, interactive = read("SLURM_NTASKS", 1), env.get("SLURM_JOB_NAME") in _INTERACTIVE
        if "TORCHELASTIC_RUN_ID" in env or ("RANK" in env and "WORLD_SIZE" in env):
            world = read("WORLD_SIZE")
            per_node = read("LOCAL_WORLD_SIZE", world)
            info = cls(read("RANK"), world, read("LOCAL_RANK"), per_node, -(-world // per_node), "torchrun")
        elif "SLURM_STEP_ID" in env and not interactive:
            world = read("SLURM_STEP_NUM_TASKS", tasks)
            nodes = read("SLURM_STEP_NUM_NODES", read("SLURM_NNODES", 1))
            info = cls(read("SLURM_PROCID"), world, read("SLURM_LOCALID"), -(-world // nodes), nodes, "srun")
        elif tasks > 1 and "SLURM_PROCID" in env and not interactive:
            raise ValueError(
                f"this is a SLURM job of SLURM_NTASKS={tasks} tasks, but the command runs once: put srun before it"
            )
        if info.per_node * info.nodes != info.world:
            raise ValueError(f"every node must have as many ranks, but {info.nodes} nodes have {info.world} in all")
        return info

    @checks.arguments
    def check(self, devices: int | None, nodes: int | None) -> None:
        """Raise ValueError if other numbers are requested than the launcher started."""
        for name, requested, actual in (("devices", devices, self.per_node), ("nodes", nodes, self.nodes)):
            if requested is not None and requested != actual:
                advice = {
                    "alone": "start it with snnkit.train.launch, torchrun or srun (`snnkit train --devices` does)",
                    "torchrun": "set --nproc-per-node and --nnodes of torchrun to the same",
                    "srun": "set --ntasks-per-node and --nodes in the batch script to the same",
                }[self.launcher]
                raise ValueError(f"{name} must be {actual}, as was started, but it is {requested}: {advice}")

    @checks.arguments
    def check_batch(self, batch_size: int) -> None:
        """Raise ValueError if the ranks can't share a batch evenly."""
        if batch_size % self.world:
            raise ValueError(
                f"batch_size must be a multiple of the number of ranks, {self.world}, which share it, "
                f"but it is {batch_size}"
            )

    def device(self, device: str | torch.device) -> torch.device:
        """The device of this rank, for "auto", "cpu" or "cuda" of all. ValueError if there are too few."""
        # resolve_device("cuda") tries the first device, which every rank would do then.
        target = resolve_device("auto" if str(device) == "cuda" and torch.cuda.is_available() else device)
        if target.type not in ("cpu", "cuda") or (target.index is not None and self.world > 1):
            raise ValueError(f"device of ranks must be 'auto', 'cpu' or 'cuda', but it is {shown(str(target))}")
        if target.type == "cpu":
            return target
        visible = torch.cuda.device_count()
        if self.per_node > visible:
            raise ValueError(
                f"{self.per_node} ranks on this machine need a CUDA device each, but PyTorch sees {visible} here: "
                "start fewer, or use device='cpu'. Under SLURM each task must see all: no --gpus-per-task, and where "
                "the cluster binds one to each task by itself, srun --gpu-bind=none, or CUDA_VISIBLE_DEVICES=0,1,2,3"
            )
        return torch.device("cuda", self.local_rank if target.index is None else target.index)


class LaunchError(RuntimeError):
    """A rank failed, or the time limit was reached. All ranks have ended.

    Attributes:
        rank: the first rank that failed; None at the time limit.
        code: its exit code, negative for a signal, as in ``subprocess``; None at the time limit.
        outputs: the lines of each rank, [ranks] lists of text.
    """

    def __init__(self, message: str, rank: int | None, code: int | None, outputs: list[list[str]]) -> None:
        lines = [f"  {line}" for line in outputs[rank or 0][-_LAST:]]
        super().__init__("\n".join([f"{message}. Last lines of rank {rank or 0}:", *lines]))
        self.rank, self.code, self.outputs = rank, code, outputs


@dataclass(frozen=True)
class Launched:
    """The result if all ranks succeeded."""

    seconds: float  #: from the start of the ranks to the end of the last one
    outputs: list[list[str]]  #: lines that each rank printed (standard output and error)


@checks.arguments
def launch(
    command: Sequence[str | os.PathLike[str]],
    processes: int,
    *,
    timeout: float | None = None,
    on_line: Callable[[int, str], object] | None = None,
    grace: float = 10.0,
) -> Launched:
    """Run ``command`` as ``processes`` ranks of one job on this machine, and wait for all of them.

    With more than one rank, OMP_NUM_THREADS is 1 unless it is set, as with ``torchrun``: otherwise ranks compete for
    the cores. Ctrl-C and SIGTERM first end all ranks. If this process is killed, a small guard process ends them.

    Args:
        command: program and arguments, not a line for a shell.
        processes: ranks, at least 1.
        timeout: seconds for the whole run; None: no limit.
        on_line: called with (rank, line) for each new line, in the thread of the caller.
        grace: seconds between SIGTERM and SIGKILL when ranks must be ended; after a failure at most 5.

    Raises:
        LaunchError: a rank failed (the others were ended), or the time limit was reached. It names the rank, its exit
            code or signal, and its last lines.
    """
    words = [os.fspath(word) for word in command]
    if not words:
        raise ValueError("command must name a program, but it is empty")
    if not hasattr(os, "killpg"):
        raise OSError("ranks are started and ended by the means of POSIX: Linux, macOS, or WSL on Windows")
    integer("processes", processes, at_least=1)
    grace = number("grace", grace, above=0)
    until = None if timeout is None else time.monotonic() + number("timeout", timeout, above=0)
    port, job, started = free_port(), secrets.token_hex(4), time.monotonic()
    with _exit_on_sigterm(), _Ranks(on_line, grace) as ranks:
        ranks.start(words, [_environment(rank, processes, port, job) for rank in range(processes)])
        failed = ranks.wait(until)
        seconds, codes = time.monotonic() - started, ranks.codes
        if any(code != 0 for code in codes):
            ranks.grace = min(grace, _SHORT_GRACE)
    outputs = ranks.outputs
    if failed is not None:
        code = codes[failed]
        assert code
        names = {one.value: one.name for one in signal.Signals}  # real-time signals have none
        reason = (
            f"failed with exit code {code}" if code > 0 else f"was ended by {names.get(-code, 'a signal')} ({code})"
        )
        message = f"rank {failed} of {processes} {reason} after {seconds:.1f} s, and all others were ended"
        raise LaunchError(message, failed, code, outputs)
    if None in codes:
        message = f"the ranks did not end within timeout={timeout:g} s, and were ended"
        raise LaunchError(message, None, None, outputs)
    return Launched(seconds, outputs)


class _Ranks:
    """A context of processes, each the leader of a process group of its own; when it is left, all have ended."""

    def __init__(self, on_line: Callable[[int, str], object] | None, grace: float) -> None:
        self.on_line, self.grace = on_line, grace  # seconds between SIGTERM and SIGKILL
        self.outputs: list[list[str]] = []  # lines of each rank
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
        """Wait until all have succeeded, or one has failed, or ``until`` (of ``time.monotonic``). Returns the rank that
        failed."""
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


def _environment(rank: int, world: int, port: int, job: str) -> dict[str, str]:
    env = dict(os.environ)
    if world > 1:
        env.setdefault("OMP_NUM_THREADS", "1")
    if sys.platform == "linux":
        # Without it gloo looks up the address of this machine's name, which many a laptop lacks, or has a stale one.
        env.setdefault("GLOO_SOCKET_IFNAME", "lo")
    variables = {
        "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "GROUP_RANK": 0,
        "GROUP_WORLD_SIZE": 1, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": job,
        "PYTHONUNBUFFERED": 1,
    }  # fmt: skip
    env.pop("TORCHELASTIC_USE_AGENT_STORE", None)  # of a torchrun around us: here rank 0 has the store itself
    return env | {name: str(value) for name, value in variables.items()}


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
