"""Manifests: what they ask for, and that everything wrong in them is refused by name before anything starts."""

from __future__ import annotations

import json
import math

import pytest

from snnkit import sweep
from snnkit.sweep.manifest import identity, read_yaml

from .sweep_cases import PARAMETERS, asked, notebook


def points(manifest, *names):
    return [tuple(run.parameters[name] for name in names) for run in manifest.runs]


def test_a_grid_has_every_combination_with_every_seed(tmp_path):
    made = sweep.load(asked(tmp_path, seeds=[0, 7], fixed={"NAME": "b"}))
    assert points(made, "A", "RATE", "SEED") == [(a, r, s) for a in (1, 2) for r in (0.5, 1.0) for s in (0, 7)]
    assert {run.parameters["NAME"] for run in made.runs} == {"b"}
    assert made.varied == ("A", "RATE", "SEED")
    assert len({run.id for run in made.runs}) == 8


def test_a_run_is_known_by_its_parameters_alone(tmp_path):
    one = sweep.load(asked(tmp_path, parameters={"A": [1, 2], "RATE": [1]}))
    other = sweep.load(asked(tmp_path, parameters={"RATE": [1.0], "A": [2, 3]}))
    assert one.runs[1].id == other.runs[0].id, "an int where a float is declared is that float"
    assert one.runs[0].id not in {run.id for run in other.runs}
    assert type(one.runs[0].parameters["RATE"]) is float
    assert identity({"A": 1}) != identity({"A": 1.0}) != identity({"A": True})


def test_seeds_alone_are_a_sweep(tmp_path):
    assert points(sweep.load(asked(tmp_path, parameters=None, seeds=[3, 4])), "SEED") == [(3,), (4,)]


LAWS = {"A": {"integer": [1, 6]}, "RATE": {"log_uniform": [1e-4, 1]}, "NAME": {"choice": ["a", "b"]}, "MANY": [None, 3]}


def drawn(tmp_path, **keys):
    return sweep.load(asked(tmp_path, mode="random", **{"parameters": LAWS, "samples": 400, "seed": 1, **keys}))


def test_random_samples_follow_their_laws(tmp_path):
    made = drawn(tmp_path)
    assert len({run.id for run in made.runs}) == 400
    a, rate, name, many = zip(*points(made, "A", "RATE", "NAME", "MANY"), strict=True)
    assert set(a) == set(range(1, 7)) and all(type(value) is int for value in a)
    assert all(40 < a.count(value) < 100 for value in set(a))
    assert all(1e-4 <= value <= 1 for value in rate)
    decades = [sum(1 for value in rate if math.floor(math.log10(value)) == decade) for decade in (-4, -3, -2, -1)]
    assert min(decades) > 70, "each decade is equally likely"
    assert 150 < name.count("a") < 250 and set(many) == {None, 3}
    uniform = points(drawn(tmp_path, parameters={"RATE": {"uniform": [2, 4]}}), "RATE")
    assert 2 <= min(uniform)[0] < 2.1 and 3.9 < max(uniform)[0] <= 4


def test_more_samples_keep_those_there_are_and_another_seed_does_not(tmp_path):
    few, many = drawn(tmp_path, samples=10), drawn(tmp_path, samples=30)
    assert many.runs[:10] == few.runs
    turned = {name: LAWS[name] for name in reversed(LAWS)}
    assert [run.id for run in drawn(tmp_path, samples=10, parameters=turned).runs] == [run.id for run in few.runs]
    assert {run.id for run in drawn(tmp_path, samples=10, seed=2).runs}.isdisjoint(run.id for run in few.runs)


def test_samples_differ_even_where_few_are_possible(tmp_path):
    made = drawn(tmp_path, parameters={"A": {"integer": [1, 4]}}, samples=4)
    assert sorted(points(made, "A")) == [(1,), (2,), (3,), (4,)]
    with pytest.raises(
        sweep.ManifestError, match=r"samples must be at most 4, all that these parameters give, but it is 5"
    ):
        drawn(tmp_path, parameters={"A": {"integer": [1, 4]}}, samples=5)


WRONG = {
    "unknown key": ({"worker": 2}, r"unknown key 'worker'; there are: notebook, .*did you mean workers\?"),
    "no such parameter": ({"parameters": {"B": [1]}}, r"notebook tiny has no parameter 'B'; it has: A: int = 1; RATE"),
    "float for int": ({"parameters": {"A": [1, 2.0]}}, r"parameters: parameter A must be int, but it is 2\.0"),
    "text for float": ({"parameters": {"RATE": ["fast"]}}, r"parameter RATE must be float, but it is 'fast'"),
    "bool for int": ({"parameters": {"A": [True]}}, r"parameter A must be int, but it is True"),
    "none for int": ({"parameters": {"A": [None]}}, r"parameter A must be int, but it is None"),
    "empty list": ({"parameters": {"A": []}}, r"parameter A must list at least one value"),
    "no list": ({"parameters": {"A": 3}}, r"parameter A must be a list of values, such as \[1\], but it is 3"),
    "text as list": ({"parameters": {"NAME": "ab"}}, r"parameter NAME must be a list of values"),
    "twice in a list": (
        {"parameters": {"RATE": [1, 1.0]}},
        r"parameter RATE must list each value once, but it has 1\.0 twice",
    ),
    "range in a grid": ({"parameters": {"A": {"integer": [1, 2]}}}, r"A must be a list in mode grid.*mode random"),
    "nothing varies": ({"parameters": {}}, r"parameters must name at least one"),
    "parameters as list": ({"parameters": ["A"]}, r"parameters must hold names and values"),
    "fixed unknown": ({"fixed": {"QUICK": True}}, r"fixed: notebook tiny has no parameter 'QUICK'"),
    "fixed type": ({"fixed": {"FAST": 1}}, r"fixed: parameter FAST must be bool, but it is 1"),
    "fixed twice": ({"fixed": {"A": 1}}, r"fixed: A is given twice"),
    "seed twice": ({"seeds": [1], "fixed": {"SEED": 1}}, r"seeds: SEED is given twice"),
    "seeds empty": ({"seeds": []}, r"seeds: parameter SEED must list at least one"),
    "seeds as number": ({"seeds": 3}, r"seeds: parameter SEED must be a list"),
    "mode": ({"mode": "bayes"}, r"mode must be one of grid, random, but it is 'bayes'"),
    "samples in a grid": ({"samples": 3}, r"samples is for mode random"),
    "no samples": ({"mode": "random"}, r"samples must be a whole number of at least 1, but it is None"),
    "workers": ({"workers": 0}, r"workers must be a whole number of at least 1, but it is 0"),
    "workers as bool": ({"workers": True}, r"workers must be"),
    "seconds": ({"seconds": -1}, r"seconds must be a number above 0"),
    "seconds inf": ({"seconds": math.inf}, r"seconds must be"),
    "no out": ({"out": None}, r"out must be a folder for the results, but it is None"),
    "no notebook": ({"notebook": None}, r"notebook must be the path of an \.ipynb file or a notebook's name"),
    "missing file": ({"notebook": "gone.ipynb"}, r"notebook: there is no file .*gone\.ipynb"),
    "unknown name": ({"notebook": "no_such"}, r"unknown notebook 'no_such'; there are: .*for sweeps: xor_in_time"),
    "pareto of one": ({"pareto": {"maximise": "score"}}, r"pareto must name two different columns"),
    "pareto of text": (
        {"pareto": {"maximise": "score", "minimise": "error"}},
        r"pareto must name columns of numbers, but error is text",
    ),
    "pareto key": ({"pareto": {"max": "score"}}, r"pareto must be \{maximise: NAME"),
    "too many": (
        {"parameters": {"A": list(range(400)), "RATE": list(range(400))}},
        r"at most 100,000 runs, but these are 160,000",
    ),
}
WRONG_LAWS = {
    "uniform int": ({"A": {"uniform": [1, 2]}}, r"parameter A is int, but uniform is for float"),
    "integer float": ({"RATE": {"integer": [1, 2]}}, r"parameter RATE is float, but integer is for int"),
    "not two": ({"RATE": {"uniform": [1]}}, r"RATE must be \{uniform: \[low, high\]\}, but it is \[1\]"),
    "upside down": ({"RATE": {"uniform": [2, 1]}}, r"low < high"),
    "log of 0": ({"RATE": {"log_uniform": [0, 1]}}, r"low above 0"),
    "infinite": ({"RATE": {"uniform": [0, math.inf]}}, r"finite numbers"),
    "other law": ({"RATE": {"normal": [0, 1]}}, r"a list or one of uniform, log_uniform, integer, choice"),
    "empty choice": ({"NAME": {"choice": []}}, r"NAME must list at least one value"),
}
WRONG |= {
    name: ({"mode": "random", "samples": 3, "parameters": given}, says) for name, (given, says) in WRONG_LAWS.items()
}


@pytest.mark.parametrize(("keys", "says"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_refused_by_name(keys, says, tmp_path):
    with pytest.raises(sweep.ManifestError, match=says):
        sweep.load(asked(tmp_path, **keys))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("parameters", "says"),
    [("A = 1", "write NAME: type = literal"), ("A: list = []", "the type may be"), ("A: int = (", "is not Python")],
)
def test_the_notebook_must_declare_its_parameters(parameters, says, tmp_path):
    notebook(tmp_path / "tiny.ipynb", parameters=parameters)
    with pytest.raises(sweep.ManifestError, match=f"manifest: notebook: .*{says}"):
        sweep.load(asked(tmp_path))


def test_a_file_that_is_no_notebook(tmp_path):
    (tmp_path / "tiny.ipynb").write_text("{}")
    with pytest.raises(sweep.ManifestError, match=r"tiny\.ipynb is not a notebook"):
        sweep.load(asked(tmp_path))


def test_notebooks_of_the_course_go_by_their_numbers(tmp_path):
    for given in (4, "04", "train_your_first_network"):
        made = sweep.load(asked(tmp_path, notebook=given, parameters={"EPOCHS": [1, 2]}))
        assert made.notebook.name == "04_train_your_first_network"


def test_outputs_of_a_run_by_hand_are_left_behind(tmp_path):
    content = json.loads(notebook(tmp_path / "tiny.ipynb").read_text())
    clean = sweep.load(asked(tmp_path)).notebook
    content["cells"][1] |= {
        "outputs": [{"output_type": "stream", "name": "stdout", "text": "old"}],
        "execution_count": 7,
    }
    (tmp_path / "tiny.ipynb").write_text(json.dumps(content))
    used = sweep.load(asked(tmp_path)).notebook
    assert used.node.cells == clean.node.cells and used.code == clean.code


def test_a_notebook_in_another_language(tmp_path):
    content = json.loads(notebook(tmp_path / "tiny.ipynb").read_text())
    content["metadata"]["kernelspec"] = {"name": "ir", "display_name": "R", "language": "R"}
    (tmp_path / "tiny.ipynb").write_text(json.dumps(content))
    with pytest.raises(sweep.ManifestError, match="must be in Python, but it is in R"):
        sweep.load(asked(tmp_path))


FILE = """
notebook: notebooks/tiny.ipynb
out: results/a
parameters:
  RATE: [1e-3, .5, 2]   # in YAML 1.1 the first is a word
  NAME: [no, 1:30, '1', 2026-01-01]
"""


def test_paths_of_a_file_start_where_it_lies_and_out_where_the_command_is_given(tmp_path, monkeypatch):
    notebook(tmp_path / "notebooks" / "tiny.ipynb", parameters=PARAMETERS)
    (tmp_path / "m.yaml").write_text(FILE)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    made = sweep.load("../m.yaml")
    assert made.out == tmp_path / "results" / "a" and made.notebook.path == tmp_path / "notebooks" / "tiny.ipynb"
    assert sweep.load("../m.yaml", "here").out == tmp_path / "elsewhere" / "here"
    assert points(made, "RATE", "NAME")[:4] == [(0.001, name) for name in ("no", "1:30", "1", "2026-01-01")]
    assert {rate for rate, _ in points(made, "RATE", "NAME")} == {0.001, 0.5, 2.0}


def test_plain_words_of_yaml():
    spelled = "[010, 0x1F, -7, 1., 1e5, -.inf, true, null, ~, on, +12e03, a: b]"
    expected = [10, 31, -7, 1.0, 1e5, -math.inf, True, None, None, "on", 12e3, {"a": "b"}]
    found = read_yaml(spelled, "x")
    assert found == expected and [type(value) for value in found] == [type(value) for value in expected]
    assert math.isnan(read_yaml(".nan", "x"))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("out: a\nout: b", r"m\.yaml, line 2: the key out is given twice"),
        ("out: [", r"m\.yaml, line"),
        ("1: 2", r"1 can't be a key"),
        ("!!python/object:os.system {}", r"m\.yaml, line 1: could not determine a constructor"),
        ("- a", r"m\.yaml must hold the keys notebook, out"),
        ("", r"m\.yaml must hold the keys .*is None"),
    ],
)
def test_a_file_that_is_no_manifest(text, says, tmp_path):
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(sweep.ManifestError, match=says):
        sweep.load(tmp_path / "m.yaml")


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(sweep.ManifestError, match=r"the manifest .*gone\.yaml can't be read: No such file"):
        sweep.load(tmp_path / "gone.yaml")
    (tmp_path / "m.yaml").write_bytes(b"\xff\xfe\xff")
    with pytest.raises(sweep.ManifestError, match="it is not UTF-8 text"):
        sweep.load(tmp_path / "m.yaml")
