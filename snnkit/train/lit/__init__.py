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

from snnkit import checks, lazy

try:
    import lightning.pytorch  # noqa: F401
except ImportError as error:
    raise ImportError(f"snnkit.train.lit needs lightning ({error}): {checks.pip_install('scale')}") from error

from snnkit.train.lit.data import (
    Batch as Batch,
    DigitsDataModule as DigitsDataModule,
    FashionMNISTDataModule as FashionMNISTDataModule,
    MNISTDataModule as MNISTDataModule,
    SharedBatches as SharedBatches,
    TensorDataModule as TensorDataModule,
)
from snnkit.train.lit.module import SpikingModule as SpikingModule
from snnkit.train.lit.preemption import (
    RankError as RankError,
    RequeueError as RequeueError,
    SignalFlags as SignalFlags,
    Stopped as Stopped,
)
from snnkit.train.lit.resume import AtomicCheckpointIO as AtomicCheckpointIO, ResumableCheckpoint as ResumableCheckpoint
from snnkit.train.lit.run import (
    HistoryCallback as HistoryCallback,
    RankRecorder as RankRecorder,
    ResumableDDP as ResumableDDP,
    ScaledRun as ScaledRun,
    quiet as quiet,
    run_recipe as run_recipe,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__)
