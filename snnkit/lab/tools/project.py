"""The project: its folder, its address on the web, and its notebooks; and the copies of them that learners work in."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from snnkit import checks
from snnkit.checks import shown

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]

SOURCE_NAME = re.compile(r"\d\d_\w+")
_VERSION = r"\d+(\.\d+)*((a|b|rc)\d+)?(\.post\d+)?"
_CLONE = Path(__file__).resolve().parents[3]  # if the package is used where it is developed
# Where pyproject.toml puts the notebooks into the wheel.
_IN_THE_WHEEL = Path(__file__).parents[1] / "notebooks"
MARK = ".snnkit-lab"  # file in a folder that `snnkit lab` has made; holds the version of the kit


class ProjectError(ValueError):
    """The project, its settings or a notebook in it can't be used as requested."""


@dataclass(frozen=True)
class Project:
    """A folder with `notebooks/src/NN_name.py` and the settings of `[tool.snnkit]` in its pyproject.toml.

    Attributes:
        colab: for notebooks that need packages which Colab lacks: those packages, by the notebook's name.
        released: the version that is on the package index; "": none is.
    """

    root: Path
    repository: str
    branch: str
    colab: Mapping[str, Sequence[str]] = field(default_factory=dict)
    released: str = ""
    suffix: ClassVar[str] = ".py"  # of sources

    @property
    def notebooks(self) -> Path:
        return self.root / "notebooks"

    @property
    def sources(self) -> Path:
        return self.notebooks / "src"

    def source(self, name: str) -> Path:
        return self.sources / f"{name}{self.suffix}"

    def pair(self, name: str) -> Path:
        return self.notebooks / f"{name}.ipynb"

    def names(self) -> list[str]:
        """Names of all notebooks that have a source, in order: `["00_preflight", ...]`."""
        stems = (path.stem for path in self.sources.glob(f"*{self.suffix}"))
        return sorted(stem for stem in stems if SOURCE_NAME.fullmatch(stem))

    def workers(self) -> list[str]:
        """Names of the notebooks made for sweeps: `["workers/xor_in_time"]`. They are no part of the course."""
        return sorted(f"workers/{path.stem}" for path in (self.sources / "workers").glob("*.py"))

    def orphans(self) -> list[str]:
        """Names of notebooks in `notebooks/` that have no source."""
        made = {path.stem for path in self.notebooks.glob("*.ipynb") if SOURCE_NAME.fullmatch(path.stem)}
        return sorted(made - set(self.names()))

    @checks.arguments
    def select(self, wanted: Sequence[str] = ()) -> list[str]:
        """Names of the notebooks meant by numbers ("04"), names or paths, each once, in the order given; all for none.

        Raises ProjectError, which lists the notebooks, for anything else.
        """
        known = self.names()
        if not known:
            raise ProjectError(f"there are no notebooks in {self.sources} (files named NN_name{self.suffix})")
        chosen: dict[str, None] = {}
        for word in wanted:
            stem = Path(word).stem if Path(word).suffix in {".py", ".ipynb"} else word
            number = f"{int(stem):02}" if stem.isdecimal() else None
            matches = [name for name in known if stem in (name, name[3:]) or name[:2] == number]
            if len(matches) != 1:
                problem = f"{shown(word)} could be any of" if matches else f"unknown notebook {shown(word)}; there are"
                raise ProjectError(f"{problem}: {', '.join(matches or known)}")
            chosen[matches[0]] = None
        return list(chosen) or known


@dataclass(frozen=True)
class Copies(Project):
    """A folder that `snnkit lab` has made: notebooks without sources, which are the learner's own."""

    repository: str = ""
    branch: str = ""
    suffix: ClassVar[str] = ".ipynb"

    @property
    def notebooks(self) -> Path:
        return self.root

    @property
    def sources(self) -> Path:
        return self.root


@checks.arguments
def find(start: Path | None = None) -> Project:
    """The project around `start` (default: the current folder), or else the one that snnkit was imported from."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents, _CLONE):
        settings = _settings(folder / "pyproject.toml")
        if settings is not None:
            return Project(folder, *settings)
    raise ProjectError(f"no snnkit project at or above {start}: run this inside a clone of the repository")


@checks.arguments
def find_notebooks(start: Path | None = None) -> Project:
    """The folder of `snnkit lab` at or above `start` (default: the current folder), or else what `find` finds."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents):
        if (folder / MARK).is_file():
            return Copies(folder)
    try:
        return find(start)
    except ProjectError as error:
        raise ProjectError(f"{error}, or in a folder that `snnkit lab` has made") from None


def carried() -> Path:
    """The folder with the notebooks that came with this package."""
    return _IN_THE_WHEEL if _IN_THE_WHEEL.is_dir() else _CLONE / "notebooks"


def _settings(pyproject: Path) -> tuple[str, str, dict[str, list[str]], str] | None:
    """(repository, branch, colab, released), or None if the file isn't there or has no `[tool.snnkit]`."""
    try:
        table = tomllib.loads(pyproject.read_text(encoding="utf-8")).get("tool", {}).get("snnkit")
    except FileNotFoundError:
        return None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProjectError(f"{pyproject} can't be read: {error}") from None
    if table is None:
        return None
    repository, released = str(table.get("repository")).removesuffix(".git"), table.get("released", "")
    if not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", repository):
        what = "https://github.com/OWNER/NAME"
        raise ProjectError(f"[tool.snnkit] repository in {pyproject} must be {what}, but it is {repository!r}")
    if released != "" and not (isinstance(released, str) and re.fullmatch(_VERSION, released)):
        raise ProjectError(f'[tool.snnkit] released in {pyproject} must be a version, or "", but it is {released!r}')
    return repository, str(table.get("branch", "main")), table.get("colab", {}), released
