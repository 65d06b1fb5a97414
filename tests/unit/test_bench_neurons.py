"""`snnkit bench neurons`: results are compared, then timed; what differs, falls back or does not fit is named."""

import re
import warnings

import pytest
import torch
from click.testing import CliRunner

from snnkit import records
from snnkit.lab import bench
from snnkit.lab.bench import neurons
from snnkit.lab.bench.baselines import Layer
from snnkit.lab.bench.neurons import EQUATIONS, Case, candidates
from snnkit.lab.bench.suite import chosen
from snnkit.lab.cli import main
from snnkit.lab.cli.bench import SUITES
from snnkit.neuron import LIF

CPU = torch.device("cpu")
SMALL = ("--device", "cpu", "--neurons", "64", "--steps", "4", "--repeats", "3")


@pytest.fixture(autouse=True)
def one_peer(monkeypatch):
    """Our own eager engine, as if one other library were installed."""
    ours = EQUATIONS["LIF"]("eager")
    monkeypatch.setattr(neurons, "layers", lambda device: [Layer("Twin", "LIF", lambda x: ours(x)[0])])


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
    for words in ("inference, float32, N = 64, T = 4; copy of x:", "training, float32", "Twin", f"record: {path}"):
        assert words in printed
    content = records.read(path)
    assert content["complete"] is True
    names = [f"{row['mode']} {row['contestant']}" for row in content["rows"]]
    assert names == ["inference eager", "inference Twin", "training eager", "training Twin"]
    assert [copy["mode"] for copy in content["copies"]] == ["inference", "training"]
    arguments = content["arguments"]
    assert arguments["neurons"] == [64] and arguments["engines"] == ["eager"] and arguments["repeats"] == 3
    origin = content["provenance"]
    assert origin["device"]["type"] == "cpu" and origin["threads"] == 1
    assert origin["versions"]["torch"] == torch.__version__
    assert origin["date"].endswith("+00:00")


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("show", "nothing.json"), 2, "no record of that name; there are: "),
        (("show", "spikingjelly_rtx2080ti", "--plot", "p.svg"), 2, "--plot must end in .png or .html"),
        (("show", "spikingjelly_rtx2080ti", "--plot", f"{__file__}/p.png"), 2, "--plot can't be written at"),
        (("neurons", *SMALL, "--engines", "warp"), 2, "'warp' is not one of"),
        (("neurons", *SMALL, "--repeats", "2"), 2, "--repeats"),
    ],
)
def test_wrong_usage_is_an_error(arguments, code, says):
    result = call(*arguments)
    assert result.exit_code == code
    assert says in " ".join(result.output.split())


@pytest.mark.parametrize("suite", SUITES)
def test_what_can_not_be_written_is_noticed_before_anything_is_measured(suite):
    where = ("--device", "cpu") if suite == "record" else ()
    result = call(suite, "--quick", *where, "--out", f"{__file__}/r.json")
    assert result.exit_code == 1 and "device:" not in result.output
    assert "--out can't be written at" in result.output and "is not a folder" in " ".join(result.output.split())


def test_quick_is_one_tiny_size_unless_others_are_requested():
    quick = chosen(neurons.Arguments, "cpu", quick=True, steps=(5, 6))
    assert (quick.neurons, quick.steps, quick.repeats) == ((2**10,), (5, 6), 3)
    assert chosen(neurons.Arguments, "cpu").steps == (8, 16, 32, 64, 128)
    assert chosen(neurons.Arguments, "cuda").neurons == (2**12, 2**16, 2**20)


@pytest.mark.parametrize(
    ("suite", "given", "says"),
    [
        ("neurons", {"modes": ("inferense",)}, "--mode must be one of 'inference', 'training', but it is 'inferense'"),
        ("demo", {"repeats": 2}, "--repeats must be at least 3, but it is 2"),
        ("compare", {"batches": (4, -1)}, "--batch must be at least 1, but it is -1"),
        ("local", {"samples": -1}, "--samples must be at least 0, but it is -1"),
    ],
)
def test_options_are_checked_when_they_are_made(suite, given, says):
    with pytest.raises((TypeError, ValueError), match=re.escape(says)):
        getattr(bench, suite).Arguments(**given)


def test_no_candidate_to_time(monkeypatch):
    monkeypatch.setattr(neurons, "layers", lambda device: [])
    size = ("--device", "cpu", "--neurons", "64", "--steps", "64")
    result = call("neurons", *size, "--engines", "triton", "--mode", "inference")
    assert result.exit_code == 1 and "no candidate could be timed" in result.output


def test_what_was_measured_before_an_interruption_is_in_the_record(tmp_path, monkeypatch):
    measure, done = Case.measure, []

    def interrupted(case, repeats):
        if done:
            raise KeyboardInterrupt
        done.append(1)
        return measure(case, repeats)

    monkeypatch.setattr(Case, "measure", interrupted)
    path = tmp_path / "r.json"
    call("neurons", *SMALL, "--engines", "eager", "--dtype", "float32", "--out", str(path))
    content = records.read(path)
    assert content["complete"] is False and len(content["rows"]) == 2
    assert "interrupted: not complete" in call("show", str(path)).output


def outcome_of(every, mode="inference", dtype=torch.float32, width=64, steps=4):
    return Case(every, {"neurons": width, "steps": steps}, (steps, 1, width), dtype, mode, CPU).measure(3)


def copy_of(outcome):
    (copy,) = outcome.references["copies"]
    return copy


def twin(name="Twin", forward=None, **more):
    """A stand-in for another library: by default our eager LIF."""
    return Layer(name, "LIF", forward or (lambda x: LIF(engine="eager")(x)[0]), **more)


def reasons(outcome):
    return {skip["contestant"]: skip["reason"] for skip in outcome.skipped}


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_says_everything(mode, dtype):
    every, _ = candidates(CPU, ["eager", "cpp"], peers=False)
    outcome = outcome_of([*every, twin()], mode, dtype)
    assert [row["contestant"] for row in outcome.rows] == ["eager", "cpp", "Twin"]
    size = dtype.itemsize
    for row in outcome.rows:
        assert row["mode"] == mode and row["neurons"] == 64 and row["steps"] == 4
        assert row["floor_bytes"] == 64 * 4 * size * (2 if mode == "inference" else 5)
        expected = row["median_s"] * copy_of(outcome)["bytes_per_s"] / row["floor_bytes"]
        assert row["over_floor"] == pytest.approx(expected)
        assert row["p10_s"] <= row["median_s"] <= row["p90_s"] and row["first_s"] > 0
        assert row["median_s"] in row["rounds_s"] and len(row["rounds_s"]) == 3
        assert row["spikes_differ"] <= 1e-3 and row["compared_neurons"] == 64
        if mode == "training":
            assert row["gradient_differs"] < 1e-2
        else:
            assert row["gradient_differs"] is None
    assert copy_of(outcome)["bytes"] == 2 * 64 * 4 * size
    assert copy_of(outcome)["bytes_per_s"] == pytest.approx(copy_of(outcome)["bytes"] / copy_of(outcome)["median_s"])
    assert outcome.skipped == []


class _NaNBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, spikes):
        return spikes.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.nan


def spikes_of(x):
    return LIF(engine="eager")(x)[0]


WRONG = {
    "spikes": (lambda x: LIF(v_reset=None, v_threshold=0.5, engine="eager")(x)[0], "spikes differ"),
    "NaN": (lambda x: spikes_of(x) * (x * torch.nan), "spikes differ"),
    "gradients": (lambda x: spikes_of(x) + (2 * x - 2 * x.detach()), "gradients are"),
    "gradients of NaN": (lambda x: _NaNBackward.apply(spikes_of(x)), "gradients are nan"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_computes_something_else_is_not_timed(name):
    forward, reason = WRONG[name]
    outcome = outcome_of([twin(name, forward), twin()], "training")
    assert [row["contestant"] for row in outcome.rows] == ["Twin"]
    assert "computes something else" in reasons(outcome)[name] and reason in reasons(outcome)[name]
    if name == "gradients":
        assert [row["contestant"] for row in outcome_of([twin(name, forward)], "inference").rows] == [name]


@pytest.mark.parametrize(
    ("engine", "error", "reason"),
    [
        ("", RuntimeError("no kernel\nfor you"), "RuntimeError: no kernel"),
        ("", AssertionError(), "AssertionError: "),
        ("block", RuntimeError("a bug"), None),
        ("block", MemoryError("much"), "too little memory"),
        ("block", torch.cuda.OutOfMemoryError("much"), "too little memory"),
    ],
)
def test_who_fails_does_not_end_the_run_but_a_bug_of_ours_is_noted(engine, error, reason):
    def fail(x):
        raise error

    every = [twin("Broken", fail, engine=engine), twin()]
    outcome = outcome_of(every)
    assert len(outcome.rows) == 1 and reasons(outcome)["Broken"].startswith(reason or "RuntimeError: a bug")
    assert outcome.defects == ([] if reason else [error])  # raised at the end of the run


def test_first_and_last_neurons_of_a_large_layer_are_compared(monkeypatch):
    monkeypatch.setattr(neurons, "COMPARED", 16)

    def wrong_at(place):
        def forward(x):
            spikes = LIF(engine="eager")(x)[0].clone()
            spikes[..., place] = 1 - spikes[..., place]
            return spikes

        return forward

    every = [twin("first", wrong_at(0)), twin("last", wrong_at(-1)), twin()]
    outcome = outcome_of(every)
    assert set(reasons(outcome)) == {"first", "last"}
    assert outcome.rows[0]["compared_neurons"] == 16


def test_what_does_not_fit_is_skipped_with_what_it_needs(monkeypatch):
    monkeypatch.setattr(neurons, "available", lambda device: 10 * 2**30)
    outcome = outcome_of([twin()], "training", width=2**22, steps=128)
    assert outcome.rows == []
    assert reasons(outcome)["Twin"].startswith("too little memory: about 27.9 GB are needed, and 10.7 GB are free")


def test_an_engine_that_is_not_made_for_the_device_is_left_out_with_the_reason(monkeypatch):
    from snnkit.engine import Plan

    monkeypatch.setattr(neurons, "plan_for", lambda *call: Plan("eager", "made for other devices", fallback=True))
    every, unavailable = candidates(CPU, ["eager", "block"], peers=False)
    assert [c.name for c in every] == ["eager"] and unavailable == {"block": "made for other devices"}


def test_an_engine_that_gives_way_is_never_timed():
    def gives_way(x):
        warnings.warn("LIF runs in the eager engine: compiling failed. Use it.", stacklevel=1)
        return LIF(engine="eager")(x)[0]

    outcome = outcome_of([Layer("block", "LIF", gives_way, "block"), twin()])
    assert [row["contestant"] for row in outcome.rows] == ["Twin"]
    assert "compiling failed" in reasons(outcome)["block"]
