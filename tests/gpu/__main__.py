"""Everything that needs a GPU, in one command: tests first, then benchmarks that write records.

    make gpu                # or: python -m tests.gpu --out build/gpu

Takes the Python it is called with, whose PyTorch must fit the driver; pytest, hypothesis and pytest-xdist have to be
there, the peers (`make peers`) for a comparison with them, and MNIST in `SNNKIT_DATA` for an accuracy. Each part has a
time limit of its own, so that the whole stays under eight minutes, and what was measured before a limit is kept.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import torch

from snnkit import data

ROOT = Path(__file__).parents[2]
SNNKIT = [sys.executable, "-c", "from snnkit.cli import main; main()"]
NEURONS = [*SNNKIT, "bench", "neurons", "--device", "cuda"]
LARGE = ["--neurons", str(2**20), "--steps", "32", "--steps", "128", "--steps", "8"]
SMALL = ["--neurons", "4096", "--neurons", "65536"]


def parts(out: Path) -> list[tuple[str, list[str], float]]:
    """(name, command, seconds it may take), the most wanted first."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "-m", "gpu", "-n", "4"]
    ours = [word for name in ("eager", "block", "triton") for word in ("--engines", name)]

    def record(name: str) -> list[str]:
        return ["--out", str(out / f"{name}.json")]

    train = [*SNNKIT, "train", "mnist", "--device", "cuda", "--no-progress", *record("mnist_conv")]
    compiled = [*NEURONS, *LARGE[:4], "--engines", "torch.compile", "--no-peers", *record("neurons_compiled")]
    return [
        ("tests", [*pytest, "tests/gpu", "tests/unit"], 140),
        ("neurons, large", [*NEURONS, *LARGE, *ours, *record("neurons_large")], 80),
        ("training", [*SNNKIT, "bench", "training", "--device", "cuda", *record("training")], 90),
        *([("accuracy on MNIST", train, 50)] if data.available("mnist") else []),
        ("neurons, small", [*NEURONS, *SMALL, *ours, *record("neurons_small")], 35),
        ("demo", [*SNNKIT, "bench", "demo", *record("demo")], 25),
        ("neurons, torch.compile", compiled, 14),
        *notebooks(out),
    ]


def notebooks(out: Path) -> list[tuple[str, list[str], float]]:
    """Those about hardware, where what they need is installed."""
    if any(importlib.util.find_spec(name) is None for name in ("papermill", "plotly", "ipykernel")):
        return []
    return [("notebooks", [*SNNKIT, "run", "05", "06", "07", "08", "--solve", "--out", str(out / "notebooks")], 45)]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make gpu", description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu", help="folder for records and logs")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device here: nothing was tested or measured")
        return 0
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    failed = []
    for name, command, limit in parts(out):
        began = time.monotonic()
        with open(out / f"{name.replace(', ', '_').replace(' ', '_')}.log", "w") as log:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
            code = _follow(process, log, limit)
        print(f"== {name}: {code} after {time.monotonic() - began:.0f} s\n", flush=True)
        if code != "ok":
            failed.append(name)
    print(f"records and logs: {out}" + (f"; not whole: {', '.join(failed)}" if failed else ""))
    return 1 if "tests" in failed else 0


def _follow(process: subprocess.Popen, log, limit: float) -> str:
    """Print and keep what it says; "ok", "failed" or "stopped at its limit"."""
    import threading

    def stop() -> None:
        process.kill()
        stopped.set()

    stopped = threading.Event()
    timer = threading.Timer(limit, stop)
    timer.start()
    try:
        for line in process.stdout or ():
            log.write(line)
            print(line, end="", flush=True)
        process.wait()
    finally:
        timer.cancel()
    if stopped.is_set():
        return f"stopped at its limit of {limit:.0f} s"
    return "ok" if process.returncode == 0 else "failed"


if __name__ == "__main__":
    sys.exit(main())
