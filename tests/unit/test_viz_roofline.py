"""Operations per second against operations per byte, under min(bandwidth · intensity, rate)."""

import pytest

from snnkit import viz
from snnkit.viz.figures import roofline
from snnkit.viz.roofline import Run

# 10 GB/s and 40 G operations/s: the roof bends at 4 operations per byte.
BANDWIDTH, RATE = 1e10, 4e10
LOOP = Run("loop", operations=8e6, bytes=1e8, seconds=2e-2)
FUSED = Run("fused", operations=8e6, bytes=8e6, seconds=1e-3)
HEAVY = Run("fused", operations=8e8, bytes=8e6, seconds=4e-2)


def curve(figure, name):
    (found,) = (t for t in figure.data if t.name == name)
    return found


def test_a_run_knows_its_place():
    assert LOOP.intensity == pytest.approx(0.08) and LOOP.rate == pytest.approx(4e8)


def test_the_roof_bends_where_both_limits_meet():
    figure = roofline([LOOP, FUSED], BANDWIDTH, RATE)
    roof = curve(figure, "roof")
    assert roof.x[1] == pytest.approx(4) and roof.y[1] == roof.y[2] == pytest.approx(40)
    assert roof.y[0] == pytest.approx(roof.x[0] * 10)
    assert roof.x[0] < 0.08 and roof.x[-1] > 4
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert {a.text.strip() for a in figure.layout.annotations} == {"memory bound", "compute bound"}


def test_runs_of_one_name_are_one_line():
    figure = roofline([LOOP, FUSED, HEAVY], BANDWIDTH, RATE)
    assert [t.name for t in figure.data] == ["roof", "loop", "fused"]
    assert list(curve(figure, "fused").x) == pytest.approx([1, 100])
    assert list(curve(figure, "fused").y) == pytest.approx([8, 20])
    assert len({(t.line.color, t.marker.symbol) for t in figure.data}) == 3


def test_hovering_tells_the_share_of_the_roof():
    figure = roofline([LOOP, FUSED, HEAVY], BANDWIDTH, RATE)
    assert curve(figure, "loop").customdata == ("20 ms, 50% of the roof",)
    assert curve(figure, "fused").customdata == ("1 ms, 80% of the roof", "40 ms, 50% of the roof")


def test_a_span_keeps_the_axis_still():
    figure = roofline([FUSED], BANDWIDTH, RATE, span=(0.1, 1000))
    assert list(figure.layout.xaxis.range) == pytest.approx([-1, 3])
    assert list(curve(figure, "roof").x) == pytest.approx([0.1, 4, 1000])
    figure = roofline([FUSED], BANDWIDTH, RATE, span=(0.1, 2))  # the roof bends beyond
    assert list(curve(figure, "roof").y) == pytest.approx([1, 20]) and not figure.layout.annotations


def test_it_can_be_drawn_without_a_browser():
    assert viz.png_bytes(roofline([LOOP, HEAVY], BANDWIDTH, RATE)).startswith(b"\x89PNG")


@pytest.mark.parametrize("span", [(2, 1), (0, 1), (1, float("nan"))])
def test_a_span_that_is_none(span):
    with pytest.raises(ValueError, match="span"):
        roofline([LOOP], BANDWIDTH, RATE, span=span)


@pytest.mark.parametrize(
    ("runs", "bandwidth", "rate", "message"),
    [
        ([], 1e9, 1e9, "runs must hold"),
        ([LOOP], 0.0, 1e9, "bandwidth must be a positive number, but it is 0.0"),
        ([LOOP], 1e9, float("inf"), "rate must be"),
        ([LOOP._replace(seconds=0.0)], 1e9, 1e9, "seconds of 'loop' must be"),
        ([LOOP._replace(bytes=-1)], 1e9, 1e9, "bytes of 'loop' must be"),
    ],
)
def test_numbers_that_make_no_sense(runs, bandwidth, rate, message):
    with pytest.raises(ValueError, match=message):
        roofline(runs, bandwidth, rate)
