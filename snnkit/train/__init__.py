"""Training: a loop to read from top to bottom, seeds, checkpoints that are safe to open, recipes, and a launcher.

``lit`` trains through Lightning, ``slurm`` writes, explains and checks batch scripts.
"""

from snnkit.train import recipes
from snnkit.train.checkpoint import load_checkpoint, save_checkpoint
from snnkit.train.distributed import Launched, LaunchError, RankInfo, launch
from snnkit.train.history import History, TensorBoard
from snnkit.train.loop import BatchInfo, evaluate, fit
from snnkit.train.recipe import OneCycle, Recipe
from snnkit.train.seeding import seed_everything

__all__ = [
    "BatchInfo",
    "History",
    "LaunchError",
    "Launched",
    "OneCycle",
    "RankInfo",
    "Recipe",
    "TensorBoard",
    "evaluate",
    "fit",
    "launch",
    "load_checkpoint",
    "recipes",
    "save_checkpoint",
    "seed_everything",
]
