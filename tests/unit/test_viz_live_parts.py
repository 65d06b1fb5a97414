"""Parts of the live panel: its pace, its stopwatch, its points, its figure, its rows."""

import math

import pytest

from snnkit.viz.live.curves import panel_curves
from snnkit.viz.live.pace import Pace
from snnkit.viz.live.rows import epoch_row
from snnkit.viz.live.standing import Standing, Stopwatch, duration
from snnkit.viz.live.trail import Trail

from .live_updates import Clock, history, update

NAMES = ("loss", "accuracy", "output rate")


def spend(pace, clock, seconds):
    with pace.timed():
        clock.now += seconds


def due_after(pace, clock):
    """Seconds until the pace says due, to a hundredth."""
    began = clock.now
    while not pace.due():
        clock.now += 0.01
    return clock.now - began


def test_what_costs_little_is_due_after_its_seconds():
    clock = Clock()
    pace = Pace(0.5, 0.01, clock)
    assert pace.due()
    spend(pace, clock, 0.001)
    assert due_after(pace, clock) == pytest.approx(0.5, abs=0.02)


def test_what_costs_much_waits_until_it_is_its_share():
    clock = Clock()
    pace = Pace(0.5, 0.01, clock)
    for _ in range(3):
        spend(pace, clock, 0.03)
        assert due_after(pace, clock) == pytest.approx(3.0, abs=0.02)


def test_one_slow_time_means_no_long_gap():
    clock = Clock()
    pace = Pace(0.5, 0.01, clock)
    spend(pace, clock, 0.001)
    spend(pace, clock, 5.0)
    assert due_after(pace, clock) == pytest.approx(0.5, abs=0.02)
    spend(pace, clock, 5.0)
    assert due_after(pace, clock) == pytest.approx(500.0, abs=0.1)


def test_an_error_is_timed_too():
    clock = Clock()
    pace = Pace(0.5, 0.01, clock)
    with pytest.raises(ZeroDivisionError), pace.timed():
        clock.now += 0.1
        raise ZeroDivisionError
    assert not pace.due()


def test_it_can_be_told_to_wait():
    clock = Clock()
    pace = Pace(0.5, 0.01, clock)
    pace.wait(2.0)
    assert due_after(pace, clock) == pytest.approx(2.0, abs=0.02)


def followed(updates, clock, seconds=2.0, epochs=3, batches=4):
    stopwatch = Stopwatch(epochs, clock)
    for number in range(updates):
        clock.now += seconds if number else 60.0  # the first one compiles
        stopwatch.note(update(*divmod(number, batches), batches), begins=number == 0)
    return stopwatch.standing(0.5, 0.875)


def test_speed_and_time_left_do_not_count_the_first_update():
    at = followed(7, Clock())
    assert (at.epoch, at.update, at.updates) == (2, 3, 4)
    assert at.samples_per_second == pytest.approx(10 / 2.0)
    assert at.seconds_left == pytest.approx(5 * 2.0)
    assert at.share == pytest.approx(7 / 12)


def test_speed_does_not_count_the_test_between_epochs_but_time_left_does():
    clock = Clock()
    stopwatch = Stopwatch(2, clock)
    for epoch, batch, seconds in [(0, 0, 0), (0, 1, 1), (1, 0, 7), (1, 1, 1)]:
        clock.now += seconds
        stopwatch.note(update(epoch, batch), begins=not (epoch or batch))
    at = stopwatch.standing()
    assert at.samples_per_second == pytest.approx(10 / 1)
    assert at.seconds_left == pytest.approx(2 * 9 / 5)  # nine seconds for five updates of eight


def test_nothing_is_known_of_speed_after_one_update():
    at = followed(1, Clock())
    assert at.samples_per_second is None and at.seconds_left is None


def test_a_run_that_goes_on_from_a_checkpoint_counts_from_there():
    clock = Clock()
    stopwatch = Stopwatch(4, clock)
    stopwatch.note(update(2, 0), begins=True)
    clock.now += 3
    assert not stopwatch.note(update(2, 1))
    at = stopwatch.standing()
    assert at.epoch == 3 and at.seconds_left == pytest.approx(6 * 3)


def test_a_second_run_is_noticed():
    clock = Clock()
    stopwatch = Stopwatch(2, clock)
    assert not stopwatch.note(update(0, 0), begins=True)
    assert not stopwatch.note(update(0, 1))
    assert stopwatch.note(update(0, 0))
    assert stopwatch.standing().seconds_left is None


def test_a_standing_in_words():
    assert Standing(2, 5, 3, 40, 0.12345, 0.875, 5321.7, 83).words() == [
        "epoch 2 of 5", "update 3 of 40", "loss 0.123", "accuracy 87.5 %", "5,322 samples/s", "1 min 23 s left",
    ]  # fmt: skip
    assert Standing(1, 1, 1, 1).words() == ["epoch 1 of 1", "update 1 of 1"]


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.7, "1 h 00 min"),
        (4810, "1 h 20 min"),
    ],
)
def test_durations(seconds, told):
    assert duration(seconds) == told


def test_a_trail_stays_short_and_keeps_its_ends():
    trail = Trail(NAMES, most=10)
    for i in range(1000):
        trail.add(i / 100, {"loss": float(i)})
        assert len(trail) <= 10
    assert trail.at[0] == 0.0 and trail.at[-1] > 8
    steps = {round(b - a, 6) for a, b in zip(trail.at, trail.at[1:], strict=False)}
    assert len(steps) == 1  # evenly spaced
    assert trail.values["loss"] == [round(at * 100) for at in trail.at]
    assert trail.values["accuracy"] == [None] * len(trail)
    trail.clear()
    assert len(trail) == 0
    trail.add(0.5, {})
    assert trail.at == [0.5]


def panel_figure(*run, **options):
    curves = panel_curves(*run, **options)
    return None if curves is None else curves.figure()


def one_point(**values):
    trail = Trail(NAMES)
    trail.add(0.25, {name.replace("_", " "): value for name, value in values.items()})
    return trail


def single_updates(figure):
    return {trace.xaxis: trace for trace in figure.data if trace.name == "single updates"}


def test_the_figure_before_the_first_epoch_ends():
    figure = panel_figure({}, one_point(loss=0.5, accuracy=0.25, output_rate=0.125), epochs=3)
    drawn = single_updates(figure)
    assert [list(trace.y) for trace in drawn.values()] == [[0.5], [25.0], [0.125]]
    assert [trace.showlegend for trace in drawn.values()] == [True, False, False]
    assert figure.layout.title.text == "Training: epoch 0 of 3"
    low, high = figure.layout.xaxis.range
    assert low == 0 and high >= 3


def test_single_updates_lie_in_the_panels_of_their_epochs():
    figure = panel_figure(history(2).to_dict(), one_point(loss=0.5, accuracy=0.25, output_rate=0.125), epochs=3)
    axes = {}
    for trace in figure.data:
        axes.setdefault(trace.xaxis, []).append(trace)
    assert [[t.name for t in traces] for traces in axes.values()] == [
        ["train", "single updates"], ["train", "single updates"], ["output", "single updates"],
    ]  # fmt: skip
    assert "epoch 2 of 3" in figure.layout.title.text


def test_panels_that_are_not_there_get_no_updates():
    series = {"train_loss": [1.0], "rates": {"hidden": [0.1]}}
    figure = panel_figure(series, one_point(loss=0.5, accuracy=0.25, output_rate=0.125), epochs=3)
    assert [list(trace.y) for trace in single_updates(figure).values()] == [[0.5], [0.125]]
    alone = panel_figure({}, one_point(loss=0.5), epochs=1)
    assert len(single_updates(alone)) == 1 and "xaxis2" not in alone.to_dict()["layout"]


@pytest.mark.parametrize(("done", "epochs", "end"), [(1, 5, 5), (3, 300, 10), (11, 300, 20), (300, 300, 300)])
def test_the_axis_shows_a_run_of_many_epochs_step_by_step(done, epochs, end):
    series = history(done).to_dict()
    assert int(panel_figure(series, Trail(NAMES), epochs).layout.xaxis.range[1]) == end
    assert int(panel_figure(series, Trail(NAMES), epochs, over=True).layout.xaxis.range[1]) == max(done, 2)


def test_each_line_is_known_by_its_name():
    series = history(3).to_dict() | {"rates": {"hidden": [None, 0.1, 0.2]}}
    curves = panel_curves(series, one_point(loss=0.5, accuracy=0.25), epochs=3)
    drawn = {trace.meta: (list(trace.x), list(trace.y)) for trace in curves.figure().data}
    assert drawn.keys() == curves.lines.keys()
    assert {"Loss: train", "Accuracy (%): train", "Spikes per step: hidden", "loss", "accuracy"} <= drawn.keys()
    for name, (x, y) in curves.lines.items():
        assert drawn[name][0] == list(x)
        assert drawn[name][1] == pytest.approx(list(y), nan_ok=True)
    assert drawn["Accuracy (%): train"] == ([1, 2, 3], [50, 50, 50]) and drawn["accuracy"] == ([0.25], [25])


def test_curves_extend_those_with_the_same_lines_and_axes():
    def of(done, trail=None, epochs=300, **more):
        return panel_curves(history(done).to_dict() | more, trail or Trail(NAMES), epochs)

    assert of(2).extends(of(1)) and of(10).extends(of(2))
    assert not of(1).extends(None)
    assert not of(11).extends(of(10))  # the axis grows
    assert not of(2, test_loss=[0.1, 0.2]).extends(of(1))
    assert not of(2, one_point(loss=0.5)).extends(of(2))


def test_nothing_known_is_no_figure():
    assert panel_figure({}, Trail(NAMES), 3) is None
    assert panel_figure({"train_loss": [], "rates": {"hidden": []}}, Trail(NAMES), 3) is None


def test_the_row_of_an_epoch():
    series = history(2).to_dict() | {"samples_per_second": [1000.0, 2000.4], "rates": {"hidden": [None, 0.25]}}
    assert epoch_row(series) == {
        "loss": "0.500", "accuracy": "50.0 %", "samples/s": "2,000", "output rate": "0.100", "hidden rate": "0.250",
    }  # fmt: skip
    assert epoch_row(series, 0)["hidden rate"] == "–"
    assert epoch_row({"train_loss": [math.pi], "test_loss": []}) == {"loss": "3.142"}


def test_a_run_too_quick_to_be_followed_shows_its_epochs_only():
    trail = Trail(NAMES)
    for at in (0.1, 0.2, 3.0):
        trail.add(at, {"loss": 1.0})
    series = {"train_loss": [1.0, 0.5, 0.2]}
    names = {over: {trace.name for trace in panel_figure(series, trail, 3, over=over).data} for over in (False, True)}
    assert "single updates" in names[False] - names[True]
