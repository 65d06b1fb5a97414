"""Figures of what is measured, predicted and published; of who is ahead; of supersteps."""

import pytest

from snnkit import viz
from snnkit.hardware import roofline
from snnkit.viz.marked import Marked, marked
from snnkit.viz.supersteps import supersteps
from snnkit.viz.verdicts import verdict, verdicts

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
    assert viz.png_bytes(figure)


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


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([], "at least one"),
        ([Marked("a", "guessed", 1.0)], "mark must be one of .*'guessed'"),
        ([Marked("a", "measured", 0.0)], "'a' must be positive"),
        ([Marked("a", "measured", float("nan"))], "'a' must be positive"),
        ([Marked("a", "published", None)], "'a' must have a value"),
        ([Marked("a", "measured", float("nan"), 1.0, 2.0)], "'a' must be positive and finite"),
        ([Marked("a", "measured", 3.0, 1.0, 2.0)], "'a' must have low <= value <= high"),
        ([Marked("a", "published", None, 2.0, 1.0)], "'a' must have low <= value <= high"),
    ],
)
def test_what_is_refused(numbers, message):
    with pytest.raises(ValueError, match=message):
        marked(numbers, "ms")


def test_only_what_survives_the_whole_range_is_a_verdict():
    assert (verdict(1.1, 9.0), verdict(0.1, 0.9), verdict(0.5, 2.0), verdict(1.0, 2.0)) == (1, -1, 0, 0)
    figure = verdicts({"one": [[(1.1, 9.0), (0.5, 2.0)], [None, (0.1, 0.9)]]}, [16, 128], [100, 1000])
    assert [list(row) for row in figure.data[0].z] == [[1, 0], [None, -1]]
    texts = [note.text for note in figure.layout.annotations]
    assert {"1.1 …<br>9", "0.5 …<br>2", "does<br>not fit", "0.1 …<br>0.9"} <= set(texts)
    assert viz.png_bytes(figure)


def test_ticks_have_room_for_their_labels():
    few = marked([Marked("a", "predicted", 20.0), Marked("b", "predicted", 60.0)], "ms")
    assert list(few.layout.xaxis.tickvals) == [20.0, 50.0]
    many = marked([Marked("a", "predicted", 9e3), Marked("b", "predicted", 2e6)], "samples/s")
    assert list(many.layout.xaxis.tickvals) == [1e4, 1e5, 1e6]
    assert list(many.layout.xaxis.ticktext) == ["10k", "100k", "1M"]


@pytest.mark.parametrize("ends", [(float("nan"), 1.0), (0.5, float("nan")), (2.0, 1.0), (-1.0, 1.0)])
def test_what_is_no_range_has_no_verdict(ends):
    with pytest.raises(ValueError, match="a ratio must have 0 <= low <= high"):
        verdict(*ends)


@pytest.mark.parametrize("ratios", [{}, {"one": [[(1, 2)]]}, {"one": [[(1, 2)], [(1, 2)]]}])
def test_tables_of_another_size_are_refused(ratios):
    with pytest.raises(ValueError, match="must h"):
        verdicts(ratios, [16, 128], [100, 1000])


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


def test_supersteps_refuse_no_operation_and_too_many_tiles():
    work = roofline.Work("w", 1, (), (), 0, 0, 0)
    with pytest.raises(ValueError, match="at least one operation"):
        supersteps(work, [])
    with pytest.raises(ValueError, match="tiles must lie between 2 and 1472"):
        supersteps(work, [operation(10)], tiles=1473)
