"""Start the notebooks of this folder: python start.py (it needs nothing but Python 3.10 or newer).

Where this Python has snnkit and JupyterLab, they are used. Otherwise an environment is made in `room-env`: from the
wheels in this folder where they are complete, from the network where not.
"""

import importlib.util
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOM = HERE / "room-env"


def python() -> str:
    """The Python that has what is needed."""
    if all(importlib.util.find_spec(name) for name in ("snnkit", "jupyterlab")):
        return sys.executable
    inside = ROOM / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (ROOM / "ready").exists():
        print("Making an environment in", ROOM, "(once, a few minutes) ...")
        venv.create(ROOM, with_pip=True, clear=True)
        wheels = HERE / "wheels"
        (wheel,) = wheels.glob("snnkit-*.whl")
        # More than one wheel: those that snnkit needs are here, too.
        offline = ["--no-index"] if len(list(wheels.glob("*.whl"))) > 1 else []
        pip = [str(inside), "-m", "pip", "install", "--quiet", *offline, "--find-links", str(wheels)]
        subprocess.run([*pip, "-c", str(HERE / "lock.txt"), f"{wheel}[lab]"], check=True)
        (ROOM / "ready").touch()
    return str(inside)


def main() -> None:
    """`--check` only says whether everything is in place."""
    chosen = python()
    environment = dict(os.environ)
    if (HERE / "data").is_dir():
        environment.setdefault("SNNKIT_DATA", str(HERE / "data"))
    if "--check" in sys.argv[1:]:
        command = [chosen, "-m", "snnkit.cli", "workshop", "verify", str(HERE)]
    else:
        command = [chosen, "-m", "jupyterlab", "notebooks", *sys.argv[1:]]
    sys.exit(subprocess.run(command, cwd=HERE, env=environment).returncode)


if __name__ == "__main__":
    main()
