"""Colours that everybody can tell apart, on light and on dark pages: computed, not judged."""

import itertools

import numpy as np
import pytest

from snnkit.viz import theme

LINES = {f"line {i}": colour for i, colour in enumerate(theme.PALETTE)} | {"pale": theme.PALE}


@pytest.mark.parametrize("page", [theme.WHITE, theme.DARK])
@pytest.mark.parametrize("name", LINES)
def test_lines_and_marks_stand_out_from_every_page(name, page):
    """WCAG 2.2, 1.4.11: 3 : 1 for graphics."""
    assert theme.contrast(LINES[name], page) >= 3


@pytest.mark.parametrize("page", [theme.WHITE, theme.DARK])
def test_axes_stand_out_where_the_page_shines_through(page):
    red, green, blue, alpha = (float(part) for part in theme.AXIS[5:-1].split(","))
    under = [int(page[i : i + 2], 16) for i in (1, 3, 5)]
    mixed = (round(a * alpha + b * (1 - alpha)) for a, b in zip((red, green, blue), under, strict=True))
    assert theme.contrast("#" + "".join(f"{c:02x}" for c in mixed), page) >= 3


def test_text_is_read_on_light_and_on_dark_pages():
    assert theme.contrast(theme.TEXT, theme.WHITE) >= 4.5
    best = theme.contrast(theme.WHITE, theme.DARK) ** 0.5  # what one colour can reach on both pages
    assert best < 4.5 and theme.contrast(theme.TEXT, theme.DARK) > best - 0.2


def test_contrast_is_that_of_the_standard():
    assert theme.contrast(theme.BLACK, theme.WHITE) == pytest.approx(21)
    assert theme.contrast(theme.WHITE, theme.WHITE) == 1
    assert (
        theme.contrast("#777777", theme.WHITE)
        == theme.contrast(theme.WHITE, "#777777")
        == pytest.approx(4.48, abs=0.01)
    )


@pytest.mark.parametrize("scale", [theme.INK_ON_PAPER, theme.SIGNED_ON_PAPER])
def test_text_is_read_in_every_cell_of_a_map(scale):
    for share in np.linspace(0, 1, 101):
        cell = theme.colour_at(scale, float(share))
        assert theme.contrast(theme.ink_on(cell), cell) >= 4.5


def test_a_scale_begins_and_ends_with_its_colours():
    assert theme.colour_at(theme.SIGNED_ON_PAPER, 0) == theme.VERMILION.lower()
    assert theme.colour_at(theme.SIGNED_ON_PAPER, 0.5) == "#f4f6f8"
    assert theme.colour_at(theme.SIGNED_ON_PAPER, 1) == theme.colour_at(theme.SIGNED_ON_PAPER, 7) == theme.BLUE.lower()


def test_dashes_and_patterns_differ():
    assert len({theme.dash(i) for i in range(6)}) == 6
    bars = [theme.bar(i) for i in range(24)]
    assert len({(look["color"], look.get("pattern", {}).get("shape")) for look in bars}) == 24
    assert all("pattern" not in theme.bar(i * 8) for i in range(3))


# Viénot, Brettel and Mollon, "Digital video colourmaps for checking the legibility of displays by dichromats",
# Color Research and Application 24 (1999) 243-252: linear RGB for eyes without long or without middle cones.
PROTAN = np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]])
DEUTAN = np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]])


def lab(colour, eye=None):
    """CIE L*a*b* (D65) of a "#rrggbb" colour, as this eye sees it."""
    code = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055) ** 2.4)
    linear = linear if eye is None else np.clip(eye @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in xyz / (0.9505, 1.0, 1.089))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("eye", [None, PROTAN, DEUTAN], ids=["all cones", "protan", "deutan"])
def test_colours_differ_for_every_eye(eye):
    """The first three, which most figures use, by far; all six noticeably (a difference of 2 is just seen)."""
    distance = {
        (i, j): np.linalg.norm(lab(theme.PALETTE[i], eye) - lab(theme.PALETTE[j], eye))
        for i, j in itertools.combinations(range(6), 2)
    }
    assert min(distance[pair] for pair in ((0, 1), (0, 2), (1, 2))) > 20
    assert min(distance.values()) > 7
