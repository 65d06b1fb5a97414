"""What a sweep is to do: read from YAML or a dict, checked against the notebook, and turned into a list of runs."""

from __future__ import annotations

import difflib
import functools
import hashlib
import itertools
import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snnkit.tools import parameters
from snnkit.tools.parameters import Parameter, ParameterError
from snnkit.tools.project import ProjectError, find

from .recorded_values import RESERVED

if TYPE_CHECKING:
    from nbformat import NotebookNode

KEYS = (
    "notebook", "out", "mode", "samples", "seed", "parameters", "fixed", "seeds", "workers", "seconds", "pareto",
)  # fmt: skip
MODES = ("grid", "random")
RANGES = ("uniform", "log_uniform", "integer")
SEED = "SEED"
# Notebooks made for sweeps: in notebooks/ of a clone. A link to it in this package makes the wheel carry them, so that
# their names work wherever the kit is installed, on Colab, too.
WORKERS = "workers"
MOST_RUNS = 100_000
_MOST_SECONDS = 1e9  # clocks of the system end some way beyond
_DEFAULT_WORKERS = 4  # at most, where the manifest does not say
_DRAWS = 100  # for each sample, before the values are said to have too few combinations
_MOST_WHOLE = 2**53  # a draw has so many different numbers
_MOST_REAL = sys.float_info.max / 2  # so that the distance of two ends is finite, too


class ManifestError(ValueError):
    """The manifest can't be used: the message names the key, its value and what it may be. Nothing has started."""


@dataclass(frozen=True)
class Notebook:
    """A notebook with typed parameters. ``code`` is a digest of its code: results of two versions do not compare."""

    path: Path
    parameters: Mapping[str, Parameter]
    code: str
    node: NotebookNode = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass(frozen=True)
class Values:
    """The values of one parameter: all of them (``kind`` "choice"), or the two ends of a range that is drawn from."""

    kind: str
    values: tuple[Any, ...]

    def at(self, u: float) -> Any:
        """The value for a number ``u`` in [0, 1)."""
        if self.kind == "choice":
            return self.values[min(int(u * len(self.values)), len(self.values) - 1)]
        low, high = self.values
        if self.kind == "integer":
            return min(low + int(u * (high - low + 1)), high)
        if self.kind == "log_uniform":
            drawn = math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
            # Libraries differ in the last digits of exp, and a run is identified by its parameters.
            return min(max(float(f"{drawn:.12g}"), low), high)
        return low + u * (high - low)

    def plain(self) -> Any:
        """As a manifest has it."""
        return list(self.values) if self.kind == "choice" else {self.kind: list(self.values)}


@dataclass(frozen=True)
class Run:
    """One execution of the notebook; ``id`` depends on its parameters alone, so it is the same in every sweep."""

    id: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True)
class Manifest:
    """A sweep that is fit to run.

    Attributes:
        name: of the file, for messages.
        out: folder of the results.
        parameters: values of each, in the order of the manifest.
        fixed: the same in each run.
        seeds: passed as SEED; empty: the notebook's own.
        workers: runs at a time.
        seconds: limit of one run; None for no limit.
        pareto: {"maximise": names, "minimise": names}, two names in all; None for no plot.
        runs: all of them, the first parameter slowest and the seed fastest.
    """

    name: str
    notebook: Notebook
    out: Path
    mode: str
    parameters: Mapping[str, Values]
    fixed: Mapping[str, Any]
    seeds: tuple[Any, ...]
    workers: int
    seconds: float | None
    pareto: Mapping[str, list[str]] | None = None
    samples: int = 0
    seed: int = 0
    runs: tuple[Run, ...] = field(init=False)

    def __post_init__(self) -> None:
        sizes = [len(values.values) for values in self.parameters.values() if values.kind == "choice"]
        finite = math.prod(sizes) if len(sizes) == len(self.parameters) else math.inf
        count = (finite if self.mode == "grid" else self.samples) * max(1, len(self.seeds))
        if count > MOST_RUNS:
            raise ManifestError(f"parameters must ask for at most {MOST_RUNS:,} runs, but these are {count:,}")
        if self.mode == "grid":
            points = [
                dict(zip(self.parameters, chosen, strict=True))
                for chosen in itertools.product(*(values.values for values in self.parameters.values()))
            ]
        elif finite < self.samples:  # known before a million draws
            raise ManifestError(f"samples must be at most {finite}, the different ones, but it is {self.samples}")
        else:
            points = _drawn(self.parameters, self.samples, self.seed)
        each_seed = [{SEED: value} for value in self.seeds] or [{}]
        every = [{**point, **self.fixed, **given} for point in points for given in each_seed]
        object.__setattr__(self, "runs", tuple(Run(identity(values), values) for values in every))

    @cached_property
    def varied(self) -> tuple[str, ...]:
        """Names of the parameters in which runs differ."""
        names = [*self.parameters, *([SEED] if self.seeds else [])]
        return tuple(n for n in names if len({repr(run.parameters[n]) for run in self.runs}) > 1)


def identity(values: Mapping[str, Any]) -> str:
    """12 hexadecimal digits that depend on names and values, not on their order. An int is no float here."""
    text = json.dumps(dict(values), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _drawn(given: Mapping[str, Values], samples: int, seed: int) -> list[dict[str, Any]]:
    """``samples`` different points. The i-th draw of a parameter depends on ``seed``, i and its name only: so more
    samples keep those that are there, and the order of the parameters does not matter."""
    points: dict[str, dict[str, Any]] = {}
    for i in range(samples * _DRAWS):
        point = {name: values.at(_uniform(seed, i, name)) for name, values in given.items()}
        points.setdefault(identity(point), point)
        if len(points) == samples:
            return list(points.values())
    raise ManifestError(f"samples must be at most {len(points)}, all that these parameters give, but it is {samples}")


def _uniform(seed: int, index: int, name: str) -> float:
    digest = hashlib.sha256(f"{seed}\0{index}\0{name}".encode()).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53


# --- reading ---------------------------------------------------------------------------------------------------------


def load(
    manifest: str | os.PathLike[str] | Mapping[str, Any],
    out: str | os.PathLike[str] | None = None,
    *,
    folder: str | os.PathLike[str] = ".",
) -> Manifest:
    """The sweep that a YAML file, or a dict of the same keys, describes.

    Args:
        out: folder of the results, in place of the manifest's ``out``; from the current folder.
        folder: from which a dict's relative paths start; a file's start in the folder of the file.

    Raises:
        ManifestError: naming the key, its value and what it may be: unknown keys, parameters that the notebook lacks
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
        name, given, base = path.name, read_yaml(text, path.name), path.parent
    if not isinstance(given, dict):
        raise ManifestError(f"{name} must hold the keys {', '.join(KEYS)}, but it is {given!r}")
    try:
        return _checked(name, given, base, out)
    except (ManifestError, ParameterError) as error:
        raise ManifestError(f"{name}: {error}") from None


def _checked(name: str, given: dict[str, Any], base: Path, out: str | os.PathLike[str] | None) -> Manifest:
    for key in given:
        if key not in KEYS:
            close = difflib.get_close_matches(str(key), KEYS, 1)
            hint = f"; did you mean {close[0]}?" if close else ""
            raise ManifestError(f"unknown key {key!r}; there are: {', '.join(KEYS)}{hint}")
    wanted = given.get("notebook")
    if isinstance(wanted, (int, os.PathLike)) and not isinstance(wanted, bool):
        wanted = str(wanted)  # YAML takes 04 for a number
    if not isinstance(wanted, str) or not wanted:
        raise ManifestError(f"notebook must be the path of an .ipynb file or a notebook's name, but it is {wanted!r}")
    notebook = read_notebook(wanted, base)
    mode = given.get("mode", "grid")
    if mode not in MODES:
        raise ManifestError(f"mode must be one of {', '.join(MODES)}, but it is {mode!r}")
    if mode == "grid" and (extra := [key for key in ("samples", "seed") if key in given]):
        raise ManifestError(f"{extra[0]} is for mode random, but the mode is grid")
    varied = _by_name(notebook, "parameters", given.get("parameters"), lambda v, p: _values(v, p, mode))
    fixed = _by_name(notebook, "fixed", given.get("fixed"), lambda v, p: p.check(v))
    seeds: tuple[Any, ...] = ()
    if given.get("seeds") is not None:
        read = _by_name(notebook, "seeds", {SEED: given["seeds"]}, lambda v, p: _values(v, p, "grid"))
        seeds = read[SEED].values
    for key, names in (("fixed", fixed), ("seeds", [SEED] if seeds else [])):
        if both := [n for n in names if n in varied or (key == "seeds" and n in fixed)]:
            raise ManifestError(f"{key}: {both[0]} is given twice, here and in parameters or fixed")
    if not varied and not seeds:
        raise ManifestError("parameters must name at least one parameter with its values (or seeds must hold some)")
    seconds = given.get("seconds")
    if seconds is not None:
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= _MOST_SECONDS:
            raise ManifestError(f"seconds must be a number above 0, the limit of one run, but it is {seconds!r}")
        seconds = float(seconds)
    return Manifest(
        name=name,
        notebook=notebook,
        out=_folder(base, given.get("out")) if out is None else _folder(Path(), out),
        mode=mode,
        parameters=varied,
        fixed=fixed,
        seeds=seeds,
        workers=whole("workers", given.get("workers", _default_workers())),
        seconds=seconds,
        pareto=_pareto(given.get("pareto")),
        samples=whole("samples", given.get("samples")) if mode == "random" else 0,
        seed=whole("seed", given.get("seed", 0), least=0) if mode == "random" else 0,
    )


def whole(key: str, value: Any, *, least: int = 1) -> int:
    """``value`` if it is an int of at least ``least``. Raises ManifestError."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ManifestError(f"{key} must be a whole number of at least {least}, but it is {value!r}")
    return value


def _default_workers() -> int:
    from snnkit.measure.machine import cores

    return min(_DEFAULT_WORKERS, cores())


def _folder(base: Path, given: Any) -> Path:
    try:
        if isinstance(given, (str, os.PathLike)) and str(given):
            return (base / Path(given).expanduser()).resolve()
        why = ""
    except (OSError, ValueError, RuntimeError) as error:  # a null character, links in a circle, an unknown user's home
        why = f": {error}"
    raise ManifestError(f"out must be a folder for the results, but it is {given!r}{why}")


def _by_name(notebook: Notebook, key: str, given: Any, read: Callable[[Any, Parameter], Any]) -> dict[str, Any]:
    """``read`` of each value, with the declaration of its parameter."""
    if not isinstance(given, (Mapping, type(None))):
        raise ManifestError(f"{key} must hold names and values of parameters, but it is {given!r}")
    values = {}
    for name, value in (given or {}).items():
        if name in RESERVED:
            raise ManifestError(f"{key}: a parameter can't be called {name}, as each table has a column {name}")
        if name not in notebook.parameters:
            listing = "; ".join(map(str, notebook.parameters.values())) or "none"
            raise ManifestError(f"{key}: notebook {notebook.name} has no parameter {name!r}; it has: {listing}")
        try:
            values[name] = read(value, notebook.parameters[name])
        except ParameterError as error:
            raise ManifestError(f"{key}: {error}") from None
    return values


def _values(given: Any, parameter: Parameter, mode: str) -> Values:
    """The values that a manifest gives to one parameter."""
    what = f"parameter {parameter.name}"
    kind, values = "choice", given
    if isinstance(given, dict):
        if mode != "random":
            raise ParameterError(f"{what} must be a list in mode grid, but it is {given!r}; ranges are for mode random")
        if len(given) != 1 or next(iter(given)) not in (*RANGES, "choice"):
            raise ParameterError(f"{what} must be a list or one of {', '.join(RANGES)}, choice, but it is {given!r}")
        ((kind, values),) = given.items()
    if kind != "choice":
        return _range(kind, values, parameter, what)
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise ParameterError(f"{what} must be a list of values, such as [{parameter.default!r}], but it is {values!r}")
    if not values:
        raise ParameterError(f"{what} must list at least one value, but it is an empty list")
    checked = tuple(parameter.check(value) for value in values)
    for i, value in enumerate(checked):
        if value in checked[:i]:
            raise ParameterError(f"{what} must list each value once, but it has {values[i]!r} twice")
    return Values("choice", checked)


def _range(kind: str, ends: Any, parameter: Parameter, what: str) -> Values:
    wanted = f"{what} must be {{{kind}: [low, high]}}"
    if parameter.kind is not (int if kind == "integer" else float):
        raise ParameterError(
            f"{what} is {parameter.expects}, but {kind} is for {'int' if kind == 'integer' else 'float'}; "
            "for int there is integer, for float uniform and log_uniform, for all choice"
        )
    if not isinstance(ends, Sequence) or isinstance(ends, str) or len(ends) != 2:
        raise ParameterError(f"{wanted}, but it is {ends!r}")
    kinds, most = ((int,), _MOST_WHOLE) if kind == "integer" else ((int, float), _MOST_REAL)
    if not all(isinstance(end, kinds) and not isinstance(end, bool) and abs(end) <= most for end in ends):
        raise ParameterError(f"{wanted} with {'whole' if kinds == (int,) else 'finite'} numbers, but it is {ends!r}")
    if not ends[0] < ends[1]:
        raise ParameterError(f"{wanted} with low < high, but it is {ends!r}")
    if kind == "log_uniform" and ends[0] <= 0:
        raise ParameterError(f"{wanted} with low above 0, but it is {ends!r}")
    return Values(kind, tuple(ends) if kind == "integer" else tuple(map(float, ends)))


def _pareto(given: Any) -> dict[str, list[str]] | None:
    if given is None:
        return None
    wrong = f"pareto must be {{maximise: NAME, minimise: NAME}}, or a list of two names for one, but it is {given!r}"
    if not isinstance(given, Mapping) or set(given) - {"maximise", "minimise"}:
        raise ManifestError(wrong)
    sides = {side: given.get(side, []) for side in ("maximise", "minimise")}
    sides = {side: [names] if isinstance(names, str) else names for side, names in sides.items()}
    every = [name for names in sides.values() for name in (names if isinstance(names, Sequence) else [None])]
    if not all(isinstance(name, str) and name.isidentifier() for name in every):
        raise ManifestError(wrong)
    if len(every) != 2 or every[0] == every[1]:
        raise ManifestError(f"pareto must name two different columns of the results, but it is {given!r}")
    if text := [n for n in every if n in RESERVED and n not in ("seconds", "peak_mb")]:
        raise ManifestError(f"pareto must name columns of numbers, but {text[0]} is text")
    return {side: list(names) for side, names in sides.items()}


def read_notebook(given: str, folder: Path) -> Notebook:
    """The notebook that ``given`` means: a path ending in .ipynb, from ``folder``, or a name as of ``snnkit run``, or
    of a notebook for sweeps (``xor_in_time``). Raises ManifestError."""
    import nbformat

    try:
        path = folder / Path(given).expanduser() if given.endswith(".ipynb") else _notebook_named(given)
    except RuntimeError as error:  # ~user of an unknown user
        raise ManifestError(f"notebook: {given!r} can't be located: {error}") from None
    try:
        node = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
        nbformat.validate(node)
    except FileNotFoundError:
        raise ManifestError(f"notebook: there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ManifestError(f"notebook: {path} can't be read: {error}") from None
    except Exception as error:  # nbformat has a dozen kinds
        raise ManifestError(f"notebook: {path} is not a notebook: {str(error).splitlines()[0]}") from None
    language = node.metadata.get("kernelspec", {}).get("language") or node.metadata.get("language_info", {}).get("name")
    if (language or "python").lower() not in ("python", "ipython", "python3"):
        raise ManifestError(f"notebook: {path} must be in Python, but it is in {language}")
    # It runs in the Python that runs the sweep, whatever kernel it was last opened with; papermill needs a language.
    node.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    try:
        declared = parameters.declared(node, path.stem)
    except ParameterError as error:
        raise ManifestError(f"notebook: {error}") from None
    code = [cell for cell in node.cells if cell.cell_type == "code"]
    for cell in code:
        cell.outputs, cell.execution_count = (
            [],
            None,
        )  # of a run by hand: cells that a run does not reach would keep them
    sources = "\0".join(cell.source.rstrip() for cell in code)
    return Notebook(path.resolve(), declared, hashlib.sha256(sources.encode()).hexdigest()[:12], node)


def _notebook_named(name: str) -> Path:
    try:
        project = find()
    except ProjectError:
        project = None
    places = [Path(__file__).with_name(WORKERS), *([project.notebooks / WORKERS] if project else [])]
    workers = {path.stem: path for place in places for path in sorted(place.glob("*.ipynb"))}
    if name in workers:
        return workers[name]
    if project is None:
        raise ManifestError(
            f"notebook: there is none of the name {name!r} here; a path ends in .ipynb, and the names are: "
            f"{', '.join(workers) or 'none'} (inside a clone of the repository those of the course, too)"
        )
    try:
        return project.pair(project.select([name])[0])
    except ProjectError as error:
        more = f"; for sweeps: {', '.join(workers)}" if workers else ""
        raise ManifestError(f"notebook: {error}{more}; a path ends in .ipynb") from None


# --- YAML ------------------------------------------------------------------------------------------------------------


def read_yaml(text: str, name: str) -> Any:
    """The value of ``text``; ``name`` is for messages. Raises ManifestError with the line."""
    import yaml

    try:
        return yaml.load(text, _yaml_loader())
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ManifestError(f"{name}{line}: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, KeyError, TypeError, RecursionError) as error:  # of a tag that doesn't fit
        raise ManifestError(f"{name} is not YAML: {' '.join(str(error).split())}") from None


@functools.cache
def _yaml_loader() -> Any:
    """Plain data by the core schema of YAML 1.2, https://yaml.org/spec/1.2.2/#103-core-schema, no key twice.

    PyYAML follows YAML 1.1, where ``1e-3`` is text, ``010`` is 8, ``1:30`` is 90, ``no`` is false, and of two equal
    keys the last one wins silently. In a list of learning rates each of these is a wrong experiment.
    """
    import yaml

    def number(kind: Callable[[str], Any]) -> Callable[[Any, Any], Any]:
        return lambda loader, node: kind(loader.construct_scalar(node))

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        values: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, str) or key in values:
                problem = f"the key {key} is given twice" if isinstance(key, str) else f"{key!r} can't be a key"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            values[key] = loader.construct_object(value_node, deep=True)
        return values

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012

    for tag, pattern in (
        ("null", r"~|null|Null|NULL|"),
        ("bool", r"true|True|TRUE|false|False|FALSE"),
        ("int", r"[-+]?[0-9]+|0x[0-9a-fA-F]+"),
        ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)"),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"^(?:{pattern})$"), None)
    whole_number = number(lambda digits: int(digits, 16 if digits.startswith("0x") else 10))
    real_number = number(lambda digits: float(re.sub(r"\.(?=inf|nan)", "", digits.lower())))
    for tag, build in (("int", whole_number), ("float", real_number), ("map", mapping)):
        Loader.add_constructor(f"tag:yaml.org,2002:{tag}", build)
    return Loader
