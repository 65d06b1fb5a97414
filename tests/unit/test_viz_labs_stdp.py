"""The STDP lab: what it draws is what the rule does."""

import numpy as np
import pytest
import torch

from snnkit.plasticity import PairSTDP, pairwise
from snnkit.viz.labs import stdp_lab as lab
from snnkit.viz.labs.stdp_explorer import STEPS

SPIKES = ("pre_1", "pre_2", "post_1", "post_2")


def named(figure, name):
    (trace,) = [trace for trace in figure.data if trace.name == name]
    return np.asarray(trace.x, float), np.asarray(trace.y, float)


def spikes_at(*when):
    spikes = torch.zeros(STEPS, 1, 1)
    spikes[list(when)] = 1
    return spikes


@pytest.mark.parametrize("bound", ["hard", "soft", "none"])
def test_the_weight_ends_where_the_sum_over_all_pairs_ends(bound):
    figure = lab.figure(10, 50, 15, 42, 0.4, 0.3, 12.0, 33.0, bound, 0.7)
    rule = PairSTDP(0.4, 0.3, 12e-3, 33e-3, bound=None if bound == "none" else bound)
    expected = pairwise(rule, spikes_at(10, 50), spikes_at(15, 42), torch.tensor([[0.7]])).item()
    at, weights = named(figure, "weight")
    assert weights[-1] == pytest.approx(expected, abs=1e-6)
    assert f"Δw = {expected - 0.7:+.3f}" in figure.layout.title.text
    # Nothing happens before the second spike of any pair, and something does then.
    assert (weights[at < 15] == weights[0]).all() and weights[0] == pytest.approx(0.7)
    assert weights[at == 15] != weights[0]


def test_every_pair_stands_on_the_window_at_its_lag():
    figure = lab.figure(10, 50, 15, 42)
    lags, changes = named(figure, "pairs")
    assert lags.tolist() == [-35, -8, 5, 32]
    rule = PairSTDP(0.2, 0.21)
    assert changes == pytest.approx([rule.window(lag * 1e-3) for lag in lags], abs=1e-6)
    x, y = named(figure, "window")
    assert y[x > 0] == pytest.approx(0.2 * np.exp(-x[x > 0] / 20), abs=1e-6)
    assert y[x < 0] == pytest.approx(-0.21 * np.exp(x[x < 0] / 20), abs=1e-6)


def test_traces_start_at_their_spikes_and_fade_with_their_own_time_constant():
    figure = lab.figure(10, 10, 30, 30, tau_plus=5.0, tau_minus=40.0)
    for side, first, tau in (("pre", 10, 5), ("post", 30, 40)):
        at, trace = named(figure, f"{side} trace")
        expected = np.where(at < first, 0, np.exp(-np.maximum(at - first, 0) / tau))
        assert trace == pytest.approx(expected, abs=1e-6)
        assert named(figure, f"{side} spikes")[0].tolist() == [first]


def test_bounds_are_drawn_where_there_are_any():
    assert named(lab.figure(bound="hard"), "w_max")[1].tolist() == [1, 1]
    assert np.isnan(named(lab.figure(bound="none"), "w_max")[1]).all()
    assert lab.figure(bound="none", weight=1.0, pre_2=29, a_plus=0.5).layout.yaxis4.range[1] > 1.2


def test_the_lines_have_the_names_and_places_of_their_controls():
    figure = lab.figure()
    shapes = {shape.name: shape for shape in figure.layout.shapes}
    assert set(shapes) == set(SPIKES) <= set(lab.controls)
    for name in SPIKES:
        assert shapes[name].x0 == shapes[name].x1 == lab.defaults()[name]
