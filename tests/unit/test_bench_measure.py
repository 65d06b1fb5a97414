"""One case: compare, time, account. Who differs, falls back or does not fit is named and not timed."""

import dataclasses
import warnings

import pytest
import torch

from snnkit.bench import contestants as room
from snnkit.bench import measure as measuring
from snnkit.bench import peers as peer_room
from snnkit.bench.contestants import EQUATIONS, Contestant, contestants, engine_names
from snnkit.bench.measure import Case, measure
from snnkit.bench.peers import Peer
from snnkit.engine import ENGINES
from snnkit.neuron import LIF

CPU = torch.device("cpu")


def case(mode="inference", dtype=torch.float32, neurons=64, steps=4):
    return Case(neurons, steps, dtype, mode, CPU)


def twin(name="Twin", forward=None, **more):
    """A stand-in for another library: our eager LIF unless told otherwise."""
    return Contestant(name, name, "", "LIF", forward or (lambda x: LIF(engine="eager")(x)[0]), **more)


def reasons(outcome):
    return {skip["contestant"]: skip["reason"] for skip in outcome.skipped}


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_says_everything(mode, dtype):
    everybody, _ = contestants(CPU, ["eager", "block"], with_peers=False)
    everybody = [c for c in everybody if c.out_dtype is None]
    outcome = measure(case(mode, dtype), [*everybody, twin()], 3, {})
    assert [row["contestant"] for row in outcome.rows] == ["eager", "block", "Twin"]
    size = dtype.itemsize
    for row in outcome.rows:
        assert row["mode"] == mode and row["neurons"] == 64 and row["steps"] == 4
        assert row["floor_bytes"] == 64 * 4 * size * (2 if mode == "inference" else 5)
        assert row["over_floor"] == pytest.approx(row["median_s"] * outcome.copy["bytes_per_s"] / row["floor_bytes"])
        assert row["p10_s"] <= row["median_s"] <= row["p90_s"] and row["first_s"] > 0
        assert row["spikes_differ"] <= 1e-3 and row["compared_neurons"] == 64
        assert row["peak_bytes"] is None
        if mode == "training":
            assert row["gradient_differs"] < 1e-2 and row["held_bytes"] >= row["held_x_bytes"] > -1
        else:
            assert row["gradient_differs"] is None and row["held_bytes"] == 0
    assert outcome.copy["bytes"] == 2 * 64 * 4 * size
    assert outcome.copy["bytes_per_s"] == pytest.approx(outcome.copy["bytes"] / outcome.copy["median_s"])
    assert outcome.skipped == []


def test_other_spikes_are_not_timed():
    other = twin("Other", lambda x: LIF(v_reset=None, v_threshold=0.5, engine="eager")(x)[0])
    outcome = measure(case(), [twin(), other], 3, {})
    assert [row["contestant"] for row in outcome.rows] == ["Twin"]
    assert "computes something else" in reasons(outcome)["Other"] and "spikes differ" in reasons(outcome)["Other"]


def test_other_gradients_are_not_timed_in_training_only():
    other = twin("Other", lambda x: LIF(engine="eager")(x)[0] + (2 * x - 2 * x.detach()))
    assert [row["contestant"] for row in measure(case("inference"), [other], 3, {}).rows] == ["Other"]
    outcome = measure(case("training"), [other, twin()], 3, {})
    assert [row["contestant"] for row in outcome.rows] == ["Twin"]
    assert "gradients are" in reasons(outcome)["Other"]


def test_nan_is_something_else():
    outcome = measure(case("training"), [twin("NaN", lambda x: LIF(engine="eager")(x)[0] * (x * torch.nan))], 3, {})
    assert not outcome.rows and "spikes differ" in reasons(outcome)["NaN"]
    only_backward = twin("NaN", lambda x: _NaNBackward.apply(LIF(engine="eager")(x)[0]))
    outcome = measure(case("training"), [only_backward], 3, {})
    assert not outcome.rows and "gradients are nan" in reasons(outcome)["NaN"]


class _NaNBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, spikes):
        return spikes.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.nan


def test_first_and_last_neurons_of_a_large_layer_are_compared(monkeypatch):
    monkeypatch.setattr(measuring, "_COMPARED", 16)

    def wrong_at(place):
        def forward(x):
            spikes = LIF(engine="eager")(x)[0].clone()
            spikes[..., place] = 1 - spikes[..., place]
            return spikes

        return forward

    everybody = [twin("first", wrong_at(0)), twin("last", wrong_at(-1)), twin()]
    outcome = measure(case(), everybody, 3, {})
    assert set(reasons(outcome)) == {"first", "last"}
    assert outcome.rows[0]["compared_neurons"] == 16


def test_inference_keeps_nothing_and_training_starts_from_a_fresh_leaf():
    seen, inputs = [], []

    def forward(x):
        seen.append((torch.is_grad_enabled(), x.requires_grad, x.grad_fn))
        inputs.append(x)
        return LIF(engine="eager")(x)[0]

    measure(case("inference"), [twin("Watcher", forward)], 3, {})
    assert set(seen) == {(False, False, None)}
    seen.clear()
    inputs.clear()
    measure(case("training"), [twin("Watcher", forward)], 3, {})
    assert set(seen) == {(True, True, None)}
    # All over the same data, and none but the twice used one of the count of what is held came before.
    assert len({id(x) for x in inputs}) == len(inputs) - 1 and len({x.data_ptr() for x in inputs}) == 1


def test_a_peer_that_fails_does_not_end_the_run():
    def fail(x):
        raise RuntimeError("no kernel\nfor you")

    outcome = measure(case(), [twin("Broken", fail), twin()], 3, {})
    assert reasons(outcome) == {"Broken": "RuntimeError: no kernel"} and len(outcome.rows) == 1

    def fail_without_a_word(x):
        raise AssertionError

    assert reasons(measure(case(), [twin("Mute", fail_without_a_word)], 3, {})) == {"Mute": "AssertionError: "}


def test_an_engine_of_ours_that_fails_does():
    def fail(x):
        raise RuntimeError("a bug")

    with pytest.raises(RuntimeError, match="a bug"):
        measure(case(), [dataclasses.replace(twin("block", fail), library="snnkit")], 3, {})


def test_an_engine_that_gives_way_is_not_timed_and_that_is_remembered():
    def gives_way_and_says_so_once():
        said = []

        def forward(x):
            if not said:
                said.append(1)
                warnings.warn("LIF runs in the eager engine: compiling failed. Use it.", stacklevel=1)
            return LIF(engine="eager")(x)[0]

        return forward

    ours = Contestant("block", "snnkit", "block", "LIF", gives_way_and_says_so_once())
    fell_back = {}
    for _ in range(2):
        outcome = measure(case(), [ours, twin()], 3, fell_back)
        assert [row["contestant"] for row in outcome.rows] == ["Twin"]
        assert "compiling failed" in reasons(outcome)["block"]


def test_what_does_not_fit_is_skipped_with_what_it_needs(monkeypatch):
    monkeypatch.setattr(measuring, "available", lambda device: 10 * 2**30)
    large = case("training", neurons=2**22, steps=128)
    outcome = measure(large, [twin(keeps=20)], 3, {})
    assert outcome.rows == []
    assert reasons(outcome)["Twin"] == (
        "too little memory: about 50.0 GiB are needed, and 10.0 GiB are free; lower --neurons or --steps"
    )


def test_who_takes_part():
    everybody, left_out = contestants(CPU, with_peers=False)
    names = {c.name for c in everybody}
    assert {"eager", "block", "torch.compile"} <= names and "auto" not in names
    assert {c.equation for c in everybody} == {"LIF"}
    assert len({c.key for c in everybody}) == len(everybody)
    assert {c.engine for c in everybody if c.engine} | set(left_out) == set(ENGINES) - {"auto"}
    assert set(engine_names()) == (set(ENGINES) - {"auto"}) | {"torch.compile"}


def test_our_engines_run_on_the_equation_of_each_peer(monkeypatch):
    ours = EQUATIONS["Leaky"]("eager")
    monkeypatch.setattr(room, "peers", lambda device: [Peer("Other", "Leaky", lambda x: ours(x)[0])])
    everybody, _ = contestants(CPU, ["eager"])
    assert [(c.name, c.equation) for c in everybody] == [("eager", "LIF"), ("eager", "Leaky"), ("Other", "Leaky")]
    outcome = measure(case("training"), everybody, 3, {})
    assert len(outcome.rows) == 3 and outcome.skipped == []


def test_an_engine_that_is_not_made_for_the_device_is_left_out_with_the_reason(monkeypatch):
    from snnkit.engine.select import Choice

    monkeypatch.setattr(room, "choose", lambda *call: Choice("eager", "made for other devices", fallback=True))
    everybody, left_out = contestants(CPU, ["eager", "block"], with_peers=False)
    assert [c.name for c in everybody] == ["eager"] and left_out == {"block": "made for other devices"}


def test_long_loops_are_not_compiled_whole():
    unrolled = twin("torch.compile", longest=4)
    assert measure(case(steps=4), [unrolled], 3, {}).rows
    assert not measure(case(steps=5), [unrolled], 3, {}).rows


def test_the_loop_as_it_stands_compiles():
    everybody, _ = contestants(CPU, ["torch.compile"], with_peers=False)
    outcome = measure(case("training", steps=2), everybody, 3, {})
    assert [row["contestant"] for row in outcome.rows] == ["torch.compile"] and not outcome.skipped


def test_peers_that_are_missing_are_left_out(monkeypatch):
    def missing(device):
        raise ImportError("spikingjelly")

    monkeypatch.setattr(peer_room, "_spikingjelly", missing)
    monkeypatch.setattr(peer_room, "_snntorch", missing)
    monkeypatch.setattr(peer_room, "_norse", lambda device: Peer("Norse", "CubaLIF", lambda x: x))
    assert [peer.name for peer in peer_room.peers(CPU)] == ["Norse"]


def test_low_precision_input_meets_peers_under_autocast():
    seen = []
    forward = peer_room.as_users_run_it(lambda x: seen.append(torch.is_autocast_enabled("cpu")))
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        forward(torch.zeros(1, dtype=dtype))
    assert seen == [False, True, True]


def test_spikes_of_one_byte_have_a_lower_floor_and_no_training():
    everybody, _ = contestants(CPU, ["block"], with_peers=False)
    (row, small) = measure(case("inference"), everybody, 3, {}).rows
    assert (row["out_dtype"], small["out_dtype"]) == ("float32", "uint8")
    assert (row["floor_bytes"], small["floor_bytes"]) == (64 * 4 * 8, 64 * 4 * 5)
    assert row["engine"] == small["engine"] == "block"
    assert [r["contestant"] for r in measure(case("training"), everybody, 3, {}).rows] == ["block"]


@pytest.mark.parametrize("error", [MemoryError("much"), torch.cuda.OutOfMemoryError("much")])
def test_memory_that_runs_out_all_the_same(error):
    def greedy(x):
        raise error

    greedy_one = dataclasses.replace(twin("block", greedy), library="snnkit")
    outcome = measure(case(), [greedy_one, twin()], 3, {})
    assert len(outcome.rows) == 1 and "too little memory" in reasons(outcome)["block"]
