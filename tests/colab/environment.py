"""An environment with Colab's versions (constraints/colab.txt), made once and kept until they change.

What is large, and what the list lacks or can't have on this Python, is lent by the environment that runs the tests:
only what is needed, so that the rest is missing here as it is on Colab (JupyterLab).
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PINS = ROOT / "constraints" / "colab.txt"
# Colab has TensorBoard and polars; the last two are installed there by notebook 15.
LENT = ("torch", "scikit-learn", "tensorboard", "polars", "lightning", "torchmetrics")
# Imports what is lent from where it is. (Links would give the files of PyTorch two names each, which confuses Dynamo.)
FINDER = """import sys
from importlib.machinery import PathFinder

PLACES = {places!r}


class Lent:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [PLACES[name]]) if path is None and name in PLACES else None


sys.meta_path.append(Lent)  # comes after what is installed here
"""
# Without these it would not be Colab.
CORE = ("ipykernel", "ipython", "ipywidgets", "plotly", "anywidget")
PIP = ("install", "--quiet", "--no-deps", "--no-compile", "--retries", "2", "--timeout", "30")
OFFLINE = re.compile(r"from versions: none|NewConnectionError|NameResolutionError|No module named pip", re.IGNORECASE)


class Unavailable(Exception):
    """There is no pip here, or it reaches no index."""


@dataclass(frozen=True)
class Environment:
    """The interpreter, and which pins are not in it, with pip's reasons."""

    python: Path
    left_out: dict[str, str]


def environment(cache: Path) -> Environment:
    """The environment, from ``cache`` or made there (a minute); safe to ask for in several processes.

    Raises:
        Unavailable: packages can't be had here.
        RuntimeError: pip refuses one of the packages that make it Colab.
    """
    pins = pins_in(PINS.read_text(encoding="utf-8"))
    folder = cache / _key(pins)
    done = folder / "left_out.json"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            left_out = _make(folder, pins)
            done.write_text(json.dumps(left_out, indent=1), encoding="utf-8")
    return Environment(_python(folder), json.loads(done.read_text(encoding="utf-8")))


def pins_in(text: str) -> list[str]:
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    return [line for line in lines if line]


def _key(pins: list[str]) -> str:
    lent = sorted(f"{dist.metadata['Name']}=={dist.version}" for dist in importlib.metadata.distributions())
    told = json.dumps([pins, lent, sys.version, sys.prefix, Path(__file__).read_text(encoding="utf-8")])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def _make(folder: Path, pins: list[str]) -> dict[str, str]:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True, stdin=subprocess.DEVNULL)
    left_out = _install(_python(folder), pins)
    wanting = [name for name in CORE if name in left_out]
    if wanting:
        raise RuntimeError(f"pip did not install {wanting[0]} of {PINS}: {left_out[wanting[0]]}")

    (site,) = (folder / "lib").glob("python*/site-packages")
    there = {canonicalize_name(path.name.split("-")[0]) for path in site.glob("*.dist-info")}
    lent = folder / "lent"
    lent.mkdir()
    places = {"snnkit": str(ROOT)} | _lend([*LENT, *left_out], there, lent)
    (site / "lent_finder.py").write_text(FINDER.format(places=places), encoding="utf-8")
    (site / "lent.pth").write_text(f"{lent}\nimport lent_finder\n", encoding="utf-8")
    return left_out


def _install(python: Path, pins: list[str]) -> dict[str, str]:
    """Install ``pins``: all at once, or if that fails one by one; what failed, with the reason."""
    if _pip(python, pins) is None:
        return {}
    refused = {pin: _pip(python, [pin]) for pin in sorted(pins, key=lambda pin: pin.split("==")[0] not in CORE)}
    return {canonicalize_name(pin.split("==")[0]): why for pin, why in refused.items() if why is not None}


def _pip(python: Path, pins: list[str]) -> str | None:
    """None if it went well, else pip's last word. Raises Unavailable."""
    command = [sys.executable, "-m", "pip", "--python", python, *PIP, *pins]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode == 0:
        return None
    told = [line for line in done.stderr.splitlines() if line.strip() and "WARNING" not in line]
    if OFFLINE.search(done.stderr):
        raise Unavailable(told[-1] if told else "pip failed")
    return told[-1] if told else f"pip ended with {done.returncode}"


def _lend(names: Iterable[str], there: set[str], folder: Path) -> dict[str, str]:
    """The packages ``names`` and all that they ask for, but for those ``there`` already: where each module is.

    Their metadata are linked into ``folder``, and so are packages that several distributions share (``google``).
    """
    waiting, seen, places = list(names), set(there), {}
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        try:
            package = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # optional here as it is on Colab
        for top in {file.parts[0] for file in package.files or ()} - {"..", "__pycache__"}:
            place = Path(str(package.locate_file(top)))
            if place.is_dir() and not (place / "__init__.py").exists():
                link = folder / top
                if not link.exists():
                    link.symlink_to(place)
            else:
                places[top.partition(".")[0]] = str(place.parent)
        wanted = map(Requirement, package.requires or ())
        waiting += [one.name for one in wanted if one.marker is None or one.marker.evaluate({"extra": ""})]
    return places


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"
