"""Recordings as lists of events: what they hold, and what they refuse."""

import numpy as np
import pytest
import torch

from snnkit.data import events
from snnkit.data.events import Events


def columns(t=(0, 5, 5), x=(0, 3, 1), y=(1, 0, 1), p=(True, False, True)):
    return {
        "t": torch.tensor(t, dtype=torch.int64),
        "x": torch.tensor(x, dtype=torch.int16),
        "y": torch.tensor(y, dtype=torch.int16),
        "p": torch.tensor(p, dtype=torch.bool),
    }


def test_a_recording_lasts_until_just_after_its_last_event_or_longer():
    recording = Events(**columns(), size=(2, 4))
    assert len(recording) == 3 and recording.duration == 6 and recording.shape == (2, 2, 4)
    assert Events(**columns(), size=(2, 4), duration=100).duration == 100
    assert repr(Events(**columns(), size=(2, 4), duration=1500)) == "Events(3 in 0.0015 s, 2 × 4 pixels)"


def test_places_are_kept_in_16_bits():
    wide = columns() | {"x": torch.tensor([0, 30000, 1]), "y": torch.tensor([1, 0, 1], dtype=torch.uint8)}
    recording = Events(**wide, size=(2, 32768))
    assert recording.x.dtype == recording.y.dtype == torch.int16 and recording.x.tolist() == [0, 30000, 1]


def test_sorting_keeps_the_order_within_a_moment():
    recording = events.in_order(**columns(t=(7, 2, 2)), size=(2, 4))
    assert recording.t.tolist() == [2, 2, 7]
    assert recording.x.tolist() == [3, 1, 0] and recording.p.tolist() == [False, True, True]


def test_part_of_a_recording():
    recording = Events(**columns(), size=(2, 4), duration=50)
    part = recording.where(recording.p)
    assert part.t.tolist() == [0, 5] and part.x.tolist() == [0, 1] and part.duration == 50
    for mask, error, words in (
        (torch.zeros(3, dtype=torch.bool), ValueError, r"mask must be \[3\] and True somewhere"),
        (torch.ones(2, dtype=torch.bool), ValueError, r"mask must be \[3\].*got \[2\]"),
        (torch.ones(3), TypeError, "mask must be a tensor of bool"),
    ):
        with pytest.raises(error, match=words):
            recording.where(mask)


def test_structured_arrays_both_ways():
    recording = Events(**columns(), size=(2, 4))
    array = recording.numpy()
    assert array.dtype.names == ("x", "y", "t", "p") and array["t"].tolist() == [0, 5, 5]
    again = events.from_numpy(array[::-1], (2, 4))
    assert again.t.tolist() == [0, 5, 5] and again.x.tolist() == [0, 1, 3]  # sorted; those of one moment as they came
    cochlea = np.array([(3, 600), (4, 2)], dtype=[("t", np.int64), ("x", np.int64)])
    channels = events.from_numpy(cochlea, (1, 700), polarities=1)
    assert channels.y.tolist() == [0, 0] and channels.p.all() and channels.shape == (1, 1, 700)


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"t": torch.tensor([0, 5, 4])}, ValueError, "t must not fall .* event 2 is at 4 µs, the one before at 5 µs"),
        ({"t": torch.tensor([-1, 5, 5])}, ValueError, "t must be at least 0 µs.*got -1"),
        ({"t": torch.tensor([0.0, 1.0, 2.0])}, TypeError, "t must be a tensor of int64 microseconds.*float32"),
        ({"t": torch.tensor([0, 1, 2], dtype=torch.int32)}, TypeError, "t must be a tensor of int64.*int32"),
        ({"t": [0, 5, 5]}, TypeError, "t must be a tensor of int64 microseconds .*got list"),
        ({"x": torch.tensor([0, 4, 1])}, ValueError, r"x must lie in 0 \.\. 3.*got 0 \.\. 4"),
        ({"y": torch.tensor([0, -1, 1])}, ValueError, r"y must lie in 0 \.\. 1.*got -1 \.\. 1"),
        ({"y": torch.tensor([0, 70000, 1])}, ValueError, r"y must lie in 0 \.\. 1.*70000"),
        ({"x": torch.tensor([0.0, 1.0, 1.0])}, TypeError, "x must be a tensor of integers"),
        ({"p": torch.tensor([0, 1, 1])}, TypeError, "p must be a tensor of bool"),
        ({"p": torch.tensor([True])}, ValueError, r"of one length; got p \[1\]"),
        ({"polarities": 1}, ValueError, "p must be True everywhere where polarities is 1"),
        ({"polarities": 3}, ValueError, "polarities must be 1 or 2; got 3"),
        ({"size": 34}, TypeError, r"size must be \(height, width\)"),
        ({"size": (0, 4)}, ValueError, "height must be at least 1"),
        ({"size": (2, 2**16)}, ValueError, "width must be at most 32768"),
        ({"duration": 5}, ValueError, "duration must be more than the time of the last event, 5 µs; got 5"),
        ({"duration": 0.5}, TypeError, "duration must be an int of microseconds"),
        (columns((), (), (), ()), ValueError, "at least one event; t is empty"),
    ],
)
def test_bad_recordings(changed, error, words):
    with pytest.raises(error, match=words):
        Events(**(columns() | {"size": (2, 4)} | changed))


def test_bad_arrays():
    good = np.zeros(2, dtype=[("t", np.int64), ("x", np.int16), ("y", np.int16), ("p", np.int8)])
    other = good.copy()
    other["p"] = 2
    for array, error, words in (
        (np.zeros(3), TypeError, "structured NumPy array with the fields t, x, y and p"),
        (good[["x", "y"]], TypeError, "structured NumPy array"),
        (np.zeros(2, dtype=[("t", np.float64), ("x", np.int16)]), TypeError, "t must be integers, in microseconds"),
        (other, ValueError, "p must hold bools, or 0 and 1"),
        (good[:0], ValueError, "at least one event"),
    ):
        with pytest.raises(error, match=words):
            events.from_numpy(array, (2, 2))
