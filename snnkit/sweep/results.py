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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .manifest import SEED, Manifest, identity
from .recorded_values import RESERVED, pack, unpack

if TYPE_CHECKING:
    import polars

FORMAT = 1
SWEEP, PARQUET, CSV = "sweep.json", "results.parquet", "results.csv"
# What may not change in a folder, as its runs would not belong into one table; and how messages call it.
SAME = {
    "notebook": "the notebook",
    "code": "the code of the notebook",
    "mode": "the mode",
    "names": "which parameters vary",
    "fixed": "fixed",
    "law": "seed or ranges of the random sweep",
}
_ABANDONED = 600.0  # seconds after which a half-written file is of a process that was killed


class SweepError(ValueError):
    """The folder of results can't be used for this sweep: of another sweep, damaged, or not writable."""


@dataclass(frozen=True)
class RunResult:
    """A run that has ended, as its file has it.

    Attributes:
        run: its id.
        status: "ok" or "failed".
        metrics: what the notebook recorded; of a failed run, up to its end.
        peak_mb: largest resident memory of the kernel and its children, in MiB.
        cell: index of the cell that failed; None where none did (a time limit between cells, …).
        error: one line.
        source, traceback: of that cell.
    """

    run: str
    parameters: Mapping[str, Any]
    status: str
    metrics: Mapping[str, Any]
    seconds: float
    peak_mb: float
    started: str
    cell: int | None = None
    error: str | None = None
    source: str | None = None
    traceback: str | None = None

    def __str__(self) -> str:
        given = " ".join(f"{name}={value}" for name, value in self.parameters.items())
        where = "" if self.cell is None else f" in cell {self.cell}"
        return f"run {self.run} ({given}){where}: {self.error or self.status}"


class Folder:
    """Reads and writes the files of one sweep."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).expanduser()

    @contextlib.contextmanager
    def opened(self, manifest: Manifest) -> Iterator[None]:
        """Make the folder, or take it up again, for the block. An OSError there (a full disk) becomes a SweepError."""
        begun = False
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            others = sorted(path.name for path in self.path.iterdir() if not path.name.startswith("."))
            if others and not self.begun:
                raise SweepError(
                    f"the folder {self.path} holds something else ({', '.join(others[:3])}{', …' * (len(others) > 3)})"
                    ", and nothing is overwritten; take another one by --out"
                )
            with self._locked(self.path / ".lock"):
                self._begin(manifest)
            begun = True
            yield
        except OSError as error:
            what = "the sweep stopped, and can be continued from" if begun else "can't write to"
            raise SweepError(f"{what} the folder {self.path}: {error}") from None

    @property
    def begun(self) -> bool:
        """Whether a sweep has ever begun here."""
        return (self.path / SWEEP).is_file()

    def description(self) -> dict[str, Any]:
        """The content of sweep.json. Raises SweepError."""
        file = self.path / SWEEP
        if not self.begun:
            raise SweepError(f"{self.path} holds no results of a sweep (there is no {SWEEP} in it)")
        content = _read(file)
        if content.get("format") != FORMAT:
            raise SweepError(
                f"{file} must be of format {FORMAT}, but it has format {content.get('format')!r}; take another folder "
                "by --out, or read it with the snnkit that wrote it"
            )
        if not (isinstance(content.get("order"), list) and content.keys() >= {*SAME, "machine", "pareto"}):
            raise SweepError(f"{file} is damaged; with it gone, the runs stay readable in {self.path / 'runs'}")
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
        """Write the file of a run, in place of one of the same run that has failed before."""
        self._write(f"runs/{run.run}.json", {**asdict(run), "metrics": pack(run.metrics)})

    def write_table(self) -> polars.DataFrame:
        """Write both files of the table, and return it."""
        from snnkit.files import replacing

        with self._locked(self.path / ".lock"):  # else a table that was read earlier might be written later
            made = frame(self.results().values())
            with replacing(self.path / PARQUET) as file:
                made.write_parquet(file)
            with replacing(self.path / CSV) as file:
                made.write_csv(file)
        return made

    @contextlib.contextmanager
    def claimed(self, run: str) -> Iterator[bool]:
        """Hold the run of this id for the block; False where another process, or thread, does."""
        with self._locked(self.path / "runs" / f".{run}.lock", wait=False) as mine:
            yield mine

    @contextlib.contextmanager
    def _locked(self, path: Path, *, wait: bool = True) -> Iterator[bool]:
        """Hold a file. The system releases it with the open file, so that no lock is left after ``kill -9``."""
        try:
            import fcntl
        except ImportError:
            raise SweepError("sweeps need the file locks of POSIX: Linux, macOS, or WSL on Windows") from None
        with open(path, "a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
                return
            except OSError as error:
                raise SweepError(
                    f"the folder {self.path} can't be locked: {error.strerror}; take one on another disk"
                ) from None
            yield True
            if not wait and path.with_name(f"{path.name[1:-5]}.json").exists():
                path.unlink(missing_ok=True)  # one that opened it before sees that the run has ended

    def _begin(self, manifest: Manifest) -> None:
        description = _description(manifest)
        order = [run.id for run in manifest.runs]
        if self.begun:
            before = self.description()
            for key, what in SAME.items():
                was, now = before[key], description[key]
                if was != now:
                    values = "" if key == "code" else f" (it was {json.dumps(was)}, and is {json.dumps(now)})"
                    raise SweepError(
                        f"{what} has changed since the sweep in {self.path} began{values}, and runs of both do not "
                        "belong into one table; take another folder by --out, or go back to what it was"
                    )
            known = set(order)
            order += [run for run in before["order"] if run not in known]
            description["machine"] = before["machine"]
        else:
            description["machine"] = _machine()
        for part in self.path.rglob(".*.part"):
            with contextlib.suppress(FileNotFoundError):
                if time.time() - part.stat().st_mtime > _ABANDONED:
                    part.unlink()
        self._write(SWEEP, {"format": FORMAT, **description, "order": order})
        (self.path / "runs").mkdir(exist_ok=True)

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        from snnkit import files

        files.write_text(self.path / name, json.dumps(content, indent=1) + "\n")


def _description(manifest: Manifest) -> dict[str, Any]:
    """The manifest as JSON, so that a later one can be compared with it."""
    parameters = {name: values.plain() for name, values in manifest.parameters.items()}
    # A random sweep may grow in samples only: other ranges would draw other points for the same indices.
    law = {"seed": manifest.seed, "parameters": dict(sorted(parameters.items()))} if manifest.mode == "random" else None
    plain = {
        "notebook": manifest.notebook.name,
        "code": manifest.notebook.code,
        "mode": manifest.mode,
        "names": sorted({*parameters, *([SEED] if manifest.seeds else [])}),
        "fixed": dict(manifest.fixed),
        "law": law,
        "parameters": parameters,
        "seeds": list(manifest.seeds),
        "samples": manifest.samples,
        "pareto": manifest.pareto,
    }
    return json.loads(json.dumps(plain))


def _machine() -> dict[str, Any]:
    from datetime import datetime, timezone

    import snnkit
    from snnkit.measure import machine

    packages = ("torch", *machine.NOTEBOOK_PACKAGES)
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "snnkit": snnkit.__version__,
        "processor": machine.processor(),
        "cores": machine.cores(),
        "gpus": [gpu.name for gpu in machine.gpus()],
        "packages": {name: version for name in packages if (version := machine.version(name))},
    }


def _run(file: Path) -> RunResult:
    content = _read(file)
    try:
        run = RunResult(**{**content, "metrics": unpack(content["metrics"])})
        sound = (
            run.run == file.stem == identity(run.parameters)
            and run.status in ("ok", "failed")
            and all(isinstance(number, (int, float)) for number in (run.seconds, run.peak_mb))
            and all(isinstance(value, (bool, int, float, str)) for value in run.metrics.values())
            and not run.metrics.keys() & {*RESERVED, *run.parameters}
            and all(isinstance(text, (str, type(None))) for text in (run.error, run.source, run.traceback))
        )
    except (TypeError, KeyError, ValueError, AttributeError):
        sound = False
    if not sound:
        raise SweepError(f"{file} is damaged; delete it, and its run will be done again")
    return run


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SweepError(f"{file} can't be read: {error}; delete it, and what it held will be done again") from None
    if not isinstance(content, dict):
        raise SweepError(f"{file} is damaged; delete it, and what it held will be done again")
    return content


# --- tables ----------------------------------------------------------------------------------------------------------


def results(folder: str | os.PathLike[str]) -> polars.DataFrame:
    """The table of the runs that have ended in ``folder``, as ``run`` returns it; also while a sweep goes on there.

    Raises:
        SweepError: ``folder`` holds no sweep, or a damaged file.
    """
    return frame(Folder(folder).results().values())


def failures(folder: str | os.PathLike[str]) -> list[RunResult]:
    """The runs of ``folder`` that failed, with their tracebacks. Raises SweepError as ``results`` does."""
    return [run for run in Folder(folder).results().values() if run.status != "ok"]


def frame(runs: Iterable[RunResult]) -> polars.DataFrame:
    """Columns: run, status, parameters, metrics, seconds, peak_mb, error; null where a run has none of a name."""
    import polars

    every = list(runs)
    columns: dict[str, list[Any]] = {"run": [r.run for r in every], "status": [r.status for r in every]}
    for part in ([r.parameters for r in every], [r.metrics for r in every]):
        for name in dict.fromkeys(name for values in part for name in values):
            columns[name] = [values.get(name) for values in part]
    columns |= {name: [getattr(r, name) for r in every] for name in ("seconds", "peak_mb", "error")}
    text = ("run", "status", "error")
    return polars.DataFrame([_column(name, values, name in text) for name, values in columns.items()])


def _column(name: str, values: Sequence[Any], text: bool) -> polars.Series:
    """A column of the type that holds all of ``values``: text where they have nothing else in common."""
    import polars

    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if not text and kinds == {bool}:
        return polars.Series(name, values, polars.Boolean())
    if not text and kinds == {int} and all(-(2**63) <= value < 2**63 for value in present):
        return polars.Series(name, values, polars.Int64())
    if not text and kinds <= {int, float}:
        with contextlib.suppress(OverflowError):  # an int of more than 308 digits
            return polars.Series(name, [None if v is None else float(v) for v in values], polars.Float64())
    # Half of a pair of surrogates, as of a file name that is no text, can't be in a table.
    strings = [None if v is None else str(v).encode(errors="replace").decode() for v in values]
    return polars.Series(name, strings, polars.String())


def means(table: polars.DataFrame, by: str | Sequence[str] | None = None) -> polars.DataFrame:
    """One row for each configuration: mean and spread of what was recorded, over its seeds.

    Args:
        table: of ``results``; runs that failed are left out.
        by: names of columns; None: all parameters (the columns in upper case) but SEED.

    Returns:
        ``by``, runs (how many), and for each column of numbers NAME (its mean) and NAME_std (the standard deviation of
        one run, with runs - 1 in the denominator; null for a single run). In the order of the table.

    Raises:
        ValueError: ``by`` names a column that isn't there.
    """
    import polars

    parameters = [name for name in table.columns if name.isupper()]
    names = [n for n in parameters if n != SEED] if by is None else [by] if isinstance(by, str) else list(by)
    if wrong := [name for name in names if name not in table.columns]:
        raise ValueError(f"by must name columns of the table ({', '.join(table.columns)}), but it has {wrong[0]!r}")
    skip = {*names, *parameters, *RESERVED} - {"seconds", "peak_mb"}
    wanted = [polars.len().alias("runs")]
    for name in table.columns:
        if name not in skip and (table[name].dtype.is_numeric() or table[name].dtype == polars.Boolean):
            value = polars.col(name).cast(polars.Float64)
            wanted += [value.mean(), value.std().alias(f"{name}_std")]
    good = _without_failures(table)
    return good.group_by(names, maintain_order=True).agg(wanted) if names else good.select(wanted)


def front(
    table: polars.DataFrame, *, maximise: str | Sequence[str] = (), minimise: str | Sequence[str] = ()
) -> polars.DataFrame:
    """The Pareto front: the rows that no other row beats, being at least as good in both columns and better in one.

    Args:
        table: of ``results`` or ``means``; rows that failed, or have no number there, are left out.
        maximise, minimise: names of columns, two in all.

    Returns:
        These rows, in ascending order of the first column that ``minimise`` names (else of the first of ``maximise``).

    Raises:
        ValueError, TypeError: the names are not two different columns of numbers.
    """
    import numpy as np
    import polars

    from snnkit.viz.figures.fronts import objectives, undominated  # brings plotly

    good = _without_failures(table)
    _, values, signs = objectives(good.to_dict(as_series=False), maximise, minimise)
    finite = np.isfinite(values).all(axis=1)
    return good.filter(polars.Series(finite, dtype=polars.Boolean))[undominated((values * signs)[finite])]


def _without_failures(table: polars.DataFrame) -> polars.DataFrame:
    import polars

    return table.filter(polars.col("status") == "ok") if "status" in table.columns else table
