"""Without a GPU: the command for one says so, and its tests at least run, on the CPU."""

import os
import re
import subprocess
import sys
import time

import pytest
import torch

from snnkit import data
from snnkit.lab.bench import baselines
from snnkit.lab.bench.workloads import conv
from tests.conftest import ROOT
from tests.gpu import __main__ as gpu, warm

from .test_readme import parsed

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the real thing can be had here: make gpu")


def run(*words, **environment):
    command = [sys.executable, "-m", *words]
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}  # of this test
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=own | environment)


def test_the_command_says_that_there_is_no_gpu(tmp_path):
    result = run("tests.gpu", "--out", str(tmp_path / "out"))
    assert result.returncode == 0 and result.stdout == "no CUDA device here: nothing was tested or measured\n"
    assert not (tmp_path / "out").exists()


def test_what_is_measured_there_are_commands_with_such_options_within_nine_minutes(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "available", lambda name: True)
    todo = gpu.parts(tmp_path)
    assert sum(part.seconds for part in todo) + gpu.GRACE <= 9 * 60 and todo[0].name == "tests"
    (record,) = (part for part in todo if part.name == "record")
    assert sum(part.seconds for part in gpu.instead(tmp_path)) < record.seconds
    names, files = [], []
    for name, (_, flag, _, *words), _ in [*todo, *gpu.instead(tmp_path)]:
        if flag != "-c":
            continue
        files.append(parsed(words).params["out"])
        assert files[-1].startswith(str(tmp_path))
        names.append(name)
    assert {"record", "sparsity", "sparsity_steps", "accuracy"} <= set(names) and len(files) == len(set(files))
    (products,) = (part for part in todo if part.name == "sparsity")
    options = parsed(products.command[3:]).params
    assert options["device"] == "cuda" and options["parts"] == ("products",) and len(options["densities"]) < 5


def test_the_notebooks_are_those_that_use_a_gpu():
    for number in gpu.NOTEBOOKS:
        (source,) = (ROOT / "notebooks" / "src").glob(f"{number}_*.py")
        assert re.search(r'(device|where)\.type == "cuda"|resolve_device\(DEVICE\)', source.read_text()), source.name


def part(name, code, seconds):
    return gpu.Part(name, [sys.executable, "-c", code], seconds)


def test_parts_have_their_time_and_leave_the_rest_to_the_next(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "workers", lambda: (1, 0))
    monkeypatch.setattr(gpu, "GRACE", 0.5)
    slow = "import time; print('measured', flush=True); time.sleep(600)"
    record = f"open({str(tmp_path / 'record.json')!r}, 'w')"
    todo = [
        part("tests", "1/0", 20),
        part("record", record, 1),
        part("slow", slow, 3 - 20),
        part("last", "print(7)", 20),
    ]
    began = time.monotonic()
    assert gpu.run(todo, tmp_path) == 1
    assert time.monotonic() - began < 20
    printed = capsys.readouterr().out
    verdicts = ["tests: failed after", "record: ok after", "slow: stopped at its limit of", "last: ok after"]
    assert [line.rpartition(" ")[0] for line in printed.splitlines() if line.startswith(tuple(verdicts))]
    assert all(f"\n{verdict}" in printed for verdict in verdicts)
    assert "ZeroDivisionError" in (tmp_path / "tests.log").read_text()
    assert (tmp_path / "slow.log").read_text().startswith("measured")


def test_where_there_is_no_record_single_benchmarks_take_its_time(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(gpu, "workers", lambda: (1, 0))
    monkeypatch.setattr(gpu, "instead", lambda out: [part("neurons", "print('instead')", 9)])
    (tmp_path / "record.json").write_text("of an earlier run")
    assert gpu.run([part("tests", "", 9), part("record", "1/0", 9), part("last", "", 9)], tmp_path) == 0
    order = re.findall(r"^== (\w+): (\w+)", capsys.readouterr().out, re.MULTILINE)
    assert order == [("tests", "ok"), ("record", "failed"), ("neurons", "ok"), ("last", "ok")]


def test_kernels_are_compiled_while_the_tests_run_and_no_longer(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "workers", lambda: (1, 2))
    quick, endless = tmp_path / "quick", tmp_path / "endless"
    codes = [
        f"import time; time.sleep(1); open({str(quick)!r}, 'w')",
        f"import time; time.sleep(5); open({str(endless)!r}, 'w')",
    ]
    running = gpu._running
    monkeypatch.setattr(gpu, "_warming", lambda i, out: running([sys.executable, "-c", codes[i]], out / f"warm{i}.log"))
    after = f"import os, sys; sys.exit(not os.path.exists({str(quick)!r}))"
    assert gpu.run([part("tests", "", 3), part("after", after, 10)], tmp_path) == 0
    assert quick.exists()
    time.sleep(3)
    assert not endless.exists()


def test_what_is_compiled_are_the_neurons_of_the_benchmarks(monkeypatch):
    assert {*baselines.EQUATIONS.values(), conv(4, 4).equation} == set(warm.NEURONS)
    made = []
    for name in warm.NEURONS:
        kind = warm.NEURONS[name]
        monkeypatch.setitem(warm.NEURONS, name, lambda engine, kind=kind: made.append(engine) or kind("eager"))
        warm.layer(name, torch.bfloat16, torch.device("cpu"), 5)
    assert made == ["block"] * len(warm.NEURONS)
    every = list(warm.jobs(torch.device("cpu")))
    assert len(every) == 1 + len(warm.NEURONS) * len(warm.DTYPES)


def test_failures_are_written_when_they_happen(tmp_path):
    (tmp_path / "test_x.py").write_text("def test_a():\n    assert 1 == 2\ndef test_b():\n    pass\n")
    file = tmp_path / "failures.txt"
    words = ("pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.gpu.conftest", "-n", "2", str(tmp_path))
    run(*words, SNNKIT_GPU_FAILURES=str(file))
    text = file.read_text()
    assert text.count("test_x.py::test_a (call)") == 1 and "assert 1 == 2" in text and "test_b" not in text


@pytest.mark.slow
def test_tests_for_gpus_are_skipped_or_rehearsed():
    pytest.importorskip("triton")
    chosen = "transforms or bytes or autocast"
    some = ("pytest", "-q", "-p", "no:cacheprovider", "tests/gpu/test_engines.py", "-k", chosen)
    skipped = run(*some)
    assert "6 skipped" in skipped.stdout and "passed" not in skipped.stdout
    rehearsed = run(*some, SNNKIT_GPU_REHEARSAL="1")
    assert "6 passed" in rehearsed.stdout, rehearsed.stdout[-2000:]
