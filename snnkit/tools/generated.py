"""The two cells that nobody types: the Colab badge and the bootstrap cell, made from `[tool.snnkit]`.

Both stand in the source and in the notebook, so that a pair holds the same cells on either side. In a source they are
found by their tags (`badge`, `bootstrap`) and only they are rewritten; every other character of the file stays.
"""

from __future__ import annotations

import re

from snnkit.tools.project import Project

BADGE_MARKER = '# %% [markdown] tags=["badge"]'
BOOTSTRAP_MARKER = '# %% tags=["bootstrap"] cellView="form"'

_MARKER = re.compile(r"^# %%.*$", re.MULTILINE)
_MARKDOWN = re.compile(r"^# %%\s+\[markdown\]")


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
