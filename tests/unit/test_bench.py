"""Timing takes turns and quotes medians; the neuron benchmark compares results before it times anything."""

import pytest
import torch
from click import ClickException
from click.testing import CliRunner

from snnkit.bench import neurons, timing
from snnkit.bench.peers import Peer
from snnkit.neuron import LIF

ARGUMENTS = ["--neurons", "200", "--steps", "9", "--repeats", "3", "--no-keep-memory"]


def test_contestants_take_turns():
    calls = []
    results = timing.race({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, repeats=3, warmup=1)
    assert calls == ["a", "b"] * 5
    assert results.keys() == {"a", "b"}
    for result in results.values():
        assert 0 < result.spread[0] <= result.median <= result.spread[1]


def test_too_few_repeats():
    with pytest.raises(ValueError, match="repeats must be at least 3"):
        timing.race({"a": lambda: None}, repeats=2)


def slow_twin(reset):
    """A stand-in for a peer: our eager engine; with another reset it computes something else."""
    return Peer("Twin", lambda x: LIF(v_reset=reset, engine="eager")(x)[0], lambda engine: LIF(engine=engine))


@pytest.fixture
def run(monkeypatch):
    def run(reset):
        monkeypatch.setattr(neurons, "peers", lambda: [slow_twin(reset)])
        return CliRunner().invoke(neurons.main, ARGUMENTS)

    return run


def test_prints_times_and_ratios(run):
    result = run(0.0)
    assert result.exit_code == 0, result.output
    for word in ("forward", "forward+backward", "Twin", "snnkit as Twin", "copy of x"):
        assert word in result.output
    assert torch.get_num_threads() == 1


def test_a_peer_that_computes_something_else_is_not_timed(run):
    result = run(None)
    assert result.exit_code == 1
    assert "Twin computes something else" in result.output


def test_without_peers_eager_is_the_other(monkeypatch):
    monkeypatch.setattr(neurons, "peers", lambda: [])
    result = CliRunner().invoke(
        neurons.main, ["--neurons", "200", "--steps", "9", "--repeats", "3", "--no-keep-memory"]
    )
    assert result.exit_code == 0 and "eager" in result.output
    with pytest.raises(ClickException):
        neurons._check_equal("Other", torch.zeros(4), torch.ones(4))
