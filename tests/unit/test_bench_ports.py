"""``snnkit bench ports``: an original and its port are compared before they are timed, and ours is not longer."""

import importlib.util

import pytest
import torch
from click.testing import CliRunner

from snnkit import records
from snnkit.lab.bench import ports
from snnkit.lab.bench.baselines import _MODULES
from snnkit.lab.cli import main

QUICK = ports.Arguments(device="cpu", batch=2, steps=20)


@pytest.mark.parametrize("name", ports.PORTS)
def test_no_port_is_longer_than_its_original(name):
    port = ports.PORTS[name]
    assert 5 < ports.lines(port.ours) <= ports.lines(port.theirs)


@pytest.mark.parametrize("name", ports.PORTS)
def test_a_port_computes_what_its_original_does(name, monkeypatch):
    """Ours alone where the library is not installed: all of its layers fire, and all weights get gradients."""
    monkeypatch.setattr(ports, "race", lambda runs, *_, **__: dict.fromkeys(runs))
    monkeypatch.setattr(ports, "seconds_of", lambda timing: {"median_s": 1.0})
    case = ports.Case(name, QUICK, torch.device("cpu"))
    outcome = case.measure(3)
    installed = importlib.util.find_spec(_MODULES[case.port.library].partition(".")[0]) is not None
    others = [row["library"] for row in outcome.rows if row["library"] != "snnkit"]
    assert others == [case.port.library] * installed and len(outcome.skipped) == 1 - installed, outcome.skipped
    assert [row["contestant"] for row in outcome.rows if row["library"] == "snnkit"] == ["auto", *case.engines]
    for row in outcome.rows:
        assert row["outputs_differ"] <= 1e-3 and row["gradients_differ"] <= 1e-2
    torch.manual_seed(0)
    net, loss = case.port.ours(20)
    with torch.no_grad():
        for parameter in net.parameters():
            case._filled(parameter)
    out, value = loss(*case.port.data(2, 20))
    value.backward()
    assert out.any() and all(parameter.grad.any() for parameter in net.parameters() if parameter.dim() > 1)


def run(monkeypatch, theirs, *words, library="there"):
    """The command with an original of our own making."""
    monkeypatch.setitem(ports.PORTS, "shd", ports.PORTS["shd"]._replace(theirs=theirs))
    monkeypatch.setattr(ports, "imported", lambda name: library)
    threads = torch.get_num_threads()
    try:
        done = CliRunner().invoke(
            main, ["bench", "ports", "--quick", "--device", "cpu", "--port", "shd", "--repeats", "3", *words]
        )
    finally:
        torch.set_num_threads(threads)
    assert done.exit_code == 0, done.output
    return done.output


def twin(library, steps):
    return ports.shd(steps)


def test_the_command_and_its_record(monkeypatch, tmp_path):
    out = tmp_path / "record.json"
    text = run(monkeypatch, twin, "--out", str(out))
    *ours, theirs = records.read(out)["rows"]
    assert ours[0]["contestant"] == "auto" and theirs["contestant"] == theirs["library"] == "Norse"
    assert theirs["outputs_differ"] == theirs["gradients_differ"] == 0 and theirs["lines"] == 2
    best = min(ours, key=lambda row: row["median_s"])
    ratio = f"{theirs['median_s'] / best['median_s']:.2f} times as fast as Norse ({best['contestant']})"
    assert f"shd: {ratio}, in {best['lines']} lines instead of 2" in text
    shown = CliRunner().invoke(main, ["bench", "show", str(out)])
    assert shown.exit_code == 0 and "shd: an update of 2 samples, T = 20" in shown.output


def test_what_computes_something_else_is_not_timed(monkeypatch):
    def louder(library, steps):
        net, loss = ports.shd(steps)
        return net, lambda x, targets: loss(2 * x, targets)

    text = run(monkeypatch, louder)
    assert "not timed: Norse (port shd, " in text and "it computes something else: " in text
    assert "times as fast" not in text


def test_without_the_library_ours_is_timed_alone(monkeypatch):
    text = run(monkeypatch, twin, library=None)
    assert "not timed: Norse (port shd, " in text and "it is not installed: make peers" in text and "snnkit" in text
    assert "not timed" not in run(monkeypatch, twin, "--no-peers")


def test_a_fault_of_the_library_is_told(monkeypatch):
    def broken(library, steps):
        raise AttributeError("module has no LIFRecurrent")

    assert "AttributeError: module has no LIFRecurrent" in run(monkeypatch, broken)
