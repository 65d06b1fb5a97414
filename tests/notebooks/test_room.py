"""A room without a network: the bundle, unpacked in an empty folder, with nothing else of this project."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from snnkit.lab.tools.project import find
from snnkit.lab.workshop import bundle

pytestmark = pytest.mark.slow
NAMES = ("00", "04")  # what reads a page of the kit, and what loads data and trains


def can_cut_off():
    """Whether a process can be started without any network but its own loopback."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    return subprocess.run(["unshare", "--net", "ip", "link", "set", "lo", "up"], capture_output=True).returncode == 0


@pytest.fixture(scope="session")
def packed(tmp_path_factory):
    return bundle.build(find(), tmp_path_factory.mktemp("bundle"))


@pytest.fixture(scope="session")
def room(packed, tmp_path_factory):
    """The bundle's folder, and a Python that has its wheel and other people's packages."""
    folder = tmp_path_factory.mktemp("room")
    zipfile.ZipFile(packed).extractall(folder)
    place = folder / bundle.TOP
    venv.create(folder / "env", with_pip=False)
    python = folder / "env" / "bin" / "python"
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    (wheel,) = (place / "wheels").glob("snnkit-*.whl")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(wheel)], check=True)
    # As text, so that what the .pth files in there name is not seen: the project itself, installed to be edited.
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return place, python


def offline(python, *arguments, cwd):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SNNKIT", "PYTHON"))}
    environment |= {"HOME": str(cwd / "home"), "PYTHONSAFEPATH": "1"}
    inside = 'ip link set lo up && exec "$@"'
    command = ["unshare", "--net", "sh", "-c", inside, "sh", str(python), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=900)


@pytest.mark.skipif(not can_cut_off(), reason="needs root, unshare and ip, to cut a process off from the network")
def test_the_first_notebooks_run_without_a_network(room, tmp_path):
    place, python = room
    where = offline(python, "-c", "import snnkit; print(snnkit.__file__)", cwd=tmp_path)
    assert where.returncode == 0 and Path(where.stdout.strip()).is_relative_to(python.parents[1]), where
    alone = offline(python, "-c", "import socket; socket.create_connection(('192.0.2.1', 80), 3)", cwd=tmp_path)
    assert alone.returncode != 0 and "OSError" in alone.stderr  # or the rest would prove nothing
    for name in NAMES:
        (notebook,) = (place / "notebooks").glob(f"{name}_*.ipynb")
        done = offline(python, "-m", "papermill", notebook, tmp_path / notebook.name, "-k", "python3", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr


def test_start_checks_the_bundle(room):
    place, python = room
    done = subprocess.run([python, place / "start.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0 and "files are as they were packed" in done.stdout, done


def test_what_is_in_it(packed):
    names = zipfile.ZipFile(packed).namelist()
    assert {f"{bundle.TOP}/notebooks/{name}.ipynb" for name in find().names()} <= set(names)
    assert not any("facilitator" in name or "solution" in name or "/src/" in name for name in names)
    assert {f"{bundle.TOP}/playground.html", f"{bundle.TOP}/reader.html"} <= set(names)
    assert sum(name.endswith(".whl") for name in names) == 1
    assert packed.stat().st_size < 10e6
