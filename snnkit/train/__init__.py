"""Training: a loop that you can read from top to bottom, seeds, checkpoints that are safe to open, recipes, a launcher.

``lit`` trains through Lightning, ``slurm`` writes, explains and checks batch scripts.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from snnkit import lazy
from snnkit.train import recipes as recipes
from snnkit.train.checkpoint import load_checkpoint as load_checkpoint, save_checkpoint as save_checkpoint
from snnkit.train.diagnose import diagnose as diagnose
from snnkit.train.distributed import (
    Launched as Launched,
    LaunchError as LaunchError,
    RankInfo as RankInfo,
    launch as launch,
)
from snnkit.train.history import History as History, TensorBoard as TensorBoard
from snnkit.train.loop import evaluate as evaluate, fit as fit
from snnkit.train.metrics import BatchInfo as BatchInfo
from snnkit.train.recipe import OneCycle as OneCycle, Recipe as Recipe
from snnkit.train.seeding import seed_everything as seed_everything

if _TYPE_CHECKING:
    from snnkit.train import lit as lit, slurm as slurm

__getattr__, __dir__, __all__ = lazy.attach(__name__, "lit", "recipes", "slurm")
