"""Event data: recordings as lists of events, a synthetic event camera, and frames as the input of networks.

```python
from snnkit.data import events

recordings, labels = events.record_digits("train", samples=64)   # a camera moves before handwritten digits
recordings[0]                                           # Events(1201 in 0.3 s, 16 × 16 pixels)
frames = events.to_frames(recordings[0], steps=16)      # counts float32 [16, 2, 16, 16]: OFF, ON
batch, y = events.collate(zip(recordings, labels), window=20_000)   # [T, 64, 2, 16, 16]; windows of 20 ms
listed = events.to_list(recordings, steps=16)           # the same [16, 64, 2, 16, 16] in the memory of its events
changed = events.transforms.Shift(2)(recordings[0])
shd = events.load("shd", "train")                       # published recordings: spoken digits, through a cochlea
train, held_out = events.split_speakers(shd.speakers)   # indices; choose the epoch by the speakers held out
x, y = events.cochleagrams(shd, window=10_000, duration=1_000_000, pool=5)  # counts uint8 [8156, 100, 140]
```

A recording's time is in microseconds. ``events_of`` makes the spikes of a camera step by step, without recordings.
"""

from snnkit import lazy
from snnkit.data.events import transforms as transforms
from snnkit.data.events.camera import (
    events_of as events_of,
    record as record,
    record_digits as record_digits,
    saccades as saccades,
)
from snnkit.data.events.frames import (
    cochleagrams as cochleagrams,
    collate as collate,
    frames_of as frames_of,
    time_surface as time_surface,
    to_frames as to_frames,
    to_list as to_list,
    voxel_grid as voxel_grid,
)
from snnkit.data.events.heidelberg import split_speakers as split_speakers
from snnkit.data.events.published_sets import Recordings as Recordings, load as load, read_nmnist as read_nmnist
from snnkit.data.events.recordings import Events as Events, from_numpy as from_numpy, in_order as in_order
from snnkit.event_lists import EventList as EventList

__getattr__, __dir__, __all__ = lazy.attach(__name__, "transforms")
