"""`snnkit train`: what it prints, writes, refuses, and exits with."""

import json

import pytest
import torch
from click.testing import CliRunner

from snnkit import records
from snnkit.cli import main
from snnkit.cli import train as command
from snnkit.train import recipes
from snnkit.train.recipe import Recipe

QUICK = ("digits", "--device", "cpu", "--samples", "100", "--hidden", "8", "--steps", "3", "--epochs", "2")


def call(*arguments):
    return CliRunner().invoke(main, ["train", *arguments])


def said(result):
    return " ".join(result.output.split())


def test_without_a_name_it_lists_the_recipes():
    result = call()
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == recipes.names()


def test_help_has_every_setting_and_recipe():
    result = call("--help")
    assert result.exit_code == 0 and "train [OPTIONS] RECIPE" in result.output.splitlines()[0]
    for name in Recipe.__dataclass_fields__:
        if name not in ("name", "about"):
            assert f"--{name.replace('_', '-')} " in result.output, name
    assert all(f"\n    {name} " in result.output for name in recipes.names())


def test_it_trains_and_writes_all_it_was_asked_for(tmp_path):
    file, out, log = (str(tmp_path / name) for name in ("run.pt", "record.json", "log"))
    result = call(*QUICK, "--no-progress", "--checkpoint", file, "--out", out)
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
    more = call(*longer, "--checkpoint", file, "--resume", "--log", log)
    assert more.exit_code == 0, more.output
    first, *lines = more.output.splitlines()
    assert first.startswith("resuming from ") and [line.split()[0] for line in lines] == ["epoch", "1", "2", "3"]
    assert list((tmp_path / "log").iterdir())
    done = call("digits", "--device", "cpu", "--checkpoint", file, "--resume", "--no-progress")
    assert done.output == more.output  # nothing is left to do, and that is shown, too


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
    result = call(*QUICK, "--checkpoint", file, "--out", out)
    assert result.exit_code == 130
    assert f"interrupted after 1 of 2 epochs; --resume continues from {file}" in result.output
    assert records.read(out)["complete"] is False


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("imagenet",), 2, "name must be one of 'dense', 'digits'"),
        (("digits", "--epochs", "0"), 2, "epochs must be at least 1"),
        (("digits", "--lr", "0"), 2, "lr must be greater than 0, but it is 0.0"),
        (("digits", "--network", "conv"), 2, "channels must be given for the conv network, as channels=8"),
        (("digits", "--optimizer", "lion"), 2, "--optimizer"),
        (("digits", "--device", "gpu"), 1, "device must be 'auto' or a PyTorch device"),
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
    result = call(*arguments)
    assert result.exit_code == code and says in said(result)
    assert isinstance(result.exception, SystemExit)


def test_a_checkpoint_that_is_there_is_kept(tmp_path):
    file = tmp_path / "run.pt"
    file.write_text("precious")
    result = call(*QUICK, "--checkpoint", str(file))
    assert result.exit_code == 1 and "--resume" in said(result) and file.read_text() == "precious"
    damaged = call(*QUICK, "--checkpoint", str(file), "--resume")
    assert damaged.exit_code == 1 and "is missing" in said(damaged) and file.read_text() == "precious"


def test_without_tensorboard_nothing_is_trained(tmp_path, monkeypatch):
    def missing():
        raise ImportError('pip install "snnkit[scale]"')

    monkeypatch.setattr("snnkit.train.history._writer_class", missing)
    result = call(*QUICK, "--log", str(tmp_path / "log"))
    assert result.exit_code == 1 and 'pip install "snnkit[scale]"' in result.output and "epoch" not in result.output
