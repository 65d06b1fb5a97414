"""The folder that Sphinx turns into the site: pages of the project at the places they have in it, links included."""

from __future__ import annotations

import posixpath
import re
import shutil
from pathlib import Path

from snnkit.site import api, executed
from snnkit.tools.project import Project

INDEX = "README.md"  # becomes the first page
LINK = re.compile(r"(\]\()([^()\s]+)(\))")
CODE = re.compile(r"(?ms)^( *)(```+|~~~+).*?^\1\2\s*$|`[^`\n]+`")
SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.IGNORECASE)


def texts(project: Project) -> list[str]:
    """Paths of the Markdown pages in the project, in the order of the menu."""
    workshop = project.root / "workshop"
    found = sorted(path.relative_to(project.root).as_posix() for path in workshop.rglob("*.md"))
    found.sort(key=lambda path: (path != "workshop/README.md", path.count("/"), path))
    return [INDEX, *(path for path in found if "/solutions/" not in path), "CONTRIBUTING.md", "CHANGELOG.md"]


def stage(project: Project, notebooks: Path | None, folder: Path) -> None:
    """Fill ``folder``, which is emptied first.

    Args:
        notebooks: the folder of executed copies; None: notebooks without outputs, as they are in the project.
    """
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(project.root / "docs" / "site", folder)
    names, pages = project.names(), texts(project)
    (folder / "notebooks").mkdir()
    for name in names:
        _stage_notebook(project, name, notebooks, folder)
    reference = api.write(folder / "api")
    known = {*pages, *(f"notebooks/{name}.ipynb" for name in names)}
    for page in pages:
        target = folder / ("index.md" if page == INDEX else page)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = relinked(project, page, (project.root / page).read_text(encoding="utf-8"), known, folder)
        target.write_text(text + (_menu(pages, names, reference) if page == INDEX else ""), encoding="utf-8")


def relinked(project: Project, page: str, text: str, known: set[str], folder: Path) -> str:
    """``text`` of ``page`` with links that hold on the site.

    Pages of the site keep relative links; pictures are copied to ``folder``; other files of the project are linked
    where the project is on the web. What does not exist stays as it is, for the check of links to find.
    """

    def one(match: re.Match[str]) -> str:
        target, hash_, fragment = match[2].partition("#")
        if SCHEME.match(match[2]):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        here = project.root / path
        if path in known:
            new = posixpath.join(posixpath.dirname(target), "index.md") if path == INDEX else target
        elif here.suffix in {".png", ".gif", ".svg", ".jpg"} and here.is_file():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(here, folder / path)
            new = target
        elif here.exists() and not path.startswith(".."):
            new = f"{project.repository}/{'tree' if here.is_dir() else 'blob'}/{project.branch}/{path}"
        else:
            new = target
        return f"{match[1]}{new}{hash_}{fragment}{match[3]}"

    pieces, end = [], 0
    for code in CODE.finditer(text):  # what looks like a link there is code
        pieces += [LINK.sub(one, text[end : code.start()]), code[0]]
        end = code.end()
    return "".join([*pieces, LINK.sub(one, text[end:])])


def _stage_notebook(project: Project, name: str, notebooks: Path | None, folder: Path) -> None:
    import nbformat

    path = project.pair(name) if notebooks is None else notebooks / f"{name}.ipynb"
    nbformat.write(executed.read(path), folder / "notebooks" / f"{name}.ipynb")


def _menu(pages: list[str], names: list[str], reference: list[str]) -> str:
    groups = {
        "Notebooks": [f"notebooks/{name}" for name in names],
        "Workshop": [page.removesuffix(".md") for page in pages if page.startswith("workshop/")],
        "Reference": [f"api/{name}" for name in reference],
        "The project": ["CONTRIBUTING", "CHANGELOG"],
    }
    return "".join(
        f"\n```{{toctree}}\n:hidden:\n:caption: {title}\n\n" + "\n".join(entries) + "\n```\n"
        for title, entries in groups.items()
        if entries
    )
