"""Whoever follows the worked examples of CONTRIBUTING and of docs/adding_*.md gets what they promise."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from snnkit.lab.course import grade, question
from snnkit.lab.tools import pair, runner
from snnkit.lab.viz.explorers import equations
from tests.course.answers import Answers, Mistake, lacking
from tests.course.test_answers import ODD
from tests.unit import tiny_project

ROOT = Path(__file__).parents[2]
FILES = (ROOT / "CONTRIBUTING.md", ROOT / "docs" / "tests.md", *sorted(ROOT.glob("docs/adding_*.md")))
TEXT = "\n".join(file.read_text(encoding="utf-8") for file in FILES)


def example(about):
    """The block under "A worked example: …" that has these words in its summary."""
    pattern = rf"<summary>A worked example: [^\n]*{about}[^\n]*</summary>\n\n```\w+\n(.*?)^```"
    (found,) = re.findall(pattern, TEXT, re.DOTALL | re.MULTILINE)
    return found


def executed(code, tmp_path, name, monkeypatch):
    """The block as a module of its own: engines and cards look into the files of what they are given."""
    (tmp_path / f"{name}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return __import__(name)


@pytest.fixture
def exponential(tmp_path, monkeypatch):
    return executed(example("exponential integrate-and-fire"), tmp_path, "exponential_example", monkeypatch)


def test_the_neuron_is_its_equation(exponential):
    xs = (torch.rand(300, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 1.6 - 0.4).tolist()
    spikes, membrane = exponential.exponential(xs)
    cell = exponential.EIF()
    out, state = cell(torch.tensor(xs, dtype=torch.float64)[:, None, None])
    assert out.flatten().tolist() == spikes and 3 < sum(spikes) < 200
    assert cell.membrane(state).item() == pytest.approx(membrane[-1], rel=1e-12)
    assert (cell.threshold, cell.decay) == (1.0, None)


def test_the_neuron_is_that_of_spikingjelly(exponential):
    pytest.importorskip("spikingjelly")
    from spikingjelly.activation_based import neuron

    x = torch.rand(60, 2, 3, generator=torch.Generator().manual_seed(0)) * 1.6 - 0.4
    out, state = exponential.EIF(3.0)(x)
    theirs = neuron.EIFNode(3.0, v_reset=-0.1, step_mode="m")
    assert torch.equal(theirs(x), out) and 0 < out.mean() < 1
    torch.testing.assert_close(theirs.v, state.v)


def test_the_explorer_takes_it_with_the_numbers_of_its_class(exponential):
    (name, cell), *more = equations.variants(exponential.EIF).items()
    source = equations.written(cell)
    assert name == "hard" and not more and "[0.800000011920929]" in source and '"theta_rh"' in source


@pytest.mark.parametrize("engine", ["cpp", pytest.param("block", marks=pytest.mark.slow)])
def test_every_engine_runs_it_with_its_gradients(exponential, engine):
    x = torch.rand(16, 3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) * 1.6 - 0.2
    results = []
    for name in ("eager", engine):
        tau = torch.nn.Parameter(torch.linspace(2, 6, 5, dtype=torch.float64))
        neuron, drive = exponential.EIF(tau, engine=name).double(), x.clone().requires_grad_()
        out, state = neuron(drive)
        (out.sum() + state.v.sum()).backward()
        assert out.sum() > 0
        results.append((out, state.v, drive.grad, neuron.tau.grad))
    for eager, compiled in zip(*results, strict=True):
        torch.testing.assert_close(compiled, eager)


def test_the_exercise_has_all_that_is_asked_of_one(tmp_path, monkeypatch):
    module = executed(example("one exercise"), tmp_path, "exercise_example", monkeypatch)
    (exercise,) = module.EXERCISES
    assert grade(exercise, exercise.reference).status == "passed"
    wrong = [Mistake(*row) for row in module.WRONG[1]]
    assert lacking(exercise, Answers(wrong, module.RIGHT[1], module.STUBS[1])) == []
    for mistake in wrong:
        outcome = grade(exercise, mistake.answer)
        assert (outcome.status, outcome.check, outcome.hint) == ("failed", mistake.check, exercise.hints[mistake.hint])
    assert [grade(exercise, answer).status for answer in module.RIGHT[1]] == ["passed", "passed"]
    assert [grade(exercise, stub).status for stub in module.STUBS[1]] == ["to do", "to do"]
    for odd in ODD.values():
        outcome = grade(exercise, lambda steps, drive, odd=odd: odd)
        assert outcome.status == "failed" and "could not be checked" not in outcome.message, outcome


def test_the_questions_are_read():
    read = question.parse(example("predictions and a quiz"), "without_a_leak")
    assert [one["kind"] for one in read["predictions"].values()] == ["choice", "number", "sketch"]
    assert len(read["quiz"]) == 1


def test_the_notebook_is_built_and_runs(tmp_path):
    project = tiny_project.make(tmp_path / "kit", {})
    project.source("29_without_a_leak").write_text(example("the smallest notebook"), encoding="utf-8")
    pair.build(project, "29_without_a_leak")
    assert not list(pair.check(project, "29_without_a_leak"))
    jobs = runner.prepare(project, project.names(), {})
    (result,) = runner.execute_all(project, jobs, runner.output_folder(project, tmp_path / "out"))
    assert result.status == "ok", result.error
    copy = (tmp_path / "out" / "notebooks" / "29_without_a_leak.ipynb").read_text(encoding="utf-8")
    assert "6 spikes" in copy and "image/png" in copy


def test_files_that_are_named_exist():
    named = re.findall(r"`((?:[\w.-]+/)*[\w.-]+\.(?:py|md|txt|html))(?:: \w+)?`", TEXT)
    assert len(named) > 20
    kit = ROOT / "snnkit"
    folders = (ROOT, kit, kit / "engine", kit / "lab")
    example = re.compile(r"NN|NAME|18_|without_a_leak|utils|ROOM")
    assert not [name for name in named if not example.search(name) and not any((f / name).exists() for f in folders)]
