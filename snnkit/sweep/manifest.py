"""What a sweep is to do, read from a file or a dict, and checked whole before anything starts."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from snnkit.measure import machine
from snnkit.tools.parameters import ParameterError

from . import notebook as notebooks
from . import plan, values, yaml_text
from .notebook import Notebook
from .plan import Run
from .problems import ManifestError
from .recording import RESERVED
from .values import Law, Listed

KEYS = (
    "notebook", "out", "mode", "samples", "seed", "parameters", "fixed", "seeds", "workers", "seconds", "pareto",
)  # fmt: skip
MODES = ("grid", "random")
SEED = "SEED"
_LONGEST = 1e9  # seconds; clocks of the system end some way beyond
_BUSY = 4  # workers where the manifest says nothing, on machines with so many cores


@dataclass(frozen=True)
class Pareto:
    """Which columns of the results are to be large and which small: two in all."""

    maximise: tuple[str, ...]
    minimise: tuple[str, ...]

    def plain(self) -> dict[str, list[str]]:
        """As a manifest has it."""
        return {"maximise": list(self.maximise), "minimise": list(self.minimise)}


@dataclass(frozen=True)
class Manifest:
    """A sweep that is fit to run.

    Attributes:
        name: of the file, for messages.
        out: folder of the results.
        parameters: what each goes through, in the order of the manifest.
        fixed: the same in each run.
        seeds: passed as SEED; empty: the notebook's own.
        workers: runs at a time.
        seconds: limit of one run; None for no limit.
    """

    name: str
    notebook: Notebook
    out: Path
    mode: str
    parameters: Mapping[str, Listed | Law]
    fixed: Mapping[str, Any]
    seeds: tuple[Any, ...]
    workers: int
    seconds: float | None
    pareto: Pareto | None = None
    samples: int = 0
    seed: int = 0
    runs: tuple[Run, ...] = field(init=False)

    def __post_init__(self) -> None:
        found = plan.runs(self.mode, self.parameters, self.fixed, self.seeds, samples=self.samples, seed=self.seed)
        object.__setattr__(self, "runs", found)

    @cached_property
    def varied(self) -> tuple[str, ...]:
        """Names of the parameters in which runs differ."""
        names = [*self.parameters, *([SEED] if self.seeds else [])]
        return tuple(n for n in names if len({repr(run.parameters[n]) for run in self.runs}) > 1)


def load(
    manifest: str | os.PathLike[str] | Mapping[str, Any],
    out: str | os.PathLike[str] | None = None,
    *,
    folder: str | os.PathLike[str] = ".",
) -> Manifest:
    """The sweep that a YAML file, or a dict of the same keys, describes.

    Args:
        out: folder of the results, in place of the manifest's ``out``; from the current folder.
        folder: from which a dict's relative paths start; a file's start where it lies.

    Raises:
        ManifestError: naming the key, what it was and what it may be: unknown keys, parameters that the notebook lacks
            or of another type, an empty grid, … Nothing has been started or written.
    """
    if isinstance(manifest, Mapping):
        name, given, base = "manifest", dict(manifest), Path(folder)
    else:
        path = Path(manifest).expanduser()
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ManifestError(f"the manifest {path} can't be read: {why}") from None
        name, given, base = path.name, yaml_text.read(text, path.name), path.parent
    if not isinstance(given, dict):
        raise ManifestError(f"{name}: must hold the keys {', '.join(KEYS)}, was {given!r}")
    try:
        return _checked(name, given, base, out)
    except ManifestError as error:
        raise ManifestError(f"{name}: {error}") from None


def _checked(name: str, given: dict[str, Any], base: Path, out: str | os.PathLike[str] | None) -> Manifest:
    for key in given:
        if key not in KEYS:
            close = difflib.get_close_matches(str(key), KEYS, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ManifestError(f"unknown key {key!r}; there are: {', '.join(KEYS)}{hint}")
    notebook = notebooks.read(_text(given, "notebook"), base)
    mode = given.get("mode", "grid")
    if mode not in MODES:
        raise ManifestError(f"mode must be one of {', '.join(MODES)}, was {mode!r}")
    if mode == "grid" and (extra := [key for key in ("samples", "seed") if key in given]):
        raise ManifestError(f"{extra[0]} is for mode random, and the mode is grid")
    parameters = _varied(given.get("parameters"), notebook, mode)
    fixed = _fixed(given.get("fixed"), notebook)
    seeds = _seeds(given.get("seeds"), notebook)
    for key, names in (("fixed", fixed), ("seeds", [SEED] if seeds else [])):
        if both := [n for n in names if n in parameters or (key == "seeds" and n in fixed)]:
            raise ManifestError(f"{key}: {both[0]} is given twice, here and in parameters or fixed")
    if not parameters and not seeds:
        raise ManifestError("parameters must name at least one parameter with its values (or seeds must hold some)")
    return Manifest(
        name=name,
        notebook=notebook,
        out=_folder(base, _text(given, "out")) if out is None else _folder(Path(), out),
        mode=mode,
        parameters=parameters,
        fixed=fixed,
        seeds=seeds,
        workers=whole("workers", given.get("workers", min(_BUSY, machine.cores()))),
        seconds=_seconds(given.get("seconds")),
        pareto=_pareto(given.get("pareto")),
        samples=whole("samples", given.get("samples")) if mode == "random" else 0,
        seed=whole("seed", given.get("seed", 0), least=0) if mode == "random" else 0,
    )


def _text(given: Mapping[str, Any], key: str) -> str:
    value = given.get(key)
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if key == "notebook" and type(value) is int:
        value = str(value)  # of the course: YAML takes 04 for a number
    if not isinstance(value, str) or not value:
        what = (
            "the path of an .ipynb file or the name of a notebook" if key == "notebook" else "a folder for the results"
        )
        raise ManifestError(f"{key} must be {what}, was {value!r}")
    return value


def _folder(base: Path, given: str | os.PathLike[str]) -> Path:
    try:
        return (base / Path(given).expanduser()).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a null character, links in a circle, nobody's home
        raise ManifestError(f"out must be a folder for the results, was {str(given)!r}: {error}") from None


def whole(key: str, value: Any, *, least: int = 1) -> int:
    """`value` if it is an int of at least `least`. Raises ManifestError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ManifestError(f"{key} must be a whole number of at least {least}, was {value!r}")
    return value


def _seconds(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= _LONGEST:
        raise ManifestError(f"seconds must be a number above 0, the limit of one run, was {value!r}")
    return float(value)


def _known(notebook: Notebook, key: str, given: Any, read: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """`read` of each value with the declaration of its parameter."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ManifestError(f"{key} must hold names and values of parameters, was {given!r}")
    found = {}
    for name, value in given.items():
        if name in RESERVED:
            raise ManifestError(f"{key}: a parameter can't be called {name}, as each table has a column {name}")
        if name not in notebook.parameters:
            listing = "; ".join(map(str, notebook.parameters.values())) or "none"
            raise ManifestError(f"{key}: notebook {notebook.name} has no parameter {name!r}; it has: {listing}")
        try:
            found[name] = read(value, notebook.parameters[name])
        except ParameterError as error:
            raise ManifestError(f"{key}: {_named(name, str(error))}") from None
    return found


def _named(name: str, error: str) -> str:
    return error if error.startswith("parameter ") else f"parameter {name} {error}"


def _varied(given: Any, notebook: Notebook, mode: str) -> dict[str, Listed | Law]:
    return _known(notebook, "parameters", given, lambda value, parameter: values.read(value, parameter, mode))


def _fixed(given: Any, notebook: Notebook) -> dict[str, Any]:
    return _known(notebook, "fixed", given, lambda value, parameter: parameter.check(value))


def _seeds(given: Any, notebook: Notebook) -> tuple[Any, ...]:
    if given is None:
        return ()
    read = _known(notebook, "seeds", {SEED: given}, lambda value, parameter: values.read(value, parameter, "grid"))
    return read[SEED].values


def _pareto(given: Any) -> Pareto | None:
    if given is None:
        return None
    wanted = "{maximise: NAME, minimise: NAME}, or a list of two names for one of them"
    if not isinstance(given, Mapping) or not given or set(given) - {"maximise", "minimise"}:
        raise ManifestError(f"pareto must be {wanted}, was {given!r}")
    sides = []
    for side in ("maximise", "minimise"):
        names = given.get(side, [])
        names = [names] if isinstance(names, str) else names
        if not isinstance(names, Sequence) or not all(isinstance(n, str) and n.isidentifier() for n in names):
            raise ManifestError(f"pareto must be {wanted}, was {given!r}")
        sides.append(tuple(names))
    every = [*sides[0], *sides[1]]
    if len(set(every)) != 2 or len(every) != 2:
        raise ManifestError(f"pareto must name two different columns of the results, was {given!r}")
    if text := [n for n in every if n in RESERVED and n not in ("seconds", "peak_mb")]:
        raise ManifestError(f"pareto: {text[0]} is no number")
    return Pareto(*sides)
