"""What the PNG painter draws: checked on its pixels."""

import io

import numpy as np
import plotly.graph_objects as go
import pytest
from matplotlib.image import imread

from snnkit import viz
from snnkit.viz import figures, theme
from snnkit.viz.png import rgba


def pixels(figure, **size) -> np.ndarray:
    """[H, W, 4], values in [0, 1]."""
    return imread(io.BytesIO(viz.png_bytes(figure, **size)))


def where(image, colour) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the pixels of this colour."""
    near = np.abs(image[..., :3] - rgba(colour)[:3]).max(axis=-1) < 0.02
    rows, columns = np.nonzero(near & (image[..., 3] > 0.98))
    assert rows.size, f"nothing is {colour}"
    return rows, columns


def level(value):
    """Ten grey points and nothing blue but the knob."""
    figure = figures.lines({"a": [value] * 10}, title="t")
    return figure.update_traces(line={"color": theme.GREEN}, marker={"color": theme.GREEN})


@pytest.mark.parametrize("start", [0, 1, 4])
def test_a_slider_is_drawn_with_its_knob_in_place(start):
    figure = viz.frames(level, "gain", [1.0, 2.0, 3.0, 4.0, 5.0], start=start)
    image = pixels(figure)
    rows, columns = where(image, theme.BLUE)
    assert rows.min() > figure.layout.height - figure.layout.margin.b
    left, right = theme.MARGIN["l"], 700 - theme.MARGIN["r"]
    assert columns.mean() == pytest.approx(left + (right - left) * start / 4, abs=3)
    below = image[figure.layout.height - 50 :, :, 3]
    assert (below > 0.3).any()  # labels under the track


@pytest.mark.parametrize("play", [0, 500])
def test_the_outermost_labels_of_a_slider_are_whole(play):
    names = ["convolutional", "a little longer than wide"]
    figure = viz.frames(lambda _: level(1.0), "network", names, start=1, play=play)
    image = pixels(figure)
    assert (image[:, [0, -1], 3] == 0).all()
    (slider,) = figure.layout.sliders
    assert theme.MARGIN["r"] + slider.pad.r > 60  # plotly's: half of what 25 letters of 12 px take, and more
    assert bool(slider.pad.l) == bool(play)
    short = viz.frames(level, "gain", [1.0, 2.0], play=play).layout.sliders[0]
    assert not short.pad.l and not short.pad.r


def stack(mode):
    bars = [go.Bar(x=["p", "q"], y=[2, 1], name="low"), go.Bar(x=["p", "q"], y=[1, 3], name="high")]
    return go.Figure(bars).update_layout(barmode=mode).update_yaxes(range=[0, 4])


@pytest.mark.parametrize("mode", ["stack", "relative"])
def test_stacked_bars_stand_on_each_other(mode):
    image = pixels(stack(mode))
    low, high = where(image, theme.BLUE), where(image, theme.VERMILION)
    half = image.shape[1] // 2  # the plot's left half holds "p"
    of_p = lambda found: found[0][found[1] < half - 60]  # noqa: E731
    legend = theme.MARGIN["t"] + 60  # its samples have the same colours
    assert of_p(high)[of_p(high) > legend].max() <= of_p(low).min() + 1
    assert np.ptp(of_p(low)) == pytest.approx(2 * np.ptp(of_p(high)[of_p(high) > legend]), rel=0.05)


def test_bars_stand_on_a_logarithmic_axis():
    figure = go.Figure(go.Bar(x=[1, 2], y=[10, 1000])).update_yaxes(type="log", range=[0, 4])
    rows, columns = where(pixels(figure), theme.BLUE)
    heights = [np.ptp(rows[columns < 350]), np.ptp(rows[columns > 400])]
    assert heights[1] == pytest.approx(3 * heights[0], rel=0.05)


@pytest.mark.parametrize("below", [True, False])
def test_long_legend_entries_stay_on_the_page(below):
    names = [f"FastSigmoid(slope=25.0), number {i}" for i in range(5)]
    figure = figures.lines({name: [0, 1] for name in names})
    if below:
        figure.update_layout(legend=theme.LEGEND_BELOW, margin={"b": 160})
    image = pixels(figure)
    assert (image[:, -3:, 3] == 0).all()
    assert (image[:, :, 3] > 0.3).any()


def test_wide_tick_labels_push_the_plot_aside():
    figure = figures.lines({"a": [1, 2]}, y_title="a title beside them")
    figure.update_yaxes(tickvals=[1, 2], ticktext=["a very long label", "another"])
    assert (pixels(figure)[:, :2, 3] == 0).all()


def test_a_long_title_fits_the_page():
    figure = figures.lines({"a": [1, 2]}, title="a long title " * 9)
    assert (pixels(figure)[:, -3:, 3] == 0).all()


def test_bars_that_are_not_there_keep_their_colour_in_the_legend():
    def legend(*colours):
        bars = [go.Bar(x=[1], y=[1], name="some")]
        bars += [go.Bar(x=[], y=[], width=[], name="none", marker={"color": colour}) for colour in colours]
        return pixels(go.Figure(bars).update_layout(barmode="stack", showlegend=True))

    assert where(legend(theme.GREEN), theme.GREEN)[1].min() > 500
    assert where(legend([]), theme.PALETTE[1])[1].min() > 500
    plot, other = (image[60:, :500] for image in (legend(theme.GREEN), legend(theme.PURPLE)))
    assert (plot == other).all() and (np.abs(plot[..., :3] - rgba(theme.BLUE)[:3]).max(axis=-1) < 0.02).any()


def test_hollow_marks_are_hollow():
    def drawn(symbol):
        marks = go.Scatter(x=[0, 1], y=[0, 1], mode="markers")
        figure = go.Figure(marks.update(marker={"symbol": symbol, "size": 30, "color": theme.GREEN}))
        return pixels(figure.update_xaxes(visible=False).update_yaxes(visible=False))[..., 3] > 0.3

    full, hollow = drawn("square"), drawn("square-open")
    assert 0 < hollow.sum() < 0.3 * full.sum()
    assert np.ptp(np.nonzero(hollow)[1]) == pytest.approx(np.ptp(np.nonzero(full)[1]), abs=3)


def test_annotations_are_shifted_by_pixels():
    def at(**shift):
        figure = go.Figure(go.Scatter(x=[0, 1], y=[0, 1], mode="markers", marker={"color": theme.GREEN}))
        figure.add_annotation(x=0.5, y=0.5, text="█", showarrow=False, font={"color": theme.PURPLE}, **shift)
        rows, columns = where(pixels(figure), theme.PURPLE)
        return rows.mean(), columns.mean()

    (row, column), (moved_row, moved_column) = at(), at(xshift=20, yshift=10)
    assert moved_column - column == pytest.approx(20, abs=1) and row - moved_row == pytest.approx(10, abs=1)
