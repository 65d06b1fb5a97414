"""``snnkit bench plasticity`` and ``local``: what agrees before it is timed, what both write and refuse."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from snnkit import plasticity, records
from snnkit.lab.bench import local, plasticity as bench, tables
from snnkit.lab.bench.plasticity import Case
from snnkit.lab.cli import main

QUICK = ("bench", "plasticity", "--quick", "--repeats", "3")
LAYER = bench.dense(30, 20, 2)


def rows_of(connection):
    return Case(connection, rate=0.1, steps=4, peers=True).measure(3).rows


def row(contestant, seconds, **more):
    library = "Norse" if contestant == bench.NORSE_STEP else "snnkit"
    made = {"case": LAYER.name, "contestant": contestant, "library": library, "dtype": "float32", "weights": 1000}
    made |= {"rate": 0.02, "steps": 20, "median_s": seconds, "p10_s": seconds / 2, "p90_s": 2 * seconds}
    return made | {"floor_s": 1e-5, "over_floor": seconds / 1e-5} | more


@pytest.mark.parametrize("case", bench.QUICK_CONNECTIONS, ids=lambda case: case.name)
def test_a_case_is_measured_by_step(case):
    rows = rows_of(case)
    assert [row["contestant"] for row in rows][:2] == [bench.STEP, bench.RUN]
    for row in rows:
        assert row["floor_bytes"] == 8 * row["weights"] and row["steps"] == 4
        assert 0 < row["p10_s"] <= row["median_s"] <= row["p90_s"] and row["weights_differ"] <= 1e-12
        assert row["over_floor"] == pytest.approx(row["median_s"] / row["floor_s"])


def test_results_that_differ_are_not_timed(monkeypatch):
    every = bench.candidates(LAYER, peers=False)
    every[1] = bench.Candidate(bench.RUN, "snnkit", lambda pre, post, weight: weight + 1e-9)
    monkeypatch.setattr(bench, "candidates", lambda connection, peers: every)
    outcome = Case(LAYER, rate=0.1, steps=4, peers=True).measure(3)
    assert [row["contestant"] for row in outcome.rows] == [every[0].name]
    words = "dense 30 → 20, B = 2: weights of our run and of our step differ by"
    assert words in outcome.skipped[0]["reason"] and isinstance(outcome.defects[0], AssertionError)


def test_the_table():
    rows = [row(bench.STEP, 2e-5), row(bench.RUN, 1e-5), row(bench.NORSE_STEP, 1.5e-4)]
    _, _, step, run, norse = bench.SUITE.table({}, rows).splitlines()
    assert step.split() == ["our", "step", "20", "10", "-", "40", "2.00", "7.50"]
    assert run.split()[-2:] == ["1.00", "15.00"] and norse.split()[-1] == "15.00"
    assert "times Norse" not in bench.SUITE.table({}, rows[:2])


def test_the_command_and_its_record(tmp_path):
    out, threads = tmp_path / "record.json", torch.get_num_threads()
    try:
        done = CliRunner().invoke(main, [*QUICK, "--out", str(out)])
    finally:
        torch.set_num_threads(threads)
    assert done.exit_code == 0, done.output
    record = json.loads(out.read_text())
    assert record["kind"] == "plasticity" and record["complete"] is True and record["provenance"]["device"]["name"]
    assert {row["case"] for row in record["rows"]} == {case.name for case in bench.QUICK_CONNECTIONS}
    for case in bench.QUICK_CONNECTIONS:
        assert case.name in done.output
    assert tables(record) in done.output.replace("\n\nrecord", "\nrecord").replace("\n\n\n", "\n\n")
    shown = CliRunner().invoke(main, ["bench", "show", str(out)])
    assert shown.exit_code == 0 and tables(record) in shown.output
    assert CliRunner().invoke(main, ["bench", "show", str(out), "--plot", str(tmp_path / "x.png")]).exit_code == 1
    assert CliRunner().invoke(main, ["bench", "plasticity", "--rate", "2"]).exit_code == 2


SMALL = {"neurons": 40, "passes": 2, "batch_size": 32, "samples": 160, "seed": 1}


@pytest.fixture(scope="module")
def run():
    return plasticity.learn_locally("digits", device="cpu", **SMALL)


@pytest.fixture(scope="module")
def made(run):
    return local.record_of(run, (8, 8), {"data": "digits", **SMALL})


def called(*words):
    return CliRunner().invoke(main, ["bench", "local", "--device", "cpu", *words])


def test_the_command_writes_what_the_function_learned(made, tmp_path):
    out = tmp_path / "run.json"
    words = [f"--{name.replace('batch_size', 'batch')}={value}" for name, value in SMALL.items()]
    result = called(*words, "--out", str(out))
    assert result.exit_code == 0, result.output
    written = records.read(out)
    timeless = [{**row, "seconds": 0} for row in written["rows"]]
    assert timeless == [{**row, "seconds": 0} for row in made["rows"]] and len(timeless) == 2
    for part in ("arguments", "fields", "unlabelled"):
        assert written[part] == made[part]
    assert written["arguments"]["layer"] == asdict(plasticity.LAYERS["digits"])
    assert tables(written) in result.output and f"record: {out}" in result.output
    shown = CliRunner().invoke(main, ["bench", "show", str(out), "--plot", str(tmp_path / "fields.html")])
    assert shown.exit_code == 0 and tables(written) in shown.output
    assert "Fields of the first 36 of 40 neurons" in (tmp_path / "fields.html").read_text()


def test_fields_are_the_first_ones_to_a_255th_of_the_largest_weight(run, made):
    weights, labels = local.fields_of(made)
    first = run.weights[: local.FIELDS].numpy()
    assert weights.shape == first.shape == (36, 64) and labels == run.labels[:36].tolist()
    assert np.abs(weights - first).max() <= first.max() / 255 / 2 + 1e-6
    assert weights.max() == pytest.approx(first.max())
