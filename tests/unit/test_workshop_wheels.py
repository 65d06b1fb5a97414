"""The wheels of a bundle for other systems: what is asked of pip, which is faked here, and what is packed."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from snnkit.lab import pages
from snnkit.lab.cli import main
from snnkit.lab.tools.project import find
from snnkit.lab.workshop import bundle, wheels
from snnkit.lab.workshop.timetable import WorkshopError

LOCK = Path(__file__).parents[2] / "constraints" / "lock.txt"
# As these packages say it of themselves.
REQUIRES = {
    "snnkit": ("torch>=2.8", "click>=8.1", "jupyterlab>=4.2; extra == 'lab'", "ruff; extra == 'dev'"),
    "torch": (
        "sympy>=1.13.3",
        "cuda-toolkit[cublas,nvrtc]==13.0.3; platform_system == 'Linux'",
        "nvidia-cudnn-cu13==9.20.0.48; platform_system == 'Linux'",
        "triton==3.7.1; platform_system == 'Linux' and python_version < '3.15'",
        "optree>=0.13.0; extra == 'optree'",
    ),
    "cuda-toolkit": ("nvidia-cublas; extra == 'cublas'", "nvidia-cufft; extra == 'cufft'"),
    "sympy": ("mpmath<1.4,>=1.1.0",),
    "mpmath": ("sympy; extra == 'all'",),
    "click": ('colorama; platform_system == "Windows"',),
    "jupyterlab": ("terminado>=0.8.3", "beautifulsoup4", "ipykernel>=6.17", "tomli>=1.2.2; python_version < '3.11'"),
    "terminado": ('ptyprocess; os_name != "nt"', 'pywinpty>=1.1.0; os_name == "nt"', "Not_In.the-Lock>=2"),
    "ipykernel": ('appnope>=0.1.2; platform_system == "Darwin"',),
    "beautifulsoup4": ("soupsieve>=1.6.1",),
}
SHARED = {"torch", "click", "sympy", "mpmath", "jupyterlab", "terminado", "beautifulsoup4", "ipykernel", "soupsieve"}


def wheel(folder, name, version="1"):
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as archive:
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {one}" for one in REQUIRES.get(name, ())]
        archive.writestr(f"{stem}.dist-info/METADATA", "\n".join(lines) + "\n")
    return folder / f"{stem}-py3-none-any.whl"


@pytest.fixture
def asked(monkeypatch):
    """Each call of pip: its options, and the requirements, for which it makes wheels."""
    calls = []

    def run(command, **options):
        folder = Path(command[command.index("--outdir" if "build" in command else "--dest") + 1])
        if "build" in command:
            wheel(folder, "snnkit")
            return subprocess.CompletedProcess(command, 0)
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        named = [word for word in command if "==" in word or ">=" in word]
        calls.append(({word for word in command if word not in named}, named))
        for one in named:
            name, _, version = one.replace(">=", "==").partition("==")
            wheel(folder, name.lower().replace(".", "-").replace("_", "-"), version)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    return calls


@pytest.mark.parametrize(
    ("platform", "tag", "own"),
    [
        ("windows", "win_amd64", {"colorama", "pywinpty"}),
        ("macos", "macosx_14_0_arm64", {"appnope", "ptyprocess"}),
        (
            "linux",
            "manylinux_2_28_x86_64",
            {"ptyprocess", "triton", "cuda-toolkit", "nvidia-cublas", "nvidia-cudnn-cu13"},
        ),
    ],
)
def test_each_system_gets_what_it_needs_in_the_versions_of_the_lock(asked, tmp_path, platform, tag, own):
    had = wheels.for_other(wheel(tmp_path, "snnkit"), LOCK, tmp_path / "to", platform, "3.12")
    named = {one.partition("==")[0]: one for _, all_of_them in asked for one in all_of_them}
    assert named.pop("Not_In.the-Lock>=2") and named.keys() == SHARED | own
    assert len(named) + 1 == len(had) == sum(len(all_of_them) for _, all_of_them in asked)  # each once
    pins = LOCK.read_text(encoding="utf-8").splitlines()
    assert all(any(line.split(" ;")[0] == one for line in pins) for one in named.values())
    expected = {"--platform", tag, "--python-version", "3.12.0", "--no-deps", "--only-binary=:all:"}
    assert all(expected <= options for options, _ in asked)


def test_where_the_lock_tells_early_from_late_releases_both_get_theirs(asked, tmp_path):
    had = wheels.for_other(wheel(tmp_path, "snnkit"), LOCK, tmp_path / "to", "windows", "3.11")
    names = [one.name for one in had]
    assert {"soupsieve-2.10-py3-none-any.whl", "soupsieve-4.1.1-py3-none-any.whl"} <= set(names)
    assert {version for options, _ in asked for version in options & {"3.11.0", "3.11.99"}} == {"3.11.0", "3.11.99"}


@pytest.mark.parametrize("python", ["3.10.0", "3.13.0"])
def test_the_lock_for_windows_and_macos_has_neither_cuda_nor_triton(python):
    windows, macos, linux = (wheels.pinned(LOCK, one, python) for one in wheels.SYSTEMS)
    assert {"colorama", "pywinpty"} <= windows.keys() and {"appnope", "pexpect"} <= macos.keys()
    assert not [one for one in {*windows, *macos} if one.startswith(("nvidia-", "cuda-", "triton"))]
    assert {"triton", "nvidia-cublas"} <= linux.keys()


def test_a_bundle_for_two_systems_has_the_wheels_of_both_and_says_so(asked, tmp_path, monkeypatch):
    for page in ("playground", "reader"):  # they take seconds; tests/notebooks/test_room.py makes them
        monkeypatch.setattr(pages, page, lambda path: path.write_bytes(b"page") and path)
    options = {"wheels": True, "platforms": ["windows", "macos", "windows"], "pythons": ["3.12"]}
    made = zipfile.ZipFile(bundle.build(find(), tmp_path, **options))
    packed = [name.rpartition("/")[2].partition("-")[0] for name in made.namelist() if name.endswith(".whl")]
    assert sorted(packed) == sorted(
        {*SHARED, "snnkit", "not_in_the_lock", "colorama", "pywinpty", "appnope", "ptyprocess"}
    )
    text = made.read(f"{bundle.TOP}/START.md").decode()
    assert "It needs Python 3.12 on Windows (64 bit) or macOS 14 or newer (Apple silicon), and nothing from a" in text


def test_what_pip_says_comes_with_the_system(tmp_path, monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "ERROR: No matching distribution found for torch==2.13.0")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(WorkshopError, match=r"for Windows \(64 bit\), Python 3.12:\nERROR: No matching .* torch"):
        wheels.for_other(wheel(tmp_path, "snnkit"), LOCK, tmp_path / "to", "windows", "3.12")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--wheels --platform solaris", "platform must be of windows, macos, linux, but it is 'solaris'"),
        ("--wheels --platform macos --python 3.9", "python must be 3.10 or newer, written as 3.12, but it is '3.9'"),
        ("--wheels --platform macos --python 3.12.1", "but it is '3.12.1'"),
        ("--wheels --python 3.12", "python goes with platform"),
        ("--platform macos", "platform goes with wheels"),
    ],
)
def test_unknown_systems_and_versions_are_refused_before_anything_is_made(asked, tmp_path, words, says):
    done = CliRunner().invoke(main, ["workshop", "bundle", "--out", str(tmp_path / "out"), *words.split()])
    assert done.exit_code == 2 and says in done.output and not (tmp_path / "out").exists() and not asked, done.output


@pytest.mark.slow
def test_pip_finds_the_wheels_of_another_system(tmp_path, monkeypatch):
    monkeypatch.setitem(REQUIRES, "snnkit", ("tqdm", "markupsafe"))
    try:
        had = wheels.for_other(wheel(tmp_path, "snnkit"), LOCK, tmp_path / "to", "windows", "3.12")
    except WorkshopError as error:
        if "NewConnectionError" in str(error) or "from versions: none" in str(error):
            pytest.skip("needs a package index")
        raise
    colorama, markupsafe, tqdm = sorted((one.name for one in had), key=str.lower)
    assert tqdm.startswith("tqdm-") and colorama.startswith("colorama-0.4.6-")
    assert markupsafe.endswith("-cp312-cp312-win_amd64.whl")
