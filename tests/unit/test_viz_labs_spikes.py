"""The encoder lab, the event player and the STDP lab draw what codes, camera and rule do."""

import numpy as np
import pytest
import torch

from snnkit import encode, viz
from snnkit.data.events import events_of, saccades
from snnkit.plasticity import PairSTDP
from snnkit.viz.labs import encoder_lab, event_player, stdp_lab
from snnkit.viz.labs.encoder_explorer import CODES, DELTA, GAIN, read_delta, read_latency, read_lif, read_rate
from snnkit.viz.labs.event_explorer import _images
from snnkit.viz.labs.stdp_explorer import STEPS
from tests.unit.stdp_by_sums import pairwise

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
    figure = encoder_lab.figure("latency", digit=4, contrast=0.6, T=12)
    before, raster, after = (np.asarray(trace.z, float) for trace in figure.data[:3])
    error = float(np.sqrt(((before - after) ** 2).mean()))
    assert f"error {error:.3f} for {raster.sum() / 64:.2g} spikes per pixel" in figure.layout.title.text
    assert before.max() == pytest.approx(0.6)
    assert raster.shape == (64, 12)


@pytest.mark.parametrize("name", CODES)
def test_the_mark_lies_on_the_curve(name):
    figure = encoder_lab.figure(name, T=16)
    curve = next(trace for trace in figure.data if trace.name == "error")
    mark = next(trace for trace in figure.data if trace.name == "now")
    assert mark.y[0] == pytest.approx(dict(zip(curve.x, curve.y, strict=True))[16])


def trace(frame, page, index):
    """What a frame says of a trace of the page, over what the page says."""
    changes = dict(zip(frame.traces, frame.data, strict=True)).get(index)
    return page.data[index].to_plotly_json() | (changes.to_plotly_json() if changes is not None else {})


def test_frames_hold_the_events_of_their_step():
    page = event_player.figure(digit=7, steps=8)
    assert len(page.frames) == 8
    image = _images()[7]
    seen = events_of(image[None, None], saccades(8, 2.0), threshold=0.2, generator=torch.Generator())[0]
    on, off = (i for i, t in enumerate(page.data) if t.type == "scatter")
    for step, frame in enumerate(page.frames):
        for channel, index in enumerate((on, off)):
            drawn = trace(frame, page, index)
            rows, columns = np.nonzero(seen[step, channel].numpy())
            np.testing.assert_array_equal(np.asarray(drawn["x"]), columns)
            np.testing.assert_array_equal(np.asarray(drawn["y"]), rows)
        assert f"step {step}: " in frame.layout.annotations[0].text
    total = sum(len(t.x) for t in page.data if t.type == "scatter3d")
    assert total == seen.sum()


def test_the_picture_moves_against_the_gaze():
    page = event_player.figure(steps=8, amplitude=2.0)
    index = next(i for i, t in enumerate(page.data) if t.type == "heatmap")
    path = saccades(8, 2.0)
    for step, frame in enumerate(page.frames):
        drawn = trace(frame, page, index)
        assert (drawn["x0"], drawn["y0"]) == pytest.approx((-path[step + 1]).tolist())


def test_it_plays_without_a_kernel_and_stays_small():
    page = event_player.figure(noise=0.05, steps=32)
    assert page.layout.updatemenus[0].buttons[0].method == "animate"
    assert len(viz.mime_bundle(page)["image/png"]) > 10_000
    assert len(page.to_json()) < 300_000


SPIKES = ("pre_1", "pre_2", "post_1", "post_2")


def named(figure, name):
    (trace,) = [trace for trace in figure.data if trace.name == name]
    return np.asarray(trace.x, float), np.asarray(trace.y, float)


def spikes_at(*when):
    spikes = torch.zeros(STEPS, 1, 1)
    spikes[list(when)] = 1
    return spikes


@pytest.mark.parametrize("bound", ["hard", "soft", "none"])
def test_the_weight_ends_where_the_sum_over_all_pairs_ends(bound):
    figure = stdp_lab.figure(10, 50, 15, 42, 0.4, 0.3, 12.0, 33.0, bound, 0.7)
    rule = PairSTDP(0.4, 0.3, 12e-3, 33e-3, bound=None if bound == "none" else bound)
    expected = pairwise(rule, spikes_at(10, 50), spikes_at(15, 42), torch.tensor([[0.7]])).item()
    at, weights = named(figure, "weight")
    assert weights[-1] == pytest.approx(expected, abs=1e-6)
    assert f"Δw = {expected - 0.7:+.3f}" in figure.layout.title.text
    # Nothing happens before the second spike of any pair, and something does then.
    assert (weights[at < 15] == weights[0]).all() and weights[0] == pytest.approx(0.7)
    assert weights[at == 15] != weights[0]


def test_every_pair_stands_on_the_window_at_its_lag():
    figure = stdp_lab.figure(10, 50, 15, 42)
    lags, changes = named(figure, "pairs")
    assert lags.tolist() == [-35, -8, 5, 32]
    rule = PairSTDP(0.2, 0.21)
    assert changes == pytest.approx([rule.window(lag * 1e-3) for lag in lags], abs=1e-6)
    x, y = named(figure, "window")
    assert y[x > 0] == pytest.approx(0.2 * np.exp(-x[x > 0] / 20), abs=1e-6)
    assert y[x < 0] == pytest.approx(-0.21 * np.exp(x[x < 0] / 20), abs=1e-6)


def test_traces_start_at_their_spikes_and_fade_with_their_own_time_constant():
    figure = stdp_lab.figure(10, 10, 30, 30, tau_plus=5.0, tau_minus=40.0)
    for side, first, tau in (("pre", 10, 5), ("post", 30, 40)):
        at, trace = named(figure, f"{side} trace")
        expected = np.where(at < first, 0, np.exp(-np.maximum(at - first, 0) / tau))
        assert trace == pytest.approx(expected, abs=1e-6)
        assert named(figure, f"{side} spikes")[0].tolist() == [first]
