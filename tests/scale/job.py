"""Real processes for the tests of this folder: started with a mark, found by it, and never left behind.

Run as a program it is the launcher of a job: ``python job.py RANKS worker.py ARGUMENT``.
"""

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
WORKER = Path(__file__).with_name("worker.py")
MARK = "SNNKIT_TEST_JOB"
LIMIT = 240.0  # seconds, for anything: the machine may have a lot to do


class Job:
    """A program and all that it starts; its output goes to a file. When the context is left, none of it runs."""

    def __init__(self, command, folder, env=None):
        self.mark = secrets.token_hex(8)
        self.log = Path(folder) / f"{self.mark}.log"
        known = {k: value for k, value in os.environ.items() if not k.startswith(("SLURM", "MASTER", "TORCHEL"))}
        own = {**known, MARK: self.mark, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **(env or {})}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [str(word) for word in command], env=own, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip

    def __enter__(self):
        return self

    def __exit__(self, *_):
        until = time.monotonic() + LIMIT
        while (left := self.alive()) and time.monotonic() < until:
            for pid in left:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.05)
        self.process.wait()

    @property
    def output(self):
        return self.log.read_text(errors="replace")

    def alive(self):
        """Process ids of all that bear the mark, zombies aside."""
        wanted = f"{MARK}={self.mark}".encode()
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                with contextlib.suppress(OSError):
                    if wanted in (folder / "environ").read_bytes().split(b"\0"):
                        found.append(int(folder.name))
        return found

    def ranks(self):
        """Process ids of those that have a rank, by rank."""
        found = {}
        for pid in self.alive():
            with contextlib.suppress(OSError):
                for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
                    if entry.startswith(b"RANK="):
                        found[int(entry[5:])] = pid
        return found

    def wait(self, seconds=LIMIT):
        """The exit code, when all that bears the mark has ended; AssertionError where that takes longer."""
        until = time.monotonic() + seconds
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        while (left := self.alive()) and time.monotonic() < until:
            time.sleep(0.05)
        assert not left, f"processes {left} still run after {seconds:g} s:\n{self.output}"
        return self.process.wait()


def launched(ranks, argument, folder, env=None):
    """A job of so many ranks of worker.py, with a launcher that can be killed."""
    return Job([sys.executable, __file__, ranks, WORKER, argument], folder, env)


def until(condition, job=None, seconds=LIMIT):
    """Wait for a condition; AssertionError, with the job's output, where it does not come, or the job ends before."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"still not so after {seconds:g} s:\n{job.output if job else ''}"
        assert job is None or job.process.poll() is None, f"it ended:\n{job.output}"
        time.sleep(0.02)


if __name__ == "__main__":
    from snnkit.train import LaunchError, launch

    number, *words = sys.argv[1:]
    try:
        launch([sys.executable, *words], int(number), on_line=lambda rank, line: print(f"[{rank}] {line}", flush=True))
    except LaunchError as error:
        sys.exit(f"LaunchError: {error}")
