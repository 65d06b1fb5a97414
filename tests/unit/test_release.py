"""What is released: one version, an archive of the sources, and a wheel that works in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import yaml

import snnkit

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
    # Of a link the wheel has the files that it leads to.
    assert {name for name in listed.stdout.split() if not (ROOT / name).is_symlink()} <= inside
    assert "snnkit/lab/sweep/workers/xor_in_time.ipynb" in inside
    assert "snnkit/py.typed" in inside


def test_the_sources_have_what_it_takes_to_build_and_test(released):
    top = released[0].name.removesuffix(".tar.gz")
    with tarfile.open(released[0]) as archive:
        names = {name.removeprefix(f"{top}/") for name in archive.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "Makefile", "notebooks/src/00_preflight.py"} <= names
    assert not [name for name in names if name.startswith((".venv", "build/", "data/", ".cache"))]


def test_the_wheel_works_alone(released, tmp_path):
    venv.create(tmp_path / "env", with_pip=False)
    python = tmp_path / "env" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, str(released[1])], check=True)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    # Others' packages, without what .pth files in there name: this project, installed to be edited.
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    names = "import snnkit, snnkit.records as r; print(snnkit.__file__, len(r.names()), snnkit.neuron.LIF())"
    shown = run(python, "-c", names, cwd=tmp_path)
    assert Path(shown.split()[0]).is_relative_to(site) and int(shown.split()[1]) > 0
    command = tmp_path / "env" / "bin" / "snnkit"
    assert run(command, "--version", cwd=tmp_path).strip() == f"snnkit, version {snnkit.__version__}"
    assert "SpikingJelly" in run(command, "bench", "show", "cpu_epyc_1thread", cwd=tmp_path)


def run(*command, cwd):
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout
