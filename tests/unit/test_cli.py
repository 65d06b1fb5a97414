"""The command line: what it prints, and what it exits with."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from snnkit.cli import main
from snnkit.tools import doctor

from .tiny_project import make


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make(tmp_path, {"00_ok": "print(STEPS)", "01_bad": "raise ValueError('boom')"})


def call(*arguments):
    return CliRunner().invoke(main, arguments)


def files(project):
    return sorted(str(path.relative_to(project.root)) for path in project.root.rglob("*") if path.is_file())


def test_build_then_check(project):
    before = files(project)
    stale = call("build", "--check")
    assert stale.exit_code == 1
    assert "notebooks/00_ok.ipynb: is missing" in stale.output
    assert files(project) == before
    assert "wrote notebooks/00_ok.ipynb" in call("build").output
    assert call("build").output == "2 notebooks, all up to date\n"
    assert call("build", "--check").exit_code == 0


def test_check_finds_notebooks_without_a_source(project):
    call("build")
    project.source("01_bad").unlink()
    result = call("build", "--check")
    assert result.exit_code == 1
    assert "notebooks/01_bad.ipynb: has no source" in result.output


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("build", "9"), "unknown notebook '9'; there are: 00_ok, 01_bad"),
        (("run", "-p", "STEPS"), "-p takes NAME=VALUE, each name once, but it is 'STEPS'"),
        (("run", "-p", "STEPS=3", "-p", "STEPS=4"), "-p takes NAME=VALUE, each name once, but it is 'STEPS=4'"),
        (("run", "-p", "STEPS=many"), "STEPS must be int, but it is 'many'"),
        (("run", "-p", "WIDTH=3"), "has no parameter 'WIDTH'; it has: QUICK: bool = True"),
        (("run", "--timeout", "0"), "--timeout"),
        (("run", "--out", "pyproject.toml"), "can't write to the output folder"),
        (("run", "--out", "."), "would overwrite the notebooks"),
    ],
)
def test_wrong_usage_is_refused_and_nothing_is_written(project, arguments, says):
    before = files(project)
    result = call(*arguments)
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())
    assert files(project) == before


def test_run_reports_and_fails_if_one_notebook_does(project):
    result = call("run", "--out", "here", "-p", "STEPS=5")
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert lines[0].split()[:2] == ["00_ok", "ok"]
    assert lines[1].split()[:2] == ["01_bad", "failed"] and lines[1].endswith("cell 4: ValueError: boom")
    assert lines[2] == f"report: {project.root / 'here' / 'report.html'}"
    content = json.loads((project.root / "here" / "report.json").read_text())
    assert [entry["status"] for entry in content["notebooks"]] == ["ok", "failed"]
    environment = content["environment"]
    assert environment["parameters"] == {"STEPS": 5, "QUICK": True}
    assert environment["interrupted"] is False
    assert {"date", "snnkit", "python", "platform", "torch", "cuda", "cores", "memory_gib"} <= set(environment)
    assert (project.root / "here" / "html" / "01_bad.html").exists()


def test_doctor_exits_with_one_only_if_something_is_red(monkeypatch):
    amber, red = doctor.Line("a", doctor.AMBER, "so so", "repair [it]"), doctor.Line("b", doctor.RED, "bad")
    monkeypatch.setattr(doctor, "report", lambda: [amber])
    result = call("doctor")
    assert result.exit_code == 0 and "repair [it]" in result.output
    monkeypatch.setattr(doctor, "report", lambda: [amber, red])
    assert call("doctor").exit_code == 1


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_inside_any_command_ends_with_130_and_no_traceback():
    code = """
import os, signal
from snnkit import cli
from snnkit.tools import doctor

doctor.report = lambda: os.kill(os.getpid(), signal.SIGINT)
cli.main(["doctor"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\ninterrupted\n")


def test_a_parameters_cell_with_an_impossible_literal_is_refused(project):
    source = project.source("00_ok")
    source.write_text(source.read_text().replace("STEPS: int = 8", "STEPS: int = {[]: 1}"))
    result = call("run", "00")
    assert result.exit_code == 2 and "`STEPS: int = {[]: 1}`: the value must be a literal" in result.output
