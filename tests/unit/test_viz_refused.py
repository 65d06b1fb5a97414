"""What figures refuse: each argument by name, with what it must be and what it is."""

import inspect
import math

import pytest
import torch

from snnkit import viz
from snnkit.hardware import roofline as model
from snnkit.hardware.scaling import Measured
from snnkit.surrogate import ATan
from snnkit.viz import figures
from snnkit.viz.alt import alt_text
from snnkit.viz.drawing import as_array
from snnkit.viz.figures import Marked, Run
from snnkit.viz.figures.matrices import verdict

from .every_figure import EXAMPLES, PARTS, T, V
from .test_viz_benchmarks import made, race, several

ZEROS, NAN = torch.zeros, math.nan
WORK = model.Work("w", 1, (), (), 0, 0, 0)
OPERATION = model.Operation("mul", "elementwise", "forward", reads=8, writes=4, numel=1)
RUN = Run("loop", 8e6, 1e8, 2e-2)
BILL = {"training": {"weights": 4e9}}
TABLE = {"HIDDEN": [8, 16], "status": ["ok", "ok"], "acc": [0.6, 0.8], "spikes": [10.0, 20.0]}
GROUPS = {"even": ["two", "four"], "odd": ["one"]}
# Function, arguments, options, error, what its message says.
REFUSED = [
    ("raster", [ZEROS(3, 2, 2)], {}, ValueError, r"spikes must be \[T, N\], but its shape is \[3, 2, 2\] \(pick one"),
    ("raster", [ZEROS(0, 2)], {}, ValueError, r"spikes must be \[T, N\] with no empty axis, but its shape is \[0, 2\]"),
    ("raster", [ZEROS(5, 3)], {"dt": 0}, ValueError, "dt must be greater than 0, but it is 0"),
    ("raster", [[["a", "b"]]], {}, TypeError, "spikes must hold numbers"),
    ("raster", [[[1], [1, 2]]], {}, TypeError, r"spikes must hold numbers in \[T, N\]"),
    ("raster", [torch.ones(2, 3, device="meta")], {}, ValueError, "spikes must hold numbers, .* on the meta device"),
    ("traces", [ZEROS(3, 2)], {}, ValueError, r"v must be \[T\]"),
    ("traces", [V, V[:5]], {}, ValueError, r"spikes\['membrane'\] must have 20 steps, but it has 5"),
    ("traces", [V], {"current": V[:5]}, ValueError, "current must have 20 steps, but it has 5"),
    ("traces", [{"a": V}, {"b": V}], {}, ValueError, r"spikes must hold names of v \(a\), but it holds b"),
    ("traces", [{}], {}, ValueError, "v must hold at least one"),
    ("membrane_and_raster", [ZEROS(5), ZEROS(6, 2)], {}, ValueError, "v must have 6 steps, but it has 5"),
    ("membrane_and_raster", [ZEROS(5), ZEROS(5)], {}, ValueError, r"spikes must be \[T, N\]"),
    ("gallery", [{}], {}, ValueError, "runs must hold at least one"),
    ("gallery", [{"a": (V, V)}], {"columns": 0}, ValueError, "columns must be at least 1, but it is 0"),
    ("gallery", [{"a": (ZEROS(3), ZEROS(4))}], {}, ValueError, "spikes of a must have 3 steps, but it has 4"),
    ("rate_histogram", [{}], {}, ValueError, "spikes must hold at least one layer"),
    (
        "rate_histogram",
        [[0.5, 1.5]],
        {},
        ValueError,
        r"rates in \[0, 1\] spikes per step, but it reaches from 0.5 to 1.5",
    ),
    ("rate_histogram", [ZEROS(5, 3)], {"saturated": 1.5}, ValueError, "saturated must be at most 1, but it is 1.5"),
    ("rate_histogram", [ZEROS(5, 3)], {"bins": 2.5}, TypeError, "bins must be an integer, but it is 2.5"),
    ("population_statistics", [[V], ZEROS(3)], {}, TypeError, "statistics must be a named tuple"),
    ("lines", [{}], {}, ValueError, "series must hold at least one"),
    ("lines", [{"a": [1.0]}], {"x": [1, 2]}, ValueError, r"series\['a'\] must have 2 values, one per x, but it has 1"),
    ("lines", [{"a": [[1.0]]}], {}, ValueError, r"series\['a'\] must be \[P\]"),
    ("lines", [{"a": [1]}], {"log": "z"}, ValueError, "log must be"),
    ("lines", [{"a": [1]}], {"shape": "spline"}, ValueError, "shape must be one of 'linear', 'hv', but it is 'spline'"),
    ("lines", [{"a": [1]}], {"levels": {"b": 0}, "log": "y"}, ValueError, r"levels\['b'\] must be greater than 0"),
    ("lines", [{"a": [1]}], {"marks": {"b": "c"}}, TypeError, r"marks\['b'\] must be a number, but it is 'c'"),
    ("lines", [torch.ones(2, 3)], {}, TypeError, r"series must be a dict of .*, but it is a Tensor of shape \[2, 3\]"),
    ("surrogate_curves", [[]], {}, ValueError, "at least one surrogate"),
    ("surrogate_curves", [[ATan()]], {"limit": 0}, ValueError, "limit must be"),
    ("surrogate_curves", [{"a": 3}], {}, TypeError, r"surrogates\['a'\] must have derivative\(u\), but it is 3"),
    ("training_curves", [{}], {}, ValueError, "history must hold at least one"),
    ("training_curves", [{"train_loss": []}], {}, ValueError, "history must hold at least one"),
    ("confusion", [ZEROS(2, 3)], {}, ValueError, r"matrix must be square \[C, C\], but its shape is \[2, 3\]"),
    ("confusion", [[[-1]]], {}, ValueError, "matrix must hold finite counts"),
    ("confusion", [ZEROS(2, 2)], {"labels": ["a"]}, ValueError, "labels must have 2 names, but it has 1"),
    ("similarity", [torch.rand(2, 3), GROUPS], {}, ValueError, "groups must have 2 names, but it has 3"),
    ("similarity", [torch.rand(2, 3), {"a": "bc"}], {}, TypeError, r"groups\['a'\] must be a list of names"),
    ("verdicts", [{}, [1], [1]], {}, ValueError, "ratios must hold at least one"),
    ("verdicts", [{"one": [[(1, 2)]]}, [1, 2], [1]], {}, ValueError, r"'one' must have 1 rows of 2, but it has \[1\]"),
    ("image_grid", [ZEROS(2, 3, 4, 4)], {}, ValueError, r"images must be \[N, H, W\]"),
    ("image_grid", [ZEROS(2, 4, 4), [1]], {}, ValueError, "labels must hold 2 labels, one per image, but it holds 1"),
    ("image_grid", [ZEROS(2, 4, 4)], {"columns": 0}, ValueError, "columns must be at least 1"),
    ("feature_maps", [ZEROS(2, 4, 5)], {}, ValueError, r"spikes must be \[T, C, H, W\]"),
    ("feature_maps", [ZEROS(1, 2, 4, 5)], {"names": ["one"]}, ValueError, "names must have 2 names"),
    ("weights", [ZEROS(2, 6), (2, 2)], {}, ValueError, r"shape must be \(H, W\) with H · W = 6, but it is \(2, 2\)"),
    ("weights", [ZEROS(2, 6), (6,)], {}, ValueError, "shape must be"),
    ("weights", [ZEROS(2, 6), (2, 3)], {"most": True}, TypeError, "most must be an integer"),
    (
        "inference",
        [ZEROS(8, 8), ZEROS(5, 6), ZEROS(4, 3)],
        {},
        ValueError,
        "hidden must have as many steps as output, 4",
    ),
    ("inference", [ZEROS(8, 8), ZEROS(4, 6), ZEROS(4, 3), 3], {}, ValueError, "label must be at most 2, but it is 3"),
    ("inference", [ZEROS(1, 8, 8), ZEROS(4, 6), ZEROS(4, 3)], {}, ValueError, r"image must be \[H, W\]"),
    ("coded_image", [ZEROS(2, 2), ZEROS(3, 5), ZEROS(2, 2)], {}, ValueError, "spikes must have the pixels of image"),
    ("coded_image", [ZEROS(2, 2), ZEROS(3, 4), ZEROS(2, 3)], {}, ValueError, "decoded must have the pixels of image"),
    ("coded_signal", [ZEROS(4), ZEROS(3), {}], {}, ValueError, "'spikes' must have 4 steps, but it has 3"),
    ("compared_spikes", [ZEROS(3), ZEROS(2, 4), ZEROS(2, 3)], {}, ValueError, r"yours must be \[T, 3\]"),
    ("rate_against_brightness", [ZEROS(3), ZEROS(2), 10], {}, ValueError, "rate must have 3 values, one per pixel"),
    ("rate_against_brightness", [ZEROS(3), ZEROS(3), 0], {}, ValueError, "steps must be at least 1"),
    ("event_cloud", [ZEROS(2, 3, 4, 4)], {}, ValueError, r"channels ON and OFF, but its shape is \[2, 3, 4, 4\]"),
    ("event_cloud", [ZEROS(2, 2, 4, 4)], {"most": 0}, ValueError, "most must be at least 1, but it is 0"),
    ("number_lines", [0], {}, ValueError, "value must be greater than 0"),
    ("number_lines", [math.inf], {}, ValueError, "value must be finite"),
    ("number_lines", [1.0], {"width": 2}, ValueError, "width must be at most 1"),
    ("number_lines", [1.0], {"formats": ()}, ValueError, "formats must hold at least one name"),
    ("number_lines", [1.0], {"formats": ["int8"]}, TypeError, "dtype must be a floating-point format .*'int8'"),
    ("spacing", [[0.0], "float16"], {}, ValueError, "values must be positive and finite"),
    ("magnitudes", [{}], {}, ValueError, "at least one number different from zero"),
    ("magnitudes", [{"g": ZEROS(3)}], {}, ValueError, "at least one number different from zero"),
    ("magnitudes", [{"g": V}], {"scale": math.inf}, ValueError, "scale must be finite"),
    ("magnitudes", [{"g": V}], {"dtype": torch.int8}, TypeError, "dtype must be"),
    ("magnitudes", [{"g": V.long()}], {}, TypeError, r"values\['g'\] must be a floating-point tensor, .* torch.int64"),
    ("magnitudes", [{"g": V}], {"span": (2, 1)}, ValueError, r"span must have low < high, but it is \(2, 1\)"),
    ("shares", [{"a": {}}], {}, ValueError, "wholes must hold at least one bar with at least one part"),
    ("shares", [{"a": {"x": -1.0}}], {}, ValueError, "'x' of 'a' must be at least 0, but it is -1.0"),
    ("shares", [{"a": {"x": NAN}}], {}, ValueError, "'x' of 'a' must be finite"),
    ("memory_bars", [{}], {}, ValueError, "at least one bar"),
    ("memory_bars", [BILL, {"a T4": 0}], {}, ValueError, r"limits\['a T4'\] must be greater than 0, but it is 0"),
    ("spans", [{"rank 0": []}], {}, ValueError, "lanes must hold at least one"),
    ("spans", [{"rank 0": [("forward", 2.0, 1.0)]}], {}, ValueError, "'forward' of 'rank 0' must end after it begins"),
    ("spans", [{"rank 0": [("forward", NAN, 1.0)]}], {}, ValueError, "start of 'forward' of 'rank 0' must be finite"),
    ("spans", [{"rank 0": [3]}], {}, TypeError, r"lanes\['rank 0'\] must hold \(what, start, end\), but it holds 3"),
    ("supersteps", [WORK, []], {}, ValueError, "at least one operation"),
    ("supersteps", [WORK, [OPERATION]], {"tiles": 1473}, ValueError, "tiles must be at most 1472, but it is 1473"),
    ("roofline", [[], 1e9, 1e9], {}, ValueError, "runs must hold"),
    ("roofline", [[3], 1e9, 1e9], {}, TypeError, "runs must be a viz.figures.Run, but it is 3"),
    ("roofline", [[RUN], 0.0, 1e9], {}, ValueError, "bandwidth must be greater than 0, but it is 0.0"),
    ("roofline", [[RUN._replace(seconds=0.0)], 1e9, 1e9], {}, ValueError, "seconds of 'loop' must be greater than 0"),
    ("roofline", [[RUN], 1e9, 1e9], {"span": (2, 1)}, ValueError, "span must have low < high"),
    ("roofline", [[RUN], 1e9, 1e9], {"span": (1, NAN)}, ValueError, "an end of span must be finite"),
    ("marked", [[], "ms"], {}, ValueError, "at least one Marked"),
    ("marked", [[Marked("a", "guessed", 1.0)], "ms"], {}, ValueError, "mark must be one of .*'guessed'"),
    ("marked", [[Marked("a", "measured", 0.0)], "ms"], {}, ValueError, "'a' must be greater than 0"),
    ("marked", [[Marked("a", "published", None)], "ms"], {}, ValueError, "'a' must have a value"),
    ("marked", [[Marked("a", "measured", NAN, 1.0, 2.0)], "ms"], {}, ValueError, "'a' must be finite"),
    ("marked", [[Marked("a", "measured", 3.0, 1.0, 2.0)], "ms"], {}, ValueError, "'a' must have low <= value <= high"),
    ("scaling_efficiency", [], {}, ValueError, "something to draw"),
    ("scaling_efficiency", [[Measured(2, 0.1)]], {}, ValueError, "measured must hold one rank alone"),
    ("scaling_efficiency", [[0.1]], {}, TypeError, "measured must be a hardware.scaling.Measured, but it is 0.1"),
    ("pareto", [TABLE], {"maximise": "acc"}, ValueError, r"two columns in all, but they name \['acc'\]"),
    ("pareto", [TABLE], {"maximise": "accuracy", "minimise": "spikes"}, ValueError, "maximise must name a column"),
    ("pareto", [TABLE], {"maximise": "status", "minimise": "spikes"}, TypeError, "'status' must hold numbers"),
    (
        "pareto",
        [TABLE],
        {"maximise": "acc", "minimise": "spikes", "seeds": "S"},
        ValueError,
        "seeds must name a column",
    ),
    ("pareto", [{"m": [1.0, NAN], "n": [None, 1.0]}], {"maximise": "m", "minimise": "n"}, ValueError, "but none has"),
    ("pareto", [[1, 2]], {"maximise": "m", "minimise": "n"}, TypeError, "table must be a DataFrame, or a dict"),
    ("pareto", [{"m": [1.0], "n": [1, 2]}], {"maximise": "m", "minimise": "n"}, ValueError, "equally long"),
    ("races", [[]], {}, ValueError, "at least one record"),
    ("races", [3], {}, TypeError, "records must be a record or a list of records, but it is 3"),
    ("races", [race() | {"provenance": {}}], {}, ValueError, "where their numbers come from"),
    ("races", [race()], {"neurons": 3}, ValueError, r"no row has neurons 3 and dtype 'float32'; there are \(1048576"),
    ("races", [race()], {"dtype": "float16"}, ValueError, "no row has dtype 'float16'; there are .*'float32'"),
    ("per_neuron_step", [[several()]], {"dtype": "int8"}, ValueError, "no record has rows of dtype 'int8'"),
    ("comparison", [made() | {"kind": "training"}], {}, ValueError, "kind 'compare', but one is of kind 'training'"),
    ("comparison", [made()], {"dtype": "float16"}, ValueError, "no row has dtype 'float16'; there are 'float32'"),
    ("comparison", [made() | {"rows": []}], {}, ValueError, "there are none"),
]


@pytest.mark.parametrize(
    ("name", "arguments", "options", "error", "message"), REFUSED, ids=[f"{row[0]}: {row[4]}" for row in REFUSED]
)
def test_a_bad_argument_is_refused_by_name(name, arguments, options, error, message):
    with pytest.raises(error, match=message):
        getattr(figures, name)(*arguments, **options)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: verdict(2.0, 1.0), ValueError, "a ratio must have 0 <= low <= high"),
        (lambda: verdict(0.5, NAN), ValueError, "a ratio must have 0 <= low <= high"),
        (lambda: viz.listing({}), ValueError, "texts must hold"),
        (lambda: viz.listing({"a": ("b", "cobol")}), ValueError, "one of 'text', 'python', 'cpp', but it is 'cobol'"),
        (lambda: viz.module_tree([1]), TypeError, r"module must be a torch\.nn\.Module, but it is \[1\]"),
        (lambda: viz.module_tree(torch.nn.ReLU(), (V, 3)), TypeError, r"state must hold tensors, .* but it holds 3"),
        (lambda: viz.module_tree(torch.nn.ReLU()).bytes("w"), ValueError, "kind must be one of None, 'parameter'"),
        (lambda: viz.layer_costs(torch.nn.ReLU(), V), TypeError, r"net must be a snnkit\.nn\.Sequential"),
        (lambda: viz.show(3), TypeError, "figure must be a plotly Figure, but it is 3"),
        (lambda: as_array([["a"]], "x", "[T, N]"), TypeError, "x must hold numbers"),
    ],
)
def test_so_is_one_of_what_is_beside_figures(call, error, message):
    with pytest.raises(error, match=message):
        call()


HOSTILE = {
    "text": "<b>x</b>",
    "nan": NAN,
    "holes": torch.tensor([[1.0, NAN], [-math.inf, math.inf]]),
    "meta": ZEROS(5, 3, device="meta"),
    "ragged": [[1], [1, 2]],
    "dict": {"a": torch.full((5,), NAN)},
}


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - PARTS))
def test_whatever_an_argument_is_it_is_refused_in_words_or_drawn(name, monkeypatch):
    draw, good = getattr(figures, name), {}

    def spy(*positional, **named):
        good.update(inspect.signature(draw).bind(*positional, **named).arguments)
        return draw(*positional, **named)

    monkeypatch.setattr(figures, name, spy)
    EXAMPLES[name]()
    assert good and T
    for parameter in inspect.signature(draw).parameters:
        if parameter == "title":  # plotly's own to complain about
            continue
        for value in HOSTILE.values():
            try:
                figure = draw(**(good | {parameter: value}))
            except (TypeError, ValueError) as error:
                assert str(error) and "ambiguous" not in str(error), parameter
            else:
                assert alt_text(figure)
