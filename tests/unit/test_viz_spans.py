"""Lanes of who does what when."""

import pytest

from snnkit import viz
from snnkit.viz.figures import spans

TWO = {
    "rank 0": [("forward", 0.0, 2.0), ("backward", 2.0, 5.0)],
    "network": [("all-reduce", 4.0, 5.0)],
    "rank 1": [("forward", 1.0, 3.0)],
}


def test_a_bar_goes_from_start_to_end_in_its_own_lane():
    figure = spans(TWO)
    assert [trace.name for trace in figure.data] == ["forward", "backward", "all-reduce"]
    forward = figure.data[0]
    assert list(forward.base) == [0.0, 1.0] and list(forward.x) == [2.0, 2.0] and list(forward.y) == [0, 2]
    assert figure.layout.barmode == "overlay"  # or plotly would push bars of one lane apart


def test_lanes_keep_their_order_from_the_top():
    figure = spans(TWO)
    assert list(figure.layout.yaxis.ticktext) == ["rank 0", "network", "rank 1"]
    low, high = figure.layout.yaxis.range
    assert low > high
    assert tuple(figure.layout.xaxis.range) == (0.0, 5.0)
    assert viz.png_bytes(figure).startswith(b"\x89PNG")


@pytest.mark.parametrize("lanes", [{}, {"rank 0": []}])
def test_no_spans_are_refused(lanes):
    with pytest.raises(ValueError, match="at least one"):
        spans(lanes)


@pytest.mark.parametrize(("start", "end"), [(2.0, 1.0), (float("nan"), 1.0), (0.0, float("inf"))])
def test_impossible_spans_are_refused(start, end):
    with pytest.raises(ValueError, match="'forward' of 'rank 0'"):
        spans({"rank 0": [("forward", start, end)]})
