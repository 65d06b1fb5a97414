"""What a card shows of a value: short enough to read, and what matters in it."""

import numpy as np
import pytest
import torch

from snnkit.lab.course import expect
from snnkit.lab.course.card import rich, short
from snnkit.lab.course.exercise import Violation


def spikes(*places):
    found = torch.zeros(6, 2, 3)
    for place in places:
        found[place] = 1
    return found


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (torch.zeros(12, 1, 3), "0 everywhere, shape (12, 1, 3) float32"),
        (np.full((3, 4), 2.5), "2.5 everywhere, shape (3, 4) float64"),
        (torch.ones(20, dtype=torch.bool), "True everywhere, shape (20,) bool"),
        (spikes((1, 0, 2), (5, 1, 0)), "0 but for 1 at [1, 0, 2], 1 at [5, 1, 0]\nshape (6, 2, 3) float32"),
        (torch.tensor([0.45, 0.9]), "[0.45 0.9 ]"),
        (torch.arange(8).view(2, 2, 2), "[0 1 2 3 4 5 6 7]\nshape (2, 2, 2) int64"),
        (torch.tensor([float("nan")] * 2), "[nan nan]"),
        (torch.zeros(0), "[]"),
        ((None,), "(None,)"),  # (None) would be None
        ((None, 2), "(None, 2)"),
        ([None], "[None]"),
    ],
)
def test_a_value_is_summarised(value, shown):
    assert short(value) == shown


def test_no_array_takes_more_than_a_few_lines():
    for shape in ((12, 1, 1), (5, 3, 2, 4), (40, 40), (17,), (16, 1), (8, 2)):
        assert short(torch.rand(shape)).count("\n") <= 2
    assert short(torch.rand(3, 3)).count("\n") == 2


def test_large_results_are_compared_where_they_differ_first():
    want = spikes((1, 0, 2), (5, 1, 0))
    with pytest.raises(Violation) as caught:
        expect.close(spikes((1, 0, 2), (4, 1, 1)), want, "The spikes differ.")
    assert caught.value.shown["yours"] == "1 at [4, 1, 1] (2 of 36 numbers differ)"
    assert caught.value.shown["expected"] == "0 at [4, 1, 1]"


def test_a_word_between_stars_is_emphasised_but_not_in_code_or_a_product():
    assert rich("where rows *end*.") == "where rows <em>end</em>."
    assert "<em>" not in rich("`a *b* c`, 2*x*3, **kwargs** and *args, 2 * 3 * 4")
