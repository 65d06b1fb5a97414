"""The live panel: what it shows where, when it draws, and how it is stopped."""

import math

import pytest
import torch

from snnkit import models
from snnkit.viz import LivePanel
from snnkit.viz.live import panel as panel_module
from snnkit.viz.live.curves import Throttle
from snnkit.viz.live.renderers import Renderer

from .live_updates import Clock, history, run, update


class Recorder(Renderer):
    """Records its calls."""

    def __init__(self):
        self.words, self.epochs, self.curves, self.ends = [], [], [], []

    def update(self, progress, words):
        self.words.append(words)

    def epoch(self, series, epochs):
        self.epochs.append(len(series["train_loss"]))

    def draw(self, curves):
        self.curves.append(curves)

    def end(self, message, curves):
        self.ends.append((message, curves and curves.figure()))


@pytest.fixture
def renderers(monkeypatch):
    """Panels draw on these, as often as they like."""
    made = []

    def opened(self, each_update):
        made.append(Recorder())
        made[-1].each_update = each_update
        return made[-1]

    monkeypatch.setattr(LivePanel, "_open", opened)
    monkeypatch.setattr(panel_module, "READINGS", (0.0, 1e9))
    monkeypatch.setattr(panel_module, "DRAWINGS", (0.0, 1e9))
    return made


def test_a_headless_panel_shows_one_figure_at_the_end(capsys, monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    panel = LivePanel(2)
    panel(history(1), None)
    assert capsys.readouterr().out == ""
    panel(history(2), None)
    assert capsys.readouterr().out.count("epoch 2 of 2") == 1
    panel.finish()
    assert capsys.readouterr().out == ""


def test_without_a_terminal_there_is_a_line_for_each_epoch(capsys):
    panel = LivePanel(2)
    run(panel)
    out = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in out] == ["epoch 1 of 2", "epoch 2 of 2", "Done"]
    assert "loss 0.500 · accuracy 50.0 % · output rate 0.100" in out[1]
    assert "\x1b" not in "".join(out)


def test_a_run_that_is_cut_off_says_where(capsys):
    panel = LivePanel(5)
    panel.finish()
    assert capsys.readouterr().out == ""
    panel(history(2))
    panel.finish()
    assert "Ended early after epoch 2 of 5." in capsys.readouterr().out
    assert len(panel.figure.data[0].x) == 2
    panel.on_batch(update(2, 1))
    panel.finish()
    assert "Ended early in epoch 3 of 5, after update 2 of 4." in capsys.readouterr().out
    assert not panel.stopped


def test_layers_are_measured_on_the_probe():
    model = models.mlp((4, 8, 2), engine="eager").train()
    probe = torch.ones(5, 3, 4)
    panel = LivePanel(3, layers={"hidden": 1, "output": -1}, probe=probe)
    panel(history(1), model)
    panel(history(2), model)
    with torch.no_grad():
        layers = model.record(probe).layers
    assert panel.rates["hidden"] == pytest.approx([float(layers[1].mean())] * 2)
    assert model.training
    assert {"hidden", "output"} <= {trace.name for trace in panel.figure.data}


def test_rates_stay_with_their_epochs():
    model = models.mlp((4, 8, 2), engine="eager")
    panel = LivePanel(9, layers={"hidden": 1}, probe=torch.ones(5, 3, 4))
    panel(history(3), model)  # goes on from a checkpoint
    assert panel.rates["hidden"][:2] == [None, None] and len(panel.rates["hidden"]) == 3
    panel(history(4), model)
    assert len(panel.rates["hidden"]) == 4
    panel(history(1), model)  # another run
    assert len(panel.rates["hidden"]) == 1


def test_every_update_moves_the_panel_and_every_epoch_is_reported(renderers):
    panel = LivePanel(2)
    run(panel)
    (shown,) = renderers
    assert shown.each_update
    assert [words.split(" · ")[:3] for words in shown.words] == [
        [f"epoch {e} of 2", f"update {u} of 4", "loss 0.500"] for e in (1, 2) for u in (1, 2, 3, 4)
    ]
    assert shown.epochs == [1, 2]
    ((message, figure),) = shown.ends  # the last epoch ends it, and only once
    assert message.startswith("Done: 2 epochs in ") and "epoch 2 of 2" in figure.layout.title.text
    assert len(shown.curves) == 3 + 1 + 4  # at each update but the first, and after the first epoch
    assert [len(curves.lines["loss"][0]) for curves in shown.curves] == [2, 3, 4, 4, 5, 6, 7, 8]


def test_drawing_takes_a_fiftieth_of_the_time_also_on_a_slow_machine(renderers, monkeypatch):
    """A figure takes 2 s, longer lines a quarter of one; epochs, half a minute."""
    clock = Clock()
    monkeypatch.undo()
    monkeypatch.setattr(panel_module, "Throttle", lambda *limits: Throttle(*limits, clock))
    shown = []

    class Slow(Recorder):
        last = None

        def draw(self, curves):
            cost = 0.25 if curves.extends(self.last) else 2.0
            self.last = curves
            clock.now += cost
            shown.append((clock.now, len(curves.lines.get("Loss: train", [[]])[0]), cost))

    monkeypatch.setattr(LivePanel, "_open", lambda self, each_update: Slow())
    panel = LivePanel(10)
    ended = {}
    for epoch in range(9):
        for batch in range(30):
            clock.now += 1.0
            panel.on_batch(update(epoch, batch, 30))
        panel(history(epoch + 1))
        ended[epoch + 1] = clock.now
    late = [min(at for at, done, _ in shown if done >= epoch) - ended[epoch] for epoch in range(2, 9)]
    assert max(late) < 40
    assert sum(seconds for *_, seconds in shown) < 0.02 * (clock.now - 100)


def test_between_readings_an_update_is_not_read(renderers, monkeypatch):
    monkeypatch.setattr(panel_module, "READINGS", (1000.0, 1.0))
    panel = LivePanel(2)
    updates = [update(0, batch, 50) for batch in range(50)]
    for one in updates:
        panel.on_batch(one)
    read = [i for i, one in enumerate(updates) if "_read" in vars(one)]
    assert read == [0, 1]  # the one it opened with, and the first after that


def test_a_loss_alone_is_enough(renderers):
    panel = LivePanel(1)
    panel.on_batch(update(0, 0, figures=(0.5, float("nan"), float("nan"))))
    panel.on_batch(update(0, 1, figures=(0.25, float("nan"), float("nan"))))
    assert "accuracy" not in renderers[0].words[-1]
    assert {name: len(x) for name, (x, _) in renderers[0].curves[-1].lines.items() if name == "loss"} == {"loss": 2}


def test_pressing_the_button_ends_the_run_once(renderers):
    panel = LivePanel(3)
    panel.on_batch(update(0, 0))
    panel._stop.request()
    with pytest.raises(KeyboardInterrupt, match="button"):
        panel.on_batch(update(0, 1))
    (shown,) = renderers
    assert panel.stopped
    ((message, figure),) = shown.ends
    assert message.startswith("Stopped in epoch 1 of 3, after update 2 of 4.") and figure is not None
    panel._stop.request()  # again: there is no run
    panel.finish()
    assert len(shown.ends) == 1
    run(panel, epochs=3)  # nor does it stop the next one
    assert len(renderers) == 2 and renderers[1].ends[0][0].startswith("Done") and not panel.stopped


def test_the_button_acts_after_an_epoch_where_updates_are_not_reported(renderers):
    panel = LivePanel(3)
    panel(history(1))
    assert not renderers[0].each_update
    panel._stop.request()
    with pytest.raises(KeyboardInterrupt):
        panel(history(2))
    assert renderers[0].ends[0][0].startswith("Stopped after epoch 2 of 3.")


def test_pressing_in_the_last_epoch_takes_nothing_away(renderers):
    panel = LivePanel(2)
    panel(history(1))
    panel._stop.request()
    panel._renderer.epoch = lambda series, epochs: None
    panel.record(history(2))
    assert renderers[0].ends[0][0].startswith("Done") and not panel.stopped


@pytest.mark.parametrize("updates", [True, False])
def test_epochs_beyond_those_announced_share_one_renderer(renderers, updates):
    panel = LivePanel(2)

    def train(epochs):
        for epoch in range(epochs):
            for batch in range(2 * updates):
                panel.on_batch(update(epoch, batch, 2))
            panel(history(epoch + 1))
        panel.finish()  # as fit does, which knows

    train(5)
    assert [shown.epochs for shown in renderers] == [[1, 2], [3, 4, 5]]
    (first, _), (last, figure) = (shown.ends[0] for shown in renderers)
    assert first.startswith("Done: 2 epochs in") and last.startswith("Done: 5 epochs in")
    assert len(figure.data[0].x) == 5 and "epoch 5 of 5" in figure.layout.title.text
    if updates:
        assert {words.split(" · ")[0] for words in renderers[1].words} == {f"epoch {e} of {e}" for e in (3, 4, 5)}
    train(5)  # the panel knows now how many there are
    assert len(renderers) == 3 and renderers[2].epochs == [1, 2, 3, 4, 5] and len(renderers[2].ends) == 1


def test_a_second_run_starts_afresh(renderers):
    panel = LivePanel(2)
    for batch in range(3):
        panel.on_batch(update(0, batch))
    panel.on_batch(update(0, 0))  # without a word that the first was over
    assert len(renderers) == 2 and renderers[0].ends[0][0].startswith("Ended early")
    (trace, *_) = [trace for trace in panel.figure.data if trace.name == "single updates"]
    assert len(trace.x) == 1


PROBE = torch.zeros(4, 2, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0,), ValueError, "total_epochs must be at least 1, but it is 0"),
        ((1.5,), TypeError, "total_epochs must be an integer"),
        ((True,), TypeError, "total_epochs must be an integer, but it is True"),
        ((1, {"hidden": 1}), ValueError, "layers and probe must be given together"),
        ((2, [1], PROBE), TypeError, "layers must be a dict of name to index"),
        ((2, {1: 1}, PROBE), TypeError, "each key of layers must be a name, but it is 1"),
        ((2, {"hidden": "1"}, PROBE), TypeError, r"layers\['hidden'\] must be an integer"),
        ((2, {"hidden": True}, PROBE), TypeError, r"layers\['hidden'\] must be an integer"),
        ((2, {"hidden": 1}, "x"), TypeError, "probe must be a tensor"),
        ((2, {"hidden": 1}, torch.zeros(3)), ValueError, r"probe must be .* but its shape is \[3\]"),
        ((2, {"hidden": 1}, torch.zeros(4, 0, 3)), ValueError, "probe must be"),
        ((2, {"hidden": 1}, PROBE.to("meta")), ValueError, "probe must hold numbers"),
    ],
)
def test_bad_arguments(arguments, error, message):
    with pytest.raises(error, match=message):
        LivePanel(*arguments)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        (None, TypeError, r"history must be a train\.History or a dict"),
        ([1.0], TypeError, r"history must be a train\.History or a dict"),
        ({"train_loss": []}, ValueError, "at least one epoch"),
        ({"train_loss": [1.0], "test_loss": 3.0}, TypeError, r"history\['test_loss'\] must be a list"),
        ({"train_loss": [1.0], "test_loss": None}, TypeError, r"history\['test_loss'\] must be a list"),
    ],
)
def test_bad_histories(values, error, message):
    with pytest.raises(error, match=message):
        LivePanel(2)(values)


def test_bad_models():
    with pytest.raises(TypeError, match=r"model must be an nn\.Sequential of snnkit"):
        LivePanel(2, {"hidden": 0}, PROBE)({"train_loss": [1.0]}, torch.nn.Sequential(torch.nn.Linear(3, 2)))
    panel = LivePanel(1, layers={"hidden": 9}, probe=torch.ones(2, 1, 4))
    with pytest.raises(ValueError, match=r"layers\['hidden'\] must be at most 4, but it is 9"):
        panel(history(1), models.mlp((4, 8, 2), engine="eager"))


@pytest.mark.parametrize("loss", [math.nan, math.inf, None])
def test_losses_that_are_no_numbers_are_drawn_as_gaps(loss, capsys):
    panel = LivePanel(1)
    panel({"train_loss": [loss]})
    assert panel.figure.layout.title.text == "Training: epoch 1 of 1"
    assert "Done: 1 epoch" in capsys.readouterr().out
