"""Frames, time surfaces and voxel grids against loops that follow their definitions event by event."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from snnkit.data import events
from snnkit.data.events import Events

SIZE = (3, 5)


def recording(n=200, duration=1000, seed=0, polarities=2, size=SIZE):
    draw = torch.Generator().manual_seed(seed)
    t = torch.randint(duration, (n,), generator=draw).sort().values
    x, y = (torch.randint(size[axis], (n,), generator=draw) for axis in (1, 0))
    p = torch.rand(n, generator=draw) < 0.5 if polarities == 2 else torch.ones(n, dtype=torch.bool)
    return Events(t, x, y, p, size, duration, polarities)


def each(recorded):
    """(t, channel, y, x) of each event, ON in channel 0."""
    rows = zip(*(getattr(recorded, name).tolist() for name in "tpyx"), strict=True)
    return [(t, 0 if p else 1, y, x) for t, p, y, x in rows]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 40), st.integers(1, 30), st.integers(0, 99), st.sampled_from([1, 2]))
def test_frames_count_what_falls_into_their_window(n, duration, steps, seed, polarities):
    recorded = recording(n, duration, seed, polarities)
    expected = torch.zeros(steps, *recorded.shape)
    ends = [i * duration // steps for i in range(steps + 1)]
    for t, c, y, x in each(recorded):
        expected[next(i for i in range(steps) if ends[i] <= t < ends[i + 1]), c, y, x] += 1
    frames = events.to_frames(recorded, steps=steps)
    assert torch.equal(frames, expected) and frames.dtype == torch.float32
    window = steps  # as good a length as any
    expected = torch.zeros(math.ceil(duration / window), *recorded.shape)
    for t, c, y, x in each(recorded):
        expected[t // window, c, y, x] += 1
    assert torch.equal(events.to_frames(recorded, window=window), expected)


def test_surfaces_say_how_long_ago_a_pixel_fired():
    recorded = recording(60, 1000)
    surfaces = events.time_surface(recorded, tau=300.0, steps=4)
    assert surfaces.shape == (4, 2, *SIZE) and surfaces.dtype == torch.float32
    expected = torch.zeros_like(surfaces)
    for i in range(4):
        now = 250 * (i + 1)
        for t, c, y, x in each(recorded):  # in order: the last one stays
            if t < now:
                expected[i, c, y, x] = math.exp((t - now) / 300.0)
    torch.testing.assert_close(surfaces, expected)
    assert (expected[0] == 0).any() and (expected > 0).any()


@pytest.mark.parametrize("bins", [1, 2, 5])
def test_voxels_share_an_event_between_the_bins_beside_it(bins):
    recorded = recording(80)
    grid = events.voxel_grid(recorded, bins)
    first, last = int(recorded.t[0]), int(recorded.t[-1])
    expected = torch.zeros(bins, *SIZE, dtype=torch.float64)
    for t, c, y, x in each(recorded):
        place = (bins - 1) * (t - first) / (last - first)
        for b in range(bins):
            expected[b, y, x] += (1 - 2 * c) * max(0.0, 1 - abs(b - place))
    torch.testing.assert_close(grid, expected.float())
    assert grid.sum().item() == pytest.approx(float((recorded.p.double() * 2 - 1).sum()), abs=1e-4)


def test_batches_are_padded_with_silence():
    short, long = recording(30, 400, 1), recording(50, 900, 2)
    batch, labels = events.collate([(short, 3), (long, torch.tensor(8))], window=100)
    assert batch.shape == (9, 2, 2, *SIZE) and labels.tolist() == [3, 8] and labels.dtype == torch.int64
    assert torch.equal(batch[:4, 0], events.to_frames(short, window=100)) and not batch[4:, 0].any()
    assert torch.equal(batch[:, 1], events.to_frames(long, window=100))
    assert events.collate([(short, 0), (long, 1)], steps=6)[0].shape[0] == 6
    spikes = events.frames_of([short, long], steps=6)
    assert spikes.shape == (2, 6, 2, *SIZE)
    assert torch.equal(spikes[1], events.to_frames(long, steps=6).clamp(max=1)) and spikes.max() == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda r: events.to_frames(r), ValueError, r"exactly one of steps and window \(µs\) must be given"),
        (lambda r: events.to_frames(r, steps=2, window=3), ValueError, "but it is both"),
        (lambda r: events.to_frames(r.t, steps=2), TypeError, r"events must be a data\.events\.Events, but it is a"),
        (lambda r: events.time_surface(r, tau=math.nan, steps=2), ValueError, "tau must be finite"),
        (lambda r: events.collate([], steps=2), ValueError, "samples must hold at least one"),
        (lambda r: events.collate([r], steps=2), TypeError, "samples must be pairs.*sample 0 is"),
        (lambda r: events.collate([(r, 0.5)], steps=2), TypeError, "the label of sample 0 must be an integer"),
        (lambda r: events.collate([(r, 0), (recording(size=(4, 4)), 1)], steps=2), ValueError, "one sensor, but .*"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call(recording())
