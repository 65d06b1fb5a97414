"""When something goes wrong among ranks, all of them end in time, say why, and leave no process behind."""

import json
import os
import signal
import socket
import sys

import pytest
import torch

from snnkit.train.distributed import free_port
from tests.scale.job import WORKER, Job, launched, until

pytest.importorskip("lightning")

SMALL = {"samples": 200, "batch_size": 20, "hidden": 8, "steps": 3, "epochs": 400}
PATIENCE = 240.0  # seconds in which all must have ended; a start alone takes 40 on a busy machine


def single(rank, argument, folder, port):
    """One of two ranks, without a launcher."""
    place = {
        "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port, "TORCHELASTIC_RUN_ID": "test", "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
    env = {name: str(value) for name, value in place.items()}
    return Job([sys.executable, WORKER, json.dumps(argument)], folder, env)


def test_the_others_learn_what_was_wrong_with_the_one(tmp_path):
    """Without a launcher that ends it, a rank says itself why it does."""
    port = free_port()
    argument = {**SMALL, "fail": 1, "at": 7, "timeout": 20}
    with single(0, argument, tmp_path, port) as first, single(1, argument, tmp_path, port) as second:
        assert second.wait(PATIENCE) == 1
        assert first.wait(PATIENCE) == 76
    assert "RankError: rank 0 of 2 lost another one" in first.output and "rank 1: ValueError: planted" in first.output


@pytest.mark.slow
def test_a_silent_rank_is_not_waited_for_for_ever(tmp_path):
    port = free_port()
    argument = {**SMALL, "fail": 1, "at": 7, "silent": True, "timeout": 3}
    with single(0, argument, tmp_path, port) as first, single(1, argument, tmp_path, port):
        assert first.wait(PATIENCE) == 76
    assert "RankError: rank 0 of 2 lost another one, which has ended, or is stuck for more than 3 s" in first.output
    with launched(2, json.dumps(argument), tmp_path) as job:
        assert job.wait(PATIENCE) == 1
    assert "or is stuck for more than 3 s" in job.output


@pytest.mark.slow
@pytest.mark.parametrize("taken", [False, True])
def test_a_rank_that_never_comes_or_finds_its_port_in_use(tmp_path, taken):
    with socket.socket() as other:
        other.bind(("", 0))
        if taken:
            other.listen()
        port = other.getsockname()[1]
        if not taken:
            other.close()
        with single(0, {**SMALL, "timeout": 3}, tmp_path, port) as job:
            assert job.wait(PATIENCE) == 76
    assert f"RankError: rank 0 of 2 did not meet all others at 127.0.0.1:{port} within 3 s" in job.output
    assert "MASTER_PORT" in job.output and ("in use" in job.output) == taken


@pytest.mark.slow
def test_ranks_that_were_told_different_things(tmp_path):
    port = free_port()
    argument = {**SMALL, "timeout": 20, "differ": "RANK"}
    with single(0, argument, tmp_path, port) as first, single(1, argument, tmp_path, port) as second:
        codes = first.wait(PATIENCE), second.wait(PATIENCE)
    assert codes == (1, 1)
    for job in (first, second):
        assert "ValueError: the recipe must be the same on all ranks" in job.output


@pytest.mark.slow
def test_a_signal_to_one_rank_stops_all_after_the_same_update(tmp_path):
    file = tmp_path / "run.pt"
    settings = {**SMALL, "epochs": 40, "schedule": "cosine", "checkpoint": str(file), "notes": str(tmp_path)}
    with launched(2, json.dumps({**settings, "every": 3}), tmp_path) as job:
        until(file.exists, job)
        os.kill(job.ranks()[1], signal.SIGTERM)
        assert job.wait(PATIENCE) == 0
    told = [line for line in job.output.splitlines() if "updates" in line]
    assert len(told) == 2 and told[0].partition("updates")[2] == told[1].partition("updates")[2]
    assert "stopped by SIGTERM" in told[0]
    stopped = int(told[0].split()[2])
    assert 0 < stopped < 400 and torch.load(file)["global_step"] == stopped
    with launched(2, json.dumps({**settings, "resume": True}), tmp_path) as job:
        assert job.wait() == 0
    resumed = torch.load(tmp_path / "rank0.pt")
    with launched(2, json.dumps({**settings, "checkpoint": str(tmp_path / "whole.pt")}), tmp_path) as job:
        assert job.wait() == 0
    whole = torch.load(tmp_path / "rank0.pt")
    assert all(torch.equal(resumed["weights"][name], value) for name, value in whole["weights"].items())


@pytest.mark.slow
def test_the_command_starts_ranks_and_they_end_with_it(tmp_path):
    file = tmp_path / "run.pt"
    words = "train digits --device cpu --samples 200 --hidden 8 --steps 3 --epochs 400 --devices 2 --every 3"
    with Job([sys.executable, "-m", "snnkit.lab.cli", *words.split(), "--checkpoint", file], tmp_path) as job:
        until(file.exists, job)
        job.process.terminate()
        assert job.wait(PATIENCE) == 143
    assert f"stopped by SIGTERM after update {torch.load(file)['global_step']}, in epoch" in job.output
    assert f"--resume continues from {file}" in job.output
    with Job(
        [sys.executable, "-m", "snnkit.lab.cli", *words.split(), "--checkpoint", file, "--resume"], tmp_path
    ) as job:
        until(lambda: "resuming from" in job.output, job)
        os.kill(job.process.pid, signal.SIGINT)
        assert job.wait(PATIENCE) == 130


@pytest.mark.slow
def test_joining_by_torchrun(tmp_path):
    out = tmp_path / "record.json"
    words = ["digits", "--device", "cpu", "--samples", "100", "--hidden", "8", "--steps", "3", "--epochs", "2"]
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "snnkit.lab.cli"]
    with Job([*run, "train", *words, "--no-progress", "--out", out, "--devices", "2"], tmp_path) as job:
        assert job.wait() == 0, job.output
    lines = [line for line in job.output.splitlines() if line.startswith(("epoch", " ")) and "%" in line]
    assert [line.split()[0] for line in lines] == ["1", "2"], "only rank 0 prints"
    assert json.loads(out.read_text())["arguments"]["ranks"] == 2
    with Job([*run, "train", *words, "--devices", "3"], tmp_path) as job:
        assert job.wait() != 0
    assert "devices must be 2, as was started, but it is 3" in job.output
