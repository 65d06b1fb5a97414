"""The live panel: what it shows where, when it draws, and how it is stopped."""

import pytest
import torch

from snnkit import models
from snnkit.viz import LivePanel
from snnkit.viz.live import panel as panel_module
from snnkit.viz.live.pace import Pace

from .live_updates import Clock, history, run, update


class Face:
    """Writes down what it is told."""

    draws, extends = True, False

    def __init__(self):
        self.standings, self.epochs, self.figures, self.extensions, self.ends = [], [], [], [], []

    def moved(self, standing):
        self.standings.append(standing)

    def epoch(self, series):
        self.epochs.append(len(series["train_loss"]))

    def draw(self, figure):
        self.figures.append(figure)

    def extend(self, curves):
        self.extensions.append(curves)

    def end(self, message, figure):
        self.ends.append((message, figure))


@pytest.fixture
def faces(monkeypatch):
    """Panels draw on these, as often as they like."""
    made = []

    def opened(self, each_update):
        made.append(Face())
        made[-1].each_update = each_update
        return made[-1]

    monkeypatch.setattr(LivePanel, "_open", opened)
    monkeypatch.setattr(panel_module, "LOOKS", (0.0, 1e9))
    monkeypatch.setattr(panel_module, "EXTENSIONS", (0.0, 1e9))
    monkeypatch.setattr(panel_module, "DRAWINGS", (0.0, 1e9))
    return made


@pytest.mark.parametrize(("extends", "seconds"), [(True, 1.0), (False, 8.0)])
def test_what_opening_has_drawn_is_not_drawn_again_at_once(faces, monkeypatch, extends, seconds):
    """Where each drawing is a picture of its own, a run of a few seconds has none but the first and the last."""
    clock = Clock()
    monkeypatch.setattr(panel_module, "Pace", lambda *pace: Pace(*pace, clock))
    monkeypatch.setattr(panel_module, "DRAWINGS", (1.0, 1.0))
    monkeypatch.setattr(Face, "extends", extends)
    panel = LivePanel(9)
    panel.on_batch(update(0, 0))
    for epoch, at in enumerate([seconds - 0.1, seconds + 0.1], start=1):
        clock.now = 100 + at
        panel.record(vars(history(epoch)) | {"test_loss": [0.5] * epoch})
        assert len(faces[0].figures) == (at > seconds)


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
    assert "loss 0.500, accuracy 50.0 %, output rate 0.100" in out[1]
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


def test_every_update_moves_the_panel_and_every_epoch_is_told(faces):
    panel = LivePanel(2)
    run(panel)
    (face,) = faces
    assert face.each_update
    assert [(at.epoch, at.update) for at in face.standings] == [(e, u) for e in (1, 2) for u in (1, 2, 3, 4)]
    assert face.standings[0].loss == 0.5 and face.standings[0].accuracy == 0.25
    assert face.epochs == [1, 2]
    ((message, figure),) = face.ends  # the last epoch ends it, and only once
    assert message.startswith("Done: 2 epochs in ") and "epoch 2 of 2" in figure.layout.title.text
    assert len(face.figures) == 3 + 1 + 4  # at each update but the first, and after the first epoch
    assert {len(t.x) for t in face.figures[-1].data if t.name == "single updates"} == {8}


def test_where_lines_can_be_extended_they_grow_in_the_figure_it_opened_with(faces, monkeypatch):
    monkeypatch.setattr(Face, "extends", True)
    run(LivePanel(3), epochs=3)
    (face,) = faces
    assert face.figures == [] and face.ends[0][1] is not None
    assert [len(curves.lines["loss"][0]) for curves in face.extensions] == [2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 10, 11, 12]
    done = [len(curves.lines["Loss: train"][0]) for curves in face.extensions if curves.title.startswith("Training: ")]
    assert done == [1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2]  # of the first, nothing is known before it ends


@pytest.mark.parametrize("extends", [True, False])
def test_other_lines_and_longer_axes_need_a_new_figure(faces, monkeypatch, extends):
    monkeypatch.setattr(Face, "extends", extends)
    panel = LivePanel(30)
    for done in range(1, 13):
        panel.record(vars(history(done)) | ({"test_loss": [0.5] * done} if done > 3 else {}))
    drawn = [len(figure.data[0].x) for figure in faces[0].figures]
    assert drawn == ([4, 11] if extends else list(range(1, 13)))


def test_a_slow_machine_shows_each_epoch_while_the_next_one_runs(faces, monkeypatch):
    """A figure takes 2 s, longer lines a quarter of one; epochs, half a minute."""
    clock = Clock()
    monkeypatch.undo()
    monkeypatch.setattr(panel_module, "Pace", lambda *pace: Pace(*pace, clock))
    shown = []

    class Slow(Face):
        extends = True

        def draw(self, figure):
            clock.now += 2.0
            shown.append((clock.now, len(figure.data[0].x), 2.0))

        def extend(self, curves):
            clock.now += 0.25
            shown.append((clock.now, len(curves.lines["Loss: train"][0]), 0.25))

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


def test_between_looks_an_update_is_not_read(faces, monkeypatch):
    monkeypatch.setattr(panel_module, "LOOKS", (1000.0, 1.0))
    panel = LivePanel(2)
    updates = [update(0, batch, 50) for batch in range(50)]
    for one in updates:
        panel.on_batch(one)
    read = [i for i, one in enumerate(updates) if "_read" in vars(one)]
    assert read == [0, 1]  # the one it opened with, and the first look after that


def test_a_loss_alone_is_enough(faces):
    panel = LivePanel(1)
    panel.on_batch(update(0, 0, figures=(0.5, float("nan"), float("nan"))))
    panel.on_batch(update(0, 1, figures=(0.25, float("nan"), float("nan"))))
    assert faces[0].standings[-1].accuracy is None
    assert [len(trace.x) for trace in faces[0].figures[-1].data if trace.name == "single updates"] == [2]


def test_pressing_the_button_ends_the_run_once(faces):
    panel = LivePanel(3)
    panel.on_batch(update(0, 0))
    panel._stop.ask()
    with pytest.raises(KeyboardInterrupt, match="button"):
        panel.on_batch(update(0, 1))
    (face,) = faces
    assert panel.stopped
    ((message, figure),) = face.ends
    assert message.startswith("Stopped in epoch 1 of 3, after update 2 of 4.") and figure is not None
    panel._stop.ask()  # again: there is no run
    panel.finish()
    assert len(face.ends) == 1
    run(panel, epochs=3)  # nor does it stop the next one
    assert len(faces) == 2 and faces[1].ends[0][0].startswith("Done") and not panel.stopped


def test_the_button_acts_after_an_epoch_where_updates_are_not_told(faces):
    panel = LivePanel(3)
    panel(history(1))
    assert not faces[0].each_update
    panel._stop.ask()
    with pytest.raises(KeyboardInterrupt):
        panel(history(2))
    assert faces[0].ends[0][0].startswith("Stopped after epoch 2 of 3.")


def test_pressing_in_the_last_epoch_takes_nothing_away(faces):
    panel = LivePanel(2)
    panel(history(1))
    panel._stop.ask()
    panel._face.epoch = lambda series: None
    panel.record(history(2))
    assert faces[0].ends[0][0].startswith("Done") and not panel.stopped


@pytest.mark.parametrize("updates", [True, False])
def test_epochs_beyond_those_announced_share_one_face(faces, updates):
    panel = LivePanel(2)

    def train(epochs):
        for epoch in range(epochs):
            for batch in range(2 * updates):
                panel.on_batch(update(epoch, batch, 2))
            panel(history(epoch + 1))
        panel.finish()  # as fit does, which knows

    train(5)
    assert [face.epochs for face in faces] == [[1, 2], [3, 4, 5]]
    (first, _), (last, figure) = (face.ends[0] for face in faces)
    assert first.startswith("Done: 2 epochs in") and last.startswith("Done: 5 epochs in")
    assert len(figure.data[0].x) == 5 and "epoch 5 of 5" in figure.layout.title.text
    assert all((at.epoch, at.epochs) in [(3, 3), (4, 4), (5, 5)] for at in faces[1].standings)
    train(5)  # the panel has learned how many there are
    assert len(faces) == 3 and faces[2].epochs == [1, 2, 3, 4, 5] and len(faces[2].ends) == 1


def test_a_second_run_begins_anew(faces):
    panel = LivePanel(2)
    for batch in range(3):
        panel.on_batch(update(0, batch))
    panel.on_batch(update(0, 0))  # nobody said that the first was over
    assert len(faces) == 2 and faces[0].ends[0][0].startswith("Ended early")
    (trace, *_) = [trace for trace in panel.figure.data if trace.name == "single updates"]
    assert len(trace.x) == 1


def test_bad_arguments():
    for epochs in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="total_epochs"):
            LivePanel(epochs)
    with pytest.raises(ValueError, match="belong together"):
        LivePanel(1, layers={"hidden": 1})
    panel = LivePanel(1, layers={"hidden": 9}, probe=torch.ones(2, 1, 4))
    with pytest.raises(ValueError, match=r"layers\['hidden'\]"):
        panel(history(1), models.mlp((4, 8, 2), engine="eager"))
    with pytest.raises(ValueError, match="at least one epoch"):
        LivePanel(1)(history(0))
