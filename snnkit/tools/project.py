"""Where the project is, what it is called on the web, and which notebooks it has."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports]

SOURCE_NAME = re.compile(r"\d\d_\w+")


class ProjectError(ValueError):
    """The project, its settings or a notebook in it can't be used as requested."""


@dataclass(frozen=True)
class Project:
    """A folder with `notebooks/src/NN_name.py` and the settings of `[tool.snnkit]` in its pyproject.toml.

    Attributes:
        colab: for notebooks that need packages which Colab lacks: those packages, by the notebook's name.
    """

    root: Path
    repository: str
    branch: str
    colab: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def notebooks(self) -> Path:
        return self.root / "notebooks"

    @property
    def sources(self) -> Path:
        return self.notebooks / "src"

    def source(self, name: str) -> Path:
        return self.sources / f"{name}.py"

    def pair(self, name: str) -> Path:
        return self.notebooks / f"{name}.ipynb"

    def names(self) -> list[str]:
        """Names of all notebooks that have a source, in order: `["00_preflight", ...]`."""
        return sorted(path.stem for path in self.sources.glob("*.py") if SOURCE_NAME.fullmatch(path.stem))

    def workers(self) -> list[str]:
        """Names of the notebooks made for sweeps: `["workers/xor_in_time"]`. They are no part of the course."""
        return sorted(f"workers/{path.stem}" for path in (self.sources / "workers").glob("*.py"))

    def orphans(self) -> list[str]:
        """Names of notebooks in `notebooks/` that have no source."""
        made = {path.stem for path in self.notebooks.glob("*.ipynb") if SOURCE_NAME.fullmatch(path.stem)}
        return sorted(made - set(self.names()))

    def select(self, wanted: tuple[str, ...] | list[str] = ()) -> list[str]:
        """Names of the notebooks meant by numbers ("04"), names or paths, each once, in the order given; all for none.

        Raises ProjectError that lists what exists for anything else.
        """
        known = self.names()
        if not known:
            raise ProjectError(f"there are no notebooks in {self.sources} (files named NN_name.py)")
        chosen: dict[str, None] = {}
        for token in wanted:
            chosen[self._one(token, known)] = None
        return list(chosen) or known

    def _one(self, token: str, known: list[str]) -> str:
        path = Path(token)
        is_path = path.suffix in {".py", ".ipynb"}
        if is_path and len(path.parts) > 1 and path.resolve().parent not in {self.notebooks, self.sources}:
            raise ProjectError(f"notebook {token!r} is not in {self.notebooks}")
        stem = path.stem if is_path else token
        if stem.isdigit():
            matches = [name for name in known if int(name[:2]) == int(stem)]
        else:
            matches = [name for name in known if stem in (name, name[3:])]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise ProjectError(f"notebook {token!r} could be any of: {', '.join(matches)}")
        raise ProjectError(f"unknown notebook {token!r}; there are: {', '.join(known)}")


def find(start: Path | None = None) -> Project:
    """The project around `start` (default: the current folder), or else the one that snnkit was imported from."""
    start = (start or Path.cwd()).resolve()
    for folder in (start, *start.parents, Path(__file__).resolve().parents[2]):
        settings = _settings(folder / "pyproject.toml")
        if settings is not None:
            return Project(folder, *settings)
    raise ProjectError(f"no snnkit project at or above {start}: run this inside a clone of the repository")


def _settings(pyproject: Path) -> tuple[str, str, dict[str, list[str]]] | None:
    """(repository, branch, colab), or None where the file isn't there or has no `[tool.snnkit]`."""
    try:
        content: dict[str, Any] = tomllib.loads(pyproject.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProjectError(f"{pyproject} can't be read: {error}") from None
    tools = content.get("tool", {})
    if isinstance(tools, dict) and "snnkit" not in tools:
        return None
    table = tools["snnkit"] if isinstance(tools, dict) else tools
    if not isinstance(table, dict):
        what = "[tool.snnkit]" if isinstance(tools, dict) else "[tool]"
        raise ProjectError(f"{what} in {pyproject} must be a table, but it is {table!r}")
    repository, branch = table.get("repository"), table.get("branch", "main")
    if not isinstance(repository, str) or not re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", repository):
        raise ProjectError(
            f"[tool.snnkit] repository in {pyproject} must be https://github.com/OWNER/NAME, but it is {repository!r}"
        )
    if not isinstance(branch, str) or not re.fullmatch(r"[\w./-]+", branch):
        raise ProjectError(
            f"[tool.snnkit] branch in {pyproject} must be the name of a branch or tag, but it is {branch!r}"
        )
    colab = table.get("colab", {})
    if not isinstance(colab, dict) or not all(
        isinstance(names, list) and all(isinstance(n, str) and re.fullmatch(r"[\w.-]+", n) for n in names)
        for names in colab.values()
    ):
        raise ProjectError(f"[tool.snnkit.colab] in {pyproject} must have lists of packages, but it is {colab!r}")
    return repository.removesuffix(".git"), branch, colab
