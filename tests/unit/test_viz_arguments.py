"""Hostile arguments of figures: each is refused by name, or drawn."""

import inspect
import math

import numpy as np
import pytest
import torch

from snnkit.viz import figures
from snnkit.viz.alt import alt_text
from snnkit.viz.arguments import named, number, whole
from snnkit.viz.arrays import as_array, axes

from .every_figure import EXAMPLES, PARTS

HOSTILE = {
    "text": "<b>x</b>",
    "nan": math.nan,
    "holes": torch.tensor([[1.0, math.nan], [-math.inf, math.inf]]),
    "meta": torch.zeros(5, 3, device="meta"),
    "ragged": [[1], [1, 2]],
    "dict": {"a": torch.full((5,), math.nan)},
}
NAMES = sorted(name for name, one in vars(figures).items() if inspect.isfunction(one) and name not in PARTS)


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_refuses_by_name_or_draws(name, monkeypatch):
    draw, good = getattr(figures, name), {}

    def spy(*positional, **named):
        good.update(inspect.signature(draw).bind(*positional, **named).arguments)
        return draw(*positional, **named)

    monkeypatch.setattr(figures, name, spy)
    EXAMPLES[name]()
    for parameter in inspect.signature(draw).parameters:
        if parameter == "title":  # plotly's own to complain about
            continue
        for value in HOSTILE.values():
            try:
                figure = draw(**(good | {parameter: value}))
            except (TypeError, ValueError) as error:
                assert str(error) and "ambiguous" not in str(error), parameter
            else:
                assert alt_text(figure)


@pytest.mark.parametrize("good", [2, 2.0, np.float32(2), torch.tensor(2.0)])
def test_numbers_of_any_kind(good):
    assert number(good, "dt", above=0) == 2.0 and type(number(good, "dt")) is float


@pytest.mark.parametrize("good", [2, np.int64(2), torch.tensor(2)])
def test_whole_numbers_of_any_kind(good):
    assert whole(good, "bins") == 2 and type(whole(good, "bins")) is int


@pytest.mark.parametrize("bad", [None, "2", True, [2], torch.ones(1), torch.ones((), device="meta"), 2j, object()])
def test_what_is_no_number(bad):
    with pytest.raises(TypeError, match="dt must be a finite number, not "):
        number(bad, "dt")
    with pytest.raises(TypeError, match="bins must be a whole number of at least 1, not "):
        whole(bad, "bins")


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, 0, -1.0])
def test_numbers_out_of_range(bad):
    with pytest.raises(ValueError, match="dt must be a positive number, not "):
        number(bad, "dt", "a positive number", above=0)


@pytest.mark.parametrize("bad", [0, -3, 2.5, math.nan])
def test_whole_numbers_out_of_range(bad):
    with pytest.raises(ValueError, match="bins must be a whole number of at least 1"):
        whole(bad, "bins")


def test_dicts():
    assert named({"a": 1}, "levels", "name to height") == {"a": 1}
    with pytest.raises(TypeError, match=r"levels must be a dict of name to height, not Tensor of shape \(2, 3\)"):
        named(torch.ones(2, 3), "levels", "name to height")


def test_arrays_without_numbers():
    with pytest.raises(ValueError, match="spikes must hold numbers, but it is a tensor on the device meta"):
        as_array(torch.ones(2, 3, device="meta"), "spikes", "[T, N]")
    with pytest.raises(TypeError, match="spikes must hold numbers in"):
        as_array([[1], [1, 2]], "spikes", "[T, N]")
    assert axes([[1], [1, 2]]) == 0 and axes([[1, 2]]) == axes(torch.ones(1, 2)) == 2


def test_short_floats_are_widened():
    assert as_array(torch.full((2,), 0.5, dtype=torch.float8_e4m3fn), "x", "[N]").tolist() == [0.5, 0.5]
