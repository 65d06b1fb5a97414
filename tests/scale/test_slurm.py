"""Our scripts on a real SLURM: accepted, run by two nodes, warned before the limit, requeued, resumed, finished."""

import contextlib
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from snnkit.train import slurm

from . import cluster

pytestmark = pytest.mark.slow

TRAIN = (
    "snnkit train digits --device cpu --samples 640 --batch-size 32 --hidden 16 --steps 4 --epochs 10 "
    "--every 7 --no-progress --checkpoint"
)


@pytest.fixture
def clustered(tmp_path, monkeypatch):
    """A cluster of two nodes, in whose environment the test runs; at its end no daemon, step or task is left."""
    if reason := cluster.missing():
        pytest.skip(f"no SLURM here: {reason}")
    folder = tmp_path / "slurm"
    folder.mkdir()
    with contextlib.ExitStack() as stack:
        try:
            env = stack.enter_context(cluster.running(folder))
        except cluster.CannotStart as reason:
            pytest.skip(f"SLURM does not start here: {reason}")
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        yield folder
    assert cluster.told(folder) == []


@pytest.fixture
def software(tmp_path, monkeypatch):
    """What a request takes for a virtual environment."""
    root, folder = Path(__file__).parents[2], tmp_path / "venv" / "bin"
    programs = {
        "snnkit": f'PYTHONPATH="{root}" exec "{sys.executable}" -m tests.scale.paced "$@"',
        # Of a busy cluster, whose answer takes a while: no rank may end, and so the job, before it is there.
        "scontrol": f'[ "$1" = requeue ] && sleep 5; exec "{shutil.which("scontrol")}" "$@"',
    }
    folder.mkdir(parents=True)
    for name, body in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{body}\n")
        (folder / name).chmod(0o755)
    (folder / "activate").write_text(f'PATH="{folder}:$PATH"\n')
    monkeypatch.chdir(tmp_path)  # where the log goes
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")
    return folder.parent


def sbatch(path, *options):
    return subprocess.run(["sbatch", *options, str(path)], capture_output=True, text=True, timeout=60)


def submit(path, request):
    text = slurm.script(request)
    assert slurm.check(text) == []
    path.write_text(text)
    return int(sbatch(path, "--parsable").stdout.partition(";")[0])


def facts(job):
    """What SLURM knows about a job: JobState, Restarts, …"""
    said = subprocess.run(["scontrol", "show", "job", "-o", str(job)], capture_output=True, text=True, timeout=60)
    return dict(word.split("=", 1) for word in said.stdout.split() if "=" in word)


def ended(job, seconds):
    """The facts about a job once it is over; fails where that takes too long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        known = facts(job)
        if known["JobState"] not in ("PENDING", "RUNNING", "COMPLETING", "REQUEUED", "CONFIGURING"):
            return known
        time.sleep(0.5)
    pytest.fail(f"job {job} is not over after {seconds} s: {facts(job)}")


def test_a_job_meets_its_time_limit_requeues_itself_resumes_and_finishes(clustered, software, tmp_path, monkeypatch):
    jobs = {}
    for name in ("limited", "unbroken"):  # side by side, on the same nodes
        request = slurm.Request(
            f"{TRAIN} {name}.pt", nodes=2, cpus_per_task=1, time="00:02:00", signal_seconds=60, name=name,
            venv=str(software),
        )  # fmt: skip
        monkeypatch.setenv("PAUSE", "0" if name == "unbroken" else "0.5")
        jobs[name] = submit(tmp_path / f"{name}.sh", request)
    known = {name: ended(job, 240) for name, job in jobs.items()}
    logs = {name: (tmp_path / f"{name}-{job}.out").read_text() for name, job in jobs.items()}
    for name in jobs:
        restarts = "0" if name == "unbroken" else "1"
        assert (known[name]["JobState"], known[name]["Restarts"]) == ("COMPLETED", restarts), logs[name]
        assert known[name]["NumNodes"] == "2"
        assert "DUE TO TIME LIMIT" not in logs[name]  # it stopped by itself, before
    limited, unbroken = (torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in jobs)
    assert limited["global_step"] == unbroken["global_step"] == 200
    assert limited["state_dict"].keys() == unbroken["state_dict"].keys()
    for layer, values in unbroken["state_dict"].items():
        assert torch.equal(limited["state_dict"][layer], values), layer


def test_sbatch_agrees_with_what_we_write_and_what_we_check(clustered, tmp_path, monkeypatch):
    good = {
        "cpu": slurm.Request("python train.py", tasks_per_node=2, cpus_per_task=1, requeue=False),
        "gpu": slurm.Request(
            "snnkit train workshop --checkpoint run.pt", nodes=2, gpus_per_node=2, cpus_per_task=1, partition="test",
            time="1-02:00:00", memory="1G", account="mine", name="a b",
        ),
    }  # fmt: skip
    for name, request in good.items():
        assert accepted(tmp_path / f"{name}.sh", slurm.script(request)) == "", name
    text = slurm.script(good["gpu"])
    for was, becomes, rule in (
        ("#!/bin/bash\n", "", "shebang"),
        ("--ntasks-per-node", "--ntask-per-nodes", "spelling"),
        ("--nodes=2", "--nodes = 2", "spaces"),
        ("--nodes=2", "--nodes=$NODES", "value"),
        ("1-02:00:00", "1d", "value"),
        ("SIGUSR1@90", "SIGUSR7@90", "value"),
        ("\n", "\r\n", "carriage"),
    ):
        bad = text.replace(was, becomes)
        assert accepted(tmp_path / "bad.sh", bad) != "", (was, becomes)
        assert rule in [problem.rule for problem in slurm.check(bad)], (was, becomes)
    # One process dies: the others, which would wait for an hour, end with it.
    dies = slurm.Request(
        "bash -c 'if [ $SLURM_PROCID = 1 ]; then exit 3; fi; exec sleep 3600'",
        nodes=2, cpus_per_task=1, requeue=False,
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    job = submit(tmp_path / "dies.sh", dies)
    known = ended(job, 60)
    assert known["JobState"] in ("FAILED", "CANCELLED")  # by the step, or with it
    assert "task 1: Exited with exit code 3" in (tmp_path / f"snnkit-{job}.out").read_text()


def accepted(path, text):
    """What sbatch has against a script; nothing: ""."""
    path.write_bytes(text.encode())
    asked = sbatch(path, "--test-only")
    return "" if asked.returncode == 0 else asked.stderr or "refused"
