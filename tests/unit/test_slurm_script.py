"""Scripts that are written, and what is said of their lines."""

import itertools
import os
import shutil
import subprocess

import pytest

from snnkit.train import slurm
from snnkit.train.slurm import parse

TRAIN = "snnkit train digits --checkpoint run.pt"
REQUESTS = {
    "small": slurm.Request(TRAIN),
    "large": slurm.Request(
        f"{TRAIN} --every 100",
        nodes=2,
        gpus_per_node=4,
        cpus_per_task=12,
        memory="64G",
        time="1-02:00:00",
        partition="booster",
        account="mine",
        name="my snn",
        output="logs/%x-%A-%j.out",
        workdir="/home/ada/my runs",
        modules=("Stages/2025", "CUDA"),
        venv="/home/ada/my venv/",
        address_suffix="i",
        environment={"NCCL_DEBUG": "WARN", "GLOO_SOCKET_IFNAME": "ib0", "SNNKIT_DATA": "/data", "X": "a $b 'c'"},
    ),
    "container": slurm.Request(TRAIN, gpus_per_node=2, container="my image.sif"),
    "once": slurm.Request("python train.py --lr 0.1", tasks_per_node=2, requeue=False),
    "lightning": slurm.Request("python fit.py --trainer.devices 2", tasks_per_node=2),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_no_problem_is_found_in_what_we_write(name):
    assert slurm.check(slurm.script(REQUESTS[name])) == []


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_can_read_it(name):
    subprocess.run(["bash", "-n"], input=slurm.script(REQUESTS[name]), text=True, check=True, capture_output=True)


def test_all_that_was_asked_for_is_in_it():
    script = parse(slurm.script(REQUESTS["large"]))
    assert {option.name: option.value for option in script.directives} == {
        "job-name": "my snn",
        "account": "mine",
        "partition": "booster",
        "nodes": "2",
        "ntasks-per-node": "4",
        "gpus-per-node": "4",
        "cpus-per-task": "12",
        "mem": "64G",
        "time": "1-02:00:00",
        "signal": "SIGUSR1@90",
        "requeue": "",
        "open-mode": "append",
        "output": "logs/%x-%A-%j.out",
        "chdir": "/home/ada/my runs",
    }
    lines = script.lines
    for line in (
        "module load Stages/2025 CUDA",
        "source '/home/ada/my venv/bin/activate'",
        'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)i',
        "export NCCL_DEBUG=WARN",
    ):
        assert line in lines
    (step,) = script.steps
    assert step.program == tuple(f"{TRAIN} --every 100 --nodes 2 --devices 4 --requeue-signal SIGUSR1 --resume".split())
    assert step.option("kill-on-bad-exit").value == "1"


def test_what_was_not_asked_for_is_left_to_the_cluster():
    names = {option.name for option in parse(slurm.script(REQUESTS["small"])).directives}
    assert not names & {"account", "partition", "mem", "chdir", "gpus-per-node"}


def test_what_the_command_says_already_is_not_said_twice():
    (step,) = parse(slurm.script(slurm.Request(f"{TRAIN} --nodes 1 --resume"))).steps
    assert step.program == tuple(f"{TRAIN} --nodes 1 --resume --devices 1 --requeue-signal SIGUSR1".split())
    (step,) = parse(slurm.script(REQUESTS["once"])).steps
    assert step.program == ("python", "train.py", "--lr", "0.1")


def test_without_requeue_there_is_no_signal_and_no_second_log():
    names = {option.name for option in parse(slurm.script(REQUESTS["once"])).directives}
    assert "no-requeue" in names and not names & {"signal", "requeue", "open-mode"}


@pytest.mark.parametrize(("code", "requeued"), [(75, True), (3, False), (0, False)])
@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_around_a_container_the_script_requeues_by_itself(tmp_path, code, requeued):
    said = tmp_path / "said"
    for name, body in (("srun", f"exit {code}"), ("scontrol", f'echo "$@" >>{said}')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "n"}
    done = subprocess.run(["bash"], input=slurm.script(REQUESTS["container"]), text=True, env=env, timeout=60)
    assert done.returncode == code
    assert ("requeue 7" in said.read_text()) == requeued


def test_processes_meet_at_a_port_of_their_own_job():
    line = next(line for line in slurm.script(REQUESTS["small"]).splitlines() if "MASTER_PORT" in line)
    ports = []
    for job in (1, 9_999, 10_000, 4_294_967_295):
        asked = f"SLURM_JOB_ID={job}; {line}; echo $MASTER_PORT"
        ports.append(int(subprocess.run(["sh", "-c", asked], capture_output=True, text=True, check=True).stdout))
    assert ports == [20001, 29999, 20000, 27295]


def test_script_takes_requests_only():
    with pytest.raises(TypeError, match=r"request must be a slurm.Request, but it is '#!/bin/bash'"):
        slurm.script("#!/bin/bash")


@pytest.mark.parametrize("name", REQUESTS)
def test_every_line_is_explained_in_a_sentence_or_two(name):
    text = slurm.script(REQUESTS[name])
    explained = slurm.explain(REQUESTS[name])
    assert explained == slurm.explain(text)
    assert [line for line, _ in explained] == text.splitlines()
    for line, why in explained:
        assert bool(line.strip()) == bool(why), line
        assert why.count(". ") <= 1 and (not why or why.endswith(".")), why
        assert not any(lost in why for lost in ("man sbatch", "A command that bash", "Continues the", "{", "}")), why


def test_explanations_tell_the_numbers():
    why = dict(slurm.explain(REQUESTS["large"]))
    assert "8 processes, 4 on each of 2 nodes" in why["#SBATCH --ntasks-per-node=4"]
    assert "1 day 2 hours" in why["#SBATCH --time=1-02:00:00"]
    assert why["#SBATCH --signal=SIGUSR1@90"].startswith("90 seconds before the limit")
    assert any("with i at its end" in told for told in why.values())
    assert "%x is the job's name, %j its number, %A" in why["#SBATCH --output=logs/%x-%A-%j.out"]


def test_scripts_of_others_are_explained_too():
    text = """#!/bin/bash -l
# my job
#SBATCH -N 2 -n4
#SBATCH --reboot
#SBATCH --time=oops
#SBATCH --signal=B:USR1@60
./prepare

srun -n 4 --label python train.py
#SBATCH --mem=1G"""
    why = [told for _, told in slurm.explain(text)]
    assert why[0].startswith("The file is a program for bash")
    assert why[1] == "A comment: neither bash nor sbatch does anything with it."
    assert why[2].startswith("How many machines the job gets: 2. How many processes there are in all: 4.")
    assert why[3] == "An option of sbatch, --reboot; `man sbatch` says what it does."
    assert "can't read it" in why[4]
    assert "SIGUSR1 to the shell of this script only" in why[5]
    assert why[6] == "A command that bash runs once, on the first node of the job."
    assert why[7] == ""
    assert "srun starts the command as 4 processes" in why[8] and "begins with its rank" in why[8]
    assert why[9] == "Skipped by sbatch, as it comes after the first command."


def test_explain_takes_scripts_only():
    with pytest.raises(TypeError, match=r"script must be a text or a slurm.Request, but it is 3"):
        slurm.explain(3)


def test_all_combinations_are_written_without_problems():
    for nodes, gpus, requeue, container in itertools.product((1, 2), (0, 1, 4), (True, False), (None, "a.sif")):
        request = slurm.Request(TRAIN, nodes=nodes, gpus_per_node=gpus, requeue=requeue, container=container)
        assert slurm.check(slurm.script(request)) == [], request
