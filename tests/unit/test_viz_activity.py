"""Spikes, membranes, rates and populations."""

from typing import NamedTuple

import numpy as np
import pytest
import torch

from snnkit.viz import figures
from snnkit.viz.figures import gallery, membrane_and_raster, population_statistics, rate_histogram

T, N = 20, 6
SPIKES = (torch.arange(T * N).reshape(T, N) % 5 == 0).float()
V = torch.linspace(0, 1, T)


def test_raster_draws_every_spike_in_its_place():
    figure = figures.raster(SPIKES, dt=2e-3)
    when, who = np.nonzero(SPIKES.numpy())
    np.testing.assert_allclose(figure.data[0].x, when * 2.0, rtol=1e-6)
    np.testing.assert_array_equal(figure.data[0].y, who)
    assert figure.layout.xaxis.title.text == "time (ms)"
    assert figures.raster(SPIKES).layout.xaxis.title.text == "time step"
    assert figures.raster(torch.ones(100, 60)).data[0].type == "scattergl"
    assert "0 of 120" in figures.raster(torch.zeros(T, N)).layout.title.text


def test_traces_mark_spikes_above_the_threshold():
    figure = figures.traces(V, SPIKES[:, 0], threshold=3.0)
    marks = next(t for t in figure.data if t.mode == "markers")
    np.testing.assert_array_equal(marks.x, np.nonzero(SPIKES[:, 0].numpy())[0])
    assert min(marks.y) > 3.0
    line = next(t for t in figure.data if t.name == "threshold")
    assert tuple(line.y) == (3.0, 3.0)


def test_lines_of_one_panel_differ_in_more_than_colour():
    figure = figures.traces({"a": V, "b": V, "c": V})
    assert len({t.line.dash for t in figure.data}) == 3
    figure = figures.f_i_curve(V, {"a": V, "b": V})
    assert len({t.marker.symbol for t in figure.data}) == 2


def test_dtypes_and_graphs_are_no_obstacle():
    for spikes in (SPIKES.bool(), SPIKES.bfloat16(), SPIKES.numpy(), SPIKES.requires_grad_()):
        assert len(figures.raster(spikes).data[0].x) == 24


def test_time_steps_have_whole_ticks():
    for steps in (1, 2, 5, 12):
        for figure in (figures.raster(torch.ones(steps, 3)), figures.traces(torch.ones(steps))):
            assert all(tick % 1 == 0 for tick in figure.layout.xaxis.tickvals)


def test_membrane_and_raster_draws_every_spike_once():
    spikes = torch.zeros(20, 3)
    spikes[4, 0] = spikes[9, 0] = spikes[9, 2] = 1
    figure = membrane_and_raster(torch.linspace(0, 1, 20), spikes, threshold=1.0)
    membrane, own, threshold, raster = figure.data
    assert len(membrane.y) == 20
    assert list(own.x) == [4, 9] and min(own.y) > 1.0
    assert list(threshold.y) == [1.0, 1.0]
    assert sorted(zip(raster.x, raster.y, strict=True)) == [(4, 0), (9, 0), (9, 2)]


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_a_gallery_has_one_panel_per_neuron(columns):
    spikes = torch.zeros(30)
    spikes[7] = 1
    runs = {name: (torch.rand(30), spikes) for name in "abc"}
    figure = gallery(runs, columns=columns)
    assert [note.text for note in figure.layout.annotations] == ["a", "b", "c"]
    assert [list(trace.x) for trace in figure.data if trace.mode == "markers"] == [[7]] * 3


# Of ten steps: never, never, one, five, nine and all ten.
TEN = (torch.arange(10)[:, None] < torch.tensor([0, 0, 1, 5, 9, 10])).float()


def heights(figure):
    """Kind to how many neurons it has, over all panels."""
    found = {}
    for trace in figure.data:
        found[trace.name] = found.get(trace.name, 0) + sum(map(int, trace.y))
    return found


def test_the_three_kinds_are_told_apart():
    figure = rate_histogram(TEN)
    assert heights(figure) == {"silent": 2, "active": 2, "saturated": 2}
    assert figure.layout.annotations[0].text == "6 neurons, 2 silent, 2 saturated"
    assert len({trace.marker.pattern.shape for trace in figure.data}) == 3
    assert heights(rate_histogram(TEN, saturated=1.0)) == {"silent": 2, "active": 3, "saturated": 1}


def test_silent_neurons_stand_apart_left_of_zero_with_their_number():
    silent, active, saturated = rate_histogram(TEN, bins=10).data
    assert max(silent.x) < 0 < min(active.x) < min(saturated.x)
    assert silent.text == ("2",) and active.text is None and saturated.text == ("2",)
    assert max(saturated.x) == pytest.approx(0.95)


def test_rates_are_in_hertz_with_dt():
    figure = rate_histogram(TEN, dt=1e-3, bins=10)
    assert figure.layout.xaxis.title.text == "firing rate (Hz)"
    assert max(figure.data[2].x) == pytest.approx(950)
    assert "Hz" in figure.data[1].hovertemplate


def test_layers_are_panels_on_one_scale():
    figure = rate_histogram({"hidden": TEN, "output": TEN[:, :3]})
    heads = [note.text for note in figure.layout.annotations]
    assert heads == ["hidden: 6 neurons, 2 silent, 2 saturated", "output: 3 neurons, 2 silent, 0 saturated"]
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range
    assert sum(bool(trace.showlegend) for trace in figure.data) == 3
    widths = {round(width, 6) for trace in figure.data for width in trace.width}
    assert len(widths) == 1


def test_known_rates_are_taken_as_they_are():
    assert heights(rate_histogram(TEN.mean(0))) == heights(rate_histogram(TEN))


def test_a_dead_layer_and_a_full_one_can_be_drawn():
    assert heights(rate_histogram(torch.zeros(5, 4))) == {"silent": 4, "active": 0, "saturated": 0}
    assert heights(rate_histogram(torch.ones(5, 4))) == {"silent": 0, "active": 0, "saturated": 4}


def test_every_neuron_is_in_exactly_one_bar():
    rates = torch.rand(500).round(decimals=1)
    figure = rate_histogram(rates, bins=7)
    assert sum(heights(figure).values()) == 500
    assert np.asarray(figure.data[1].x).min() > 0


class Two(NamedTuple):
    rate: torch.Tensor
    fano: torch.Tensor


def test_a_panel_for_each_statistic_with_means_by_class():
    rate = torch.tensor([[0.0, 1.0], [0.5, 0.0], [1.0, 0.0]])
    figure = population_statistics(Two(rate, 2 * rate), torch.tensor([2, 0, 2]), names=["a", "b", "c"])
    assert [t.type for t in figure.data] == ["heatmap", "heatmap"]
    assert list(figure.data[0].y) == ["a", "c"]  # nobody of class b
    assert np.asarray(figure.data[0].z).tolist() == [[0.5, 0.0], [0.5, 0.5]]
    assert [a.text for a in figure.layout.annotations] == ["rate: 0 to 0.5", "fano: 0 to 1"]
