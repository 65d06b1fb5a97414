"""What differs on Windows and can be tried anywhere: names that Python lacks there, encodings, shells, paths."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path, PureWindowsPath

import pytest

from snnkit.engine.cpp import toolchain
from snnkit.lab.tools import doctor
from tests.unit.test_bare_system import run

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "snnkit").rglob("*.py"))


def calls(*names):
    """(file, call) of every call of a function or method of these names, or with a keyword of one, in the package."""
    for path in SOURCES:
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if any(name in text for name in names) else ():
            if isinstance(node, ast.Call):
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                if {called, *(keyword.arg for keyword in node.keywords)} & set(names):
                    yield path.relative_to(ROOT), node


def test_every_text_file_is_read_and_written_in_an_encoding_that_is_named():
    """Without one it is that of the system: Windows' has no τ."""
    found = []
    for path, call in calls("open", "read_text", "write_text"):
        text = ast.unparse(call)
        # Of snnkit.files, always UTF-8; no file; archives, sounds and pictures, which are bytes.
        own = re.match(r"(files\.)?write_text\(|between\(|packed\.open\(|wave\.open\(|Image\.open\(", text)
        binary = re.search(r"""open\(.*['"][rwxa+]*b[rwxa+]*['"]\)""", text) or text.endswith(".open()")
        if not own and not binary and "encoding=" not in text and "'utf-8'" not in text:
            found.append(f"{path}:{call.lineno}: {text}")
    assert not found


def test_words_are_quoted_for_a_posix_shell_in_batch_scripts_alone():
    """Which a cluster runs; elsewhere programs get lists of words, and no shell is between."""
    shlexed = [path for path, call in calls("shlex", "quote", "join") if ast.unparse(call.func).startswith("shlex.")]
    assert {path.parts[-2] for path in shlexed} == {"slurm", "tools"}  # tools: doctor, for the shell of the system
    assert not list(calls("shell"))


def test_fixes_are_written_for_the_shell_of_the_system(monkeypatch):
    words = (r"C:\Program Files\Python\python.exe", "-m", "pip")
    assert shlex.split(doctor._typed(*words)) == list(words)
    monkeypatch.setattr(doctor.os, "name", "nt")
    assert doctor._typed(*words) == r'"C:\Program Files\Python\python.exe" -m pip'


def test_what_people_are_told_to_type_has_no_single_quotes():
    """cmd takes them for letters, and > behind one for a redirection. (The cell for Colab runs on Linux.)"""
    told = [text for path in SOURCES for text in re.findall(r"pip install '.*", path.read_text(encoding="utf-8"))]
    assert not told


def test_on_windows_no_compiler_of_unix_is_tried(monkeypatch):
    toolchain.cpp_compiler.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(toolchain.sys, "platform", "win32")
        patch.setattr(toolchain.shutil, "which", lambda name: f"C:/{name}.exe")
        assert toolchain.cpp_compiler() is None
    toolchain.cpp_compiler.cache_clear()


@pytest.mark.parametrize("given", [r"results\xor", r"..\xor", "../xor", r"C:\results", r"\\server\share\xor"])
def test_a_path_out_of_the_folder_of_a_manifest_is_seen_with_either_slash(given):
    import ntpath

    leaves = ntpath.normpath(given).split("\\")[0] == ".."  # as the manifest decides it, by os.path and os.sep there
    assert leaves == (PureWindowsPath(given).parts[0] == "..")


LIBRARY = """
from snnkit.train import launch, slurm
text = slurm.script(slurm.Request("snnkit train digits --checkpoint run.pt"))
assert slurm.check(text) == [] and "--signal=SIGUSR1@90" in text, text
assert [one.rule for one in slurm.check(text.replace("set -e", "trap '' 10"))] == ["signal"]
try:
    launch(["python"], 2)
except OSError as error:
    assert "WSL on Windows" in str(error)
else:
    raise AssertionError
import tempfile, pathlib
from click.testing import CliRunner
from snnkit.lab.cli import main
folder = pathlib.Path(tempfile.mkdtemp())
done = CliRunner().invoke(main, ["lab", "--no-open", "--to", str(folder / "course")])
assert done.exit_code == 0, done.output + repr(done.exception)
(folder / "m.yaml").write_text("{notebook: xor_in_time, out: results, seeds: [0]}")
done = CliRunner().invoke(main, ["sweep", str(folder / "m.yaml")])
assert done.exit_code == 2 and "WSL on Windows" in done.output, done.output
from snnkit.lab.tools import doctor
failed = {line.name for line in doctor.report() if "check failed" in line.value}
assert failed <= {"resources"}, failed  # shutil, which has another way on Windows itself
"""


def test_without_what_only_unix_has_the_lab_opens_and_scripts_for_clusters_are_written():
    run("windows", LIBRARY, PATH="", CXX="")


NO_COMPILER = """
import torch
from snnkit import neuron, nn
net = nn.Sequential(torch.nn.Linear(64, 2048), neuron.Leaky(0.9), torch.nn.Linear(2048, 2048), neuron.LIF())
for _ in range(2):
    net(torch.rand(20, 4, 64))
"""


def test_a_machine_without_a_compiler_is_told_so_once():
    """Not for each kind of neuron, however often it is called."""
    environment = {"PATH": "", "CXX": "", "SNNKIT_HEADLESS": "1", "HOME": str(Path.home())}
    done = subprocess.run(
        [sys.executable, "-c", NO_COMPILER], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("Warning") == 1, done.stderr
    assert "Every neuron runs in the eager engine: the C++ engine needs a C++ compiler" in done.stderr
