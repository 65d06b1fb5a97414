"""What a LivePanel refuses, and when: before a training, if it can be known then."""

import math

import pytest
import torch

from snnkit.viz import LivePanel

PROBE = torch.zeros(4, 2, 3)


@pytest.mark.parametrize(
    ("layers", "probe", "error", "message"),
    [
        ([1], PROBE, TypeError, "layers must be a dict"),
        ("hidden", PROBE, TypeError, "layers must be a dict"),
        ({1: 1}, PROBE, TypeError, "layers must have names"),
        ({"hidden": "1"}, PROBE, TypeError, r"layers\['hidden'\] must be a whole number"),
        ({"hidden": 1.0}, PROBE, TypeError, r"layers\['hidden'\] must be a whole number"),
        ({"hidden": True}, PROBE, TypeError, r"layers\['hidden'\] must be a whole number"),
        ({"hidden": 1}, "x", TypeError, "probe must be a tensor"),
        ({"hidden": 1}, torch.zeros(3), ValueError, "probe must be"),
        ({"hidden": 1}, torch.zeros(0, 2, 3), ValueError, "probe must be"),
        ({"hidden": 1}, torch.zeros(4, 0, 3), ValueError, "probe must be"),
        ({"hidden": 1}, PROBE.to("meta"), ValueError, "probe must hold numbers"),
    ],
)
def test_layers_and_probe(layers, probe, error, message):
    with pytest.raises(error, match=message):
        LivePanel(2, layers, probe)


@pytest.mark.parametrize("history", [None, 3, "abc", [1.0]])
def test_what_is_no_history(history):
    with pytest.raises(TypeError, match=r"history must be a train\.History or a dict"):
        LivePanel(2)(history)


@pytest.mark.parametrize("values", [3.0, "abc", None])
def test_a_series_that_is_none(values):
    with pytest.raises(TypeError, match=r"history\['test_loss'\] must be a list"):
        LivePanel(2)({"train_loss": [1.0], "test_loss": values})


def test_a_model_that_cannot_record():
    panel = LivePanel(2, {"hidden": 0}, PROBE)
    with pytest.raises(TypeError, match=r"model must be an nn\.Sequential of snnkit"):
        panel({"train_loss": [1.0]}, torch.nn.Sequential(torch.nn.Linear(3, 2)))


@pytest.mark.parametrize("loss", [math.nan, math.inf, None])
def test_losses_that_are_no_numbers_are_drawn_as_gaps(loss, capsys):
    panel = LivePanel(1)
    panel({"train_loss": [loss]})
    assert panel.figure.layout.title.text == "Training: epoch 1 of 1"
    assert "Done: 1 epoch" in capsys.readouterr().out
