"""The encoder lab: its codes are snnkit's, and its readers read them."""

import numpy as np
import pytest
import torch

from snnkit import encode
from snnkit.viz.labs import encoder_lab as lab
from snnkit.viz.labs.encoder_explorer import CODES, DELTA, GAIN, read_delta, read_latency, read_lif, read_rate

GREYS = torch.linspace(0, 1, 41).view(1, -1)


def test_a_latency_is_read_to_within_half_a_step():
    code = CODES["latency"]
    assert torch.equal(code.write(GREYS, 21), encode.latency(GREYS, 21, linear=True))
    error = (code.read(code.write(GREYS, 21)) - GREYS).abs()
    assert error.max() <= 1 / (2 * 20) + 1e-6
    assert error.max() > 0.01


def test_the_logarithm_loses_the_greys_that_the_line_keeps():
    line, logarithm = (CODES[name] for name in ("latency", "latency (logarithm)"))
    errors = [float((code.read(code.write(GREYS, 16)) - GREYS).square().mean()) for code in (line, logarithm)]
    assert errors[1] > 20 * errors[0]


def test_silence_reads_as_black_and_one_step_as_lit():
    assert not read_latency(torch.zeros(8, 1, 3)).any()
    assert read_latency(torch.ones(1, 1, 3)).eq(1).all()
    assert not read_lif(torch.zeros(8, 1, 3)).any()


def test_a_poisson_code_is_read_within_its_law():
    code = CODES["Poisson"]
    grey = torch.full((1, 4000), 0.3)
    error = (code.read(code.write(grey, 25)) - grey).square().mean().sqrt()
    assert error.item() == pytest.approx((0.3 * 0.7 / 25) ** 0.5, rel=0.05)


def test_the_lif_code_is_read_back_above_its_dead_zone():
    code = CODES["LIF neuron"]
    dark, bright = GREYS[GREYS <= 1 / GAIN], GREYS[GREYS > 1.2 / GAIN]
    assert not code.read(code.write(dark[None], 400)).any()
    back = code.read(code.write(bright[None], 400))[0]
    middle = bright < 0.6  # beyond, the period is a few steps only
    assert (back - bright)[middle].abs().max() < 0.03
    assert (back - bright)[middle].mean().abs() < 0.01


def test_direct_coding_and_its_reader_lose_nothing():
    assert torch.allclose(read_rate(CODES["direct"].write(GREYS, 7)), GREYS)


def test_a_still_image_has_one_change_only():
    spikes = CODES["delta"].write(GREYS, 9)
    assert torch.equal(spikes[0], (GREYS >= DELTA).float()) and not spikes[1:].any()
    assert read_delta(spikes).max() == pytest.approx(DELTA)


def test_the_title_tells_error_and_spikes_of_what_is_drawn():
    figure = lab.figure("latency", digit=4, contrast=0.6, T=12)
    before, raster, after = (np.asarray(trace.z, float) for trace in figure.data[:3])
    error = float(np.sqrt(((before - after) ** 2).mean()))
    assert f"error {error:.3f} for {raster.sum() / 64:.2g} spikes per pixel" in figure.layout.title.text
    assert before.max() == pytest.approx(0.6)
    assert raster.shape == (64, 12)


def test_direct_coding_sends_numbers():
    assert "numbers per pixel" in lab.figure("direct").layout.title.text


@pytest.mark.parametrize("name", CODES)
def test_the_mark_lies_on_the_curve(name):
    figure = lab.figure(name, T=16)
    curve = next(trace for trace in figure.data if trace.name == "error")
    mark = next(trace for trace in figure.data if trace.name == "now")
    assert mark.y[0] == pytest.approx(dict(zip(curve.x, curve.y, strict=True))[16])


def test_the_ten_digits_are_ten():
    images = [np.asarray(lab.figure(digit=digit).data[0].z) for digit in range(10)]
    assert all(not np.array_equal(images[i], images[j]) for i in range(10) for j in range(i))
