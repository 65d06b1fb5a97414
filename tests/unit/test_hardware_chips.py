"""The catalogue of chips: figures with sources, and none made up."""

import subprocess
import sys

import pytest

from snnkit.hardware import chips
from snnkit.hardware.chips import FIGURES, KINDS, MARKS, Figure, MissingFigure

TEN = ("GC200", "Bow", "T4", "V100", "RTX 2080 Ti", "A100", "L4", "H100", "H200", "TPU v2-8")


def test_the_ten_chips_are_there():
    assert chips.names() == TEN
    assert chips.names("ipu") == ("GC200", "Bow") and chips.names("tpu") == ("TPU v2-8",)
    assert sum(len(chips.names(kind)) for kind in KINDS) == len(TEN)
    assert chips.get(" gc200 ") is chips.get("GC200")


@pytest.mark.parametrize("name", TEN)
def test_every_figure_says_where_it_comes_from_and_how_far_to_trust_it(name):
    chip = chips.get(name)
    assert len(chip.figures) >= 4
    for key, figure in chip.figures.items():
        assert figure.mark in MARKS and len(figure.source) > 5, key
        assert figure.mark != "measured", "nothing of the catalogue was measured here"
        assert figure.unit == FIGURES[key][1]
        assert figure.source in str(figure)


def test_derived_figures_give_what_is_sold_within_half_a_percent():
    gc200, bow = chips.get("GC200"), chips.get("Bow")
    assert gc200.value("fp16_flops") == pytest.approx(250e12, rel=0.005)
    assert gc200.value("fp32_flops") == pytest.approx(62.5e12, rel=0.005)
    assert bow.value("fp16_flops") == pytest.approx(350e12, rel=0.005)
    assert gc200.value("on_chip_bytes") == pytest.approx(900 * 2**20, rel=0.005)
    assert gc200.value("exchange_bandwidth") == pytest.approx(8e12, rel=0.03)
    assert (
        bow.value("sram_bandwidth") > gc200.value("sram_bandwidth") and bow.figure("sram_bandwidth").mark == "derived"
    )


def test_the_h200_is_an_h100_with_another_memory():
    h100, h200 = chips.get("H100"), chips.get("H200")
    for key in ("fp32_flops", "fp16_flops", "cache_bytes", "power"):
        assert h100.value(key) == h200.value(key)
    assert h200.value("memory_bandwidth") == 4.8e12 > h100.value("memory_bandwidth")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("TPU v2-8", "memory_bandwidth"), ("TPU v2-8", "fp32_flops"), ("RTX 2080 Ti", "fp16_flops"),
        ("V100", "memory_bytes"), ("A100", "tiles"), ("GC200", "memory_bandwidth"),
    ],
)  # fmt: skip
def test_what_is_missing_stays_missing_and_is_named(name, key):
    with pytest.raises(MissingFigure, match=f"{key} of {name}"):
        chips.get(name).value(key)


def test_unknown_names():
    with pytest.raises(ValueError, match=r"chip must be one of 'GC200'.*but it is 'B200'"):
        chips.get("B200")
    with pytest.raises(TypeError, match="name of a chip must be a str"):
        chips.get(200)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="kind must be one of"):
        chips.names("fpga")
    with pytest.raises(ValueError, match="key must be one of"):
        chips.get("T4").figure("price")
    with pytest.raises(TypeError):
        chips.get("T4").figures["power"] = Figure(1.0, "W", "assumed", "me")  # type: ignore[index]


@pytest.mark.parametrize(
    ("value", "mark", "error", "message"),
    [
        (1.0, "guessed", ValueError, "mark must be one of"),
        (0.0, "vendor", ValueError, "value must be greater than 0"),
        (float("nan"), "vendor", ValueError, "value must be"),
        ("312", "vendor", TypeError, "value must be a number"),
    ],
)
def test_a_figure_that_can_not_be(value, mark, error, message):
    with pytest.raises(error, match=message):
        Figure(value, "W", mark, "me")


def test_reading_the_catalogue_brings_no_torch():
    code = "import sys, snnkit.hardware.chips; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
