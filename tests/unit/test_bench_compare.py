"""`snnkit bench compare`: what is measured, predicted and published is separate, and nothing of it is made up."""

import dataclasses
import re

import pytest
import torch
from click.testing import CliRunner

from snnkit import records
from snnkit.device import Precision
from snnkit.lab import bench
from snnkit.lab.bench import baselines, compare
from snnkit.lab.bench.compare import CLAIMS, Arguments, candidates, predictions, tutorial
from snnkit.lab.bench.suite import by_case, same_case
from snnkit.lab.bench.training import measure
from snnkit.lab.bench.workloads import Candidate, Ours
from snnkit.lab.cli import main

CPU = torch.device("cpu")
PLAIN = Precision(CPU, None)
QUICK = ("--device", "cpu", "--quick")


class Twin(Ours):
    """Ours under the name of snnTorch."""


def twins(patch):
    def peers(workload):
        yield Candidate("snnTorch", "snnTorch", Twin("eager"), default=True)
        yield Candidate("snnTorch, compile", "snnTorch", Twin("eager"), compiles=True)
        yield Candidate("Norse", "Norse", Twin("eager"))

    patch.setattr(baselines, "networks", peers)
    patch.setattr(compare, "BaselineTrainer", lambda build: Twin("eager"))


@pytest.fixture(autouse=True)
def one_peer(monkeypatch):
    twins(monkeypatch)


def call(*arguments):
    return CliRunner().invoke(main, ["bench", *arguments])


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A record and what was printed."""
    patch = pytest.MonkeyPatch()
    twins(patch)
    path = tmp_path_factory.mktemp("here") / "r.json"
    result = call("compare", *QUICK, "--batch", "2", "--batch", "4", "--hidden", "8", "--out", str(path))
    patch.undo()
    assert result.exit_code == 0, result.output
    return path, result.output


def test_it_measures_predicts_and_quotes(measured):
    path, printed = measured
    for words in (
        "measured: 784-8-10, float32, T = 3, batch 2",
        "predicted, never run: GC200 (float32)",
        "published, not measured here: up to 10 times:",
        "derived from published times, not measured here: 26.6 times:",
    ):
        assert words in printed
    content = records.read(path)
    assert content["complete"] is True and content["kind"] == "compare"
    names = [row["contestant"] for row in content["rows"][: len(content["rows"]) // 2]]
    engines = [name for name in ("block", "cpp") if name not in compare.unavailable(CPU)]
    ours = ["eager", *engines, "auto", "auto, layer 1 every step"]
    assert names == [*ours, "snnTorch", "snnTorch, layer 1 once"]
    assert len(content["matmuls"]) == 2 and len(content["predictions"]) == 4
    assert len(content["claims"]) == len(CLAIMS)
    assert all(band["mark"] == "predicted" for band in content["predictions"])


def test_the_ratio_is_over_snntorch_on_the_same_size(measured):
    content = records.read(measured[0])
    for rows in by_case(content["rows"], compare.KEY):
        slow = next(row["samples_per_s"] for row in rows if row["contestant"] == "snnTorch")
        table = compare.SUITE.table(content, rows)
        assert len(same_case(content["predictions"], rows[0], compare.KEY)) == 2
        for row in rows:
            line = next(line for line in table.splitlines() if line.startswith(f"{row['contestant']}  "))
            assert line.endswith(f"{row['samples_per_s'] / slow:.2f}")
        assert table.count("predicted, never run") == 2


def row(contestant, rate, library="snnkit", width=1000):
    case = {"dtype": "float32", "width": width, "steps": 25, "batch": 128}
    return case | {"contestant": contestant, "library": library, "samples_per_s": rate}


def made(rows, claims=()):
    return {"arguments": {"batch": 128, "width": 1000, "steps": 25}, "rows": rows, "claims": list(claims)}


def test_the_summary_compares_like_with_like():
    rows = [
        row("eager", 30.0),
        row("cpp", 90.0),
        row("auto, layer 1 every step", 20.0),
        row("snnTorch", 10.0, "snnTorch"),
        row("snnTorch, layer 1 once", 45.0, "snnTorch"),
        row("cpp", 1e9, width=8),
        row("snnTorch", 1e3, "snnTorch", width=8),
    ]
    said = compare.summary(made(rows))
    assert max(map(len, said.splitlines())) <= 100  # longer lines break inside words
    assert re.findall(r"([\d.]+) times", said) == ["9.00", "2.00", "2.00"] and "(cpp)" in said
    assert compare.summary(made(rows[:3])) == ""  # without snnTorch there is no ratio
    assert re.findall(r"([\d.]+) times", compare.summary(made([rows[1], rows[3]]))) == ["9.00"]


def test_the_network_is_the_tutorials():
    workload = tutorial()
    net = workload.make("eager")
    assert [tuple(p.shape) for p in net.parameters()] == [(1000, 784), (1000,), (10, 1000), (10,)]
    assert net[1].beta == 0.9 and (workload.steps, workload.batch) == (25, 128)
    optimizer = workload.optimizer(list(net.parameters()), False)
    assert isinstance(optimizer, torch.optim.Adam) and optimizer.defaults["lr"] == 1e-3
    graphed = compare._adam([torch.nn.Parameter(torch.ones(1))], True)
    assert graphed.defaults["fused"] and not graphed.defaults["capturable"]  # on a CPU, without graphs


def test_the_first_layer_runs_once_or_in_every_step():
    workload = tutorial(8, 4, 3)
    runs = []

    def make(engine):
        net = workload.make(engine)
        net[0].register_forward_hook(lambda module, args, out: runs.append(len(out)))
        return net

    watched = dataclasses.replace(workload, make=make)
    for static in (True, False):
        Ours("eager", static=static)(watched, PLAIN).step()
    assert [size for size in runs if size] == [4, 12]
    by_name = {c.name: c for c in candidates(CPU, workload, False)}
    assert measure(workload, PLAIN, [by_name["auto, layer 1 every step"]], 3).rows[0]["spikes_differ"] == 0


def test_a_band_spans_both_ways_to_run_the_first_layer():
    from snnkit.lab.hardware import roofline

    (band,), missing = predictions(tutorial(64, 16, 5), "bfloat16", ["GC200"])
    both = [roofline.tutorial(16, 64, 5, hoisted=hoisted) for hoisted in (False, True)]
    ends = [roofline.ipu(one, "GC200", precision="float16").samples_per_s for one in both]
    assert band["precision"] == "float16" and missing == {}
    assert band["low"] == min(end.low for end in ends) and band["high"] == max(end.high for end in ends)
    assert band["likely"] == ends[0].value


def test_what_does_not_fit_on_an_ipu_is_not_predicted(monkeypatch):
    bands, missing = predictions(tutorial(2**17, 4, 2), "float32", ["GC200"])
    assert bands == [] and "GC200 has" in missing["GC200"]
    monkeypatch.setattr(compare, "predictions", lambda *arguments: ([], {"GC200": "too large"}))
    arguments = Arguments("cpu", (4,), (), 4, 8, 3, ("float32",), ("GC200",), False, 3)
    result = compare.benchmark(arguments, lambda text: None)
    assert "not timed: GC200 (net mlp" in bench.tables(result) and "too large" in bench.tables(result)
    records.validate(result, "r.json")


def test_every_claim_has_its_source():
    for claim in CLAIMS:
        assert claim.source and claim.url.startswith("https://") and 0 < claim.low <= claim.high
    derived = {claim.who: claim for claim in CLAIMS if claim.derived}
    for claim in derived.values():
        fast, slow = map(float, re.findall(r"([\d.]+) s\b", claim.what))
        assert claim.low == claim.high == pytest.approx(slow / fast, rel=0.005) == float(claim.said)


def test_snntorch_computes_the_same_update_if_it_is_installed(monkeypatch):
    pytest.importorskip("snntorch")
    monkeypatch.undo()
    workload = tutorial(16, 8, 5)
    theirs = [c for c in candidates(CPU, workload, True) if c.library == "snnTorch" and c.suits(PLAIN)]
    outcome = measure(workload, PLAIN, theirs, 3)
    names = ["snnTorch", "snnTorch, layer 1 once", "snnTorch, fused optimizer"]
    assert outcome.skipped == [] and [r["contestant"] for r in outcome.rows] == names
