"""SpikingModule: what it trains is what ``fit`` would, by name or by object; its callbacks: history, panel."""

import functools
import math
import subprocess
import sys
import time

import pytest
import torch
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import GradientAccumulationScheduler
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from snnkit import data, encode, loss, models, neuron, nn, train
from snnkit.lab import viz
from snnkit.train import lit

from .lit_runs import Watch, images, module, net, trainer, weights

pytestmark = pytest.mark.filterwarnings("ignore")


def fitted(made, batch_size=16, validation=None, samples=40, callbacks=(), **options):
    watch = Watch()
    whole = lit.TensorDataModule(images(samples), validation, global_batch_size=batch_size)
    run = trainer(watch, *callbacks, **options)
    run.fit(made, whole)
    return watch


def by_hand(batches, network, criterion, optimizer, steps=4, accumulate=1):
    """The updates of an epoch, as ``fit`` makes them: those of the mean loss over all samples of an update."""
    for first in range(0, len(batches), accumulate):
        update = batches[first : first + accumulate]
        total = sum(len(batch.labels) for batch in update)
        optimizer.zero_grad()
        for batch in update:
            out, _ = network(encode.repeat(data.to_unit(batch.samples), steps))
            (criterion(out, batch.labels) * len(batch.labels) / total).backward()
        optimizer.step()


@pytest.mark.parametrize("accumulate", [1, 2])
def test_its_updates_are_those_of_a_plain_loop(accumulate):
    made = module()
    fitted(made, accumulate_grad_batches=accumulate)
    plain = net()
    # The last of the three batches is smaller, the last update has fewer batches.
    batches = list(lit.SharedBatches(*images(), 16))
    by_hand(batches, plain, loss.count_cross_entropy, torch.optim.Adam(plain.parameters(), lr=5e-3), 4, accumulate)
    torch.testing.assert_close(weights(made), torch.cat([p.flatten() for p in plain.parameters()]), rtol=0, atol=1e-6)
    assert not torch.allclose(weights(made), weights(module()), atol=1e-3)


def test_its_figures_are_those_of_evaluate():
    made, test = module(), images(25, seed=1)
    watch = fitted(made, validation=test)
    see = functools.partial(encode.repeat, steps=4)
    expected = train.evaluate(made.model, test, encode=see, loss=loss.count_cross_entropy, device="cpu")
    assert set(watch.epochs[0]) >= {f"{stage}/{name}" for stage in ("train", "val") for name in ("loss", "acc", "rate")}
    for name, key in (("loss", "loss"), ("acc", "accuracy"), ("rate", "spikes")):
        assert watch.epochs[0][f"val/{name}"] == pytest.approx(expected[key], rel=1e-5)
    run = trainer()
    whole = lit.TensorDataModule(images(), test, global_batch_size=16)
    assert run.test(made, whole, verbose=False)[0]["test/acc"] == pytest.approx(expected["accuracy"])


def test_training_figures_are_means_over_samples_of_one_epoch():
    watch = fitted(module(lr=1e-9), max_epochs=2)
    out, _ = net()(encode.repeat(data.to_unit(images()[0]), 4))
    expected = loss.count_cross_entropy(out, images()[1]).item(), loss.accuracy(out, images()[1]).item()
    for epoch in watch.epochs:  # the second does not go on counting from the first
        assert (epoch["train/loss"], epoch["train/acc"]) == pytest.approx(expected, rel=1e-4)
        assert epoch["train/rate"] == pytest.approx(out.mean().item(), rel=1e-3)


def test_plain_batches_of_any_loader():
    x, y = images()
    made, by_loop = module(), net()
    loader = DataLoader(TensorDataset(x, y), batch_size=16)
    trainer().fit(made, loader, loader)
    batches = [lit.Batch(*batch, 1.0) for batch in loader]
    by_hand(batches, by_loop, loss.count_cross_entropy, torch.optim.Adam(by_loop.parameters(), lr=5e-3))
    torch.testing.assert_close(weights(made), torch.cat([p.flatten() for p in by_loop.parameters()]), rtol=0, atol=1e-6)
    with pytest.raises(TypeError, match="batch must be a pair"):
        trainer().fit(module(), DataLoader(TensorDataset(x, y, y), batch_size=16))


def test_predictions_of_any_loader():
    x, y = images(25)
    made = module()
    expected = made(x).sum(0).detach()
    loaders = {
        "data module": lit.TensorDataModule(images(8), (x, y), global_batch_size=8),
        "pairs": DataLoader(TensorDataset(x, y), batch_size=10),
        "samples": DataLoader(TensorDataset(x), batch_size=10),
        "tensors": DataLoader(list(x), batch_size=10),
    }
    for name, loader in loaders.items():
        got = trainer().predict(made, loader)
        assert torch.equal(torch.cat(got), expected), name
    first = [trainer().predict(module(encoder="poisson"), loaders["pairs"]) for _ in range(2)]
    assert all(map(torch.equal, *first))  # the same draw every time
    made.trainer = trainer()
    assert made.predict_step(lit.Batch(x[:1], y[:1], 0.0), 0).shape == (0, 10)  # the sample of another rank


@pytest.mark.parametrize(
    ("criterion", "scores"),
    {
        loss.count_cross_entropy: lambda out: out.sum(0),
        loss.membrane_max_cross_entropy: lambda out: out.amax(0),
        loss.first_spike_cross_entropy: lambda out: -loss.first_spike_times(out),
        loss.first_spike_mse: lambda out: -loss.first_spike_times(out),
        functools.partial(loss.count_cross_entropy, population_size=2): lambda out: (
            out.sum(0).unflatten(1, (5, 2)).sum(2)
        ),
        functools.partial(loss.membrane_max_cross_entropy, population_size=2): lambda out: (
            out.unflatten(2, (5, 2)).sum(3).amax(0)
        ),
    }.items(),
)
def test_predictions_are_the_answers_that_the_loss_asks_for(criterion, scores):
    x, y = images(40)
    y = y % 5
    made = module(loss=criterion)
    out = made(x).detach()
    got = torch.cat(trainer().predict(made, DataLoader(TensorDataset(x), batch_size=10)))
    assert torch.equal(got, scores(out)) and out.any()
    measured = train.evaluate(made.model, (x, y), encode=made.encoder, loss=criterion, device="cpu")["accuracy"]
    assert measured == pytest.approx(float((got.argmax(1) == y).float().mean()))


@pytest.mark.parametrize(
    ("name", "function"),
    [("repeat", encode.repeat), ("latency", encode.latency), ("constant_current_lif", encode.constant_current_lif)],
)
def test_encoders_by_name(name, function):
    x, function = torch.rand(3, 1, 8, 8), functools.partial(function, steps=5)
    made = module(encoder=name, steps=5)
    assert torch.equal(made.encoder(x), function(x))
    assert torch.equal(made(x), made.model(function(x))[0])
    assert torch.equal(module(encoder=function)(x), made(x))
    assert module(encoder="sequence").encoder(torch.rand(3, 7, 1, 8, 8)).shape == (7, 3, 1, 8, 8)


@pytest.mark.parametrize(
    ("optimizer", "kind", "options"),
    [
        ("adam", torch.optim.Adam, {"lr": 0.01}),
        ("adamw", torch.optim.AdamW, {"lr": 0.01}),
        ("sgd", torch.optim.SGD, {"lr": 0.01, "momentum": 0.9}),
        (lambda model: torch.optim.SGD(model.parameters(), lr=0.3), torch.optim.SGD, {"lr": 0.3}),
    ],
)
def test_optimizers(optimizer, kind, options):
    made, run = module(optimizer=optimizer, lr=0.01), trainer()
    run.fit(made, lit.TensorDataModule(images(8), global_batch_size=8))
    (used,) = run.optimizers
    assert type(used) is kind and {name: used.defaults[name] for name in options} == options


@pytest.mark.parametrize("accumulate", [1, 2])
def test_one_cycle_is_that_of_fit(accumulate):
    rates = Watch()
    run = trainer(rates, max_epochs=2, accumulate_grad_batches=accumulate)
    run.fit(module(scheduler="one-cycle", lr=0.1), lit.TensorDataModule(images(), global_batch_size=8))
    updates = 2 * -(-5 // accumulate)
    plain = torch.optim.SGD(net().parameters(), lr=0.1)
    cycle = train.OneCycle(plain, 0.1, updates)
    assert rates.rates == pytest.approx([cycle.rate(update) for update in range(updates)])


def half_cosine(length):
    return [0.1 * (1 + math.cos(math.pi * i / length)) / 2 for i in range(length)]


def one_cycle(length):
    """A linear rise in the first tenth of the updates, counted from 1, and half a cosine to 0 after the last."""
    top = length / 10
    falling = [(1 + math.cos(math.pi * (i - top) / (length + 1 - top))) / 2 for i in range(1, length + 1)]
    return [0.1 * (i / top if i < top else fall) for i, fall in enumerate(falling, 1)]


# What bounds the run of five batches an epoch, the learning rates of a cosine, and the number of updates.
BOUNDS = {
    "epochs": ({"max_epochs": 4}, [rate for rate in half_cosine(4) for _ in range(5)], 20),
    "updates": ({"max_epochs": None, "max_steps": 12}, half_cosine(12), 12),
    "updates first": ({"max_epochs": 4, "max_steps": 12}, half_cosine(12), 12),
    "updates within an epoch": ({"max_epochs": -1, "max_steps": 3}, half_cosine(3), 3),
    "epochs first": ({"max_epochs": 2, "max_steps": 12}, [rate for rate in half_cosine(2) for _ in range(5)], 10),
    "fewer batches": ({"max_epochs": 3, "limit_train_batches": 2}, [rate for rate in half_cosine(3) for _ in "ab"], 6),
    "accumulating": ({"max_epochs": -1, "max_steps": 7, "accumulate_grad_batches": 2}, half_cosine(7), 7),
    "epochs and time": ({"max_epochs": 2, "max_time": "01:00:00:00"}, [0.1] * 5 + [0.05] * 5, 10),
    "none": ({"max_epochs": 0}, [], 0),
}


@pytest.mark.parametrize("scheduler", ["cosine", "one-cycle"])
@pytest.mark.parametrize("bound", BOUNDS)
def test_a_schedule_covers_the_run_whatever_bounds_it(bound, scheduler):
    rates, (options, cosine, updates) = Watch(), BOUNDS[bound]
    trainer(rates, **options).fit(
        module(scheduler=scheduler, lr=0.1), lit.TensorDataModule(images(), global_batch_size=8)
    )
    assert rates.rates == pytest.approx(cosine if scheduler == "cosine" else one_cycle(updates))


class Endless(IterableDataset):
    def __iter__(self):
        return iter(zip(*images(), strict=True))


@pytest.mark.parametrize("scheduler", ["cosine", "one-cycle"])
@pytest.mark.parametrize(
    ("options", "known"),
    [
        ({"max_epochs": -1}, None),
        ({"max_epochs": None, "max_time": "00:00:00:09"}, None),
        ({"max_epochs": 2}, "cosine"),  # by epochs
        ({"max_epochs": 2, "max_steps": 9}, None),  # which ends first?
        ({"max_epochs": 2, "limit_train_batches": 3}, "both"),
        ({"max_epochs": -1, "max_steps": 3}, "both"),
    ],
)
def test_a_schedule_says_what_it_must_know(options, known, scheduler):
    loader, made = DataLoader(Endless(), batch_size=8), module(scheduler=scheduler)
    if known in (scheduler, "both"):
        trainer(**options).fit(made, loader)
        return
    with pytest.raises(ValueError, match=f"scheduler '{scheduler}' must know how long .* max_epochs or max_steps"):
        trainer(**options).fit(made, loader)


def test_a_schedule_counts_updates_of_changing_size():
    rates, changing = Watch(), GradientAccumulationScheduler({0: 1, 1: 2})
    loader = DataLoader(TensorDataset(*images()), batch_size=8)
    trainer(rates, changing, max_epochs=2).fit(module(scheduler="one-cycle", lr=0.1), loader)
    assert rates.rates == pytest.approx(one_cycle(5 + 3))
    with pytest.raises(ValueError, match="GradientAccumulationScheduler must not be a callback here"):
        fitted(module(), max_epochs=1, callbacks=[changing])


def test_randomness_depends_on_seed_epoch_batch_and_nothing_else():
    def drawn(**options):
        own, seen = torch.Generator().manual_seed(1), []

        def spikes(x):
            sequence = torch.cat([encode.poisson(x, 2), encode.poisson(x, 2, generator=own)])
            seen.append(hash(sequence.numpy().tobytes()))
            return sequence

        made = module(encoder=spikes, **options)
        torch.rand(int(torch.seed() % 7))
        own.seed()
        fitted(made, samples=32, batch_size=8, max_epochs=2)
        return seen

    first = drawn()
    assert drawn() == first and len(set(first)) == 8  # another draw in each batch of each epoch
    assert not set(first) & set(drawn(seed=1))


def test_augmentation_is_for_training_alone():
    seen = []

    def augment(x):
        seen.append((x.dtype, float(x.max())))
        return x

    fitted(module(augment=augment), validation=images(8))
    assert len(seen) == 3 and all(dtype == torch.float32 and 0.5 < top <= 1 for dtype, top in seen)


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "64-true"])
def test_number_formats(precision):
    kinds = []

    def criterion(out, labels):
        assert not torch.is_autocast_enabled("cpu")
        kinds.append(out.dtype)
        return loss.count_cross_entropy(out, labels)

    # Lightning refuses to clip before a fused optimizer in mixed precision.
    watch = fitted(module(loss=criterion), validation=images(8), precision=precision, gradient_clip_val=1.0)
    assert set(kinds) == {torch.float64 if precision == "64-true" else torch.float32}
    assert 0 < watch.epochs[0]["train/loss"] < 10


def test_channels_last():
    made = module(models.ConvNet(size=8, widths=(4, 8, 8), engine="eager"), channels_last=True)
    assert made.model[0].weight.is_contiguous(memory_format=torch.channels_last)
    seen = []
    made.encoder = lambda x: seen.append(x.is_contiguous(memory_format=torch.channels_last)) or encode.repeat(x, 3)
    fitted(made)
    assert seen == [True] * 3


def test_a_loss_that_is_not_finite_stops_before_anything_is_learned():
    calls = []

    def criterion(out, labels):
        calls.append(0)
        return loss.count_cross_entropy(out, labels) * (float("inf") if len(calls) == 2 else 1.0)

    made = module(loss=criterion)
    with pytest.raises(FloatingPointError, match=r"the loss is inf in epoch 1, batch 2 of 3.*lr \(it is 0.005\)"):
        fitted(made)
    once = module()
    trainer(limit_train_batches=1).fit(once, lit.TensorDataModule(images(), global_batch_size=16))
    assert torch.equal(weights(made), weights(once))


def test_weights_that_are_not_finite_are_not_saved(tmp_path):
    made = module()
    run = trainer(enable_checkpointing=True, default_root_dir=tmp_path)
    run.fit(made, lit.TensorDataModule(images(8), global_batch_size=8))
    with torch.no_grad():
        made.model[1].weight[0, 0] = float("nan")
    with pytest.raises(FloatingPointError, match="hold NaN or infinity"):
        run.save_checkpoint(tmp_path / "bad.ckpt")
    assert not (tmp_path / "bad.ckpt").exists()


class Normed(torch.nn.Module):
    """Normalises each step by itself, and draws a number."""

    def __init__(self, norm=torch.nn.BatchNorm1d):
        super().__init__()
        self.norm, self.out = norm(64), torch.nn.Linear(64, 10)

    def forward(self, x, state=None):
        return torch.stack([self.out(self.norm(step.flatten(1)) + torch.rand(())) for step in x]), state


@pytest.mark.parametrize(
    ("samples", "batch_size", "options", "says"),
    [
        (9, 4, {}, "a batch has a single sample, and batch norm norm of model .* another batch size than 4"),
        (4, 1, {}, "a batch has a single sample"),
        (9, 4, {"limit_train_batches": 2}, None),
        (8, 4, {}, None),
    ],
)
def test_a_batch_of_one_is_told_before_training(samples, batch_size, options, says):
    made = module(Normed())
    if says is None:
        fitted(made, batch_size, samples=samples, **options)
        return
    before = [tensor.clone() for tensor in made.state_dict().values()]
    with pytest.raises(ValueError, match=says):
        fitted(made, batch_size, samples=samples, **options)
    assert all(map(torch.equal, before, made.state_dict().values()))
    with pytest.raises(ValueError, match=r"batch norm of model can't train on a batch of 1: .*drop_last=True"):
        trainer().fit(made, DataLoader(TensorDataset(*images(samples)), batch_size=batch_size))


def test_without_lightning_the_error_says_what_to_install():
    code = "import sys; sys.modules['lightning'] = None; from snnkit.train import lit"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1 and 'pip install "snnkit[scale] @ git+' in done.stderr


def test_the_repeated_image_is_still_seen_once():
    """Lightning's path keeps what makes static input fast: the first layer works once, not T times."""
    calls = []
    network = models.mlp((64, 16, 10), engine="eager")
    network[1].register_forward_hook(lambda layer, args, out: calls.append(tuple(args[0].shape)))
    made = lit.SpikingModule(network, encoder=functools.partial(encode.repeat, steps=9), loss="count_cross_entropy")
    digits = lit.DigitsDataModule(global_batch_size=32, samples=64)
    trainer(limit_val_batches=0).fit(made, digits)
    assert set(calls) == {(32, 64)}


def whole():
    return lit.TensorDataModule(images(), images(22, seed=1), global_batch_size=16)


def test_the_recorder_has_what_a_rank_computes_and_when():
    made, recorder = module(), lit.RankRecorder()
    trainer(recorder).fit(made, whole())
    seen = recorder.seen()
    assert len(seen["weights"]) == len(seen["losses"]) == len(seen["labels"]) == len(seen["spans"])
    assert [what for what, _, _ in seen["spans"][0]] == ["forward", "backward", "optimizer"]
    assert all(start <= end for spans in seen["spans"] for _, start, end in spans)
    assert torch.equal(seen["weights"][-1], weights(made)) and seen["gradient"].shape == weights(made).shape


def test_the_history_counts_training_alone(monkeypatch):
    class Clock(Callback):
        """A second for each batch, a minute for validation."""

        now = 0.0

        def on_train_batch_end(self, *arguments):
            Clock.now += 1.0

        def on_validation_batch_end(self, *arguments):
            Clock.now += 60.0

    monkeypatch.setattr(time, "perf_counter", lambda: Clock.now)
    made, metrics = lit.HistoryCallback(), Watch()
    trainer(Clock(), made, metrics, max_epochs=2).fit(module(), whole())
    history = made.history
    assert history.seconds == [3.0, 3.0] and history.samples_per_second == pytest.approx([40 / 3] * 2)
    for name, key in (("train_loss", "train/loss"), ("test_accuracy", "val/acc"), ("output_rate", "train/rate")):
        assert getattr(history, name) == [epoch[key] for epoch in metrics.epochs]
    loader = torch.utils.data.DataLoader([(torch.rand(64), n % 10) for n in range(25)], batch_size=10)
    trainer(Clock(), made := lit.HistoryCallback(), max_epochs=2).fit(module(), loader)  # which knows no labels
    assert made.history.samples_per_second == pytest.approx([25 / 3] * 2)


@pytest.fixture
def shown(monkeypatch):
    figures = []
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    monkeypatch.setattr("snnkit.lab.viz.live.renderers.show", figures.append)
    return figures


def test_the_panel_draws_what_is_logged(shown):
    panel, metrics = viz.NotebookPanel(), Watch()
    trainer(panel, metrics, max_epochs=3).fit(module(), whole())
    assert {name: len(values) for name, values in panel.series.items()} == dict.fromkeys(
        ["train_loss", "test_loss", "train_accuracy", "test_accuracy", "output_rate"], 3
    )
    assert panel.series["train_loss"] == pytest.approx([epoch["train/loss"] for epoch in metrics.epochs])
    assert panel.series["test_accuracy"] == pytest.approx([epoch["val/acc"] for epoch in metrics.epochs])
    (figure,) = shown  # once, at the end, where nobody looks
    # A run as short as this may be looked at too rarely for lines of single updates.
    assert {trace.name for trace in figure.data} - {"single updates"} == {"train", "test", "output"}
    assert "epoch 3 of 3" in figure.layout.title.text


def test_the_panel_knows_how_many_epochs_updates_take(shown):
    panel = viz.NotebookPanel()
    trainer(panel, max_epochs=-1, max_steps=8).fit(module(), whole())  # of three updates each
    assert panel._panel._announced == 3


def test_the_button_of_the_panel_stops_the_trainer_gracefully(shown):
    class Press(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            if trainer.current_epoch == 1:
                panel._panel._stop.request()

    panel = viz.NotebookPanel()
    training = trainer(panel, Press(), max_epochs=5)
    training.fit(module(), whole())
    assert training.should_stop and training.current_epoch == 2 and panel._panel.stopped
    assert len(shown) == 1


def test_regression_logs_what_is_measured_and_no_accuracy(shown):
    x = torch.rand(40, 6, generator=torch.Generator().manual_seed(0))
    targets = x.sum(1, keepdim=True)

    def error(out, targets):
        return (out.mean(0) - targets).abs().mean()

    def squared(out, targets):
        return (out.mean(0) - targets).square().mean()

    watch, told = Watch(), lit.HistoryCallback()
    torch.manual_seed(0)
    network = nn.Sequential(torch.nn.Linear(6, 8), neuron.LIF(), torch.nn.Linear(8, 1))
    made = lit.SpikingModule(network, steps=4, loss=squared, metric=error, lr=0.01)
    whole = lit.TensorDataModule((x, targets), (x, targets), global_batch_size=16)
    trainer(watch, told, viz.NotebookPanel(), max_epochs=2).fit(made, whole)
    names = {name for name in watch.epochs[0] if "acc" not in name}
    assert names == set(watch.epochs[0]) and {"train/error", "val/error"} <= names
    see = functools.partial(encode.repeat, steps=4)
    expected = train.evaluate(network, (x, targets), encode=see, loss=squared, metric=error, device="cpu")
    assert watch.epochs[-1]["val/error"] == pytest.approx(expected["error"], rel=1e-5)
    assert told.history.metric == "error" and len(told.history.train_metric) == 2 == len(told.history.test_metric)
    plain = lit.SpikingModule(network, steps=4, loss=squared)
    trainer(watch).fit(plain, whole)
    assert not any("acc" in name or "error" in name for name in watch.epochs[-1])


def test_a_regulariser_is_minimised_logged_and_in_the_history():
    def rates(rec):
        return loss.spike_rate_regulariser([rec.spikes["2"]], target=0.9, weight=3.0)

    made, history = module(regulariser=rates), lit.HistoryCallback()
    watch = fitted(made, callbacks=[history], max_epochs=2)
    plain = net()
    optimizer = torch.optim.Adam(plain.parameters(), lr=5e-3)
    expected = []
    for epoch in range(2):
        order = lit.SharedBatches(*images(), 16)
        order.set_epoch(epoch)
        for batch in order:
            with nn.recording(plain) as rec:
                out, _ = plain(encode.repeat(data.to_unit(batch.samples), 4))
            penalty = rates(rec)
            optimizer.zero_grad()
            (loss.count_cross_entropy(out, batch.labels) + penalty).backward()
            optimizer.step()
            expected.append(float(penalty) * len(batch.labels) / 40)
    torch.testing.assert_close(weights(made), torch.cat([p.flatten() for p in plain.parameters()]), rtol=0, atol=1e-6)
    assert history.history.regulariser == pytest.approx([sum(expected[:3]), sum(expected[3:])], rel=1e-4)
    assert watch.epochs[0]["train/regulariser"] == pytest.approx(sum(expected[:3]), rel=1e-4)
    with pytest.raises(ValueError, match="compile must be False with a regulariser"):
        module(regulariser=rates, compile=True)


def test_targets_per_time_step_and_metrics_of_torchmetrics():
    torchmetrics = pytest.importorskip("torchmetrics")
    sequences = torch.rand(20, 5, 6, generator=torch.Generator().manual_seed(0))
    targets = sequences.sum(2, keepdim=True)
    torch.manual_seed(0)
    network = nn.Sequential(torch.nn.Linear(6, 1))
    metric = torchmetrics.MeanSquaredError()
    made = lit.SpikingModule(network, encoder=None, loss=torch.nn.functional.mse_loss, metric=metric, lr=1e-9)
    watch = Watch()
    trainer(watch).fit(made, DataLoader(TensorDataset(sequences, targets), 8))
    out, _ = network(sequences.transpose(0, 1))
    error = (out - targets.transpose(0, 1)).square().mean().item()
    assert watch.epochs[0]["train/MeanSquaredError"] == pytest.approx(error, rel=1e-4)
    assert watch.epochs[0]["train/loss"] == pytest.approx(error, rel=1e-4)


@pytest.mark.parametrize(
    ("batch", "words"),
    [
        ({"x": 1}, "batch must be a pair"),
        ((torch.rand(3, 6), torch.rand(2, 1)), "a batch must have one target for each sample"),
        ((torch.rand(3, 6), "cat"), "targets of a batch must be a tensor or array"),
    ],
)
def test_a_batch_that_is_no_pair_is_named(batch, words):
    with pytest.raises((TypeError, ValueError), match=words):
        module().predict_step(batch, 0)
