"""Lines over a common axis, where their ticks are, surrogate gradients and training runs."""

import numpy as np
import pytest
import torch

from snnkit.surrogate import ATan
from snnkit.viz import figures
from snnkit.viz.drawing import log_ticks, times, whole_ticks
from snnkit.viz.figures import f_i_curve, lines


def test_lines_draws_series_levels_and_marks():
    figure = lines({"a": [1.0, 2.0], "b": [2.0, 1.0]}, levels={"guess": 2.3}, marks={"here": 1.5}, title="two")
    assert [list(trace.y) for trace in figure.data] == [[1.0, 2.0], [2.0, 1.0]]
    assert [list(trace.x) for trace in figure.data] == [[1, 2], [1, 2]]
    assert {note.text for note in figure.layout.annotations} == {"guess", "here"}


def test_each_line_may_have_an_x_of_its_own():
    figure = lines({"a": ([1, 2, 4], [3, 2, 1]), "b": torch.tensor([5.0, 6.0])}, x=[7, 8])
    assert [list(trace.x) for trace in figure.data] == [[1, 2, 4], [7, 8]]


def test_lines_leave_out_what_a_logarithm_cannot_show():
    figure = lines({"a": ([1, 2, 4], [0.1, 0.0, 0.01]), "law": ([1, 4], [0.1, 0.02])}, log="xy")
    assert np.isnan(np.asarray(figure.data[0].y)[1])
    assert figure.layout.xaxis.type == figure.layout.yaxis.type == "log"
    assert figure.layout.xaxis.tickvals == (1, 2, 5)


def test_faint_lines_have_no_markers_and_use_up_no_colour():
    figure = lines({"law": ([1, 2], [1, 2]), "a": ([1, 2], [1, 2])}, faint=["law"])
    assert [trace.mode for trace in figure.data] == ["lines", "lines+markers"]
    assert figure.data[1].line.color == lines({"a": [1]}).data[0].line.color


def test_the_name_of_a_mark_stays_on_the_page():
    notes = {
        place: lines({"a": range(11)}, x=range(11), marks={"m": place}).layout.annotations[0] for place in (0, 5, 10)
    }
    assert [notes[place].xanchor for place in (0, 5, 10)] == ["left", "center", "right"]


def test_names_on_logarithmic_axes_stand_at_exponents():
    figure = lines({"a": ([1, 100], [1, 1000])}, log="xy", marks={"m": 10}, levels={"l": 100})
    level, mark = figure.layout.annotations
    assert mark.x == pytest.approx(1) and level.y == pytest.approx(2)  # as plotly wants annotations,
    assert [(shape.x0, shape.y0) for shape in figure.layout.shapes] == [(0, 100), (10, 0)]  # but not shapes


def test_f_i_curves_are_lines_over_the_current():
    figure = f_i_curve([0.0, 1.0], {"LIF": [0.0, 0.5], "formula": [0.1, 0.4]}, unit="Hz", faint=["formula"])
    assert figure.layout.yaxis.title.text == "firing rate (Hz)"
    assert [list(trace.x) for trace in figure.data] == [[0, 1], [0, 1]]
    assert figure.data[1].mode == "lines"


def test_ticks_are_whole_where_the_values_are():
    assert whole_ticks([1, 12], 6) == [2, 4, 6, 8, 10, 12]
    assert whole_ticks([0, 4]) == [0, 1, 2, 3, 4]
    assert whole_ticks([0, 12], 6) == [0, 5, 10]
    assert whole_ticks([3, 3]) == [3]
    assert whole_ticks([0.5, 2]) is None
    assert whole_ticks([0, 25]) is None  # plotly's own ticks are whole here, and follow a zoom


def test_ticks_of_a_logarithm_are_one_two_five():
    assert log_ticks([1, 128]) == [1, 2, 5, 10, 20, 50, 100, 200]
    assert log_ticks([0.01, 0.05]) == [0.01, 0.02, 0.05]
    assert log_ticks([1e-6, 1.0]) is None
    assert log_ticks([0.0, -1.0]) is None


def test_times_are_steps_or_milliseconds():
    assert list(times(3, None).at) == [0, 1, 2] and times(3, None).ends == [-0.5, 2.5]
    np.testing.assert_allclose(times(3, 2e-3).at, [0, 2, 4])
    assert times(3, 2e-3).title == "time (ms)" and times(1, None).ends == [-0.5, 0.5]


def test_surrogate_curves_are_the_surrogates_functions():
    figure = figures.surrogate_curves({"atan": ATan()}, limit=1.0)
    u = torch.linspace(-1, 1, 201)
    primitive, derivative = (t for t in figure.data if t.name == "atan")
    np.testing.assert_allclose(primitive.y, ATan().primitive(u), rtol=1e-5)
    np.testing.assert_allclose(derivative.y, ATan().derivative(u), rtol=1e-5)

    class Bare:
        def derivative(self, u):
            return u

        def primitive(self, u):
            raise TypeError("Bare defines no primitive")

    assert [t.name for t in figures.surrogate_curves({"bare": Bare()}).data] == ["step", "bare"]


def test_training_curves_take_histories_and_leave_out_what_is_missing():
    from snnkit.train.history import History

    history = History(train_loss=[1.0], train_accuracy=[0.25], output_rate=[0.1])
    figure = figures.training_curves(history, epochs=7)
    assert [t.name for t in figure.data] == ["train", "train", "output"]
    assert figure.data[1].y[0] == 25
    assert figure.layout.xaxis.range[1] > 7
    rates = figures.training_curves({"train_loss": [1.0], "rates": {"hidden": [0.1], "out": [0.2]}})
    assert [t.name for t in rates.data] == ["train", "hidden", "out"]
