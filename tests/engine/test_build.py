"""Kernels in C++ are built once, and no state of the cache folder stops a run."""

import subprocess
from types import SimpleNamespace

import pytest
import torch

from snnkit.engine import CompilationFailed, cpp, explain
from snnkit.engine.cpp import toolchain as build
from snnkit.neuron import LIF

SOURCE = 'extern "C" int answer() { return 42; }'


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """A process that has built nothing yet, and its folder."""
    monkeypatch.setenv("SNNKIT_KERNELS", str(tmp_path / "kernels"))
    monkeypatch.setattr(build, "_loaded", {})
    cpp._kernel.cache_clear()
    build._private_folder.cache_clear()
    return tmp_path / "kernels"


def test_a_library_is_built_once(fresh, monkeypatch):
    assert build.load(SOURCE).answer() == 42
    monkeypatch.setattr(build, "_loaded", {})
    monkeypatch.setattr(build, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build.load(SOURCE).answer() == 42
    assert [path.suffix for path in fresh.iterdir()] == [".so"]


# Loading a shortened one would not raise an error but end the process.
DAMAGE = {
    "empty": lambda b: b"",
    "text": lambda b: b"no library",
    "shifted": lambda b: b[1:],
    "half": lambda b: b[: len(b) // 2],
    "shorter by a byte": lambda b: b[:-1],
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_library_is_built_anew(fresh, monkeypatch, damage):
    build.load(SOURCE)
    (library,) = fresh.iterdir()
    content = library.read_bytes()
    library.unlink()  # this process has it mapped
    library.write_bytes(damage(content))
    monkeypatch.setattr(build, "_loaded", {})
    assert build.load(SOURCE).answer() == 42
    assert build._whole(library)


def test_a_folder_that_can_not_be_made(fresh):
    fresh.write_text("a file where the folder should be")
    assert build.load(SOURCE).answer() == 42


def put_compiler(monkeypatch, code, error):
    """Every call of the compiler ends with this code; the list of calls."""
    calls = []

    def run(command, **_):
        calls.append(command)
        return subprocess.CompletedProcess(command, code, "", error)

    monkeypatch.setattr(build, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setattr(build, "_version", lambda _: "1")
    return calls


def test_a_compiler_that_makes_nothing_is_asked_once(monkeypatch):
    calls = put_compiler(monkeypatch, 0, "")
    with pytest.raises(CompilationFailed):
        build.load(SOURCE)
    first = len(calls)
    assert first > 0
    with pytest.raises(CompilationFailed):
        build.load(SOURCE)
    assert len(calls) == first


def test_a_compiler_that_refuses_leaves_another_engine(monkeypatch):
    put_compiler(monkeypatch, 1, "error: out of order")
    x = torch.rand(4, 3, 5)
    with pytest.warns(UserWarning, match=r"LIF runs in the \w+ engine: .*out of order"):
        out = LIF(engine="cpp")(x)[0]
    torch.testing.assert_close(out, LIF(engine="eager")(x)[0], rtol=0, atol=0)
    (row,) = explain(LIF(engine="cpp"), x)
    assert row.engine != "cpp" and "out of order" in row.reason
