"""Without a GPU: the command for one says so, and its tests at least run, on the CPU."""

import os
import subprocess
import sys

import pytest
import torch

from snnkit import data
from tests.conftest import ROOT
from tests.gpu.__main__ import parts

from .test_readme import parsed

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the real thing can be had here: make gpu")


def run(*words, **environment):
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env={**os.environ, **environment})


def test_the_command_says_that_there_is_no_gpu(tmp_path):
    result = run("tests.gpu", "--out", str(tmp_path / "out"))
    assert result.returncode == 0 and result.stdout == "no CUDA device here: nothing was tested or measured\n"
    assert not (tmp_path / "out").exists()


def test_what_is_measured_there_are_commands_with_such_options_within_nine_minutes(tmp_path, monkeypatch):
    monkeypatch.setattr(data, "available", lambda name: True)
    assert sum(limit for _, _, limit in parts(tmp_path)) < 9 * 60
    names = []
    for name, (_, flag, _, *words), _ in parts(tmp_path):
        if flag != "-c":
            continue
        assert parsed(words).params["out"].startswith(str(tmp_path))
        names.append(name)
    assert {"record", "accuracy on MNIST"} <= set(names)


@pytest.mark.slow
def test_tests_for_gpus_are_skipped_or_rehearsed():
    pytest.importorskip("triton")
    chosen = "transforms or bytes or autocast"
    some = ("pytest", "-q", "-p", "no:cacheprovider", "tests/gpu/test_engines.py", "-k", chosen)
    skipped = run(*some)
    assert "6 skipped" in skipped.stdout and "passed" not in skipped.stdout
    rehearsed = run(*some, SNNKIT_GPU_REHEARSAL="1")
    assert "6 passed" in rehearsed.stdout, rehearsed.stdout[-2000:]
