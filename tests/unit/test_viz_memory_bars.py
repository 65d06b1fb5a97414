"""Memory by part against limits."""

import pytest

from snnkit import viz
from snnkit.viz.figures import memory_bars

BILL = {"training": {"weights": 4e9, "activity": 16e9}, "inference": {"weights": 4e9}}


def notes(figure):
    return [note.text for note in figure.layout.annotations]


def test_parts_are_in_the_unit_of_the_longest_bar():
    figure = memory_bars(BILL)
    assert [(t.name, list(t.x)) for t in figure.data] == [("weights", [4.0, 4.0]), ("activity", [16.0, 0.0])]
    assert figure.layout.xaxis.title.text == "memory (GB)" and notes(figure) == ["20 GB", "4 GB"]
    assert not figure.layout.shapes
    assert memory_bars({"a": {"b": 1500}}).layout.xaxis.title.text == "memory (kB)"
    assert memory_bars({"a": {"b": 0}}).layout.xaxis.title.text == "memory (B)"


def test_a_bar_beside_the_line_fits_or_not():
    figure = memory_bars(BILL, {"a T4": 16e9})
    (line,) = figure.layout.shapes
    assert line.x0 == line.x1 == 16
    assert notes(figure) == ["20 GB, too much for a T4", "4 GB, fits", "a T4: 16 GB"]
    assert figure.layout.xaxis.range[1] > 20
    assert viz.png_bytes(figure).startswith(b"\x89PNG")


def test_a_limit_that_is_met_exactly_fits():
    assert notes(memory_bars({"a": {"b": 16e9}}, {"a T4": 16e9}))[0] == "16 GB, fits"


def test_several_limits():
    figure = memory_bars({"net": {"all": 30e9}}, {"a T4": 16e9, "an A100": 40e9, "an H200": 141e9, "far": 1e12})
    assert [shape.x0 for shape in figure.layout.shapes] == [16, 40, 141]
    assert notes(figure)[0] == "30 GB, too much for a T4"
    assert notes(figure)[-1] == "far: 1 TB →"  # a line there would leave the bars no room
    assert figure.layout.xaxis.range[1] < 200


def test_parts_differ_in_more_than_colour():
    parts = {f"part {i}": 1e6 for i in range(8)}
    figure = memory_bars({"net": parts})
    assert len({(t.marker.color, t.marker.pattern.shape) for t in figure.data}) == 8
    assert len({t.marker.pattern.shape for t in figure.data}) == 8


@pytest.mark.parametrize("limit", [0, -1.0, float("nan"), float("inf")])
def test_impossible_limits_are_refused(limit):
    with pytest.raises(ValueError, match=r"limits\['a T4'\] must be a positive number of bytes"):
        memory_bars(BILL, {"a T4": limit})


@pytest.mark.parametrize(
    ("wholes", "words"), [({}, "at least one bar"), ({"a": {"b": -1}}, "'b' of 'a' must be a finite")]
)
def test_impossible_parts_are_refused(wholes, words):
    with pytest.raises(ValueError, match=words):
        memory_bars(wholes)
