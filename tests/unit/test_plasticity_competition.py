"""Neurons that compete: against a plain version of the equations, and what a layer of them does with its weights."""

import math
from dataclasses import replace

import pytest
import torch

from snnkit.plasticity import (
    Competition,
    CompetitionState,
    CompetitiveLayer,
    LayerState,
    PairSTDP,
    assign_labels,
    similarity,
    vote,
)
from snnkit.plasticity.connection import Convolution

F64 = torch.float64
CELLS = Competition(tau=0.02, threshold=1.0, inhibition=0.7, theta_plus=0.1, tau_theta=2.0, dt=1e-3)
LAYER = CompetitiveLayer(CELLS, PairSTDP(a_plus=0.05, a_minus=0.01, dt=1e-3), total=2.0)


def plain_step(cells, current, v, theta):
    """One step, sample by sample and neuron by neuron, in Python's numbers."""
    spikes = [[0.0] * len(row) for row in current]
    raised = [value * math.exp(-len(current) * cells.dt / cells.tau_theta) for value in theta]
    after = []
    for b, row in enumerate(current):
        charged = [math.exp(-cells.dt / cells.tau) * old + x for old, x in zip(v[b], row, strict=True)]
        above = [value - cells.threshold - raise_ for value, raise_ in zip(charged, theta, strict=True)]
        firing = [i for i, value in enumerate(above) if value >= 0]
        if cells.inhibition and firing:
            firing = [max(firing, key=above.__getitem__)]
        for i in range(len(row)):
            if i in firing:
                spikes[b][i], charged[i] = 1.0, 0.0
                raised[i] += cells.theta_plus
            elif cells.inhibition:
                charged[i] = max(charged[i] - cells.inhibition * bool(firing), -cells.inhibition)
        after.append(charged)
    return spikes, after, raised


@pytest.mark.parametrize("inhibition", [0.0, 0.7, 50.0])
@pytest.mark.parametrize("theta_plus", [0.0, 0.1])
def test_steps_are_those_of_the_plain_version(inhibition, theta_plus):
    cells = replace(CELLS, inhibition=inhibition, theta_plus=theta_plus)
    currents = torch.rand(60, 3, 5, dtype=F64) * 0.4
    state, v, theta = None, [[0.0] * 5 for _ in range(3)], [0.0] * 5
    total = 0.0
    for current in currents:
        spikes, state = cells.step(current, state)
        plain, v, theta = plain_step(cells, current.tolist(), v, theta)
        assert spikes.tolist() == plain
        torch.testing.assert_close(state.v, torch.tensor(v, dtype=F64), rtol=0, atol=1e-12)
        torch.testing.assert_close(state.theta, torch.tensor(theta, dtype=F64), rtol=0, atol=1e-12)
        total += float(spikes.sum())
    assert total > 5


def test_at_the_threshold_a_neuron_fires_and_of_two_the_one_farther_above():
    current = torch.tensor([[0.0, 1.0, 0.999], [1.1, 1.3, 0.2], [0.5, 0.5, 0.5]])
    spikes, state = CELLS.step(current)
    assert spikes.tolist() == [[0, 1, 0], [0, 1, 0], [0, 0, 0]]
    # The one that fired starts again, the others are pushed down, to -inhibition at most; where nobody fired, nothing.
    torch.testing.assert_close(state.v, torch.tensor([[-0.7, 0, 0.299], [0.4, 0, -0.5], [0.5, 0.5, 0.5]]))
    spikes, _ = CELLS.step(current, CompetitionState(torch.zeros(3, 3), torch.tensor([0.0, 0.5, 0.0])))
    assert spikes.tolist() == [[0, 0, 0], [1, 0, 0], [0, 0, 0]]


def by_hand(layer, spikes, weight, theta):
    weight, theta, counts = weight.clone(), theta.tolist(), torch.zeros(spikes.shape[1], len(weight), dtype=F64)
    v, pre_trace, post_trace = [[0.0] * len(weight) for _ in counts], 0.0, 0.0
    rule = layer.rule
    for pre in spikes:
        fired, v, theta = plain_step(layer.competition, (pre @ weight.T).tolist(), v, theta)
        post = torch.tensor(fired, dtype=F64)
        pre_trace = pre + math.exp(-rule.dt / rule.tau_plus) * pre_trace
        post_trace = post + math.exp(-rule.dt / rule.tau_minus) * post_trace
        change = rule.a_plus * torch.einsum("bi,bj->ij", post, pre_trace)
        weight = (weight + change - rule.a_minus * torch.einsum("bi,bj->ij", post_trace, pre)).clamp(0, 1)
        counts += post
    if layer.total is not None:
        weight = weight * (layer.total / weight.sum(1, keepdim=True))
    return counts, weight, torch.tensor(theta, dtype=F64)


@pytest.mark.parametrize("total", [2.0, None])
def test_a_presentation_is_competition_and_stdp_step_by_step(total):
    layer = replace(LAYER, total=total)
    spikes = (torch.rand(25, 3, 6) < 0.3).to(F64)
    state = LayerState(torch.rand(4, 6, dtype=F64), torch.rand(4, dtype=F64) * 0.1)
    before = LayerState(*(part.clone() for part in state))
    counts, after = layer.learn(spikes, state)
    expected = by_hand(layer, spikes, *state)
    assert counts.sum() > 5
    for got, should in zip((counts, *after), expected, strict=True):
        torch.testing.assert_close(got, should, rtol=0, atol=1e-12)
    assert all(map(torch.equal, state, before))  # handed in and out, not changed
    assert not after.weight.requires_grad


def test_a_response_is_that_of_step_after_step():
    spikes = (torch.rand(20, 3, 6) < 0.4).to(F64)
    state = LayerState(torch.rand(4, 6, dtype=F64), torch.rand(4, dtype=F64))
    cells, counts = None, 0
    for pre in spikes:
        current = pre @ state.weight.T
        cells = CELLS.initial_state(current, state.theta) if cells is None else cells
        post, cells = CELLS.respond(current, cells)
        counts = counts + post
    assert torch.equal(LAYER.respond(spikes, state), counts) and counts.sum() > 5


def test_similarity_is_the_mean_cosine_of_two_fields():
    weight = torch.rand(7, 5, dtype=F64)
    pairs = [(i, j) for i in range(7) for j in range(i)]
    cosines = [float(torch.cosine_similarity(weight[i], weight[j], dim=0)) for i, j in pairs]
    assert similarity(weight) == pytest.approx(sum(cosines) / len(cosines), abs=1e-12)
    assert similarity(torch.ones(3, 4)) == pytest.approx(1.0)
    assert similarity(torch.eye(3)) == pytest.approx(0.0)
    assert math.isnan(similarity(torch.ones(1, 4)))


COUNTS = torch.tensor([[4.0, 0, 1, 0], [4, 0, 0, 0], [0, 3, 3, 0], [5, 0, 0, 0], [4, 0, 0, 0]])


def test_a_neuron_stands_for_the_class_it_answers_to_most_on_average():
    # Neuron 0 has most spikes for class 0, of which there are more samples; its mean is largest for class 2.
    assert assign_labels(COUNTS, torch.tensor([0, 0, 1, 2, 0]), 4).tolist() == [2, 1, 1, -1]
    assert assign_labels(COUNTS, torch.tensor([0, 0, 0, 0, 0]), 4).tolist() == [0, 0, 0, -1]


def test_votes_are_averages_over_the_neurons_of_a_class():
    assigned = torch.tensor([0, 0, 1, -1])
    counts = torch.tensor([[2.0, 2, 3, 0], [4, 4, 3, 0], [0, 0, 0, 9], [0, 0, 0, 0], [2, 2, 2, 0]])
    assert vote(counts, assigned, 3).tolist() == [1, 0, -1, -1, 0]
    assert vote(counts, torch.full((4,), -1), 3).tolist() == [-1] * 5


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        (lambda: replace(LAYER, rule=PairSTDP(connection=Convolution())), ValueError, "connection of rule must be De"),
        (lambda: CELLS.step(torch.ones(1, 2), CELLS.initial_state(torch.ones(1, 3))), ValueError, "state.v must be"),
        (lambda: CELLS.step(torch.ones(2)), ValueError, r"current must be float32 or float64 \[B, n\], none of them 0"),
        (lambda: CELLS.step(torch.ones(1, 2), (0, 0)), TypeError, "state.v must be a torch.Tensor, but it is 0"),
        (lambda: CompetitiveLayer(CELLS), ValueError, "rule and competition must have one dt, .* 0.005 and 0.001"),
        (lambda: replace(LAYER, rule=PairSTDP(bound=None)), ValueError, "rule must hold weights at 0 or above"),
        (lambda: assign_labels(COUNTS, torch.tensor([0]), 2), ValueError, r"labels must be int64 \[5\] to fit counts"),
        (lambda: assign_labels(COUNTS, torch.arange(5), 4), ValueError, "labels must be in 0 .. 3, .* from 0 to 4"),
        (lambda: vote(COUNTS, torch.arange(4) - 2, 4), ValueError, "assigned must be in -1 .. 3, .* from -2 to 1"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(wrong, error, says):
    with pytest.raises(error, match=says):
        wrong()
