"""The roofline, measured beside predicted and published numbers, matrices, and the Pareto front."""

import numpy as np
import polars
import pytest
import torch

from snnkit.viz import figures
from snnkit.viz.figures import Marked, Run, marked, roofline, similarity, verdicts
from snnkit.viz.figures.fronts import undominated
from snnkit.viz.figures.matrices import verdict

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


NUMBERS = [
    Marked("a net", "predicted", 2.0, 1.0, 4.0, "a model"),
    Marked("a net", "measured", 3.0, 2.9, 3.1),
    Marked("another", "published", None, 5.0, 10.0, "somebody"),
]


def points(figure, mark):
    (trace,) = [t for t in figure.data if t.name == mark]
    return list(zip(trace.x, trace.y, strict=True)), trace


def test_each_mark_has_its_symbol_and_what_shares_a_lane_is_in_one():
    figure = marked(NUMBERS, "ms")
    assert points(figure, "predicted")[0] == [(2.0, 0)] and points(figure, "measured")[0] == [(3.0, 0)]
    assert points(figure, "published")[0] == [(5.0, 1), (10.0, 1)]
    symbols = {points(figure, mark)[1].marker.symbol for mark in ("predicted", "measured", "published")}
    assert symbols == {"diamond", "circle", "star"}
    assert list(figure.layout.yaxis.ticktext) == ["a net", "another"] and figure.layout.xaxis.type == "log"


def test_a_range_is_drawn_and_told():
    figure = marked(NUMBERS, "ms")
    lines = [(tuple(t.x), t.y[0]) for t in figure.data if t.mode == "lines"]
    assert ((1.0, 4.0), 0) in lines and ((2.9, 3.1), 0) in lines and ((5.0, 10.0), 1) in lines
    told = points(figure, "predicted")[1].text[0]
    assert told == "a net<br>predicted: 2 (1 … 4) ms<br>a model"
    assert points(figure, "published")[1].text[0].startswith("another<br>published: 5 … 10 ms")


def test_ratios_have_a_line_at_one_even_beyond_them():
    figure = marked(NUMBERS[2:], "times", one="as fast")
    low, high = figure.layout.xaxis.range
    assert low < 0 < high and figure.layout.annotations[0].text == "as fast"


def test_only_what_survives_the_whole_range_is_a_verdict():
    assert (verdict(1.1, 9.0), verdict(0.1, 0.9), verdict(0.5, 2.0), verdict(1.0, 2.0)) == (1, -1, 0, 0)
    figure = verdicts({"one": [[(1.1, 9.0), (0.5, 2.0)], [None, (0.1, 0.9)]]}, [16, 128], [100, 1000])
    assert [list(row) for row in figure.data[0].z] == [[1, 0], [None, -1]]
    texts = [note.text for note in figure.layout.annotations]
    assert {"1.1 …<br>9", "0.5 …<br>2", "does<br>not fit", "0.1 …<br>0.9"} <= set(texts)


def test_ticks_have_room_for_their_labels():
    few = marked([Marked("a", "predicted", 20.0), Marked("b", "predicted", 60.0)], "ms")
    assert list(few.layout.xaxis.tickvals) == [20.0, 50.0]
    many = marked([Marked("a", "predicted", 9e3), Marked("b", "predicted", 2e6)], "samples/s")
    assert list(many.layout.xaxis.tickvals) == [1e4, 1e5, 1e6]
    assert list(many.layout.xaxis.ticktext) == ["10k", "100k", "1M"]


GROUPS = {"even": ["two", "four"], "odd": ["one"]}


VECTORS = torch.tensor([[1.0, 0.0], [3.0, 3.0], [0.0, 0.0]])


def test_cosines_of_each_two():
    figure = similarity(VECTORS, GROUPS)
    (heat,) = figure.data
    half = 0.5**0.5
    assert np.asarray(heat.z) == pytest.approx(np.array([[1, half, 0], [half, 1, 0], [0, 0, 0]]), abs=1e-3)
    assert heat.customdata[0][1] == "two, four"
    assert figure.layout.yaxis.ticktext == ("two", "four", "one")


def test_groups_are_named_and_separated():
    figure = similarity(VECTORS, GROUPS)
    assert figure.layout.xaxis.ticktext == ("even", "odd")
    assert figure.layout.xaxis.tickvals == (0.5, 2.0)
    assert {(s.x0, s.x1, s.y0, s.y1) for s in figure.layout.shapes} == {(-0.5, 2.5, 1.5, 1.5), (1.5, 1.5, -0.5, 2.5)}


def test_many_rows_are_named_by_group():
    names = [f"word {i}" for i in range(80)]
    figure = similarity(torch.eye(80), {"a": names[:40], "b": names[40:]})
    assert figure.layout.yaxis.ticktext == ("a", "b")


def test_opposite_vectors_keep_their_sign():
    (heat,) = similarity([[1.0], [-1.0]], {"a": ["x", "y"]}).data
    assert heat.z[0][1] == -1 and heat.zmin == -1


def test_confusion_shows_counts_and_the_share_that_is_right():
    figure = figures.confusion([[8, 2], [0, 10]], labels=["cat", "dog"])
    assert "90.0 % right" in figure.layout.title.text
    np.testing.assert_allclose(figure.data[0].z, [[80, 20], [0, 100]])
    assert [n.text for n in figure.layout.annotations] == ["8", "2", "10"]


def by_definition(costs):
    """Rows that no other row beats: nowhere worse and somewhere better."""
    return {
        i for i, own in enumerate(costs)
        if not any((other <= own).all() and (other < own).any() for other in costs)
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_undominated_is_what_the_definition_says(seed):
    generator = np.random.default_rng(seed)
    costs = generator.integers(0, 12, (60, 2)).astype(float)  # few values: ties in one column and in both
    found = undominated(costs)
    assert set(found.tolist()) == by_definition(costs) and len(set(found.tolist())) == len(found)
    assert (np.diff(costs[found, 0]) >= 0).all()


def test_equal_rows_are_both_on_the_front():
    assert undominated(np.array([[1.0, 1.0], [1.0, 1.0], [2.0, 1.0]])).tolist() == [0, 1]
    assert undominated(np.empty((0, 2))).tolist() == []


TABLE = {
    "HIDDEN": [8, 8, 16, 16, 32, 32, 64],
    "SEED": [0, 1, 0, 1, 0, 1, 0],
    "status": ["ok"] * 6 + ["failed"],
    "acc": [0.6, 0.8, 0.9, 0.8, 0.7, 0.7, 1.0],
    "spikes": [10.0, 20.0, 30.0, None, 40.0, 60.0, 1.0],
}


def traces(figure):
    return {trace.name: list(zip(trace.x, trace.y, strict=True)) for trace in figure.data}


def test_rows_without_a_number_or_of_failed_runs_are_left_out():
    figure = figures.pareto(polars.DataFrame(TABLE), maximise="acc", minimise="spikes")
    found = traces(figure)
    assert found["front: runs none beats"] == [(10, 0.6), (20, 0.8), (30, 0.9)]
    assert found["runs that others beat"] == [(40, 0.7), (60, 0.7)]
    assert figure.layout.xaxis.title.text == "spikes (less is better)"
    assert figure.layout.yaxis.title.text == "acc (more is better)"
    assert figure.data[-1].customdata[2] == "HIDDEN = 16<br>SEED = 0"
    assert figure.data[-1].line.shape == "hv"


def test_over_seeds_the_front_is_of_the_means():
    figure = figures.pareto(TABLE, maximise="acc", minimise="spikes", seeds="SEED", log="x")
    found = traces(figure)
    assert found["front: means none beats"] == [(15, pytest.approx(0.7)), (30, 0.9)]
    assert found["means that others beat"] == [(50, pytest.approx(0.7))]
    assert len(found["single runs"]) == 5 and figure.layout.xaxis.type == "log"
    assert "HIDDEN = 8<br>mean of 2" in figure.data[-1].customdata


@pytest.mark.parametrize(
    ("keys", "front"),
    [
        ({"maximise": ["acc", "spikes"]}, [(0.7, 60), (0.9, 30)]),
        ({"minimise": ["acc", "spikes"]}, [(0.6, 10)]),
        ({"maximise": "spikes", "minimise": "acc"}, [(0.6, 10), (0.7, 60)]),
    ],
)
def test_either_direction_of_either_column(keys, front):
    found = traces(figures.pareto(TABLE, **keys))["front: runs none beats"]
    assert sorted((round(float(x), 3), round(float(y), 3)) for x, y in found) == front
