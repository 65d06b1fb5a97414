"""Firing rates of layers: silent, active and saturated neurons."""

import numpy as np
import pytest
import torch

from snnkit import viz
from snnkit.viz.figures import rate_histogram

# Of ten steps: never, never, one, five, nine and all ten.
SPIKES = (torch.arange(10)[:, None] < torch.tensor([0, 0, 1, 5, 9, 10])).float()


def heights(figure):
    """Kind to how many neurons it has, over all panels."""
    found = {}
    for trace in figure.data:
        found[trace.name] = found.get(trace.name, 0) + sum(map(int, trace.y))
    return found


def test_the_three_kinds_are_told_apart():
    figure = rate_histogram(SPIKES)
    assert heights(figure) == {"silent": 2, "active": 2, "saturated": 2}
    assert figure.layout.annotations[0].text == "6 neurons, 2 silent, 2 saturated"
    assert len({trace.marker.pattern.shape for trace in figure.data}) == 3
    assert heights(rate_histogram(SPIKES, saturated=1.0)) == {"silent": 2, "active": 3, "saturated": 1}
    assert viz.png_bytes(figure).startswith(b"\x89PNG")


def test_silent_neurons_stand_apart_left_of_zero_with_their_number():
    silent, active, saturated = rate_histogram(SPIKES, bins=10).data
    assert max(silent.x) < 0 < min(active.x) < min(saturated.x)
    assert silent.text == ("2",) and active.text is None and saturated.text == ("2",)
    assert max(saturated.x) == pytest.approx(0.95)


def test_rates_are_in_hertz_with_dt():
    figure = rate_histogram(SPIKES, dt=1e-3, bins=10)
    assert figure.layout.xaxis.title.text == "firing rate (Hz)"
    assert max(figure.data[2].x) == pytest.approx(950)
    assert "Hz" in figure.data[1].hovertemplate


def test_layers_are_panels_on_one_scale():
    figure = rate_histogram({"hidden": SPIKES, "output": SPIKES[:, :3]})
    heads = [note.text for note in figure.layout.annotations]
    assert heads == ["hidden: 6 neurons, 2 silent, 2 saturated", "output: 3 neurons, 2 silent, 0 saturated"]
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range
    assert sum(bool(trace.showlegend) for trace in figure.data) == 3
    widths = {round(width, 6) for trace in figure.data for width in trace.width}
    assert len(widths) == 1


def test_known_rates_are_taken_as_they_are():
    assert heights(rate_histogram(SPIKES.mean(0))) == heights(rate_histogram(SPIKES))


def test_a_dead_layer_and_a_full_one_can_be_drawn():
    assert heights(rate_histogram(torch.zeros(5, 4))) == {"silent": 4, "active": 0, "saturated": 0}
    assert heights(rate_histogram(torch.ones(5, 4))) == {"silent": 0, "active": 0, "saturated": 4}
    assert viz.png_bytes(rate_histogram(torch.zeros(5, 4))).startswith(b"\x89PNG")


def test_a_slider_can_follow_it():
    figure = viz.frames(lambda share: rate_histogram((torch.rand(10, 30) < share).float()), "share", [0.0, 0.5, 1.0])
    assert len(figure.frames) == 3


def test_every_neuron_is_in_exactly_one_bar():
    rates = torch.rand(500).round(decimals=1)
    figure = rate_histogram(rates, bins=7)
    assert sum(heights(figure).values()) == 500
    assert np.asarray(figure.data[1].x).min() > 0


@pytest.mark.parametrize(
    ("spikes", "options", "words"),
    [
        (torch.zeros(2, 3, 4), {}, r"spikes must be \[T, N\]"),
        ({}, {}, "spikes must hold at least one layer"),
        ({"a": torch.zeros(0, 2)}, {}, r"spikes\['a'\] must be \[T, N\] with nothing empty"),
        (torch.tensor([0.5, 1.5]), {}, r"spikes must hold rates in \[0, 1\] spikes per step, but reaches 0.5 to 1.5"),
        ({"a": torch.tensor([float("nan")])}, {}, "must hold rates in"),
        (SPIKES, {"dt": -1.0}, "dt must be a positive"),
        (SPIKES, {"saturated": 0}, "saturated must be above 0 and at most 1, not 0"),
        (SPIKES, {"bins": 0}, "bins must be a whole number of at least 1, not 0"),
        (SPIKES, {"bins": 2.5}, "bins must be a whole number"),
    ],
)
def test_what_is_refused(spikes, options, words):
    with pytest.raises(ValueError, match=words):
        rate_histogram(spikes, **options)
