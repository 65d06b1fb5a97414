"""Small notebooks and manifests for the tests of sweeps, and a sweep without kernels."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import nbformat

from snnkit import sweep
from snnkit.sweep.manifest import Run

PARAMETERS = "A: int = 1\nRATE: float = 0.5\nSEED: int = 0\nNAME: str = 'x'\nFAST: bool = True\nMANY: int | None = None"
BODY = "from snnkit import sweep\n\nsweep.record(score=A * RATE + SEED / 100, cost=float(A * A))"


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
    own = {
        "notebook": str(folder / "tiny.ipynb"),
        "out": str(folder / "out"),
        "parameters": {"A": [1, 2], "RATE": [0.5, 1.0]},
        "workers": 2,
    }
    return {key: value for key, value in {**own, **keys}.items() if value is not None}


class Fake:
    """In place of kernels: each run takes `seconds`; fails where A is 13. `log`: a file of ids begun."""

    def __init__(self, seconds: float = 0.0, log: Path | None = None) -> None:
        self.seconds, self.log = seconds, log
        self.begun: list[str] = []

    def execute(self, run: Run) -> sweep.RunResult:
        self.begun.append(run.id)
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write(f"{run.id}\n")
        time.sleep(self.seconds)
        failed = run.parameters.get("A") == 13
        return sweep.RunResult(
            run=run.id,
            parameters=dict(run.parameters),
            status="failed" if failed else "ok",
            metrics={} if failed else {"score": run.parameters.get("A", 0) / 8},
            seconds=self.seconds,
            peak_mb=1.0,
            started="2026-01-01T00:00:00+00:00",
            error="ValueError: unlucky" if failed else None,
            traceback="Traceback: unlucky" if failed else None,
        )

    def stop(self) -> None:
        """Nothing is left behind."""


def without_kernels(fake: Fake) -> Any:
    """What takes the place of ``snnkit.sweep.execute.Kernels``."""
    return lambda *_: fake
