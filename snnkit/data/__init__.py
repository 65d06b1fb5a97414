"""Data sets: images in one call, batches from tensors, augmentation, event data, ten sounds, and a toy problem in time.

```python
images, labels = data.load("digits")            # uint8 [1442, 1, 8, 8], int64 [1442]; offline
images, labels = data.load("mnist", "test")     # uint8 [10000, 1, 28, 28]; from SNNKIT_DATA, or downloaded once
for x, y in data.batches(images, labels, 64):
    x = data.to_unit(x)                         # float32 in [0, 1], ready for snnkit.encode
    x = data.augment.Shift(2)(x)                # each image moved by up to two pixels
recordings, labels = data.events.record_digits()    # from an event camera; see data.events
recordings, labels = data.sounds.record(100)        # from a cochlea: 100 takes of ten sounds; see data.sounds
```
"""

from snnkit import lazy
from snnkit.data import augment as augment, events as events, sounds as sounds
from snnkit.data.datasets import CLASSES as CLASSES, available as available, load as load, xor_in_time as xor_in_time
from snnkit.data.idx import DamagedFileError as DamagedFileError
from snnkit.data.tensors import (
    batches as batches,
    resolve_device as resolve_device,
    to_device as to_device,
    to_unit as to_unit,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__, "augment", "events", "sounds")
