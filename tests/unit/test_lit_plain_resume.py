"""A run under plain Lightning that is killed within an epoch goes on to the same weights and the same figures."""

import contextlib

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelCheckpoint

from snnkit import viz
from snnkit.train import lit

from .lit_runs import images, module, net, trainer, weights

pytestmark = pytest.mark.filterwarnings("ignore")


class Killed(Exception):
    pass


class Kill(Callback):
    """Stops the run when so many updates are made; ``state`` is looked at by its checkpoint before."""

    def __init__(self, updates):
        self.updates = updates

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step == self.updates:
            raise Killed


def run(folder, kill=None, resume=None, accumulate=1, schedule="constant", seed=0):
    """Three epochs of ten batches, checkpoints every three updates; the module, its figures and those of epochs."""
    keep = ModelCheckpoint(
        folder, "last", every_n_train_steps=3, enable_version_counter=False, save_on_train_epoch_end=False
    )
    panel = viz.NotebookPanel()
    panel.on_train_end = lambda *arguments: None
    made = module(net(seed=seed), encoder="poisson", scheduler=schedule, rates=True)
    callbacks = [keep, panel, *([Kill(kill)] if kill else [])]
    whole = lit.TensorDataModule(images(40), images(20, seed=1), batch_size=4)
    started = trainer(*callbacks, max_epochs=3, accumulate_grad_batches=accumulate, enable_checkpointing=True)
    with contextlib.suppress(Killed):
        started.fit(made, whole, ckpt_path=resume)
    return weights(made), {name: float(value) for name, value in started.callback_metrics.items()}, panel.series


@pytest.mark.parametrize(
    ("accumulate", "schedule", "kills"),
    [(1, "constant", (4, 12, 29)), (1, "one-cycle", (4, 10, 17)), (1, "cosine", (8, 25)), (3, "one-cycle", (5, 7))],
)
def test_a_killed_run_ends_as_if_nothing_had_happened(tmp_path, accumulate, schedule, kills):
    same = {"accumulate": accumulate, "schedule": schedule}
    expected, figures, series = run(tmp_path / "whole", **same)
    for kill in kills:
        folder = tmp_path / str(kill)
        run(folder, kill=kill, **same)
        (file,) = folder.iterdir()
        begun = torch.load(file, weights_only=True)
        assert begun["global_step"] == kill // 3 * 3
        got, its_figures, its_series = run(folder, resume=file, seed=5, **same)  # other initial weights are replaced
        assert torch.equal(got, expected)
        assert its_figures == figures
        assert its_series == series


def test_a_trained_module_is_read_back(tmp_path):
    made = module()
    started = trainer()
    started.fit(made, lit.TensorDataModule(images(), batch_size=8))
    for name, weights_only in (("whole.ckpt", False), ("weights.ckpt", True)):
        started.save_checkpoint(tmp_path / name, weights_only=weights_only)
        read = lit.SpikingModule.load_from_checkpoint(tmp_path / name, model=net(seed=3), steps=4)
        assert torch.equal(weights(read), weights(made))
