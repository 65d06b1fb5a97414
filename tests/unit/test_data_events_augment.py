"""Changes to recordings: each does what it says to every event, and nothing else."""

import math

import pytest
import torch

from snnkit.data import events
from snnkit.data.events import Events, augment


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def recording():
    draw = seeded(5)
    t = torch.randint(10_000, (500,), generator=draw).sort().values
    x, y = torch.randint(9, (500,), generator=draw), torch.randint(6, (500,), generator=draw)
    return Events(t, x, y, torch.rand(500, generator=draw) < 0.5, (6, 9), 10_000)


def test_flip_mirrors_left_to_right_as_often_as_asked(recording):
    frames, mirrored = (events.to_frames(r, steps=4) for r in (recording, augment.Flip(1.0)(recording)))
    assert torch.equal(mirrored, frames.flip(3)) and not torch.equal(mirrored, frames)
    assert torch.equal(augment.Flip(0.0)(recording).x, recording.x)
    change = augment.Flip(0.3, generator=seeded())
    often = sum(not torch.equal(change(recording).x, recording.x) for _ in range(400))
    assert 80 < often < 160


def test_shift_moves_all_events_alike_and_loses_those_outside(recording):
    frames = events.to_frames(recording, steps=3)
    change, seen = augment.Shift(2, generator=seeded()), set()
    for _ in range(200):
        moved = events.to_frames(change(recording), steps=3)
        padded = torch.nn.functional.pad(frames, (2, 2, 2, 2))
        places = [(dy, dx) for dy in range(5) for dx in range(5)]
        fits = [(dy, dx) for dy, dx in places if torch.equal(padded[..., dy : dy + 6, dx : dx + 9], moved)]
        assert len(fits) == 1
        seen.update(fits)
    assert len(seen) == 25


def test_a_shift_that_would_lose_all_leaves_them():
    one = torch.zeros(1, dtype=torch.int64)
    single = Events(one, one, one, one == 0, (1, 1))
    change = augment.Shift(5, generator=seeded())
    assert all(len(change(single)) == 1 for _ in range(20))
    assert len(augment.Drop(1.0)(single)) == 1


def test_drop_loses_each_event_with_its_probability(recording):
    kept = augment.Drop(0.4, generator=seeded())(recording)
    assert abs(len(kept) - 300) < 5 * math.sqrt(500 * 0.24) and kept.duration == recording.duration
    rows = set(zip(recording.t.tolist(), recording.x.tolist(), recording.y.tolist(), strict=True))
    assert rows.issuperset(zip(kept.t.tolist(), kept.x.tolist(), kept.y.tolist(), strict=True))
    assert len(augment.Drop(0.0)(recording)) == 500


def test_jitter_moves_events_in_time_only(recording):
    moved = augment.Jitter(100.0, generator=seeded())(recording)
    assert (moved.t.diff() >= 0).all() and moved.t[0] >= 0 and moved.t[-1] < 10_000
    drawn = torch.randn(500, generator=seeded(), dtype=torch.float64)
    expected = (recording.t + (drawn * 100).round()).clamp(0, 9999).long()
    assert torch.equal(moved.t, expected.sort().values) and not torch.equal(moved.t, recording.t)
    together = [events.to_frames(r, steps=1) for r in (recording, moved)]
    assert torch.equal(*together)


def test_one_after_the_other(recording):
    change = augment.Compose(augment.Flip(1.0), augment.Shift(0), augment.Flip(1.0))
    assert torch.equal(change(recording).x, recording.x)
    assert repr(change) == "Compose(Flip(p=1.0), Shift(pixels=0), Flip(p=1.0))"


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: augment.Flip(1.5), ValueError, r"p must lie in \[0, 1\]"),
        (lambda: augment.Drop("half"), TypeError, "p must be a number"),
        (lambda: augment.Shift(-1), ValueError, "pixels must lie in 0"),
        (lambda: augment.Shift(0.5), TypeError, "pixels must be an int"),
        (lambda: augment.Jitter(math.inf), ValueError, "std must be a finite number of microseconds"),
        (lambda: augment.Drop(0.1, generator=3), TypeError, "generator must be a torch.Generator"),
        (lambda: augment.Compose(3), TypeError, "step 0 of Compose"),
        (lambda: augment.Flip()(torch.zeros(3)), TypeError, r"events must be a data\.events\.Events"),
    ],
)
def test_bad_input(call, error, words):
    with pytest.raises(error, match=words):
        call()
