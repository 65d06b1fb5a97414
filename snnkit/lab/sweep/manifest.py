"""The manifest of a sweep: read from YAML or a dict, checked against the notebook, and turned into a list of runs."""

from __future__ import annotations

import hashlib
import json
import math
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snnkit import checks
from snnkit.files import expanded, read_small, read_yaml
from snnkit.lab.sweep.recorded_values import RESERVED
from snnkit.lab.tools import parameters
from snnkit.lab.tools.parameters import Parameter, ParameterError
from snnkit.lab.tools.project import ProjectError, carried, find_notebooks

if TYPE_CHECKING:
    from nbformat import NotebookNode

KEYS = (
    "notebook", "out", "mode", "samples", "seed", "parameters", "fixed", "seeds", "workers", "seconds", "pareto",
)  # fmt: skip
SEED = "SEED"
WORKERS = "workers"  # folder of the notebooks made for sweeps; their names work wherever the kit is installed
MOST_RUNS = 100_000
_DEFAULT_WORKERS = 4  # at most, where the manifest does not say
LARGEST = 1 << 16  # bytes of a manifest: a list of 10,000 numbers. To read as much takes PyYAML two seconds.
LARGEST_NOTEBOOK = 1 << 24  # with pictures in its outputs


class ManifestError(ValueError):
    """The manifest can't be used: the message names the key, its value and what it may be. Nothing has started."""


@dataclass(frozen=True)
class Notebook:
    """A notebook with typed parameters. ``code`` is a digest of its code: results of two versions do not compare."""

    path: Path
    parameters: Mapping[str, Parameter]
    code: str
    node: NotebookNode = field(repr=False, compare=False)


@dataclass(frozen=True)
class Run:
    """One execution of the notebook; ``id`` depends on its parameters alone, so it is the same in every sweep."""

    id: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Manifest:
    """A checked sweep, ready to run."""

    notebook: Notebook
    out: Path  #: folder of the results
    mode: str  #: "grid" or "random"
    parameters: Mapping[str, tuple[Any, ...]]  #: values of each, in the order of the manifest
    fixed: Mapping[str, Any]  #: the same in each run
    seeds: tuple[Any, ...]  #: passed as SEED; empty: the notebook's own
    workers: int  #: runs at a time
    seconds: float | None  #: limit of one run
    pareto: Mapping[str, list[str]] | None  #: {"maximise": names, "minimise": names}, two names in all
    samples: int  #: of mode random
    seed: int  #: of mode random
    runs: tuple[Run, ...] = field(init=False)  #: the first parameter slowest and the seed fastest

    def __post_init__(self) -> None:
        total = math.prod(len(values) for values in self.parameters.values())
        points = total if self.mode == "grid" else self.samples
        if points > total:
            raise ManifestError(f"samples must be at most {total}, the number of combinations, but it is {points}")
        if (count := points * max(1, len(self.seeds))) > MOST_RUNS:
            raise ManifestError(f"parameters must ask for at most {MOST_RUNS:,} runs, but these are {count:,}")
        places: Iterable[int] = range(total)
        if self.mode == "random":
            generator = random.Random(self.seed)
            drawn: dict[int, None] = {}
            while len(drawn) < points:  # more samples begin with those that fewer have
                drawn[generator.randrange(total)] = None
            places = drawn
        each_seed = [{SEED: value} for value in self.seeds] or [{}]
        every = [{**self._point(place), **self.fixed, **given} for place in places for given in each_seed]
        object.__setattr__(self, "runs", tuple(Run(identity(values), values) for values in every))

    def _point(self, place: int) -> dict[str, Any]:
        """The combination at this place of the grid."""
        point = dict.fromkeys(self.parameters)
        for name, values in reversed(list(self.parameters.items())):
            place, at = divmod(place, len(values))
            point[name] = values[at]
        return point


def identity(values: Mapping[str, Any]) -> str:
    """12 hexadecimal digits that depend on names and values, not on their order. An int and a float differ."""
    text = json.dumps(dict(values), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


# --- reading ---------------------------------------------------------------------------------------------------------


def load(manifest: str | os.PathLike[str] | Mapping[str, Any], out: str | os.PathLike[str] | None = None) -> Manifest:
    """The sweep that a YAML file, or a dict of the same keys, describes.

    Args:
        manifest: relative paths in it start in the folder of the file, which ``out`` may not leave by ``..``; those of
            a dict in the current folder.
        out: folder of the results, instead of the manifest's ``out``; from the current folder.

    Raises:
        ManifestError: naming the key, its value and what it may be: unknown keys, parameters that the notebook lacks
            or of another type, an empty grid, … Nothing has been started or written.
    """
    name, base, given = "manifest", Path(), manifest
    if isinstance(manifest, (str, os.PathLike)):
        path = expanded(manifest)
        name, base, given = path.name, path.parent, _read_yaml(path)
    if not isinstance(given, Mapping):
        raise ManifestError(f"{name} must hold the keys {', '.join(KEYS)}, but it is {checks.shown(given)}")
    try:
        if given is not manifest and out is None and os.path.normpath(str(given.get("out"))).split(os.sep)[0] == "..":
            what = "in the folder of the manifest, or a whole path: results come to no other folder by surprise"
            raise ManifestError(f"out must be {what}, but it is {checks.shown(given['out'])}")
        return _checked({**given, **({} if out is None else {"out": Path(out).absolute()})}, base)
    except (TypeError, ValueError) as error:
        raise ManifestError(f"{name}: {error}") from None


def _read_yaml(path: Path) -> Any:
    try:
        return read_yaml(read_small(path, LARGEST).decode())
    except OSError as error:
        raise ManifestError(f"the manifest {path} can't be read: {error.strerror}") from None
    except ValueError as error:
        raise ManifestError(f"{path.name} can't be read as YAML: {checks.cut(str(error))}") from None


def _checked(given: Mapping[str, Any], base: Path) -> Manifest:
    from snnkit.measure.machine import cores  # brings PyTorch

    for key in given:
        checks.choice("a key", key, KEYS)
    notebook = read_notebook(given.get("notebook"), base)
    mode = checks.choice("mode", given.get("mode", "grid"), ("grid", "random"))
    samples = checks.integer("samples", given.get("samples"), at_least=1) if mode == "random" else 0
    varied = _by_name(notebook, "parameters", given.get("parameters"), _values)
    fixed = _by_name(notebook, "fixed", given.get("fixed"), _value)
    seeds = {} if given.get("seeds") is None else {SEED: given["seeds"]}
    seeds = _by_name(notebook, "seeds", seeds, _values)
    names = [*varied, *fixed, *seeds]
    if twice := [name for i, name in enumerate(names) if name in names[:i]]:
        raise ManifestError(f"{twice[0]} must be in one of parameters, fixed and seeds, but it is in two")
    if not varied and not seeds:
        raise ManifestError("parameters must name at least one parameter with its values (or seeds must hold some)")
    seconds, out = given.get("seconds"), given.get("out")
    if not isinstance(out, (str, os.PathLike)) or not str(out) or "\0" in str(out):
        raise ManifestError(f"out must be a folder for the results, but it is {checks.shown(out)}")
    try:
        folder = (base / expanded(out)).resolve()
    except FileNotFoundError as error:
        raise ManifestError(f"out can't be {checks.shown(out)}: {error.strerror}") from None
    above = next(place for place in (folder, *folder.parents) if place.exists())
    if not above.is_dir():
        raise ManifestError(f"out must be a folder for the results, but {above} is a file")
    return Manifest(
        notebook=notebook,
        out=folder,
        mode=mode,
        parameters=varied,
        fixed=fixed,
        seeds=seeds.get(SEED, ()),
        workers=checks.integer("workers", given.get("workers", min(_DEFAULT_WORKERS, cores())), at_least=1),
        seconds=None if seconds is None else checks.number("seconds", seconds, above=0, at_most=1e9),
        pareto=_pareto(given.get("pareto")),
        samples=samples,
        seed=checks.integer("seed", given.get("seed", 0), at_least=0),
    )


def _by_name(notebook: Notebook, key: str, given: Any, read: Callable[[Any, Parameter], Any]) -> dict[str, Any]:
    """``read`` of each value, with the declaration of its parameter."""
    known = notebook.parameters
    values = {}
    for name, value in checks.mapping(key, given or {}, "names and values of parameters").items():
        if name in RESERVED or name not in known:
            listing = "; ".join(map(str, known.values()))
            why = f"{name} is a column of each table" if name in RESERVED else f"it has: {listing}"
            raise ManifestError(f"{key}: notebook {notebook.path.stem} has no parameter {checks.shown(name)}; {why}")
        try:
            values[name] = read(value, known[name])
        except ParameterError as error:
            raise ManifestError(f"{key}: {error}") from None
    return values


def _value(given: Any, parameter: Parameter) -> Any:
    """Numbers may be spelled, as YAML 1.1 takes ``1e-3`` for a word."""
    spelled = isinstance(given, str) and parameter.kind in (int, float)
    return parameter.parse(given) if spelled else parameter.check(given)


def _values(given: Any, parameter: Parameter) -> tuple[Any, ...]:
    """The values that a manifest lists for one parameter."""
    if not isinstance(given, (list, tuple)) or not given:
        what = f"parameter {parameter.name} must be a list of values, such as [{parameter.default!r}]"
        raise ParameterError(f"{what}, but it is {checks.shown(given)}")
    values = tuple(_value(value, parameter) for value in given)
    value, times = Counter(values).most_common(1)[0]
    if times > 1:
        raise ParameterError(
            f"parameter {parameter.name} must list each value once, but it has {checks.shown(value)} twice"
        )
    return values


def _pareto(given: Any) -> dict[str, list[str]] | None:
    if given is None:
        return None
    sides = {}
    for side in ("maximise", "minimise"):
        names = given.get(side, []) if isinstance(given, Mapping) else []
        sides[side] = [names] if isinstance(names, str) else names
    lists = all(isinstance(names, (list, tuple)) for names in sides.values())
    every = [name for names in sides.values() for name in names] if lists else []
    right = len(every) == 2 and every[0] != every[1] and all(isinstance(name, str) for name in every)
    if not isinstance(given, Mapping) or set(given) - set(sides) or not right:
        what = "{maximise: NAME, minimise: NAME}, or a list of two names for one"
        raise ManifestError(f"pareto must be {what}, but it is {checks.shown(given)}")
    return sides


def read_notebook(given: Any, folder: Path) -> Notebook:
    """The notebook that ``given`` means: a path ending in .ipynb, from ``folder``, or a name as of ``snnkit run``, or
    of a notebook for sweeps (``xor_in_time``). Raises ManifestError."""
    import nbformat

    given = str(given or "")  # YAML takes 04 for a number
    try:
        path = folder / expanded(given) if given.endswith(".ipynb") else _notebook_named(given)
        node = nbformat.reads(read_small(path, LARGEST_NOTEBOOK).decode(), as_version=4)
        nbformat.validate(node)
        declared = parameters.declared(node, path.stem)
    except ManifestError:
        raise
    except Exception as error:  # nbformat has a dozen kinds
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise ManifestError(f"notebook: {checks.cut(given)} can't be used: {checks.cut(why)}") from None
    code = [cell for cell in node.cells if cell.cell_type == "code"]
    for cell in code:  # what a run does not reach would keep the outputs of a run by hand
        cell.outputs = []
        cell.execution_count = None
    sources = "\0".join(cell.source.rstrip() for cell in code)
    return Notebook(path.resolve(), declared, hashlib.sha256(sources.encode()).hexdigest()[:12], node)


def _notebook_named(name: str) -> Path:
    workers = {path.stem: path for path in sorted((carried() / WORKERS).glob("*.ipynb"))}
    if name in workers:
        return workers[name]
    try:
        project = find_notebooks()
        return project.pair(project.select([name])[0])
    except ProjectError as error:
        raise ManifestError(f"notebook: {error}; for sweeps: {', '.join(workers)}; a path ends in .ipynb") from None
