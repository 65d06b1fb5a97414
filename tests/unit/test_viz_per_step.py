"""Nanoseconds per neuron and step: the loop, the best engine and the peers of records of any size."""

import copy

import pytest

from snnkit import records, viz
from snnkit.viz.figures import per_neuron_step

from .test_records import MEASURED


def measured(device="Some GPU, 80 GB", neurons=2**20):
    """A record with made-up times in ns per neuron and step, T = 8 and 32."""
    made = copy.deepcopy(MEASURED)
    made["provenance"]["device"]["name"] = device
    (row,) = made["rows"]
    made["rows"] = []
    for size in (neurons, neurons // 16):
        for mode in ("inference", "training"):
            for steps in (32, 8):
                for name, library, engine, equation, ns in (
                    ("eager", "snnkit", "eager", "LIF", 9.0),
                    ("block", "snnkit", "block", "LIF", 2.0 if mode == "inference" else 3.0),
                    ("triton", "snnkit", "triton", "LIF", 2.5),
                    ("torch.compile", "torch", "", "LIF", 1.0),
                    ("SpikingJelly", "SpikingJelly", "", "LIF", 5.0),
                    ("snnTorch", "snnTorch", "", "Leaky", 7.0),
                ):
                    named = {"contestant": name, "library": library, "engine": engine, "equation": equation}
                    made["rows"].append(
                        row
                        | named
                        | {"mode": mode, "steps": steps, "neurons": size, "dtype": "float32", "out_dtype": "float32"}
                        | {"median_s": ns * steps * size * 1e-9}
                    )
    small = {"contestant": "block, uint8 spikes", "out_dtype": "uint8"}
    made["rows"].append(made["rows"][1] | small | {"median_s": 1e-9})
    return made


def curves(figure, axis):
    return {t.name: dict(zip(t.x, t.y, strict=True)) for t in figure.data if (t.xaxis or "x") == axis}


def test_the_loop_the_best_engine_and_peers_of_the_same_equation():
    figure = per_neuron_step([measured()])
    forward, training = curves(figure, "x"), curves(figure, "x2")
    assert set(forward) == {"eager, Some GPU", "block, Some GPU", "SpikingJelly, Some GPU"}
    assert set(training) == {"eager, Some GPU", "triton, Some GPU", "SpikingJelly, Some GPU"}
    assert forward["block, Some GPU"] == pytest.approx({8: 2.0, 32: 2.0})
    assert list(forward["block, Some GPU"]) == [8, 32]
    assert set(curves(per_neuron_step([measured()], equation="Leaky"), "x")) == {"snnTorch, Some GPU"}


def test_each_name_is_once_in_the_legend():
    figure = per_neuron_step([measured()])
    assert sorted(t.name for t in figure.data if t.showlegend) == sorted({t.name for t in figure.data})


def test_published_curves_stand_beside_layers_of_another_size():
    published = records.load("spikingjelly_rtx2080ti")
    figure = per_neuron_step([measured(neurons=2**16), published])
    forward = curves(figure, "x")
    (row,) = (
        r for r in published["rows"] if (r["mode"], r["steps"]) == ("inference", 128) and "torch" in r["contestant"]
    )
    name = f"{row['contestant']}, GeForce RTX 2080 Ti"
    assert forward[name][128] == pytest.approx(row["seconds"] / 2**20 / 128 * 1e9)
    (line,) = (t for t in figure.data if t.name == name and t.showlegend)
    assert line.line.dash == "dot" and line.marker.symbol.endswith("-open")
    assert figure.layout.title.text.endswith("; hollow: published")
    assert all(t.line.dash != "dot" for t in figure.data if "2080" not in t.name)
    assert "published" in line.customdata[0] and "1,048,576" in line.customdata[0]
    assert viz.png_bytes(figure).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([], {}, "must hold at least one record"),
        ([measured()], {"dtype": "int8"}, "no record has rows of dtype 'int8'"),
        ([measured() | {"provenance": {}}], {}, "where their numbers come from"),
    ],
)
def test_nothing_to_draw(given, options, message):
    with pytest.raises(ValueError, match=message):
        per_neuron_step(given, **options)
