"""The notebook that a sweep runs: found by path or name, read, and known again by its code."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from snnkit.tools import parameters
from snnkit.tools.parameters import Parameter, ParameterError
from snnkit.tools.project import ProjectError, find

from .problems import ManifestError

if TYPE_CHECKING:
    from nbformat import NotebookNode

# Of the notebooks made for sweeps: in notebooks/ of a clone. A link to it in this package makes the wheel carry them:
# they are found by name wherever the kit is installed, on Colab, too.
WORKERS = "workers"


@dataclass(frozen=True)
class Notebook:
    """A notebook with typed parameters.

    Attributes:
        code: digest of its cells of code: results of two versions are not comparable.
    """

    path: Path
    parameters: Mapping[str, Parameter]
    code: str
    node: NotebookNode = field(repr=False, compare=False)

    @property
    def name(self) -> str:
        return self.path.stem


def read(given: str, folder: Path) -> Notebook:
    """The notebook that `given` means: a path ending in .ipynb, from `folder`, or a name as of `snnkit run`, or of a
    notebook for sweeps (`xor_in_time`). Raises ManifestError."""
    import nbformat

    try:
        path = folder / Path(given).expanduser() if given.endswith(".ipynb") else _named(given)
    except RuntimeError as error:  # ~somebody who isn't there
        raise ManifestError(f"notebook: {given!r} can't be found: {error}") from None
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
        raise ManifestError(f"notebook: {path} must be in Python, was in {language}")
    # It runs in the Python that runs the sweep, whatever kernel it was last opened with; papermill asks for a language.
    node.metadata["kernelspec"] = {"display_name": "Python 3", "language": "python", "name": "python3"}
    try:
        known = parameters.declared(node, path.stem)
    except ParameterError as error:
        raise ManifestError(f"notebook: {error}") from None
    code = [cell for cell in node.cells if cell.cell_type == "code"]
    for cell in code:
        cell.outputs, cell.execution_count = [], None  # of a run by hand: where a run breaks, they would stay behind it
    sources = "\0".join(cell.source.rstrip() for cell in code)
    return Notebook(path.resolve(), known, hashlib.sha256(sources.encode()).hexdigest()[:12], node)


def _named(name: str) -> Path:
    packaged = Path(__file__).with_name(WORKERS)
    try:
        project = find()
    except ProjectError:
        project = None
    places = [packaged, *([project.notebooks / WORKERS] if project else [])]
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
