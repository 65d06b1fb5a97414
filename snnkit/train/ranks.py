"""Processes that belong together: their lines as they come, the first that fails, and none left at the end."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

_GUARD = Path(__file__).with_name("guard.py")
_LOOK = 0.2  # seconds between looks at processes that print nothing
_OTHERS = 3.0  # seconds in which a rank that has failed should have ended after those that saw it fail
_DRAIN = 1.0  # seconds to wait for the rest of the output, where a child of a rank holds its pipe open


class Ranks:
    """A context of processes, each the leader of a process group of its own. When it is left, all of them have ended.

    Args:
        on_line: called with (rank, line) for each line of output, in the thread that waits.
        grace: seconds between SIGTERM and SIGKILL.

    Attributes:
        outputs: lines of each rank.
        codes: exit code of each rank, None while it runs.
    """

    def __init__(self, on_line: Callable[[int, str], object] | None, grace: float) -> None:
        self.on_line, self.grace = on_line, grace
        self.outputs: list[list[str]] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        self._rest: list[bytes] = []  # of each rank: what came after the last end of a line
        self._selector = selectors.DefaultSelector()
        self._told: set[int] = set()  # groups of which the guard knows that they have ended

    def __enter__(self) -> Ranks:
        self._guard = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_GUARD), str(self.grace)], stdin=subprocess.PIPE, start_new_session=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._end()
        finally:
            for process in self._processes:
                # Its children, too: the group lives on where one of them ignored SIGTERM.
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self._read_rest()
            self._selector.close()
            for process in self._processes:
                self._tell_ended(process.pid)
                assert process.stdout is not None
                process.stdout.close()
            assert self._guard.stdin is not None
            with contextlib.suppress(OSError):
                self._guard.stdin.close()
            try:
                self._guard.wait(_DRAIN)
            except subprocess.TimeoutExpired:  # a process that was forked meanwhile holds its pipe open
                self._guard.kill()
                self._guard.wait()

    @property
    def codes(self) -> list[int | None]:
        return [process.poll() for process in self._processes]

    @property
    def running(self) -> bool:
        return None in self.codes

    def start(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Start the next rank."""
        process = subprocess.Popen(
            command,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        rank = len(self._processes)
        self._processes.append(process)
        self.outputs.append([])
        self._rest.append(b"")
        self._tell(process.pid)
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        self._selector.register(process.stdout, selectors.EVENT_READ, rank)

    def wait(self, until: float | None, bystander: int) -> int | None:
        """Until all have ended well, or one hasn't, whose rank is returned, or ``until`` (of ``time.monotonic``).

        Where several have failed by the time that it is seen, it is the one whose exit code isn't ``bystander``.
        """
        while True:
            left = _LOOK if until is None else min(_LOOK, until - time.monotonic())
            if left <= 0:
                return None
            self._read(left)
            codes = self.codes
            failed = [rank for rank, code in enumerate(codes) if code]
            if failed:
                # A rank may end as it loses another, which is about to end itself: some time to see who was first.
                enough = time.monotonic() + _OTHERS
                while all(codes[rank] == bystander for rank in failed) and None in codes and time.monotonic() < enough:
                    self._read(_LOOK)
                    codes = self.codes
                    failed = [rank for rank, code in enumerate(codes) if code]
                return min(failed, key=lambda rank: (codes[rank] == bystander, (codes[rank] or 0) > 0, rank))
            if None not in codes:
                return None

    def _end(self) -> None:
        """SIGTERM to those that run, and SIGKILL to what is left of them after a while."""
        for process in self._processes:
            if process.poll() is None:
                with contextlib.suppress(OSError):
                    os.killpg(process.pid, signal.SIGTERM)
        until = time.monotonic() + self.grace
        while self.running and time.monotonic() < until:
            self._read(0.05)

    def _read(self, seconds: float) -> None:
        """Take what the ranks print within so many seconds, or wait so long."""
        if not self._selector.get_map():
            time.sleep(min(seconds, 0.02))  # all pipes are closed, so the processes are about to end
            return
        for key, _ in self._selector.select(seconds):
            rank = key.data
            try:
                data = os.read(key.fd, 1 << 16)
            except BlockingIOError:
                continue
            *lines, self._rest[rank] = (self._rest[rank] + data).split(b"\n")
            if not data:
                self._selector.unregister(key.fileobj)
                lines, self._rest[rank] = ([self._rest[rank]] if self._rest[rank] else []), b""
            for line in lines:
                self._note(rank, line)

    def _read_rest(self) -> None:
        until = time.monotonic() + _DRAIN
        while self._selector.get_map() and time.monotonic() < until:
            self._read(_LOOK)
        for rank, rest in enumerate(self._rest):
            if rest:
                self._note(rank, rest)

    def _note(self, rank: int, data: bytes) -> None:
        line = data.decode(errors="replace").rstrip("\r").rpartition("\r")[2]  # of a progress bar only the last state
        self.outputs[rank].append(line)
        if self.on_line is not None:
            self.on_line(rank, line)

    def _tell_ended(self, group: int) -> None:
        if group not in self._told:
            self._told.add(group)
            self._tell(-group)

    def _tell(self, number: int) -> None:
        assert self._guard.stdin is not None
        with contextlib.suppress(OSError):  # somebody killed the guard: then we are the only one to see to it
            self._guard.stdin.write(f"{number}\n".encode())
            self._guard.stdin.flush()
