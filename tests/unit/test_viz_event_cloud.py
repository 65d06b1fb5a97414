"""Events in space and time, on the screen and on paper."""

import io

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from matplotlib.image import imread

from snnkit import viz
from snnkit.data.events import event_digits
from snnkit.viz import theme
from snnkit.viz.figures import event_cloud
from snnkit.viz.png_traces import rgba


def one_each():
    """ON at step 1, row 2, column 3; OFF at step 0, row 0, column 1."""
    events = torch.zeros(2, 2, 4, 5)
    events[1, 0, 2, 3] = events[0, 1, 0, 1] = 1
    return events


def points(trace):
    return [tuple(map(float, point)) for point in zip(trace.x, trace.y, trace.z, strict=True)]


def test_each_event_is_at_its_time_column_and_row():
    figure = event_cloud(one_each(), dt=1e-3)
    on, off = figure.data
    assert (on.name, off.name) == ("on", "off")
    assert points(on) == [(1.0, 3.0, 2.0)] and points(off) == [(0.0, 1.0, 0.0)]
    assert figure.layout.title.text == "Events (1 on, 1 off)"
    scene = figure.layout.scene
    assert scene.xaxis.title.text == "time (ms)"
    assert scene.zaxis.range == (3.5, -0.5)  # row 0 is at the top
    assert scene.aspectratio.y > scene.aspectratio.z  # 5 columns, 4 rows


def test_on_and_off_differ_in_more_than_colour():
    on, off = event_cloud(one_each()).data
    assert on.marker.symbol != off.marker.symbol and on.marker.color != off.marker.color


def test_of_many_events_every_kth_is_drawn_and_all_are_counted():
    figure = event_cloud(torch.ones(10, 2, 10, 10), most=700)
    assert figure.layout.title.text == "Events (1,000 on, 1,000 off; every 3rd is drawn)"
    assert [len(trace.x) for trace in figure.data] == [334, 334]
    assert {z for _, _, z in points(figure.data[0])} == set(range(10))


def test_the_kits_camera_can_be_drawn():
    events, _ = event_digits("test", steps=8)
    figure = event_cloud(events[0])
    assert sum(len(trace.x) for trace in figure.data) == int(events[0].sum())
    assert len(figure.to_json()) < 200_000


def test_no_event_at_all_is_a_figure_too():
    figure = event_cloud(torch.zeros(3, 2, 4, 4))
    assert "0 on, 0 off" in figure.layout.title.text
    assert viz.png_bytes(figure).startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("events", "options", "words"),
    [
        (torch.zeros(2, 3, 4, 4), {}, r"channels ON and OFF, not of shape \(2, 3, 4, 4\)"),
        (torch.zeros(5, 2, 2, 4, 4), {}, r"events must be \[T, 2, H, W\].*pick one sample"),
        (torch.zeros(2, 2, 4, 4), {"dt": 0}, "dt must be a positive"),
        (torch.zeros(2, 2, 4, 4), {"most": 0}, "most must be a whole number of at least 1, not 0"),
    ],
)
def test_what_is_refused(events, options, words):
    with pytest.raises(ValueError, match=words):
        event_cloud(events, **options)


def where(image, colour):
    """Columns and rows of the pixels of this colour, rows counted from the top."""
    near = np.abs(image[..., :3] - rgba(colour)[:3]).max(axis=-1) < 0.05
    rows, columns = np.nonzero(near & (image[..., 3] > 0.9))
    return columns, rows


def painted(figure):
    return imread(io.BytesIO(viz.png_bytes(figure.update_layout(showlegend=False))))


def test_on_paper_time_runs_to_the_right_and_rows_downwards():
    events = torch.zeros(20, 2, 8, 8)
    events[1, 0, 0] = 1  # early, top row, blue
    events[18, 1, 7] = 1  # late, bottom row, red
    image = painted(event_cloud(events))
    (early, high), (late, low) = where(image, theme.BLUE), where(image, theme.VERMILION)
    assert early.size and late.size
    assert early.mean() < late.mean() and high.mean() < low.mean()


def test_the_camera_of_the_figure_is_that_of_the_page():
    def seen(**eye):
        figure = go.Figure(go.Scatter3d(x=[0, 0, 1], y=[0, 1, 0], z=[0, 0, 0], mode="markers", marker={"size": 9}))
        figure.update_traces(marker={"color": [theme.GREEN, theme.BLUE, theme.VERMILION]})
        image = painted(figure.update_layout(scene={"camera": {"eye": eye}}))
        return {colour: where(image, colour)[0].mean() for colour in (theme.GREEN, theme.BLUE, theme.VERMILION)}

    front, side = seen(x=0, y=-2, z=0.5), seen(x=2, y=0, z=0.5)
    assert front[theme.VERMILION] > front[theme.GREEN] + 50  # x runs to the right
    assert side[theme.BLUE] > side[theme.GREEN] + 50  # y runs to the right
