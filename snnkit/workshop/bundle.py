"""One zip for a room without a network: notebooks, the wheel, data, pages for learners; the solutions in another."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from snnkit.tools.project import Project

from . import cheatsheet, sealed
from .problem import WorkshopError

TOP = "snnkit-workshop"
# Pages that are a learner's business; the others are the instructor's, and go with the solutions.
FOR_LEARNERS = ("workshop/troubleshooting.md", "workshop/if_you_know.md", "workshop/cheatsheet.md", "LICENSE")
START = """# snnkit, to take along

    python start.py            opens the notebooks in JupyterLab
    python start.py --check    says whether every file is as it was packed

It needs Python 3.10 or newer{needs}. On Windows write `py start.py`. Begin with `notebooks/00_preflight.ipynb`.
{data}
`cheatsheet.html` is one page to print, `workshop/troubleshooting.md` helps when something is odd.
"""


def build(project: Project, out: Path, *, data: Sequence[str] = (), wheels: bool = False) -> Path:
    """Make ``out/snnkit-workshop.zip``.

    Args:
        data: "mnist" and "fashion" are packed; they must be on this machine. The digits are inside scikit-learn.
        wheels: also pack the wheels of everything that the notebooks need, for this Python and kind of machine, in the
            versions of the lock file (asks the package index).

    Raises:
        WorkshopError: no clone, no data, or a wheel that can't be made or had.
    """
    content: dict[str, Path | bytes] = {f"notebooks/{n}.ipynb": project.pair(n) for n in project.names()}
    content |= {name: project.root / name for name in FOR_LEARNERS if (project.root / name).is_file()}
    content["lock.txt"] = project.root / "constraints" / "lock.txt"
    content["start.py"] = resources.files("snnkit.workshop").joinpath("start.py").read_bytes()
    content["cheatsheet.html"] = cheatsheet.html(project.root).encode()
    for name in data:
        content |= _data(name)
    told = f"{' and '.join(data)} in `data`." if data else "No data sets but the digits, which come with scikit-learn."
    needs = ", and nothing from a network" if wheels else ", and a network or an environment that has JupyterLab"
    content["START.md"] = START.format(needs=needs, data=f"\n{told}\n").encode()
    missing = [name for name, one in content.items() if isinstance(one, Path) and not one.is_file()]
    if missing:
        raise WorkshopError(f"not in {project.root}: {', '.join(missing)} (`snnkit build` makes the notebooks)")
    with tempfile.TemporaryDirectory() as folder:
        content |= {f"wheels/{one.name}": one for one in _wheels(project, Path(folder), wheels)}
        sealed.pack(out / f"{TOP}.zip", TOP, content)
    return out / f"{TOP}.zip"


def build_solutions(project: Project, solutions: Path, out: Path) -> Path:
    """Make ``out/snnkit-workshop-solutions.zip`` of executed notebooks and the instructor's pages."""
    copies = sorted([*solutions.glob("notebooks/*.ipynb"), *solutions.glob("html/*")])
    if {one.stem for one in copies if one.suffix == ".ipynb"} != set(project.names()):
        raise WorkshopError(f"{solutions} has no solutions of all notebooks: run `snnkit workshop solutions`")
    content: dict[str, Path | bytes] = {one.relative_to(solutions).as_posix(): one for one in copies}
    pages = (project.root / "workshop").rglob("*.md")
    content |= {one.relative_to(project.root).as_posix(): one for one in pages if solutions not in one.parents}
    sealed.pack(out / f"{TOP}-solutions.zip", f"{TOP}-solutions", content)
    return out / f"{TOP}-solutions.zip"


def run(place: Path, names: Sequence[str], out: Path, told: Any) -> None:
    """Execute notebooks of an unpacked bundle, as a learner's kernel would, in QUICK mode.

    Raises:
        WorkshopError: there is no such notebook, or one fails; it names the cell and the error.
    """
    import nbformat

    from snnkit.tools import parameters, runner

    # A bundle has notebooks where a project has them, which is all that the runner asks of it.
    room, there = Project(place, "", ""), {path.stem: path for path in sorted((place / "notebooks").glob("*.ipynb"))}
    jobs = []
    for wanted in names:
        chosen = [name for name in there if wanted in (name, name[:2], name[3:])]
        if len(chosen) != 1:
            raise WorkshopError(f"unknown notebook {wanted!r} in {place}; there are: {', '.join(there) or 'none'}")
        notebook = nbformat.read(there[chosen[0]], as_version=4)
        known = parameters.declared(notebook, chosen[0])
        jobs.append(runner.Job(chosen[0], notebook, {"QUICK": True} if "QUICK" in known else {}))
    results = runner.execute_all(
        room, jobs, runner.output_folder(room, out), on_result=lambda one: told(f"{one.name}: {one.status}")
    )
    failed = [f"{one.name}, cell {one.cell}: {one.error}" for one in results if one.status != "ok"]
    if failed:
        raise WorkshopError("; ".join(failed))


def _data(name: str) -> dict[str, Path | bytes]:
    from snnkit.data import DamagedFileError, datasets

    if name not in datasets.IDX:
        raise WorkshopError(f"data must be of {', '.join(datasets.IDX)}, but it is {name!r}")
    try:
        return {f"data/{name}/{path.name}": path for path in datasets.files_of(name)}
    except (FileNotFoundError, DamagedFileError) as error:
        raise WorkshopError(f"can't pack {name}: {error}") from None


def _wheels(project: Project, folder: Path, all_of_them: bool) -> list[Path]:
    made = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(project.root)]
    _run(made, "the wheel can't be made (pip install build hatchling)")
    if all_of_them:
        (wheel,) = folder.glob("*.whl")
        lock = str(project.root / "constraints" / "lock.txt")
        had = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), "-c", lock, f"{wheel}[lab]"]
        _run(had, "not all packages could be had")
    return sorted(folder.glob("*.whl"))


def _run(command: list[str], complaint: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise WorkshopError(f"{complaint}:\n{(done.stderr or done.stdout).strip()[-2000:]}")
