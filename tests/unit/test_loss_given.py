"""A loss where it is given, as a function or by name: to ``fit``, ``evaluate``, ``SpikingModule`` and recipes."""

import functools
import inspect
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from snnkit import encode, loss, models, neuron, train
from snnkit.nn import Sequential
from snnkit.train.metrics import Metric, apply_loss
from snnkit.train.pairing import Pairing
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


# -- numbers as targets ------------------------------------------------------------------------------------------------

NUMBERS = SAMPLES.sum(1)  # [N]


def regression(run, criterion, targets=NUMBERS, batch_size=3, **options):
    torch.manual_seed(0)
    model = Sequential(nn.Linear(8, 6), neuron.LIF(), nn.Linear(6, 1))
    pair = SAMPLES, targets
    if run == "lightning":
        module = train.lit.SpikingModule(model, encoder=steps, loss=criterion, **options)
        trainer().fit(module, train.lit.TensorDataModule(pair, global_batch_size=batch_size))
    elif run == "evaluate":
        train.evaluate(model, pair, encode=steps, loss=criterion, batch_size=batch_size, device="cpu", **options)
    else:
        how = {"epochs": 2, "batch_size": batch_size, "device": "cpu", "progress": False}
        train.fit(model, pair, encode=steps, loss=criterion, **how, **options)


ALL_WITH_ALL = {
    "mse": lambda out, y: F.mse_loss(out.mean(0), y),
    "of every step": lambda out, y: F.mse_loss(out, y),
    "a module": lambda out, y: nn.SmoothL1Loss()(out.mean(0), y),
    "by keywords": lambda out, y: F.l1_loss(target=y, input=out.mean(0)),
    "a view": lambda out, y: F.huber_loss(out.mean(0), y.view(-1)),
    "one that PyTorch lets pass": lambda out, y: F.gaussian_nll_loss(out.mean(0), y, torch.ones_like(y)),
    "rates": lambda out, y: F.poisson_nll_loss(out.mean(0), y),
}


@pytest.mark.parametrize("criterion", ALL_WITH_ALL.values(), ids=ALL_WITH_ALL)
def test_losses_that_would_pair_each_output_with_all_targets_are_refused(criterion):
    words = (
        r"^loss must compare .* own sample, but \w+_loss compares all with all: .*\[3\] broadcast to .*; give targets"
    )
    with pytest.raises(ValueError, match=words):
        regression("fit", criterion)


@pytest.mark.parametrize("run", ["evaluate", "lightning"])
def test_evaluation_and_lightning_refuse_them_as_well(run):
    with pytest.raises(ValueError, match=r"shapes \[3, 1\] and \[3\] broadcast to \[3, 3\]; .* targets\[:, None\]"):
        regression(run, ALL_WITH_ALL["mse"])
    regression(run, ALL_WITH_ALL["mse"], NUMBERS[:, None])


def test_the_advice_fits_the_targets():
    with pytest.raises(ValueError, match=r"\[3\] and \[3, 1\] broadcast .*; bring both to one shape"):
        regression("fit", lambda out, y: F.mse_loss(out.mean((0, 2)), y), NUMBERS[:, None])


def test_a_smaller_last_batch_is_looked_at_too():
    given = []

    def own(out, y):
        given.append(len(y))
        return F.mse_loss(out.mean(0) if len(y) == 2 else out.mean((0, 2)), y)

    with pytest.raises(ValueError, match=r"\[2, 1\] and \[2\]"):
        regression("fit", own, batch_size=4)
    assert given == [4, 2]


COMPARED_AS_MEANT = {
    "one shape": lambda out, y: F.mse_loss(out.mean(0).squeeze(-1), y),
    "one target for all steps": lambda out, y: F.mse_loss(out, y[:, None]),
    "arithmetic": lambda out, y: (out.mean((0, 2)) - y).square().mean(),
    "all pairs on purpose": lambda out, y: (out.mean(0) - y[None]).square().mean(),
    "pairs of targets": lambda out, y: ((y[:, None] - y).abs() * out.mean(0)).mean(),
    "a ranking": lambda out, y: F.relu(out.mean(0) - out.mean((0, 2))).mean(),
}


@pytest.mark.parametrize("criterion", COMPARED_AS_MEANT.values(), ids=COMPARED_AS_MEANT)
def test_other_losses_of_ones_own_may_take_any_shapes(criterion):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("default", "Using a target size")  # PyTorch's, of the second
        regression("fit", criterion)


@pytest.mark.parametrize("difference", [lambda a, b: a - b, lambda a, b: b - a, torch.sub])
def test_a_difference_with_all_targets_warns(difference):
    words = (
        r"^loss subtracts the targets of all samples from each output: .* broadcast to \[3, 3\]; .* targets\[None\]$"
    )
    with pytest.warns(UserWarning, match=words) as caught:
        regression("fit", lambda out, y: difference(out.mean(0), y).square().mean())
    assert len(caught) == 1 and caught[0].filename == __file__


def test_metrics_that_pair_each_output_with_all_targets_are_refused():
    good = COMPARED_AS_MEANT["one shape"]
    with pytest.raises(ValueError, match=r"^metric must compare .* l1_loss compares all with all: .* to \[3, 3\]"):
        regression("fit", good, metric=lambda out, y: F.l1_loss(out.mean(0), y))
    metric = Metric(lambda out, y: F.l1_loss(out.mean((0, 2)), y), torch.device("cpu"))
    assert metric(OUT, OUT.mean((0, 2))) == 0


def test_each_pair_of_shapes_is_looked_at_once_and_kernels_run_meanwhile():
    pairing, targets = Pairing("loss"), torch.rand(4)
    with pairing(OUT, targets):
        assert torch._C._len_torch_function_stack() == 1
        labels = torch.tensor([0, 1, 2, 3])  # out of range, which is looked at where nothing records
        with pytest.raises(ValueError, match=r"^targets must be in 0 … 2"):
            loss.rate_mse(OUT, labels)
    for out, y, looks in ((OUT, targets, 0), (OUT[:, :3], targets[:3], 1), (OUT[:, :2], torch.tensor([0, 1]), 0)):
        with pairing(out, y):
            assert torch._C._len_torch_function_stack() == looks


def test_every_loss_has_a_name_in_recipes():
    reduced = {name for name in loss.__all__ if "reduction" in inspect.signature(getattr(loss, name)).parameters}
    assert set(LOSSES) == reduced and len(LOSSES) == len(reduced)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_of_a_recipe_trains(name):
    settings = {"epochs": 1, "samples": 24, "hidden": 6, "steps": 4, "batch_size": 12, "loss": name}
    run = train.recipes.run("digits", device="cpu", progress=False, **settings)
    assert run.history.train_loss[0] > 0
