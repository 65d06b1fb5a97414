"""Training: a loop that you can read from top to bottom, seeds, checkpoints that are safe to open, recipes, a launcher.

``lit`` trains through Lightning, ``slurm`` writes, explains and checks batch scripts.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from snnkit import lazy
from snnkit.train import recipes as recipes
from snnkit.train.checkpoint import load_checkpoint as load_checkpoint
from snnkit.train.checkpoint import save_checkpoint as save_checkpoint
from snnkit.train.distributed import Launched as Launched
from snnkit.train.distributed import LaunchError as LaunchError
from snnkit.train.distributed import RankInfo as RankInfo
from snnkit.train.distributed import launch as launch
from snnkit.train.history import History as History
from snnkit.train.history import TensorBoard as TensorBoard
from snnkit.train.loop import BatchInfo as BatchInfo
from snnkit.train.loop import evaluate as evaluate
from snnkit.train.loop import fit as fit
from snnkit.train.recipe import OneCycle as OneCycle
from snnkit.train.recipe import Recipe as Recipe
from snnkit.train.seeding import seed_everything as seed_everything

if _TYPE_CHECKING:
    from . import lit as lit
    from . import slurm as slurm

__getattr__, __dir__, __all__ = lazy.attach(__name__, "lit", "recipes", "slurm")
