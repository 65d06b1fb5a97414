import numpy as np
import plotly.graph_objects as go
import pytest

from snnkit import viz
from snnkit.viz import static_explorer
from snnkit.viz.controls import parse
from snnkit.viz.static_explorer import Grid, swept, whole_sweep


def line(gain=1.0, points=3):
    return go.Figure(go.Scatter(x=[0, 1, 2], y=[0.0, gain, points], mode="lines"))


def grid(fn, *, seconds=0.001, defaults=None, **controls):
    parsed = [parse(name, spec, (defaults or {}).get(name)) for name, spec in controls.items()]
    return Grid(fn, parsed, fn(**{c.name: c.default for c in parsed}), seconds)


def labels(figure):
    return [step.label for step in figure.layout.sliders[0].steps]


def test_each_setting_is_computed_once():
    calls = []

    def fn(gain, flip):
        calls.append((gain, flip))
        return line(gain)

    made = grid(fn, gain=(0, 2), flip=False)
    made.exercise()
    made.exercise()
    assert swept(made)[1].name == "gain"
    assert calls == [(1, False), (0, False), (2, False), (1, True)]


def test_the_first_call_counts_until_there_are_others(monkeypatch):
    clock = iter([0.0, 0.25, 1.0, 1.75])
    monkeypatch.setattr(static_explorer.time, "perf_counter", lambda: next(clock))
    made = grid(line, seconds=100.0, gain=(0, 2))
    assert made.seconds == 100.0
    made.at(made.controls[0], 0)
    assert made.seconds == 0.25
    made.at(made.controls[0], 2)
    assert made.seconds == 0.5


def test_many_positions_are_thinned_but_ends_and_start_stay():
    figure, control = swept(grid(line, defaults={"gain": 0.333}, gain=(0.0, 4.0, 0.001)))
    assert control.name == "gain"
    assert len(figure.frames) == 25
    assert labels(figure)[0] == "0" and labels(figure)[-1] == "4"
    assert labels(figure)[figure.layout.sliders[0].active] == "0.333"
    assert sorted(map(float, labels(figure))) == list(map(float, labels(figure)))


@pytest.mark.parametrize("default", [0.05, 3.96])
def test_a_start_beside_an_end_leaves_the_end(default):
    figure, _ = swept(grid(line, defaults={"gain": default}, gain=(0.0, 4.0, 1.0)))
    assert {"0", "4", f"{default:g}"} <= set(labels(figure))


def test_a_heavy_figure_has_fewer_positions_or_none():
    def heavy(points):
        def fn(gain):
            return go.Figure(go.Scatter(y=gain * np.random.default_rng(0).random(points)))

        return swept(grid(fn, gain=(0.0, 1.0, 0.01)))[0]

    assert len(heavy(100).frames) == 25
    assert 3 <= len(heavy(1000).frames) < 25
    assert heavy(100_000) is None


def test_a_slow_function_has_fewer_positions_or_none():
    assert 3 <= len(swept(grid(line, seconds=0.3, gain=(0.0, 1.0)))[0].frames) < 10
    assert swept(grid(line, seconds=5.0, gain=(0.0, 1.0))) == (None, None)


def other_traces(kind, gain):
    return go.Figure([go.Scatter(y=[gain])] * (2 if kind == "two" else 1))


def other_properties(kind, gain):
    return go.Figure(go.Scatter(y=[gain], text=["a"] if kind == "two" else None))


def other_notes(kind, gain):
    figure = go.Figure(go.Scatter(y=[gain]))
    return figure.add_hline(y=1) if kind == "two" else figure


def other_axes(kind, gain):
    return go.Figure(go.Scatter(y=[gain])).update_yaxes(type="log" if kind == "two" else "linear")


def other_size(kind, gain):
    return go.Figure(go.Scatter(y=[gain])).update_layout(height=500 if kind == "two" else 300)


@pytest.mark.parametrize("fn", [other_traces, other_properties, other_notes, other_axes, other_size])
def test_what_frames_cannot_show_is_left_to_the_next_control(fn):
    figure, control = swept(grid(fn, kind=["one", "two"], gain=(0, 2)))
    assert control.name == "gain" and len(figure.frames) == 3


def test_titles_and_ticks_may_change():
    def fn(n):
        ticks = {"title": {"text": f"n = {n}"}, "tickvals": list(range(n)), "ticktext": ["t"] * n}
        return go.Figure(go.Bar(y=[n])).update_xaxes(**ticks)

    figure, _ = swept(grid(fn, n=(1, 3)))
    assert [frame.layout.xaxis.title.text for frame in figure.frames] == ["n = 1", "n = 2", "n = 3"]
    assert [len(frame.layout.xaxis.tickvals) for frame in figure.frames] == [1, 2, 3]


def test_nothing_to_sweep():
    assert swept(grid(lambda gain: "text", gain=(0, 2))) == (None, None)
    assert swept(grid(lambda one: line(), one=["only"])) == (None, None)
    assert swept(grid(lambda gain: viz.frames(line, "g", [1.0, gain]), gain=(0, 2))) == (None, None)


def test_a_sweep_tells_where_the_function_fails():
    with pytest.raises(RuntimeError, match=r"fails at gain = 3: ZeroDivisionError"):
        swept(grid(lambda gain: line(1 / (gain - 3)), gain=(0, 4)))


def test_a_whole_sweep_leaves_nothing_out():
    assert len(whole_sweep(grid(line, gain=(0, 24))).frames) == 25
    assert whole_sweep(grid(line, gain=(0, 25))) is None
    assert whole_sweep(grid(line, gain=(0, 2), points=(0, 2))) is None
    assert whole_sweep(grid(line, seconds=1.0, gain=(0, 24))) is None
    assert whole_sweep(grid(lambda gain: line(1 / (gain - 3)), gain=(0, 4))) is None
    heavy = np.random.default_rng(0).random(10_000)
    assert whole_sweep(grid(lambda gain: go.Figure(go.Scatter(y=gain * heavy)), gain=(0, 24))) is None


def test_frames_hold_only_what_changes():
    def fn(k):
        fixed = go.Scatter(x=[0, 1], y=[5, 5], name="fixed")
        return go.Figure([fixed, go.Scatter(x=np.arange(3.0), y=k * np.ones(3), line={"color": "red"}, name="moving")])

    figure = viz.frames(fn, "k", [1.0, 2.0])
    assert [frame.traces for frame in figure.frames] == [(1,), (1,)]
    (trace,) = figure.frames[1].data
    assert set(trace.to_plotly_json()) == {"type", "y"}
    np.testing.assert_array_equal(trace.y, [2.0, 2.0, 2.0])
    assert tuple(figure.data[0].y) == (5, 5)


def test_gaps_are_no_change():
    figure = viz.frames(lambda k: go.Figure(go.Scatter(x=np.array([0, np.nan]), y=[k, k])), "k", [1, 2])
    assert "x" not in figure.frames[0].data[0].to_plotly_json()


def test_frames_can_be_played():
    figure = viz.frames(line, "gain", [1.0, 2.0], play=80)
    play, stop = figure.layout.updatemenus[0].buttons
    assert play.args[1]["frame"]["duration"] == 80 and play.args[1]["fromcurrent"]
    assert list(stop.args[0]) == [None]
    assert not viz.frames(line, "gain", [1.0, 2.0]).layout.updatemenus
    with pytest.raises(ValueError, match="play must be at least 0"):
        viz.frames(line, "gain", [1.0], play=-1)


def test_an_axis_whose_title_changes_has_a_range_for_each_position():
    def fn(unit):
        high = {"V": 1.0, "mV": 1000.0}[unit]
        figure = go.Figure(go.Scatter(x=[0, 1], y=[0.0, high])).update_yaxes(title={"text": unit})
        return figure.update_xaxes(range=[0, high], title={"text": "time"})

    figure = viz.frames(fn, "unit", ["V", "mV"], start=1)
    assert [tuple(frame.layout.yaxis.range) for frame in figure.frames] == [(-0.05, 1.05), (-50.0, 1050.0)]
    assert tuple(figure.layout.yaxis.range) == (-50.0, 1050.0)
    assert [frame.layout.xaxis.range for frame in figure.frames] == [None, None]
    assert tuple(figure.layout.xaxis.range) == (0, 1000.0)


def test_ranges_that_figures_have_fixed_stay_theirs():
    def fn(unit):
        high = {"V": 1, "mV": 1000}[unit]
        return go.Figure(go.Scatter(y=[0, high])).update_yaxes(title={"text": unit}, range=[0, 2 * high])

    figure = viz.frames(fn, "unit", ["V", "mV"])
    assert [tuple(frame.layout.yaxis.range) for frame in figure.frames] == [(0, 2), (0, 2000)]
    assert tuple(figure.layout.yaxis.range) == (0, 2)


def test_a_figure_that_is_handed_out_again_and_again():
    only = line(0)

    def fn(height):
        only.data[0].y = [0, height]
        return only

    parsed = [parse("height", (0, 2))]
    figure, _ = swept(Grid(fn, parsed, fn(1), 0.001))
    assert [frame.data[0].y[1] for frame in figure.frames] == [0, 1, 2]
    assert figure.data[0].y[1] == 1
