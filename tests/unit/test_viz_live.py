import pytest
import torch

from snnkit import models
from snnkit.train.history import History
from snnkit.viz import LivePanel


def history(epochs):
    done = [1.0 / (i + 1) for i in range(epochs)]
    return History(train_loss=done, train_accuracy=[0.5] * epochs, output_rate=[0.1] * epochs)


def test_a_headless_panel_shows_one_figure_at_the_end(capsys, monkeypatch):
    monkeypatch.setenv("SNNKIT_HEADLESS", "1")
    panel = LivePanel(2)
    panel(history(1), None)
    assert capsys.readouterr().out == ""
    panel(history(2), None)
    assert capsys.readouterr().out.count("Figure: Training: epoch 2 of 2") == 1
    panel.finish()
    assert capsys.readouterr().out == ""


def test_a_stopped_run_is_shown_by_finish(capsys):
    panel = LivePanel(5)
    panel.finish()
    assert capsys.readouterr().out == ""
    panel(history(2))
    panel.finish()
    assert "epoch 2 of 5" in capsys.readouterr().out
    assert len(panel.figure.data[0].x) == 2


def test_layers_are_measured_on_the_probe():
    model = models.mlp((4, 8, 2), engine="eager").train()
    probe = torch.ones(5, 3, 4)
    panel = LivePanel(2, layers={"hidden": 1, "output": -1}, probe=probe)
    panel(history(1), model)
    panel(history(2), model)
    with torch.no_grad():
        layers = model.record(probe).layers
    assert panel.rates["hidden"] == pytest.approx([float(layers[1].mean())] * 2)
    assert model.training
    assert {"hidden", "output"} <= {trace.name for trace in panel.figure.data}


@pytest.mark.parametrize("exists", [True, False])
def test_a_live_panel_is_displayed_once_and_updated_in_place(exists, monkeypatch):
    pytest.importorskip("ipywidgets")
    display = pytest.importorskip("IPython.display")
    seen = []
    monkeypatch.setattr(display, "display", seen.append)
    monkeypatch.setattr("snnkit.viz.live.live", lambda: True)
    monkeypatch.setattr("snnkit.viz.views.figure_widgets_work", lambda: exists)
    panel = LivePanel(2)
    panel(history(1), None)
    before = None if exists else seen[0].value
    panel(history(2), None)
    panel.finish()
    assert len(seen) == 1
    assert len(seen[0].data[0].y) == 2 if exists else seen[0].value != before


def test_bad_arguments():
    for epochs in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="total_epochs"):
            LivePanel(epochs)
    with pytest.raises(ValueError, match="belong together"):
        LivePanel(1, layers={"hidden": 1})
    panel = LivePanel(1, layers={"hidden": 9}, probe=torch.ones(2, 1, 4))
    with pytest.raises(ValueError, match=r"layers\['hidden'\]"):
        panel(history(1), models.mlp((4, 8, 2), engine="eager"))
