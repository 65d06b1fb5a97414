"""Manifests: what is wrong in them is refused by name before anything starts. What a notebook records."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from snnkit.lab import sweep
from snnkit.lab.sweep import recorded_values
from snnkit.lab.sweep.manifest import LARGEST_NOTEBOOK, identity

from .sweep_cases import PARAMETERS, asked, notebook


def points(manifest, *names):
    return [tuple(run.parameters[name] for name in names) for run in manifest.runs]


def test_a_grid_has_every_combination_with_every_seed(tmp_path):
    made = sweep.load(asked(tmp_path, seeds=[0, 7], fixed={"NAME": "b"}))
    assert points(made, "A", "RATE", "SEED") == [(a, r, s) for a in (1, 2) for r in (0.5, 1.0) for s in (0, 7)]
    assert {run.parameters["NAME"] for run in made.runs} == {"b"}
    assert len({run.id for run in made.runs}) == 8
    assert points(sweep.load(asked(tmp_path, parameters=None, seeds=[3, 4])), "SEED") == [(3,), (4,)]


def test_a_run_is_known_by_its_parameters_alone(tmp_path):
    one = sweep.load(asked(tmp_path, parameters={"A": [1, 2], "RATE": [1]}))
    other = sweep.load(asked(tmp_path, parameters={"RATE": [1.0], "A": [2, 3]}))
    assert one.runs[1].id == other.runs[0].id, "an int where a float is declared is that float"
    assert one.runs[0].id not in {run.id for run in other.runs}
    assert type(one.runs[0].parameters["RATE"]) is float
    assert identity({"A": 1}) != identity({"A": 1.0}) != identity({"A": True})


def drawn(folder, **keys):
    values = {"A": list(range(100)), "RATE": [1, 2, 3], "MANY": [None, 3]}
    return sweep.load(asked(folder, **{"mode": "random", "parameters": values, "samples": 60, "seed": 1, **keys}))


def test_random_samples_are_different_points_of_the_grid_and_more_keep_those_there_are(tmp_path):
    made = drawn(tmp_path, seeds=[5, 6])
    assert len({run.id for run in made.runs}) == len(made.runs) == 120
    a, rate, many = zip(*points(made, "A", "RATE", "MANY"), strict=True)
    assert set(rate) == {1.0, 2.0, 3.0} and set(many) == {None, 3} and len(set(a)) > 30 and max(a) > 60
    assert drawn(tmp_path, samples=90).runs[:60] == drawn(tmp_path).runs
    same = {run.id for run in drawn(tmp_path, seed=2).runs} & {run.id for run in drawn(tmp_path).runs}
    assert len(same) < 30
    every = drawn(tmp_path, samples=600)
    assert {run.id for run in every.runs} == {run.id for run in drawn(tmp_path, mode="grid").runs}


WRONG = {
    "unknown key": ({"worker": 2}, r"a key must be one of 'notebook', .*, but it is 'worker'"),
    "no such parameter": ({"parameters": {"B": [1]}}, r"notebook tiny has no parameter 'B'; it has: A: int = 1; RATE"),
    "float for int": ({"parameters": {"A": [1, 2.0]}}, r"parameters: parameter A must be int, but it is 2\.0"),
    "text for float": ({"parameters": {"RATE": ["fast"]}}, r"parameter RATE must be float, but it is 'fast'"),
    "empty list": ({"parameters": {"A": []}}, r"parameter A must be a list of values, such as \[1\], but it is \[\]"),
    "text as list": ({"parameters": {"NAME": "ab"}}, r"parameter NAME must be a list of values"),
    "twice in a list": ({"parameters": {"RATE": [1, 1.0]}}, r"RATE must list each value once, but it has 1\.0 twice"),
    "nothing varies": ({"parameters": {}}, r"parameters must name at least one"),
    "parameters as list": ({"parameters": ["A"]}, r"parameters must be a dict of names and values"),
    "fixed unknown": ({"fixed": {"QUICK": True}}, r"fixed: notebook tiny has no parameter 'QUICK'"),
    "fixed twice": ({"fixed": {"A": 1}}, r"A must be in one of parameters, fixed and seeds, but it is in two"),
    "mode": ({"mode": "bayes"}, r"mode must be one of 'grid', 'random', but it is 'bayes'"),
    "no samples": ({"mode": "random"}, r"samples must be an integer, but it is None"),
    "too many samples": ({"mode": "random", "samples": 5}, r"samples must be at most 4, .*, but it is 5"),
    "workers": ({"workers": 0}, r"workers must be at least 1, but it is 0"),
    "seconds": ({"seconds": -1}, r"seconds must be greater than 0"),
    "no out": ({"out": None}, r"out must be a folder for the results, but it is None"),
    "no notebook": ({"notebook": None}, r"unknown notebook ''"),
    "missing file": ({"notebook": "gone.ipynb"}, r"notebook: gone\.ipynb can't be used: .*No such file"),
    "unknown name": ({"notebook": "no_such"}, r"unknown notebook 'no_such'; there are: .*for sweeps: xor_in_time"),
    "many values": ({"parameters": {"A": [*range(100_001)]}}, "at most 100,000 runs, but these are 100,001"),
    "pareto of one": ({"pareto": {"maximise": "score"}}, r"pareto must be \{maximise: NAME"),
    "pareto of numbers": ({"pareto": {"maximise": 3, "minimise": 4}}, r"pareto must be \{maximise: NAME"),
    "pareto of nothing": ({"pareto": {"maximise": None, "minimise": "a"}}, r"pareto must be \{maximise: NAME"),
    "pareto of a mapping": ({"pareto": {"maximise": {"a": 1}, "minimise": "b"}}, r"pareto must be \{maximise: NAME"),
    "pareto of lists": ({"pareto": {"maximise": [[1]], "minimise": "b"}}, r"pareto must be \{maximise: NAME"),
    "no home": ({"out": "~no_such_user/out"}, r"out can't be '~no_such_user/out': there is no such home folder"),
    "out in a file": (
        {"out": f"{__file__}/out"},
        r"out must be a folder for the results, but .*manifest\.py is a file",
    ),
    "half a character": (
        {"parameters": {"NAME": ["\ud800"]}},
        r"NAME must be text of whole characters, but it is '.ud800'",
    ),
    "too many": ({"parameters": {key: [*range(400)] for key in ("A", "RATE")}}, "at most 100,000 runs, .* 160,000"),
}


@pytest.mark.parametrize(("keys", "says"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_refused_by_name(keys, says, tmp_path):
    with pytest.raises(sweep.ManifestError, match=says):
        sweep.load(asked(tmp_path, **keys))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ("A = 1", "write NAME: type = literal"),
        ("A: int = (", "is not Python"),
        (f"A: int = {'-' * 20_000}1", "the parameters cell must have at most 10,000 characters, but it has 20,010"),
        ("A: int = 1\nRATE: float = 1.0\nrun: int = 3", "run is a column of each table"),
    ],
)
def test_the_notebook_must_declare_its_parameters(parameters, says, tmp_path):
    notebook(tmp_path / "tiny.ipynb", parameters=parameters)
    with pytest.raises(sweep.ManifestError, match=says):
        sweep.load(asked(tmp_path, fixed={"run": 1}))


def large(path):
    with open(path, "wb") as file:  # of zeros, which take no place on the disk
        file.truncate(LARGEST_NOTEBOOK + 1)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_text("{}"), ""),
        (lambda path: path.write_text("[" * 100_000), ""),
        (large, ": too large: 16.8 MB"),
        (os.mkfifo, ": no regular file"),
        (lambda path: path.symlink_to("/dev/zero"), ": no regular file"),
    ],
    ids=["no keys", "deep", "large", "a pipe", "zeros"],
)
def test_a_file_that_is_no_notebook(make, says, tmp_path):
    make(tmp_path / "tiny.ipynb")
    with pytest.raises(sweep.ManifestError, match=rf"notebook: .*tiny\.ipynb can't be used{says}"):
        sweep.load({**asked(tmp_path), "notebook": str(tmp_path / "tiny.ipynb")})


def test_notebooks_of_the_course_and_for_sweeps_go_by_their_names(tmp_path):
    for given in ("04", "train_your_first_network"):
        made = sweep.load(asked(tmp_path, notebook=given, parameters={"EPOCHS": [1, 2]}))
        assert made.notebook.path.stem == "04_train_your_first_network"
    made = sweep.load(asked(tmp_path, notebook="xor_in_time", parameters={"HIDDEN": [8]}))
    assert {"QUICK", "SEED", "DEVICE", "HIDDEN", "RATE_PENALTY"} <= set(made.notebook.parameters)


def test_outputs_of_a_run_by_hand_are_left_behind(tmp_path):
    content = json.loads(notebook(tmp_path / "tiny.ipynb").read_text())
    clean = sweep.load(asked(tmp_path)).notebook
    output = {"output_type": "stream", "name": "stdout", "text": "old"}
    content["cells"][1] |= {"outputs": [output], "execution_count": 7}
    (tmp_path / "tiny.ipynb").write_text(json.dumps(content))
    used = sweep.load(asked(tmp_path)).notebook
    assert used.node.cells == clean.node.cells and used.code == clean.code


FILE = """
notebook: notebooks/tiny.ipynb
out: results/a
parameters:
  RATE: [1e-3, .5, 2]   # in YAML 1.1 the first is a word
  NAME: ['no', 'b']
"""


def test_paths_of_a_file_start_where_it_lies_and_out_where_the_command_is_given(tmp_path, monkeypatch):
    notebook(tmp_path / "notebooks" / "tiny.ipynb", parameters=PARAMETERS)
    (tmp_path / "m.yaml").write_text(FILE)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    made = sweep.load("../m.yaml")
    assert made.out == tmp_path / "results" / "a" and made.notebook.path == tmp_path / "notebooks" / "tiny.ipynb"
    assert sweep.load("../m.yaml", "here").out == tmp_path / "elsewhere" / "here"
    (tmp_path / "m.yaml").write_text(FILE.replace("results/a", str(tmp_path / "whole")))
    assert sweep.load("../m.yaml").out == tmp_path / "whole"
    (tmp_path / "m.yaml").write_text(FILE.replace("results/a", "..results/.."))
    assert sweep.load("../m.yaml").out == tmp_path
    (tmp_path / "m.yaml").write_text(FILE)
    assert points(made, "RATE", "NAME") == [(rate, name) for rate in (0.001, 0.5, 2.0) for name in ("no", "b")]


GOOD = "notebook: tiny.ipynb\nout: out\n"
ABOVE = ("..", "../x", "a/../../x", "./../../x")


def laughs(levels, wide):
    """``wide ** levels`` words in a few bytes: a list of one list again and again, which is such a list, ..."""
    text = "&a0 [x]"
    for i in range(1, levels):
        text = f"&a{i} [{text}{f', *a{i - 1}' * (wide - 1)}]"
    return text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("out: a\nout: b", r"m\.yaml can't be read as YAML: .*the key out is given twice"),
        ("1: 2", r"a key must be one of"),
        ("!!python/object:os.system {}", r"m\.yaml can't be read as YAML: could not determine a constructor"),
        (f"{GOOD}parameters: !!map [x]", "as YAML"),
        (f"{GOOD}parameters: {{NAME: [no]}}", "parameter NAME must be str, but it is False"),
        ("- a", r"m\.yaml must hold the keys notebook, out"),
        (b"\xff\xfe\xff", r"m\.yaml can't be read as YAML"),
        (f"a: [{'1, ' * 30_000}]", r"m\.yaml can't be read as YAML: too large: 0\.09 MB"),
        ("a: !!bool maybe", r"as YAML: a value does not fit its tag \(KeyError: 'maybe'\)"),
        ("a: !!int ''", r"as YAML: a value does not fit its tag \(IndexError"),
        (f"a: 1{':1' * 300}.5", r"as YAML: a value does not fit its tag \(OverflowError"),
        ("[" * 5000, "as YAML: it is nested too deeply"),
        (laughs(9, 9), r"m\.yaml can't be read as YAML: it has more than 10 aliases"),
        (f"a: {laughs(10, 2)}", r"a key must be one of 'notebook'"),
        (laughs(10, 2), r"m\.yaml must hold the keys .*, but it is \[\["),
        (f"{GOOD[:-4]}{laughs(10, 2)}\nparameters: {{A: [1]}}", r"out must be a folder .*, but it is \[\["),
        (f"!{'x' * 9999} 1", r"could not determine a constructor for the tag '!xxx.*…"),
        (f"{GOOD}parameters: {{NAME: [{'x' * 9999}, {'x' * 9999}]}}", "must list each value once, but it has 'xxx.*…"),
        *((f"notebook: tiny.ipynb\nout: {out}", "out must be in the folder of the manifest") for out in ABOVE),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_file_that_is_no_manifest(text, says, tmp_path):
    notebook(tmp_path / "tiny.ipynb")
    (tmp_path / "m.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(sweep.ManifestError, match=says) as caught:
        sweep.load(tmp_path / "m.yaml")
    assert len(str(caught.value)) < 1000


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(sweep.ManifestError, match=r"the manifest .*gone\.yaml can't be read: No such file"):
        sweep.load(tmp_path / "gone.yaml")


# --- what a notebook records ------------------------------------------------------------------------------------------


@pytest.fixture
def shown(monkeypatch):
    """The MIME bundles that a notebook would be given."""
    import IPython.display

    bundles = []
    monkeypatch.setattr("IPython.get_ipython", lambda: object())
    monkeypatch.setattr(IPython.display, "display", lambda data, raw: bundles.append(data))
    return bundles


VALUES = {
    "accuracy": (0.97, 0.97),
    "count": (np.int64(3), 3),
    "loss": (torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True), 0.5),
    "mean": (np.array(2.5), 2.5),
    "dead": (np.bool_(True), True),
    "note": ("fine", "fine"),
    "up": (math.inf, math.inf),
    "down": (torch.tensor(-math.inf), -math.inf),
}


def test_values_arrive_as_plain_python_through_strict_json(shown):
    sweep.record(**{name: given for name, (given, _) in VALUES.items()}, lost=math.nan)
    (bundle,) = shown
    text = json.dumps(bundle, allow_nan=False)
    found = recorded_values.recorded(json.loads(text))
    assert math.isnan(found.pop("lost"))
    assert found == {name: expected for name, (_, expected) in VALUES.items()}
    assert all(type(found[name]) is type(expected) for name, (_, expected) in VALUES.items())
    assert "accuracy 0.97 · count 3 · loss 0.5" in bundle["text/plain"]


NONE = [[1], "x", {"a": {"x": 1}}, {"a": {"float": "b"}}, {"a": [1]}, {"run": 3}]


@pytest.mark.parametrize("data", [{}, *({recorded_values.MIME: one} for one in ("x", *({"values": v} for v in NONE)))])
def test_what_record_has_not_made_is_no_result(data):
    assert recorded_values.recorded(data) == {}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([1.0], r"accuracy must be int, float, bool or str, but it is \[1\.0\]"),
        (None, "but it is None"),
        (1j, "but it is 1j"),
        (torch.zeros(2), r"but it is a Tensor of shape \[2\]"),
        (np.zeros((1, 2)), r"but it is a ndarray of shape \[1, 2\]"),
    ],
)
def test_what_is_no_single_value_is_refused(value, says, shown):
    with pytest.raises(TypeError, match=says):
        sweep.record(good=1, accuracy=value)
    assert shown == []


@pytest.mark.parametrize("name", [*recorded_values.RESERVED, "two words", ""])
def test_names_that_every_table_has_are_refused(name, shown):
    with pytest.raises(TypeError, match="at least one name"):
        sweep.record()
    with pytest.raises(ValueError, match=r"can't be recorded: .*run, status, seconds, peak_mb, error"):
        sweep.record(**{name: 1})
    assert shown == []


def test_recording_brings_nothing_heavy_into_a_notebook():
    code = "import sys\nfrom snnkit.lab import sweep\nsweep.record(a=1)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "snnkit.lab.sweep.recorded_values" in loaded
    assert not loaded & {"torch", "numpy", "polars", "plotly", "papermill", "nbformat", "yaml", "rich", "IPython"}
