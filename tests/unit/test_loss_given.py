"""A loss where it is given, as a function or by name: to ``fit``, ``evaluate``, ``SpikingModule`` and recipes."""

import functools
import inspect

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snnkit import encode, loss, models, train
from snnkit.train.metrics import apply_loss
from snnkit.train.recipe import LOSSES

from .lit_runs import trainer

SAMPLES, LABELS = torch.rand(6, 8, generator=torch.Generator().manual_seed(0)), torch.arange(6) % 3
OUT = torch.rand(5, 4, 3)  # [T, B, C]


def net():
    torch.manual_seed(0)
    return models.mlp((8, 6, 3))


def steps(x):
    return encode.repeat(3 * x, 5)


def by_fit(criterion):
    train.fit(net(), (SAMPLES, LABELS), encode=steps, loss=criterion, batch_size=4, device="cpu", progress=False)


def by_evaluate(criterion):
    train.evaluate(net(), (SAMPLES, LABELS), encode=steps, loss=criterion, batch_size=4, device="cpu")


def by_lightning(criterion):
    made = train.lit.SpikingModule(net(), encoder=steps, loss=criterion)
    batches = train.lit.TensorDataModule((SAMPLES, LABELS), global_batch_size=4)
    trainer().fit(made, batches)


KNOWS_NO_TIME = {
    "a function": F.cross_entropy,
    "a module": nn.CrossEntropyLoss(),
    "its class": nn.CrossEntropyLoss,
    "with an option": functools.partial(F.cross_entropy, label_smoothing=0.1),
    "one that would broadcast": nn.MSELoss(),
}


@pytest.mark.parametrize("run", [by_fit, by_evaluate, by_lightning])
def test_losses_that_take_no_time_axis_are_told(run):
    with pytest.raises(
        TypeError, match=r"loss must take \(out \[T, B, C\], targets \[B, ...\]\), but .* use snnkit.loss.rate"
    ):
        run(F.cross_entropy)
    with pytest.raises(
        ValueError, match=r"\(out \[T, B, C\] = \[5, 4, 3\], targets \[B, ...\] = \[4\]\), but it raised"
    ):
        run(lambda out, labels: F.cross_entropy(out, labels))
    run(lambda out, labels: F.cross_entropy(out.sum(0), labels))


@pytest.mark.parametrize("criterion", KNOWS_NO_TIME.values(), ids=KNOWS_NO_TIME)
def test_losses_of_pytorch_are_known(criterion):
    with pytest.raises(TypeError, match=r"^loss must take .* but PyTorch's \w+ takes no time axis: use snnkit\.loss\."):
        apply_loss(criterion, OUT, torch.tensor([0, 1, 2, 0]))


@pytest.mark.parametrize(
    "criterion",
    [
        lambda out, y: F.cross_entropy(out, y),
        lambda out, y: F.nll_loss(out.log_softmax(-1), y),
        lambda out, y: F.cross_entropy(out.flatten(0, 1), y),
        lambda out, y: F.binary_cross_entropy(out, y),
        lambda out, y: (out - y).square().mean(),
    ],
)
@pytest.mark.parametrize("steps", [4, 5])  # as many as samples, or not
def test_sizes_that_do_not_fit_are_told(criterion, steps):
    with pytest.raises(ValueError, match=r"^loss must take \(out .*, but it raised .*: use snnkit\.loss\."):
        apply_loss(criterion, torch.rand(steps, 4, 3), torch.tensor([0, 1, 2, 0]))


def test_other_errors_and_results_of_a_loss():
    def own(out, labels):
        raise ValueError("no")

    with pytest.raises(ValueError, match=r"^no$"):
        apply_loss(own, OUT, LABELS[:4])
    with pytest.raises(ValueError, match=r"^targets must have shape"):
        apply_loss(loss.rate_mse, OUT, LABELS)
    with pytest.raises(TypeError, match=r"the result of loss must be a scalar tensor, but it is of shape \[4\]"):
        apply_loss(functools.partial(loss.rate_mse, reduction="none"), OUT, LABELS[:4])
    with pytest.raises(TypeError, match="the result of loss must be a scalar tensor, but it is of float"):
        apply_loss(lambda out, labels: 0.5, OUT, LABELS[:4])


def test_every_loss_has_a_name_in_recipes():
    reduced = {name for name in loss.__all__ if "reduction" in inspect.signature(getattr(loss, name)).parameters}
    assert set(LOSSES) == reduced and len(LOSSES) == len(reduced)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_of_a_recipe_trains(name):
    settings = {"epochs": 1, "samples": 24, "hidden": 6, "steps": 4, "batch_size": 12, "loss": name}
    run = train.recipes.run("digits", device="cpu", progress=False, **settings)
    assert run.history.train_loss[0] > 0
