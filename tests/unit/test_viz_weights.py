"""Weights: matrices, receptive fields, kernels."""

import numpy as np
import pytest
import torch

from snnkit import viz
from snnkit.viz import theme
from snnkit.viz.figures import weights

MATRIX = torch.tensor([[0.5, -2.0, 0.0], [1.0, 0.25, -0.25]])


def cells(figure):
    (heat,) = figure.data
    return np.asarray(heat.z)


def test_a_small_matrix_has_its_numbers_in_its_cells():
    figure = weights(MATRIX, title="W")
    np.testing.assert_array_equal(cells(figure), MATRIX)
    assert (figure.data[0].zmin, figure.data[0].zmax) == (-2, 2)
    written = {(n.x, n.y): n.text for n in figure.layout.annotations}
    assert written[1, 0] == "−2" and written[2, 1] == "−0.25" and len(written) == 6
    assert figure.layout.title.text == "W: −2 to 1, 33% below 0"
    assert figure.layout.yaxis.title.text == "to neuron (out)" and figure.layout.xaxis.title.text == "from neuron (in)"


def test_numbers_are_readable_on_their_cells():
    figure = weights(torch.linspace(-1, 1, 100).view(10, 10))
    heat = figure.data[0]
    for note in figure.layout.annotations:
        share = (cells(figure)[int(note.y), int(note.x)] / heat.zmax + 1) / 2
        cell = theme.colour_at([tuple(stop) for stop in heat.colorscale], float(share))
        assert theme.contrast(note.font.color, cell) >= 4.5


def test_zero_is_clear_and_the_two_signs_differ():
    scale = dict(weights(torch.zeros(20, 20)).data[0].colorscale)
    assert scale[0.5].endswith(",0)") and scale[0.0] != scale[1.0]
    assert weights(torch.zeros(20, 20)).data[0].zmax == 1


def test_of_a_large_matrix_every_kth_neuron_is_drawn():
    matrix = torch.arange(600 * 784.0).view(600, 784)
    figure = weights(matrix)
    drawn = cells(figure)
    assert drawn.size <= 12_000 and figure.layout.title.text.endswith("every 7th neuron")
    np.testing.assert_array_equal(drawn[1], matrix[7, ::7])
    assert list(figure.data[0].y[:3]) == [0, 7, 14]
    assert len(figure.to_json()) < 150_000


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
    assert viz.png_bytes(figure).startswith(b"\x89PNG")


def test_kernels_stand_in_rows_of_out_and_columns_of_in():
    kernels = torch.arange(3 * 2 * 2 * 2.0).view(3, 2, 2, 2) + 1
    figure = weights(kernels)
    drawn, (x, y) = cells(figure), (figure.layout.xaxis, figure.layout.yaxis)
    assert x.ticktext == ("0", "1") and y.ticktext == ("0", "1", "2")
    assert x.title.text == "from channel (in)" and y.title.text == "to channel (out)"
    for out, up in enumerate(y.tickvals):
        for into, across in enumerate(x.tickvals):
            part = drawn[int(up - 0.5) : int(up + 1.5), int(across - 0.5) : int(across + 1.5)]
            np.testing.assert_array_equal(part, kernels[out, into])
    assert "2 × 2 of 3 × 2 kernels" in weights(kernels, most=2).layout.title.text


def test_kernels_of_one_input_channel_stand_side_by_side():
    figure = weights(torch.randn(16, 1, 3, 3), most=10)
    assert {note.text for note in figure.layout.annotations} == {f"kernel {i}" for i in range(10)}
    assert figure.layout.title.text.endswith("10 of 16 kernels")
    assert figure.layout.height < 400


def test_no_picture_is_taller_than_a_page():
    for out, into in ((64, 64), (64, 2), (2, 64)):
        assert weights(torch.randn(out, into, 5, 5)).layout.height < 700


def test_weights_that_are_not_finite_leave_holes_and_are_counted():
    figure = weights([[1.0, float("nan")], [float("inf"), -3.0]])
    assert np.isnan(cells(figure)).sum() == 2 and figure.data[0].zmax == 3
    assert "2 not finite" in figure.layout.title.text and len(figure.layout.annotations) == 2
    assert "1 not finite" in weights([[float("nan")]]).layout.title.text
    assert viz.png_bytes(figure).startswith(b"\x89PNG")


def test_parameters_on_a_graph_and_half_precision_are_no_obstacle():
    layer = torch.nn.Linear(4, 3)
    np.testing.assert_array_equal(cells(weights(layer.weight)), layer.weight.detach())
    assert cells(weights(layer.weight.bfloat16())).shape == (3, 4)


@pytest.mark.parametrize(
    ("matrix", "options", "words"),
    [
        (torch.zeros(3), {}, r"matrix must be \[out, in\], not of shape \(3,\)"),
        (torch.zeros(3, 2, 2), {}, r"matrix must be \[out, in\]"),
        (torch.zeros(0, 2), {}, "nothing empty"),
        (torch.zeros(2, 6), {"shape": (2, 2)}, r"shape must be \(H, W\) with H \* W = 6, not \(2, 2\)"),
        (torch.zeros(2, 6), {"shape": (6,)}, "shape must be"),
        (torch.zeros(2, 2, 3, 3), {"shape": (3, 3)}, "shape must be None for kernels"),
        (torch.zeros(2, 2), {"most": 0}, "most must be a whole number of at least 1, not 0"),
        (torch.zeros(2, 2), {"most": True}, "most must be"),
    ],
)
def test_what_is_refused(matrix, options, words):
    with pytest.raises(ValueError, match=words):
        weights(matrix, **options)


def test_text_is_refused():
    with pytest.raises(TypeError, match="matrix must hold numbers"):
        weights([["a", "b"]])
