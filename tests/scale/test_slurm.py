"""Our scripts on a real SLURM: accepted, run by two nodes, warned before the limit, requeued, resumed, finished."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from snnkit.lab import sweep
from snnkit.train import slurm
from tests.unit import sweep_cases

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


# Each run notes that it has begun, waits for the gate (the first does not), and notes that it is done.
RUN = """
import os, time
from pathlib import Path
from snnkit.lab import sweep

def note(what):
    with open(NAME, "a") as log:
        log.write(f"{what} {A} {os.environ.get('SLURM_ARRAY_TASK_ID')} {os.environ.get('SLURM_RESTART_COUNT', 0)}\\n")

note("begun")
while A > 1 and not Path(NAME + ".gate").exists():
    time.sleep(0.1)
note("done")
sweep.record(score=A * A / 7)
"""


def test_tasks_of_an_array_share_a_sweep_requeue_and_take_over_from_those_that_are_killed(
    clustered, software, tmp_path, monkeypatch
):
    log, gate, serial = (tmp_path / name for name in ("log", "log.gate", "serial"))
    keys = {"parameters": {"A": list(range(1, 8))}, "fixed": {"NAME": str(log)}}
    sweep_cases.notebook(tmp_path / "tiny.ipynb", RUN)
    gate.touch()
    alone = sweep.run(sweep_cases.asked(tmp_path, **keys, out=str(serial)), quiet=True)
    gate.unlink()
    log.unlink()
    (tmp_path / "m.yaml").write_text(json.dumps(sweep_cases.asked(tmp_path, **keys)))  # JSON is YAML
    command = "snnkit sweep m.yaml --out shared"
    request = slurm.Request(command, array="3%3", cpus_per_task=1, time="00:10:00", name="xor", venv=str(software))
    job = submit(tmp_path / "sweep.sh", request)

    def noted(what):
        lines = log.read_text().splitlines() if log.exists() else []
        return [line for line in lines if line.startswith(what)]

    def wait_for(true, seconds=240):
        deadline = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < deadline, (log.read_text(), [path.read_text() for path in tmp_path.glob("*.out")])
            time.sleep(0.2)

    def under_way(task, restart="0"):
        return any(line.split()[2:] == [task, restart] and not line.startswith("begun 1 ") for line in noted("begun"))

    wait_for(lambda: len(noted("done")) == 1 and all(map(under_way, "123")))
    # The signal before the limit: the third task gives its run back, requeues itself, and goes on.
    wait_for(lambda: (tmp_path / "shared" / "results.csv").exists())
    signalled = subprocess.run(["scancel", "--signal=USR1", f"{job}_3"], capture_output=True, text=True, timeout=60)
    assert signalled.returncode == 0, signalled.stderr
    wait_for(lambda: under_way("3", "1"))
    # One is cancelled, of another the process that does the sweep is killed.
    subprocess.run(["scancel", f"{job}_1"], check=True, timeout=60)
    sweeping = [pid for pid in cluster.told(clustered) if is_sweep_of(pid, "2")]
    assert len(sweeping) == 1
    os.kill(sweeping[0], signal.SIGKILL)
    states = [ended(f"{job}_{task}", 60)["JobState"] for task in (1, 2)]
    assert states[0] == "CANCELLED" and states[1] in ("FAILED", "CANCELLED")
    gate.touch()
    known = ended(f"{job}_3", 240)
    logs = {task: (tmp_path / f"xor-{job}_{task}.out").read_text() for task in (1, 2, 3)}
    assert (known["JobState"], known["Restarts"]) == ("COMPLETED", "1"), logs
    assert f"job {job}_3 is requeued" in logs[3] and "7 runs, 0 failed" in logs[3]
    assert "interrupted; what has ended is in" in logs[1]
    # Every run exactly once, with the results of a sweep by one process.
    assert sorted(line.split()[1] for line in noted("done")) == list("1234567")
    columns = ["run", "status", "A", "score"]
    shared = sweep.results(tmp_path / "shared")
    assert shared.select(columns).equals(alone.select(columns)) and shared["score"].null_count() == 0
    assert not list((tmp_path / "shared" / "runs").glob(".*"))


def is_sweep_of(pid, task):
    """Whether it is the process of this task of an array that does the sweep: not its shell, srun or kernels."""
    with contextlib.suppress(OSError):
        words = cluster.command(pid).split(b"\0")
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        python = b"tests.scale.paced" in words and b"sweep" in words
        return python and f"SLURM_ARRAY_TASK_ID={task}".encode() in environment
    return False


def test_sbatch_agrees_with_what_we_write_and_what_we_check(clustered, tmp_path, monkeypatch):
    good = {
        "cpu": slurm.Request("python train.py", tasks_per_node=2, cpus_per_task=1, requeue=False),
        "gpu": slurm.Request(
            "snnkit train workshop --checkpoint run.pt", nodes=2, gpus_per_node=2, cpus_per_task=1, partition="test",
            time="1-02:00:00", memory="1G", account="mine", name="a b",
        ),
        "array": slurm.Request("snnkit sweep xor.yaml --out xor", array="1000%4", cpus_per_task=1),
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
    text = slurm.script(good["array"])
    for becomes, rule in (("1-1001", "array"), ("8-1", "value"), ("1-8:0", "value"), ("1-8 % 4", "value")):
        bad = text.replace("--array=1-1000%4", f'--array="{becomes}"')
        assert accepted(tmp_path / "bad.sh", bad) != "", becomes
        assert [problem.rule for problem in slurm.check(bad)] == [rule], becomes
    for fine in ("1,3,7", "1-4,9", "0-8:2", "1-8%0"):
        text_with = text.replace("--array=1-1000%4", f"--array={fine}")
        assert accepted(tmp_path / "fine.sh", text_with) == "" and slurm.check(text_with) == [], fine
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
