"""Short runs through Lightning, for tests."""

import torch
from lightning.pytorch import Callback, Trainer

from snnkit import models
from snnkit.train import lit


def images(n=40, size=8, seed=0):
    """Images uint8 [n, 1, size, size], and labels in 0 .. 9 that can be told from them."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 10
    noise = torch.randint(60, (n, 1, size, size), generator=generator)
    noise[torch.arange(n), 0, labels % size, labels // 2] += 190
    return noise.to(torch.uint8), labels


def net(*sizes, seed=0):
    """A dense network whose layers fire."""
    torch.manual_seed(seed)
    made = models.mlp(sizes or (64, 16, 10), engine="eager")
    with torch.no_grad():
        for layer in made:
            if isinstance(layer, torch.nn.Linear):
                layer.weight.mul_(4)
    return made


def module(network=None, **options):
    defaults = {"steps": 4, "loss": "count_cross_entropy", "lr": 5e-3}
    return lit.SpikingModule(network or net(), **{**defaults, **options})


def trainer(*callbacks, **options):
    defaults = {
        "max_epochs": 1, "accelerator": "cpu", "logger": False, "enable_checkpointing": False,
        "enable_model_summary": False, "num_sanity_val_steps": 0, "enable_progress_bar": False,
    }  # fmt: skip
    return Trainer(callbacks=list(callbacks), **{**defaults, **options})


def weights(made):
    return torch.cat([p.detach().flatten() for p in made.model.parameters()])


class Watch(Callback):
    """Each batch's learning rate, and what is logged at the ends of epochs."""

    def __init__(self):
        self.epochs, self.rates = [], []

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self.rates.append(optimizer.param_groups[0]["lr"])

    def on_train_epoch_end(self, trainer, pl_module):
        self.epochs.append({name: float(value) for name, value in trainer.callback_metrics.items()})
