"""`snnkit bench`: measures, writes a record, shows it."""

import json
import os
import sys

import pytest
import torch
from click.testing import CliRunner

from snnkit.bench import contestants as room
from snnkit.bench import neurons, record
from snnkit.bench.contestants import EQUATIONS
from snnkit.bench.peers import Peer
from snnkit.cli import main
from snnkit.measure.memory import MALLOC_SETTINGS

SMALL = ("--device", "cpu", "--neurons", "64", "--steps", "4", "--repeats", "3", "--no-keep-memory")


@pytest.fixture(autouse=True)
def one_peer(monkeypatch):
    """Our own eager engine, slower than nobody: as if one other library were installed."""
    ours = EQUATIONS["LIF"]("eager")
    monkeypatch.setattr(room, "peers", lambda device: [Peer("Twin", "LIF", lambda x: ours(x)[0])])


def call(*arguments):
    return CliRunner().invoke(main, ["bench", *arguments])


@pytest.fixture
def measured(tmp_path):
    path = tmp_path / "here" / "r.json"
    result = call("neurons", *SMALL, "--engines", "eager", "--dtype", "float32", "--out", str(path))
    assert result.exit_code == 0, result.output
    return path, result.output


def test_it_prints_tables_and_writes_a_record(measured):
    path, printed = measured
    for words in (
        "inference, float32, N = 64, T = 4; copy of x:",
        "training, float32",
        "Twin",
        "x floor",
        f"record: {path}",
    ):
        assert words in printed
    content = record.read(path)
    assert content["complete"] is True
    assert [(row["mode"], row["contestant"]) for row in content["rows"]] == [
        ("inference", "eager"),
        ("inference", "Twin"),
        ("training", "eager"),
        ("training", "Twin"),
    ]
    assert [copy["mode"] for copy in content["copies"]] == ["inference", "training"]
    arguments = content["arguments"]
    assert arguments["neurons"] == [64] and arguments["engines"] == ["eager"] and arguments["repeats"] == 3
    origin = content["provenance"]
    assert origin["device"]["type"] == "cpu" and origin["threads"] == 1
    assert origin["versions"]["torch"] == torch.__version__
    assert origin["date"].endswith("+00:00")


def test_show_prints_what_was_printed_when_it_was_measured(measured):
    path, printed = measured
    shown = call("show", str(path))
    assert shown.exit_code == 0, shown.output
    tables = printed.partition("\n\n")[2].partition("\n\nrecord:")[0]
    assert tables in shown.output


def test_the_plot_of_a_record(measured, tmp_path):
    path, _ = measured
    for name, holds in (("p.png", b"\x89PNG"), ("p.html", b"<html>")):
        result = call("show", str(path), "--plot", str(tmp_path / name))
        assert result.exit_code == 0, result.output
        assert holds in (tmp_path / name).read_bytes()[:100]


def test_a_record_that_comes_with_the_kit_is_shown_by_name(tmp_path):
    result = call("show", "spikingjelly_rtx2080ti", "--plot", str(tmp_path / "p.png"))
    assert result.exit_code == 0, result.output
    assert "GeForce RTX 2080 Ti" in result.output and "not measured here" in result.output
    assert (tmp_path / "p.png").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("show", "nothing.json"), 2, "no record of that name; there are: "),
        (("show", "spikingjelly_rtx2080ti", "--plot", "p.svg"), 2, "--plot must end in .png or .html"),
        (("show", "spikingjelly_rtx2080ti", "--plot", "p.png", "--neurons", "3"), 1, "no row has neurons 3"),
        (("neurons", *SMALL, "--engines", "warp"), 2, "--engines must be one of eager, block"),
        (("neurons", *SMALL, "--dtype", "int8"), 2, "int8"),
        (("neurons", *SMALL, "--repeats", "2"), 2, "--repeats"),
        (("neurons", *SMALL, "--neurons", "0"), 2, "--neurons"),
    ],
)
def test_wrong_usage_is_told(arguments, code, says):
    result = call(*arguments)
    assert result.exit_code == code
    assert says in " ".join(result.output.split())


@pytest.mark.skipif(torch.cuda.is_available(), reason="for machines without CUDA")
def test_cuda_where_there_is_none():
    result = call("neurons", "--device", "cuda")
    assert result.exit_code == 2 and "no CUDA device" in result.output


def test_a_damaged_record_is_told(tmp_path):
    path = tmp_path / "r.json"
    path.write_text('{"schema": 1, "kind"')
    result = call("show", str(path))
    assert result.exit_code == 1 and "damaged" in result.output and "Traceback" not in result.output


def test_nobody_to_time(monkeypatch):
    monkeypatch.setattr(room, "peers", lambda device: [])
    size = ("--device", "cpu", "--neurons", "64", "--steps", "64", "--no-keep-memory")
    result = call("neurons", *size, "--engines", "torch.compile", "--mode", "inference")
    assert result.exit_code == 1 and "nobody could be timed" in result.output


def test_what_was_measured_before_an_interruption_is_kept(tmp_path, monkeypatch):
    measure, done = neurons.measure, []

    def interrupted(*arguments):
        if done:
            raise KeyboardInterrupt
        done.append(1)
        return measure(*arguments)

    monkeypatch.setattr(neurons, "measure", interrupted)
    path = tmp_path / "r.json"
    call("neurons", *SMALL, "--engines", "eager", "--dtype", "float32", "--out", str(path))
    content = record.read(path)
    assert content["complete"] is False and len(content["rows"]) == 2
    assert "interrupted: not complete" in call("show", str(path)).output


def test_quick_is_one_tiny_size_and_gives_way_to_what_is_asked(monkeypatch):
    given = []

    def noted(arguments, *rest):
        given.append(arguments)
        return {"rows": [1]}

    monkeypatch.setattr(neurons, "benchmark", noted)
    call("neurons", "--quick", "--no-keep-memory", "--device", "cpu")
    call("neurons", "--quick", "--no-keep-memory", "--device", "cpu", "--steps", "5", "--steps", "6")
    call("neurons", "--no-keep-memory", "--device", "cpu", "--no-peers")
    quick, asked, full = given
    assert (quick.neurons, quick.steps, quick.repeats) == ((2**10,), (8,), 3)
    assert (asked.neurons, asked.steps) == ((2**10,), (5, 6))
    assert (full.neurons, full.steps) == ((2**12, 2**16, 2**18), (8, 16, 32, 64, 128))
    assert quick.peers and not full.peers and full.modes == ("inference", "training")
    assert [(c.neurons, c.steps, c.mode) for c in asked.cases()][:3] == [
        (1024, 5, "inference"),
        (1024, 5, "training"),
        (1024, 5, "inference"),
    ]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the settings are glibc's")
def test_the_process_starts_anew_once_with_the_allocators_settings(monkeypatch):
    started = []
    monkeypatch.setattr(os, "execve", lambda *call: started.append(call))
    monkeypatch.setattr(neurons, "benchmark", lambda *call: {"rows": [1]})
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "snnkit.bench.neurons", "--threads", "1"])
    call("neurons", "--quick", "--device", "cpu")
    ((program, words, environment),) = started
    assert program == sys.executable and words[1:] == ["-m", "snnkit.bench.neurons", "--threads", "1"]
    assert MALLOC_SETTINGS.items() <= environment.items() and environment["OMP_NUM_THREADS"] == "1"
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    call("neurons", "--quick", "--device", "cpu")
    assert len(started) == 1


def test_the_module_is_the_same_command():
    assert neurons.main is main.commands["bench"].commands["neurons"]


def test_json_is_plain(measured):
    path, _ = measured
    assert path.read_text().endswith("}\n") and json.loads(path.read_text())["schema"] == record.SCHEMA
