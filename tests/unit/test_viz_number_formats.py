"""Which numbers a format has near a value, how large numbers are, and what rounding loses."""

import math

import numpy as np
import pytest
import torch

from snnkit.viz.figures import magnitudes, number_lines, spacing

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
