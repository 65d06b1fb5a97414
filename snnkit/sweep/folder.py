"""The folder of a sweep: what was asked for, and one file for each run that has ended.

```
sweep.json          what was asked for, by which notebook, on which machine
runs/ID.json        a run that has ended; ID depends on its parameters alone, so none can be there twice
notebooks/ID.ipynb  its executed notebook
results.parquet     all runs as a table (also results.csv), made anew from runs/ after each
```

Every file is written whole or not at all, so that a sweep may be killed at any moment.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from . import recording
from .lock import locked
from .manifest import Manifest
from .plan import identity
from .problems import SweepError

FORMAT = 1
ASKED = "sweep.json"
RUNS, NOTEBOOKS = "runs", "notebooks"
# What has to stay: runs that differ in these belong into different tables.
SAME = ("notebook", "code", "mode", "names", "fixed", "law")


@dataclass(frozen=True)
class Ended:
    """A run that has ended, as its file has it.

    Attributes:
        run: its id.
        status: "ok" or "failed".
        metrics: what the notebook recorded; of a failed run, up to its end.
        peak_mb: largest resident memory of the kernel and its children, in MiB.
        cell: index of the cell that failed, in the notebook as it was given.
        error: one line.
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


class Folder:
    """Reads and writes the files of one sweep."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextlib.contextmanager
    def open(self, manifest: Manifest) -> Iterator[None]:
        """Make the folder, or take it up again, and hold it while the block runs.

        Raises SweepError, also in place of an OSError of the block: a disk that is full, most likely.
        """
        going = False
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not self.begun:
                self._check_empty()
            with locked(self.path):
                self._begin(manifest)
                going = True
                yield
        except OSError as error:
            what = "the sweep stopped, and can be taken up again from" if going else "can't write to"
            raise SweepError(f"{what} the folder {self.path}: {error}") from None

    @property
    def begun(self) -> bool:
        """Whether a sweep has ever begun here."""
        return (self.path / ASKED).is_file()

    def asked(self) -> dict[str, Any]:
        """The content of sweep.json. Raises SweepError."""
        file = self.path / ASKED
        if not self.begun:
            raise SweepError(f"{self.path} holds no results of a sweep (there is no {ASKED} in it)")
        found = _read(file)
        if found.get("format") != FORMAT:
            raise SweepError(f"{file} is of format {found.get('format')!r}, this snnkit reads {FORMAT}")
        if not (isinstance(found.get("order"), list) and found.keys() >= {*SAME, "machine", "pareto"}):
            raise SweepError(f"{file} is damaged; with it gone, the runs stay readable in {self.path / RUNS}")
        return found

    def ended(self) -> dict[str, Ended]:
        """The runs that have ended by their ids, in the order in which they were asked for. Raises SweepError."""
        order = {run: place for place, run in enumerate(self.asked()["order"])}
        found = {}
        for file in (self.path / RUNS).glob("*.json"):
            content = _read(file)
            try:
                metrics = recording.unpack(content.pop("metrics"))
                run = Ended(**content, metrics=metrics)
                sound = run.run == file.stem == identity(run.parameters) and _sound(run)
            except (TypeError, KeyError, ValueError, AttributeError):
                sound = False
            if not sound:
                raise SweepError(f"{file} is damaged; delete it, and its run will be done again")
            found[run.run] = run
        return dict(sorted(found.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))

    def write(self, run: Ended) -> None:
        """Put the file of a run there, in place of one of the same run that has failed before."""
        self._write(f"{RUNS}/{run.run}.json", {**asdict(run), "metrics": recording.pack(run.metrics)})

    def _check_empty(self) -> None:
        strange = sorted(path.name for path in self.path.iterdir() if not path.name.startswith("."))
        if strange:
            raise SweepError(
                f"the folder {self.path} holds something else ({', '.join(strange[:3])}{', …' * (len(strange) > 3)}), "
                "and nothing is overwritten; take another one by --out"
            )

    def _begin(self, manifest: Manifest) -> None:
        asked = _plain(manifest)
        order = [run.id for run in manifest.runs]
        if self.begun:
            before = self.asked()
            for key in SAME:
                if before[key] != asked[key]:
                    raise SweepError(_differs(self.path, key, before[key], asked[key]))
            known = set(order)
            order += [run for run in before["order"] if run not in known]
            asked["machine"] = before["machine"]
        else:
            asked["machine"] = _machine()
        for part in self.path.rglob(".*.part"):  # of a sweep that was killed while it wrote
            part.unlink(missing_ok=True)
        self._write(ASKED, {"format": FORMAT, **asked, "order": order})

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        from snnkit import files  # brings torch along

        files.write_text(self.path / name, json.dumps(content, indent=1) + "\n")


def _plain(manifest: Manifest) -> dict[str, Any]:
    """The manifest as JSON, so that a later one can be compared with it."""
    parameters = {name: values.plain() for name, values in manifest.parameters.items()}
    # A random sweep may grow in samples only: other ranges would draw other points for the same indices.
    law = {"seed": manifest.seed, "parameters": dict(sorted(parameters.items()))} if manifest.mode == "random" else None
    names = sorted({*parameters, *(["SEED"] if manifest.seeds else [])})
    plain = {
        "notebook": manifest.notebook.name,
        "code": manifest.notebook.code,
        "mode": manifest.mode,
        "names": names,
        "fixed": dict(manifest.fixed),
        "law": law,
        "parameters": parameters,
        "seeds": list(manifest.seeds),
        "samples": manifest.samples,
        "pareto": manifest.pareto.plain() if manifest.pareto else None,
    }
    return json.loads(json.dumps(plain))


def _differs(path: Path, key: str, before: Any, now: Any) -> str:
    what = {
        "notebook": "the notebook",
        "code": "the code of the notebook",
        "mode": "the mode",
        "names": "which parameters vary",
        "fixed": "fixed",
        "law": "seed or ranges of the random sweep",
    }[key]
    values = "" if key == "code" else f" (was {json.dumps(before)}, is {json.dumps(now)})"
    return (
        f"{what} has changed since the sweep in {path} began{values}, and runs of both can't stand in one table; take "
        "another folder by --out, or go back to what it was"
    )


def _machine() -> dict[str, Any]:
    """Where the numbers come from; without importing PyTorch for it."""
    from datetime import datetime, timezone

    import snnkit
    from snnkit.measure import machine
    from snnkit.measure.machine import processor

    packages = ("torch", *machine.PACKAGES)
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "snnkit": snnkit.__version__,
        "processor": processor(),
        "cores": machine.cores(),
        "gpus": [gpu.name for gpu in machine.gpus()],
        "packages": {name: found for name in packages if (found := machine.version(name))},
    }


def _sound(run: Ended) -> bool:
    """Whether a run that was read has what tables and messages count on."""
    texts = (run.error, run.source, run.traceback)
    return (
        run.status in ("ok", "failed")
        and all(isinstance(number, (int, float)) for number in (run.seconds, run.peak_mb))
        and all(isinstance(value, (bool, int, float, str)) for value in run.metrics.values())
        and not run.metrics.keys() & {*recording.RESERVED, *run.parameters}
        and all(text is None or isinstance(text, str) for text in texts)
    )


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise SweepError(f"{file} can't be read: {error}; delete it, and what it held will be done again") from None
    if not isinstance(content, dict):
        raise SweepError(f"{file} is damaged; delete it, and what it held will be done again")
    return content
