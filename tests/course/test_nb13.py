"""The references of notebook 13 are what its text says."""

import polars
import pytest
import torch

from snnkit import challenge
from snnkit.course.nb13 import front, honest_winner, paired, score_of


def test_a_score_with_its_error_is_that_of_the_challenge():
    net = challenge.reference("thrifty")
    found = challenge.score(net)
    x, y = challenge.samples(300, seed=8)
    seen = challenge.evaluate(net, x, y)
    value, error = score_of(seen.correct, seen.counts, challenge.PRICE)
    assert value == pytest.approx(seen.accuracy - challenge.PRICE * seen.spikes, abs=1e-6)
    assert error == pytest.approx(found.error * (found.samples / 300) ** 0.5, rel=0.4)  # other samples, as many of them


def test_the_front_is_that_of_a_sweep():
    columns, _ = challenge.recorded_sweep()
    table = polars.DataFrame(columns)
    mine = front(columns["accuracy"], columns["spikes"])
    better = [
        ((table["accuracy"] >= a) & (table["spikes"] <= s) & ((table["accuracy"] > a) | (table["spikes"] < s))).any()
        for a, s in table.select("accuracy", "spikes").rows()
    ]
    assert sorted(mine) == [i for i, one in enumerate(better) if not one]
    spikes = [columns["spikes"][i] for i in mine]
    assert spikes == sorted(spikes)


def test_whatever_a_spike_costs_the_winner_is_on_the_front():
    columns, _ = challenge.recorded_sweep()
    accuracy, spikes = (torch.tensor(columns[name], dtype=torch.float64) for name in ("accuracy", "spikes"))
    best = front(accuracy.tolist(), spikes.tolist())
    for price in torch.logspace(-5, 0, 20, dtype=torch.float64):
        assert int((accuracy - price * spikes).argmax()) in best


def test_pairs_tell_more_than_two_means():
    generator = torch.Generator().manual_seed(0)
    seeds = torch.randn(50, generator=generator)
    a = seeds + 0.1 * torch.randn(50, generator=generator) + 0.1
    difference, error = paired(a, seeds)
    apart = ((a.var() + seeds.var()) / 50) ** 0.5
    assert abs(difference - 0.1) < 4 * error and error < apart / 5


def test_an_honest_winner_is_right_on_average():
    generator = torch.Generator().manual_seed(0)
    valid, test = (
        torch.binomial(torch.full((2, 500, 24), 200.0), torch.full((2, 500, 24), 0.97), generator=generator) / 200
    )
    reported = torch.tensor([honest_winner(one, other)[1] for one, other in zip(valid, test, strict=True)])
    assert reported.mean().item() == pytest.approx(0.97, abs=0.003) and valid.amax(1).mean() > 0.985
