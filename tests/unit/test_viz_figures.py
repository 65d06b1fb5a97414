import struct
import zlib

import numpy as np
import plotly.graph_objects as go
import pytest
import torch

from snnkit import viz
from snnkit.surrogate import ATan, FastSigmoid
from snnkit.viz import figures

T, N = 20, 6
SPIKES = (torch.arange(T * N).reshape(T, N) % 5 == 0).float()
V = torch.linspace(0, 1, T)
HISTORY = {
    "train_loss": [2.0, 1.0],
    "test_loss": [2.1, 1.2],
    "train_accuracy": [0.5, 0.9],
    "test_accuracy": [0.4, 0.8],
    "output_rate": [0.1, 0.2],
}
GALLERY = {
    "raster": lambda: figures.raster(SPIKES, dt=1e-3),
    "traces": lambda: figures.traces(V, SPIKES[:, 0], threshold=0.9, current=V, dt=1e-3),
    "traces by name": lambda: figures.traces({"a": V, "b": V / 2}, {"b": SPIKES[:, 1]}),
    "surrogates": lambda: figures.surrogate_curves([ATan(), FastSigmoid()]),
    "rates": lambda: figures.rate_histogram(SPIKES, dt=1e-3),
    "f-I": lambda: figures.f_i_curve(V, {"LIF": V, "IF": V * 2}),
    "training": lambda: figures.training_curves(HISTORY, epochs=5),
    "confusion": lambda: figures.confusion(torch.eye(4) * 7 + 1),
    "images": lambda: figures.image_grid(torch.zeros(10, 1, 8, 8, dtype=torch.uint8), torch.arange(10), columns=4),
    "counts": lambda: figures.spike_counts(SPIKES),
    "frames": lambda: viz.frames(lambda k: figures.traces(V * k), "k", [1.0, 2.0]),
}


def pixels(png: bytes) -> np.ndarray:
    """[H, W, 4] of an 8-bit RGBA PNG, through matplotlib's reader."""
    import io

    from matplotlib.image import imread

    return imread(io.BytesIO(png))


@pytest.mark.parametrize("name", GALLERY)
def test_each_figure_is_valid_titled_and_drawn(name):
    figure = GALLERY[name]()
    assert isinstance(figure, go.Figure) and figure.layout.title.text
    kinds = {trace.type for trace in figure.data}
    assert kinds <= {"scatter", "scattergl", "heatmap", "bar", "scatter3d"}
    go.Figure(figure.to_dict())  # every property passes the validators again
    png = viz.png_bytes(figure)
    assert png[:8] == b"\x89PNG\r\n\x1a\n" and len(png) < 60_000
    wide, high = struct.unpack(">II", png[16:24])
    assert (wide, high) == (700, figure.layout.height)
    image = pixels(png)
    assert image[..., 3].min() == 0  # the page shows through
    inked = image[..., 3] > 0.3
    assert inked.mean() > 0.003 and len(np.unique(image[inked].round(1), axis=0)) > 4
    assert zlib.crc32(viz.png_bytes(figure)) == zlib.crc32(png)


@pytest.mark.parametrize("name", [n for n in GALLERY if n not in ("images",)])
def test_axes_are_named(name):
    figure = GALLERY[name]()
    assert figure.layout.yaxis.title.text or figure.layout.annotations
    axes = [figure.layout[key] for key in figure.layout if key.startswith("xaxis")]
    assert any(axis.title.text for axis in axes)


def test_raster_draws_every_spike_in_its_place():
    figure = figures.raster(SPIKES, dt=2e-3)
    when, who = np.nonzero(SPIKES.numpy())
    np.testing.assert_allclose(figure.data[0].x, when * 2.0, rtol=1e-6)
    np.testing.assert_array_equal(figure.data[0].y, who)
    assert figure.layout.xaxis.title.text == "time (ms)"
    assert figures.raster(SPIKES).layout.xaxis.title.text == "time step"
    assert figures.raster(torch.ones(100, 60)).data[0].type == "scattergl"
    assert "0 of 120" in figures.raster(torch.zeros(T, N)).layout.title.text


def test_traces_mark_spikes_above_the_threshold():
    figure = figures.traces(V, SPIKES[:, 0], threshold=3.0)
    marks = next(t for t in figure.data if t.mode == "markers")
    np.testing.assert_array_equal(marks.x, np.nonzero(SPIKES[:, 0].numpy())[0])
    assert min(marks.y) > 3.0
    line = next(t for t in figure.data if t.name == "threshold")
    assert tuple(line.y) == (3.0, 3.0)


def test_lines_of_one_panel_differ_in_more_than_colour():
    figure = figures.traces({"a": V, "b": V, "c": V})
    assert len({t.line.dash for t in figure.data}) == 3
    figure = figures.f_i_curve(V, {"a": V, "b": V})
    assert len({t.marker.symbol for t in figure.data}) == 2


def test_surrogate_curves_are_the_surrogates_functions():
    figure = figures.surrogate_curves({"atan": ATan()}, limit=1.0, points=5)
    u = torch.linspace(-1, 1, 5)
    primitive, derivative = (t for t in figure.data if t.name == "atan")
    np.testing.assert_allclose(primitive.y, ATan().primitive(u), rtol=1e-5)
    np.testing.assert_allclose(derivative.y, ATan().derivative(u), rtol=1e-5)

    class Bare:
        def derivative(self, u):
            return u

        def primitive(self, u):
            raise TypeError("Bare defines no primitive")

    assert [t.name for t in figures.surrogate_curves({"bare": Bare()}).data] == ["step", "bare"]


def test_training_curves_take_histories_and_leave_out_what_is_missing():
    from snnkit.train.history import History

    history = History(train_loss=[1.0], train_accuracy=[0.25], output_rate=[0.1])
    figure = figures.training_curves(history, epochs=7)
    assert [t.name for t in figure.data] == ["train", "train", "output"]
    assert figure.data[1].y[0] == 25
    assert figure.layout.xaxis.range[1] > 7
    rates = figures.training_curves({"train_loss": [1.0], "rates": {"hidden": [0.1], "out": [0.2]}})
    assert [t.name for t in rates.data] == ["train", "hidden", "out"]


def test_confusion_shows_counts_and_the_share_that_is_right():
    figure = figures.confusion([[8, 2], [0, 10]], labels=["cat", "dog"])
    assert "90.0 % right" in figure.layout.title.text
    np.testing.assert_allclose(figure.data[0].z, [[80, 20], [0, 100]])
    assert [n.text for n in figure.layout.annotations] == ["8", "2", "10"]


def test_image_grid_places_each_image_under_its_label():
    images = torch.arange(1, 4).reshape(3, 1, 1).expand(3, 4, 4)
    figure = figures.image_grid(images, ["a", "b", "c"], columns=2)
    canvas = np.asarray(figure.data[0].z)
    assert [n.text for n in figure.layout.annotations] == ["a", "b", "c"]
    assert {1, 2, 3} <= set(np.unique(canvas))
    for value, note in zip((1, 2, 3), figure.layout.annotations, strict=True):
        rows, columns = np.nonzero(canvas == value)
        assert columns.mean() == note.x and rows.min() == note.y + 0.5


def test_spike_counts_add_up():
    figure = figures.spike_counts(SPIKES)
    np.testing.assert_array_equal(np.asarray(figure.data[0].z)[:, -1], SPIKES.sum(0))
    assert "no output neuron" in figures.spike_counts(torch.zeros(3, 2)).layout.title.text


def test_dtypes_and_graphs_are_no_obstacle():
    for spikes in (SPIKES.bool(), SPIKES.bfloat16(), SPIKES.numpy(), SPIKES.requires_grad_()):
        assert len(figures.raster(spikes).data[0].x) == 24


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: figures.raster(torch.zeros(3, 2, 2)), r"spikes must be \[T, N\].*pick one sample"),
        (lambda: figures.raster(torch.zeros(0, 2)), "nothing empty"),
        (lambda: figures.raster(SPIKES, dt=0), "dt must be a positive"),
        (lambda: figures.traces(torch.zeros(3, 2)), r"v must be \[T\]"),
        (lambda: figures.traces(V, V[:5]), "has 5 steps"),
        (lambda: figures.traces(V, current=V[:5]), "current has 5 steps"),
        (lambda: figures.traces({"a": V}, {"b": V}), "spikes holds b, but v holds a"),
        (lambda: figures.traces({}), "at least one"),
        (lambda: figures.surrogate_curves([]), "at least one surrogate"),
        (lambda: figures.surrogate_curves([ATan()], limit=0), "limit must be"),
        (lambda: figures.f_i_curve(V, V[:3]), "has 3 values"),
        (lambda: figures.training_curves({}), "history must hold at least one"),
        (lambda: figures.training_curves({"train_loss": []}), "history must hold at least one"),
        (lambda: figures.confusion(torch.zeros(2, 3)), "square"),
        (lambda: figures.confusion(torch.zeros(2, 2), labels=["a"]), "labels must hold 2"),
        (lambda: figures.image_grid(torch.zeros(2, 3, 4, 4)), r"images must be \[N, H, W\]"),
        (lambda: figures.image_grid(torch.zeros(2, 4, 4), [1]), "one per image"),
        (lambda: figures.image_grid(torch.zeros(2, 4, 4), columns=0), "columns must be"),
        (lambda: figures.spike_counts(SPIKES, labels=["a"]), "labels must hold 6"),
        (lambda: viz.frames(lambda k: go.Figure(), "k", []), "values must hold 1 to 60"),
        (lambda: viz.frames(lambda k: go.Figure(), "k", [1], start=1), "start must be an index"),
        (lambda: viz.frames(lambda k: figures.traces({str(i): V for i in range(k)}), "k", [1, 2]), "same number"),
    ],
)
def test_bad_input_is_named(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_text_is_refused():
    with pytest.raises(TypeError, match="spikes must hold numbers"):
        figures.raster([["a", "b"]])
    with pytest.raises(TypeError, match="must return a plotly Figure"):
        viz.frames(lambda k: k, "k", [1])


def test_frames_need_no_kernel_and_fix_the_axes():
    figure = viz.frames(lambda k: figures.traces(V * k, threshold=k), "gain", [1.0, 2.0, 4.0], start=1)
    slider = figure.layout.sliders[0]
    assert [step.label for step in slider.steps] == ["1", "2", "4"] and slider.active == 1
    assert [step.args[0][0] for step in slider.steps] == [frame.name for frame in figure.frames]
    np.testing.assert_allclose(figure.frames[2].data[0].y, V * 4)
    low, high = figure.layout.yaxis.range
    assert low < 0 and high > 4
    assert figure.data[0].y[-1] == 2


def test_each_frame_carries_the_height():
    """In a page that follows its container, JupyterLab lets a plot collapse when a frame says nothing of its height."""
    figure = viz.frames(lambda k: figures.traces(V * k), "gain", [1.0, 2.0])
    assert figure.layout.height > figures.traces(V).layout.height
    assert [frame.layout.height for frame in figure.frames] == [figure.layout.height] * 2


def test_frames_of_different_lengths_share_an_axis_that_holds_all():
    figure = viz.frames(lambda steps: figures.raster(torch.ones(steps, 2)), "T", [4, 10, 6])
    assert figure.layout.xaxis.range == (-0.5, 9.5)
    grid = viz.frames(lambda k: figures.image_grid(torch.ones(2, 4, 4) * k), "k", [1, 2])
    assert grid.layout.yaxis.range[0] > grid.layout.yaxis.range[1]  # images keep their top at the top


def test_slider_room_is_added_below_whatever_the_margin():
    for make in (lambda k: figures.traces(V * k), lambda k: figures.image_grid(torch.ones(2, 4, 4) * k)):
        alone, slid = make(1), viz.frames(make, "k", [1, 2])
        bottom = alone.layout.margin.b if alone.layout.margin.b is not None else viz.theme.MARGIN["b"]
        assert slid.layout.margin.b - bottom == slid.layout.height - alone.layout.height > 60


def test_time_steps_have_whole_ticks():
    for steps in (1, 2, 5, 12):
        for figure in (figures.raster(torch.ones(steps, 3)), figures.traces(torch.ones(steps))):
            assert all(tick % 1 == 0 for tick in figure.layout.xaxis.tickvals)


def test_every_public_figure_is_in_the_namespace():
    names = {name for name in vars(figures) if not name.startswith("_")}
    assert {"lines", "gallery", "inference", "coded_image", "membrane_and_raster", "image_grid", "raster"} <= names
    for name in names:
        assert callable(getattr(figures, name)) and getattr(figures, name).__doc__


def test_no_public_function_hides_its_module():
    import pkgutil

    modules = {module.name for module in pkgutil.iter_modules(viz.__path__)}
    assert not {name for name in modules if callable(getattr(viz, name, None))}


def test_the_theme_is_plotlys_default_and_small():
    import plotly.io as pio

    assert pio.templates.default == "snnkit"
    assert len(go.Figure().to_json()) < 1700
