"""A run that is killed at any moment, many times, ends with the weights of one that was left alone."""

import contextlib
import json
import os
import random
import signal
import struct
import time

import pytest
import torch

from tests.scale.job import launched, until

pytest.importorskip("lightning")

EVERY, KILLS, EPOCHS = 5, 4, 20
SETTINGS = {
    "samples": 1000, "batch_size": 50, "accumulate": 2, "hidden": 16, "steps": 8, "epochs": EPOCHS,
    "schedule": "one-cycle", "shift": 1, "every": EVERY,
}  # fmt: skip


def start(folder, file, **settings):
    argument = {**SETTINGS, "checkpoint": str(file), "count": str(folder / "count"), **settings}
    return launched(2, json.dumps(argument), folder)


def read(file):
    from snnkit.train.lit import AtomicCheckpointIO

    return AtomicCheckpointIO().load_checkpoint(file)  # which compares every byte with its checksum


def done(folder):
    """Updates of the run that is, or was, under way."""
    return struct.unpack("q", (folder / "count").read_bytes())[0]


def wait_for_progress(job, file):
    """Until a checkpoint is written, or the job has ended."""
    before = file.stat().st_mtime_ns if file.exists() else 0
    until(lambda: job.process.poll() is not None or (file.exists() and file.stat().st_mtime_ns != before))


def kill(job, kind, chance):
    if kind == "launcher":
        job.process.kill()
    elif kind == "job":
        for pid in job.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    else:
        ranks = job.ranks()
        if ranks:
            with contextlib.suppress(ProcessLookupError):
                os.kill(ranks[chance.choice(sorted(ranks))], signal.SIGKILL)


def same(ours, theirs):
    """Weights, the optimizer's state, the schedule and the figures of all epochs."""
    for part in ("state_dict", "optimizer_states", "lr_schedulers"):
        pairs = zip(leaves(ours[part]), leaves(theirs[part]), strict=True)
        assert all(torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b for a, b in pairs), part
    for name, values in history(ours).items():
        if name not in ("seconds", "samples_per_second"):
            assert values == history(theirs)[name], name


def history(checkpoint):
    return checkpoint["callbacks"]["HistoryCallback"]["history"]


def leaves(tree):
    if isinstance(tree, dict):
        for key in tree:
            yield from leaves(tree[key])
    elif isinstance(tree, (list, tuple)):
        for item in tree:
            yield from leaves(item)
    elif tree is not None:
        yield tree


@pytest.mark.slow
def test_kills_lose_nothing(tmp_path):
    chance = random.Random(0)
    with start(tmp_path, tmp_path / "whole.pt") as job:
        assert job.wait() == 0, job.output
    whole = read(tmp_path / "whole.pt")
    updates = whole["global_step"]
    assert updates == EPOCHS * 10 and len(history(whole)["train_loss"]) == EPOCHS

    killed, finished, saved, kinds, places = 0, 0, 0, [], set()
    file = tmp_path / "run.0.pt"
    while killed < KILLS or not finished:
        with start(tmp_path, file, resume=True) as job:
            if killed < KILLS:
                kind = ("rank", "job", "launcher", "rank")[killed % 4]
                if killed % 3 == 2:  # while it starts, reads the checkpoint, meets the others
                    time.sleep(chance.uniform(0, 5))
                else:
                    wait_for_progress(job, file)
                    time.sleep(chance.uniform(0, 1))
                if job.process.poll() is None:
                    kill(job, kind, chance)
                    killed += 1
                    kinds.append(kind)
            code = job.wait(120)  # whatever was killed: nothing is left, and nothing waits
        if not file.exists():
            continue
        checkpoint = read(file)
        saved = checkpoint["global_step"]
        places.add(saved % 10)
        assert done(tmp_path) - saved <= EVERY
        if code == 0:
            assert saved == updates
            same(checkpoint, whole)
            assert not list(tmp_path.glob(".*.part")), "what killed writers left is cleared"
            finished += 1
            file = tmp_path / f"run.{finished}.pt"
    assert set(kinds) == {"rank", "job", "launcher"}
    assert len(places) > 1, "some checkpoints were within an epoch"
