"""`snnkit doctor`: a line for everything, whatever is missing."""

from __future__ import annotations

import shutil

import pytest
import torch

from snnkit.lab.tools import doctor
from snnkit.lab.tools.doctor import AMBER, GREEN, RED
from snnkit.measure import machine


def by_name():
    return {line.name: line for line in doctor.report()}


def test_this_machine_can_run_the_tests():
    lines = by_name()
    assert {"Python", "snnkit", "torch", "Jupyter", "pictures", "C++ compiler", "memory", "disk"} <= set(lines)
    assert lines["data: digits"].status == lines["torch"].status == GREEN
    assert torch.__version__ in lines["torch"].value


def test_in_a_notebook_it_is_a_card_with_a_colour_and_a_sign_for_each_line():
    lines = [doctor.Line("a", GREEN, "<here>"), doctor.Line("b", AMBER, "slow", "make it fast")]
    reports = (lines[:1], lines, [*lines, doctor.Line("c", RED, "")])
    good, fair, bad = (str(doctor.Report(some)._repr_html_()) for some in reports)
    assert "everything is there" in good and "&lt;here&gt;" in good and "→" not in good
    assert "works, with 1 limit<" in fair and "→ make it fast" in fair and "1 to fix" in bad
    assert all(f'aria-label="{status}"' in bad for status in (GREEN, AMBER, RED))


def without(package):
    real = machine.version
    return lambda name: None if name == package else real(name)


@pytest.mark.parametrize(
    ("place", "name", "value", "line", "status", "says"),
    [
        (shutil, "which", lambda name: None, "C++ compiler", AMBER, "apt-get install g++"),
        (torch, "__version__", "2.5.1+cpu", "torch", RED, 'pip install "torch>=2.8"'),
        (machine, "version", without("plotly"), "pictures", AMBER, "-m pip install plotly"),
        (machine, "memory_gb", lambda: (8.0, 1.0), "memory", AMBER, "close other programs"),
    ],
)
def test_what_is_missing_has_its_colour_and_its_fix(monkeypatch, place, name, value, line, status, says):
    monkeypatch.setattr(place, name, value)
    found = by_name()[line]
    assert found.status == status and says in found.fix


def test_a_gpu_that_torch_can_not_use_and_colab_without_one(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(machine, "gpus", lambda: [machine.Gpu("Tesla T4", "550.1", 15.0)])
    line = by_name()["GPU"]
    assert line.status == AMBER and "Tesla T4" in line.value and "CUDA" in line.fix
    monkeypatch.setattr(machine, "gpus", lambda: [])
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    assert "T4 GPU" in by_name()["GPU"].fix
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert "Apple's, for which no engine compiles" in by_name()["GPU"].value


def test_a_check_that_breaks_is_a_line_and_no_crash(monkeypatch):
    def broken():
        raise RuntimeError("no such thing")

    monkeypatch.setattr(machine, "memory_gb", broken)
    lines = by_name()
    assert lines["resources"].value == "check failed: RuntimeError: no such thing" and "Python" in lines


def test_nvidia_smi_is_read(monkeypatch):
    lines = ["NVIDIA H200, 570.1, 143771", "nonsense", "X, 1, [N/A]"]
    monkeypatch.setattr(machine, "_lines", lambda *command: lines)
    first, second = machine.gpus()
    assert (first.name, first.driver) == ("NVIDIA H200", "570.1")
    assert round(first.memory_gb) == 151
    assert second.memory_gb == 0
