"""The folder of a sweep, one file for each run that has ended, and the tables made from them.

```
sweep.json          the manifest, on which machine it began, and the order of the runs
runs/ID.json        a run that has ended; ID depends on its parameters alone, so none can be there twice
notebooks/ID.ipynb  its executed notebook
results.parquet     all runs as a table (also results.csv), written again from runs/ after each
```

Every file is written whole or not at all, so that a sweep may be killed at any moment. Several processes, also of
several machines, may work on one folder: each run is claimed by a lock that the system releases when its process ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snnkit import checks, files
from snnkit.lab.sweep.manifest import Manifest, identity
from snnkit.lab.sweep.recorded_values import RESERVED, pack, unpack

if TYPE_CHECKING:
    import polars

FORMAT = 1
LARGEST = 1 << 26  # bytes of a file of results
SWEEP, PARQUET, CSV = "sweep.json", "results.parquet", "results.csv"
# What may not change in a folder, as its runs would not belong into one table.
SAME = ("notebook", "code", "names", "fixed")


class SweepError(ValueError):
    """The folder of results can't be used for this sweep: of another sweep, damaged, or not writable."""


@dataclass(frozen=True)
class RunResult:
    """A run that has ended, as its file has it."""

    run: str  #: its id
    parameters: Mapping[str, Any]
    status: str  #: "ok" or "failed"
    metrics: Mapping[str, Any]  #: what the notebook recorded; of a failed run, up to its end
    seconds: float
    peak_mb: float  #: largest resident memory of the kernel and its children, in 10⁶ bytes
    cell: int | None = None  #: index of the cell that failed; None where none did (a time limit between cells, …)
    error: str | None = None  #: one line
    traceback: str | None = None

    def __str__(self) -> str:
        given = " ".join(f"{name}={value}" for name, value in self.parameters.items())
        where = "" if self.cell is None else f" in cell {self.cell}"
        return f"run {self.run} ({given}){where}: {self.error or self.status}"


class Folder:
    """Reads and writes the files of one sweep."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = files.expanded(path)

    @contextlib.contextmanager
    def opened(self, manifest: Manifest) -> Iterator[None]:
        """Make the folder, or take it up again, for the block. An OSError there (a full disk) becomes a SweepError."""
        if not files.HAS_LOCKS:
            raise SweepError("sweeps need the file locks of POSIX: Linux, macOS, or WSL on Windows")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with files.locked(self.path / ".lock"):
                self._begin(manifest)
            yield
        except OSError as error:
            raise SweepError(f"the sweep in the folder {self.path} stopped, and can be continued: {error}") from None

    def description(self) -> dict[str, Any]:
        """The content of sweep.json. Raises SweepError."""
        file = self.path / SWEEP
        if not file.is_file():
            raise SweepError(f"{self.path} holds no results of a sweep (there is no {SWEEP} in it)")
        content = _read(file)
        if content.get("format") != FORMAT:
            raise SweepError(
                f"the format of {file} must be {FORMAT}, but it is {checks.shown(content.get('format'))}; take another "
                "folder by --out, or read it with the snnkit that wrote it"
            )
        if not content.keys() >= {*SAME, "order", "machine", "pareto"}:
            raise SweepError(f"{file} is damaged; without it, the runs stay readable in {self.path / 'runs'}")
        return content

    def results(self) -> dict[str, RunResult]:
        """The runs that have ended by their ids, in the order of the manifest. Raises SweepError."""
        order = {run: place for place, run in enumerate(self.description()["order"])}
        ended = {file.stem: _run(file) for file in (self.path / "runs").glob("*.json")}
        return dict(sorted(ended.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))

    def result(self, run: str) -> RunResult | None:
        """The run of this id, if it has ended."""
        file = self.path / "runs" / f"{run}.json"
        return _run(file) if file.exists() else None

    def write(self, run: RunResult) -> None:
        """Write the file of a run, instead of one of the same run that has failed before."""
        self._write(f"runs/{run.run}.json", {**asdict(run), "metrics": pack(run.metrics)})

    def write_table(self) -> polars.DataFrame:
        """Write both files of the table, and return it."""
        with files.locked(self.path / ".lock"):  # else a table that was read earlier might be written later
            made = frame(self.results().values())
            with files.replacing(self.path / PARQUET) as file:
                made.write_parquet(file)
            with files.replacing(self.path / CSV) as file:
                made.write_csv(file)
        return made

    @contextlib.contextmanager
    def claimed(self, run: str) -> Iterator[bool]:
        """Hold the run of this id for the block; False where another process, or thread, does."""
        lock = self.path / "runs" / f".{run}.lock"
        with files.locked(lock, wait=False) as mine:
            yield mine
            if mine and self.result(run):
                lock.unlink(missing_ok=True)  # one that opened it before sees that the run has ended

    def _begin(self, manifest: Manifest) -> None:
        description = _description(manifest)
        order = [run.id for run in manifest.runs]
        if (self.path / SWEEP).is_file():
            before = self.description()
            for key in SAME:
                if before[key] != description[key]:
                    raise SweepError(
                        f"{key} must be {json.dumps(before[key])}, as when the sweep in {self.path} began, but it is "
                        f"{json.dumps(description[key])}: such runs do not belong into one table; take another folder "
                        "by --out, or go back to what it was"
                    )
            order += sorted(set(before["order"]) - set(order), key=before["order"].index)
            description["machine"] = before["machine"]
        elif others := sorted(path.name for path in self.path.iterdir() if not path.name.startswith(".")):
            raise SweepError(
                f"the folder {self.path} holds something else ({', '.join(others[:3])}), and nothing is overwritten; "
                "take another one by --out"
            )
        self._write(SWEEP, {"format": FORMAT, **description, "order": order})
        (self.path / "runs").mkdir(exist_ok=True)

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        files.write_text(self.path / name, json.dumps(content, indent=1) + "\n")


def _description(manifest: Manifest) -> dict[str, Any]:
    """The manifest as JSON, so that a later one can be compared with it."""
    from snnkit.measure import machine

    plain = {
        "notebook": manifest.notebook.path.stem,
        "code": manifest.notebook.code,
        "mode": manifest.mode,
        "names": sorted({*manifest.parameters, *(["SEED"] if manifest.seeds else [])}),
        "fixed": dict(manifest.fixed),
        "parameters": dict(manifest.parameters),
        "seeds": manifest.seeds,
        "samples": manifest.samples,
        "pareto": manifest.pareto,
        "machine": {"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), **machine.describe()},
    }
    return json.loads(json.dumps(plain))


def _run(file: Path) -> RunResult:
    content = _read(file)
    try:
        values = {field.name: content[field.name] for field in fields(RunResult)}
        run = RunResult(**{**values, "metrics": unpack(values["metrics"])})
        if run.run != file.stem or run.run != identity(run.parameters) or run.status not in ("ok", "failed"):
            raise ValueError
    except (TypeError, KeyError, ValueError, AttributeError):
        raise SweepError(f"{file} is damaged; delete it, and its run will be done again") from None
    return run


def _read(file: Path) -> dict[str, Any]:
    try:
        content = files.small_json(file, LARGEST)
        if not isinstance(content, dict):
            raise ValueError("it is no object")
    except (OSError, ValueError, RecursionError) as error:
        raise SweepError(f"{file} can't be read: {error}; delete it, and what it held will be done again") from None
    return content


# --- tables ----------------------------------------------------------------------------------------------------------


@checks.arguments
def results(folder: str | os.PathLike[str]) -> polars.DataFrame:
    """The table of the runs that have ended in ``folder``, as ``run`` returns it; also while a sweep goes on there."""
    return frame(Folder(folder).results().values())


@checks.arguments
def failures(folder: str | os.PathLike[str]) -> list[RunResult]:
    """The runs of ``folder`` that failed, with their tracebacks. Raises SweepError as ``results`` does."""
    return [run for run in Folder(folder).results().values() if run.status != "ok"]


def frame(runs: Iterable[RunResult]) -> polars.DataFrame:
    """Columns: run, status, parameters, metrics, seconds, peak_mb, error; null where a run has none of a name."""
    import polars

    every = list(runs)
    rows = [{**run.parameters, **run.metrics, **{name: getattr(run, name) for name in RESERVED}} for run in every]
    named = dict.fromkeys(name for part in ("parameters", "metrics") for run in every for name in getattr(run, part))
    columns = ("run", "status", *named, "seconds", "peak_mb", "error")
    # Not strict: text where the values of a column have no other type in common.
    table = polars.DataFrame([polars.Series(one, [row.get(one) for row in rows], strict=False) for one in columns])
    return table.with_columns(polars.col(polars.Null).cast(polars.String))
