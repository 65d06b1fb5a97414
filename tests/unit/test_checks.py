"""Every argument error is one sentence: what the argument must be, and what it is."""

import math
import re

import numpy as np
import pytest
import torch

from snnkit import checks


@pytest.mark.parametrize(
    ("check", "error", "message"),
    [
        (lambda: checks.number("tau", -1, above=0), ValueError, "tau must be greater than 0, but it is -1"),
        (lambda: checks.number("x", "1"), TypeError, "x must be a number, but it is '1'"),
        (lambda: checks.number("x", True), TypeError, "x must be a number, but it is True"),
        (lambda: checks.number("x", math.nan), ValueError, "x must be finite, but it is nan"),
        (lambda: checks.number("x", math.nan, finite=False), ValueError, "x must be finite, but it is nan"),
        (lambda: checks.number("x", 2, at_most=1.5), ValueError, "x must be at most 1.5, but it is 2"),
        (lambda: checks.number("x", 1, below=1), ValueError, "x must be less than 1, but it is 1"),
        (lambda: checks.number("x", np.zeros(2)), TypeError, "x must be a number, but it is a ndarray of shape [2]"),
        (lambda: checks.integer("n", 3.0), TypeError, "n must be an integer, but it is 3.0"),
        (lambda: checks.integer("n", 0, at_least=1), ValueError, "n must be at least 1, but it is 0"),
        (lambda: checks.integer("n", 9, at_most=8), ValueError, "n must be at most 8, but it is 9"),
        (lambda: checks.flag("amp", 1), TypeError, "amp must be True or False, but it is 1"),
        (lambda: checks.choice("mode", "c", ("a", "b")), ValueError, "mode must be one of 'a', 'b', but it is 'c'"),
        (lambda: checks.instance("x", 1, torch.Tensor, "a tensor"), TypeError, "x must be a tensor, but it is 1"),
        (lambda: checks.function("f", 1, optional=True), TypeError, "f must be a function or None, but it is 1"),
        (lambda: checks.mapping("by", [1], "a to b"), TypeError, "by must be a dict of a to b, but it is [1]"),
    ],
)
def test_the_sentence(check, error, message):
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        check()


def test_good_values_come_back_in_their_plain_type():
    assert checks.number("x", torch.tensor(0.5)) == 0.5
    assert type(checks.number("x", np.float32(0.5))) is float and type(checks.integer("n", np.int64(3))) is int
    assert checks.number("x", math.inf, finite=False) == math.inf
    assert checks.choice("mode", "a", ("a", None)) == "a" and checks.choice("mode", None, ("a", None)) is None
    assert checks.function("f", None, optional=True) is None and checks.flag("amp", False) is False


def without_end():
    value = []
    value.append(value)
    return value


def laughs():
    value = ["x"] * 9
    for _ in range(30):  # its repr would have 9 ** 31 words
        value = {"a": [value] * 9}
    return value


@pytest.mark.parametrize("value", ["9" * 10_000, b"9" * 10**8, laughs(), without_end(), [10**9999, 1], (laughs(),)])
def test_a_huge_value_is_quoted_in_part(value):
    with pytest.raises(TypeError) as caught:
        checks.number("x", value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    "value", [[], (), {}, (1,), {1: [2, "a'b"], "c": (None,)}, {3}, set(), b"x", 1.5, True, 10**99]
)
def test_a_small_value_is_quoted_as_python_writes_it(value):
    assert checks.shown(value) == repr(value)


def test_numbers_beyond_all_floats():
    with pytest.raises(ValueError, match="x must be finite, but it is an int of 33220 bits"):
        checks.number("x", 10**10_000, finite=False)
    with pytest.raises(ValueError, match="n must be at most 3, but it is an int of 33220 bits"):
        checks.integer("n", 10**10_000, at_most=3)
