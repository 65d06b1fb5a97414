"""The figures that set membranes beside spikes."""

import pytest
import torch

from snnkit.viz import png_bytes
from snnkit.viz.figures import gallery, membrane_and_raster


def test_membrane_and_raster_draws_every_spike_once():
    spikes = torch.zeros(20, 3)
    spikes[4, 0] = spikes[9, 0] = spikes[9, 2] = 1
    figure = membrane_and_raster(torch.linspace(0, 1, 20), spikes, threshold=1.0)
    membrane, own, threshold, raster = figure.data
    assert len(membrane.y) == 20
    assert list(own.x) == [4, 9] and min(own.y) > 1.0
    assert list(threshold.y) == [1.0, 1.0]
    assert sorted(zip(raster.x, raster.y, strict=True)) == [(4, 0), (9, 0), (9, 2)]
    assert png_bytes(figure).startswith(b"\x89PNG")


def test_both_panels_show_the_same_stretch_of_time():
    figure = membrane_and_raster(torch.zeros(50), torch.zeros(50, 4), dt=1e-3)
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range
    assert figure.layout.xaxis2.title.text == "time (ms)"


@pytest.mark.parametrize("columns", [1, 2, 5])
def test_a_gallery_has_one_panel_per_neuron(columns):
    spikes = torch.zeros(30)
    spikes[7] = 1
    runs = {name: (torch.rand(30), spikes) for name in "abc"}
    figure = gallery(runs, columns=columns)
    assert [note.text for note in figure.layout.annotations] == ["a", "b", "c"]
    assert [list(trace.x) for trace in figure.data if trace.mode == "markers"] == [[7]] * 3
    assert png_bytes(figure).startswith(b"\x89PNG")


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="v has 5 steps, but spikes has 6"):
        membrane_and_raster(torch.zeros(5), torch.zeros(6, 2))
    with pytest.raises(ValueError, match=r"spikes must be \[T, N\]"):
        membrane_and_raster(torch.zeros(5), torch.zeros(5))
    with pytest.raises(ValueError, match="runs must hold at least one"):
        gallery({})
    with pytest.raises(ValueError, match="columns must be a whole number of at least 1"):
        gallery({"a": (torch.zeros(3), torch.zeros(3))}, columns=0)
    with pytest.raises(ValueError, match="v of a has 3 steps, but its spikes have 4"):
        gallery({"a": (torch.zeros(3), torch.zeros(4))})
