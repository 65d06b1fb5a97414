"""Start the notebooks of this folder: python start.py (it needs nothing but Python 3.10 or newer).

Where this Python has snnkit and JupyterLab, they are used. Otherwise an environment is made in `room-env`: from the
wheels in this folder where they are complete, from the network where not.
"""

import os
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
# Nothing beside this file, or in the working directory, takes the place of a module.
sys.path[:] = [path for path in sys.path if path and os.path.realpath(path) != HERE]

import importlib.util  # noqa: E402
import platform  # noqa: E402
import re  # noqa: E402
import shutil  # noqa: E402
import subprocess  # noqa: E402
import venv  # noqa: E402
from pathlib import Path  # noqa: E402

# What wheels call a system in their names, and what Python calls it.
SYSTEMS = {"win": "Windows", "macosx": "Darwin", "manylinux": "Linux", "linux": "Linux"}
NAMES = {"Darwin": "macOS"}
ROOM = Path(HERE) / "room-env"
WHEELS = Path(HERE) / "wheels"
# `python -m` looks into the current folder first; `-P` is known from Python 3.11 on.
MODULE = (
    "import sys, runpy; sys.path[:] = filter(None, sys.path); runpy.run_module(sys.argv.pop(1), {}, '__main__', True)"
)


def python() -> str:
    """The Python that has what is needed."""
    if all(importlib.util.find_spec(name) for name in ("snnkit", "jupyterlab")):
        return sys.executable
    inside = ROOM / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (ROOM / "ready").exists():
        make(inside)
    return str(inside)


def make(inside: Path) -> None:
    """Make the environment. What is missing is said before that where it can be seen, and in a sentence where not."""
    wheels = [wheel.name for wheel in WHEELS.glob("*.whl")]
    kit = [WHEELS / name for name in wheels if name.startswith("snnkit-")]
    if len(kit) != 1:
        sys.exit(
            f"{WHEELS} must hold one wheel of snnkit, but it holds {len(kit)}: unpack the zip into an empty folder"
        )
    own = kit[0]
    packed = len(wheels) > 1  # what snnkit needs is here, too
    if importlib.util.find_spec("ensurepip") is None:
        sys.exit(f"{sys.executable} has no ensurepip: install it first (Debian, Ubuntu: sudo apt install python3-venv)")
    compiled = (re.search(r"-cp3(\d+)-cp3\d+-(win|macosx|manylinux|linux)", name) for name in wheels)
    made_for = {(SYSTEMS[tag[2]], int(tag[1])) for tag in compiled if tag}
    this = (platform.system(), sys.version_info[1])
    if packed and made_for and this not in made_for:
        known = ", ".join(f"{NAMES.get(name, name)} with Python 3.{minor}" for name, minor in sorted(made_for))
        here = f"{NAMES.get(this[0], this[0])} with Python 3.{this[1]}"
        missing = "Python" if this[0] in dict(made_for) else "machine"
        sys.exit(f"The packages in {WHEELS} are for {known}, but this is {here}: use another {missing}")
    print("Making an environment in", ROOM, "(once, a few minutes) ...")
    if not packed:
        print("It asks the network for the packages: this folder was packed without --wheels, and has none of them.")
    venv.create(ROOM, with_pip=True, clear=True)
    offline = ["--no-index"] if packed else ["--retries", "1", "--timeout", "10"]
    pip = [str(inside), "-I", "-m", "pip", "install", "--quiet", *offline, "--find-links", str(WHEELS)]
    done = subprocess.run(
        [*pip, "-c", os.path.join(HERE, "lock.txt"), f"{own}[lab]"], stderr=subprocess.PIPE, text=True
    )
    if done.returncode:
        shutil.rmtree(ROOM, ignore_errors=True)
        which = "fit this system" if packed else "can be had from the network"
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        cure = "ask for a folder packed with --wheels for a system like this one, or use a Python that has JupyterLab"
        sys.exit("\n".join([f"Not all packages {which}: {cure}.", *lines[-2:]]))
    (ROOM / "ready").touch()


def main() -> None:
    """`--check` only says whether everything is in place."""
    chosen = python()
    environment = dict(os.environ)
    data = os.path.join(HERE, "data")
    if os.path.isdir(data):
        environment.setdefault("SNNKIT_DATA", data)
    checking = "--check" in sys.argv[1:]
    rest = ["snnkit.lab.cli", "workshop", "verify", HERE] if checking else ["jupyterlab", "notebooks", *sys.argv[1:]]
    sys.exit(subprocess.run([chosen, "-c", MODULE, *rest], cwd=HERE, env=environment).returncode)


if __name__ == "__main__":
    main()
