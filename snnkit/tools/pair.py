"""Builds `notebooks/NN_name.ipynb` from `notebooks/src/NN_name.py`, and says where the two differ.

A notebook is a function of its source's text and of `[tool.snnkit]` alone, not of file times or of the former notebook.
Two cells are generated: the Colab badge and the setup cell. They are in the source, too, so that both sides of a pair
hold the same cells; tags mark them (`badge`, `bootstrap`), and only they are rewritten.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from snnkit import files
from snnkit.tools.project import Project, ProjectError

if TYPE_CHECKING:
    from nbformat import NotebookNode

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
CELL_METADATA = ("cellView", "slideshow", "tags")
# These cells hold text that comes from settings: their ids are their names, so that a new setting keeps the ids.
NAMED_CELLS = ("badge", "bootstrap", "parameters")
BADGE_MARKER = '# %% [markdown] tags=["badge"]'
BOOTSTRAP_MARKER = '# %% tags=["bootstrap"] cellView="form"'

_MARKER = re.compile(r"^# %%.*$", re.MULTILINE)
_MARKDOWN = re.compile(r"^# %%\s+\[markdown\]")


@dataclass(frozen=True)
class Difference:
    """One way in which a file is not what `build` would write."""

    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.what}"


def source_text(project: Project, name: str) -> str:
    """The source of notebook `name` with its generated cells up to date."""
    path = project.source(name)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(f"{path} can't be read: {error}") from None
    return normalise(project, name, text)


def notebook(project: Project, name: str) -> NotebookNode:
    """The notebook that belongs to the source of `name`: no outputs, the same cell ids every time."""
    import jupytext
    import nbformat

    text = source_text(project, name)
    try:
        read = jupytext.reads(text, fmt="py:percent")
    except Exception as error:  # jupytext and its YAML reader raise many kinds
        raise ProjectError(f"{project.source(name)} is not a py:percent notebook: {error}") from None
    if "badge" not in read.cells[0].metadata.get("tags", []):
        raise ProjectError(
            f"{project.source(name)} is not a py:percent notebook: before the first `# %%` may stand a header in YAML "
            "between two lines `# ---`, and nothing else"
        )

    ids = _Ids(name)
    cells = []
    for cell in read.cells:
        metadata = {key: cell.metadata[key] for key in CELL_METADATA if key in cell.metadata}
        made: dict[str, Any] = {
            "id": ids.next(cell.cell_type, cell.source, metadata.get("tags", [])),
            "cell_type": cell.cell_type,
            "metadata": metadata,
            "source": cell.source,
        }
        if cell.cell_type == "code":
            made |= {"execution_count": None, "outputs": []}
        cells.append(made)
    metadata = {"kernelspec": KERNELSPEC, **_gpu_metadata(project, name, read.metadata)}
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return nbformat.reads(json.dumps(content), as_version=4)


def build(project: Project, name: str) -> list[str]:
    """Bring both files of notebook `name` up to date; returns those written: none where nothing differed."""
    source = source_text(project, name)
    content = to_json(notebook(project, name))
    written = []
    if project.source(name).read_text(encoding="utf-8") != source:
        files.write_text(project.source(name), source)
        written.append(str(project.source(name).relative_to(project.root)))
    pair = project.pair(name)
    if not pair.exists() or pair.read_text(encoding="utf-8", errors="replace") != content:
        files.write_text(pair, content)
        written.append(str(pair.relative_to(project.root)))
    return written


def check(project: Project, name: str) -> list[Difference]:
    """How the two files of notebook `name` differ from what `build` would write; empty where they are in sync."""
    differences = []
    source = project.source(name)
    if source.read_text(encoding="utf-8") != source_text(project, name):
        differences.append(Difference(_relative(project, source), "the badge or the bootstrap cell is not up to date"))

    pair = project.pair(name)
    file = _relative(project, pair)
    if not pair.exists():
        return [*differences, Difference(file, "is missing")]
    try:
        actual = json.loads(pair.read_text(encoding="utf-8"))
    except ValueError as error:
        return [*differences, Difference(file, f"is not JSON: {error}")]
    expected = json.loads(to_json(notebook(project, name)))
    return differences + [Difference(file, what) for what in _compare(actual, expected)]


def to_json(node: NotebookNode) -> str:
    """The text of an .ipynb file."""
    import nbformat

    nbformat.validate(node)
    return nbformat.writes(node) + "\n"


def _compare(actual: Any, expected: dict[str, Any]) -> list[str]:
    cells = actual.get("cells") if isinstance(actual, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        return ["is not a notebook"]
    differences = []
    if len(cells) != len(expected["cells"]):
        differences.append(f"has {len(cells)} cells, its source {len(expected['cells'])}")
    for index, (cell, should) in enumerate(zip(cells, expected["cells"], strict=False)):
        for key in sorted(cell.keys() | should.keys()):
            if _joined(cell.get(key)) != _joined(should.get(key)):
                differences.append(f"cell {index} ({should['id']}): {key} differs")
    for key in sorted((actual.keys() | expected.keys()) - {"cells"}):
        if actual.get(key) != expected.get(key):
            differences.append(f"{key} differs")
    return differences


def _joined(value: Any) -> Any:
    """nbformat allows a source to be one string or a list of lines."""
    lines = isinstance(value, list) and value and all(isinstance(line, str) for line in value)
    return "".join(value) if lines else value


def _relative(project: Project, path: Any) -> str:
    return str(path.relative_to(project.root))


def _gpu_metadata(project: Project, name: str, header: Any) -> dict[str, Any]:
    """What makes Colab start with a GPU, where the source's header asks for one by `accelerator: GPU`."""
    accelerator = header.get("accelerator")
    if accelerator is None:
        return {}
    if accelerator != "GPU":
        raise ProjectError(f"{project.source(name)}: accelerator must be GPU or absent, but it is {accelerator!r}")
    return {"accelerator": "GPU", "colab": {"gpuType": "T4", "provenance": [], **header.get("colab", {})}}


class _Ids:
    """Ids from content: editing a cell changes its own id and, except between equal cells, no other."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.given: dict[str, int] = {}

    def next(self, cell_type: str, source: str, tags: list[str]) -> str:
        for tag in NAMED_CELLS:
            if tag in tags and tag not in self.given:
                self.given[tag] = 1
                return tag
        text = f"{self.name}\0{cell_type}\0{source}"
        repeat = self.given[text] = self.given.get(text, 0) + 1
        return hashlib.sha256(f"{text}\0{repeat}".encode()).hexdigest()[:12]


# --- the generated cells ---------------------------------------------------------------------------------------------


def colab_url(project: Project, name: str) -> str:
    """Address that opens notebook `name` in Colab."""
    path = project.repository.removeprefix("https://github.com/")
    return f"https://colab.research.google.com/github/{path}/blob/{project.branch}/notebooks/{name}.ipynb"


def badge(project: Project, name: str) -> str:
    """Markdown of the first cell."""
    return f"[![Open In Colab](https://colab.research.google.com/assets/colab-badge.svg)]({colab_url(project, name)})"


def bootstrap(project: Project, name: str) -> str:
    """Code of the cell of notebook `name` that makes `import snnkit` work, or says what to do."""
    more = project.colab.get(name, ())
    but = f" but {', '.join(more)}" if more else ""
    # A line of its own for each, so that the longest list fits into the lines of the sources.
    listed = "".join(f'        _wanted += " {package}"\n' for package in more)
    return f"""# @title Setup: run this cell first
import importlib.util
import os
import sys

_snnkit = "snnkit @ git+{project.repository}@{project.branch}"

if importlib.util.find_spec("snnkit") is None:
    if "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules:
        # Colab ships all that snnkit needs{but}; --no-deps leaves every package there as it is.
        _wanted = f"'{{_snnkit}}'"
{listed}        get_ipython().run_line_magic("pip", f"install -q --no-deps {{_wanted}}")  # noqa: F821
        importlib.invalidate_caches()
    else:
        raise ModuleNotFoundError(
            "The kernel of this notebook has no snnkit. Start Jupyter by `make lab` in a clone of the repository, "
            f"or install it here: %pip install '{{_snnkit}}'"
        )

import snnkit

print("snnkit", snnkit.__version__)"""


def normalise(project: Project, name: str, source: str) -> str:
    """The py:percent text `source` of notebook `name` with its two generated cells brought up to date (or put in)."""
    header, cells = _split(source.replace("\r\n", "\n"))
    badge_cell = f"{BADGE_MARKER}\n# {badge(project, name)}\n\n"
    bootstrap_cell = f"{BOOTSTRAP_MARKER}\n{bootstrap(project, name)}"

    cells = [cell for cell in cells if not _has_tag(cell, "badge")]
    at = next((i for i, cell in enumerate(cells) if _has_tag(cell, "bootstrap")), None)
    if at is None:
        at = next((i for i, cell in enumerate(cells) if not _MARKDOWN.match(cell)), len(cells))
        if at:
            cells[at - 1] = cells[at - 1].rstrip("\n") + "\n\n"
        cells.insert(at, bootstrap_cell + "\n\n")
    else:  # how many empty lines follow is the formatter's business
        cells[at] = bootstrap_cell + cells[at][len(cells[at].rstrip("\n")) :]
    header = header.rstrip("\n") + "\n\n" if header.strip() else ""
    return (header + badge_cell + "".join(cells)).rstrip("\n") + "\n"


def _split(source: str) -> tuple[str, list[str]]:
    """Header (everything before the first cell) and the cells, each with its marker line."""
    starts = [match.start() for match in _MARKER.finditer(source)]
    if not starts:
        return source, []
    ends = [*starts[1:], len(source)]
    return source[: starts[0]], [source[start:end] for start, end in zip(starts, ends, strict=True)]


def _has_tag(cell: str, tag: str) -> bool:
    marker = cell.split("\n", 1)[0]
    return re.search(rf"""tags=\[[^\]]*["']{tag}["']""", marker) is not None
