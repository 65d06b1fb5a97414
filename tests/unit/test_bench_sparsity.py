"""``snnkit bench sparsity``: ways to multiply spikes agree before they are timed."""

import json

import pytest
import torch
from click.testing import CliRunner

from snnkit.lab.bench import sparsity as bench, tables
from snnkit.lab.cli import main

CPU = torch.device("cpu")

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")


@pytest.mark.parametrize("mode", bench.MODES)
def test_a_case_is_measured_density_by_density(mode):
    outcome = bench.Case(bench.Shape(70, 50, 40), mode, (0.05, 0.1, 1.0), CPU).measure(3)
    assert [row["contestant"] for row in outcome.rows] == [*bench.CONTESTANTS[:4]] * 3 and not outcome.skipped
    assert [row["density"] for row in outcome.rows[::4]] == [0.05, 0.1, 1.0]
    assert all(row["differ"] <= bench.MAY_DIFFER and row["p10_s"] <= row["median_s"] for row in outcome.rows)


def test_results_that_differ_are_not_timed(monkeypatch):
    every = bench.products

    def wrong(layer, spikes):
        return every(layer, spikes) | {bench.CSR: lambda x: layer(x) * (1 + 1e-3)}

    monkeypatch.setattr(bench, "products", wrong)
    outcome = bench.Case(bench.Shape(70, 50, 40), bench.TRAINING, (0.1,), CPU).measure(3)
    assert [row["contestant"] for row in outcome.rows] == [bench.EVENTS, bench.DENSE, bench.PYTORCH]
    (skip,) = outcome.skipped
    assert skip["contestant"] == bench.CSR and skip["reason"] == "it computes something else: 0.001 off"


def test_the_command_its_table_and_its_record(tmp_path):
    out, threads = tmp_path / "record.json", torch.get_num_threads()
    try:
        done = CliRunner().invoke(main, ["bench", "sparsity", "--quick", "--out", str(out)])
    finally:
        torch.set_num_threads(threads)
    assert done.exit_code == 0, done.output
    record = json.loads(out.read_text())
    assert record["kind"] == "sparsity" and record["complete"] is True and len(record["rows"]) == 2 * 2 * 4
    for row in record["rows"]:
        row["median_s"] = {bench.EVENTS: 0.001, bench.DENSE: 0.004, bench.PYTORCH: 0.003, bench.CSR: 0.1}[
            row["contestant"]
        ]
    line = tables(record).splitlines()[-1]
    assert line.split() == ["50.0%", "1", "4", "3", "100", "3.00"]
    assert CliRunner().invoke(main, ["bench", "sparsity", "--density", "2"]).exit_code == 2
