"""Pictures side by side, codes, and events in space and time."""

import io

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from matplotlib.image import imread

from snnkit import viz
from snnkit.viz import figures, theme
from snnkit.viz.figures import event_cloud, feature_maps, inference, weights
from snnkit.viz.png import rgba


def test_image_grid_places_each_image_under_its_label():
    images = torch.arange(1, 4).reshape(3, 1, 1).expand(3, 4, 4)
    figure = figures.image_grid(images, ["a", "b", "c"], columns=2)
    canvas = np.asarray(figure.data[0].z)
    assert [n.text for n in figure.layout.annotations] == ["a", "b", "c"]
    assert {1, 2, 3} <= set(np.unique(canvas))
    for value, note in zip((1, 2, 3), figure.layout.annotations, strict=True):
        rows, columns = np.nonzero(canvas == value)
        assert columns.mean() == note.x and rows.min() == note.y + 0.5


def test_maps_lie_in_a_grid_of_steps_and_channels():
    spikes = torch.zeros(3, 2, 4, 5)
    spikes[1, 0, 2, 3] = 1
    figure = feature_maps(spikes, names=["left", "right"])
    canvas = np.asarray(figure.data[0].z)
    assert len(figure.layout.shapes) == (3 + 1) * 2
    assert figure.layout.xaxis.ticktext == ("left", "right")
    assert figure.layout.yaxis.ticktext == ("step 1", "step 2", "step 3", "mean")
    boxes = [(s.y0, s.x0) for s in figure.layout.shapes]
    top, left = boxes[2]  # step 2, first channel
    assert canvas[int(top + 0.5) + 2, int(left + 0.5) + 3] == 1
    top, left = boxes[6]  # the mean over three steps
    assert canvas[int(top + 0.5) + 2, int(left + 0.5) + 3] == pytest.approx(1 / 3)
    assert np.count_nonzero(canvas) == 2


def cells(figure):
    (heat,) = figure.data
    return np.asarray(heat.z)


def test_receptive_fields_are_pictures_in_reading_order():
    matrix = torch.arange(5 * 6.0).view(5, 6) + 1
    figure = weights(matrix, shape=(2, 3), most=4)
    drawn = cells(figure)
    names = {note.text: note for note in figure.layout.annotations}
    assert set(names) == {f"neuron {i}" for i in range(4)} and "4 of 5 neurons" in figure.layout.title.text
    for i in range(4):
        rows, columns = np.nonzero((drawn >= matrix[i].min().item()) & (drawn <= matrix[i].max().item()))
        assert columns.mean() == names[f"neuron {i}"].x and rows.min() == names[f"neuron {i}"].y + 0.5
    np.testing.assert_array_equal(drawn[~np.isnan(drawn)][:3], [1, 2, 3])
    assert len(figure.layout.shapes) == 4


def picture_of(votes, label):
    output = torch.zeros(4, 3)
    for k, count in enumerate(votes):
        output[:count, k] = 1
    return inference(torch.rand(8, 8), torch.ones(4, 6), output, label, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("votes", "label", "told"),
    [
        ((0, 3, 1), 1, "The answer is b (right)"),
        ((0, 3, 1), 2, "The answer is b (wrong: it is c)"),
        ((0, 3, 1), None, "The answer is b"),
        ((0, 0, 0), 2, "No answer: the output is silent"),
    ],
)
def test_inference_says_what_the_network_answers(votes, label, told):
    figure = picture_of(votes, label)
    assert figure.layout.title.text == told
    assert [int(trace.y[-1]) for trace in figure.data[2:]] == list(votes)


def test_inference_draws_a_silent_layer():
    figure = inference(torch.zeros(8, 8), torch.zeros(4, 6), torch.zeros(4, 3))
    assert "0 spikes" in figure.layout.annotations[1].text


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((torch.zeros(8, 8), torch.zeros(5, 6), torch.zeros(4, 3)), "hidden"),
        ((torch.zeros(8, 8), torch.zeros(4, 6), torch.zeros(4, 3), 3), "label"),
        ((torch.zeros(8, 8), torch.zeros(4, 6), torch.zeros(4, 3), 0, ["a"]), "names"),
        ((torch.zeros(1, 8, 8), torch.zeros(4, 6), torch.zeros(4, 3)), "image"),
    ],
)
def test_inference_refuses_what_does_not_fit(arguments, named):
    with pytest.raises(ValueError, match=named):
        inference(*arguments)


def _heatmaps(figure):
    return [np.asarray(trace.z) for trace in figure.data if trace.type == "heatmap"]


def test_coded_image_shows_image_raster_and_what_is_read_back():
    image = torch.tensor([[0.0, 0.5], [1.0, 0.25]])
    spikes = torch.tensor([[0, 1, 1, 0], [0, 0, 1, 1], [0, 0, 1, 0]]).float()
    figure = figures.coded_image(image, spikes, spikes.mean(0).view(2, 2), title="a title")
    before, raster, after = _heatmaps(figure)
    np.testing.assert_allclose(before, image, atol=1e-4)
    np.testing.assert_array_equal(raster, spikes.T)
    np.testing.assert_allclose(after, [[0, 1 / 3], [1, 1 / 3]], atol=1e-4)
    assert [note.text for note in figure.layout.annotations] == ["image", "spikes: 5", "read back"]


def test_direct_coding_is_said_to_be_numbers():
    image = torch.tensor([[0.0, 0.5]])
    figure = figures.coded_image(image, image.flatten().expand(3, 2), image)
    assert figure.layout.annotations[1].text == "numbers: 3"
    np.testing.assert_allclose(_heatmaps(figure)[1], [[0, 0, 0], [0.5, 0.5, 0.5]])


def test_coded_signal_draws_ups_and_downs_apart():
    signal = torch.tensor([0.0, 0.2, 0.2, 0.0])
    spikes = torch.tensor([0, 1, 0, -1])
    figure = figures.coded_signal(signal, {"delta": spikes}, {"delta": 0.2 * spikes.cumsum(0)}, dt=1e-3)
    curves, marks = figure.data[:2], figure.data[2:]
    assert [trace.name for trace in curves] == ["signal", "delta"]
    assert [list(np.asarray(trace.x)) for trace in marks] == [[1.0], [3.0]]


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


def test_of_many_events_every_kth_is_drawn_and_all_are_counted():
    figure = event_cloud(torch.ones(10, 2, 10, 10), most=700)
    assert figure.layout.title.text == "Events (1,000 on, 1,000 off; one of 3 is drawn)"
    assert [len(trace.x) for trace in figure.data] == [334, 334]
    assert {z for _, _, z in points(figure.data[0])} == set(range(10))


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
    inks = (theme.GREEN, theme.BLUE, theme.VERMILION)

    def seen(**eye):
        ends = zip([(0, 0, 0), (0, 1, 0), (1, 0, 0)], inks, strict=True)
        figure = go.Figure([_mark(*end, colour) for end, colour in ends])
        image = painted(figure.update_layout(scene={"camera": {"eye": eye}}))
        return {colour: where(image, colour)[0].mean() for colour in inks}

    front, side = seen(x=0, y=-2, z=0.5), seen(x=2, y=0, z=0.5)
    assert front[theme.VERMILION] > front[theme.GREEN] + 50  # x runs to the right
    assert side[theme.BLUE] > side[theme.GREEN] + 50  # y runs to the right


def _mark(x, y, z, colour):
    return go.Scatter3d(x=[x], y=[y], z=[z], mode="markers", marker={"size": 9, "color": colour})
