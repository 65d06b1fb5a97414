"""Requests for SLURM: what follows from them, and what they refuse."""

import pytest

from snnkit.train.slurm import Request
from snnkit.train.slurm.syntax import clock, count, duration, early_signal, seconds

TRAIN = "snnkit train digits --checkpoint run.pt"


def test_there_is_a_process_for_each_gpu_or_as_many_as_asked_for():
    assert (Request(TRAIN).tasks, Request(TRAIN).ranks) == (1, 1)
    assert (Request(TRAIN, nodes=2, gpus_per_node=4).tasks, Request(TRAIN, nodes=2, gpus_per_node=4).ranks) == (4, 8)
    assert Request(TRAIN, nodes=4, tasks_per_node=2).ranks == 8
    assert Request(TRAIN, gpus_per_node=2, tasks_per_node=2).ranks == 2


def test_a_command_is_a_line_or_words():
    assert Request("python 'my train.py' -x").words == ("python", "my train.py", "-x")
    assert Request(["python", "my train.py", "-x"]).words == ("python", "my train.py", "-x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 5400), ("01:00", 60), ("01:00:00", 3600), ("1-12", 129600), ("1-00:30", 88200), ("2-03:04:05", 183845)],
)
def test_times_are_read_as_sbatch_does(text, expected):
    assert seconds(text) == expected
    assert Request(TRAIN, time="1-00:30").limit == 88200 and Request(TRAIN, time=90).limit == 5400
    assert seconds(clock(expected)) == expected


@pytest.mark.parametrize("text", ["", "1h", "1:2:3:4", "-5", "1-2-3", "01:00:"])
def test_other_times_are_refused(text):
    with pytest.raises(ValueError, match="time must be written as minutes, M:SS, "):
        seconds(text)


def test_durations_in_words():
    told = {
        1: "1 second",
        60: "1 minute",
        90: "90 seconds",
        120: "2 minutes",
        5400: "1 hour 30 minutes",
        90061: "1 day 1 hour 1 minute 1 second",
    }
    assert {total: duration(total) for total in told} == told
    assert count(1, "process") == "1 process" and count(2, "process") == "2 processes"


def test_signals_are_read_as_sbatch_does():
    for text in ("USR1@90", "SIGUSR1@90", "sigusr1@90", "10@90", "R:USR1@90"):
        signal = early_signal(text)
        assert (signal.name, signal.seconds, signal.batch) == ("SIGUSR1", 90, False), text
    assert early_signal("B:TERM").batch and early_signal("B:TERM").seconds == 60
    for text in ("", "USR1@", "SIGNONE@90", "@90", "X:USR1@90"):
        with pytest.raises(ValueError, match="signal must be"):
            early_signal(text)
    assert Request(TRAIN, signal="USR2").signal == "SIGUSR2"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nodes": 0}, "nodes must be at least 1, but it is 0"),
        ({"gpus_per_node": -1}, "gpus_per_node must be at least 0, but it is -1"),
        ({"cpus_per_task": 0}, "cpus_per_task must be at least 1"),
        ({"tasks_per_node": 0}, "tasks_per_node must be at least 1"),
        ({"gpus_per_node": 4, "tasks_per_node": 1}, "tasks_per_node must equal gpus_per_node.*it is 1 and 4"),
        ({"time": "tomorrow"}, "time must be written as .*it is 'tomorrow'"),
        ({"time": 0}, "time must be whole minutes, from one on.*it is 0"),
        ({"time": "00:01:30"}, "time must be whole minutes.*it is '00:01:30'"),
        (
            {"time": "00:02:00", "signal_seconds": 90},
            "signal_seconds must leave time to train: .* 2 minutes .*it is 90",
        ),
        ({"signal_seconds": 0}, "signal_seconds must be at least 1"),
        ({"signal": "SIGNONE"}, "signal must be the name of a signal, such as 'SIGUSR1', but it is 'SIGNONE'"),
        ({"signal": "KILL"}, "signal must be one that a process can handle.*it is 'SIGKILL'"),
        ({"signal": "TERM"}, "means nothing else.*it is 'SIGTERM'"),
        ({"memory": "lots"}, "memory must be a number with K, M, G or T, such as '64G', but it is 'lots'"),
        ({"partition": " "}, "partition must not be empty"),
        ({"name": ""}, "name must not be empty"),
        ({"workdir": "a\nb"}, r"workdir must be without '\\n', but it is 'a\\nb'"),
        ({"output": 'a"b'}, "output must be without"),
        ({"command": "snnkit train digits --checkpoint --every 5"}, "a value behind --checkpoint, but it is '--every'"),
        ({"command": "snnkit train digits --checkpoint="}, "a value behind --checkpoint, but it is ''"),
        ({"command": "snnkit train digits --checkpoint r --restarts 2"}, "must not have --restarts"),
        ({"command": "snnkit train digits --checkpoint r", "nodes": 3}, "that 3 ranks can share.*it is 64"),
        ({"command": "snnkit train digits --checkpoint r --batch-size 10", "nodes": 4}, "4 ranks can share.*it is 10"),
        ({"address_suffix": "$(rm)"}, "address_suffix must be the end of a name.*it is"),
        ({"venv": "~/v"}, "venv must be a whole path.*it is '~/v'"),
        ({"workdir": "~/x"}, "workdir must be a whole path"),
        ({"venv": "v", "container": "c.sif"}, "venv and container exclude each other, but it is 'v' and 'c.sif'"),
        ({"environment": {"A B": "1"}}, "environment must have names of letters, digits and _, but it is 'A B'"),
        ({"environment": {"A": "1\n2"}}, "environment.'A'. must be without"),
        ({"command": ""}, "command must be what each process runs.*it is empty"),
        ({"command": "python 'train.py"}, "command must have its quotes closed"),
        ({"command": ["python", "a\nb"]}, "command must be one line"),
        ({"command": "srun python train.py"}, "command must not begin with srun"),
        (
            {"command": "snnkit train digits"},
            "command must have --checkpoint FILE, or the requeued job would",
        ),
        ({"command": f"{TRAIN} --nodes 3"}, "command must leave --nodes to the job, which has 1, but it is --nodes 3"),
        (
            {"command": f"{TRAIN} --devices=3"},
            "must leave --devices to the job, which has 1, but it is --devices 3",
        ),
        ({"command": f"{TRAIN} --requeue-signal SIGUSR2"}, "which has SIGUSR1, but it is --requeue-signal SIGUSR2"),
    ],
)
def test_impossible_values_are_refused(values, message):
    with pytest.raises(ValueError, match=message):
        Request(**{"command": TRAIN, **values})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nodes": 1.0}, r"nodes must be an integer, but it is 1.0"),
        ({"nodes": True}, r"nodes must be an integer, but it is True"),
        ({"tasks_per_node": "2"}, "tasks_per_node must be an integer"),
        ({"time": 1.5}, "time must be a text such as '01:30:00', or minutes as an int, but it is 1.5"),
        ({"requeue": 1}, "requeue must be True or False, but it is 1"),
        ({"name": None}, r"name must be a text, but it is None"),
        ({"modules": "CUDA"}, "modules must be a list of texts"),
        ({"modules": [1]}, "modules must be a text, but it is 1"),
        ({"environment": ["A=1"]}, "environment must be a dict of name to text, but it is"),
        ({"environment": {"A": 1}}, "environment.'A'. must be a text, but it is 1"),
        ({"command": 7}, "command must be a text or a list of words, but it is 7"),
        ({"command": ["python", 7]}, "command must be a text or a list of words"),
    ],
)
def test_values_of_another_type_are_refused(values, message):
    with pytest.raises(TypeError, match=message):
        Request(**{"command": TRAIN, **values})


def test_without_requeue_neither_checkpoint_nor_signal_is_needed():
    assert Request("snnkit train digits", requeue=False, time=1).limit == 60
