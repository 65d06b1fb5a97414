"""Builds `notebooks/NN_name.ipynb` from `notebooks/src/NN_name.py`, and says where the two differ.

A notebook is a function of its source's text, its drawings and `[tool.snnkit]` alone. Two cells are generated, the
Colab badge and the setup cell; they are in the source, too, where tags mark them (`badge`, `bootstrap`).
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from snnkit import checks, files
from snnkit.lab.tools.project import Copies, Project, ProjectError

if TYPE_CHECKING:
    from nbformat import NotebookNode

KERNELSPEC = {"display_name": "Python 3", "language": "python", "name": "python3"}
CELL_METADATA = ("cellView", "slideshow", "tags")
# These cells hold text that comes from settings: their ids are their names, so that a new setting keeps the ids.
NAMED_CELLS = ("badge", "bootstrap", "parameters")
IMPORTS = re.compile(r"^course\.start\(", re.MULTILINE)  # what the cell of the imports ends with
IMPORTS_TITLE = "# @title Imports"
BADGE = "drawings/open_in_colab.svg"  # where a project has one; else Colab's own, which needs a network
BADGE_MARKER = '# %% [markdown] tags=["badge"]'
BOOTSTRAP_MARKER = '# %% tags=["bootstrap"] cellView="form"'

_WIDTH = re.compile(rb'<svg [^>]*?\bwidth="(\d+)"')
_DRAWING = re.compile(r"!\[([^\]]+)\]\((drawings/[\w-]+\.svg)\)")
_MARKDOWN = re.compile(r"^# %%\s+\[markdown\]")


def notebook(project: Project, name: str) -> NotebookNode:
    """The notebook that belongs to the source of `name`: no outputs, the same cell ids every time.

    Of copies, which have no sources, the notebook itself.
    """
    import jupytext
    import nbformat

    if isinstance(project, Copies):
        try:
            return nbformat.read(project.pair(name), as_version=4)
        except Exception as error:  # nbformat has a dozen kinds
            raise ProjectError(f"{project.pair(name)} is not a notebook: {checks.cut(str(error))}") from None
    source = _source_text(project, name)
    try:
        read = jupytext.reads(source, fmt="py:percent")
    except Exception as error:  # jupytext and its YAML reader raise many kinds
        raise ProjectError(f"{project.source(name)} is not a py:percent notebook: {error}") from None
    if "badge" not in read.cells[0].metadata.get("tags", []):
        raise ProjectError(
            f"{project.source(name)} is not a py:percent notebook: before the first `# %%` may be a header in YAML "
            "between two lines `# ---`, and nothing else"
        )
    cells = []
    for cell, identity in zip(read.cells, _ids(name, read.cells), strict=True):
        metadata = {key: cell.metadata[key] for key in CELL_METADATA if key in cell.metadata}
        made = {"id": identity, "cell_type": cell.cell_type, "metadata": metadata}
        made["source"] = _with_drawings(project, cell.source) if cell.cell_type == "markdown" else cell.source
        if cell.cell_type == "code":
            made |= {"execution_count": None, "outputs": []}
            if identity == "bootstrap" or IMPORTS.search(cell.source):  # folded: in JupyterLab, and as Colab's form
                metadata |= {"cellView": "form", "jupyter": {"source_hidden": True}}
                if not cell.source.startswith("# @title"):
                    made["source"] = f"{IMPORTS_TITLE}\n{cell.source}"
        cells.append(made)
    content = {"cells": cells, "metadata": {"kernelspec": KERNELSPEC}, "nbformat": 4, "nbformat_minor": 5}
    return nbformat.reads(json.dumps(content), as_version=4)


def _with_drawings(project: Project, text: str) -> str:
    """Markdown whose `![words](drawings/NAME.svg)` are pictures within it, which need neither a file nor a network."""

    def embedded(match: re.Match[str]) -> str:
        drawn = project.notebooks / match[2]
        picture = drawn.with_suffix(".webp")
        if not (drawn.is_file() and picture.is_file()):
            raise ProjectError(f"{match[2]}: there must be {drawn} and, by `python docs/drawings.py`, a .webp of it")
        svg = drawn.read_bytes()
        if hashlib.sha256(svg).hexdigest().encode() not in picture.read_bytes():
            raise ProjectError(f"{picture} must show {drawn.name} as it is: run `python docs/drawings.py {drawn.stem}`")
        data = base64.b64encode(picture.read_bytes()).decode()
        size = f'width="{width[1].decode()}" ' if (width := _WIDTH.search(svg)) else ""
        return f'<img {size}alt="{escape(match[1])}" src="data:image/webp;base64,{data}" data-file="{match[2]}">'

    return _DRAWING.sub(embedded, text)


def build(project: Project, name: str) -> list[str]:
    """Bring both files of notebook `name` up to date; returns those written: none if both were up to date."""
    written = []
    for path, text in _wanted(project, name):
        if not path.exists() or path.read_text(encoding="utf-8", errors="replace") != text:
            files.write_text(path, text)
            written.append(path.relative_to(project.root).as_posix())
    return written


def check(project: Project, name: str) -> list[str]:
    """How the two files of notebook `name` differ from what `build` would write; empty if they are in sync."""
    differences = []
    checks.choice("name", name, [*project.names(), *project.workers()])
    for path, text in _wanted(project, name):
        file = path.relative_to(project.root).as_posix()
        if not path.exists():
            differences.append(f"{file}: is missing")
            continue
        actual = path.read_text(encoding="utf-8", errors="replace").split("\n")
        for number, (line, wanted) in enumerate(itertools.zip_longest(actual, text.split("\n")), 1):
            if line != wanted:
                differences.append(f"{file}: line {number} is not what `snnkit build` writes")
                break
    return differences


def _wanted(project: Project, name: str) -> list[tuple[Path, str]]:
    """Both files of notebook `name`, each with the text that it should have."""
    import nbformat

    made = notebook(project, name)
    nbformat.validate(made)
    return [(project.source(name), _source_text(project, name)), (project.pair(name), nbformat.writes(made) + "\n")]


def _ids(name: str, cells: Sequence[NotebookNode]) -> list[str]:
    """Ids from content: editing a cell changes its own id and, except between equal cells, no other."""
    given: list[str] = []
    repeats: Counter[str] = Counter()
    for cell in cells:
        named = [tag for tag in NAMED_CELLS if tag in cell.metadata.get("tags", []) and tag not in given]
        text = f"{name}\0{cell.cell_type}\0{cell.source}"
        if not named:
            repeats[text] += 1
        given.append(named[0] if named else hashlib.sha256(f"{text}\0{repeats[text]}".encode()).hexdigest()[:12])
    return given


# --- the generated cells ---------------------------------------------------------------------------------------------


def colab_url(project: Project, name: str) -> str:
    """Address that opens notebook `name` in Colab."""
    path = project.repository.removeprefix("https://github.com/")
    return f"https://colab.research.google.com/github/{path}/blob/{project.branch}/notebooks/{name}.ipynb"


def badge(project: Project, name: str) -> str:
    """Markdown of the first cell."""
    own = (project.notebooks / BADGE).is_file()
    picture = BADGE if own else "https://colab.research.google.com/assets/colab-badge.svg"
    return f"[![Open In Colab]({picture})]({colab_url(project, name)})"


def bootstrap(project: Project, name: str) -> str:
    """Code of the cell of notebook `name` that makes `import snnkit` work, or says what to do."""
    more = project.colab.get(name, ())
    but = f" but {', '.join(more)}" if more else ""
    # A line of its own for each, so that the longest list fits into the lines of the sources.
    listed = "".join(f'        _wanted += " {package}"\n' for package in more)
    # Exactly a version that we have released. Until there is one, the name is not registered on the package index, and
    # a cell with the bare name, or for any version, could run a stranger's code.
    wanted = f"=={project.released}" if project.released else f" @ git+{project.repository}@{project.branch}"
    return f"""# @title Setup: run this cell first
import importlib.util
import os
import sys

_snnkit = "snnkit{wanted}"

if importlib.util.find_spec("snnkit") is None:
    if "COLAB_RELEASE_TAG" in os.environ or "google.colab" in sys.modules:
        # Colab ships all that snnkit needs{but}; --no-deps leaves every package there as it is.
        _wanted = f"'{{_snnkit}}'"
{listed}        get_ipython().run_line_magic("pip", f"install -q --no-deps {{_wanted}}")  # noqa: F821
        importlib.invalidate_caches()
    else:
        raise ModuleNotFoundError(
            "The kernel of this notebook has no snnkit. Start Jupyter by `snnkit lab` (in a clone: `make lab`), "
            f'or install it here: %pip install "{{_snnkit}}"'
        )

import snnkit

print("snnkit", snnkit.__version__)"""


def _source_text(project: Project, name: str) -> str:
    """The py:percent source of notebook `name` with its two generated cells brought up to date (or put in)."""
    path = project.source(name)
    try:
        header, *cells = re.split(r"(?m)^(?=# %%)", path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(f"{path} can't be read: {error}") from None
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


def _has_tag(cell: str, tag: str) -> bool:
    marker = cell.split("\n", 1)[0]
    return re.search(rf"""tags=\[[^\]]*["']{tag}["']""", marker) is not None


checks.all_arguments(__name__)
