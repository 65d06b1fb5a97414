"""``snnkit bench local``: what it writes, prints and refuses."""

from dataclasses import asdict

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from snnkit import plasticity, records
from snnkit.bench import local, tables
from snnkit.cli import main

SMALL = {"neurons": 40, "passes": 2, "batch_size": 32, "samples": 160, "seed": 1}


@pytest.fixture(scope="module")
def run():
    return plasticity.learn_locally("digits", device="cpu", **SMALL)


@pytest.fixture(scope="module")
def made(run):
    return local.record_of(run, (8, 8), {"data": "digits", **SMALL})


def called(*words):
    return CliRunner().invoke(main, ["bench", "local", "--device", "cpu", "--no-keep-memory", *words])


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


def test_the_table_has_a_line_for_each_pass_and_says_where(made):
    text = tables(made)
    assert "neurons 40, passes 2, batch_size 32, samples 160, seed 1, steps 20, max_rate 0.5" in text
    assert made["provenance"]["date"] in text and torch.__version__ in text
    assert f"{made['rows'][1]['test_accuracy']:8.2%}" in text
    assert f"{made['unlabelled']} of 40 neurons never fired" in text


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--neurons", "1"], 2, "--neurons"),
        (["--dataset", "fashion"], 2, "--dataset"),
        (["--samples", "2000"], 1, "samples must be at most 1442"),
        (["--out", "/dev/null/run.json"], 1, "File exists: '/dev/null'"),
    ],
)
def test_what_makes_no_sense_is_an_error_without_a_traceback(words, code, says):
    result = called(*words)
    assert result.exit_code == code and says in result.output and "Traceback" not in result.output
