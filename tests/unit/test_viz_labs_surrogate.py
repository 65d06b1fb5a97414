"""The surrogate lab: half-widths, membranes within reach, and gradients that are those of the net it says."""

import math

import numpy as np
import pytest
import torch

from snnkit import surrogate
from snnkit.neuron import LIF
from snnkit.viz.labs import surrogate_lab as lab
from snnkit.viz.labs.surrogate_explorer import BATCH, DEEPEST, SHAPES, STEPS, distances, gradient_flow, ingredients


def test_every_surrogate_of_the_kit_is_there():
    assert set(SHAPES) == set(surrogate.__all__) - {"Surrogate"}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("slope", [0.5, 8.0])
def test_at_its_half_width_a_derivative_is_half_its_peak(name, slope):
    make, half_width = SHAPES[name]
    chosen, width = make(slope), half_width(slope)
    peak = chosen.derivative(torch.zeros(1, dtype=torch.float64)).item()
    if math.isinf(width):
        assert chosen.derivative(torch.tensor([1e6])).item() == peak
    else:
        assert chosen.derivative(torch.tensor([width], dtype=torch.float64)).item() == pytest.approx(peak / 2)


def test_gradients_have_a_norm_for_each_layer_and_step():
    flow = gradient_flow(surrogate.ATan(), 5, True)
    assert len(flow.by_layer) == 5 and len(flow.by_step) == STEPS
    assert all(norm > 0 for norm in flow.by_layer)


def test_narrow_at_constant_area_explodes_and_at_constant_peak_vanishes():
    def ratio(chosen):
        by_layer = gradient_flow(chosen, 8, True).by_layer
        return by_layer[0] / by_layer[-1]

    assert ratio(surrogate.ATan(20.0)) > 100
    assert ratio(surrogate.FastSigmoid(25.0)) < 0.1
    assert 0.02 < ratio(surrogate.ATan(2.0)) < 50


def test_deeper_nets_begin_with_the_same_layers():
    first, second = distances(2), distances(3)
    assert torch.equal(first, second[: len(first)])
    assert len(second) == 3 * STEPS * BATCH * 64


def test_membranes_above_their_threshold_are_the_spikes():
    u = distances(DEEPEST)
    share = (u >= 0).double().mean().item()
    # About a third of them, down to the last layer: activity neither dies out nor grows.
    assert 0.2 < share < 0.5
    last = u[-STEPS * BATCH * 64 :]
    assert 0.2 < (last >= 0).double().mean().item() < 0.5


def test_through_the_reset_a_narrow_surrogate_explodes_in_time_and_a_wide_one_fades():
    def earliest(alpha, detach):
        return gradient_flow(surrogate.ATan(alpha), 2, detach).by_step[0]

    assert earliest(128.0, False) > 10 * earliest(128.0, True)
    assert earliest(2.0, False) < 0.5 * earliest(2.0, True)


def test_the_flow_is_that_of_a_network_of_the_kit():
    # The same, written out with steps instead of a Sequential, and layer 2 only.
    chosen = surrogate.Sigmoid(4.0)
    flow = gradient_flow(chosen, 2, False)
    (first, second), x, direction = ingredients()[0][:2], *ingredients()[1:]
    cell = LIF(2.0, 1.0, None, decay_input=False, surrogate=chosen)
    second = second.clone().requires_grad_()
    states = [cell.initial_state(x[0]), cell.initial_state(x[0])]
    for x_t in x:
        hidden, states[0] = cell.step(x_t @ first.T, states[0])
        out, states[1] = cell.step(hidden @ second.T, states[1])
    (out * direction).sum().backward()
    assert flow.by_layer[1] == pytest.approx(second.grad.norm().item(), rel=1e-9)


def named(figure, name):
    return [trace for trace in figure.data if trace.name == name]


def test_the_title_says_what_is_drawn():
    figure = lab.figure("Triangle", log2_slope=2.0, depth=4)
    assert "Triangle(4), half-width 0.12" in figure.layout.title.text
    near = (distances(4).abs() < 0.125).double().mean().item()
    assert f"{100 * near:.2g} % of membranes within" in figure.layout.title.text
    by_layer = np.asarray(named(figure, "Triangle")[0].y, float)
    assert any(f"× {by_layer[0] / by_layer[-1]:.2g}" in note.text for note in figure.layout.annotations)


def test_the_default_is_drawn_behind_to_compare_with():
    figure = lab.figure("Sigmoid", log2_slope=7.0, depth=3)
    usual = np.asarray(named(figure, "ATan(2.0)")[0].y, float)
    assert np.allclose(usual, gradient_flow(surrogate.ATan(2.0), 3, True).by_layer, rtol=1e-5)


def test_bars_show_the_share_of_membranes():
    bars = named(lab.figure(depth=3), "membranes")[0]
    near = (distances(3).abs() < 3).double().mean().item()
    assert np.asarray(bars.customdata, float).sum() == pytest.approx(near, abs=1e-3)
    inside = np.abs(np.asarray(bars.x, float)) < 0.5
    share = (distances(3).abs() < 0.5).double().mean().item()
    assert np.asarray(bars.customdata, float)[inside].sum() == pytest.approx(share, abs=0.01)
