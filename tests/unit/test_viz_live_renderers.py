"""The forms of the live panel: widgets in a notebook, a bar and lines in a terminal."""

import io
import types

import pytest

from snnkit import models, train
from snnkit.viz import LivePanel
from snnkit.viz.live.curves import Progress
from snnkit.viz.live.renderers import TextRenderer

from .live_updates import Clock, history, update


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
    monkeypatch.setattr("snnkit.viz.live.panel.live", lambda: True)
    return shown


def parts(display):
    controls, view = display.first
    row, text = controls.children
    bar, button = row.children
    return types.SimpleNamespace(bar=bar, button=button, text=text, view=view.children[0])


@pytest.mark.parametrize("widgets", [True, False])
def test_a_live_panel_is_displayed_once_and_updated_in_place(widgets, display, monkeypatch):
    monkeypatch.setattr("snnkit.viz.views.figure_widgets_work", lambda: widgets)
    panel = LivePanel(2)
    panel(history(1))
    before = None if widgets else parts(display).view.value
    panel(history(2))
    panel.finish()
    assert len(display.first) == 2
    view = parts(display).view
    assert len(view.data[0].y) == 2 if widgets else view.value != before


def test_a_panel_shows_how_far_the_run_is(display):
    panel = LivePanel(2)
    panel.on_batch(update(0, 2))
    shown = parts(display)
    assert shown.bar.value == pytest.approx(3 / 8)
    assert "epoch 1 of 2 · update 3 of 4 · loss 0.500" in shown.text.value
    assert shown.button.description == "Stop training" and "update" in shown.button.tooltip


def test_lines_grow_within_an_epoch(display, monkeypatch):
    pytest.importorskip("anywidget")
    monkeypatch.setattr("snnkit.viz.live.panel.READINGS", (0.0, 1e9))
    monkeypatch.setattr("snnkit.viz.live.panel.DRAWINGS", (0.0, 1e9))
    panel = LivePanel(2)
    for batch, figures in enumerate([(0.5, 0.25, 0.125), (0.75, 0.5, 0.25)]):
        panel.on_batch(update(0, batch, figures=figures))
    drawn = [trace for trace in parts(display).view.data if trace.name == "single updates"]
    assert [list(trace.y) for trace in drawn] == [[0.5, 0.75], [25.0, 50.0], [0.125, 0.25]]
    assert list(drawn[0].x) == [0.25, 0.5]


def test_without_updates_the_panel_shows_epochs(display):
    panel = LivePanel(2)
    panel(history(1))
    shown = parts(display)
    assert "epoch 1 · loss 1.000" in shown.text.value and "after this epoch" in shown.button.tooltip


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
    import torch

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


def test_fit_has_no_bar_beside_a_panel(capsys):
    panel = LivePanel(1)
    fit(epochs=1, on_epoch=panel, on_batch=panel.on_batch)
    assert "training:" not in capsys.readouterr().err
    fit(epochs=1)
    assert "training:" in capsys.readouterr().err


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_has_a_bar_and_above_it_a_line_for_each_epoch(monkeypatch):
    file = Terminal()
    monkeypatch.setattr("sys.stderr", file)
    monkeypatch.setattr("sys.stdout", file)
    clock = Clock()
    progress = Progress(2, clock)
    renderer = TextRenderer(each_update=True)
    for batch in range(3):
        clock.now += 1
        progress.note(update(0, batch), begins=not batch)
        renderer.update(progress, progress.words(0.5, 0.75))
    renderer.epoch(history(1).to_dict(), 2)
    renderer.end("Stopped somewhere.", None)
    text = file.getvalue()
    assert (
        "38 %|" in text
        and "epoch 1 of 2 · update 3 of 4 · loss 0.500 · accuracy 75.0 % · 10 samples/s · 5 s left" in text
    )
    assert "Ctrl-C stops" in text and "epoch 1 of 2: loss 1.000 · accuracy 50.0 % · output rate 0.100\n" in text
    assert text.rstrip().endswith("Stopped somewhere.")


def test_a_file_has_no_bar(capsys):
    renderer = TextRenderer(each_update=True)
    renderer.update(Progress(2), "words")
    renderer.end("Done.", None)
    shown = capsys.readouterr()
    assert shown.out == "Done.\n" and shown.err == ""
