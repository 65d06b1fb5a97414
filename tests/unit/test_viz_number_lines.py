"""Which numbers a format has near a value."""

import math

import numpy as np
import pytest
import torch

from snnkit import viz
from snnkit.viz.number_lines import number_lines, spacing

HALF = ("bfloat16", "float16")


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_spacing_is_the_distance_to_the_next_number(dtype):
    kind = getattr(torch, dtype)
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[kind.itemsize]
    for number in (1.0, 1.5, 2.0, 1000.0, 3e-5, 7e-6):
        at = torch.tensor([number], dtype=kind)
        above = (at.view(bits) + 1).view(kind)
        assert spacing(at.double().tolist(), dtype)[0] == (above.double() - at.double()).item(), number


def test_spacing_outside_the_range():
    assert spacing([1e-9], "float16")[0] == 2**-24
    assert math.isinf(spacing([7e4], torch.float16)[0])
    assert math.isfinite(spacing([7e4], torch.bfloat16)[0])


def ticks(figure, name):
    """The numbers that are drawn for a format, and the one that stands for the value (None if it is off the page)."""
    marked = [t for t in figure.data if t.name == name and t.mode == "markers"]
    of = {t.marker.symbol: np.asarray(t.x, dtype=float) for t in marked}
    return of.get("line-ns-open", np.array([])), of.get("diamond", [None])[0]


def words(figure):
    """What is said of each format: (what becomes of the value, how many numbers), from the lowest line up."""
    texts = [note.text for note in figure.layout.annotations]
    return list(zip(texts[::2], texts[1::2], strict=True))


def test_every_number_of_the_window_has_a_tick():
    figure = number_lines(1.0, width=0.02, formats=HALF)
    narrow, nearest = ticks(figure, "bfloat16")
    # Below 1 the distance is 1/256, above it 1/128.
    assert narrow.tolist() == [1 - k / 256 for k in range(5, 0, -1)] + [1, 1 + 1 / 128, 1 + 2 / 128]
    assert nearest == 1.0
    fine, _ = ticks(figure, "float16")
    assert len(fine) == 40 + 1 + 20 and np.isin(narrow, fine).all()
    assert viz.png_bytes(figure).startswith(b"\x89PNG")


def test_where_a_number_lands():
    figure = number_lines(0.1, width=0.05, formats=HALF)
    assert ticks(figure, "bfloat16")[1] == float(torch.tensor(0.1, dtype=torch.bfloat16))
    assert words(figure) == [
        ("becomes 0.099975586, off by 0.024 %", "164 numbers here"),
        ("becomes 0.10009766, off by 0.098 %", "21 numbers here"),
    ]
    assert words(number_lines(0.5, formats=["float16"]))[0][0] == "becomes 0.5, exactly"


def test_too_many_numbers_are_a_bar():
    figure = number_lines(1.0, formats=["float32"])
    assert ticks(figure, "float32")[0].size == 0
    assert any(t.line.width == 12 for t in figure.data)
    assert words(figure)[0][1] == f"{round(0.02 * 2**24 + 0.02 * 2**23):,} numbers here"


def test_what_is_lost_is_said():
    small, large = number_lines(1e-9, formats=HALF), number_lines(1e6, formats=HALF)
    assert words(small)[0] == ("becomes 0: the smallest number is 6e-08", "no number here")
    assert words(large)[0] == ("becomes infinity: the largest number is 65504", "no number here")
    for figure in (small, large):
        assert ticks(figure, "float16") == (pytest.approx([]), None)
        assert ticks(figure, "bfloat16")[1] is not None


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ValueError, lambda: number_lines(0)),
        (ValueError, lambda: number_lines(math.inf)),
        (ValueError, lambda: number_lines(-1.0)),
        (ValueError, lambda: number_lines(1.0, width=2)),
        (ValueError, lambda: number_lines(1.0, formats=())),
        (TypeError, lambda: number_lines(1.0, formats=["int8"])),
        (TypeError, lambda: number_lines(1.0, formats=["half a float"])),
        (ValueError, lambda: spacing([0.0], "float16")),
    ],
)
def test_what_makes_no_sense_is_refused(error, call):
    with pytest.raises(error, match=r"must"):
        call()
