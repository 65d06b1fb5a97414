"""Digits learned without labels: how well, what each of the parts is for, and that labels come in at the end only."""

from dataclasses import replace

import pytest
import torch

from snnkit import data, plasticity
from snnkit.plasticity import LAYERS, CompetitiveLayer, PairSTDP, assign_labels, vote

LAYER = LAYERS["digits"]
CHANCE = 0.1


@pytest.fixture(scope="session")
def digits():
    return data.load("digits"), data.load("digits", "test")


@pytest.fixture(scope="session")
def run():
    """With default settings."""
    return plasticity.learn_locally("digits", device="cpu", snapshots=4)


def small(digits, *, seed=0, train_labels=None, test_labels=None, **settings):
    (images, labels), (test, expected) = digits
    labels = labels if train_labels is None else train_labels
    expected = expected if test_labels is None else test_labels
    settings = {"neurons": 20, "passes": 1, "layer": LAYER} | settings
    return plasticity.learn_locally(
        ((images[:320], labels[:320]), (test[:100], expected[:100])), seed=seed, device="cpu", **settings
    )


def test_three_of_four_digits_are_recognised(run, digits):
    (images, labels), (test, expected) = digits
    assert run.accuracy >= 0.75
    assert run.accuracy == pytest.approx(float((run.predict(test) == expected).float().mean()))
    assert run.history.train_accuracy[-1] == pytest.approx(float((run.predict(images) == labels).float().mean()))
    assert run.seconds == sum(run.history.seconds) and run.history.passes == 4
    assert f"test accuracy {run.accuracy:.2%}" in repr(run)


def test_it_is_learning_that_makes_the_difference(run):
    still = replace(LAYER, rule=PairSTDP(a_plus=0.0, a_minus=0.0, dt=LAYER.rule.dt))
    unlearned = plasticity.learn_locally("digits", layer=still, device="cpu", passes=2)
    torch.testing.assert_close(unlearned.weights, LAYER.initial_state(64, 100, generator=seeded(0)).weight)
    assert CHANCE < unlearned.accuracy < run.accuracy - 0.2


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_labels_are_those_of_the_training_images_alone(run, digits):
    (images, labels), _ = digits
    assert torch.equal(run.labels, assign_labels(run.respond(images), labels, 10))
    assert sorted(set(run.labels.tolist())) == list(range(10))


def test_test_labels_are_for_the_accuracy_only(digits):
    plain = small(digits)
    other = small(digits, test_labels=(digits[1][1] + 1) % 10)
    assert torch.equal(plain.weights, other.weights) and torch.equal(plain.labels, other.labels)
    assert other.history.train_accuracy == plain.history.train_accuracy
    assert other.accuracy < plain.accuracy


def test_training_labels_have_no_part_in_learning(digits):
    plain = small(digits)
    other = small(digits, train_labels=9 - digits[0][1])
    assert torch.equal(plain.weights, other.weights) and torch.equal(plain.thresholds, other.thresholds)
    assert not torch.equal(plain.labels, other.labels)
    answers = plain.respond(digits[0][0][:320])
    assert torch.equal(other.labels, assign_labels(answers, 9 - digits[0][1][:320], 10))


def test_the_same_seed_gives_the_same_run_and_leaves_other_random_numbers_alone(digits):
    state = torch.get_rng_state()
    first = small(digits, seed=5)
    torch.rand(3)
    second = small(digits, seed=5)
    assert all(map(torch.equal, (*first.state, first.labels), (*second.state, second.labels)))
    assert not torch.equal(first.weights, small(digits, seed=6).weights)
    torch.set_rng_state(state)
    small(digits)
    assert torch.equal(torch.get_rng_state(), state)


def test_weights_have_their_sum_and_know_nothing_of_autograd(run):
    torch.testing.assert_close(run.weights.sum(1), torch.full((100,), LAYER.total))
    assert (run.weights >= 0).all() and not run.weights.requires_grad
    assert (run.thresholds > 0).all() and run.history.active[-1] == 1.0


def test_without_inhibition_all_fields_are_alike(run):
    alone = plasticity.learn_locally("digits", layer=changed(inhibition=0.0), device="cpu", passes=2)
    assert alone.history.similarity[-1] > 0.98 > 0.9 > run.history.similarity[-1]
    assert alone.accuracy < run.accuracy / 2


def test_without_homeostasis_a_few_neurons_take_all(run):
    unequal = plasticity.learn_locally("digits", layer=changed(theta_plus=0.0), device="cpu", passes=2)
    assert unequal.history.active[-1] < 0.5 and unequal.accuracy < run.accuracy / 2
    assert (unequal.labels == -1).float().mean() > 0.5
    assert not unequal.thresholds.any()


def test_without_normalisation_weights_run_to_their_bound(run):
    grown = plasticity.learn_locally("digits", layer=replace(LAYER, total=None), device="cpu", passes=2)
    assert grown.weights.sum(1).mean() > 1.5 * LAYER.total
    assert (grown.weights > 0.9).float().mean() > 10 * (run.weights > 0.9).float().mean()
    assert grown.accuracy < run.accuracy - 0.2


def changed(**numbers):
    return replace(LAYER, competition=replace(LAYER.competition, **numbers))


def test_who_never_fires_has_no_label_and_what_nobody_answers_has_no_class(run, digits):
    deaf = small(digits, layer=changed(threshold=1e6))
    assert (deaf.labels == -1).all() and deaf.accuracy == 0.0
    assert (deaf.predict(digits[1][0][:3]) == -1).all()
    assert run.predict(torch.zeros(2, 1, 8, 8, dtype=torch.uint8)).tolist() == [-1, -1]


def test_nothing_is_learned_by_responding(run, digits):
    images = digits[1][0][:40]
    before = [part.clone() for part in run.state]
    first, second = run.respond(images), run.respond(images)
    assert torch.equal(first, second) and first.shape == (40, 100)
    assert all(map(torch.equal, run.state, before))
    assert torch.equal(run.predict(images), vote(first, run.labels, run.classes))


def test_snapshots_are_evenly_spaced_from_before_learning_to_its_end(run):
    shown = [snapshot.images for snapshot in run.snapshots]
    assert shown[0] == 0 and shown[-1] == 4 * 1442 and len(shown) == 5
    assert all(0 <= images - 1442 * k < 16 for k, images in enumerate(shown))
    torch.testing.assert_close(run.snapshots[0].weight, LAYER.initial_state(64, 100, generator=seeded(0)).weight)
    assert torch.equal(run.snapshots[-1].weight, run.weights) and torch.equal(run.snapshots[-1].theta, run.thresholds)
    assert len({float(snapshot.weight.square().sum()) for snapshot in run.snapshots}) == 5


def test_more_snapshots_than_batches_are_as_many_as_there_are(digits):
    assert [s.images for s in small(digits, batch_size=160, snapshots=50).snapshots] == [0, 160, 320]


def test_progress_is_reported_after_every_batch(digits):
    reports = []
    run = small(digits, batch_size=100, passes=2, on_progress=reports.append)
    assert [p.images for p in reports] == [100, 200, 300, 320, 420, 520, 620, 640] and {p.of for p in reports} == {640}
    assert torch.equal(reports[-1].state.weight, run.weights)
    fired = [p.spikes_per_image * n for p, n in zip(reports[:4], (100, 100, 100, 20), strict=True)]
    assert sum(fired) / 320 == pytest.approx(run.history.spikes_per_image[0])


def test_fewer_samples_are_the_first_ones(digits):
    (images, labels), test = digits
    by_number = plasticity.learn_locally("digits", neurons=10, passes=1, samples=64, device="cpu")
    by_hand = plasticity.learn_locally(
        ((images[:64], labels[:64]), test), neurons=10, passes=1, layer=LAYER, device="cpu"
    )
    assert torch.equal(by_number.weights, by_hand.weights) and by_number.accuracy == by_hand.accuracy


IMAGES, LABELS = torch.zeros(4, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 0, 1])
SPLIT = (IMAGES, LABELS)


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"neurons": 0}, ValueError, "neurons must be at least 1, but it is 0"),
        ({"passes": 1.5}, TypeError, "passes must be an integer, but it is 1.5"),
        ({"batch_size": 0}, ValueError, "batch_size must be at least 1, but it is 0"),
        ({"samples": 0}, ValueError, "samples must be at least 1, but it is 0"),
        ({"samples": 1443}, ValueError, "samples must be at most 1442, but it is 1443"),
        ({"snapshots": -1}, ValueError, "snapshots must be at least 0, but it is -1"),
        ({"seed": -1}, ValueError, "seed must be at least 0"),
        ({"data": "fashion"}, ValueError, "data must be one of 'digits', 'mnist', but it is 'fashion'"),
        ({"data": 3, "layer": LAYER}, TypeError, "data must be a name or .* but it is a int"),
        ({"data": (SPLIT, SPLIT)}, ValueError, "layer must be given for images of your own"),
        ({"layer": "digits"}, TypeError, "layer must be a plasticity.CompetitiveLayer or None, but it is 'digits'"),
        ({"on_progress": 5}, TypeError, "on_progress must be a function or None, but it is 5"),
        ({"code": 20}, TypeError, "code must be a RateCode or None, but it is 20"),
        ({"data": (SPLIT, (IMAGES, LABELS[:3])), "layer": LAYER}, ValueError, r"data\[1\]: the images must be"),
        ({"data": (SPLIT, (IMAGES[..., 0], LABELS)), "layer": LAYER}, ValueError, "with 4 pixels each"),
        ({"data": ((IMAGES.float(), LABELS), SPLIT), "layer": LAYER}, TypeError, "images must be a uint8 tensor"),
        ({"data": ((IMAGES, LABELS - 1), SPLIT), "layer": LAYER}, ValueError, "labels must be at least 0"),
        ({"device": "nowhere"}, ValueError, "device must be"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(settings, error, says):
    with pytest.raises(error, match=says):
        plasticity.learn_locally(**({"device": "cpu"} | settings))


@pytest.mark.parametrize(
    ("images", "error", "says"),
    [
        ([1], TypeError, "images must be a uint8 tensor .* but it is a list"),
        (torch.zeros(2, 1, 8, 8), TypeError, "but it is torch.float32"),
        (torch.zeros(2, 1, 7, 8, dtype=torch.uint8), ValueError, r"with 64 pixels each, .* \[2, 1, 7, 8\]"),
        (torch.zeros(0, 1, 8, 8, dtype=torch.uint8), ValueError, "with 64 pixels each"),
    ],
)
def test_it_answers_to_images_of_its_size(run, images, error, says):
    with pytest.raises(error, match=says):
        run.respond(images)


def test_a_code_says_how_many_spikes_images_become():
    bright = torch.full((50, 4), 255, dtype=torch.uint8)
    spikes = plasticity.RateCode(steps=40, max_rate=0.25)(bright, seeded(0))
    assert spikes.shape == (40, 50, 4) and float(spikes.mean()) == pytest.approx(0.25, abs=0.02)
    with pytest.raises(ValueError, match="steps must be at least 1"):
        plasticity.RateCode(steps=0)
    with pytest.raises(ValueError, match="max_rate must be greater than 0"):
        plasticity.RateCode(max_rate=0.0)


def test_the_layer_for_mnist_learns_images_of_that_size(digits):
    def large(split):
        images, labels = split
        return torch.nn.functional.pad(images.repeat_interleave(3, 2).repeat_interleave(3, 3), (2, 2, 2, 2)), labels

    train_set, test_set = map(large, digits)
    settings = {"neurons": 50, "passes": 1, "batch_size": 32, "device": "cpu"}
    run = plasticity.learn_locally((train_set, test_set), layer=LAYERS["mnist"], **settings)
    assert run.weights.shape == (50, 28 * 28) and run.accuracy > 0.75


def test_there_is_a_layer_for_the_names_of_data_sets_and_the_usual_one_is_that_of_the_digits():
    assert set(LAYERS) <= set(data.CLASSES) and LAYERS["digits"] == CompetitiveLayer()
