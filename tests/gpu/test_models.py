"""On a GPU: the networks compute what they do on a CPU, recipes learn, and augmentation can be part of a CUDA graph."""

import pytest
import torch

from snnkit.data.augment import Shift
from snnkit.train import recipes

ALL = Shift(2)


@pytest.mark.parametrize("graphed", [False, True])
@pytest.mark.parametrize("network", [{}, {"network": "conv", "channels": 8, "lr": 0.01}])
def test_recipes_learn(network, graphed, device, tmp_path):
    settings = {"epochs": 6, "hidden": 64, "steps": 6, "amp": True, "graphed": graphed and device.type == "cuda"}
    settings |= {"shift": 1, "channels_last": True} | network
    file = tmp_path / "run.pt"
    begun = recipes.run("digits", device=device, progress=False, checkpoint=file, **settings)
    assert begun.history.test_accuracy[-1] > 0.6 and next(begun.model.parameters()).device.type == device.type
    longer = recipes.run("digits", device=device, progress=False, checkpoint=file, resume=True, epochs=7)
    assert longer.history.epochs == 7 and longer.history.train_loss[:6] == begun.history.train_loss


def test_augmentation_never_waits_for_the_device(cuda):
    x = torch.rand(64, 1, 12, 12, device=cuda)
    ALL(x)
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        ALL(x)
    finally:
        torch.cuda.set_sync_debug_mode(mode)
