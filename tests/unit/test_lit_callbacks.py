"""Callbacks: firing rates and silent neurons, the history, the notebook's panel."""

import time
import types

import pytest
import torch
from lightning.pytorch import Callback

from snnkit import data, encode, viz
from snnkit.train import lit

from .lit_runs import images, module, net, trainer

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:lightning", "ignore::DeprecationWarning:lightning")


class Metrics(Callback):
    def __init__(self):
        self.epochs = []

    def on_train_epoch_end(self, trainer, pl_module):
        self.epochs.append({name: float(value) for name, value in trainer.callback_metrics.items()})


def whole(validation=True, **options):
    return lit.TensorDataModule(
        images(), images(22, seed=1) if validation else None, **{"global_batch_size": 16, **options}
    )


def rates_by_hand(network, samples, steps=4):
    """Rate and share of silent neurons of each layer."""
    with torch.no_grad():
        record = network.record(encode.repeat(data.to_unit(samples), steps))
    layers = {"2": record.layers[2], "4": record.layers[4]}
    return {name: (float(x.mean()), float((x.sum((0, 1)) == 0).float().mean())) for name, x in layers.items()}


# --- firing rates ----------------------------------------------------------------------------------------------------


def test_rates_are_those_of_the_validation_data():
    made = module(rates=True)
    metrics = Metrics()
    run = trainer(metrics, max_epochs=2, num_sanity_val_steps=2)
    run.fit(made, whole())
    (monitor,) = (c for c in run.callbacks if isinstance(c, lit.FiringRates))
    for name, (rate, dead) in rates_by_hand(made.model, images(22, seed=1)[0]).items():
        assert monitor.rates[name][-1] == pytest.approx(rate, rel=1e-5) and rate > 0
        assert monitor.dead[name][-1] == pytest.approx(dead)
        assert len(monitor.rates[name]) == 2  # the look before training does not count
        assert metrics.epochs[-1][f"rate/{name}"] == pytest.approx(rate, rel=1e-5)
        assert metrics.epochs[-1][f"dead/{name}"] == pytest.approx(dead)
    assert not any(layer._forward_hooks for layer in made.model.modules())


def test_a_sample_given_twice_is_counted_once():
    made, monitor = module(lr=1e-9), lit.FiringRates()
    monitor.on_validation_epoch_start(types.SimpleNamespace(sanity_checking=False), made)
    x = images()[0][:3]
    with torch.no_grad():
        for samples, weight in ((x, 1.0), (x[:1], 0.0)):
            monitor.on_validation_batch_start(None, made, lit.Batch(samples, torch.zeros(len(samples)), weight), 0)
            made(samples)
    assert {name: count.seen for name, count in monitor._counts.items()} == {"2": 12, "4": 12}


def test_it_warns_once_of_layers_that_are_silent():
    network = net()
    with torch.no_grad():
        network[1].weight.zero_()
        network[1].bias.fill_(-1.0)
    run = trainer(max_epochs=2)
    with pytest.warns(UserWarning) as caught:
        run.fit(module(network, rates=True, lr=1e-9), whole())
    messages = [str(w.message) for w in caught if "did not fire once" in str(w.message)]
    assert len([text for text in messages if "100% of the neurons of layer 2" in text]) == 1


def test_hooks_are_gone_after_an_error():
    made = module(rates=True)

    def failing(x):
        if not made.training:
            raise RuntimeError("no more")
        return encode.repeat(x, 4)

    made.encoder = failing
    with pytest.raises(RuntimeError, match="no more"):
        trainer().fit(made, whole())
    assert not any(layer._forward_hooks for layer in made.model.modules())


# --- history ---------------------------------------------------------------------------------------------------------


def test_the_history_counts_training_alone(monkeypatch):
    class Clock(Callback):
        """A second for each batch, a minute for validation."""

        now = 0.0

        def on_train_batch_end(self, *arguments):
            Clock.now += 1.0

        def on_validation_batch_end(self, *arguments):
            Clock.now += 60.0

    monkeypatch.setattr(time, "perf_counter", lambda: Clock.now)
    made, metrics = lit.HistoryCallback(), Metrics()
    trainer(Clock(), made, metrics, max_epochs=2).fit(module(), whole())
    history = made.history
    assert history.seconds == [3.0, 3.0] and history.samples_per_second == pytest.approx([40 / 3] * 2)
    for name, key in (("train_loss", "train/loss"), ("test_accuracy", "val/acc"), ("output_rate", "train/rate")):
        assert getattr(history, name) == [epoch[key] for epoch in metrics.epochs]


# --- what is shown ---------------------------------------------------------------------------------------------------


@pytest.fixture
def shown(monkeypatch):
    figures = []
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    monkeypatch.setattr("snnkit.viz.live.renderers.show", figures.append)
    return figures


def test_the_panel_draws_what_is_logged(shown):
    panel, metrics = viz.NotebookPanel(), Metrics()
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


def test_the_panel_shows_layers_where_they_are_listened_to(shown):
    trainer(viz.NotebookPanel(), max_epochs=2).fit(module(rates=True), whole())
    assert {"layer 2", "layer 4"} <= {trace.name for trace in shown[0].data}


def test_the_panel_of_a_run_that_ends_early(shown):
    class Stop(Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            if trainer.current_epoch == 1:
                raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        trainer(viz.NotebookPanel(), Stop(), max_epochs=5).fit(module(), whole())
    assert len(shown) == 1 and "epoch 2 of 5" in shown[0].layout.title.text


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
