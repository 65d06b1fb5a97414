"""Batches, scaling and placing; and the toy problem, whose definition holds for every seed."""

import pytest
import torch
from hypothesis import given, settings, strategies as st

from snnkit import data


def numbered(n):
    return torch.arange(n, dtype=torch.uint8).reshape(n, 1, 1, 1), torch.arange(n)


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 70), st.booleans(), st.booleans())
def test_every_sample_once_with_its_label(n, batch_size, shuffle, drop_last):
    images, labels = numbered(n)
    got = list(data.batches(images, labels, batch_size, shuffle=shuffle, drop_last=drop_last))
    assert all(torch.equal(x.flatten().long(), y) for x, y in got)
    seen = [int(i) for _, y in got for i in y]
    expected = n - n % batch_size if drop_last else n
    assert len(seen) == len(set(seen)) == expected
    assert all(len(y) == batch_size for _, y in got[:-1])
    if not shuffle:
        assert seen == list(range(expected))


def test_the_generator_decides_the_order():
    def order(seed):
        generator = torch.Generator().manual_seed(seed)
        return [int(i) for _, y in data.batches(*numbered(50), 8, generator=generator) for i in y]

    assert order(1) == order(1) != order(2)
    assert order(1) != sorted(order(1))


def test_to_unit():
    unit = data.to_unit(torch.arange(256, dtype=torch.uint8))
    assert unit.dtype == torch.float32 and unit[0] == 0 and unit[-1] == 1
    assert torch.equal((unit * 255).round().to(torch.uint8), torch.arange(256, dtype=torch.uint8))
    with pytest.raises(TypeError, match="uint8"):
        data.to_unit(unit)


def test_resolve_device():
    assert data.resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert data.resolve_device(torch.device("cpu")) == torch.device("cpu")
    for bad in ("gpu", "", 3.5):
        with pytest.raises(ValueError, match="device must be"):
            data.resolve_device(bad)
    with pytest.raises(ValueError, match="device is 'meta'"):
        data.resolve_device("meta")


def test_shift_moves_by_whole_pixels_and_takes_every_one_of_them():
    x = torch.zeros(2000, 2, 7, 9)
    x[:, :, 3, 4] = 1.0
    before, torch_state = x.clone(), torch.get_rng_state()
    out = data.augment.Shift(2, generator=torch.Generator().manual_seed(1))(x)
    assert torch.equal(x, before) and torch.equal(torch.get_rng_state(), torch_state)
    places = out.flatten(2).argmax(2)
    assert torch.equal(places[:, 0], places[:, 1]) and torch.equal(out.sum((2, 3)), torch.ones(2000, 2))
    rows, columns = places[:, 0] // 9 - 3, places[:, 0] % 9 - 4
    drawn = set(zip(rows.tolist(), columns.tolist(), strict=True))
    assert drawn == {(r, c) for r in range(-2, 3) for c in range(-2, 3)}
    with pytest.raises(ValueError, match="images for Shift must be floating-point"):
        data.augment.Shift()(x[0])


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 50), st.integers(1, 5), st.integers(0, 8), st.integers(1, 4), st.integers(0, 99))
def test_xor_is_readable_from_the_cues(n, units, delay, cue_steps, seed):
    steps = 2 * cue_steps + delay + 3
    given = {"delay": delay, "units": units, "cue_steps": cue_steps, "seed": seed}
    spikes, labels = data.xor_in_time(n, steps, rate=1.0, noise=0.0, **given)
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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"steps": 15}, "steps must be at least 16 for two cues of 3 steps"),
        ({"delay": 1, "jitter": 2}, "jitter must be at most delay, 1, .* is 2"),
    ],
)
def test_bad_input_is_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        data.xor_in_time(4, **arguments)
