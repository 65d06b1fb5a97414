"""One rank of a plain Lightning run, for test_lit_ranks: writes its figures and weights into a folder."""

import os
import sys
import warnings
from pathlib import Path

import torch
from lightning.pytorch import Callback, Trainer

from snnkit import viz
from snnkit.train import lit
from tests.unit.lit_runs import images, module

warnings.filterwarnings("ignore")


class Notes(Callback):
    def __init__(self):
        self.epochs = []

    def on_train_epoch_end(self, trainer, pl_module):
        self.epochs.append({name: float(value) for name, value in trainer.callback_metrics.items()})


def main(folder, validation):
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    made, notes, speed = module(), Notes(), lit.HistoryCallback()
    # 42 samples in batches of 12: the last has 6.
    data = lit.TensorDataModule(images(42), images(int(validation), seed=1), global_batch_size=12)
    trainer = Trainer(
        accelerator="cpu", devices=world, strategy="ddp" if world > 1 else "auto", max_epochs=3, logger=False,
        accumulate_grad_batches=3, enable_checkpointing=False, enable_model_summary=False,
        enable_progress_bar=False, callbacks=[notes, speed, viz.NotebookPanel()],
    )  # fmt: skip
    trainer.fit(made, data)
    tested = trainer.test(made, data, verbose=False)[0]
    trainer.save_checkpoint(Path(folder) / "last.ckpt")
    kept = {name: value.clone() for name, value in made.model.state_dict().items()}
    noted = {"epochs": notes.epochs, "speed": speed.history.samples_per_second}
    torch.save({"weights": kept, "tested": tested, **noted}, Path(folder) / f"rank{rank}.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])
