"""The live panel: what it shows where, when it draws, and how it is stopped."""

import types

import numpy as np
import pytest
import torch

from snnkit import models, train
from snnkit.lab.viz import LivePanel
from snnkit.lab.viz.live import panel as panel_module
from snnkit.lab.viz.live.curves import Throttle, training_curves
from snnkit.lab.viz.live.renderers import Renderer
from snnkit.tables import count_of, duration_of, size_of
from snnkit.train import BatchInfo
from snnkit.train.history import History


def update(epoch, batch, batches=4, samples=10, figures=(0.5, 0.25, 0.125)):
    return BatchInfo(epoch, batch, batches, samples, torch.tensor(figures), torch.zeros(1))


def history(epochs):
    done = [1.0 / (i + 1) for i in range(epochs)]
    return History(train_loss=done, train_accuracy=[0.5] * epochs, output_rate=[0.1] * epochs)


def run(panel, epochs=2, batches=4):
    """What fit does with a panel whose button is not pressed."""
    try:
        for epoch in range(epochs):
            for batch in range(batches):
                panel.on_batch(update(epoch, batch, batches))
            panel(history(epoch + 1))
    except KeyboardInterrupt as stop:  # which would end pytest
        raise AssertionError("the panel stops a run without a press") from stop
    panel.finish()


class Recorder(Renderer):
    """Records its calls."""

    def __init__(self):
        self.words, self.epochs, self.figures, self.ends = [], [], [], []

    def update(self, share, words):
        self.words.append(words)

    def epoch(self, series, epochs):
        self.epochs.append(len(series["train_loss"]))

    def draw(self, figure):
        self.figures.append(figure)

    def end(self, message, figure):
        self.ends.append((message, figure))


@pytest.fixture
def renderers(monkeypatch):
    """Panels draw on these, as often as they like."""
    made = []

    def opened(each_update):
        made.append(Recorder())
        made[-1].each_update = each_update
        return made[-1]

    monkeypatch.setattr(panel_module, "TextRenderer", opened)
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
    assert "loss 0.5 · accuracy 0.5 · output rate 0.1" in out[1]
    assert "\x1b" not in "".join(out)


def test_layers_are_measured_on_the_probe():
    model = models.mlp((4, 8, 2), engine="eager").train()
    model[0].eval()  # as a frozen batch norm
    probe = torch.ones(5, 3, 4)
    panel = LivePanel(3, layers={"hidden": 1, "output": -1}, probe=probe)
    panel(history(1), model)
    panel(history(2), model)
    with torch.no_grad():
        layers = model.record(probe).layers
    assert panel.rates["hidden"] == pytest.approx([float(layers[1].mean())] * 2)
    assert model.training and not model[0].training
    assert {"hidden", "output"} <= {trace.name for trace in panel.figure.data}


def test_rates_stay_with_their_epochs():
    model = models.mlp((4, 8, 2), engine="eager")
    panel = LivePanel(9, layers={"hidden": 1}, probe=torch.ones(5, 3, 4))
    panel(history(3), model)  # goes on from a checkpoint
    assert np.isnan(panel.rates["hidden"][:2]).all() and len(panel.rates["hidden"]) == 3
    panel(history(4), model)
    assert len(panel.rates["hidden"]) == 4
    panel(history(1), model)  # another run
    assert len(panel.rates["hidden"]) == 1


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


PROBE = torch.zeros(4, 2, 3)


def test_bad_models():
    with pytest.raises(ValueError, match="layers and probe must be given together"):
        LivePanel(1, {"hidden": 1})
    with pytest.raises(TypeError, match=r"model must be an nn\.Sequential of snnkit"):
        LivePanel(2, {"hidden": 0}, PROBE)({"train_loss": [1.0]}, torch.nn.Sequential(torch.nn.Linear(3, 2)))
    panel = LivePanel(1, layers={"hidden": 9}, probe=torch.ones(2, 1, 4))
    with pytest.raises(ValueError, match=r"layers\['hidden'\] must be at most 4, but it is 9"):
        panel(history(1), models.mlp((4, 8, 2), engine="eager"))


def test_every_update_moves_the_panel_and_every_epoch_is_reported(renderers):
    panel = LivePanel(2)
    run(panel)
    (shown,) = renderers
    assert shown.each_update
    assert [words.split(" · ")[:3] for words in shown.words] == [
        [f"epoch {e} of 2", f"update {u} of 4", "loss 0.500"] for e in (1, 2) for u in (1, 2, 3, 4)
    ]
    assert shown.epochs == [1, 2] and len(shown.figures) >= 7
    ((message, figure),) = shown.ends  # the last epoch ends it, and only once
    assert message.startswith("Done: 2 epochs in ") and "epoch 2 of 2" in figure.layout.title.text
    run(panel)  # a second run starts afresh
    assert len(renderers) == 2 and len(renderers[1].words) == 8


def test_drawing_takes_its_share_of_the_time():
    now, drawn = [100.0], []
    throttle = Throttle(0.5, 0.01, lambda: now[0])
    for _ in range(2000):
        now[0] += 1.0
        if throttle.due():
            with throttle:
                now[0] += 2.0  # a figure on a slow machine
            drawn.append(now[0])
    assert len(drawn) > 5 and 2.0 * len(drawn) < 0.011 * (now[0] - 100)


def test_between_readings_an_update_is_not_read(renderers, monkeypatch):
    monkeypatch.setattr(panel_module, "READINGS", (1000.0, 1.0))
    panel = LivePanel(2)
    for batch in range(50):
        panel.on_batch(update(0, batch, 50))
    assert len(renderers[0].words) == 2  # the first two


def test_curves_take_what_is_known():
    figure = training_curves(vars(History(train_loss=[1.0], train_accuracy=[0.25], output_rate=[0.1])), 7)
    assert [t.name for t in figure.data] == ["train", "train", "output"]
    assert figure.data[1].y[0] == 25 and figure.layout.xaxis.range[1] > 7
    rates = {"train_loss": [1.0, None], "rates": {"hidden": [0.1], "out": [0.2]}}
    figure = training_curves(rates, 2, updates=[(0.5, 2.0, float("nan"), float("nan"))])
    assert [t.name for t in figure.data] == ["single updates", "train", "single updates", "hidden", "out"]
    assert np.isnan(figure.data[1].y[1])
    assert training_curves({"train_loss": []}, 3) is None
    rate, membrane = (training_curves({"output_rate": [0.1, end]}, 2) for end in (0.2, -0.2))
    assert [note.text for note in rate.layout.annotations] == ["Mean output per step"]
    assert [note.text for note in membrane.layout.annotations] == ["Mean membrane of the output"]  # no rate is below 0
    words = {
        8: "8 s",
        125: "2 min 05 s",
        4800: "1 h 20 min",
        59.7: "1 min 00 s",
        419.6: "7 min 00 s",
        3599.5: "1 h 00 min",
    }
    assert {seconds: duration_of(seconds) for seconds in words} == words
    assert [duration_of(seconds, 1) for seconds in (0.04, 59.44, 59.97)] == ["0.0 s", "59.4 s", "1 min 00 s"]
    assert [size_of(count) for count in (999, 999_960, 1e6, -2e9)] == ["999 B", "1.0 MB", "1.0 MB", "−2.0 GB"]
    counts = [count_of(*one) for one in ((0, "epoch"), (1, "epoch"), (2, "process"), (12_345, "spike"))]
    assert counts == ["0 epochs", "1 epoch", "2 processes", "12,345 spikes"]


# ---- the forms of the panel


class Display:
    """In place of IPython's: what was displayed, and what each display shows now."""

    def __init__(self):
        self.first, self.now = [], []

    def __call__(self, shown, display_id):
        assert display_id
        place = len(self.now)
        self.first.append(shown)
        self.now.append(shown)
        return types.SimpleNamespace(update=lambda data, raw: self.now.__setitem__(place, data))


@pytest.fixture
def display(monkeypatch):
    pytest.importorskip("ipywidgets")
    shown = Display()
    monkeypatch.setattr(pytest.importorskip("IPython.display"), "display", shown)
    monkeypatch.setattr("snnkit.lab.viz.live.panel.live", lambda: True)
    return shown


def parts(display):
    controls, view = display.first
    row, text = controls.children
    bar, button = row.children
    return types.SimpleNamespace(bar=bar, button=button, text=text, view=view.children[0] if view.children else None)


@pytest.mark.parametrize("colab", [False, True])
def test_a_live_panel_is_displayed_once_and_updated_in_place(colab, display, monkeypatch):
    monkeypatch.setattr("snnkit.lab.viz.display.on_colab", lambda: colab)
    panel = LivePanel(2)
    panel(history(1))
    view = parts(display).view
    before = view.value if colab else view.outputs
    panel(history(2))
    panel.finish()
    assert len(display.first) == 2 and parts(display).view is view
    assert (view.value if colab else view.outputs) != before


def test_a_click_stops_fit_and_the_page_keeps_message_and_figure(display):
    panel = LivePanel(50)
    clicks = []

    def on_batch(info):
        panel.on_batch(info)
        if info.epoch == 1:  # a person, in the middle of the second epoch
            clicks.append(info.batch)
            parts(display).button.click()

    history = fit(epochs=50, on_epoch=panel, on_batch=on_batch)
    assert history.interrupted and history.epochs == 1 and clicks == [0]
    assert panel.stopped
    shown = parts(display)
    assert shown.button.disabled and "Stopped in epoch 2 of 50" in shown.text.value
    above, below = display.now
    assert "Stopped in epoch 2 of 50, after update 2 of 5." in above["text/plain"]
    assert 'role="status"' in above["text/html"] and "snnkit-alt" in above["text/html"]
    assert {"application/vnd.plotly.v1+json", "image/png"} <= set(below)


def test_on_colab_the_picture_stays(display, monkeypatch):
    monkeypatch.setenv("COLAB_RELEASE_TAG", "test")
    panel = LivePanel(1)
    panel(history(1))
    assert "image/png" in parts(display).view.value or "img" in parts(display).view.value
    assert display.now[1] is display.first[1] and "Done" in display.now[0]["text/plain"]
    assert parts(display).button.disabled


def fit(**options):
    images = torch.rand(50, 4, generator=torch.Generator().manual_seed(0))
    return train.fit(
        models.mlp((4, 8, 2), engine="eager"),
        (images, (images.sum(1) > 2).long()),
        encode=lambda x: x.expand(3, *x.shape),
        loss=lambda out, labels: torch.nn.functional.cross_entropy(out.sum(0), labels),
        batch_size=10,
        device="cpu",
        seed=0,
        **options,
    )


def test_fit_says_that_a_run_is_over_that_was_cut_off(capsys):
    def power_cut(info):
        panel.on_batch(info)
        if info.epoch == 1:
            raise RuntimeError("cut")

    panel = LivePanel(3)
    with pytest.raises(RuntimeError, match="cut"):
        fit(epochs=3, on_epoch=panel, on_batch=power_cut)
    assert "Ended early in epoch 2 of 3, after update 1 of 5." in capsys.readouterr().out
