"""The training loop, on a torch model of two lines."""

import json
import math
import random

import numpy as np
import pytest
import torch
from torch import nn

from snnkit import data, train

from .test_train_checkpoint import Scaled
from .test_train_step import loss, weights

STEPS = 3


class Rates(nn.Module):
    """A linear readout of every step: stateless, differentiable, fast."""

    def __init__(self, features=64, classes=10, dropout=0.0):
        super().__init__()
        self.linear = nn.Linear(features, classes)
        self.norm = nn.BatchNorm1d(features)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, state=None):
        x = x.flatten(2)
        x = self.norm(x.flatten(0, 1)).view_as(x)
        return self.linear(self.dropout(x)), state


def repeat(x):
    return x.expand(STEPS, *x.shape)


def small(n=200):
    images, labels = data.load("digits")
    return images[:n], labels[:n]


def make(seed=0, **kwargs):
    torch.manual_seed(seed)
    return Rates(**kwargs)


def fit(model, train_data=None, *args, **kwargs):
    kwargs = {"encode": repeat, "loss": loss, "device": "cpu", "progress": False, "batch_size": 32} | kwargs
    return train.fit(model, small() if train_data is None else train_data, *args, **kwargs)


def test_it_learns_the_digits_and_reports_it():
    model = make()
    test = data.load("digits", "test")
    history = fit(model, data.load("digits"), test, epochs=4, lr=1e-2, seed=1)
    assert history.train_loss[-1] < history.train_loss[0] / 3
    assert history.test_accuracy[-1] > 0.9
    result = train.evaluate(model, test, encode=repeat, loss=loss, device="cpu")
    assert result["accuracy"] == pytest.approx(history.test_accuracy[-1])
    assert result["loss"] == pytest.approx(history.test_loss[-1], rel=1e-5)
    out, _ = model.eval()(repeat(data.to_unit(test[0])))
    assert result["spikes"] == pytest.approx(out.mean().item(), rel=1e-4)
    assert result["accuracy"] == pytest.approx((out.sum(0).argmax(1) == test[1]).float().mean().item())


def test_history_is_plain_complete_and_readable():
    history = fit(make(), None, small(50), epochs=2, seed=0)
    values = json.loads(json.dumps(history.to_dict()))
    with_metric = ("metric", "train_metric", "test_metric", "regulariser")
    assert all(len(values[name]) == 2 for name in values if name not in ("interrupted", *with_metric))
    assert not any(values[name] for name in with_metric)
    assert history.epochs == 2 and not history.interrupted
    assert train.History.from_dict(values) == history
    assert all(s > 0 for s in history.seconds)
    assert history.samples_per_second[0] == pytest.approx(200 / history.seconds[0])
    text = repr(history)
    assert "2 epochs" in text and f"{history.test_accuracy[1]:.2%}" in text and len(text.splitlines()) == 4


# -- reproducible ----------------------------------------------------------------------------------------------------


def test_seed_everything_seeds_everything():
    def draw():
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    assert train.seed_everything(7) == 7
    first = draw()
    assert train.seed_everything(np.int64(7)) == 7
    assert draw() == first
    train.seed_everything(8)
    assert all(a != b for a, b in zip(draw(), first, strict=True))


# -- what the loop hands around --------------------------------------------------------------------------------------


def test_uint8_is_scaled_per_batch_and_floats_are_left_alone():
    seen = []

    def watch(x):
        seen.append((x.dtype, float(x.max())))
        return repeat(x)

    fit(make(), encode=watch)
    assert all(dtype == torch.float32 and top <= 1 for dtype, top in seen)
    seen.clear()
    images, labels = small()
    fit(make(), [images.float(), labels], encode=watch)  # a list, as a DataLoader gives it
    assert max(top for _, top in seen) == 255


def test_callbacks():
    batches, epochs = [], []
    model = make()
    on_epoch = lambda history, seen: epochs.append((history.epochs, seen is model))  # noqa: E731
    fit(model, epochs=2, batch_size=64, on_batch=batches.append, on_epoch=on_epoch)
    assert epochs == [(1, True), (2, True)]
    assert [(b.epoch, b.batch, b.batches) for b in batches] == [(e, b, 4) for e in range(2) for b in range(4)]
    assert batches[3].output.shape == (STEPS, 200 - 3 * 64, 10) and not batches[3].output.requires_grad
    assert all(math.isfinite(b.loss) and 0 <= b.accuracy <= 1 for b in batches)


def test_a_scheduler_steps_once_per_epoch_and_a_plateau_gets_the_loss():
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
    fit(model, epochs=3, optimizer=optimizer, scheduler=scheduler)
    assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    history = fit(model, optimizer=optimizer, scheduler=scheduler)
    assert scheduler.best == pytest.approx(history.train_loss[0])
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max")
    with pytest.raises(ValueError, match=r"scheduler must have mode='min', as it gets the training loss .* 'max'"):
        fit(model, optimizer=optimizer, scheduler=scheduler)


def test_parameters_of_functions_that_are_not_trained_get_a_warning(recwarn):
    model, learned = make(), Scaled()
    fit(model, loss=learned)
    (warning,) = recwarn
    assert "loss has parameters that are not trained: give optimizer= one that" in str(warning.message)
    assert warning.filename == __file__ and learned.scale == 1
    recwarn.clear()
    fit(model, loss=learned, optimizer=torch.optim.Adam([*model.parameters(), *learned.parameters()]))
    assert learned.scale != 1
    fit(model, loss=learned.requires_grad_(False))
    assert not recwarn


def test_evaluate_restores_each_modules_mode_and_changes_nothing():
    model = make(dropout=0.5)
    model.train()
    model.norm.eval()
    before = weights(model)
    result = train.evaluate(model, small(), encode=repeat, device="cpu")
    assert result["loss"] is None and 0 <= result["accuracy"] <= 1
    assert model.training and model.dropout.training and not model.norm.training
    assert torch.equal(weights(model), before)
    with pytest.raises(ZeroDivisionError):
        train.evaluate(model, small(), encode=lambda x: 1 / 0, device="cpu")
    assert model.dropout.training and not model.norm.training


# -- progress, interruption, bad numbers -----------------------------------------------------------------------------


def test_progress_bar_shows_unless_hidden(monkeypatch, capsys):
    monkeypatch.delenv("SNNKIT_HEADLESS", raising=False)
    fit(make(), progress=True)
    assert "training" in capsys.readouterr().err
    fit(make(), progress=False)
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    fit(make(), progress=True)
    assert capsys.readouterr().err == ""


def test_ctrl_c_returns_the_history_so_far():
    def stop(info):
        if (info.epoch, info.batch) == (1, 2):
            raise KeyboardInterrupt

    history = fit(make(), None, small(50), epochs=5, on_batch=stop)
    assert history.interrupted and history.epochs == 1 and len(history.test_accuracy) == 1
    assert "interrupted" in repr(history)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_bad_loss_stops_before_the_weights_are_touched(bad):
    model = make()
    last_good = []

    def poisoned(out, y):
        last_good.append(model.linear.weight.detach().clone())
        return loss(out, y) * (bad if len(last_good) == 3 else 1.0)

    with pytest.raises(FloatingPointError, match=rf"the loss is {bad} in epoch 1, batch 3 of 7.*lr \(it is 0\.5\)"):
        fit(model, loss=poisoned, lr=0.5)
    assert len(last_good) == 3 and not torch.equal(last_good[0], last_good[1])
    assert torch.equal(model.linear.weight, last_good[-1])


# -- mixed precision -------------------------------------------------------------------------------------------------


def test_amp_computes_in_bfloat16_and_the_loss_in_float32():
    model = make()
    seen = []
    model.linear.register_forward_hook(lambda module, inputs, out: seen.append(out.dtype))

    def watch(out, y):
        assert out.dtype == torch.float32
        return loss(out, y)

    history = fit(model, data.load("digits"), amp=True, epochs=4, lr=1e-2, seed=0, loss=watch)
    assert set(seen) == {torch.bfloat16}
    assert model.linear.weight.dtype == torch.float32
    assert history.train_accuracy[-1] > 0.9


# -- bad input -------------------------------------------------------------------------------------------------------


class Bare(Rates):
    def forward(self, x, state=None):
        return super().forward(x)[0]


other = torch.optim.SGD(Rates().parameters(), lr=0.1)
LBFGS = torch.optim.LBFGS([torch.ones(2, requires_grad=True)])
BAD = {
    "optimizer of another model": ({"optimizer": other}, ValueError, "optimizer must hold parameters of the model"),
    "optimizer with a closure": ({"optimizer": LBFGS}, ValueError, "optimizer must be able to step without a closure"),
    "data not a pair": ({"train_data": torch.zeros(3)}, TypeError, "train_data must be a pair"),
    "data dtype": ({"train_data": (torch.zeros(3, 4).long(), torch.zeros(3).long())}, TypeError, "train_data"),
    "encode shape": ({"encode": lambda x: x}, ValueError, r"the result of encode must be a sequence \[T, B"),
    "model output": ({"model": Bare()}, TypeError, r"the result of model must be \(out, state\)"),
    "nothing to train": ({"model": Rates().requires_grad_(False)}, ValueError, "model must have parameters to train"),
    "loss shape": ({"loss": lambda out, y: out.sum((0, 2))}, TypeError, "the result of loss must be a scalar"),
    "loss without graph": ({"loss": lambda out, y: loss(out, y).detach()}, ValueError, "loss must depend .* gradient"),
    "double model": ({"model": Rates().double()}, TypeError, "samples .*float32, its parameters are torch.float64"),
}


@pytest.mark.parametrize("arguments, error, words", BAD.values(), ids=BAD)
def test_bad_input_is_named(arguments, error, words):
    arguments = {"model": make()} | arguments
    before = [p.clone() for p in arguments["model"].parameters()]
    with pytest.raises(error, match=words):
        fit(**arguments)
    assert all(torch.equal(a, b) for a, b in zip(before, arguments["model"].parameters(), strict=True))


def test_an_error_inside_the_model_that_is_not_about_dtypes_goes_through():
    with pytest.raises(RuntimeError, match="running_mean should contain 60"):
        fit(make(), (torch.rand(9, 63), torch.zeros(9).long()), encode=lambda x: repeat(x[:, :60]))


def noisy(x, generator=torch.Generator()):  # noqa: B008
    """One step, with draws from two generators."""
    return (x + torch.rand(()) + torch.rand((), generator=generator))[None]


@pytest.mark.parametrize(
    ("n", "options", "words"),
    [
        (33, {}, r"the last batch has .* norm of model .* another batch_size than 32, or leave one of the 33 samples"),
        (33, {"accumulate": 2}, "the last batch has a single sample"),
        (4, {"batch_size": 1}, "each batch has a single sample, .*: choose a batch_size of at least 2"),
        (1, {}, "the last batch has a single sample, .*: give at least 2"),
    ],
)
def test_a_batch_norm_without_a_variance_is_told_before_training(n, options, words):
    model = make()
    before = weights(model), torch.get_rng_state(), noisy.__defaults__[0].get_state()
    with pytest.raises(ValueError, match=words):
        fit(model, small(n), encode=noisy, **options)
    assert all(map(torch.equal, before, (weights(model), torch.get_rng_state(), noisy.__defaults__[0].get_state())))


def thrice(x, draw=noisy):
    return draw(x).expand(STEPS, *x.shape)  # three values a channel


def test_to_look_for_a_batch_norm_without_a_variance_changes_nothing(monkeypatch):
    def run():
        noisy.__defaults__[0].manual_seed(0)
        model = make(dropout=0.5)
        fit(model, small(33), encode=thrice, seed=0)
        return weights(model)

    looked = run()
    monkeypatch.setattr("snnkit.train.loop.check_batch_of_one", lambda *arguments: None)
    assert torch.equal(run(), looked)
    with pytest.raises(ValueError, match=r"can't train on a batch of 1: expected more than 1 value per channel"):
        fit(make(), small(33), encode=noisy)


@pytest.mark.parametrize("learnable", [False, True])
def test_a_loss_that_falls_to_that_of_chance_and_rests_there_is_noticed(learnable, recwarn):
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(400, 6, generator=generator)
    y = x[:, :4].argmax(1) if learnable else torch.randint(4, (400,), generator=generator)
    torch.manual_seed(0)
    model = Rates(6, 4)
    with torch.no_grad():
        model.linear.weight.mul_(30)  # far from what a guess would be
    history = train.fit(
        model, (x, y), encode=repeat, loss=loss, lr=0.05, batch_size=16, epochs=9, seed=0, progress=False, device="cpu"
    )
    assert history.train_loss[-1] < 0.7 * history.train_loss[0]
    told = [str(one.message) for one in recwarn if "the network has learned nothing in 200 updates" in str(one.message)]
    assert len(told) == (not learnable)
