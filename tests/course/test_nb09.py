"""The checks of notebook 09: references pass, stubs are to do, and each classic mistake fails with its hint."""

import pytest
import torch

from snnkit.course import grade
from snnkit.course.batch_script import REPAIRED
from snnkit.course.nb09 import ring_seconds, share, snapshot
from snnkit.course.tiny_run import PARTS, TinyRun
from snnkit.hardware import scaling
from snnkit.train import slurm
from tests.course.answers import fails, unused_hints


def test_every_hint_is_shown_for_some_mistake():
    tables = {"09.1": SHARES, "09.2": SNAPSHOTS, "09.3": SCRIPTS, "09.4": RINGS}
    # The last hint of 09.2 is for what leaves each part as it is and the run not: nothing that is known today.
    assert unused_hints(tables) == {"09.1": set(), "09.2": {7}, "09.3": set(), "09.4": set()}


# 09.1


def sharing(part, weight=lambda mine, batch, ranks: len(mine) * ranks / len(batch)):
    """An answer to 09.1."""

    def answer(batch, rank, ranks):
        mine = part(batch, rank, ranks)
        return mine, weight(mine, batch, ranks)

    return answer


def contiguous(batch, rank, ranks):
    return batch[len(batch) * rank // ranks : len(batch) * (rank + 1) // ranks]


def rounded_down(batch, rank, ranks):
    size = len(batch) // ranks
    return batch[rank * size : (rank + 1) * size]


def rounded_up(batch, rank, ranks):
    size = -(-len(batch) // ranks)
    return batch[rank * size : (rank + 1) * size]


def rest_to_the_last(batch, rank, ranks):
    size = len(batch) // ranks
    return batch[rank * size :] if rank == ranks - 1 else batch[rank * size : (rank + 1) * size]


def padded(batch, rank, ranks):
    return (batch + batch[: -len(batch) % ranks])[rank::ranks]


def dealt(batch, rank, ranks):
    return batch[rank::ranks]


def from_one(batch, rank, ranks):
    return batch[rank + 1 :: ranks]


@pytest.mark.parametrize("part", [contiguous, rounded_up, dealt])
def test_other_right_answers_to_09_1_pass(part):
    outcome = grade("09.1", sharing(part))
    assert outcome.status == "passed", outcome


SHARES = [
    (sharing(lambda batch, rank, ranks: batch), "each sample once", 1),
    (sharing(rounded_down), "each sample once", 2),
    (sharing(from_one), "each sample once", 2),
    (sharing(padded), "each sample once", 3),
    (sharing(rest_to_the_last), "fair", 4),
    (sharing(dealt, lambda mine, batch, ranks: len(mine)), "the mean of all", 5),
    (sharing(dealt, lambda mine, batch, ranks: 1.0), "the mean of all", 6),
    (sharing(dealt, lambda mine, batch, ranks: len(mine) / len(batch)), "the mean of all", 7),
    (sharing(dealt, lambda mine, batch, ranks: 1 / ranks), "the mean of all", 7),
    (
        sharing(lambda batch, rank, ranks: batch[rank % len(batch)], lambda mine, batch, ranks: 1.0),
        "each sample once",
        0,
    ),
]


@pytest.mark.parametrize(("answer", "check", "hint"), SHARES)
def test_classic_mistakes_in_09_1(answer, check, hint):
    fails("09.1", answer, check, hint)


def test_one_value_in_place_of_two():
    outcome = grade("09.1", lambda batch, rank, ranks: batch[rank::ranks])
    assert outcome.status == "failed" and "pair" in outcome.message


@pytest.mark.parametrize(("count", "ranks"), [(12, 3), (11, 4), (2, 4)])
def test_the_reference_weights_make_the_mean_of_all_gradients(count, ranks):
    values = torch.rand(count).tolist()
    total = 0.0
    for rank in range(ranks):
        mine, weight = share(values, rank, ranks)
        total += weight * sum(mine) / max(len(mine), 1)
    assert total / ranks == pytest.approx(sum(values) / count)


# 09.2


def without(*names, **others):
    """An answer to 09.2 that leaves parts out, or saves other values."""

    def answer(run):
        saved = {name: value for name, value in snapshot(run).items() if name not in names}
        return saved | {name: value(run) for name, value in others.items()}

    return answer


SNAPSHOTS = [
    (without("model"), "model", 2),
    (without("optimizer"), "optimizer", 3),
    (without("scheduler"), "scheduler", 4),
    (without("noise"), "noise", 5),
    (without("epoch"), "epoch", 6),
    (without("batch"), "batch", 6),
    (without("epoch", "batch"), "epoch", 6),
    (lambda run: {"model": run.model.state_dict()}, "optimizer", 3),
    (lambda run: {"weights": run.model.state_dict()}, "a plain dict", 0),
    (without(model=lambda run: run.model), "a plain dict", 1),
    (without(optimizer=lambda run: run.optimizer), "a plain dict", 1),
    (without(noise=lambda run: run.noise), "a plain dict", 1),
    (without(noise=lambda run: run.noise.initial_seed()), "a plain dict", 1),
    (without(scheduler=lambda run: run.scheduler.get_last_lr()), "a plain dict", 1),
]


@pytest.mark.parametrize(("answer", "check", "hint"), SNAPSHOTS)
def test_classic_mistakes_in_09_2(answer, check, hint):
    fails("09.2", answer, check, hint)


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


def test_a_list_is_no_snapshot():
    outcome = grade("09.2", lambda run: [run.epoch])
    assert outcome.status == "failed" and "dict" in outcome.message


# 09.3

BROKEN = (
    REPAIRED.replace("--ntasks-per-node=4", "--ntasks-per-node=1")
    .replace("--time=02:00:00", "--time=02:00")
    .replace("$((20000 + SLURM_JOB_ID % 10000))", "29500")
)


def test_three_mistakes_are_planted():
    assert sorted(problem.rule for problem in slurm.check(BROKEN)) == ["devices", "port", "signal"]
    assert slurm.check(REPAIRED) == []


def repaired(*changes):
    text = REPAIRED
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


SCRIPTS = [
    (repaired(("--ntasks-per-node=4", "--ntasks-per-node=1")), "no mistakes left", 0),
    (repaired(("--ntasks-per-node=4", "--ntasks-per-node=8")), "no mistakes left", 0),
    (repaired(("=02:00:00", "=02:00")), "no mistakes left", 1),
    (repaired(("=02:00:00", "=2h")), "no mistakes left", 1),
    (repaired(("#SBATCH --signal=SIGUSR1@120\n", "")), "no mistakes left", 1),
    (repaired(("=02:00:00", "=02:00"), ("@120", "@30")), "two hours", 1),
    (repaired(("$((20000 + SLURM_JOB_ID % 10000))", "29501")), "no mistakes left", 2),
    (repaired(("$((20000 + SLURM_JOB_ID % 10000))", "$SLURM_JOB_ID")), "no mistakes left", 2),
    (repaired(("per-node=4", "per-node=1")), "the same job", 3),
    (repaired(("--nodes=2", "--nodes=1")), "the same job", 3),
    (repaired(("snnkit train workshop", "python train.py")), "the same job", 3),
    (repaired(("srun --kill-on-bad-exit=1", "srun")), "no mistakes left", 4),
    (repaired((" --resume", "")), "no mistakes left", 4),
]


@pytest.mark.parametrize(("answer", "check", "hint"), SCRIPTS)
def test_classic_mistakes_in_09_3(answer, check, hint):
    fails("09.3", answer, check, hint)


def test_the_line_that_still_hurts_is_named():
    outcome = grade("09.3", repaired(("=02:00:00", "=02:00")))
    assert "--signal" in outcome.yours and "line 10" in outcome.inputs


def test_a_signal_that_is_less_early_is_right_too():
    assert grade("09.3", repaired(("@120", "@60"))).status == "passed"


# 09.4


def ring(factor=2, steps=lambda n: n - 1, piece=lambda size, n: size / n, speed=lambda b: 1 / b):
    """An answer to 09.4 with something wrong."""

    def answer(ranks, size, latency, bandwidth):
        return factor * steps(ranks) * (latency + piece(size, ranks) * speed(bandwidth))

    return answer


RINGS = [
    (ring(steps=lambda n: n), "alone", 0),
    (lambda ranks, size, latency, bandwidth: latency + size / bandwidth, "alone", 0),
    (ring(factor=1), "latency", 1),
    (lambda ranks, size, latency, bandwidth: 2 * (ranks - 1) * size / ranks / bandwidth, "latency", 0),
    (ring(piece=lambda size, n: size), "bandwidth", 2),
    (ring(speed=lambda b: b), "bandwidth", 3),
]


@pytest.mark.parametrize(("answer", "check", "hint"), RINGS)
def test_classic_mistakes_in_09_4(answer, check, hint):
    fails("09.4", answer, check, hint)


@pytest.mark.parametrize("ranks", [1, 2, 7, 512])
def test_the_ring_of_the_exercise_is_that_of_the_scaling_model(ranks):
    link = scaling.Link("a link", 2e9, 5e-6, "made up")
    one_node = scaling.Cluster("a node", ranks_per_node=512, inside=link, between=None, source="made up")
    assert ring_seconds(ranks, 3e7, 5e-6, 2e9) == pytest.approx(scaling.all_reduce_s(3e7, one_node, ranks))


# Stubs


def stub_of_the_notebook_1(batch, rank, ranks):
    mine = ...
    weight = ...
    return mine, weight


def stub_of_the_notebook_2(run):
    return {
        "model": run.model.state_dict(),
        "optimizer": ...,
    }


@pytest.mark.parametrize(
    ("key", "stub"),
    [
        ("09.1", stub_of_the_notebook_1),
        ("09.2", stub_of_the_notebook_2),
        ("09.2", lambda run: ...),
        ("09.3", BROKEN),
        ("09.4", lambda ranks, size, latency, bandwidth: ...),
    ],
)
def test_stubs_are_to_do(key, stub):
    assert grade(key, stub).status == "to do"


@pytest.mark.parametrize("key", ["09.1", "09.2", "09.3", "09.4"])
def test_references_pass(key):
    references = {"09.1": share, "09.2": snapshot, "09.3": REPAIRED, "09.4": ring_seconds}
    assert grade(key, references[key]).status == "passed"
