"""Times that are as large as an int64, and a camera that is nowhere."""

import pytest
import torch

from snnkit.data import events
from snnkit.data.events import Events


def at(*times: int, duration: int = 0) -> Events:
    zeros = torch.zeros(len(times), dtype=torch.int64)
    return Events(torch.tensor(times), zeros, zeros, zeros.bool(), (2, 2), duration)


def test_no_event_is_lost_where_times_are_as_large_as_nanoseconds_since_1970():
    recording = at(0, 10**18, 17 * 10**17)
    frames = events.to_frames(recording, steps=1000)
    assert frames.sum() == 3 and frames[0].sum() == frames[-1].sum() == 1
    surface = events.time_surface(recording, tau=1e18, steps=1000)
    assert surface.isfinite().all() and surface.max() <= 1


@pytest.mark.parametrize("recording", [{"times": (0, 2**62)}, {"times": (0,), "duration": 2**70}])
def test_longer_than_an_int64_can_count_is_refused(recording):
    with pytest.raises(ValueError, match="duration must be at most"):
        at(*recording["times"], duration=recording.get("duration", 0))


@pytest.mark.parametrize("place", [float("nan"), float("inf")])
def test_a_camera_that_is_nowhere_sees_nothing(place):
    path = events.saccades(4)
    path[1, 0] = place
    for look in (events.events_of, events.record):
        with pytest.raises(ValueError, match="path must be finite"):
            look(torch.rand(1, 1, 8, 8), path)
