"""Training: a loop to read from top to bottom, seeds, and checkpoints that are safe to open."""

from snnkit.train.checkpoint import load_checkpoint, save_checkpoint
from snnkit.train.history import History
from snnkit.train.loop import BatchInfo, evaluate, fit
from snnkit.train.seed import seed_everything

__all__ = [
    "BatchInfo",
    "History",
    "evaluate",
    "fit",
    "load_checkpoint",
    "save_checkpoint",
    "seed_everything",
]
