"""One rank of a plain Lightning run, for test_lit_ranks: writes its figures and weights into a folder."""

import os
import sys
import warnings
from pathlib import Path

import torch

from snnkit.lab import viz
from snnkit.train import lit
from tests.unit.lit_runs import Watch, images, module, trainer

warnings.filterwarnings("ignore")


def main(folder, validation):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    made, notes, speed = module(), Watch(), lit.HistoryCallback()
    # 42 samples in batches of 12: the last has 6.
    data = lit.TensorDataModule(images(42), images(int(validation), seed=1), global_batch_size=12)
    options = {"devices": world, "strategy": "ddp" if world > 1 else "auto", "num_sanity_val_steps": 2}
    run = trainer(notes, speed, viz.NotebookPanel(), max_epochs=3, accumulate_grad_batches=3, **options)
    run.fit(made, data)
    tested = run.test(made, data, verbose=False)[0]
    run.save_checkpoint(Path(folder) / "last.ckpt")
    kept = {name: value.clone() for name, value in made.model.state_dict().items()}
    noted = {"epochs": notes.epochs, "speed": speed.history.samples_per_second}
    torch.save({"weights": kept, "tested": tested, **noted}, Path(folder) / f"rank{rank}.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])
