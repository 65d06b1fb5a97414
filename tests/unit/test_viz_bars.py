"""Stacked bars, memory against limits, spans and supersteps."""

import pytest

from snnkit.hardware import roofline
from snnkit.viz.figures import memory_bars, shares, spans, supersteps


def test_parts_stack_up_to_their_whole():
    figure = shares({"before": {"conv": 6.0, "rest": 2.0}, "after": {"conv": 3.0, "rest": 1.0}}, "ms")
    assert [t.name for t in figure.data] == ["conv", "rest"] and figure.layout.barmode == "stack"
    assert list(figure.data[0].x) == [6.0, 3.0] and list(figure.data[0].y) == ["before", "after"]
    assert list(figure.data[1].customdata) == ["25.0%", "25.0%"]
    assert [a.text for a in figure.layout.annotations] == ["8 ms", "4 ms"]


@pytest.mark.parametrize("unit", ["", "ms", "µs per sample of the batch"])
def test_the_longest_bar_leaves_room_for_its_total(unit):
    figure = shares({"a": {"x": 28.4}, "b": {"x": 1.0}}, unit)
    low, high = figure.layout.xaxis.range
    longest = max(len(note.text) for note in figure.layout.annotations)
    assert low == 0 and (high - 28.4) / high * 520 >= 7 * longest


def test_a_part_that_is_missing_is_nothing():
    figure = shares({"a": {"x": 1.0}, "b": {"y": 2.0}})
    assert [list(t.x) for t in figure.data] == [[1.0, 0.0], [0.0, 2.0]]
    assert len({t.marker.color for t in figure.data}) == 2


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


def test_several_limits():
    figure = memory_bars({"net": {"all": 30e9}}, {"a T4": 16e9, "an A100": 40e9, "an H200": 141e9, "far": 1e12})
    assert [shape.x0 for shape in figure.layout.shapes] == [16, 40, 141]
    assert notes(figure)[0] == "30 GB, too much for a T4"
    assert notes(figure)[-1] == "far: 1 TB →"  # a line there would leave the bars no room
    assert figure.layout.xaxis.range[1] < 200


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


def operation(numel, **more):
    given = {"kind": "elementwise", "phase": "forward", "reads": 8 * numel, "writes": 4 * numel, "numel": numel} | more
    return roofline.Operation(**{"name": "mul"} | given)


def drawn(figure):
    """Lane to [(what, start, length)] in order of time."""
    lanes = {i: [] for i in range(len(figure.layout.yaxis.ticktext))}
    for trace in figure.data:
        for row, start, length in zip(trace.y, trace.base, trace.x, strict=True):
            lanes[row].append((start, trace.name, length))
    return {row: [(name, start, length) for start, name, length in sorted(lane)] for row, lane in lanes.items()}


def test_a_tile_without_values_waits_and_all_go_on_together():
    work = roofline.Work("w", 1, (), (), 0, 0, 0)
    lanes = drawn(supersteps(work, [operation(1000), operation(147_200)], tiles=3))
    assert [what for what, *_ in lanes[0]] == ["elementwise", "waiting for all"] * 2
    assert [what for what, *_ in lanes[2]] == ["waiting for all", "elementwise", "waiting for all"]
    first, second = ([start for what, start, _ in lanes[row] if what == "elementwise"][-1] for row in (0, 2))
    assert first == second > 0


def test_the_lengths_are_those_of_the_model():
    op = operation(320_000, name="addmm", kind="matmul", flops=10**8)
    work = roofline.Work("w", 1, (op,), (), 0, 0, 0)
    parts = roofline.ipu(work).parts
    (compute, wait, exchange) = drawn(supersteps(work, [op], tiles=2))[1]
    assert compute[0] == "matrix product" and compute[2] == pytest.approx(parts["matmul"].value * 1e6)
    assert wait[2] == pytest.approx(parts["sync"].value * 1e6)
    assert exchange[2] == pytest.approx(parts["exchange"].value * 1e6)
