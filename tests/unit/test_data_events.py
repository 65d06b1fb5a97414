"""The synthetic event camera: events where the logarithm of intensity changes, and nowhere else."""

import math

import pytest
import torch

from snnkit import data


def still(steps=3):
    return torch.zeros(steps + 1, 2)


def across(steps, dx=1.0, dy=0.0):
    return torch.arange(steps + 1.0)[:, None] * torch.tensor([dx, dy])


def edge(height=4, width=12, at=6):
    """Dark to the left, bright to the right."""
    image = torch.zeros(1, 1, height, width)
    image[..., at:] = 1.0
    return image


def test_who_does_not_move_sees_nothing():
    assert not data.events_of(torch.rand(3, 1, 6, 6), still()).any()


def test_an_edge_that_passes_makes_one_polarity_where_it_is():
    # Looking to the right moves the image to the left: the bright side comes in at the edge.
    events = data.events_of(edge(), across(3))
    for t in range(3):
        rising = torch.zeros(4, 12)
        rising[:, 5 - t] = 1
        assert torch.equal(events[0, t, 0, :, :9], rising[:, :9])
    assert not events[0, :, 1, :, :9].any()
    # Back again: the same places, falling.
    path = torch.cat([across(3), across(3)[:3].flip(0)])
    back = data.events_of(edge(), path)
    assert torch.equal(back[0, 3:, 1, :, :9], events[0, :, 0, :, :9].flip(0)) and not back[0, 3:, 0, :, :9].any()


def test_small_changes_add_up_until_the_threshold():
    # Intensity grows by a quarter pixel's share per step; log(0.1 + share) from log(0.1) on, counted by hand.
    events = data.events_of(edge(), across(4, 0.25), threshold=0.7)[0, :, 0, 0, 5]
    memory, expected = math.log(0.1), []
    for share in (0.25, 0.5, 0.75, 1.0):
        count = math.floor((math.log(0.1 + share) - memory) / 0.7)
        memory += count * 0.7
        expected.append(float(count > 0))
    assert events.tolist() == expected and 0 in expected


def test_saccades_go_round_a_triangle():
    path = data.saccades(6, 2.0)
    assert path.tolist() == [[0, 0], [0.5, 1], [1, 2], [1.5, 1], [2, 0], [1, 0], [0, 0]]
    lengths = data.saccades(30, 4.0).diff(dim=0).norm(dim=1)
    for side in lengths.split(10):
        torch.testing.assert_close(side, side[:1].expand(10), rtol=1e-4, atol=1e-5)


def test_pixels_differ_and_report_without_reason():
    images = torch.rand(2, 1, 6, 6)
    path = data.saccades(5)

    def seen(seed=0, **options):
        return data.events_of(images, path, generator=torch.Generator().manual_seed(seed), **options)

    clean = seen()
    assert torch.equal(clean, seen(seed=1))  # nothing is drawn
    assert not torch.equal(clean, seen(mismatch=0.3))
    noisy = data.events_of(torch.zeros(50, 1, 6, 6), still(10), noise=0.1)
    assert noisy.mean().item() == pytest.approx(0.1, abs=0.01) and set(noisy.unique().tolist()) == {0.0, 1.0}


def test_the_digits_in_saccades():
    events, labels = data.event_digits("test", 9, size=12, seed=3)
    assert events.shape == (355, 9, 2, 12, 12) and events.dtype == torch.float32
    assert torch.equal(labels, data.load("digits", "test")[1])
    assert set(events.unique().tolist()) == {0.0, 1.0} and 0.03 < events.mean() < 0.4
    assert torch.equal(events, data.event_digits("test", 9, size=12, seed=3)[0])
    assert not torch.equal(events, data.event_digits("test", 9, size=12, seed=4)[0])
    assert data.event_digits("train", 2, noise=0.0)[0].shape == (1442, 2, 2, 16, 16)


def test_the_number_of_images_at_a_time_is_of_no_account(monkeypatch):
    images, path = torch.rand(7, 1, 5, 5), data.saccades(4)
    whole = data.events_of(images, path)
    monkeypatch.setattr("snnkit.data.events.camera._CHUNK", 2)
    assert torch.equal(data.events_of(images, path), whole)
    assert torch.equal(data.events_of(images[3:4], path)[0], whole[3])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"images": torch.zeros(2, 1, 4, 4, dtype=torch.uint8)}, TypeError, "scale uint8 with data.to_unit"),
        ({"images": torch.zeros(2, 4, 4)}, ValueError, r"images must be \[N, 1, H, W\]"),
        ({"images": torch.full((1, 1, 2, 2), 2.0)}, ValueError, r"images must lie in \[0, 1\]; got values from 2 to 2"),
        ({"images": torch.full((1, 1, 2, 2), math.nan)}, ValueError, r"images must lie in \[0, 1\]"),
        ({"path": torch.zeros(1, 2)}, ValueError, r"path must be a tensor \[T \+ 1, 2\]"),
        ({"threshold": 0.0}, ValueError, "threshold must be a finite number above 0"),
        ({"dark": -1.0}, ValueError, "dark must be a finite number above 0"),
        ({"noise": 1.0}, ValueError, r"noise must lie in \[0, 1\)"),
        ({"mismatch": "much"}, TypeError, "mismatch must be a number"),
        ({"generator": 3}, TypeError, "generator must be a torch.Generator or None"),
    ],
)
def test_bad_input(options, error, words):
    with pytest.raises(error, match=words):
        data.events_of(**{"images": torch.zeros(2, 1, 4, 4), "path": still(), **options})


def test_bad_input_of_the_digits_and_the_path():
    for arguments, words in (
        ({"split": "val"}, "split must be one of 'train', 'test'"),
        ({"size": 7}, "size must be at least 8"),
        ({"seed": -1}, "seed must lie in 0"),
        ({"steps": 0}, "steps must be at least 1"),
        ({"amplitude": 0.0}, "amplitude must be a finite number above 0"),
    ):
        with pytest.raises(ValueError, match=words):
            data.event_digits(**arguments)
