"""How large numbers are, and what a format makes of them."""

import numpy as np
import pytest
import torch

from snnkit import viz
from snnkit.viz.figures import magnitudes

TINY, SMALL, LARGE = 2.0**-30, 2.0**-20, 2.0**17


def test_it_tells_what_a_format_loses():
    values = torch.tensor([TINY, TINY, 1.0, 0.5, LARGE, -TINY, 0.0, 0.0])
    (line,) = magnitudes({"g": values}).data
    assert line.name == "g: 50.0% become 0, 16.7% infinite"
    (line,) = magnitudes({"g": values}, torch.bfloat16).data
    assert line.name == "g: 0.0% become 0, 0.0% infinite"


def test_a_scale_moves_them_into_the_format():
    values = torch.tensor([TINY, SMALL])
    (line,) = magnitudes({"g": values}, scale=2.0**16, span=(-40, 10)).data
    assert line.name == "g: 0.0% become 0, 0.0% infinite"
    at = np.asarray(line.x)[np.asarray(line.y) > 0]
    assert at.tolist() == [-14, -4]


def test_heights_are_shares_of_what_is_not_zero():
    (line,) = magnitudes({"g": torch.tensor([1.0, 1.5, 4.0, 4.0, 0.0])}).data
    heights = dict(zip(line.x, line.y, strict=True))
    assert heights[0] == pytest.approx(50) and heights[2] == pytest.approx(50)
    assert sum(line.y) == pytest.approx(100)


def test_what_is_beyond_the_span_is_at_its_ends():
    (line,) = magnitudes({"g": torch.tensor([TINY, LARGE])}, span=(-20, 10)).data
    assert line.y[0] == pytest.approx(50) and line.y[-1] == pytest.approx(50)


def test_the_bands_are_those_of_the_format():
    figure = magnitudes({"g": torch.tensor([1.0])}, span=(-60, 40))
    subnormal, normal = figure.layout.shapes
    assert (subnormal.x0, subnormal.x1) == (-25, -14)
    assert normal.x0 == -14 and normal.x1 == pytest.approx(16, abs=0.01)
    assert [a.text for a in figure.layout.annotations] == ["→ 0", "fewer digits", "float16", "→ ∞"]


def test_one_line_for_each_name_and_a_png():
    figure = magnitudes({"a": torch.rand(9), "b": torch.rand(3, 3), "silent": torch.zeros(4)})
    assert [t.name.split(":")[0] for t in figure.data] == ["a", "b"]
    assert len({(t.line.color, t.line.dash) for t in figure.data}) == 2
    assert viz.png_bytes(figure).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("values", "more", "error", "match"),
    [
        ({}, {}, ValueError, "at least one number"),
        ({"g": torch.zeros(3)}, {}, ValueError, "at least one number"),
        ({"g": torch.ones(3)}, {"scale": 0.0}, ValueError, "scale"),
        ({"g": torch.ones(3)}, {"scale": float("inf")}, ValueError, "scale"),
        ({"g": torch.ones(3)}, {"dtype": torch.int8}, TypeError, "dtype"),
        ({"g": torch.ones(3, dtype=torch.int64)}, {}, TypeError, r"values\['g'\]"),
        ({"g": [1.0]}, {}, TypeError, r"values\['g'\]"),
    ],
)
def test_what_is_refused(values, more, error, match):
    with pytest.raises(error, match=match):
        magnitudes(values, **more)
