"""The front: against the definition, point by point; and the figure of it."""

from __future__ import annotations

import numpy as np
import polars
import pytest

from snnkit.viz import figures
from snnkit.viz.pareto import undominated


def by_definition(costs):
    """Rows that no other row beats: nowhere worse and somewhere better."""
    return {
        i for i, own in enumerate(costs)
        if not any((other <= own).all() and (other < own).any() for other in costs)
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(8))
def test_undominated_is_what_the_definition_says(seed):
    generator = np.random.default_rng(seed)
    costs = generator.integers(0, 12, (60, 2)).astype(float)  # few values: ties in one column and in both
    found = undominated(costs)
    assert set(found.tolist()) == by_definition(costs) and len(set(found.tolist())) == len(found)
    assert (np.diff(costs[found, 0]) >= 0).all()


def test_equal_rows_are_both_on_the_front():
    assert undominated(np.array([[1.0, 1.0], [1.0, 1.0], [2.0, 1.0]])).tolist() == [0, 1]
    assert undominated(np.empty((0, 2))).tolist() == []


TABLE = {
    "HIDDEN": [8, 8, 16, 16, 32, 32, 64],
    "SEED": [0, 1, 0, 1, 0, 1, 0],
    "status": ["ok"] * 6 + ["failed"],
    "acc": [0.6, 0.8, 0.9, 0.8, 0.7, 0.7, 1.0],
    "spikes": [10.0, 20.0, 30.0, None, 40.0, 60.0, 1.0],
}


def traces(figure):
    return {trace.name: list(zip(trace.x, trace.y, strict=True)) for trace in figure.data}


def test_rows_without_a_number_or_of_failed_runs_are_left_out():
    figure = figures.pareto(polars.DataFrame(TABLE), maximise="acc", minimise="spikes")
    found = traces(figure)
    assert found["front: runs none beats"] == [(10, 0.6), (20, 0.8), (30, 0.9)]
    assert found["runs that others beat"] == [(40, 0.7), (60, 0.7)]
    assert figure.layout.xaxis.title.text == "spikes (less is better)"
    assert figure.layout.yaxis.title.text == "acc (more is better)"
    assert figure.data[-1].customdata[2] == "HIDDEN = 16<br>SEED = 0"
    assert figure.data[-1].line.shape == "hv"


def test_over_seeds_the_front_is_of_the_means():
    figure = figures.pareto(TABLE, maximise="acc", minimise="spikes", seeds="SEED", log="x")
    found = traces(figure)
    assert found["front: means none beats"] == [(15, pytest.approx(0.7)), (30, 0.9)]
    assert found["means that others beat"] == [(50, pytest.approx(0.7))]
    assert len(found["single runs"]) == 5 and figure.layout.xaxis.type == "log"
    assert "HIDDEN = 8<br>mean of 2" in figure.data[-1].customdata


@pytest.mark.parametrize(
    ("keys", "front"),
    [
        ({"maximise": ["acc", "spikes"]}, [(0.7, 60), (0.9, 30)]),
        ({"minimise": ["acc", "spikes"]}, [(0.6, 10)]),
        ({"maximise": "spikes", "minimise": "acc"}, [(0.6, 10), (0.7, 60)]),
    ],
)
def test_either_direction_of_either_column(keys, front):
    found = traces(figures.pareto(TABLE, **keys))["front: runs none beats"]
    assert sorted((round(float(x), 3), round(float(y), 3)) for x, y in found) == front


@pytest.mark.parametrize(
    ("keys", "error", "says"),
    [
        ({"maximise": "acc"}, ValueError, r"must name two columns in all, but they name \['acc'\]"),
        ({"maximise": "acc", "minimise": "acc"}, ValueError, "two columns in all"),
        ({"maximise": "accuracy", "minimise": "spikes"}, ValueError, r"maximise must name a column \(HIDDEN, "),
        ({"maximise": "status", "minimise": "spikes"}, TypeError, "'status' must hold numbers"),
        ({"maximise": "acc", "minimise": "spikes", "seeds": "S"}, ValueError, "seeds must name a column"),
        ({"maximise": "acc", "minimise": "spikes", "log": "z"}, ValueError, "log must be"),
    ],
)
def test_what_is_wrong_is_refused_by_name(keys, error, says):
    with pytest.raises(error, match=says):
        figures.pareto(TABLE, **keys)


def test_nothing_to_draw():
    with pytest.raises(ValueError, match="must hold a row with finite numbers of n and m, but none has"):
        figures.pareto({"m": [1.0, float("nan")], "n": [None, 1.0]}, maximise="m", minimise="n")
    with pytest.raises(TypeError, match="table must be a DataFrame, or a dict"):
        figures.pareto([1, 2], maximise="m", minimise="n")
    with pytest.raises(ValueError, match="equally long"):
        figures.pareto({"m": [1.0], "n": [1.0, 2.0]}, maximise="m", minimise="n")
