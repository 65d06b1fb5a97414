"""Figures of benchmark records: time against T, ns per neuron and step, and comparisons with other machines."""

import copy

import pytest

from snnkit import records
from snnkit.lab.viz.figures import break_even, comparison, per_neuron_step, races

from .test_records import MEASURED


def timed(contestants, seconds_per_step, device, neurons, dtype):
    """A record with made-up times, T = 32 and 8; of each contestant (name, library, equation, two times for modes)."""
    made = copy.deepcopy(MEASURED)
    made["provenance"]["device"]["name"] = device
    (row,) = made["rows"]
    made["rows"] = []
    for steps in (32, 8):
        for name, library, equation, *times in contestants:
            engine = name if library == "snnkit" else ""
            who = {"contestant": name, "library": library, "engine": engine, "equation": equation}
            size = {"steps": steps, "neurons": neurons, "dtype": dtype, "out_dtype": dtype}
            floor = steps * seconds_per_step
            for mode, slower in (("inference", times[0]), ("training", times[-1])):
                middle = slower * floor
                seconds = {"floor_s": floor, "median_s": middle, "p10_s": 0.9 * middle, "p90_s": 1.5 * middle}
                made["rows"].append(row | who | size | {"mode": mode} | seconds)
    return made


def race(device="Some GPU", neurons=2**20, dtype="float32"):
    """LIF in two engines, a peer of the same equation and one of another: times of a floor of 0.1 ms per step."""
    contestants = (
        ("block", "snnkit", "LIF", 2),
        ("triton", "snnkit", "LIF", 1.5),
        ("block", "snnkit", "Leaky", 3),
        ("SpikingJelly", "SpikingJelly", "LIF", 5),
        ("snnTorch", "snnTorch", "Leaky", 9),
    )
    return timed(contestants, 1e-4, device, neurons, dtype)


def curves(figure, axis):
    return {t.name: dict(zip(t.x, t.y, strict=True)) for t in figure.data if (t.xaxis or "x") == axis}


def test_a_line_for_each_contestant_and_a_dashed_floor():
    figure = races(race())
    for axis in ("x", "x2"):
        found = curves(figure, axis)
        assert set(found) == {"block", "triton", "SpikingJelly", "snnTorch (Leaky)", "floor"}
        assert found["floor"] == pytest.approx({8: 0.8, 32: 3.2})
        assert found["block"] == pytest.approx({8: 1.6, 32: 6.4})
        assert list(found["block"]) == [8, 32]  # as the line runs, whatever the order of the record
        assert found["snnTorch (Leaky)"] == pytest.approx({8: 7.2, 32: 28.8})


def test_several_records_are_told_apart_by_their_devices():
    figure = races([race("A"), race("B")])
    names = {t.name for t in figure.data}
    assert {"block, A", "block, B", "floor, A", "floor, B"} <= names
    # Two of one device: their points would be joined to one line.
    assert {"block, A", "block, A (2)", "floor, A (2)"} <= {t.name for t in races([race("A"), race("A")]).data}


def test_the_spread_is_drawn_where_it_was_measured():
    mine, published = several(), records.load("spikingjelly_rtx2080ti")
    bars = {t.name: t.error_y for t in per_neuron_step({"your run": mine, "the page": published}).data}
    assert set(bars) == {f"{name}, your run" for name in ("eager", "block", "triton", "SpikingJelly")} | {
        f"SpikingJelly ({backend} backend), the page" for backend in ("torch", "CuPy")
    }
    up = bars["eager, your run"].array
    down = bars["eager, your run"].arrayminus
    assert (list(up), list(down)) == (pytest.approx([4.5] * 2), pytest.approx([0.9] * 2))
    assert bars["SpikingJelly (torch backend), the page"].array is None
    assert races(mine).data[0].error_y.array is not None


def test_published_curves_name_their_hardware_and_have_no_floor():
    published = records.load("spikingjelly_rtx2080ti")
    alone = curves(races(published), "x2")
    assert set(alone) == {f"SpikingJelly ({b} backend), GeForce RTX 2080 Ti" for b in ("torch", "CuPy")}
    assert alone["SpikingJelly (CuPy backend), GeForce RTX 2080 Ti"][128] == pytest.approx(26.715, abs=1e-3)
    beside = set(curves(races([race(), published]), "x"))
    assert beside == set(alone) | {"block", "triton", "SpikingJelly", "snnTorch (Leaky)", "floor"}


def test_without_a_size_it_is_the_largest_that_all_have():
    both = race(neurons=2**12)
    both["rows"] += race(neurons=2**16)["rows"]
    assert "65,536" in races(both).layout.title.text
    assert "4,096" in races([both, race(neurons=2**12)]).layout.title.text


def several(device="Some GPU, 80 GB", neurons=2**20):
    """Times in ns per neuron and step, for two sizes."""
    contestants = (
        ("eager", "snnkit", "LIF", 9.0),
        ("block", "snnkit", "LIF", 2.0, 3.0),
        ("triton", "snnkit", "LIF", 2.5),
        ("torch.compile", "torch", "LIF", 1.0),
        ("SpikingJelly", "SpikingJelly", "LIF", 5.0),
        ("snnTorch", "snnTorch", "Leaky", 7.0),
    )
    made = timed(contestants, neurons * 1e-9, device, neurons, "float32")
    made["rows"] += timed(contestants, neurons / 16 * 1e-9, device, neurons // 16, "float32")["rows"]
    small = {"contestant": "block, uint8 spikes", "out_dtype": "uint8"}
    made["rows"].append(made["rows"][2] | small | {"median_s": 1e-9})
    return made


def test_the_loop_the_best_engine_and_peers_of_the_same_equation():
    figure = per_neuron_step({"Some GPU": several()})
    forward, training = curves(figure, "x"), curves(figure, "x2")
    assert set(forward) == {"eager, Some GPU", "block, Some GPU", "SpikingJelly, Some GPU"}
    assert set(training) == {"eager, Some GPU", "triton, Some GPU", "SpikingJelly, Some GPU"}
    assert forward["block, Some GPU"] == pytest.approx({8: 2.0, 32: 2.0})
    assert list(forward["block, Some GPU"]) == [8, 32]


BATCHES, HIDDEN = (16, 128), (128, 1000)


def made(device="Some GPU"):
    """A record with made-up rates: eager snnTorch 10, ours 50 and 80 times the batch; a band and two claims."""
    case = {"net": "mlp", "equation": "Leaky", "dtype": "float32", "steps": 25}
    sizes = [*((128, hidden) for hidden in HIDDEN if hidden != 1000), *((batch, 1000) for batch in BATCHES)]
    rows, bands = [], []
    for batch, width in sizes:
        at = case | {"batch": batch, "width": width}
        for name, library, rate in (("block", "snnkit", 50), ("auto", "snnkit", 80), ("snnTorch", "snnTorch", 10)):
            rate = rate * batch * 1000 / width
            rows.append(at | {"contestant": name, "library": library, "samples_per_s": rate, "p10_s": 1, "p90_s": 2})
        band = {"chip": "GC200", "precision": "float32", "low": 100.0, "likely": 200.0}
        bands.append(at | band | {"high": 0.9 * batch * width})
    claim = {"what": "this against that", "source": "somebody", "url": "https://there", "derived": False}
    return {
        "kind": "compare",
        "provenance": {"device": {"name": device}},
        "arguments": {"batch": 128, "width": 1000, "steps": 25},
        "rows": rows,
        "predictions": bands,
        "claims": [
            claim | {"who": "A", "said": "up to 10", "low": 10, "high": 10, "batch": 128, "hidden": 1000},
            claim
            | {"who": "B", "said": "5 to 38", "low": 5, "high": 38, "batch": 48, "hidden": 2932}
            | {"derived": True},
        ],
    }


def on(figure, axis, name):
    return next(t for t in figure.data if (t.xaxis or "x") == axis and t.name == name)


def test_lines_are_measured_bands_predicted_and_points_published():
    figure = comparison(made())
    line = on(figure, "x", "block")
    assert list(line.x) == [16, 128] and list(line.y) == [800, 6400]
    assert list(on(figure, "x2", "block").x) == [128, 1000] and list(on(figure, "x2", "block").y) == [50000, 6400]
    assert list(on(figure, "x3", "auto").y) == [8, 8] and list(on(figure, "x4", "snnTorch").y) == [1, 1]
    assert "measured" in line.customdata[0] and "Some GPU" in line.customdata[0]
    band = on(figure, "x", "predicted: GC200, float32")
    assert band.fill == "toself" and list(band.x) == [16, 128, 128, 16]
    assert list(band.y) == [14400, 115200, 100, 100] and "never run" in band.text
    assert not any("predicted" in t.name for t in figure.data if t.xaxis in ("x3", "x4"))
    point = on(figure, "x3", "published: A")
    assert list(point.x) == [128] and list(point.y) == [10] and point.marker.symbol == "star"
    stroke = on(figure, "x4", "derived: B")
    assert list(stroke.x) == [2932, 2932] and list(stroke.y) == [5, 38]
    for words in ("up to 10 times: this against that", "somebody", "https://there"):
        assert words in point.text
    assert not any(t.marker.symbol == "star" for t in figure.data if (t.xaxis or "x") in ("x", "x2"))


def test_a_record_without_float32_is_drawn_in_what_it_has():
    halves = made()
    for row in (*halves["rows"], *halves["predictions"]):
        row["dtype"] = "bfloat16"
    figure = comparison(halves)
    assert "bfloat16: lines measured" in figure.layout.title.text
    assert list(on(figure, "x", "block").y) == [800, 6400] and on(figure, "x", "predicted: GC200, float32")


def test_several_machines():
    other = made("Another GPU")
    figure = comparison([made(), other])
    assert on(figure, "x", "auto, Another GPU") and on(figure, "x", "auto, Some GPU")
    for row in other["rows"]:
        row["samples_per_s"] *= 7
    figure = comparison([made(), other])
    for device in ("Some GPU", "Another GPU"):  # each over its own snnTorch
        assert list(on(figure, "x3", f"auto, {device}").y) == [8, 8]


def test_products_of_spikes_over_the_faster_dense_one():
    made = copy.deepcopy(MEASURED) | {"kind": "sparsity", "rows": []}
    for mode, ours in (("forward", 1e-3), ("training", 2e-3), ("training step", 1e-9)):
        for density in (0.5, 0.01):
            for name, seconds in (("snnkit", ours if density < 0.1 else 8e-3), ("dense", 8e-3), ("PyTorch", 9e-3)):
                row = {"case": "3 x 4 -> 5", "mode": mode, "dtype": "float32", "density": density, "differ": 0.0}
                times = {"median_s": seconds, "p10_s": seconds / 2, "p90_s": 2 * seconds}
                made["rows"].append(row | times | {"contestant": name, "library": "snnkit"})
    figure = break_even(made)
    assert curves(figure, "x") == {"3 x 4 -> 5": pytest.approx({1: 8, 50: 1})}
    assert curves(figure, "x2") == {"3 x 4 -> 5": pytest.approx({1: 4, 50: 1})}
    assert list(figure.data[0].error_y.array) == pytest.approx([8, 1])
    with pytest.raises(ValueError, match="record must hold products"):
        break_even(made | {"rows": made["rows"][-1:]})
