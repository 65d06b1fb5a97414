"""The synthetic event camera, step by step and event by event; frames, surfaces and voxels against plain loops."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings, strategies as st

from snnkit.data import events, load
from snnkit.data.events import Events

STILL = torch.zeros(2, 2)
LEFT = torch.tensor([[0.0, 0.0], [1.0, 0.0]])


def across(steps, dx=1.0, dy=0.0):
    return torch.arange(steps + 1.0)[:, None] * torch.tensor([dx, dy])


def edge(height=4, width=12, at=6):
    """Dark to the left, bright to the right."""
    image = torch.zeros(1, 1, height, width)
    image[..., at:] = 1.0
    return image


def test_an_edge_that_passes_makes_one_polarity_where_it_is():
    # Looking to the right moves the image to the left: the bright side comes in at the edge.
    spikes = events.events_of(edge(), across(3))
    for t in range(3):
        rising = torch.zeros(4, 12)
        rising[:, 5 - t] = 1
        assert torch.equal(spikes[0, t, 1, :, :9], rising[:, :9])
    assert not spikes[0, :, 0, :, :9].any()
    # Back again: the same places, falling.
    path = torch.cat([across(3), across(3)[:3].flip(0)])
    back = events.events_of(edge(), path)
    assert torch.equal(back[0, 3:, 0, :, :9], spikes[0, :, 1, :, :9].flip(0)) and not back[0, 3:, 1, :, :9].any()


def test_saccades_go_round_a_triangle():
    path = events.saccades(6, 2.0)
    assert path.tolist() == [[0, 0], [0.5, 1], [1, 2], [1.5, 1], [2, 0], [1, 0], [0, 0]]
    lengths = events.saccades(30, 4.0).diff(dim=0).norm(dim=1)
    for side in lengths.split(10):
        torch.testing.assert_close(side, side[:1].expand(10), rtol=1e-4, atol=1e-5)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def bar(bright=1.0):
    """A dark picture of 1 × 4 pixels with a bright column, which moves onto its left neighbour."""
    image = torch.zeros(1, 1, 1, 4)
    image[..., 2] = bright
    return image


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
        sent = []
        for t in times:
            if not sent or t - sent[-1] >= 200:
                sent.append(t)
        assert slow.t[slow.x == pixel].tolist() == sent and 1 < len(sent) < len(times)


def test_noise_comes_at_its_rate_everywhere():
    recordings = events.record(torch.zeros(20, 1, 8, 8), STILL, duration=500_000, noise=5.0, generator=seeded())
    total = sum(map(len, recordings))
    expected = 20 * 64 * 2 * 5.0 * 0.5
    assert abs(total - expected) < 5 * math.sqrt(expected)
    together = torch.cat([r.t for r in recordings]).float()
    assert together.mean().item() == pytest.approx(250_000, rel=0.03)
    on = torch.cat([r.p for r in recordings]).float().mean().item()
    assert on == pytest.approx(0.5, abs=0.04)


def test_the_digits_recorded():
    recordings, labels = events.record_digits("test")
    assert len(recordings) == 355 and torch.equal(labels, load("digits", "test")[1])
    assert recordings[0].size == (16, 16) and recordings[0].duration == 300_000
    rates = [len(r) for r in recordings]
    assert min(rates) > 100 and max(rates) < 16 * 16 * 300  # no pixel more often than once a millisecond


def test_digits_enlarged_to_a_size_at_which_weights_add_to_more_than_1():
    recordings, _ = events.record_digits("train", 30, size=34)  # white beside white became 1 + 1e-7
    assert recordings[0].size == (34, 34)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"images": torch.zeros(2, 4, 4)}, ValueError, r"images must be \[N, 1, H, W\]"),
        ({"path": torch.zeros(5, 2), "duration": 3}, ValueError, r"duration must be at least 4"),
        ({"threshold": 1e-30}, ValueError, "threshold must be at least 0.01"),
        ({"noise": 1e6, "duration": 2**31 - 1}, ValueError, "the number of events by noise must be at most"),
        ({"images": torch.cat([bar(), bar(0.0)])}, ValueError, "sees nothing of image 1"),
    ],
)
def test_bad_input_of_recordings(options, error, words):
    with pytest.raises(error, match=words):
        events.record(**{"images": bar(), "path": LEFT, **options})


SIZE = (3, 5)


def recording(n=200, duration=1000, seed=0, polarities=2, size=SIZE):
    draw = torch.Generator().manual_seed(seed)
    t = torch.randint(duration, (n,), generator=draw).sort().values
    x, y = (torch.randint(size[axis], (n,), generator=draw) for axis in (1, 0))
    p = torch.rand(n, generator=draw) < 0.5 if polarities == 2 else torch.ones(n, dtype=torch.bool)
    return Events(t, x, y, p, size, duration, polarities)


def each(recorded):
    """(t, channel, y, x) of each event, OFF in channel 0 where there are two."""
    rows = zip(*(getattr(recorded, name).tolist() for name in "tpyx"), strict=True)
    return [(t, int(p and recorded.polarities == 2), y, x) for t, p, y, x in rows]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 40), st.integers(1, 30), st.integers(0, 99), st.sampled_from([1, 2]))
def test_frames_count_what_falls_into_their_window(n, duration, steps, seed, polarities):
    recorded, steps = recording(n, duration, seed, polarities), min(steps, duration)
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
            expected[b, y, x] += (2 * c - 1) * max(0.0, 1 - abs(b - place))
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


@pytest.mark.parametrize("count", [1, 7, 25, 30])
def test_frames_of_so_many_events(count):
    recorded = recording(30)
    frames = events.to_frames(recorded, count=count)
    expected = torch.zeros(30 // count, *recorded.shape)
    for i, (_, c, y, x) in enumerate(each(recorded)[: 30 // count * count]):
        expected[i // count, c, y, x] += 1
    assert torch.equal(frames, expected) and frames.dtype == torch.float32
    batch, _ = events.collate([(recorded, 0), (recording(count), 1)], count=count)
    assert torch.equal(batch[:, 0], frames) and batch[0, 1].sum() == count and not batch[1:, 1].any()


@pytest.mark.parametrize("way", ["number", "time"])
def test_frames_are_those_of_spikingjelly(way):
    """400 random events in ten frames, beside ``integrate_events_by_fixed_frames_number``: channel p, OFF 0 and ON 1.

    Its windows of time begin at the first event and are (last - first) // 10 µs long, the last one longer. Where the
    duration is a multiple of that, our windows are the same.
    """
    recorded = recording(400, 100_000, size=(8, 8))
    t = recorded.t.clone()
    t[0], t[-1] = 0, 100_000
    recorded = replace(recorded, t=t, duration=100_001)
    which = torch.arange(400) // 40 if way == "number" else (t // 10_000).clamp(max=9)
    expected = torch.zeros(10, 2, 8, 8)
    expected.index_put_(
        (which, recorded.p.long(), recorded.y.long(), recorded.x.long()), torch.ones(400), accumulate=True
    )
    frames = events.to_frames(recorded, **({"count": 40} if way == "number" else {"steps": 10}))
    assert (frames - expected).abs().sum() == 0 and frames[:, 0].sum() == (~recorded.p).sum() != recorded.p.sum()


SINCE_1970 = 1_700_000_000_000_000  # µs


@pytest.mark.parametrize("start", [SINCE_1970, 3_600_000_000])
@pytest.mark.parametrize("way", [{"steps": 10}, {"window": 100}])
def test_times_that_began_long_before_the_recording_are_refused(start, way):
    recorded = recording(200)
    late = replace(recorded, t=recorded.t + start, duration=0)
    calls = [lambda r: events.to_frames(r, **way), lambda r: events.collate([(r, 0)], **way)]
    if "steps" in way:
        calls += [lambda r: events.time_surface(r, tau=100.0, **way), lambda r: events.frames_of([r], **way)]
    for call in calls:
        with pytest.raises(
            ValueError, match=rf"t must be .* since the start .* is at {int(late.t[0])} µs.*replace\(events, t="
        ):
            call(late)
    cured = replace(late, t=late.t - late.t[0], duration=0)
    assert events.to_frames(cured, **way)[0].any()
    # What does not count from time 0 is right.
    assert events.to_frames(late, steps=1).sum() == events.to_frames(late, count=20).sum() == 200
    assert torch.equal(events.voxel_grid(late, 5), events.voxel_grid(cured, 5))


def test_the_last_seconds_of_a_long_recording_may_be_counted():
    recorded = recording(200)
    for start in (60_000_000, 3_000_000_000):
        with pytest.warns(UserWarning, match=rf"first nine tenths .* empty: the first event is at {start} "):
            frames = events.to_frames(replace(recorded, t=recorded.t - recorded.t[0] + start, duration=0), steps=10)
        assert frames[9].sum() == 200


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda r: events.to_frames(r),
            ValueError,
            r"exactly one of steps, window .* and count must be .* is none",
        ),
        (lambda r: events.to_frames(r, steps=2, window=3), ValueError, "but it is steps and window"),
        (lambda r: events.to_frames(r, count=10**6), ValueError, "count must be at most 2"),
        (lambda r: events.to_frames(r, steps=10**7), ValueError, "steps must be at most 1000"),
        (lambda r: events.to_frames(replace(r, duration=2**61), steps=2**60), ValueError, "steps.*what memory holds"),
        (lambda r: events.to_frames(replace(r, duration=2**61), window=1), ValueError, "windows.*what memory holds"),
        (lambda r: events.voxel_grid(r, 2**40), ValueError, "bins must be at most 1000"),
        (lambda r: events.saccades(10**12), ValueError, "steps must be at most .*, which is what memory holds"),
        (lambda r: events.record_digits(size=10**6), ValueError, "size must be at most 128"),
        (lambda r: events.collate([], steps=2), ValueError, "samples must hold at least one"),
        (lambda r: events.collate([(r, 0), (recording(size=(4, 4)), 1)], steps=2), ValueError, "one sensor, but .*"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call(recording())
