"""Parts of the live panel: throttle, progress and curves."""

from itertools import pairwise

import pytest

from snnkit.viz.live.curves import MOST, Progress, Throttle, curves_of, duration, epoch_words

from .live_updates import Clock, history, update


def spend(throttle, clock, seconds):
    with throttle.timed():
        clock.now += seconds


def due_after(throttle, clock):
    """Seconds until the throttle says due, to a hundredth."""
    began = clock.now
    while not throttle.due():
        clock.now += 0.01
    return clock.now - began


def test_what_costs_little_is_due_after_its_seconds():
    clock = Clock()
    throttle = Throttle(0.5, 0.01, clock)
    assert throttle.due()
    spend(throttle, clock, 0.001)
    assert due_after(throttle, clock) == pytest.approx(0.5, abs=0.02)


def test_what_costs_much_waits_until_it_is_its_share():
    clock = Clock()
    throttle = Throttle(0.5, 0.01, clock)
    for _ in range(3):
        spend(throttle, clock, 0.03)
        assert due_after(throttle, clock) == pytest.approx(3.0, abs=0.02)


def test_one_slow_time_means_no_long_gap():
    clock = Clock()
    throttle = Throttle(0.5, 0.01, clock)
    spend(throttle, clock, 0.001)
    spend(throttle, clock, 5.0)
    assert due_after(throttle, clock) == pytest.approx(0.5, abs=0.02)
    spend(throttle, clock, 5.0)
    assert due_after(throttle, clock) == pytest.approx(500.0, abs=0.1)


def followed(*updates, epochs, clock=None):
    """Progress after updates of (epoch, batch, seconds that it took), four of ten samples per epoch."""
    clock = clock or Clock()
    progress = Progress(epochs, clock)
    for i, (epoch, batch, seconds) in enumerate(updates):
        clock.now += seconds
        assert not progress.note(update(epoch, batch), begins=i == 0)
    return progress


def test_speed_and_time_left_do_not_count_the_first_update():
    progress = followed((0, 0, 60.0), *((*divmod(number, 4), 2.0) for number in range(1, 7)), epochs=3)
    assert progress.place == (2, 3) and progress.share == pytest.approx(7 / 12)
    assert progress.words().endswith("5 samples/s · 10 s left")


def test_speed_does_not_count_the_test_between_epochs_but_time_left_does():
    progress = followed((0, 0, 0), (0, 1, 1), (1, 0, 7), (1, 1, 1), epochs=2)
    assert progress.words().endswith("10 samples/s · 4 s left")  # nine seconds for five updates of eight


def test_a_run_that_goes_on_from_a_checkpoint_counts_from_there():
    progress = followed((2, 0, 0), (2, 1, 3), epochs=4)
    assert progress.place == (3, 2) and progress.words().endswith("18 s left")


def test_a_second_run_is_noticed():
    progress = followed((0, 0, 0), (0, 1, 1), epochs=2)
    assert progress.note(update(0, 0))
    assert progress.words() == "epoch 1 of 2 · update 1 of 4"


def test_progress_in_words():
    progress = followed((1, 0, 1), (1, 1, 1), epochs=2)
    assert progress.words(0.12345, 0.875) == (
        "epoch 2 of 2 · update 2 of 4 · loss 0.123 · accuracy 87.5 % · 10 samples/s · 2 s left"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3599.7, "1 h 00 min"),
        (4810, "1 h 20 min"),
    ],
)
def test_durations(seconds, text):
    assert duration(seconds) == text


def panel_figure(*run, **options):
    curves = curves_of(*run, **options)
    return None if curves is None else curves.figure()


POINT = (0.25, 0.5, 0.25, 0.125)


def single_updates(figure):
    return {trace.xaxis: trace for trace in figure.data if trace.name == "single updates"}


def test_the_figure_before_the_first_epoch_ends():
    figure = panel_figure({}, [POINT], epochs=3)
    drawn = single_updates(figure)
    assert [list(trace.y) for trace in drawn.values()] == [[0.5], [25.0], [0.125]]
    assert [trace.showlegend for trace in drawn.values()] == [True, False, False]
    assert figure.layout.title.text == "Training: epoch 0 of 3"
    low, high = figure.layout.xaxis.range
    assert low == 0 and high >= 3


def test_single_updates_lie_in_the_panels_of_their_epochs():
    figure = panel_figure(history(2).to_dict(), [POINT], epochs=3)
    axes = {}
    for trace in figure.data:
        axes.setdefault(trace.xaxis, []).append(trace)
    assert [[t.name for t in traces] for traces in axes.values()] == [
        ["train", "single updates"], ["train", "single updates"], ["output", "single updates"],
    ]  # fmt: skip
    assert "epoch 2 of 3" in figure.layout.title.text


def test_panels_that_are_not_there_get_no_updates():
    series = {"train_loss": [1.0], "rates": {"hidden": [0.1]}}
    figure = panel_figure(series, [POINT], epochs=3)
    assert [list(trace.y) for trace in single_updates(figure).values()] == [[0.5], [0.125]]
    alone = panel_figure({}, [(0.25, 0.5, None, None)], epochs=1)
    assert len(single_updates(alone)) == 1 and "xaxis2" not in alone.to_dict()["layout"]


@pytest.mark.parametrize(("done", "epochs", "end"), [(1, 5, 5), (3, 300, 10), (11, 300, 20), (300, 300, 300)])
def test_the_axis_shows_a_run_of_many_epochs_step_by_step(done, epochs, end):
    series = history(done).to_dict()
    assert int(panel_figure(series, [], epochs).layout.xaxis.range[1]) == end
    assert int(panel_figure(series, [], epochs, over=True).layout.xaxis.range[1]) == max(done, 2)


def test_each_line_is_known_by_its_name():
    series = history(3).to_dict() | {"rates": {"hidden": [None, 0.1, 0.2]}}
    curves = curves_of(series, [(0.25, 0.5, 0.25, None)], epochs=3)
    drawn = {trace.meta: (list(trace.x), list(trace.y)) for trace in curves.figure().data}
    assert drawn.keys() == curves.lines.keys()
    assert {"Loss: train", "Accuracy (%): train", "Spikes per step: hidden", "loss", "accuracy"} <= drawn.keys()
    for name, (x, y) in curves.lines.items():
        assert drawn[name][0] == list(x)
        assert drawn[name][1] == pytest.approx(list(y), nan_ok=True)
    assert drawn["Accuracy (%): train"] == ([1, 2, 3], [50, 50, 50]) and drawn["accuracy"] == ([0.25], [25])


def test_curves_extend_those_with_the_same_lines_and_axes():
    def of(done, updates=None, epochs=300, **more):
        return curves_of(history(done).to_dict() | more, updates or [], epochs)

    assert of(2).extends(of(1)) and of(10).extends(of(2))
    assert not of(1).extends(None)
    assert not of(11).extends(of(10))  # the axis grows
    assert not of(2, test_loss=[0.1, 0.2]).extends(of(1))
    assert not of(2, [(0.25, 0.5, None, None)]).extends(of(2))


def test_an_epoch_in_words():
    series = history(2).to_dict() | {"samples_per_second": [1000.0, 2000.4], "rates": {"a": [None, 0.25], "b": [None]}}
    assert epoch_words(series) == (
        "loss 0.500 · accuracy 50.0 % · samples/s 2,000 · output rate 0.100 · a rate 0.250 · b rate –"
    )
    assert epoch_words({"train_loss": [3.14159], "test_loss": []}) == "loss 3.142"


def test_single_updates_of_a_long_run_are_thinned_out_evenly():
    updates = [(i / 100, float(i), None, None) for i in range(5 * MOST + 7)]
    x, _ = curves_of({}, updates, 50).lines["loss"]
    assert MOST / 2 < len(x) <= MOST and x[0] == 0 and x[-1] > 0.99 * updates[-1][0]
    assert len({round(float(b - a), 4) for a, b in pairwise(x)}) == 1


def test_a_run_too_quick_to_be_followed_shows_its_epochs_only():
    updates = [(at, 1.0, None, None) for at in (0.1, 0.2, 3.0)]
    series = {"train_loss": [1.0, 0.5, 0.2]}
    names = {over: {trace.name for trace in panel_figure(series, updates, 3, over=over).data} for over in (False, True)}
    assert "single updates" in names[False] - names[True]
