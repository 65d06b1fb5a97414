"""A heat map of cosines."""

import numpy as np
import pytest
import torch

from snnkit import viz
from snnkit.viz.similarity import similarity

GROUPS = {"even": ["two", "four"], "odd": ["one"]}
VECTORS = torch.tensor([[1.0, 0.0], [3.0, 3.0], [0.0, 0.0]])


def test_cosines_of_each_two():
    figure = similarity(VECTORS, GROUPS)
    (heat,) = figure.data
    half = 0.5**0.5
    assert np.asarray(heat.z) == pytest.approx(np.array([[1, half, 0], [half, 1, 0], [0, 0, 0]]), abs=1e-3)
    assert heat.customdata[0][1] == "two, four"
    assert figure.layout.yaxis.ticktext == ("two", "four", "one")
    assert viz.png_bytes(figure).startswith(b"\x89PNG")


def test_groups_are_named_and_separated():
    figure = similarity(VECTORS, GROUPS)
    assert figure.layout.xaxis.ticktext == ("even", "odd")
    assert figure.layout.xaxis.tickvals == (0.5, 2.0)
    assert {(s.x0, s.x1, s.y0, s.y1) for s in figure.layout.shapes} == {(-0.5, 2.5, 1.5, 1.5), (1.5, 1.5, -0.5, 2.5)}


def test_many_rows_are_named_by_group():
    names = [f"word {i}" for i in range(80)]
    figure = similarity(torch.eye(80), {"a": names[:40], "b": names[40:]})
    assert figure.layout.yaxis.ticktext == ("a", "b")


def test_opposite_vectors_keep_their_sign():
    (heat,) = similarity([[1.0], [-1.0]], {"a": ["x", "y"]}).data
    assert heat.z[0][1] == -1 and heat.zmin == -1


@pytest.mark.parametrize("vectors", [torch.rand(2, 3), torch.rand(3), torch.rand(0, 3)])
def test_one_name_for_each_vector(vectors):
    with pytest.raises(ValueError, match="must"):
        similarity(vectors, GROUPS)
