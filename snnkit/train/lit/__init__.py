"""Training through Lightning: the same network on one device, on many, and on a cluster.

```python
from lightning.pytorch import Trainer
from snnkit import models
from snnkit.train import lit

module = lit.SpikingModule(models.mlp((64, 128, 10)), loss="count_cross_entropy", lr=5e-3)
trainer = Trainer(max_epochs=10, callbacks=[lit.progress_bar(), lit.Throughput()])
trainer.fit(module, lit.DigitsDataModule(global_batch_size=64))
```

A recipe by its name, on all ranks that a launcher has started: ``lit.run_recipe``.
"""

try:
    import lightning.pytorch  # noqa: F401
    import torchmetrics  # noqa: F401
except ImportError as error:
    raise ImportError(
        f'snnkit.train.lit needs lightning and torchmetrics ({error}): pip install "snnkit[scale]"'
    ) from error

from snnkit.train.lit import ending as _ending  # noqa: F401  (closes connections when the process ends)
from snnkit.train.lit.checkpoint import AtomicCheckpointIO
from snnkit.train.lit.data import DigitsDataModule, EventDataModule, FashionMNISTDataModule, MNISTDataModule
from snnkit.train.lit.faults import RankError
from snnkit.train.lit.gradients import SteadyDDP
from snnkit.train.lit.loader import Batch, SharedBatches
from snnkit.train.lit.module import SpikingModule
from snnkit.train.lit.progress import progress_bar
from snnkit.train.lit.rates import FiringRates
from snnkit.train.lit.run import ScaledRun, run_recipe
from snnkit.train.lit.tensors import TensorDataModule
from snnkit.train.lit.throughput import Throughput, neuron_steps

__all__ = [
    "AtomicCheckpointIO",
    "Batch",
    "DigitsDataModule",
    "EventDataModule",
    "FashionMNISTDataModule",
    "FiringRates",
    "MNISTDataModule",
    "RankError",
    "ScaledRun",
    "SharedBatches",
    "SpikingModule",
    "SteadyDDP",
    "TensorDataModule",
    "Throughput",
    "neuron_steps",
    "progress_bar",
    "run_recipe",
]
