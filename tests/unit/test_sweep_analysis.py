"""Tables of results: types of their columns, means over seeds, and the front."""

from __future__ import annotations

import math

import numpy as np
import polars
import pytest

from snnkit import sweep
from snnkit.sweep.results import frame


def ended(a, metrics=None, status="ok", seed=0):
    return sweep.RunResult(
        run=f"{a}-{seed}", parameters={"A": a, "SEED": seed}, status=status, metrics=metrics or {}, seconds=1.5,
        peak_mb=2.0, started="", error=None if status == "ok" else "boom",
    )  # fmt: skip


COLUMNS = [
    ([1, 2], polars.Int64, [1, 2]),
    ([1, 2.5], polars.Float64, [1.0, 2.5]),
    ([True, False], polars.Boolean, [True, False]),
    ([1, None], polars.Int64, [1, None]),
    ([1, "a"], polars.String, ["1", "a"]),
    ([True, 1], polars.String, ["True", "1"]),
    ([2**70, 1], polars.Float64, [float(2**70), 1.0]),
    ([math.inf, None], polars.Float64, [math.inf, None]),
]


@pytest.mark.parametrize(("values", "kind", "expected"), COLUMNS)
def test_a_column_has_one_type_that_holds_all_its_values(values, kind, expected):
    runs = [ended(i, {} if value is None else {"m": value}) for i, value in enumerate(values)]
    table = frame(runs)
    assert table["m"].dtype == kind and table["m"].to_list() == expected
    assert table.columns == ["run", "status", "A", "SEED", "m", "seconds", "peak_mb", "error"]


def test_no_runs_yet():
    table = frame([])
    assert table.columns == ["run", "status", "seconds", "peak_mb", "error"] and len(table) == 0


@pytest.fixture
def table():
    rows = [(1, 0, 0.5, 10), (1, 1, 0.7, 20), (2, 0, 0.8, 30), (2, 1, 0.9, 50), (3, 0, 0.6, 25)]
    runs = [ended(a, {"acc": acc, "cost": cost}, seed=seed) for a, seed, acc, cost in rows]
    return frame([*runs, ended(3, status="failed", seed=1)])


def test_means_are_over_seeds_and_without_failures(table):
    found = sweep.means(table)
    assert found["A"].to_list() == [1, 2, 3] and found["runs"].to_list() == [2, 2, 1]
    assert found["acc"].to_list() == pytest.approx([0.6, 0.85, 0.6])
    assert found["cost"].to_list() == [15, 40, 25]
    assert found["acc_std"].to_list()[:2] == pytest.approx([np.std([0.5, 0.7], ddof=1), np.std([0.8, 0.9], ddof=1)])
    assert found["acc_std"].to_list()[2] is None, "one run has no spread"
    assert {"SEED", "run", "status", "error"}.isdisjoint(found.columns) and "seconds_std" in found.columns


def test_means_by_columns_of_choice(table):
    assert sweep.means(table, "SEED")["cost"].to_list() == pytest.approx([65 / 3, 35])
    assert sweep.means(table, [])["runs"].to_list() == [5]
    with pytest.raises(ValueError, match=r"by must name columns of the table \(run, .*has 'B'"):
        sweep.means(table, ["A", "B"])


def test_the_front_of_rows_and_of_means(table):
    front = sweep.front(table, maximise="acc", minimise="cost")
    assert front.select("acc", "cost").rows() == [(0.5, 10), (0.7, 20), (0.8, 30), (0.9, 50)]
    assert sweep.front(sweep.means(table), maximise="acc", minimise="cost")["A"].to_list() == [1, 2]
    with pytest.raises(ValueError, match="maximise must name a column"):
        sweep.front(table, maximise="accuracy", minimise="cost")
    with pytest.raises(TypeError, match="'status' must hold numbers, but it holds text"):
        sweep.front(table, maximise="status", minimise="cost")
