"""Ranks: which one a process is, and launching them; the ranks here import nothing."""

import signal
import subprocess
import sys
import time

import pytest

from snnkit.train import LaunchError, RankInfo, launch

LIMIT = 60.0  # seconds, where only a hang would take so long
PLACE = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK"


def python(code):
    return [sys.executable, "-S", "-c", code]


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid):
    until = time.monotonic() + LIMIT
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not alive(pid)


def test_each_rank_finds_its_place():
    done = launch(python(f"import os; print(*(os.environ[name] for name in {PLACE.split()}))"), 3)
    assert done.outputs == [[f"{rank} {rank} 3 3 0"] for rank in range(3)]


def test_environment_and_threads(monkeypatch):
    code = 'import os; print(os.environ.get("OMP_NUM_THREADS"))'
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert launch(python(code), 2).outputs == [["1"], ["1"]]
    assert launch(python(code), 1).outputs == [["None"]]
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert launch(python(code), 2).outputs == [["3"], ["3"]]


def test_lines_come_as_they_are_printed():
    seen = []
    code = 'import sys; print("one"); print("two", file=sys.stderr); print("bar\\rbar 2"); print("ä", end="")'
    done = launch(python(code), 2, on_line=lambda rank, line: seen.append((rank, line)))
    assert done.outputs == [["one", "two", "bar 2", "ä"]] * 2
    assert [line for rank, line in seen if rank == 1] == done.outputs[1]


def test_much_output_does_not_block():
    done = launch(python('for i in range(20000): print("x" * 50)'), 2)
    assert [len(lines) for lines in done.outputs] == [20000, 20000]


@pytest.mark.parametrize(
    ("how", "code", "says"),
    [
        ("os.kill(os.getpid(), 9)", -9, r"rank 1 of 3 was ended by SIGKILL \(-9\)"),
        ('raise ValueError("planted")', 1, r"(?s)rank 1 of 3 failed with exit code 1 .*lines.*ValueError: planted"),
    ],
)
def test_one_that_fails_ends_all(how, code, says):
    body = f'import os, sys, time; rank = os.environ["RANK"]; print(os.getpid(), flush=True)\nif rank == "1": {how}\n'
    with pytest.raises(LaunchError, match=says) as caught:
        launch(python(body + "time.sleep(1000)"), 3)
    error = caught.value
    assert (error.rank, error.code) == (1, code) and "all others were ended" in str(error)
    assert not any(alive(int(lines[0])) for lines in error.outputs if lines)


def test_a_bystander_is_not_blamed():
    code = 'import os, sys, time; r = os.environ["RANK"]; time.sleep(0.1 * (r == "1")); sys.exit(76 if r == "0" else 5)'
    with pytest.raises(LaunchError, match="rank 1 of 2 failed with exit code 5"):
        launch(python(code), 2)


def test_those_that_ignore_sigterm_are_killed_with_their_children():
    code = (
        'import os, signal, subprocess, sys, time; signal.signal(15, signal.SIG_IGN); r = os.environ["RANK"]\n'
        'child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(1000)"])\n'
        "print(child.pid, os.getpid(), flush=True); time.sleep(0.5 if r == '1' else 1000); sys.exit(2)"
    )
    with pytest.raises(LaunchError) as caught:
        launch(python(code), 2, grace=0.3)
    assert all(gone(int(pid)) for lines in caught.value.outputs for pid in lines[0].split())


def test_a_limit_of_time():
    with pytest.raises(LaunchError, match=r"did not end within timeout=0.5 s.*\n?.*Last lines of rank 0") as caught:
        launch(python("import os, time; print(os.getpid(), flush=True); time.sleep(1000)"), 2, timeout=0.5)
    assert caught.value.rank is None and caught.value.code is None
    assert all(gone(int(lines[0])) for lines in caught.value.outputs)


SLEEPERS = (
    "import sys; from snnkit.train import launch\n"
    "launch([sys.executable, '-S', '-c', 'import os, time; print(os.getpid(), flush=True); time.sleep(1000)'], 2,"
    " grace=1, on_line=lambda rank, line: print(line, flush=True))"
)


@pytest.mark.parametrize(
    "number", [signal.SIGKILL, *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGTERM, signal.SIGINT))]
)
def test_ranks_end_with_their_launcher(number):
    launcher = subprocess.Popen([sys.executable, "-c", SLEEPERS], stdout=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    ranks = [int(launcher.stdout.readline()) for _ in range(2)]
    assert all(map(alive, ranks))
    launcher.send_signal(number)
    assert all(map(gone, ranks))
    assert launcher.wait(LIMIT) == {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: -2}[number]
    launcher.stdout.close()


# -- which rank of how many a process is, by what launchers write into its environment

TORCHRUN = {
    "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x",
}  # fmt: skip
SLURM = {
    "SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "train", "SLURM_NTASKS": "4", "SLURM_NNODES": "2", "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
}  # fmt: skip
SRUN = {**SLURM, "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NUM_NODES": "2"}


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({}, RankInfo(0, 1, 0, 1, 1, "alone")),
        (TORCHRUN, RankInfo(3, 4, 1, 2, 2, "torchrun")),
        (SRUN, RankInfo(3, 4, 1, 2, 2, "srun")),
    ],
)
def test_each_launcher_says_which_rank_a_process_is(environment, place):
    assert RankInfo.from_environment(environment) == place


def test_a_batch_script_without_srun_is_told():
    with pytest.raises(ValueError, match="SLURM_NTASKS=4 tasks, but the command runs once: put srun before it"):
        RankInfo.from_environment({**SLURM, "SLURM_PROCID": "0"})
    assert RankInfo.from_environment({**SLURM, "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}) == RankInfo()
    shell = {**SLURM, "SLURM_JOB_NAME": "bash"}  # that a person types in
    assert RankInfo.from_environment(shell) == RankInfo()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"RANK": "one"}, "RANK of the environment must be a number, but it is 'one'"),
        ({"LOCAL_WORLD_SIZE": "3"}, "every node must have as many ranks, but 2 nodes have 4 in all"),
        ({"LOCAL_RANK": None}, "LOCAL_RANK of the environment must be a number, but it is None"),
    ],
)
def test_an_environment_that_makes_no_sense(change, says):
    changed = {name: value for name, value in {**TORCHRUN, **change}.items() if value is not None}
    with pytest.raises(ValueError, match=says):
        RankInfo.from_environment(changed)


@pytest.mark.parametrize(
    ("place", "wanted", "says"),
    [
        (RankInfo(), (2, None), "devices must be 1, as was started, but it is 2: start it with"),
        (RankInfo(0, 4, 0, 2, 2, "torchrun"), (4, 2), "devices must be 2, .* but it is 4.* --nproc-per-node"),
        (RankInfo(0, 4, 0, 2, 2, "srun"), (2, 1), "nodes must be 2, .* but it is 1: set --ntasks-per-node"),
    ],
)
def test_other_numbers_than_were_started(place, wanted, says):
    with pytest.raises(ValueError, match=says):
        place.check(*wanted)
    place.check(None, None)
    place.check(place.per_node, place.nodes)


def test_a_batch_that_ranks_cannot_share():
    RankInfo(0, 4, 0, 4).check_batch(64)
    with pytest.raises(ValueError, match="multiple of the number of ranks, 4, which share it, but it is 66"):
        RankInfo(0, 4, 0, 4).check_batch(66)


def test_devices(monkeypatch):
    place = RankInfo(3, 4, 1, 2, 2, "torchrun")
    assert place.device("cpu").type == "cpu"
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("snnkit.train.distributed.resolve_device", lambda device: __import__("torch").device(device))
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert str(place.device("cuda")) == "cuda:1"
    with pytest.raises(ValueError, match="device of ranks must be 'auto', 'cpu' or 'cuda', but it is 'cuda:0'"):
        place.device("cuda:0")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(ValueError, match="2 ranks on this machine need a CUDA device each, but PyTorch sees 1 here"):
        place.device("cuda")
    with pytest.raises(ValueError, match="device of ranks must be 'auto', 'cpu' or 'cuda', but it is 'meta'"):
        place.device("meta")
