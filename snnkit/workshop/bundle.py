"""One zip for a room without a network: notebooks, the wheel, data, pages for learners.

It holds a list of its files with their checksums, so that a copy can prove that it is whole.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path

from snnkit import checks
from snnkit.checks import cut
from snnkit.files import replacing
from snnkit.tools.project import Project

from . import handouts
from .timetable import WorkshopError

CHECKSUMS = "CHECKSUMS.sha256"  # as `sha256sum --check` reads it, too
# What start.py, Jupyter and Python leave in a folder that is used is not worth a word.
LEFTOVERS = re.compile(r"room-env/|.*(__pycache__|\.ipynb_checkpoints)/")
TOP = "snnkit-workshop"
# Pages that are a learner's business; the others are the instructor's.
FOR_LEARNERS = ("workshop/troubleshooting.md", "workshop/if_you_know.md", "workshop/cheatsheet.md", "LICENSE")
START = """# snnkit, to take along

    python start.py            opens the notebooks in JupyterLab
    python start.py --check    says whether every file is as it was packed

It needs Python 3.10 or newer{needs}. On Windows write `py start.py`. Begin with `notebooks/00_preflight.ipynb`.
Data sets in `data`: {data}.

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
    content |= {name: project.root / name for name in FOR_LEARNERS}
    content["lock.txt"] = project.root / "constraints" / "lock.txt"
    content["start.py"] = resources.files("snnkit.workshop").joinpath("start.py").read_bytes()
    content["cheatsheet.html"] = handouts.cheatsheet(project.root).encode()
    for name in data:
        content |= _data(name)
    needs = ", and nothing from a network" if wheels else ", and a network or an environment that has JupyterLab"
    sets = ", ".join(data) or "none; the digits are in scikit-learn"
    content["START.md"] = START.format(needs=needs, data=sets).encode()
    missing = [name for name, one in content.items() if isinstance(one, Path) and not one.is_file()]
    if missing:
        raise WorkshopError(f"not in {project.root}: {', '.join(missing)} (`snnkit build` makes the notebooks)")
    with tempfile.TemporaryDirectory() as folder:
        content |= {f"wheels/{one.name}": one for one in _wheels(project, Path(folder), wheels)}
        pack(out / f"{TOP}.zip", content)
    return out / f"{TOP}.zip"


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


# --- checksums --------------------------------------------------------------------------------------------------------


@checks.arguments
def pack(target: Path, content: Mapping[str, Path | bytes]) -> None:
    """Write the zip ``target`` with everything in one folder, and the checksums of all of it.

    Args:
        content: by path within the folder: a file that is copied, or the bytes themselves.
    """
    sums = []
    with replacing(target) as out, zipfile.ZipFile(out, "w") as archive:

        def add(name: str, data: bytes) -> None:
            entry = zipfile.ZipInfo(f"{TOP}/{name}")  # of 1980: the same content gives the same file
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, data)
            sums.append(f"{hashlib.sha256(data).hexdigest()}  {name}\n")

        for name, one in sorted(content.items()):
            add(name, one if isinstance(one, bytes) else one.read_bytes())
        add(CHECKSUMS, "".join(sums).encode())


@checks.arguments
def verify(place: Path) -> tuple[int, list[str]]:
    """Compare all files of a bundle, packed or unpacked, with its checksums.

    Returns:
        How many files are as they were packed, and the names of others, such as a learner's own notebooks.

    Raises:
        WorkshopError: it is no bundle, or files are missing or changed; it names them all.
    """
    if not place.is_file():
        return _verified(place, place)
    with tempfile.TemporaryDirectory() as folder:
        try:
            shutil.unpack_archive(place, folder, "zip")
        except (OSError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
            raise WorkshopError(f"{place} is no zip that can be read ({error}); copy it again") from None
        return _verified(place, Path(folder, TOP))


def _verified(place: Path, folder: Path) -> tuple[int, list[str]]:
    """As ``verify``; the files of ``place`` are in ``folder``."""
    sums = folder / CHECKSUMS
    if not sums.is_file():
        raise WorkshopError(f"{place} is no bundle: it has no {CHECKSUMS}")
    pairs = [line.partition("  ") for line in sums.read_text("utf-8", errors="replace").splitlines()]
    expected = {name: digest for digest, _, name in pairs}
    wrong = [f"{name} {problem}" for name, digest in expected.items() if (problem := _problem(folder / name, digest))]
    if wrong or not expected:
        why = cut("; ".join(wrong), 4000) or f"{CHECKSUMS} lists no file"
        raise WorkshopError(f"{place} is not as it was packed (edited, or a damaged copy): {why}")
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    others = names - expected.keys() - {CHECKSUMS}
    return len(expected), sorted(name for name in others if not LEFTOVERS.match(name))


def _problem(file: Path, digest: str) -> str:
    """What is wrong with a file that is listed; nothing: an empty string."""
    if not file.is_file():
        return "is missing"
    actual = hashlib.sha256(file.read_bytes()).hexdigest()
    return "" if actual == digest else f"has the checksum {actual[:12]}… in place of {digest[:12]}…"
