"""Small notebooks and manifests for the tests of sweeps, and a sweep without kernels."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat

from snnkit.lab.sweep.recorded_values import MIME, pack
from snnkit.lab.tools import runner

PARAMETERS = "A: int = 1\nRATE: float = 0.5\nSEED: int = 0\nNAME: str = 'x'\nFAST: bool = True\nMANY: int | None = None"
BODY = "from snnkit.lab import sweep\n\nsweep.record(score=A * RATE + SEED / 100, cost=float(A * A))"


def notebook(path: Path, body: str = BODY, parameters: str = PARAMETERS) -> Path:
    """A notebook of two cells, written to `path`."""
    cells = [nbformat.v4.new_code_cell(text, id=name) for name, text in (("first", parameters), ("second", body))]
    cells[0].metadata["tags"] = ["parameters"]
    made = nbformat.v4.new_notebook(cells=cells)
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(made, path)
    return path


def asked(folder: Path, **keys) -> dict:
    """A manifest of four runs, with `keys` in place of its own; a key that is None is left out."""
    if not (folder / "tiny.ipynb").exists():
        notebook(folder / "tiny.ipynb")
    own = {"notebook": str(folder / "tiny.ipynb"), "out": str(folder / "out"), "workers": 2}
    own["parameters"] = {"A": [1, 2], "RATE": [0.5, 1.0]}
    return {key: value for key, value in {**own, **keys}.items() if value is not None}


class Fake:
    """In place of kernels: each run takes `seconds`; fails where A is 13. `log`: a file of ids begun."""

    def __init__(self, seconds: float = 0.0, log: Path | None = None) -> None:
        self.seconds, self.log = seconds, log
        self.begun: list[str] = []
        self.metrics: dict[str, Any] = {}

    def execute(self, job: runner.Job, listen: Callable[[dict], None]) -> runner.Result:
        self.begun.append(job.name)
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write(f"{job.name}\n")
        time.sleep(self.seconds)
        if job.parameters.get("A") == 13:
            error = "ValueError: unlucky"
            return runner.Result(job.name, "failed", self.seconds, 1.0, 1, error, "the cell", "Traceback: unlucky")
        values = pack({"score": job.parameters.get("A", 0) / 8, **self.metrics})
        listen({"msg_type": "display_data", "content": {"data": {MIME: {"values": values}}}})
        return runner.Result(job.name, "ok", self.seconds, 1.0)

    def stop(self) -> None:
        """Nothing is left behind."""


def without_kernels(fake: Fake) -> Any:
    """What takes the place of ``snnkit.lab.tools.runner.Kernels``."""
    return lambda *_, **__: fake
