"""What figures draw is what they were given: one or two tests for each."""

import math
import re

import numpy as np
import polars
import pytest
import torch

from snnkit.lab.hardware import roofline as model
from snnkit.lab.viz import concepts, figures, theme
from snnkit.lab.viz.alt import plain
from snnkit.lab.viz.figures import Marked, Run, lines, marked, roofline, shares, supersteps

from .every_figure import recorded

T, N = 20, 6
SPIKES = (torch.arange(T * N).reshape(T, N) % 5 == 0).float()
V = torch.linspace(0, 1, T)


def test_raster_draws_every_spike_in_its_place_whatever_its_dtype():
    figure = figures.raster(SPIKES)
    when, who = np.nonzero(SPIKES.numpy())
    np.testing.assert_allclose(figure.data[0].x, when, rtol=1e-6)
    np.testing.assert_array_equal(figure.data[0].y, who)
    assert figures.raster(torch.ones(100, 60)).data[0].type == "scattergl"
    assert "(0 spikes)" in figures.raster(torch.zeros(T, N)).layout.title.text
    for spikes in (SPIKES.bool(), SPIKES.bfloat16(), SPIKES.numpy(), SPIKES.clone().requires_grad_()):
        assert len(figures.raster(spikes).data[0].x) == 24


def test_spikes_of_one_neuron_or_population_are_orange_and_its_membrane_is_blue():
    spike, membrane = concepts.colour("spike"), concepts.colour("membrane")
    assert (spike, membrane) == (theme.ORANGE, theme.BLUE)
    assert figures.raster(SPIKES).data[0].marker.color == spike
    assert figures.recording(recorded(False)).data[0].marker.color == spike
    for figure in (figures.traces(V, SPIKES[:, 0]), figures.gallery({"a": (V, SPIKES[:, 0]), "b": (V, SPIKES[:, 1])})):
        assert {trace.line.color for trace in figure.data if trace.mode == "lines"} == {membrane}
        assert {trace.marker.color for trace in figure.data if trace.mode == "markers"} == {spike}
    image = figures.coded_image(torch.rand(1, N), SPIKES, torch.rand(1, N))
    assert image.data[1].colorscale[-1][1] == theme.faint(spike, 1)


def test_of_neurons_that_are_compared_spikes_have_the_colour_of_the_name():
    both = figures.traces({"a": V, "b": V / 2}, {"a": SPIKES[:, 0], "b": SPIKES[:, 1]})
    inks = {trace.name: trace.line.color or trace.marker.color for trace in both.data}
    assert inks["spikes of a"] == inks["a"] != inks["b"] == inks["spikes of b"]


def test_traces_mark_spikes_above_the_threshold():
    figure = figures.traces(V, SPIKES[:, 0], threshold=3.0)
    marks = next(t for t in figure.data if t.mode == "markers")
    np.testing.assert_array_equal(marks.x, np.nonzero(SPIKES[:, 0].numpy())[0])
    assert min(marks.y) > 3.0
    line = next(t for t in figure.data if t.name == "threshold")
    assert tuple(line.y) == (3.0, 3.0)


def test_a_recording_has_a_raster_and_membranes_of_each_layer():
    rec = recorded()
    figure = figures.recording(rec, neurons={"0": [4, 1]})
    titles = [note.text for note in figure.layout.annotations]
    spikes = {name: out[:, 0] for name, out in rec.spikes.items()}
    counts = {name: int(out.sum()) for name, out in spikes.items()}
    busiest = {
        name: sorted(out.sum(0).argsort(descending=True, stable=True)[:2].tolist()) for name, out in spikes.items()
    }
    highest = sorted(rec.states["2"].v[:, 0].amax(0).argsort(descending=True, stable=True)[:2].tolist())
    assert titles == [
        f"0: {counts['0']} spikes of 6 neurons",
        "0: membrane of neurons 4, 1",
        f"1.neuron: {counts['1.neuron']} spikes of 6 neurons",
        "1.neuron: membrane of neurons {}, {}".format(*busiest["1.neuron"]),
        "2: membrane of neurons {}, {}".format(*highest),
    ]
    marks = {trace.name: trace for trace in figure.data}
    drawn = [("spikes of 0", [0, 2, 3, 5]), ("spikes of neuron 4 of 0", [4]), ("spikes of neuron 1 of 0", [1])]
    for name, neurons in drawn:
        found = set(
            zip(marks[name].x.tolist(), np.broadcast_to(marks[name].y, len(marks[name].x)).tolist(), strict=True)
        )
        assert found == {(t, n) for t, n in spikes["0"].nonzero().tolist() if n in neurons} and found
    np.testing.assert_allclose(marks["membrane of neuron 4 of 0"].y, rec.states["0"].v[:, 0, 4])
    colour = marks["membrane of neuron 4 of 0"].line.color
    assert marks["spikes of neuron 4 of 0"].marker.color == colour != marks["spikes of 0"].marker.color
    assert len(figures.recording(recorded(False)).data) == 2
    assert len(figures.recording(rec, neurons={name: [] for name in rec.states}).data) == 2


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_a_gallery_has_one_panel_per_neuron(columns):
    spikes = torch.zeros(30)
    spikes[7] = 1
    runs = {name: (torch.rand(30), spikes) for name in "abc"}
    figure = figures.gallery(runs, columns=columns)
    assert [note.text for note in figure.layout.annotations] == ["a", "b", "c"]
    assert [list(trace.x) for trace in figure.data if trace.mode == "markers"] == [[7]] * 3


def heights(figure):
    """Kind to how many neurons it has, over all panels."""
    found = {}
    for trace in figure.data:
        found[trace.name] = found.get(trace.name, 0) + sum(map(int, trace.y))
    return found


@pytest.mark.parametrize(
    ("rates", "found"),
    [
        ([0, 0, 0.1, 0.5, 0.9, 1], {"silent": 2, "active": 2, "saturated": 2}),
        ([0.0, 0.0], {"silent": 2, "active": 0, "saturated": 0}),
        ([1.0], {"silent": 0, "active": 0, "saturated": 1}),
    ],
)
def test_silent_and_saturated_neurons_are_told_apart(rates, found):
    figure = figures.rate_histogram(rates)
    assert heights(figure) == found
    assert f"{found['silent']} silent, {found['saturated']} saturated" in figure.layout.title.text
    assert not len(figure.data[0].x) or max(figure.data[0].x) < 0
    assert [note.text for note in figure.layout.annotations] == ["never"] * bool(found["silent"])  # a place, not a rate


def test_lines_draws_series_levels_and_marks():
    figure = lines({"a": [1.0, 2.0], "b": [2.0, 1.0]}, levels={"guess": 2.3}, marks={"here": 1.5}, title="two")
    low, high = figure.layout.yaxis.range
    assert low == 0 and 2.3 < high < 2.6, "a level above the lines is seen"
    assert lines({"a": [1.0, 2.0]}, levels={"guess": 1.3}).layout.yaxis.range == pytest.approx((0, 2.1))
    assert lines({"a": [1.0, 2.0]}, between=(0.9, 1.1)).layout.yaxis.range == (0.9, 1.1)
    assert lines({"a": [1.0, math.nan]}, levels={"guess": -1.0}).layout.yaxis.range[0] < -1
    assert [list(trace.y) for trace in figure.data] == [[1.0, 2.0], [2.0, 1.0]]
    assert [list(trace.x) for trace in figure.data] == [[1, 2], [1, 2]]
    assert {plain(note.text) for note in figure.layout.annotations} == {"guess", "here", "● a", "● b"}
    assert [trace.name for trace in lines({"a": [1], "b": [2], "law": [3]}, faint=["law"]).data] == ["law", "a", "b"]


def label(figure, name):
    return next(note for note in figure.layout.annotations if plain(note.text).replace("\n", " ") == f"● {name}")


@pytest.mark.parametrize(
    ("curve", "anchors"),
    [
        ([0.2, 0.4, 0.6], ("right", "bottom")),  # the curve is below the level 1.0
        ([1.05, 1.05, 1.05], ("right", "top")),
        ([0.0, 0.9, 1.05], ("left", "bottom")),
    ],
)
def test_the_name_of_a_level_hides_no_curve(curve, anchors):
    (note,) = lines({"a": curve}, levels={"a guess at random": 1.0}).layout.annotations
    assert (note.xanchor, note.yanchor) == anchors and np.sign(note.yshift) == (1 if anchors[1] == "bottom" else -1)


def test_a_name_is_beside_the_end_of_its_line_and_none_covers_another():
    series = {"up": [0.0, 10.0], "near": [0.0, 9.9], "down": ([1, 2], [5.0, 0.0]), "short": ([1.0, 1.2], [2.0, 8.0])}
    figure = lines(series)
    assert not figure.layout.showlegend
    labels = {name: label(figure, name) for name in series}
    assert [note.y for note in labels.values()] == pytest.approx([10, 9.9, 0, 8])
    assert (labels["up"].x, labels["up"].xref) == (1, "x domain")
    assert (labels["short"].x, labels["short"].xref) == (1.2, "x")
    low, high = figure.layout.yaxis.range
    right = [labels[name] for name in ("up", "near", "down")]
    pixels = sorted((note.y - low) / (high - low) * 258 + note.yshift for note in right)
    assert np.diff(pixels).min() >= 15.9 and pixels[0] >= -9 and pixels[-1] <= 267
    assert 'color:#D55E00">' in labels["near"].text
    assert lines({f"line {i}": [i, i + 1] for i in range(30)}).layout.showlegend, "no room"


def test_accuracy_over_time_is_in_percent_with_the_level_of_the_other_network():
    figure = figures.accuracy_over_time({"a": torch.tensor([0.5, 0.9]), "b": [0.7, 0.8, 0.85]}, ann=0.95)
    assert [list(trace.x) for trace in figure.data] == [[1, 2], [1, 2, 3]] and figure.layout.xaxis.type == "log"
    assert np.allclose(figure.data[0].y, [50, 90]) and np.allclose(figure.data[1].y, [70, 80, 85])
    note = figure.layout.annotations[0]
    assert note.text == "without spikes: 95.0 %" and note.y == pytest.approx(95)
    low, high = figure.layout.yaxis.range
    assert 45 < low < 50 and 95 < high < 105
    assert not figures.accuracy_over_time({"a": [1.0, 1.0]}).layout.annotations
    for curves, ann, message in [
        ({}, None, "curves must hold at least one name"),
        ({"a": [0.5, 1.5]}, None, r"curves\['a'\] must be in \[0, 1\]"),
        ({"a": [0.5]}, 95, "ann must be at most 1, but it is 95"),
    ]:
        with pytest.raises(ValueError, match=message):
            figures.accuracy_over_time(curves, ann)


def test_names_may_be_numbers_and_runs_of_any_iterable():
    assert [trace.name for trace in lines({0.5: [1.0], 2: [2.0]}, faint={2}).data] == ["2", "0.5"]
    assert len(figures.gallery({1: [V, SPIKES[:, 0]]}).data) == 2
    assert figures.spans({0: [["forward", 0, 1]]}).data
    assert marked({"a": Marked("a", "measured", 1.0)}.values(), "ms").data
    assert roofline((run for run in [LOOP]), BANDWIDTH, RATE).data
    assert figures.confusion([[1, 0], [0, 1]], labels=[3, 5]).data[0].x == ("3", "5")


def test_on_logarithmic_axes_zeros_are_left_out_and_names_stand_at_exponents():
    figure = lines({"a": ([1, 2, 4], [0.1, 0.0, 0.01]), "law": ([1, 4], [0.1, 0.02])}, log="xy")
    assert np.isnan(np.asarray(figure.data[0].y)[1])
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert figure.layout.xaxis.tickvals == (1, 2, 5)
    assert lines({"a": [5, 5.4, 6]}, log="y").layout.yaxis.tickvals == (5, 5.5, 6)  # of 1, 2, 5, 10, … only 5
    assert lines({"a": [5, 5.4, 6]}, log="y", between=(1, 10)).layout.yaxis.tickvals == (1, 2, 5, 10)
    figure = lines({"a": ([1, 100], [1, 1000])}, log="xy", marks={"m": 10}, levels={"l": 100})
    level, mark = figure.layout.annotations
    assert mark.x == pytest.approx(1) and level.y == pytest.approx(2)  # as plotly wants annotations,
    assert [(shape.x0, shape.y0) for shape in figure.layout.shapes] == [(0, 100), (10, 0)]  # but not shapes


@pytest.mark.parametrize(
    ("heights", "step", "form"),
    [([1, 50], None, "none"), ([1, 5e4], 1, "none"), ([1, 5e6], 1, "power"), ([5e-4, 0.5], None, "power"),
     ([1e-8, 0.1], 1, "power")],
)  # fmt: skip
def test_a_logarithmic_axis_needs_no_prefixes_of_units(heights, step, form):
    """Plotly itself would write 500µ and 1B, and small digits between the powers of ten."""
    axis = lines({"a": heights}, log="y").layout.yaxis
    assert (axis.dtick, axis.exponentformat) == (step, form)


def test_parts_stack_up_to_their_whole():
    figure = shares({"before": {"conv": 6.0, "rest": 2.0}, "after": {"conv": 3.0, "rest": 1.0}}, "ms")
    assert [t.name for t in figure.data] == ["conv", "rest"] and figure.layout.barmode == "stack"
    assert list(figure.data[0].x) == [6.0, 3.0] and list(figure.data[0].y) == ["before", "after"]
    assert list(figure.data[1].customdata) == ["25.0%", "25.0%"]
    assert [a.text for a in figure.layout.annotations] == ["8 ms", "4 ms"] and figure.layout.showlegend
    figure = shares({"slow": {"rate": 205.0}, "fast": {"rate": 1010.0}}, "images/s")
    assert [a.text for a in figure.layout.annotations] == ["205 images/s", "1,010 images/s"]
    assert figure.layout.xaxis.title.text == "rate (images/s)" and not figure.layout.showlegend


TWO = {
    "rank 0": [("forward", 0, 2), ("backward", 2, 5)],
    "network": [("all-reduce", 4, 5)],
    "rank 1": [("forward", 1, 3)],
}


def test_a_bar_goes_from_start_to_end_in_its_own_lane():
    figure = figures.spans(TWO)
    assert [trace.name for trace in figure.data] == ["forward", "backward", "all-reduce"]
    forward = figure.data[0]
    assert list(forward.base) == [0.0, 1.0] and list(forward.x) == [2.0, 2.0] and list(forward.y) == [0, 2]
    assert figure.layout.barmode == "overlay"  # or plotly would push bars of one lane apart


def operation(numel, **more):
    given = {"kind": "elementwise", "phase": "forward", "reads": 8 * numel, "writes": 4 * numel, "numel": numel} | more
    return model.Operation(**{"name": "mul"} | given)


def drawn(figure):
    """Lane to [(what, start, length)] in order of time."""
    lanes = {i: [] for i in range(len(figure.layout.yaxis.ticktext))}
    for trace in figure.data:
        for row, start, length in zip(trace.y, trace.base, trace.x, strict=True):
            lanes[row].append((start, trace.name, length))
    return {row: [(name, start, length) for start, name, length in sorted(lane)] for row, lane in lanes.items()}


def test_a_tile_without_values_waits_and_all_go_on_together():
    work = model.Work("w", 1, (), (), 0, 0, 0)
    page = supersteps(work, [operation(1000), operation(147_200)])
    lanes = drawn(page)
    assert [what for what, *_ in lanes[0]] == ["elementwise", "waiting for all"] * 2
    assert [what for what, *_ in lanes[5]] == ["waiting for all", "elementwise", "waiting for all"]
    first, second = ([start for what, start, _ in lanes[row] if what == "elementwise"][-1] for row in (0, 5))
    assert first == second > 0
    *_, (_, start, length) = lanes[0]
    took = float(re.fullmatch(r"2 supersteps take ([\d.]+) µs", page.layout.title.text).group(1))
    assert took == pytest.approx(start + length, rel=5e-3)


def test_the_lengths_are_those_of_the_model():
    op = operation(320_000, name="addmm", kind="matmul", flops=10**8)
    work = model.Work("w", 1, (op,), (), 0, 0, 0)
    parts = model.ipu(work).parts
    (compute, wait, exchange) = drawn(supersteps(work, [op]))[1]
    assert compute[0] == "matrix product" and compute[2] == pytest.approx(parts["matmul"].value * 1e6)
    assert wait[2] == pytest.approx(parts["sync"].value * 1e6)
    assert exchange[2] == pytest.approx(parts["exchange"].value * 1e6)


BANDWIDTH, RATE = 1e10, 4e10
LOOP = Run("loop", operations=8e6, bytes=1e8, seconds=2e-2)
FUSED = Run("fused", operations=8e6, bytes=8e6, seconds=1e-3)


def curve(figure, name):
    (found,) = (t for t in figure.data if t.name == name)
    return found


def test_the_roof_bends_where_both_limits_meet():
    figure = roofline([LOOP, FUSED], BANDWIDTH, RATE)
    roof = curve(figure, "roof")
    assert roof.x[1] == pytest.approx(4) and roof.y[1] == roof.y[2] == pytest.approx(40)
    assert roof.y[0] == pytest.approx(roof.x[0] * 10)
    assert roof.x[0] < 0.08 and roof.x[-1] > 4
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert figure.layout.annotations[0].text == "left: memory bound, right: compute bound"
    assert list(curve(figure, "fused").x) == pytest.approx([1]) and list(curve(figure, "fused").y) == pytest.approx([8])


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


def test_confusion_shows_counts_and_the_share_that_is_right():
    figure = figures.confusion([[8, 2], [0, 10]], labels=["cat", "dog"])
    assert "90.0 % right" in figure.layout.title.text
    np.testing.assert_allclose(figure.data[0].z, [[80, 20], [0, 100]])
    assert [n.text for n in figure.layout.annotations] == ["8", "2", "10"]


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


def test_either_direction_of_either_column():
    for keys, front in (
        ({"maximise": ["acc", "spikes"]}, [(0.7, 60), (0.9, 30)]),
        ({"minimise": ["acc", "spikes"]}, [(0.6, 10)]),
        ({"maximise": "spikes", "minimise": "acc"}, [(0.6, 10), (0.7, 60)]),
    ):
        found = traces(figures.pareto(TABLE, **keys))["front: runs none beats"]
        assert sorted((round(float(x), 3), round(float(y), 3)) for x, y in found) == front


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_spacing_is_the_distance_to_the_next_number(dtype):
    kind = getattr(torch, dtype)
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[kind.itemsize]
    for number in (1.0, 1.5, 2.0, 1000.0, 3e-5, 7e-6):
        at = torch.tensor([number], dtype=kind)
        above = (at.view(bits) + 1).view(kind)
        assert figures.spacing(at.double().tolist(), dtype)[0] == (above.double() - at.double()).item(), number


def test_image_grid_places_each_image_under_its_label():
    images = torch.arange(1, 4).reshape(3, 1, 1).expand(3, 4, 4)
    figure = figures.image_grid(images, ["a", "b", "c"], columns=2)
    canvas = np.asarray(figure.data[0].z)
    assert [n.text for n in figure.layout.annotations] == ["a", "b", "c"]
    assert {1, 2, 3} <= set(np.unique(canvas))
    for value, note in zip((1, 2, 3), figure.layout.annotations, strict=True):
        rows, columns = np.nonzero(canvas == value)
        assert columns.mean() == note.x and rows.min() == note.y + 0.5


def test_coded_image_shows_image_raster_and_what_is_read_back():
    image = torch.tensor([[0.0, 0.5], [1.0, 0.25]])
    spikes = torch.tensor([[0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 1, 0]]).float()
    figure = figures.coded_image(image, spikes, spikes.mean(0).view(2, 2), title="a title")
    before, raster, after = (np.asarray(trace.z) for trace in figure.data if trace.type == "heatmap")
    np.testing.assert_allclose(before, image, atol=1e-4)
    np.testing.assert_array_equal(raster, spikes.T)
    np.testing.assert_allclose(after, [[0, 1 / 3], [1, 1 / 3]], atol=1e-4)
    assert [note.text for note in figure.layout.annotations] == ["image", "spikes: 5", "read back"]


def test_each_event_is_at_its_time_column_and_row():
    events = torch.zeros(2, 2, 4, 5)
    events[1, 1, 2, 3] = events[0, 0, 0, 1] = 1
    figure = figures.event_cloud(events, dt=1e-3)
    on, off = figure.data
    assert (on.name, off.name) == ("on", "off")
    assert [on.x[0], on.y[0], on.z[0]] == [1.0, 3.0, 2.0] and [off.x[0], off.y[0], off.z[0]] == [0.0, 1.0, 0.0]
    assert figure.layout.title.text == "Events (1 on, 1 off)"
    scene = figure.layout.scene
    assert scene.xaxis.title.text == "time (ms)"
    assert scene.zaxis.range == (3.5, -0.5)  # row 0 is at the top
    assert scene.aspectratio.y > scene.aspectratio.z  # 5 columns, 4 rows
