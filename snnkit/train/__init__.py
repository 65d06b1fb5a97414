"""Training: a loop to read from top to bottom, seeds, checkpoints that are safe to open, and named recipes."""

from snnkit.train import recipes
from snnkit.train.checkpoint import load_checkpoint, save_checkpoint
from snnkit.train.history import History
from snnkit.train.loop import BatchInfo, evaluate, fit
from snnkit.train.seed import seed_everything
from snnkit.train.tensorboard import TensorBoard

__all__ = [
    "BatchInfo",
    "History",
    "TensorBoard",
    "evaluate",
    "fit",
    "load_checkpoint",
    "recipes",
    "save_checkpoint",
    "seed_everything",
]
