"""Everything that needs a GPU, in one command: tests, `snnkit bench record` and `sparsity`, an accuracy, notebooks.

    make gpu                # or: python -m tests.gpu --out build/gpu

Takes the Python it is called with, whose PyTorch must fit the driver; pytest, hypothesis and pytest-xdist have to be
there, the peers (`make peers`) for a comparison with them, and MNIST in `SNNKIT_DATA` for an accuracy. While the tests
run, other processes compile kernels for the benchmarks (`tests/gpu/warm.py`).

The parts end by fixed times, so that the whole stays under nine minutes; a part that ends early leaves its time to the
next. What a part says and measures is on disk before it ends. If there is no record, as engines differ from the eager
one, other benchmarks take its time, each of which leaves out what differs.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import torch

from snnkit import data
from snnkit.measure import cores

ROOT = Path(__file__).parents[2]
SNNKIT = [sys.executable, "-c", "from snnkit.lab.cli import main; main()"]
# Another file with tests for GPUs; the rest of its folder would want packages that such a machine may lack.
ALSO = "tests/unit/test_measure.py"
# Those about hardware that use a GPU where there is one.
NOTEBOOKS = ("11", "12", "13", "16", "10", "15")
# A process with a CUDA context and Inductor takes a core, and memory of the GPU.
WORKERS, WARMING = 10, 5
_GPU_BYTES = 2**30
# A part is asked to end before it is killed: pytest then says what has failed so far.
GRACE = 8


class Part(NamedTuple):
    """A command, and the seconds that it may take beside what earlier parts have left."""

    name: str
    command: list[str]
    seconds: float


def parts(out: Path) -> list[Part]:
    """The most wanted first."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "-m", "gpu", "--durations=20"]
    pytest += ["-n", str(workers()[0]), "--dist", "worksteal", "-o", "faulthandler_timeout=60", "tests/gpu", ALSO]
    few = ["--density", "0.01", "--density", "0.05", "--density", "0.2", "--repeats", "7"]
    train = [*SNNKIT, "train", "mnist", "--device", "cuda", "--no-progress", "--out", str(out / "mnist_conv.json")]
    return [
        Part("tests", pytest, 135),
        Part("record", [*SNNKIT, "bench", "record", "--minutes", "3", "--out", str(out / "record.json")], 215),
        Part("sparsity", _bench("sparsity", out, "sparsity", "--part", "products", *few), 40),
        Part("sparsity_steps", _bench("sparsity", out, "sparsity_steps", "--part", "steps", "--repeats", "5"), 45),
        *([Part("accuracy", train, 45)] if data.available("mnist") else []),
        *notebooks(out),
    ]


def instead(out: Path) -> list[Part]:
    """What takes the time of a record that can't be."""
    return [
        Part(
            "neurons", _bench("neurons", out, "neurons", "--neurons", "1048576", "--steps", "32", "--repeats", "5"), 70
        ),
        Part("training", _bench("training", out, "training", "--no-compile", "--repeats", "5"), 65),
        Part("frameworks", _bench("frameworks", out, "frameworks", "--features", "4096", "--repeats", "3"), 65),
    ]


def _bench(suite: str, out: Path, name: str, *words: str) -> list[str]:
    return [*SNNKIT, "bench", suite, "--device", "cuda", *words, "--out", str(out / f"{name}.json")]


def notebooks(out: Path) -> list[Part]:
    """Where what they need is installed."""
    if any(importlib.util.find_spec(name) is None for name in ("papermill", "plotly", "ipykernel")):
        return []
    jobs = str(min(len(NOTEBOOKS), max(1, cores() // 2)))
    return [Part("notebooks", [*SNNKIT, "run", *NOTEBOOKS, "--solve", "--jobs", jobs, "--out", str(out / "nb")], 52)]


def workers() -> tuple[int, int]:
    """Processes for the tests, and beside them for compiling."""
    memory = torch.cuda.get_device_properties(0).total_memory // _GPU_BYTES if torch.cuda.is_available() else 4
    tests = max(1, min(WORKERS, cores() * 5 // 8, memory - 1))
    return tests, max(0, min(WARMING, cores() - tests, memory - tests))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make gpu", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu", help="folder for records and logs")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device here: nothing was tested or measured")
        return 0
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    return run(parts(out), out)


def run(todo: list[Part], out: Path) -> int:
    """All parts; 1 if the tests were not passed."""
    for old in ("record.json", "failures.txt"):
        (out / old).unlink(missing_ok=True)
    ended: list[str] = []
    with contextlib.ExitStack() as ending:
        warming = [ending.enter_context(_warming(i, out)) for i in range(workers()[1])]
        at = time.monotonic()
        while todo:
            part, *todo = todo
            at += part.seconds
            began = time.monotonic()
            verdict = _limited(part, out, at - began)
            ended.append(f"{part.name}: {verdict} after {time.monotonic() - began:.0f} s")
            print((out / f"{part.name}.log").read_text(errors="replace"))
            print(f"== {ended[-1]}\n", flush=True)
            if part.name == "tests":
                for process in warming:  # what is not compiled now would be later, by one process
                    _wait(process, at - time.monotonic())
                ending.close()  # else what is timed would not be alone
            if part.name == "record" and not (out / "record.json").exists():
                at -= part.seconds
                todo = [*instead(out), *todo]
    print("\n".join([*ended, f"records and logs: {out}"]))
    return int("tests: ok" not in " ".join(ended))


def _warming(place: int, out: Path) -> contextlib.AbstractContextManager[subprocess.Popen]:
    command = [sys.executable, "-m", "tests.gpu.warm", str(place), str(workers()[1])]
    return _running(command, out / f"warm{place}.log", TORCHINDUCTOR_COMPILE_THREADS="1")


def environment(**more: str) -> dict[str, str]:
    """What is compiled in one part is there for the next."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton", "SNNKIT_KERNELS": "kernels"}
    found = {name: str(ROOT / ".cache" / folder) for name, folder in caches.items()}
    return {**found, **os.environ, "PYTHONUNBUFFERED": "1", **more}


def _limited(part: Part, out: Path, seconds: float) -> str:
    """Run a part, with what it says in a log; "ok", "failed" or "stopped at its limit"."""
    more = {}
    if part.name == "tests":
        # There are workers enough without a pool of compilers for each. Failures are written when they happen.
        more = {"TORCHINDUCTOR_COMPILE_THREADS": "1", "SNNKIT_GPU_FAILURES": str(out / "failures.txt")}
    with _running(part.command, out / f"{part.name}.log", **more) as process:
        code = _wait(process, seconds)
        if code is not None:
            return "failed" if code else "ok"
        process.send_signal(signal.SIGINT)
        _wait(process, GRACE)
        return f"stopped at its limit of {seconds:.0f} s"


def _wait(process: subprocess.Popen, seconds: float) -> int | None:
    """Its exit status; None: it runs on."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(max(seconds, 0))
    return None


@contextlib.contextmanager
def _running(command: list[str], log: Path, **more: str) -> Iterator[subprocess.Popen]:
    """The process of a command, which is killed at the end with all that it has started: workers and compilers would
    take the GPU from the next part."""
    with log.open("w") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, env=environment(**more), start_new_session=True
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


if __name__ == "__main__":
    sys.exit(main())
