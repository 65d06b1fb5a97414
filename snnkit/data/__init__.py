"""Data sets: real images in one call, batches from tensors, augmentation, and a toy problem in time.

```python
images, labels = data.load("digits")            # uint8 [1442, 1, 8, 8], int64 [1442]; offline
images, labels = data.load("mnist", "test")     # uint8 [10000, 1, 28, 28]; from SNNKIT_DATA, or downloaded once
for x, y in data.batches(images, labels, 64):
    x = data.to_unit(x)                         # float32 in [0, 1], ready for snnkit.encode
    x = data.augment.Shift(2)(x)                # each image moved by up to two pixels
recordings, labels = data.events.record_digits()    # from an event camera; see data.events
```
"""

from snnkit.data import augment, events
from snnkit.data._batches import batches, resolve_device, to_device, to_unit
from snnkit.data.datasets import CLASSES, available, load
from snnkit.data.idx import DamagedFileError
from snnkit.data.toy import xor_in_time

__all__ = [
    "CLASSES",
    "DamagedFileError",
    "augment",
    "available",
    "batches",
    "events",
    "load",
    "resolve_device",
    "to_device",
    "to_unit",
    "xor_in_time",
]
