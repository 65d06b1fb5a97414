"""The camera that sends events one by one: the same as step by step, and its moments, its noise and its dead time."""

import math

import pytest
import torch

from snnkit.data import events, load

STILL = torch.zeros(2, 2)
LEFT = torch.tensor([[0.0, 0.0], [1.0, 0.0]])


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def bar(bright=1.0):
    """A dark picture of 1 × 4 pixels with a bright column, which moves onto its left neighbour."""
    image = torch.zeros(1, 1, 1, 4)
    image[..., 2] = bright
    return image


def columns(recording):
    return [(name, getattr(recording, name).tolist()) for name in "txyp"]


@pytest.mark.parametrize("mismatch", [0.0, 0.2])
@pytest.mark.parametrize("duration", [160_000, 1_003])
def test_the_same_as_the_camera_that_goes_step_by_step(mismatch, duration):
    images, path = torch.rand(5, 1, 7, 9, generator=seeded(1)), events.saccades(16)
    dense = events.events_of(images, path, mismatch=mismatch, generator=seeded())
    recordings = events.record(images, path, duration=duration, mismatch=mismatch, generator=seeded())
    assert torch.equal(events.frames_of(recordings, steps=16), dense)
    assert all(r.duration == duration and r.size == (7, 9) for r in recordings)


def test_thresholds_are_crossed_at_their_moments():
    # The logarithm goes in a straight line from log(0.1) to log(1.1) in 1000 µs: by 2.398, eleven times 0.2 and more.
    (recording,) = events.record(bar(), LEFT, duration=1000, threshold=0.2)
    rising = recording.where(recording.p)
    whole = math.log(1.1) - math.log(0.1)
    expected = [math.ceil(1000 * 0.2 * i / whole) - 1 for i in range(1, 12)]
    assert rising.t.tolist() == pytest.approx(expected, abs=1) and set(rising.x.tolist()) == {1}
    falling = recording.where(~recording.p)
    assert len(falling) == 11 and set(falling.x.tolist()) == {2}  # the column that the bar leaves


def test_a_dead_pixel_loses_what_it_would_send():
    (free,) = events.record(bar(), LEFT, duration=1000, threshold=0.2)
    (slow,) = events.record(bar(), LEFT, duration=1000, threshold=0.2, refractory=200)
    for pixel in (1, 2):
        times = free.t[free.x == pixel].tolist()
        kept = []
        for t in times:
            if not kept or t - kept[-1] >= 200:
                kept.append(t)
        assert slow.t[slow.x == pixel].tolist() == kept and 1 < len(kept) < len(times)


def test_both_polarities_share_the_dead_time_and_the_other_pixels_do_not():
    (noisy,) = events.record(torch.zeros(1, 1, 2, 3), STILL, noise=2000.0, refractory=700, generator=seeded())
    assert 0.4 < noisy.p.float().mean() < 0.6
    pixel = noisy.y.int() * 3 + noisy.x
    for i in range(6):
        own = noisy.where(pixel == i)
        assert own.t.diff().min() >= 700 and len(own) > 100
    assert noisy.t.diff().min() < 700
    dark = torch.zeros(1, 1, 1, 1)
    (often,) = events.record(dark, STILL, duration=20_000, noise=1e5, refractory=3, generator=seeded())
    assert often.t.diff().min() == 3  # it lives again as soon as the time is over


def test_noise_comes_at_its_rate_everywhere():
    recordings = events.record(torch.zeros(20, 1, 8, 8), STILL, duration=500_000, noise=5.0, generator=seeded())
    total = sum(map(len, recordings))
    expected = 20 * 64 * 2 * 5.0 * 0.5
    assert abs(total - expected) < 5 * math.sqrt(expected)
    together = torch.cat([r.t for r in recordings]).float()
    assert together.mean().item() == pytest.approx(250_000, rel=0.03)
    on = torch.cat([r.p for r in recordings]).float().mean().item()
    assert on == pytest.approx(0.5, abs=0.04)


def test_the_same_seed_gives_the_same_recordings():
    one, again, other = (events.record_digits("test", 6, noise=2.0, seed=seed)[0] for seed in (3, 3, 4))
    assert [columns(r) for r in one] == [columns(r) for r in again] != [columns(r) for r in other]


def test_the_digits():
    recordings, labels = events.record_digits("test")
    assert len(recordings) == 355 and torch.equal(labels, load("digits", "test")[1])
    assert recordings[0].size == (16, 16) and recordings[0].duration == 300_000
    rates = [len(r) for r in recordings]
    assert min(rates) > 100 and max(rates) < 16 * 16 * 300  # no pixel more often than once a millisecond


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"images": torch.zeros(2, 4, 4)}, ValueError, r"images must be \[N, 1, H, W\]"),
        ({"path": torch.zeros(3)}, ValueError, "path must be a tensor"),
        ({"threshold": 0.0}, ValueError, "threshold must be a finite number above 0"),
        ({"duration": 0}, ValueError, "duration must be at least 1"),
        ({"path": torch.zeros(5, 2), "duration": 3}, ValueError, r"duration must lie in 4 \(a µs per step\)"),
        ({"duration": 0.3}, TypeError, "duration must be an int"),
        ({"noise": -1.0}, ValueError, r"noise must lie in 0 \.\. 1e6"),
        ({"noise": math.nan}, ValueError, r"noise must lie in 0 \.\. 1e6"),
        ({"refractory": 1e-3}, TypeError, "refractory must be an int of microseconds"),
        ({"refractory": -1}, ValueError, "refractory must lie in 0"),
        ({"mismatch": 1.0}, ValueError, r"mismatch must lie in \[0, 1\)"),
        ({"generator": 0}, TypeError, "generator must be a torch.Generator"),
        ({"images": torch.cat([bar(), bar(0.0)])}, ValueError, "sees nothing of image 1"),
    ],
)
def test_bad_input(options, error, words):
    with pytest.raises(error, match=words):
        events.record(**{"images": bar(), "path": LEFT, **options})


def test_bad_input_of_the_digits():
    for arguments, error, words in (
        (("val",), ValueError, "split must be one of"),
        (("test", 356), ValueError, "samples must be at most 355"),
        (("test", 0), ValueError, "samples must be at least 1"),
        (("test", 1.5), TypeError, "samples must be an int"),
    ):
        with pytest.raises(error, match=words):
            events.record_digits(*arguments)
