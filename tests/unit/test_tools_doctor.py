"""`snnkit doctor`: a line for everything, whatever is missing."""

from __future__ import annotations

import shutil

import torch

from snnkit.measure import machine
from snnkit.tools import doctor

from .tiny_project import settings


def by_name(lines):
    return {line.name: line for line in lines}


def test_this_machine_can_run_the_tests():
    lines = by_name(doctor.report())
    assert {
        "Python",
        "snnkit",
        "torch",
        "Jupyter",
        "pictures",
        "C++ compiler",
        "memory",
        "disk",
        "data: digits",
    } <= set(lines)
    assert all(line.status in (doctor.GREEN, doctor.AMBER, doctor.RED) for line in lines.values())
    assert lines["torch"].status == doctor.GREEN
    assert torch.__version__ in lines["torch"].value


def test_a_missing_compiler_is_amber_with_the_fix(monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    line = by_name(doctor.report())["C++ compiler"]
    assert line.status == doctor.AMBER
    assert "apt-get install g++" in line.fix


def test_an_old_torch_is_red(monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.5.1+cpu")
    line = by_name(doctor.report())["torch"]
    assert (line.status, line.fix) == (doctor.RED, "pip install 'torch>=2.8'")


def test_a_missing_package_is_named(monkeypatch):
    real = machine.version
    monkeypatch.setattr(machine, "version", lambda package: None if package == "plotly" else real(package))
    line = by_name(doctor.report())["pictures"]
    assert line.status == doctor.AMBER and "missing: plotly" in line.value


def test_the_fix_installs_from_where_the_project_lives(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "version", lambda package: None)
    settings(tmp_path, "https://github.com/someone/kit", "next")
    monkeypatch.chdir(tmp_path)
    fix = by_name(doctor.report())["pictures"].fix
    assert fix == "pip install 'snnkit[lab] @ git+https://github.com/someone/kit@next'"
    settings(tmp_path, "nowhere")  # what can't be used is no reason to fail
    assert "pip install -e '.[lab]'" in by_name(doctor.report())["pictures"].fix


def test_a_gpu_that_torch_can_not_use_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(machine, "gpus", lambda: [machine.Gpu("Tesla T4", "550.1", 15.0, (7, 5))])
    line = by_name(doctor.report())["GPU"]
    assert line.status == doctor.AMBER and "Tesla T4" in line.value and "CUDA" in line.fix


def test_colab_without_a_gpu_gets_the_click_path(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(machine, "gpus", lambda: [])
    monkeypatch.setenv("COLAB_RELEASE_TAG", "release")
    assert "T4 GPU" in by_name(doctor.report())["GPU"].fix


def test_a_check_that_breaks_is_a_line_and_no_crash(monkeypatch):
    def broken():
        raise RuntimeError("no such thing")

    monkeypatch.setattr(machine, "memory_gib", broken)
    lines = doctor.report()
    assert any("check failed: RuntimeError: no such thing" in line.value for line in lines)
    assert "Python" in by_name(lines)


def test_the_card_is_html_in_a_notebook_and_text_elsewhere(monkeypatch):
    card = doctor.Card([doctor.Line("a <b>", doctor.RED, "bad", "do & see"), doctor.Line("c", doctor.GREEN, "good")])
    assert "a &lt;b&gt;" in card._repr_html_() and "do &amp; see" in card._repr_html_()
    assert repr(card) == "[XX] a <b>  bad\n            -> do & see\n[ok] c      good"
    assert doctor.as_dict(card.lines)[1] == {"name": "c", "status": "green", "value": "good", "fix": ""}


def test_nvidia_smi_is_read(monkeypatch):
    monkeypatch.setattr(
        machine, "_lines", lambda *command: ["NVIDIA H200, 570.1, 143771, 9.0", "nonsense", "X, 1, [N/A], [N/A]"]
    )
    first, second = machine.gpus()
    assert (first.name, first.driver, round(first.memory_gib), first.capability) == (
        "NVIDIA H200",
        "570.1",
        140,
        (9, 0),
    )
    assert second.capability is None
