"""Stacked bars, feature maps, and statistics of populations."""

from typing import NamedTuple

import numpy as np
import pytest
import torch

from snnkit import viz
from snnkit.viz.figures import feature_maps, population_statistics, shares

PNG = b"\x89PNG"


def test_parts_stack_up_to_their_whole():
    figure = shares({"before": {"conv": 6.0, "rest": 2.0}, "after": {"conv": 3.0, "rest": 1.0}}, "ms")
    assert [t.name for t in figure.data] == ["conv", "rest"] and figure.layout.barmode == "stack"
    assert list(figure.data[0].x) == [6.0, 3.0] and list(figure.data[0].y) == ["before", "after"]
    assert list(figure.data[1].customdata) == ["25.0%", "25.0%"]
    assert [a.text for a in figure.layout.annotations] == ["8 ms", "4 ms"]


@pytest.mark.parametrize("unit", ["", "ms", "µs per sample of the batch"])
def test_the_longest_bar_leaves_room_for_its_total(unit):
    figure = shares({"a": {"x": 28.4}, "b": {"x": 1.0}}, unit)
    low, high = figure.layout.xaxis.range
    longest = max(len(note.text) for note in figure.layout.annotations)
    assert low == 0 and (high - 28.4) / high * 520 >= 7 * longest


def test_a_part_that_is_missing_is_nothing():
    figure = shares({"a": {"x": 1.0}, "b": {"y": 2.0}})
    assert [list(t.x) for t in figure.data] == [[1.0, 0.0], [0.0, 2.0]]
    assert len({t.marker.color for t in figure.data}) == 2
    assert viz.png_bytes(figure).startswith(PNG)


def test_nothing_at_all_can_be_drawn():
    assert viz.png_bytes(shares({"a": {"x": 0.0}})).startswith(PNG)


@pytest.mark.parametrize("wholes", [{}, {"a": {}}])
def test_no_parts_are_refused(wholes):
    with pytest.raises(ValueError, match="at least one"):
        shares(wholes)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_impossible_parts_are_refused(value):
    with pytest.raises(ValueError, match="'x' of 'a'"):
        shares({"a": {"x": value}})


def test_maps_lie_in_a_grid_of_steps_and_channels():
    spikes = torch.zeros(3, 2, 4, 5)
    spikes[1, 0, 2, 3] = 1
    figure = feature_maps(spikes, names=["left", "right"])
    canvas = np.asarray(figure.data[0].z)
    assert len(figure.layout.shapes) == (3 + 1) * 2
    assert figure.layout.xaxis.ticktext == ("left", "right")
    assert figure.layout.yaxis.ticktext == ("step 1", "step 2", "step 3", "mean")
    boxes = [(s.y0, s.x0) for s in figure.layout.shapes]
    top, left = boxes[2]  # step 2, first channel
    assert canvas[int(top + 0.5) + 2, int(left + 0.5) + 3] == 1
    top, left = boxes[6]  # the mean over three steps
    assert canvas[int(top + 0.5) + 2, int(left + 0.5) + 3] == pytest.approx(1 / 3)
    assert np.count_nonzero(canvas) == 2
    assert viz.png_bytes(figure).startswith(PNG)


def test_maps_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"\[T, C, H, W\]"):
        feature_maps(torch.zeros(2, 4, 5))
    with pytest.raises(ValueError, match="names"):
        feature_maps(torch.zeros(1, 2, 4, 5), names=["one"])


class Two(NamedTuple):
    rate: torch.Tensor
    fano: torch.Tensor


def test_a_panel_for_each_statistic_with_means_by_class():
    rate = torch.tensor([[0.0, 1.0], [0.5, 0.0], [1.0, 0.0]])
    figure = population_statistics(Two(rate, 2 * rate), torch.tensor([2, 0, 2]), names=["a", "b", "c"])
    assert [t.type for t in figure.data] == ["heatmap", "heatmap"]
    assert list(figure.data[0].y) == ["a", "c"]  # nobody of class b
    assert np.asarray(figure.data[0].z).tolist() == [[0.5, 0.0], [0.5, 0.5]]
    assert [a.text for a in figure.layout.annotations] == ["rate: 0 to 0.5", "fano: 0 to 1"]
    assert viz.png_bytes(figure).startswith(PNG)


def test_statistics_that_do_not_fit_are_refused():
    rate = torch.zeros(3, 2)
    with pytest.raises(TypeError, match="named tuple"):
        population_statistics([rate], torch.zeros(3))
    with pytest.raises(ValueError, match="must have 2 rows"):
        population_statistics(Two(rate, rate), torch.zeros(2))
    with pytest.raises(ValueError, match="labels must lie in 0 … 1"):
        population_statistics(Two(rate, rate), torch.tensor([0, 1, 2]), names=["a", "b"])
