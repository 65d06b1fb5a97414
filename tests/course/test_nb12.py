"""The references of notebook 12 agree with the library and with what its text says."""

import pytest
import torch

from snnkit.course.nb12 import backwards, count_events, drawn, supported
from snnkit.data import events


@pytest.mark.parametrize("window", [1, 700, 1000, 9999, 20_000])
def test_counts_are_those_of_the_library(window):
    recording = drawn(500, (7, 9), 10_000, seed=5)
    assert torch.equal(count_events(recording, window), events.to_frames(recording, window=window))


def test_backwards_has_the_same_windows_as_exchanged_polarities_in_the_opposite_order():
    recording = drawn(500, (7, 9), 16_000, seed=6)
    forwards, turned = (events.to_frames(one, steps=16) for one in (recording, backwards(recording)))
    assert torch.equal(turned, forwards.flip(0, 1)) and not torch.equal(turned, forwards)
    assert torch.equal(turned.sum((0, 1)), forwards.sum((0, 1)))


def test_a_witness_is_another_pixel_beside_and_not_long_before():
    recording = drawn(200, (6, 5), 9000, seed=7)
    t, x, y = (getattr(recording, name).tolist() for name in "txy")
    want = [
        any(0 <= t[i] - t[j] <= 400 and max(abs(x[i] - x[j]), abs(y[i] - y[j])) == 1 for j in range(i))
        for i in range(len(t))
    ]
    assert supported(recording, 400).tolist() == want and 0 < sum(want) < len(want)
