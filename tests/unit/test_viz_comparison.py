"""The figure of `snnkit bench compare`: lines, bands and marked points, each saying what it is."""

import pytest

from snnkit import viz
from snnkit.viz.figures import comparison

BATCHES, HIDDEN = (16, 128), (128, 1000)


def made(device="Some GPU", peer=True):
    """A record with made-up rates: eager snnTorch 10, ours 50 and 80 times the batch; a band and two claims."""
    case = {"net": "mlp", "equation": "Leaky", "dtype": "float32", "steps": 25}
    sizes = [*((128, hidden) for hidden in HIDDEN if hidden != 1000), *((batch, 1000) for batch in BATCHES)]
    rows, bands = [], []
    for batch, width in sizes:
        at = case | {"batch": batch, "width": width}
        for name, library, rate in (("block", "snnkit", 50), ("auto", "snnkit", 80), ("snnTorch", "snnTorch", 10)):
            if library == "snnkit" or peer:
                rate = rate * batch * 1000 / width
                rows.append(
                    at | {"contestant": name, "library": library, "samples_per_s": rate, "p10_s": 1, "p90_s": 2}
                )
        bands.append(
            at | {"chip": "GC200", "precision": "float32", "low": 100.0, "likely": 200.0, "high": 0.9 * batch * width}
        )
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


def test_lines_are_measured():
    figure = comparison(made())
    line = on(figure, "x", "block")
    assert list(line.x) == [16, 128] and list(line.y) == [800, 6400]
    assert list(on(figure, "x2", "block").x) == [128, 1000] and list(on(figure, "x2", "block").y) == [50000, 6400]
    assert list(on(figure, "x3", "auto").y) == [8, 8] and list(on(figure, "x4", "snnTorch").y) == [1, 1]
    assert "measured" in line.customdata[0] and "Some GPU" in line.customdata[0]


def test_bands_are_predicted():
    figure = comparison(made())
    band = on(figure, "x", "predicted: GC200, float32")
    assert band.fill == "toself" and list(band.x) == [16, 128, 128, 16]
    assert list(band.y) == [14400, 115200, 100, 100] and "never run" in band.text
    assert not any("predicted" in t.name for t in figure.data if t.xaxis in ("x3", "x4"))


def test_points_are_published():
    figure = comparison(made())
    point = on(figure, "x3", "published: A")
    assert list(point.x) == [128] and list(point.y) == [10] and point.marker.symbol == "star"
    stroke = on(figure, "x4", "derived: B")
    assert list(stroke.x) == [2932, 2932] and list(stroke.y) == [5, 38]
    for words in ("up to 10 times: this against that", "somebody", "https://there"):
        assert words in point.text
    assert "the ratio of two published times" in stroke.text and "the ratio" not in point.text
    assert not any(t.marker.symbol == "star" for t in figure.data if (t.xaxis or "x") in ("x", "x2"))


def test_each_name_is_once_in_the_legend_and_looks_its_own():
    figure = comparison(made())
    shown = [t.name for t in figure.data if t.showlegend]
    assert len(shown) == len(set(shown)) == 6
    lines = {t.name: (t.line.color, t.line.dash, t.marker.symbol) for t in figure.data if t.customdata is not None}
    assert len(set(lines.values())) == len(lines) == 3
    assert all(axis.type == "log" for axis in figure.select_xaxes())
    assert viz.png_bytes(figure).startswith(b"\x89PNG")


def test_without_snntorch_there_is_no_ratio():
    figure = comparison(made(peer=False))
    assert {t.xaxis or "x" for t in figure.data} == {"x", "x2"}
    assert not any("published" in t.name for t in figure.data)


def test_several_machines():
    other = made("Another GPU")
    figure = comparison([made(), other])
    assert on(figure, "x", "auto, Another GPU") and on(figure, "x", "auto, Some GPU")
    for row in other["rows"]:
        row["samples_per_s"] *= 7
    figure = comparison([made(), other])
    for device in ("Some GPU", "Another GPU"):  # each over its own snnTorch
        assert list(on(figure, "x3", f"auto, {device}").y) == [8, 8]


def test_a_band_of_one_size_is_a_stroke():
    record = made()
    record["predictions"] = [b for b in record["predictions"] if b["batch"] == 16]
    stroke = on(comparison(record), "x", "predicted: GC200, float32")
    assert list(stroke.x) == [16, 16] and list(stroke.y) == [100, 14400]


@pytest.mark.parametrize(
    "records, options, says",
    [
        ([], {}, "at least one record"),
        ({"kind": "compare", "rows": []}, {}, "where their numbers come from"),
        (made() | {"kind": "training"}, {}, "kind 'compare', but one is of kind 'training'"),
        (made(), {"dtype": "float16"}, "no row has dtype 'float16'; there are 'float32'"),
        (made() | {"rows": []}, {}, "there are none"),
    ],
)
def test_bad_input_is_told(records, options, says):
    with pytest.raises(ValueError, match=says):
        comparison(records, **options)
