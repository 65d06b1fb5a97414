"""Event data: recordings as lists of events, a synthetic event camera, and frames as the input of networks.

```python
from snnkit.data import events

recordings, labels = events.record_digits("train", samples=64)   # a camera moves before handwritten digits
recordings[0]                                           # Events(1201 in 0.3 s, 16 × 16 pixels)
frames = events.to_frames(recordings[0], steps=16)      # counts float32 [16, 2, 16, 16]: ON, OFF
batch, y = events.collate(zip(recordings, labels), window=20_000)   # [T, 64, 2, 16, 16]; windows of 20 ms
changed = events.transforms.Shift(2)(recordings[0])
shd = events.load("shd", "train")                       # published recordings; needs tonic
```

A recording's time is in microseconds. ``events_of`` makes the spikes of a camera step by step, without recordings.
"""

from snnkit.data.events import transforms
from snnkit.data.events.camera import events_of, record, record_digits, saccades
from snnkit.data.events.frames import collate, frames_of, time_surface, to_frames, voxel_grid
from snnkit.data.events.published_sets import Recordings, load, read_nmnist
from snnkit.data.events.recordings import Events, from_numpy, in_order

__all__ = [
    "Events",
    "Recordings",
    "collate",
    "events_of",
    "frames_of",
    "from_numpy",
    "in_order",
    "load",
    "read_nmnist",
    "record",
    "record_digits",
    "saccades",
    "time_surface",
    "to_frames",
    "transforms",
    "voxel_grid",
]
