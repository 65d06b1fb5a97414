"""Builds the site: pages into a folder, Sphinx over them, and then every link is tried."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from snnkit import files
from snnkit.site import executed, links, pages
from snnkit.tools.project import Project, ProjectError


class SiteError(ProjectError):
    """Sphinx warns, or a link leads nowhere."""


def build(project: Project, out: Path, *, run: bool = True, told: Callable[[str], None] = print) -> Path:
    """The site's first page, ``out/html/index.html``.

    Besides that ``out`` holds ``external_links.txt``, and the pages as Sphinx saw them in ``source``. A site that stood
    there is replaced only by one without a fault.

    Args:
        run: show executed notebooks: the copies that ``snnkit run`` left beside ``out``, and others run now. False: as
            they are in the project, without outputs.
        told: hears what happens, a line at a time.

    Raises:
        SiteError: with all warnings of Sphinx, or all broken links.
        ProjectError: a notebook fails.
    """
    copies = out.parent / "notebooks" if run else None
    if copies is not None:
        missing = executed.stale(project, copies, project.names())
        if missing:
            told(f"executing {len(missing)} notebooks first: {', '.join(missing)}")
            executed.execute(project, missing, out.parent, told)
    source, fresh = out / "source", out / "html.new"
    pages.stage(project, copies, source)
    shutil.rmtree(fresh, ignore_errors=True)
    told("building the pages")
    _sphinx(project, source, fresh, out / "doctrees")
    found = links.check(fresh)
    if found.broken:
        listed = "\n".join(f"  {one}" for one in found.broken)
        raise SiteError(f"{len(found.broken)} links lead nowhere:\n{listed}")
    lines = [f"{address}  {', '.join(where)}" for address, where in found.external.items()]
    files.write_text(out / "external_links.txt", "\n".join(lines) + "\n")
    shutil.rmtree(out / "html", ignore_errors=True)
    fresh.rename(out / "html")
    return out / "html" / "index.html"


def _sphinx(project: Project, source: Path, target: Path, doctrees: Path) -> None:
    """In a process of its own: Sphinx changes locale, warnings and logging of the one it runs in."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going"]
    command += ["-D", f"html_theme_options.repository_url={project.repository}"]
    command += ["-d", str(doctrees), str(source), str(target)]
    done = subprocess.run(command, capture_output=True, text=True)
    said = done.stderr.strip()
    if done.returncode:
        why = "needs Sphinx: pip install 'snnkit[site]'" if "No module named" in said else "Sphinx complains"
        raise SiteError(f"the site {why}:\n{said}")
