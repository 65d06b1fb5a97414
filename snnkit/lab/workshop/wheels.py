"""The wheels of a bundle: what the notebooks need, for this machine or for other systems.

pip chooses files for another system by their tags, but asks for what this one needs: on Linux, a set for Windows would
lack colorama, and have CUDA's libraries. So the markers of the lock file and of each wheel are evaluated here.
"""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from snnkit import checks
from snnkit.lab.workshop.timetable import WorkshopError


class System(NamedTuple):
    """Machines for which wheels can be had from any other."""

    title: str
    tags: tuple[str, ...]  # of platforms; pip adds older versions of macOS by itself, but not those of glibc
    sys_platform: str
    platform_system: str
    platform_machine: str

    def environment(self, python: str) -> dict[str, str]:
        """What markers ask, for a Python such as "3.12.0"."""
        return {
            "os_name": "nt" if self.sys_platform == "win32" else "posix",
            "sys_platform": self.sys_platform,
            "platform_system": self.platform_system,
            "platform_machine": self.platform_machine,
            "platform_release": "",
            "platform_version": "",
            "python_version": python.rpartition(".")[0],
            "python_full_version": python,
            "implementation_name": "cpython",
            "implementation_version": python,
            "platform_python_implementation": "CPython",
            "extra": "",
        }


GLIBC = tuple(f"manylinux_2_{minor}_x86_64" for minor in range(28, 16, -1))
SYSTEMS = {
    "windows": System("Windows (64 bit)", ("win_amd64",), "win32", "Windows", "AMD64"),
    "macos": System("macOS 14 or newer (Apple silicon)", ("macosx_14_0_arm64",), "darwin", "Darwin", "arm64"),
    "linux": System("Linux (x86_64, glibc 2.28)", (*GLIBC, "manylinux2014_x86_64"), "linux", "Linux", "x86_64"),
}


@checks.arguments
def check(platforms: Sequence[str], pythons: Sequence[str]) -> None:
    """Raise a WorkshopError unless these are known systems, and versions such as "3.12"."""
    for one in platforms:
        if one not in SYSTEMS:
            raise WorkshopError(f"platform must be of {', '.join(SYSTEMS)}, but it is {one!r}")
    for one in pythons:
        if not re.fullmatch(r"3\.[1-9][0-9]", one):
            raise WorkshopError(f"python must be 3.10 or newer, written as 3.12, but it is {one!r}")
    if pythons and not platforms:
        raise WorkshopError("python goes with platform: name the system, too")


@checks.arguments
def pinned(lock: Path, platform: str, python: str) -> dict[str, str]:
    """The requirements of a lock file that hold for a system and a full version of Python, by package."""
    environment = SYSTEMS[checks.choice("platform", platform, SYSTEMS)].environment(python)
    lines = [Requirement(line) for line in lock.read_text(encoding="utf-8").splitlines() if line]
    held = [one for one in lines if one.marker is None or one.marker.evaluate(environment)]
    return {canonicalize_name(one.name): f"{one.name}{one.specifier}" for one in held}


@checks.arguments
def own(root: Path, folder: Path) -> Path:
    """Make the wheel of the project itself."""
    made = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(root)]
    _run(made, "the wheel can't be made (pip install build hatchling)")
    (wheel,) = folder.glob("*.whl")
    return wheel


@checks.arguments
def for_this_machine(wheel: Path, lock: Path, folder: Path) -> list[Path]:
    """Download what the notebooks need here into a folder."""
    _download(folder, ["-c", str(lock), f"{wheel}[lab]"], "this machine")
    return sorted(folder.glob("*.whl"))


@checks.arguments
def for_other(wheel: Path, lock: Path, folder: Path, platform: str, python: str) -> list[Path]:
    """Download what the notebooks need on another system into a folder.

    Args:
        wheel: of snnkit; what it and its extra ``lab`` require, is had in the versions of the lock file.
        python: such as "3.12". The lock may tell its first releases from later ones: then both get theirs.
    """
    system, had = SYSTEMS[platform], {}
    for full in (f"{python}.0", f"{python}.99"):
        pins = pinned(lock, platform, full)
        if pins == had:
            continue
        had, place = pins, folder / full
        target = [word for tag in system.tags for word in ("--platform", tag)]
        target += ["--python-version", full, "--implementation", "cp", "--only-binary=:all:", "--no-deps"]
        wheels, seen, todo = {"snnkit": wheel}, set(), {("snnkit", ""), ("snnkit", "lab")}
        while todo:
            seen |= todo
            required = [one for name, extra in todo for one in _requires(wheels[name], system.environment(full), extra)]
            todo = {(canonicalize_name(one.name), extra) for one in required for extra in ("", *one.extras)} - seen
            names = {canonicalize_name(one.name): f"{one.name}{one.specifier}" for one in required}
            if wanted := sorted(pins.get(name, names[name]) for name in {name for name, _ in todo} - wheels.keys()):
                _download(place, [*target, *wanted], f"{system.title}, Python {python}")
                wheels |= {parse_wheel_filename(one.name)[0]: one for one in place.glob("*.whl")}
    return sorted(folder.glob("*/*.whl"))


def _requires(wheel: Path, environment: dict[str, str], extra: str) -> list[Requirement]:
    """What a wheel needs in an environment, by its own metadata."""
    (info,) = (one for one in zipfile.Path(wheel).iterdir() if one.name.endswith(".dist-info"))
    lines = [Requirement(line) for line in PathDistribution(info).requires or ()]
    return [one for one in lines if one.marker is None or one.marker.evaluate(environment | {"extra": extra})]


def _download(folder: Path, what: list[str], where: str) -> None:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), *what]
    _run(command, f"not all packages could be had for {where}")


def _run(command: list[str], complaint: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise WorkshopError(f"{complaint}:\n{(done.stderr or done.stdout).strip()[-2000:]}")
