"""Toy problems: their definitions hold, for every seed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from snnkit import data

MAKERS = {
    "xor_in_time": lambda **kw: data.xor_in_time(40, **kw),
    "yin_yang": lambda **kw: data.yin_yang(40, **kw),
    "randman": lambda **kw: data.randman(4, 6, samples_per_class=10, **kw),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_deterministic_by_seed_or_generator(make):
    x, y = make(seed=3)
    again, labels = make(seed=3)
    assert torch.equal(x, again) and torch.equal(y, labels)
    assert not torch.equal(x, make(seed=4)[0])
    given_generator, _ = make(generator=torch.Generator().manual_seed(3))
    assert torch.equal(x, given_generator)


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_global_randomness_is_left_alone(make):
    before = torch.get_rng_state()
    make(seed=3)
    assert torch.equal(before, torch.get_rng_state())


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 50), st.integers(1, 5), st.integers(0, 8), st.integers(1, 4), st.integers(0, 99))
def test_xor_is_readable_from_the_cues(n, units, delay, cue_steps, seed):
    steps = 2 * cue_steps + delay + 3
    spikes, labels = data.xor_in_time(
        n, steps, delay=delay, units=units, cue_steps=cue_steps, rate=1.0, noise=0.0, seed=seed
    )
    assert spikes.shape == (steps, n, 2 * units) and spikes.dtype == torch.float32
    assert labels.shape == (n,) and labels.dtype == torch.int64
    groups = spikes.reshape(steps, n, 2, units)
    second = cue_steps + delay
    first_bit = groups[:cue_steps, :, 1].amax((0, 2)).long()
    second_bit = groups[second : second + cue_steps, :, 1].amax((0, 2)).long()
    assert torch.equal(first_bit ^ second_bit, labels)
    assert groups[:cue_steps].sum() == groups[second : second + cue_steps].sum() == n * units * cue_steps
    assert groups[cue_steps:second].sum() == 0 and groups[second + cue_steps :].sum() == 0


def test_xor_cannot_be_read_from_one_cue_and_noise_is_where_it_should_be():
    spikes, labels = data.xor_in_time(4000, seed=1)
    assert labels.float().mean() == 0.5
    says_one = spikes[:3, :, 5:].sum((0, 2)) > 0
    assert labels[says_one].float().mean().item() == 0.5
    noisy, _ = data.xor_in_time(4000, rate=0.0, noise=0.1)
    # The firing group spikes at its own rate, here 0, during its cue: 6 of 30 steps, half of the units.
    assert noisy.mean().item() == pytest.approx(0.1 * (1 - 6 / 30 / 2), abs=0.002)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 400), st.floats(0.01, 0.24), st.integers(0, 99))
def test_yin_yang_geometry(n, r_small, seed):
    features, labels = data.yin_yang(n, r_small=r_small, seed=seed)
    assert features.shape == (n, 4) and features.dtype == torch.float32 and labels.dtype == torch.int64
    assert features.min() >= 0 and features.max() <= 1
    assert torch.allclose(features[:, :2] + features[:, 2:], torch.ones(n, 2))
    counts = labels.bincount(minlength=3)
    assert counts.max() - counts.min() <= 1

    xy = features[:, :2].double()
    margin = 1e-5
    centre, left, right = (torch.tensor(c, dtype=torch.double) for c in ([0.5, 0.5], [0.25, 0.5], [0.75, 0.5]))
    assert ((xy - centre).norm(dim=1) <= 0.5 + margin).all()
    from_left, from_right = (xy - left).norm(dim=1), (xy - right).norm(dim=1)
    nearest_dot = torch.minimum(from_left, from_right)
    assert (nearest_dot[labels == 2] <= r_small + margin).all()
    assert (nearest_dot[labels != 2] >= r_small - margin).all()
    # Yin: the upper half without the right lobe, and the left lobe. Points within rounding of a border may be either.
    near = (from_left - 0.25).abs().minimum((from_right - 0.25).abs()).minimum((xy[:, 1] - 0.5).abs()) < margin
    yin = (from_left < 0.25) | ((xy[:, 1] > 0.5) & (from_right > 0.25))
    clear = ~near & (labels != 2)
    assert torch.equal(yin[clear], labels[clear] == 0)


def test_yin_yang_fills_each_part_evenly():
    features, labels = data.yin_yang(30000, seed=5)
    x, y = features[:, 0], features[:, 1]
    assert (x[labels == 2] < 0.5).float().mean().item() == pytest.approx(0.5, abs=0.02)
    # In the upper half, yin is the half disc without the right half lobe, and half of the left lobe's dot is cut out.
    half, lobe, dot = torch.pi / 8, torch.pi / 32, torch.pi * 0.01
    upper = (half - lobe - dot / 2) / (half - dot)
    assert (y[labels == 0] > 0.5).float().mean().item() == pytest.approx(upper, abs=0.02)
    assert (y[labels == 1] < 0.5).float().mean().item() == pytest.approx(upper, abs=0.02)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 8), st.integers(1, 30), st.integers(1, 3), st.floats(1.0, 4.0))
def test_randman_fires_each_unit_once(n_classes, n_units, steps, dim, alpha):
    spikes, labels = data.randman(n_classes, n_units, samples_per_class=7, steps=steps, dim=dim, alpha=alpha)
    assert spikes.shape == (steps, 7 * n_classes, n_units) and spikes.dtype == torch.float32
    assert torch.equal(spikes.sum(0), torch.ones(7 * n_classes, n_units))
    assert labels.bincount().tolist() == [7] * n_classes
    times = spikes.argmax(0)
    for label in range(n_classes):
        of_class = times[labels == label]
        assert (of_class.amin(0) == 0).all() and (of_class.amax(0) == steps - 1).all()


def test_randman_samples_of_a_class_lie_on_one_smooth_curve():
    # On a curve, each sample has a close neighbour among those of its own class; other classes are other curves.
    spikes, labels = data.randman(3, 12, samples_per_class=200, steps=200, dim=1, alpha=3.0, seed=0)
    times = spikes.argmax(0).float() / 199
    distance = torch.cdist(times, times).fill_diagonal_(float("inf"))
    nearest = distance.argmin(dim=1)
    assert (labels[nearest] == labels).float().mean() > 0.99
    assert distance.amin(dim=1).median() < 0.05


NAN = float("nan")


@pytest.mark.parametrize(
    ("make", "arguments", "error", "words"),
    [
        (data.xor_in_time, {"n": 0}, ValueError, "n must be at least 1"),
        (data.xor_in_time, {"n": 4, "steps": 15}, ValueError, "steps must be at least 16 for two cues of 3 steps"),
        (data.xor_in_time, {"n": 4, "delay": -1}, ValueError, "delay must be at least 0"),
        (data.xor_in_time, {"n": 4, "delay": 1, "jitter": 2}, ValueError, "jitter must be at most delay, 1, .* is 2"),
        (data.xor_in_time, {"n": 4, "rate": 1.5}, ValueError, "rate must be at most 1"),
        (data.xor_in_time, {"n": 4, "noise": NAN}, ValueError, "noise must be finite"),
        (data.xor_in_time, {"n": 4, "units": 0}, ValueError, "units must be at least 1"),
        (data.xor_in_time, {"n": 4, "rate": "a"}, TypeError, "rate must be a number"),
        (data.xor_in_time, {"n": 4, "seed": -1}, ValueError, "seed must be at least 0"),
        (data.xor_in_time, {"n": 4, "seed": 1.5}, TypeError, "seed must be an integer"),
        (data.yin_yang, {"n": 5, "r_small": 0}, ValueError, "r_small must be greater than 0"),
        (data.yin_yang, {"n": 5, "r_small": 0.25}, ValueError, "r_small must be less than 0.25"),
        (data.yin_yang, {"n": 5, "generator": 3}, TypeError, "generator must be a torch.Generator or None"),
        (data.randman, {"n_classes": 0}, ValueError, "n_classes must be at least 1"),
        (data.randman, {"n_units": 0}, ValueError, "n_units must be at least 1"),
        (data.randman, {"samples_per_class": 1}, ValueError, "samples_per_class must be at least 2"),
        (data.randman, {"dim": 0}, ValueError, "dim must be at least 1"),
        (data.randman, {"alpha": 0.5}, ValueError, "alpha must be at least 1"),
        (data.randman, {"alpha": float("inf")}, ValueError, "alpha must be finite"),
        (data.randman, {"alpha": True}, TypeError, "alpha must be a number"),
    ],
)
def test_bad_input_is_named(make, arguments, error, words):
    with pytest.raises(error, match=words):
        make(**arguments)
