import numpy as np
import pytest
import torch

from snnkit import viz
from snnkit.data.events import events_of, saccades
from snnkit.viz.labs import event_player as events
from snnkit.viz.labs.event_explorer import _images


def trace(frame, page, index):
    """What a frame says of a trace of the page, over what the page says."""
    changes = dict(zip(frame.traces, frame.data, strict=True)).get(index)
    return page.data[index].to_plotly_json() | (changes.to_plotly_json() if changes is not None else {})


def test_frames_hold_the_events_of_their_step():
    page = events.figure(digit=7, steps=8)
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
    page = events.figure(steps=8, amplitude=2.0)
    index = next(i for i, t in enumerate(page.data) if t.type == "heatmap")
    path = saccades(8, 2.0)
    for step, frame in enumerate(page.frames):
        drawn = trace(frame, page, index)
        assert (drawn["x0"], drawn["y0"]) == pytest.approx((-path[step + 1]).tolist())


def test_polarities_differ_in_more_than_colour():
    marks = [t.marker.symbol for t in events.figure(steps=8).data if t.type == "scatter"]
    assert len(set(marks)) == 2


def test_noise_is_the_same_at_every_move():
    one, two = (events.figure(noise=0.05, steps=8) for _ in range(2))
    assert one.to_json() == two.to_json()
    assert len(one.to_json()) > len(events.figure(noise=0.0, steps=8).to_json())


def test_it_plays_without_a_kernel_and_stays_small():
    page = events.figure(noise=0.05, steps=32)
    assert page.layout.updatemenus[0].buttons[0].method == "animate"
    assert len(viz.mime_bundle(page)["image/png"]) > 10_000
    assert len(page.to_json()) < 300_000
