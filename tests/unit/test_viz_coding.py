"""Figures of spike codes: what they hold, that each has a PNG form, and what they refuse."""

import numpy as np
import pytest
import torch

from snnkit.viz import figures, png_bytes


def _heatmaps(figure):
    return [np.asarray(trace.z) for trace in figure.data if trace.type == "heatmap"]


def test_coded_image_shows_image_raster_and_what_is_read_back():
    image = torch.tensor([[0.0, 0.5], [1.0, 0.25]])
    spikes = torch.tensor([[0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 1, 0]]).float()
    figure = figures.coded_image(image, spikes, spikes.mean(0).view(2, 2), title="a title")
    before, raster, after = _heatmaps(figure)
    np.testing.assert_allclose(before, image, atol=1e-4)
    np.testing.assert_array_equal(raster, spikes.T)
    np.testing.assert_allclose(after, [[0, 1 / 3], [1, 1 / 3]], atol=1e-4)
    assert [note.text for note in figure.layout.annotations] == ["image", "spikes: 5", "read back"]
    assert png_bytes(figure).startswith(b"\x89PNG")


def test_direct_coding_is_said_to_be_numbers():
    image = torch.tensor([[0.0, 0.5]])
    figure = figures.coded_image(image, image.flatten().expand(3, 2), image)
    assert figure.layout.annotations[1].text == "numbers: 3"
    np.testing.assert_allclose(_heatmaps(figure)[1], [[0, 0, 0], [0.5, 0.5, 0.5]])


def test_coded_signal_draws_ups_and_downs_apart():
    signal = torch.tensor([0.0, 0.2, 0.2, 0.0])
    spikes = torch.tensor([0, 1, 0, -1])
    figure = figures.coded_signal(signal, {"delta": spikes}, {"delta": 0.2 * spikes.cumsum(0)}, dt=1e-3)
    curves, marks = figure.data[:2], figure.data[2:]
    assert [trace.name for trace in curves] == ["signal", "delta"]
    assert [list(np.asarray(trace.x)) for trace in marks] == [[1.0], [3.0]]
    assert png_bytes(figure).startswith(b"\x89PNG")


def test_compared_spikes_and_rates_have_a_png():
    x = torch.linspace(0, 1, 5)
    spikes = torch.eye(5)
    assert png_bytes(figures.compared_spikes(x, spikes, spikes)).startswith(b"\x89PNG")
    assert png_bytes(figures.rate_against_brightness(x, x, 100)).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: figures.coded_image(torch.zeros(2, 2), torch.zeros(3, 5), torch.zeros(2, 2)),
            r"spikes must be \[T, 4\]",
        ),
        (lambda: figures.coded_image(torch.zeros(2, 2), torch.zeros(3, 4), torch.zeros(2, 3)), "decoded must have"),
        (lambda: figures.coded_signal(torch.zeros(4), torch.zeros(3), {}), "3 steps"),
        (
            lambda: figures.compared_spikes(torch.zeros(3), torch.zeros(2, 4), torch.zeros(2, 3)),
            r"yours must be \[T, 3\]",
        ),
        (lambda: figures.rate_against_brightness(torch.zeros(3), torch.zeros(2), 10), "rate must be"),
        (lambda: figures.rate_against_brightness(torch.zeros(3), torch.zeros(3), 0), "steps must be"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
