"""The references of notebook 09 are what its text and the library say."""

import pytest
import torch

from snnkit.course import grade
from snnkit.course.nb09 import PARTS, REPAIRED, TinyRun, ring_seconds, share, snapshot
from snnkit.hardware import scaling
from snnkit.train import slurm
from tests.course.answers.nb09 import BROKEN, repaired


@pytest.mark.parametrize(("count", "ranks"), [(12, 3), (11, 4), (2, 4)])
def test_the_reference_weights_make_the_mean_of_all_gradients(count, ranks):
    values = torch.rand(count).tolist()
    total = 0.0
    for rank in range(ranks):
        mine, weight = share(values, rank, ranks)
        total += weight * sum(mine) / max(len(mine), 1)
    assert total / ranks == pytest.approx(sum(values) / count)


@pytest.mark.parametrize("part", PARTS)
def test_each_part_of_the_tiny_run_matters(part):
    unbroken, again = TinyRun(), TinyRun()
    for _ in range(4):
        unbroken.update()
    again.restore({name: value for name, value in snapshot(unbroken).items() if name != part})
    for run in (unbroken, again):
        run.losses = []
        for _ in range(4):
            run.update()
    assert unbroken.losses != again.losses


def test_a_whole_snapshot_goes_on_to_the_bit():
    unbroken, again = TinyRun(), TinyRun()
    for _ in range(4):
        unbroken.update()
    again.restore(snapshot(unbroken))
    for run in (unbroken, again):
        run.losses = []
        for _ in range(5):
            run.update()
    assert unbroken.losses == again.losses and again.epoch == 3


def test_three_mistakes_are_planted():
    assert sorted(problem.rule for problem in slurm.check(BROKEN)) == ["devices", "port", "signal"]
    assert slurm.check(REPAIRED) == []


def test_the_line_that_still_hurts_is_named():
    outcome = grade("09.3", repaired(("=02:00:00", "=02:00")))
    assert "--signal" in outcome.yours and "line 10" in outcome.inputs


@pytest.mark.parametrize("ranks", [1, 2, 7, 512])
def test_the_ring_of_the_exercise_is_that_of_the_scaling_model(ranks):
    link = scaling.Link("a link", 2e9, 5e-6, "made up")
    one_node = scaling.Cluster("a node", ranks_per_node=512, inside=link, between=None, source="made up")
    assert ring_seconds(ranks, 3e7, 5e-6, 2e9) == pytest.approx(scaling.all_reduce_s(3e7, one_node, ranks))
