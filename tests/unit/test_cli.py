"""The command line, and `snnkit train`: what they print, write, refuse, and exit with."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
import torch
from click.testing import CliRunner

from snnkit import records
from snnkit.files import locked
from snnkit.lab.cli import main, train as command
from snnkit.lab.tools import doctor
from snnkit.train import recipes
from snnkit.train.recipe import Recipe

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
    assert call("build", "00").output == "1 notebook, all up to date\n"
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
    assert {"date", "snnkit", "python", "platform", "torch", "cuda", "cores", "memory_gb"} <= set(environment)
    assert (project.root / "here" / "html" / "01_bad.html").exists()


def test_two_runs_into_one_folder_at_a_time_are_refused(project):
    out = project.root / "here"
    out.mkdir()
    with locked(out / ".lock") as mine:
        refused = call("run", "--out", "here")
    assert mine and refused.exit_code == 2 and "another run writes into" in said(refused)
    assert not (out / "report.json").exists()
    with locked(out / ".lock", wait=False) as mine:
        assert mine


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
import os, signal, time
from snnkit.lab import cli
from snnkit.lab.tools import doctor

signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the process that runs the tests does with it
doctor.report = lambda: (os.kill(os.getpid(), signal.SIGINT), time.sleep(10))
cli.main(["doctor"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "\ninterrupted\n")


def test_a_parameters_cell_with_an_impossible_literal_is_refused(project):
    source = project.source("00_ok")
    source.write_text(source.read_text().replace("STEPS: int = 8", "STEPS: int = {[]: 1}"))
    result = call("run", "00")
    assert (
        result.exit_code == 2 and "`STEPS: int = {[]: 1}  # time steps`: the value must be a literal" in result.output
    )


QUICK = ("digits", "--device", "cpu", "--samples", "100", "--hidden", "8", "--steps", "3", "--epochs", "2")


def train(*arguments):
    return call("train", *arguments)


def said(result):
    return " ".join(result.output.split())


def test_without_a_name_it_lists_the_recipes():
    result = train()
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == recipes.names()


def test_help_has_every_setting_and_recipe():
    result = train("--help")
    assert result.exit_code == 0 and "train [OPTIONS] RECIPE" in result.output.splitlines()[0]
    for name in Recipe.__dataclass_fields__:
        if name not in ("name", "about"):
            assert f"--{name.replace('_', '-')} " in result.output, name
    assert all(f"\n    {name} " in result.output for name in recipes.names())


@pytest.mark.parametrize("argv", [["pytest"], ["snnkit", "bench", "demo", "--quick"]])
def test_ranks_get_the_options_of_this_call(monkeypatch, tmp_path, argv):
    calls = []
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(command, "launch", lambda words, ranks, **_: calls.append((words, ranks)))
    file = str(tmp_path / "run.pt")
    given = ["digits", "--device", "cpu", "--lr", "0.25", "--no-amp", "--resume", "--devices", "2", "--checkpoint"]
    given += [file]
    assert train(*given).exit_code == 0
    ((start, ranks),) = calls
    assert ranks == 2 and start[:4] == [sys.executable, "-m", "snnkit.lab.cli", "train"]
    words = start[4:]
    assert words[0] == "digits" and words[-1] == "--no-progress" and sorted(words[:-1]) == sorted(given)
    assert words[words.index("--lr") + 1] == "0.25" and words[words.index("--checkpoint") + 1] == file


def test_it_trains_and_writes_all_it_was_asked_for(tmp_path):
    file, out, log = (str(tmp_path / name) for name in ("run.pt", "record.json", "log"))
    result = train(*QUICK, "--no-progress", "--checkpoint", file, "--out", out)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("epoch  train loss") and [line.split()[0] for line in lines[1:3]] == ["1", "2"]
    assert lines[3] == f"record: {out}"
    measured = records.read(out)
    assert measured["kind"] == "recipe" and measured["complete"] is True
    assert measured["arguments"]["hidden"] == 8 and measured["arguments"]["seed"] == 0
    assert measured["parameters"] == 64 * 8 + 8 + 8 * 10 + 10
    assert [row["epoch"] for row in measured["rows"]] == [1, 2]
    assert f"{measured['rows'][1]['test_accuracy']:.2%}" in lines[2]
    assert measured["provenance"]["threads"] == torch.get_num_threads()
    assert json.loads((tmp_path / "run.pt.json").read_text())["hidden"] == 8
    shown = CliRunner().invoke(main, ["bench", "show", out])
    assert shown.exit_code == 0 and f"{measured['rows'][1]['test_accuracy']:.2%}" in shown.output.splitlines()[-1]
    pytest.importorskip("tensorboard")
    longer = ("digits", "--device", "cpu", "--epochs", "3", "--no-progress")
    more = train(*longer, "--checkpoint", file, "--resume", "--log", log)
    assert more.exit_code == 0, more.output
    first, *lines = more.output.splitlines()
    assert first.startswith("resuming from ") and [line.split()[0] for line in lines] == ["epoch", "1", "2", "3"]
    assert list((tmp_path / "log").iterdir())
    done = train("digits", "--device", "cpu", "--checkpoint", file, "--resume", "--no-progress")
    assert done.output == more.output  # nothing is left to do, and that is shown, too
    content = torch.load(file)
    content["optimizer"]["state"][0]["step"].fill_(-5)
    torch.save(content, file)
    refused = train("digits", "--device", "cpu", "--checkpoint", file, "--resume", "--no-progress")
    assert refused.exit_code == 1
    assert "run.pt can't be resumed from: step of 1.weight must be at least 0, but it holds -5" in said(refused)


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch):
    class Stop(command._EpochLines):
        def __call__(self, history, model):
            super().__call__(history, model)
            if self.printed == 2 and not stopped:  # the head and one epoch
                stopped.append(True)
                raise KeyboardInterrupt

    stopped = []
    monkeypatch.setattr(command, "_EpochLines", Stop)
    file, out = str(tmp_path / "run.pt"), str(tmp_path / "r.json")
    result = train(*QUICK, "--checkpoint", file, "--out", out)
    assert result.exit_code == 130
    assert f"interrupted after 1 of 2 epochs; --resume continues from {file}" in result.output
    assert records.read(out)["complete"] is False


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("imagenet",), 2, "name must be one of 'dense', 'digits'"),
        (("digits", "--epochs", "0"), 2, "epochs must be at least 1"),
        (("digits", "--network", "conv"), 2, "channels must be given for the conv network, as channels=8"),
        (("digits", "--optimizer", "lion"), 2, "--optimizer"),
        (("digits", "--device", "gpu"), 1, "device must be 'auto' or a PyTorch device"),
        (("digits", "--resume", "--checkpoint", "~nobody-here/x"), 2, "can't be written at ~nobody-here/x"),
        (("digits", "--log", "~nobody-here/x"), 2, "no such home folder"),
        (("digits", "--resume"), 2, "--resume and --every need --checkpoint"),
        (("digits", "--samples", "9999"), 1, "samples must be at most 1442"),
        (("digits", "--out", "."), 2, "--out must be a file to write, but '.' is a folder"),
        (("mnist", "--data", "nowhere", "--device", "cpu"), 1, "nowhere"),
    ],
)
def test_wrong_usage_is_told_without_a_traceback(arguments, code, says, monkeypatch):
    def no_network(*_, **__):
        raise ConnectionError("could not download into nowhere")

    monkeypatch.setattr("snnkit.data.datasets.fetch", no_network)
    result = train(*arguments)
    assert result.exit_code == code and says in said(result)
    assert isinstance(result.exception, SystemExit)


def test_a_checkpoint_that_is_there_is_kept(tmp_path):
    file = tmp_path / "run.pt"
    file.write_text("precious")
    result = train(*QUICK, "--checkpoint", str(file))
    assert result.exit_code == 1 and "--resume" in said(result) and file.read_text() == "precious"
    damaged = train(*QUICK, "--checkpoint", str(file), "--resume")
    assert damaged.exit_code == 1 and "is missing" in said(damaged) and file.read_text() == "precious"


def test_without_tensorboard_nothing_is_trained(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    result = train(*QUICK, "--log", str(tmp_path / "log"))
    assert result.exit_code == 1 and 'pip install "snnkit[scale]' in result.output and "epoch" not in result.output
