"""One rank of a run in the tests of this folder. Its argument is JSON: settings of ``run_recipe``, and what to note.

notes   folder: what this rank sees goes there, a file for each rank
count   file that holds the number of updates at any moment, even when the process is killed
unused  the network has a parameter that the loss does not depend on
fail    rank that raises an exception after the update ``at``; "silent" makes it hang there instead
"""

import hashlib
import json
import mmap
import os
import struct
import sys
import time
from pathlib import Path

import torch
from lightning.pytorch import Callback

from snnkit.train import Recipe
from snnkit.train.distributed import PEER
from snnkit.train.lit import RankError, run_recipe


class Notes(Callback):
    """Samples of each batch, the first output, and the gradients of the last update."""

    def __init__(self, folder):
        self.folder, self.batches, self.first, self.gradients = Path(folder), [], None, []

    def on_train_start(self, trainer, pl_module):
        def look(module, args, result):
            if self.first is None and module.training:
                self.first = args[0].clone(), result[0].detach().clone()

        pl_module.model.register_forward_hook(look)

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        own = [] if batch.weight == 0 else [hashlib.sha1(x.numpy().tobytes()).hexdigest() for x in batch.samples]
        self.batches.append(own)

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self.gradients = [p.grad.clone() for p in pl_module.model.parameters() if p.grad is not None]

    def write(self, run):
        content = {
            "batches": self.batches, "first": self.first, "gradients": self.gradients, "updates": run.updates,
            "weights": run.model.state_dict(), "history": run.history.to_dict(), "stopped": str(run.stopped or ""),
        }  # fmt: skip
        torch.save(content, self.folder / f"rank{run.rank_info.rank}.pt")


class Count(Callback):
    def __init__(self, file):
        self.file = file

    def on_train_start(self, trainer, pl_module):
        if trainer.is_global_zero:
            Path(self.file).write_bytes(struct.pack("q", trainer.global_step))
            with open(self.file, "r+b") as file:
                self.memory = mmap.mmap(file.fileno(), 8)

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.is_global_zero:
            self.memory[:] = struct.pack("q", trainer.global_step)


class Fail(Callback):
    def __init__(self, rank, at, silent):
        self.rank, self.at, self.silent = rank, at, silent

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_rank == self.rank and trainer.global_step == self.at:
            if self.silent:
                time.sleep(1000)
            raise ValueError("planted")


def with_spare(network):
    network.spare = torch.nn.Parameter(torch.ones(3))
    return network


def main():
    settings = json.loads(sys.argv[1])
    notes = Notes(settings.pop("notes")) if "notes" in settings else None
    callbacks = [notes] if notes else []
    if "count" in settings:
        callbacks.append(Count(settings.pop("count")))
    if "fail" in settings:
        callbacks.append(Fail(settings.pop("fail"), settings.pop("at"), settings.pop("silent", False)))
    if settings.pop("unused", False):
        build = Recipe.build
        Recipe.build = lambda recipe: with_spare(build(recipe))
    if "differ" in settings:
        settings["seed"] = int(os.environ[settings.pop("differ")])
    try:
        run = run_recipe("digits", device="cpu", progress=False, callbacks=callbacks, **settings)
    except RankError as error:
        print(f"RankError: {error}", flush=True)
        os._exit(PEER)
    if notes:
        notes.write(run)
    print(f"updates {run.updates} {run.stopped or 'finished'}", flush=True)


if __name__ == "__main__":
    main()
