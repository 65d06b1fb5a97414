"""The runs of a folder as a table: made from their files, written as Parquet and CSV."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .folder import Ended, Folder

if TYPE_CHECKING:
    import polars

PARQUET, CSV = "results.parquet", "results.csv"


@dataclass(frozen=True)
class Failure:
    """A run that failed.

    Attributes:
        cell: index of the cell that failed, None where none did (a time limit between cells, …).
        error: one line.
        source, traceback: of that cell.
    """

    run: str
    parameters: Mapping[str, Any]
    cell: int | None
    error: str
    source: str | None
    traceback: str | None

    def __str__(self) -> str:
        given = " ".join(f"{name}={value}" for name, value in self.parameters.items())
        where = "" if self.cell is None else f" in cell {self.cell}"
        return f"run {self.run} ({given}){where}: {self.error}"


def results(folder: str | os.PathLike[str]) -> polars.DataFrame:
    """The table of the runs that have ended in ``folder``, as ``run`` returns it; also while a sweep goes on there.

    Raises:
        SweepError: ``folder`` holds no sweep, or a damaged file.
    """
    return frame(Folder(Path(folder).expanduser()).ended().values())


def failures(folder: str | os.PathLike[str]) -> list[Failure]:
    """The runs of ``folder`` that failed, with their tracebacks. Raises SweepError as ``results`` does."""
    ended = Folder(Path(folder).expanduser()).ended().values()
    return [
        Failure(run.run, run.parameters, run.cell, run.error or "", run.source, run.traceback)
        for run in ended
        if run.status != "ok"
    ]


class Rows:
    """The table of a folder while a sweep goes on. `before`: the runs that have ended already, in their order."""

    def __init__(self, folder: Folder, before: Mapping[str, Ended]) -> None:
        self._folder = folder
        self._runs = dict(before)
        self._order = {run: place for place, run in enumerate(folder.asked()["order"])}

    def add(self, run: Ended) -> None:
        """Take a run into the table."""
        self._runs[run.run] = run

    def write(self) -> polars.DataFrame:
        """Write both files of the table, and return it."""
        from snnkit.files import replacing

        made = frame(sorted(self._runs.values(), key=lambda run: self._order.get(run.run, len(self._order))))
        with replacing(self._folder.path / PARQUET) as file:
            made.write_parquet(file)
        with replacing(self._folder.path / CSV) as file:
            made.write_csv(file)
        return made


def frame(runs: Iterable[Ended]) -> polars.DataFrame:
    """Columns: run, status, parameters, metrics, seconds, peak_mb, error; null where a run has none of a name."""
    import polars

    every = list(runs)
    columns: dict[str, list[Any]] = {"run": [r.run for r in every], "status": [r.status for r in every]}
    for part in ([r.parameters for r in every], [r.metrics for r in every]):
        for name in dict.fromkeys(name for values in part for name in values):
            columns[name] = [values.get(name) for values in part]
    columns |= {name: [getattr(r, name) for r in every] for name in ("seconds", "peak_mb", "error")}
    strings = ("run", "status", "error")
    types = {name: polars.String() if name in strings else _type(values) for name, values in columns.items()}
    return polars.DataFrame(
        [polars.Series(name, _cast(values, types[name]), dtype=types[name]) for name, values in columns.items()]
    )


def _type(values: Sequence[Any]) -> Any:
    """The type of a column that holds all of `values`: text where they have nothing else in common."""
    import polars

    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return polars.Boolean()
    if kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return polars.Int64()
    if kinds and kinds <= {int, float} and all(_has_float(value) for value in values):
        return polars.Float64()
    return polars.String() if kinds else polars.Float64()


def _cast(values: Sequence[Any], kind: Any) -> list[Any]:
    import polars

    if isinstance(kind, polars.Float64):
        return [None if value is None else float(value) for value in values]
    if isinstance(kind, polars.String):
        # Half of a pair of surrogates, as of a file name that is no text, is nothing that a table can hold.
        return [None if value is None else str(value).encode(errors="replace").decode() for value in values]
    return list(values)


def _has_float(value: Any) -> bool:
    try:
        return value is None or isinstance(float(value), float)
    except OverflowError:  # an int of more than 308 digits
        return False
