"""Kernels in C++ are built once, and no state of the cache folder stops a run."""

import itertools
import os
import pwd
import re
import subprocess
import threading
import warnings
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from click.testing import CliRunner

from snnkit.engine import CompilationFailed, block, code_cache, cpp, cpp_compiler, equation_of, explain
from snnkit.engine.cpp import toolchain as build
from snnkit.lab.cli import main
from snnkit.neuron import LI, LIF, PLIF, QIF, AdEx, Alpha, Readout
from snnkit.train.step import Compiled

SOURCE = 'extern "C" int answer() { return 42; }'


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """A process that has built nothing yet, and its folder."""
    monkeypatch.setenv("SNNKIT_KERNELS", str(tmp_path / "kernels"))
    monkeypatch.setattr(build, "loaded", {})
    cpp._forward_launch.cache_clear()
    cpp._backward_launch.cache_clear()
    cpp.expect_backward.cache_clear()
    code_cache.private_folder.cache_clear()
    monkeypatch.setattr(code_cache, "_warned", set())
    return tmp_path / "kernels"


def test_a_library_is_built_once(fresh, monkeypatch):
    assert build.load(SOURCE).answer() == 42
    monkeypatch.setattr(build, "loaded", {})
    monkeypatch.setattr(build, "_compile", lambda *_: pytest.fail("compiled again"))
    assert build.load(SOURCE).answer() == 42
    assert [path.suffix for path in fresh.iterdir()] == [".so"]


def test_kernels_are_compiled_side_by_side_and_each_once(fresh, monkeypatch):
    both, compiled, compile_one = threading.Barrier(2), [], build._compile

    def compile_beside_another(program, source, target):
        compiled.append(source)
        both.wait(timeout=30)  # until another one is at it, too
        compile_one(program, source, target)

    monkeypatch.setattr(build, "_compile", compile_beside_another)
    build.load_ahead(other := SOURCE.replace("42", "43"))
    with ThreadPoolExecutor(4) as pool:
        assert {library.answer() for library in pool.map(build.load, [SOURCE] * 4)} == {42}
    assert build.load(other).answer() == 43 and len(compiled) == 2


def test_an_interrupted_compilation_is_begun_again(fresh, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(build, "_compile", interrupted)
        build.load(SOURCE)
    assert build.load(SOURCE).answer() == 42


def test_doctor_compiles_what_a_first_call_needs(fresh, monkeypatch):
    flags = ["-O0" if flag == "-O3" else flag for flag in build._FLAGS]  # which kernels, not how fast
    monkeypatch.setattr(build, "_FLAGS", tuple(flags))
    assert "neurons compiled" in CliRunner().invoke(main, ["doctor", "--warm"]).output
    monkeypatch.setattr(build, "loaded", {})
    monkeypatch.setattr(build, "_compile", lambda *_: pytest.fail("compiled again"))
    defaults = (LIF(), PLIF(), QIF(), AdEx(), LI(), Readout(0.8), Alpha(0.8, 0.7))
    for neuron, shape in itertools.product(defaults, ((16, 1, 8), (16, 1, 4096))):
        x = (0.1 * torch.rand(shape)).requires_grad_()
        neuron(x)[0].sum().backward()


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
    monkeypatch.setattr(build, "loaded", {})
    assert build.load(SOURCE).answer() == 42
    assert build._whole(library)


def test_a_pipe_in_place_of_a_library_is_not_waited_for_and_folders_of_killed_compilers_go(fresh, monkeypatch):
    build.load(SOURCE)
    (library,) = fresh.iterdir()
    library.unlink()
    os.mkfifo(library)
    left, busy = (fresh / f"{library.stem}{end}" for end in ("abc_1234", "abc_5678"))
    for folder in (left, busy):
        folder.mkdir()
        (folder / "half.so").write_text("half")
    os.utime(left, (0, 0))
    monkeypatch.setattr(build, "loaded", {})
    assert build.load(SOURCE).answer() == 42
    assert sorted(fresh.iterdir()) == sorted([library, busy]) and library.is_file()


@pytest.fixture
def said():
    """Every warning as text, said at any moment of the test."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield lambda: [str(warning.message) for warning in caught if issubclass(warning.category, UserWarning)]


def full_disk(fresh, monkeypatch):
    """The linker is who notices."""

    def run(command, **options):
        if Path(command[-1]).is_relative_to(fresh):
            return subprocess.CompletedProcess(command, 1, "", "ld: final link failed: No space left on device")
        return subprocess.run(command, **options)

    monkeypatch.setattr(build, "subprocess", SimpleNamespace(run=run))


def no_home(fresh, monkeypatch):
    def unknown(user):
        raise KeyError(user)

    for name in ("HOME", "SNNKIT_KERNELS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)


UNUSABLE = {
    "Not a directory|File exists": lambda fresh, _: fresh.write_text("a file where the folder should be"),
    "No space left on device": full_disk,
    "there is no such home folder: '~/.cache": no_home,
    "no such home folder: '~no-one-at-all/k'": lambda _, patch: patch.setenv("SNNKIT_KERNELS", "~no-one-at-all/k"),
}


@pytest.mark.refused
@pytest.mark.parametrize(("reason", "make"), UNUSABLE.items(), ids=["file", "full", "no home", "unknown user"])
def test_without_a_folder_libraries_are_built_for_the_process_and_that_is_said_once(
    fresh, monkeypatch, said, reason, make
):
    make(fresh, monkeypatch)
    assert [build.load(SOURCE + " " * i).answer() for i in range(3)] == [42] * 3
    (warning,) = said()
    assert re.search(f"in each process.*{reason}", warning)


def planted(fresh):
    """Another library, sealed, where that of ``SOURCE`` is looked for; neither is loaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build.ctypes, "CDLL", lambda path: None)
        build._loadable(SOURCE, fresh)
    (library,) = fresh.iterdir()
    build._compile(build.cpp_compiler(), SOURCE.replace("42", "666"), library)
    assert build._whole(library)
    return library


# Who could have put it there; whether only the file gives it away.
STRANGERS = {
    "folder for all": (lambda library: library.parent.chmod(0o777), False),
    "folder for a group": (lambda library: (os.chown(library.parent, -1, 1), library.parent.chmod(0o775)), False),
    "sticky folder": (lambda library: library.parent.chmod(0o1777), False),
    "folder of another user": (lambda library: os.chown(library.parent, 12345, -1), False),
    "folder in a folder for all": (lambda library: library.parent.parent.chmod(0o777), False),
    "file for all": (lambda library: library.chmod(0o777), True),
    "file of another user": (lambda library: os.chown(library, 12345, -1), True),
}


@pytest.mark.skipif(os.name == "nt", reason="no owners and modes")
@pytest.mark.parametrize(("open_to", "alone"), STRANGERS.values(), ids=STRANGERS)
def test_code_that_another_user_could_have_planted_is_not_run(fresh, said, open_to, alone):
    fresh.mkdir()
    library = planted(fresh)
    try:
        open_to(library)
    except PermissionError:
        pytest.skip("only root can give files away")
    assert build.load(SOURCE).answer() == 42 and build.load(f"{SOURCE} ").answer() == 42
    assert len(said()) == (not alone)
    assert all("compiled again in each process" in warning and str(fresh.parent) in warning for warning in said())


@pytest.mark.parametrize(
    ("secure", "variable"),
    [(code_cache.secure_inductor, "TORCHINDUCTOR_CACHE_DIR"), (code_cache.secure_triton, "TRITON_CACHE_DIR")],
)
def test_other_compilers_get_a_folder_of_this_user_alone(tmp_path, monkeypatch, said, secure, variable):
    monkeypatch.setenv(variable, str(tmp_path / "safe"))
    secure.__wrapped__()
    assert os.environ[variable] == str(tmp_path / "safe") and not said()
    (tmp_path / "safe").chmod(0o777)
    secure.__wrapped__()
    assert os.environ[variable].startswith(str(code_cache.private_folder()))
    assert len(said()) == 1


@pytest.mark.parametrize("mode", [0o755, 0o777])
def test_headers_that_others_may_have_compiled_are_not_taken(tmp_path, monkeypatch, mode):
    """They are in PyTorch's default folder, even where another one is named."""
    from torch._inductor import config
    from torch._inductor.runtime import cache_dir_utils

    (tmp_path / "default").mkdir()
    (tmp_path / "default").chmod(mode)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "safe"))
    monkeypatch.setattr(cache_dir_utils, "default_cache_dir", lambda: str(tmp_path / "default"))
    with config.patch(cpp_cache_precompile_headers=True):
        code_cache.secure_inductor.__wrapped__()
        assert config.cpp_cache_precompile_headers == (mode == 0o755)


@pytest.mark.slow  # Inductor takes seconds to import
@pytest.mark.parametrize("compiled", ["block", "model"])
def test_torch_compile_reads_and_writes_nothing_where_others_write(tmp_path, monkeypatch, said, compiled):
    open_to_all = tmp_path / "inductor"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(open_to_all))
    code_cache.secure_inductor.cache_clear()
    monkeypatch.setattr(block, "_kernels", OrderedDict())
    x = torch.rand(2, 3)
    if compiled == "block":
        LIF(3.125, engine="block")(x[None])
    else:
        Compiled(torch.nn.Linear(3, 2))(x)
    assert not list(open_to_all.iterdir())
    (warning,) = said()
    assert f"all users can write to {open_to_all}" in warning
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"].startswith(str(code_cache.private_folder()))


def put_compiler(monkeypatch, code, error):
    """Every call of the compiler ends with this code; the list of calls."""
    calls = []

    def run(command, **_):
        calls.append(command)
        return subprocess.CompletedProcess(command, code, "", error)

    monkeypatch.setattr(build, "subprocess", SimpleNamespace(run=run))
    monkeypatch.setattr(build, "_version", lambda _: "1")
    return calls


@pytest.mark.refused
def test_a_compiler_that_makes_nothing_is_asked_once(monkeypatch):
    calls = put_compiler(monkeypatch, 0, "")
    with pytest.raises(CompilationFailed):
        build.load(SOURCE)
    first = len(calls)
    assert first > 0
    with pytest.raises(CompilationFailed):
        build.load(SOURCE)
    assert len(calls) == first


@pytest.mark.refused
def test_a_compiler_that_refuses_leaves_another_engine(monkeypatch):
    put_compiler(monkeypatch, 1, "error: out of order")
    x = torch.rand(4, 3, 5)
    with pytest.warns(UserWarning, match=r"LIF runs in the \w+ engine: .*out of order"):
        out = LIF(engine="cpp")(x)[0]
    torch.testing.assert_close(out, LIF(engine="eager")(x)[0], rtol=0, atol=0)
    (row,) = explain(LIF(engine="cpp"), x)
    assert row.engine != "cpp" and "out of order" in row.reason


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_only_kernels_of_float16_use_a_type_that_older_compilers_lack(dtype):
    """clang 14 has no _Float16 for most x86 processors: nothing else may fail there."""
    layer = LIF()
    equation = equation_of(layer, layer.initial_state(torch.zeros(3)), torch.float32, torch.device("cpu"))
    sources = cpp.forward_source(equation, dtype, dtype, ())[0], cpp.backward_source(equation, dtype, (), (True,))[0]
    for source in sources:
        command = [cpp_compiler(), "-E", "-P", "-x", "c++", "-std=c++17", "-"]
        text = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
        assert ("_Float16" in text) == (dtype == torch.float16)
        build.load(source)
