"""What is released: one version, an archive of the sources, and a wheel that works in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml
from jupyter_core.paths import jupyter_path

import snnkit
from snnkit.lab.tools.project import find

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """(sdist, wheel), the wheel made from the sdist, as an index's users may have to."""
    out = tmp_path_factory.mktemp("dist")
    made = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(made, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (sdist,), (wheel,) = out.glob("*.tar.gz"), out.glob("*.whl")
    return sdist, wheel


def test_one_version(released):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == snnkit.__version__
    assert f"## {snnkit.__version__} " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert [path.name.split("-")[1].removesuffix(".tar.gz") for path in released] == [snnkit.__version__] * 2


def test_the_wheel_has_everything_that_the_package_has(released):
    listed = subprocess.run(["git", "ls-files", "--", "snnkit"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("needs a clone")
    inside = {name for name in zipfile.ZipFile(released[1]).namelist() if name.startswith("snnkit/")}
    assert set(listed.stdout.split()) <= inside
    assert "snnkit/py.typed" in inside


def test_the_wheel_has_the_notebooks_without_their_sources_and_is_no_larger_than_that(released):
    wheel, place = zipfile.ZipFile(released[1]), "snnkit/lab/notebooks/"
    inside = {name.removeprefix(place): wheel.read(name) for name in wheel.namelist() if name.startswith(place)}
    names = [*find(ROOT).names(), *find(ROOT).workers()]
    assert inside == {f"{name}.ipynb": find(ROOT).pair(name).read_bytes() for name in names}
    packed = sum(entry.compress_size for entry in wheel.infolist() if entry.filename.startswith(place))
    assert packed < 600_000


def test_no_file_of_the_project_is_a_link():
    """Windows gets none from a clone or an archive."""
    listed = subprocess.run(["git", "ls-files", "--stage"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("needs a clone")
    assert not [line for line in listed.stdout.splitlines() if line.startswith("120000")]


def test_the_sources_have_what_it_takes_to_build_and_test(released):
    top = released[0].name.removesuffix(".tar.gz")
    with tarfile.open(released[0]) as archive:
        names = {name.removeprefix(f"{top}/") for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "Makefile", "notebooks/src/00_preflight.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "build/", "data/", ".cache"))]


@pytest.fixture(scope="module")
def programs(released, tmp_path_factory):
    """The folder of those of an environment with the wheel, which has others' packages from the one that runs this."""
    folder = tmp_path_factory.mktemp("env")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(released[1])], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    # Without what .pth files in there name: this project, installed to be edited.
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python.parent


def test_the_wheel_works_alone(programs, tmp_path):
    names = "import snnkit, snnkit.records as r; print(snnkit.__file__, len(r.names()), snnkit.neuron.LIF())"
    shown = run(programs / "python", "-c", names, cwd=tmp_path)
    assert Path(shown.split()[0]).is_relative_to(programs.parent) and int(shown.split()[1]) > 0
    assert run(programs / "snnkit", "--version", cwd=tmp_path).strip() == f"snnkit, version {snnkit.__version__}"
    assert "SpikingJelly" in run(programs / "snnkit", "bench", "show", "cpu_epyc_1thread", cwd=tmp_path)


@pytest.mark.notebook
def test_from_the_wheel_to_notebook_00(programs, tmp_path, monkeypatch):
    # Templates of others' packages are not in site-packages.
    monkeypatch.setenv("JUPYTER_PATH", os.pathsep.join(jupyter_path()))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run(programs / "snnkit", "lab", "--no-open", "--to", "course", cwd=tmp_path)
    assert "00_preflight  ok" in run(programs / "snnkit", "run", "00", cwd=tmp_path / "course")
    # It finds the notebook, whose parameter this does not fit.
    (tmp_path / "m.yaml").write_text("notebook: xor_in_time\nout: results\nseeds: [one]\n")
    done = subprocess.run([programs / "snnkit", "sweep", "m.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "parameter SEED must be int" in " ".join(done.stderr.split())


def run(*command, cwd):
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


# --- publishing -------------------------------------------------------------------------------------------------------


def test_both_archives_pass_the_checks_of_make_release(released):
    for module, package in (("twine", "twine"), ("check_wheel_contents", "check-wheel-contents")):
        pytest.importorskip(module, reason=f"{package} is not installed: pip install -e '.[release]'")
    run(sys.executable, "-m", "twine", "check", "--strict", *released, cwd=ROOT)
    run(sys.executable, "-m", "check_wheel_contents", released[1], cwd=ROOT)
