"""Everything that needs a GPU, in one command: tests, `snnkit bench record`, an accuracy, notebooks.

    make gpu                # or: python -m tests.gpu --out build/gpu

Takes the Python it is called with, whose PyTorch must fit the driver; pytest, hypothesis and pytest-xdist have to be
there, the peers (`make peers`) for a comparison with them, and MNIST in `SNNKIT_DATA` for an accuracy. Each part has a
time limit of its own, so that the whole stays under nine minutes, and what was measured before a limit is kept.
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
from pathlib import Path

import torch

from snnkit import data

ROOT = Path(__file__).parents[2]
SNNKIT = [sys.executable, "-c", "from snnkit.lab.cli import main; main()"]
# Another file with tests for GPUs; the rest of its folder would want packages that such a machine may lack.
ALSO = "tests/unit/test_measure.py"
NOTEBOOKS = ("05", "06", "07", "08", "09", "10")


def parts(out: Path) -> list[tuple[str, list[str], float]]:
    """(name, command, seconds it may take), the most wanted first."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "-m", "gpu", "-n", "8"]
    pytest += ["-o", "faulthandler_timeout=60", "tests/gpu", ALSO]
    record = [*SNNKIT, "bench", "record", "--minutes", "4", "--out", str(out / "record.json")]
    train = [*SNNKIT, "train", "mnist", "--device", "cuda", "--no-progress", "--out", str(out / "mnist_conv.json")]
    return [
        ("tests", pytest, 135),
        ("record", record, 305),
        *([("accuracy on MNIST", train, 45)] if data.available("mnist") else []),
        *notebooks(out),
    ]


def notebooks(out: Path) -> list[tuple[str, list[str], float]]:
    """Those about hardware, where what they need is installed."""
    if any(importlib.util.find_spec(name) is None for name in ("papermill", "plotly", "ipykernel")):
        return []
    return [
        ("notebooks", [*SNNKIT, "run", *NOTEBOOKS, "--solve", "--jobs", "3", "--out", str(out / "notebooks")], 44),
    ]


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
        log = out / f"{name.replace(', ', '_').replace(' ', '_')}.log"
        code = _limited(command, log, limit)
        print(log.read_text(errors="replace"))
        print(f"== {name}: {code} after {time.monotonic() - began:.0f} s\n", flush=True)
        if code != "ok":
            failed.append(name)
    print(f"records and logs: {out}" + (f"; not whole: {', '.join(failed)}" if failed else ""))
    return 1 if "tests" in failed else 0


def environment() -> dict[str, str]:
    """What is compiled in one part is there for the next."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": "inductor", "TRITON_CACHE_DIR": "triton", "SNNKIT_KERNELS": "kernels"}
    found = {name: str(ROOT / ".cache" / folder) for name, folder in caches.items()}
    return {**found, **os.environ, "PYTHONUNBUFFERED": "1"}


def _limited(command: list[str], log: Path, limit: float) -> str:
    """Run a part, with what it says in ``log``; "ok", "failed" or "stopped at its limit"."""
    with log.open("w") as file:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, env=environment(), start_new_session=True
        )
        try:
            return "failed" if process.wait(limit) else "ok"
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # pytest says what has failed so far
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(8)
            return f"stopped at its limit of {limit:.0f} s"
        finally:
            # Its workers and compilers, too: they would take the GPU from the next part.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
