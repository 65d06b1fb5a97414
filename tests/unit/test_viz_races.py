"""Time against T: a line for each contestant, the floor dashed, published curves beside."""

import copy

import pytest

from snnkit import records, viz
from snnkit.viz.figures import races

from .test_records import MEASURED


def measured(device="Some GPU", neurons=2**20, dtype="float32"):
    """A record with made-up times: LIF in two engines, a peer of the same equation and one of another, T = 8 and 32."""
    made = copy.deepcopy(MEASURED)
    made["provenance"]["device"]["name"] = device
    (row,) = made["rows"]
    made["rows"] = []
    for mode in ("inference", "training"):
        for steps in (32, 8):
            for name, library, equation, slower in (
                ("block", "snnkit", "LIF", 2),
                ("triton", "snnkit", "LIF", 1.5),
                ("block", "snnkit", "Leaky", 3),
                ("SpikingJelly", "SpikingJelly", "LIF", 5),
                ("snnTorch", "snnTorch", "Leaky", 9),
            ):
                floor = steps * 1e-4
                made["rows"].append(
                    row
                    | {"contestant": name, "library": library, "equation": equation, "mode": mode, "steps": steps}
                    | {"neurons": neurons, "dtype": dtype, "floor_s": floor, "median_s": slower * floor}
                )
    return made


def curves(figure, axis):
    return {t.name: dict(zip(t.x, t.y, strict=True)) for t in figure.data if (t.xaxis or "x") == axis}


def test_a_line_for_each_contestant_and_a_dashed_floor():
    figure = races(measured())
    for axis in ("x", "x2"):
        found = curves(figure, axis)
        assert set(found) == {"block", "triton", "SpikingJelly", "snnTorch (Leaky)", "floor"}
        assert found["floor"] == pytest.approx({8: 0.8, 32: 3.2})
        assert found["block"] == pytest.approx({8: 1.6, 32: 6.4})
        assert list(found["block"]) == [8, 32]  # as the line runs, whatever the order of the record
        assert found["snnTorch (Leaky)"] == pytest.approx({8: 7.2, 32: 28.8})
    (dash,) = {t.line.dash for t in figure.data if t.name == "floor"}
    assert dash == "dash"
    looks = {(t.line.color, t.line.dash, t.marker.symbol) for t in figure.data}
    assert len(looks) == 5
    assert sum(bool(t.showlegend) for t in figure.data) == 5
    for layout in (figure.layout.xaxis, figure.layout.xaxis2, figure.layout.yaxis, figure.layout.yaxis2):
        assert layout.type == "log"
    assert figure.layout.xaxis.tickvals == (8, 32)
    assert viz.png_bytes(figure).startswith(b"\x89PNG")


def test_the_equation_chooses_our_lines():
    assert set(curves(races(measured(), equation="Leaky"), "x")) == {
        "block",
        "SpikingJelly (LIF)",
        "snnTorch",
        "floor",
    }


def test_one_mode_is_one_panel():
    figure = races(measured(), modes=["training"])
    assert {t.xaxis for t in figure.data} == {"x"}
    assert [note.text for note in figure.layout.annotations] == ["Forward and backward"]


def test_several_records_are_told_apart_by_their_devices():
    figure = races([measured("A"), measured("B")])
    names = {t.name for t in figure.data}
    assert {"block, A", "block, B", "floor, A", "floor, B"} <= names


def test_published_curves_name_their_hardware_and_have_no_floor():
    published = records.load("spikingjelly_rtx2080ti")
    alone = curves(races(published), "x2")
    assert set(alone) == {f"SpikingJelly ({b} backend), GeForce RTX 2080 Ti" for b in ("torch", "CuPy")}
    assert alone["SpikingJelly (CuPy backend), GeForce RTX 2080 Ti"][128] == pytest.approx(26.715, abs=1e-3)
    beside = set(curves(races([measured(), published]), "x"))
    assert beside == set(alone) | {"block", "triton", "SpikingJelly", "snnTorch (Leaky)", "floor"}


def test_published_curves_look_other_than_measured_ones():
    figure = races([measured(), records.load("spikingjelly_rtx2080ti")])
    assert (
        figure.layout.title.text.endswith("; hollow: published")
        and "published" not in races(measured()).layout.title.text
    )
    for trace in figure.data:
        published = "2080" in trace.name
        assert (trace.line.dash == "dot") == published == str(trace.marker.symbol).endswith("-open")
    assert len({t.marker.symbol for t in figure.data if "2080" in t.name}) == 2


def test_hovering_says_where_a_number_comes_from():
    note = next(t for t in races(measured()).data if t.name == "block").customdata[0]
    assert "Some GPU" in note and "times its floor" in note and "10-90 %" in note


def test_without_a_size_it_is_the_largest_that_all_have():
    both = measured(neurons=2**12)
    both["rows"] += measured(neurons=2**16)["rows"]
    assert "65,536" in races(both).layout.title.text
    assert "4,096" in races([both, measured(neurons=2**12)]).layout.title.text
    assert "4,096" in races(both, neurons=2**12).layout.title.text


def without(field):
    return {key: value for key, value in measured().items() if key != field}


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: races([]), "at least one record"),
        (lambda: races(without("provenance")), "provenance"),
        (lambda: races(measured(), neurons=3), r"no row has neurons 3 and dtype 'float32'; there are \(1048576"),
        (lambda: races(measured(), dtype="float16"), "no row has dtype 'float16'; there are float32"),
        (lambda: races(measured(), modes=["both"]), "modes must be some of"),
    ],
)
def test_what_can_not_be_drawn(call, says):
    with pytest.raises(ValueError, match=says):
        call()
