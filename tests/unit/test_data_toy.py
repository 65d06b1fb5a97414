"""The toy problem: its definition holds, for every seed."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from snnkit import data


def test_deterministic_by_seed_and_global_randomness_is_left_alone():
    before = torch.get_rng_state()
    x, y = data.xor_in_time(40, seed=3)
    again, labels = data.xor_in_time(40, seed=3)
    assert torch.equal(x, again) and torch.equal(y, labels)
    assert not torch.equal(x, data.xor_in_time(40, seed=4)[0])
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


NAN = float("nan")


@pytest.mark.parametrize(
    ("make", "arguments", "error", "words"),
    [
        (data.xor_in_time, {"n": 4, "steps": 15}, ValueError, "steps must be at least 16 for two cues of 3 steps"),
        (data.xor_in_time, {"n": 4, "delay": 1, "jitter": 2}, ValueError, "jitter must be at most delay, 1, .* is 2"),
        (data.xor_in_time, {"n": 4, "rate": 1.5}, ValueError, "rate must be at most 1"),
        (data.xor_in_time, {"n": 4, "noise": NAN}, ValueError, "noise must be finite"),
        (data.xor_in_time, {"n": 4, "seed": 1.5}, TypeError, "seed must be an integer"),
    ],
)
def test_bad_input_is_named(make, arguments, error, words):
    with pytest.raises(error, match=words):
        make(**arguments)
