"""Figures of benchmark records: time against T, ns per neuron and step, and comparisons with other machines."""

import copy

import pytest

from snnkit import records
from snnkit.lab.viz.alt import plain
from snnkit.lab.viz.figures import break_even, comparison, framework_ratios, per_neuron_step, races, training_rates

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


def test_the_name_of_a_shorter_line_stands_beside_its_end_unless_another_line_passes_there():
    mine = timed([("eager", "snnkit", "LIF", 10)], 1e-6, "Some GPU", 1000, "float32")
    longer = timed([("SpikingJelly", "SpikingJelly", "LIF", 1)], 1e-6, "Some GPU", 1000, "float32")
    for row in longer["rows"]:
        row["steps"] *= 16
    for slower, anchor in ((1, "left"), (160, "center")):  # far below, or at the same height
        for row in longer["rows"]:
            row["median_s"] = row["p10_s"] = row["p90_s"] = slower * 1e-6 * row["steps"] / 16
        figure = per_neuron_step({"your run": mine, "the page": longer})
        (inside,) = (note for note in figure.layout.annotations if note.text.endswith("eager, your run"))
        assert inside.xanchor == anchor


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


def test_lines_are_measured_and_bands_predicted():
    figure = comparison(made())
    line = on(figure, "x", "auto")
    assert list(line.x) == [16, 128] and list(line.y) == [1280, 10240]
    assert list(on(figure, "x2", "auto").x) == [128, 1000] and list(on(figure, "x2", "auto").y) == [80000, 10240]
    assert list(on(figure, "x", "snnTorch").y) == [160, 1280]
    assert not any(trace.name == "block" for trace in figure.data), "of the engines, the fastest and the loop"
    assert "measured" in line.customdata[0] and "Some GPU" in line.customdata[0]
    band = on(figure, "x", "GC200, predicted")
    assert band.fill == "toself" and list(band.x) == [16, 128, 128, 16]
    assert list(band.y) == [14400, 115200, 100, 100] and "never run" in band.text
    assert figure.layout.title.text == "Batches of 128: auto trains 8 times as fast as snnTorch"
    labels = [plain(note.text) for note in figure.layout.annotations]
    assert {"● auto", "● snnTorch", "● GC200, predicted"} <= set(labels) and not figure.layout.showlegend


def test_a_record_without_float32_is_drawn_in_what_it_has():
    halves = made()
    for row in (*halves["rows"], *halves["predictions"]):
        row["dtype"] = "bfloat16"
    figure = comparison(halves)
    assert "bfloat16" in figure.layout.yaxis.title.text
    assert list(on(figure, "x", "auto").y) == [1280, 10240] and on(figure, "x", "GC200, predicted")


def test_several_machines():
    figure = comparison([made(), made("Another GPU")])
    assert on(figure, "x", "auto, Another GPU") and on(figure, "x", "auto, Some GPU")


def test_a_row_for_each_network_and_a_dot_for_each_library():
    case = {"net": "mlp", "width": 8, "equation": "LIF", "batch": 4, "p10_s": 1e-3, "p90_s": 2e-3, "over_floor": 2.0}
    rates = [("auto", "snnkit", 60.0), ("contiguous", "snnkit", 50.0), ("eager", "snnkit", 9.0)]
    rates += [("Norse", "Norse", 20.0), ("Norse, fused optimizer", "Norse", 30.0)]
    rows = [
        case | {"contestant": name, "library": library, "samples_per_s": scale * rate, "dtype": dtype, "first_s": 1.0}
        for name, library, rate in rates
        for dtype, scale in (("float32", 1), ("bfloat16", 3))
    ]
    ours = [row for row in rows if row["library"] == "snnkit"]
    rows += [row | {"net": "conv", "samples_per_s": 4 * row["samples_per_s"]} for row in ours]
    record = {"kind": "training", "provenance": {"device": {"name": "Some CPU"}}, "rows": rows}
    figure = training_rates(record)
    assert list(figure.layout.yaxis.ticktext) == ["conv 8, LIF", "mlp 8, LIF"]
    dots = {(t.name, t.marker.symbol.endswith("open")): list(t.x) for t in figure.data}
    assert sorted(dots["snnkit", False]) == [60, 240] and dots["Norse", False] == [30] and dots["Norse", True] == [90]
    assert sorted(dots["eager", False]) == [9, 36] and sum(bool(t.showlegend) for t in figure.data) == 3
    assert figure.layout.title.text.startswith("Training: snnkit is 2 times as fast as the next library")
    record["rows"] = [row for row in rows if row["library"] == "snnkit"]
    assert training_rates(record).layout.title.text.startswith("Training: samples per second")


def test_a_framework_has_a_dot_for_each_size():
    case = {"equation": "LIF", "dtype": "float32", "mode": "inference", "part": "neurons", "p10_s": 2.0, "p90_s": 9.0}
    rows = [
        case | {"contestant": name, "library": library, "features": n, "median_s": s * n}
        for n in (8, 16)
        for name, library, s in (("cpp", "snnkit", 1.0), ("block", "snnkit", 2.0), ("Norse", "Norse", 5.0))
    ]
    record = {"kind": "frameworks", "provenance": {"device": {"name": "Some CPU"}}, "rows": rows}
    figure = framework_ratios(record)
    small, large = figure.data
    assert (small.x, large.x) == ((5,), (5,)) and (small.y, large.y) == ((0,), (0,))
    assert small.marker.symbol == "circle-open" and large.marker.symbol == "circle"
    assert figure.layout.annotations[-1].text == "hollow: n = 8, filled: n = 16"  # once, below both panels
    assert figure.layout.yaxis3.ticktext == ("Norse",)


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
    assert figure.layout.title.text.startswith("Up to 1 % of spikes, products by their places are faster")
    with pytest.raises(ValueError, match="record must hold products"):
        break_even(made | {"rows": made["rows"][-1:]})
