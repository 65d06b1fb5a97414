"""Digits learned without labels: how well, what each of the parts is for, and that labels come in at the end only."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from snnkit import data, plasticity
from snnkit.plasticity import LAYERS, PairSTDP, assign_labels, unsupervised

LAYER = LAYERS["digits"]


@pytest.fixture(scope="session")
def digits():
    return data.load("digits"), data.load("digits", "test")


@pytest.fixture(scope="session")
def run():
    """With default settings."""
    return plasticity.learn_locally("digits", device="cpu", snapshots=4)


@pytest.fixture
def small(digits, monkeypatch):
    """A run on some of the digits, with other labels if wanted."""

    def learn(train_labels=None, test_labels=None, **settings):
        (images, labels), (test, expected) = digits
        splits = {
            "train": (images[:320], (labels if train_labels is None else train_labels)[:320]),
            "test": (test[:100], (expected if test_labels is None else test_labels)[:100]),
        }
        monkeypatch.setattr(unsupervised, "load", lambda name, split, root: splits[split])
        settings = {"neurons": 20, "passes": 1, "device": "cpu"} | settings
        return plasticity.learn_locally("digits", **settings)

    return learn


def test_three_of_four_digits_are_recognised(run, digits):
    (images, labels), (test, expected) = digits
    assert run.accuracy >= 0.75
    assert run.accuracy == pytest.approx(float((run.predict(test) == expected).float().mean()))
    assert run.passes[-1]["train_accuracy"] == pytest.approx(float((run.predict(images) == labels).float().mean()))
    assert [row["images"] for row in run.passes] == [1442, 2884, 4326, 5768] and run.seconds > 0
    assert f"test accuracy {run.accuracy:.2%}" in repr(run)
    with pytest.raises(ValueError, match="samples must be at most 1442, but it is 1443"):
        plasticity.learn_locally("digits", samples=1443, device="cpu")


def test_it_is_learning_that_makes_the_difference(run):
    still = replace(LAYER, rule=PairSTDP(a_plus=0.0, a_minus=0.0, dt=LAYER.rule.dt))
    unlearned = plasticity.learn_locally("digits", layer=still, device="cpu", passes=2)
    torch.testing.assert_close(unlearned.weights, LAYER.initial_state(64, 100, generator=seeded(0)).weight)
    assert 0.1 < unlearned.accuracy < run.accuracy - 0.2


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_training_labels_have_no_part_in_learning(digits, small):
    plain = small()
    other = small(train_labels=9 - digits[0][1], root=Path("of", "data"))
    assert torch.equal(plain.weights, other.weights) and torch.equal(plain.state.theta, other.state.theta)
    assert not torch.equal(plain.labels, other.labels)
    answers = plain.respond(digits[0][0][:320])
    assert torch.equal(other.labels, assign_labels(answers, 9 - digits[0][1][:320], 10))


def test_the_same_seed_gives_the_same_run_and_leaves_other_random_numbers_alone(small):
    state = torch.get_rng_state()
    first = small(seed=5)
    torch.rand(3)
    second = small(seed=5)
    assert all(map(torch.equal, (*first.state, first.labels), (*second.state, second.labels)))
    assert not torch.equal(first.weights, small(seed=6).weights)
    torch.set_rng_state(state)
    small()
    assert torch.equal(torch.get_rng_state(), state)


def changed(**numbers):
    return replace(LAYER, competition=replace(LAYER.competition, **numbers))


def test_who_never_fires_has_no_label_and_what_nobody_answers_has_no_class(run, digits, small):
    deaf = small(layer=changed(threshold=1e6))
    assert (deaf.labels == -1).all() and deaf.accuracy == 0.0
    assert (deaf.predict(digits[1][0][:3]) == -1).all()
    assert run.predict(torch.zeros(2, 1, 8, 8, dtype=torch.uint8)).tolist() == [-1, -1]


def test_snapshots_are_evenly_spaced_from_before_learning_to_its_end(run):
    shown = [snapshot.images for snapshot in run.snapshots]
    assert shown[0] == 0 and shown[-1] == 4 * 1442 and len(shown) == 5
    assert all(0 <= images - 1442 * k < 16 for k, images in enumerate(shown))
    torch.testing.assert_close(run.snapshots[0].weight, LAYER.initial_state(64, 100, generator=seeded(0)).weight)
    assert torch.equal(run.snapshots[-1].weight, run.weights) and torch.equal(run.snapshots[-1].theta, run.state.theta)
    assert len({float(snapshot.weight.square().sum()) for snapshot in run.snapshots}) == 5
