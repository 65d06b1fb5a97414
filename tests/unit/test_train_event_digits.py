"""Both kinds of network learn the digits from events; the same seed gives the same."""

import pytest
import torch

from snnkit.models.event_nets import EventConvNet, EventRecurrentNet
from snnkit.train.event_digits import SETTINGS, learn_event_digits


@pytest.mark.parametrize(
    ("network", "kind", "epochs"), [("conv", EventConvNet, 4), ("recurrent", EventRecurrentNet, 3)]
)
def test_nine_of_ten_digits_are_known_after_some_epochs(network, kind, epochs):
    net, history = learn_event_digits(network, steps=8, epochs=epochs, device="cpu", progress=False)
    assert isinstance(net, kind) and len(history.test_accuracy) == epochs
    assert history.test_accuracy[-1] >= 0.9


def test_settings_seed_and_camera():
    def run(**options):
        small = {"steps": 3, "size": 8, "samples": 64, "device": "cpu", "progress": False, "epochs": 1}
        return learn_event_digits("recurrent", **(small | options))

    one, history = run()
    weights = [p.detach().clone() for p in one.parameters()]
    assert one[1].in_features == 2 * 8 * 8 and len(history.test_accuracy) == 1
    assert all(map(torch.equal, weights, run()[0].parameters()))
    assert not all(map(torch.equal, weights, run(seed=1)[0].parameters()))
    assert not all(map(torch.equal, weights, run(camera={"noise": 20.0})[0].parameters()))
    assert not all(map(torch.equal, weights, run(lr=1e-2)[0].parameters()))
    assert len(run(epochs=2)[1].test_accuracy) == 2 and set(SETTINGS) == {"conv", "recurrent"}


def test_bad_input():
    with pytest.raises(ValueError, match="network must be one of 'conv', 'recurrent'; got 'dense'"):
        learn_event_digits("dense")
    with pytest.raises(ValueError, match="steps must be at least 1"):
        learn_event_digits(steps=0)
    with pytest.raises(ValueError, match="samples must be at most 1442"):
        learn_event_digits(samples=2000)
