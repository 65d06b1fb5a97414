"""Manifests, values and run files that nobody should write, and some that a disk or an editor makes of good ones."""

import dataclasses
import json
import math
from pathlib import Path

import pytest

from snnkit import sweep
from snnkit.sweep import execute, manifest, recorded_values

from . import sweep_cases

ASKED = "notebook: tiny.ipynb\nout: out\n"
RANDOM = f"{ASKED}mode: random\nsamples: 2\n"


def load(folder: Path, text: str) -> sweep.Manifest:
    sweep_cases.notebook(folder / "tiny.ipynb")
    (folder / "m.yaml").write_text(text, encoding="utf-8")
    return sweep.load(folder / "m.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('notebook: tiny.ipynb\nout: "a\\0b"\nparameters: {A: [1]}', "out must be a folder"),
        ("notebook: tiny.ipynb\nout: ~nobody-of-this-name/o\nparameters: {A: [1]}", "out must be a folder"),
        ("notebook: ~nobody-of-this-name/a.ipynb\nout: o\nparameters: {A: [1]}", "notebook: .* can't be located"),
        (f"{ASKED}parameters: !!map [x]", "not YAML"),
        (f"{ASKED}parameters: {{A: [!!bool x]}}", "not YAML"),
        (f"{ASKED}seconds: {10**400}\nparameters: {{A: [1]}}", "seconds must be a number above 0"),
        (f"{RANDOM}parameters: {{A: {{integer: [0, {10**400}]}}}}", "with whole numbers"),
        (f"{RANDOM}parameters: {{RATE: {{uniform: [-1.0e308, 1.0e308]}}}}", "with finite numbers"),
    ],
)
def test_odd_manifests_are_refused_by_their_key(tmp_path, text, said):
    with pytest.raises(sweep.ManifestError, match=said):
        load(tmp_path, text)


def test_parameters_can_not_have_the_names_of_columns(tmp_path):
    path = sweep_cases.notebook(tmp_path / "odd.ipynb", "pass", "A: int = 1\nrun: int = 3")
    for part in ({"parameters": {"run": [1, 2]}}, {"parameters": {"A": [1]}, "fixed": {"run": 1}}):
        with pytest.raises(sweep.ManifestError, match="can't be called run"):
            sweep.load({"notebook": str(path), "out": str(tmp_path / "out"), **part})


def test_too_few_combinations_are_known_without_drawing(tmp_path, monkeypatch):
    monkeypatch.setattr(manifest, "_uniform", lambda *_: pytest.fail("drawn"))
    with pytest.raises(sweep.ManifestError, match="samples must be at most 4, the different ones, but it is 50000"):
        load(tmp_path, f"{ASKED}mode: random\nsamples: 50000\nparameters: {{A: [1, 2], RATE: [1.0, 2.0]}}")


@pytest.mark.parametrize("value", [10**400, "\ud800", "a\0b\n", math.inf])
def test_every_value_that_can_be_recorded_can_be_in_a_table(tmp_path, monkeypatch, value):
    fake = sweep_cases.Fake()
    plain = fake.execute
    monkeypatch.setattr(fake, "execute", lambda run: dataclasses.replace(plain(run), metrics={"x": value, "y": 1}))
    monkeypatch.setattr(execute, "Kernels", sweep_cases.without_kernels(fake))
    table = sweep.run(sweep_cases.asked(tmp_path), show="none")
    assert table.equals(sweep.results(tmp_path / "out")) and table["x"].null_count() == 0
    assert sweep.means(table)["y"].to_list() == [1.0] * 4


@pytest.mark.parametrize(
    "damage",
    [
        {"metrics": [1]},
        {"metrics": None},
        {"metrics": {"x": {"float": "abc"}}},
        {"metrics": {"x": [1]}},
        {"metrics": {"run": 5}},
        {"parameters": ["abc"]},
        {"status": "weird"},
        {"seconds": "a"},
        {"error": 5},
        {"traceback": 3},
    ],
)
def test_a_damaged_run_is_named(tmp_path, monkeypatch, damage):
    monkeypatch.setattr(execute, "Kernels", sweep_cases.without_kernels(sweep_cases.Fake()))
    sweep.run(sweep_cases.asked(tmp_path), show="none")
    file = sorted((tmp_path / "out" / "runs").glob("*.json"))[0]
    file.write_text(json.dumps({**json.loads(file.read_text()), **damage}))
    with pytest.raises(sweep.SweepError, match=f"{file.name} is damaged"):
        sweep.results(tmp_path / "out")
    file.unlink()
    assert len(sweep.run(sweep_cases.asked(tmp_path), show="none")) == 4


@pytest.mark.parametrize("lost", ["order", "machine", "code", "pareto"])
def test_a_damaged_sweep_is_named(tmp_path, monkeypatch, lost):
    monkeypatch.setattr(execute, "Kernels", sweep_cases.without_kernels(sweep_cases.Fake()))
    sweep.run(sweep_cases.asked(tmp_path), show="none")
    file = tmp_path / "out" / "sweep.json"
    content = json.loads(file.read_text())
    del content[lost]
    file.write_text(json.dumps(content))
    with pytest.raises(sweep.SweepError, match=r"sweep\.json is damaged"):
        sweep.run(sweep_cases.asked(tmp_path), show="none")


@pytest.mark.parametrize("values", [[1], "x", {"a": {"x": 1}}, {"a": {"float": "b"}}, {"a": [1]}, {"run": 3}])
def test_what_record_has_not_made_is_no_result(values):
    assert recorded_values.recorded({recorded_values.MIME: {"values": values}}) == {}
