"""Contestants of JAX, each in a process of its own, which take turns with those of this process."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from snnkit.lab.bench.suite import DoesNotRun, Row, option
from snnkit.measure import Clock

WORKER = Path(__file__).with_name("jax_worker.py")


def jax_option() -> Any:
    """``--jax``."""
    return option("A Python that has JAX and its libraries.", ".peers/bin/python")


@dataclass(frozen=True)
class Remote:
    """A contestant in another process, for a ``RemoteClock``."""

    name: str
    process: subprocess.Popen[str]
    folder: Path

    def __call__(self, calls: int = 1) -> float:
        """Seconds of one call, as the process measured it. Raises OSError if it has ended."""
        return float(self._answer(calls))

    def again(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The results with another x of the same shape, which it has from now on."""
        np.save(self.folder / "x.npy", x.cpu().numpy())
        self._answer("again")
        return self.results(x.device)

    def results(self, device: torch.device) -> tuple[Tensor, Tensor | None]:
        """Of the last call: out, and in training the gradients wanted, flat."""
        files = (self.folder / "out.npy", self.folder / "gradient.npy")
        out, gradient = (torch.from_numpy(np.load(file)).to(device) if file.exists() else None for file in files)
        return out, gradient  # type: ignore[return-value]

    def _answer(self, line: object) -> str:
        print(line, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()  # type: ignore[union-attr]
        if not answer:
            raise OSError(f"the process of {self.name} ended while it was timed")
        return answer


class RemoteClock:
    """A clock that reads the ``Remote``'s clock, so that messages do not count."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.name = clock, clock.name

    def seconds(self, function: Callable[[], object], calls: int = 1) -> tuple[float, float]:
        if not isinstance(function, Remote):
            return self.clock.seconds(function, calls)
        seconds = function(calls)
        return seconds, seconds


def start(
    name: str,
    python: str,
    job: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    device: torch.device,
    ending: contextlib.ExitStack,
) -> tuple[Remote, Row]:
    """A process of ``jax_worker.py`` with this job, after its first call, until ``ending`` ends; and what it said of
    that call. Raises ``DoesNotRun`` if there is no such Python, or the process ends or runs on another kind of device.
    """
    if shutil.which(python) is None:
        raise DoesNotRun(f"there is no {python} (`make peers` makes it)")
    folder = Path(ending.enter_context(tempfile.TemporaryDirectory()))
    (folder / "job.json").write_text(json.dumps(job), encoding="utf-8")
    for key, tensor in tensors.items():
        np.save(folder / f"{key}.npy", tensor.detach().cpu().numpy())
    process = _process(python, folder)
    ending.callback(process.communicate)
    ending.callback(process.kill)  # first
    try:
        answer = json.loads(process.stdout.readline())  # type: ignore[union-attr]
    except ValueError:
        lines = (folder / "errors.txt").read_text(encoding="utf-8", errors="replace").splitlines()
        raise DoesNotRun(lines[-1][:200] if lines else "its process ended") from None
    if answer["backend"] not in (device.type, {"cuda": "gpu"}.get(device.type)):
        raise DoesNotRun(f"its JAX runs on {answer['backend']!r}")
    return Remote(name, process, folder), {key: answer[key] for key in ("first_s", "peak_bytes")}


def _process(python: str, folder: Path) -> subprocess.Popen[str]:
    """A worker on as many cores as this process has threads."""
    threads = torch.get_num_threads()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # its own packages
    environment["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}"
    command = [python, str(WORKER), str(folder)]
    with (folder / "errors.txt").open("wb") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment
        )
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(process.pid, sorted(os.sched_getaffinity(0))[:threads])
    return process
