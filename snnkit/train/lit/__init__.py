"""Training through Lightning: the same network on one device, on many, and on a cluster.

```python
from lightning.pytorch import Trainer
from snnkit import models
from snnkit.train import lit

module = lit.SpikingModule(models.mlp((64, 128, 10)), loss="count_cross_entropy", lr=5e-3)
trainer = Trainer(max_epochs=10, callbacks=[lit.HistoryCallback()])
trainer.fit(module, lit.DigitsDataModule(global_batch_size=64))
```

A recipe by its name, on all ranks that a launcher has started: ``lit.run_recipe``.
"""

from snnkit import checks

try:
    import lightning.pytorch  # noqa: F401
except ImportError as error:
    raise ImportError(f"snnkit.train.lit needs lightning ({error}): {checks.pip_install('scale')}") from error

from snnkit.train.lit.callbacks import FiringRates, HistoryCallback
from snnkit.train.lit.data import (
    Batch,
    DigitsDataModule,
    FashionMNISTDataModule,
    MNISTDataModule,
    SharedBatches,
    TensorDataModule,
)
from snnkit.train.lit.module import SpikingModule
from snnkit.train.lit.preemption import RankError, RequeueError, SignalFlags, Stopped
from snnkit.train.lit.resume import AtomicCheckpointIO, ResumableCheckpoint
from snnkit.train.lit.run import ResumableDDP, ScaledRun, run_recipe

__all__ = [
    "AtomicCheckpointIO",
    "Batch",
    "DigitsDataModule",
    "FashionMNISTDataModule",
    "FiringRates",
    "HistoryCallback",
    "MNISTDataModule",
    "RankError",
    "RequeueError",
    "ResumableCheckpoint",
    "ResumableDDP",
    "ScaledRun",
    "SharedBatches",
    "SignalFlags",
    "SpikingModule",
    "Stopped",
    "TensorDataModule",
    "run_recipe",
]
