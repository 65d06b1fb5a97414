"""Requests for SLURM, the scripts that are written from them, and the command ``snnkit slurm``."""

import itertools
import shlex
import shutil
import subprocess
from dataclasses import fields

import pytest
from click.testing import CliRunner

from snnkit.lab.cli import main
from snnkit.train import slurm
from snnkit.train.slurm import Request, parse, seconds
from snnkit.train.slurm.syntax import clock, early_signal

TRAIN = "snnkit train digits --checkpoint run.pt"
COMMAND = tuple(TRAIN.split())
SWEEP = "snnkit sweep xor.yaml --out results"
REQUESTS = {
    "small": Request(TRAIN),
    "large": Request(
        f"{TRAIN} --every 100", nodes=2, gpus_per_node=4, cpus_per_task=12, memory="64G", time="1-02:00:00",
        partition="booster", account="mine", name="my snn", modules=("Stages/2025", "CUDA"), venv="/home/ada/my venv/",
    ),
    "once": Request("python train.py --lr 0.1", tasks_per_node=2, requeue=False),
    "array": Request("snnkit sweep xor.yaml --out /scratch/ada/xor", array="8%4", cpus_per_task=6),
    "sweep": Request("python -m snnkit.lab.cli sweep xor.yaml --workers 2", gpus_per_node=1),
    "lightning": Request("python fit.py --trainer.devices 2", tasks_per_node=2),
}  # fmt: skip


# --- requests and times ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 5400), ("01:00", 60), ("01:00:00", 3600), ("1-12", 129600), ("1-00:30", 88200), ("2-03:04:05", 183845)],
)
def test_times_are_read_as_sbatch_does(text, expected):
    assert seconds(text) == expected == seconds(clock(expected))


@pytest.mark.parametrize("text", ["", "1h", "1:2:3:4", "-5", "1-2-3", "01:00:", "9" * 5000])
def test_other_times_are_refused(text):
    with pytest.raises(ValueError, match="time must be written as minutes, M:SS, "):
        seconds(text)


def test_signals_are_read_as_sbatch_does():
    for text in ("USR1@90", "SIGUSR1@90", "sigusr1@90", "10@90", "R:USR1@90"):
        assert early_signal(text) == ("SIGUSR1", 90, False), text
    assert early_signal("B:TERM") == ("SIGTERM", 60, True)
    for text in ("", "USR1@", "SIGNONE@90", "@90", "X:USR1@90"):
        with pytest.raises(ValueError, match="signal must be"):
            early_signal(text)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gpus_per_node": 4, "tasks_per_node": 1}, "Each node has 4 GPUs, for one process each, but SLURM starts 1"),
        ({"time": "tomorrow"}, "time must be written as .*it is 'tomorrow'"),
        ({"time": "00:02:00"}, r"--time=00:02:00 \(line .*\) is 120 s: .*Fix: give the job more time than 00:02:30"),
        ({"partition": " "}, "partition must be a line of text"),
        ({"venv": "~/v"}, "venv must be a line of text .*, but it is '~/v'"),
        ({"command": ""}, "command must be one line, what each process runs.*but it is ''"),
        ({"command": "python 'train.py"}, "command must have its quotes closed"),
        ({"command": "srun python train.py"}, "without the srun before it"),
        ({"command": "snnkit train digits"}, "The command writes no checkpoint"),
        ({"command": f"{TRAIN} --nodes 3"}, "The command expects 3 nodes, but the job has 1"),
        ({"array": 0}, "array must be at least 1, but it is 0"),
        ({"array": -3}, "array must be at least 1, but it is -3"),
        ({"array": 1001}, "array must be at most 1000, but it is 1001"),
        ({"array": 2.5}, "array of Request must be"),
        ({"array": True}, "array of Request must be an integer or a text"),
        ({"array": "many"}, "array must be a number of tasks, such as 8, or 8%4 .*but it is 'many'"),
        ({"array": "1-8"}, "array must be a number of tasks.*but it is '1-8'"),
        ({"array": "8%0"}, "the number behind % of array must be at least 1, but it is 0"),
        ({"array": 8}, "array goes with `snnkit sweep`.*but the command is 'snnkit train digits"),
        ({"array": 8, "command": "snnkit sweep show results"}, "array goes with `snnkit sweep`"),
        ({"array": 8, "command": "python sweep m.yaml --out r"}, "array goes with `snnkit sweep`"),
        ({"array": 8, "command": "snnkit sweep xor.yaml"}, "command must have --out FOLDER with array"),
        ({"array": 8, "command": SWEEP, "nodes": 2}, "must make one process with array, but they make 2"),
        ({"array": 8, "command": SWEEP, "gpus_per_node": 4}, "must make one process with array, but they make 4"),
        ({"array": 8, "command": "snnkit sweep m.yaml --out /tmp/r"}, "/tmp/r is on the disk of one node"),
    ],
)
def test_impossible_values_are_refused(values, message):
    with pytest.raises((ValueError, TypeError), match=message):
        Request(**{"command": TRAIN, **values})


# --- scripts ---------------------------------------------------------------------------------------------------------


def test_all_combinations_are_written_without_problems():
    for nodes, gpus, requeue, tasks in itertools.product((1, 2), (0, 1, 4), (True, False), (None, 4)):
        if gpus != 1 or tasks is None:
            request = Request(TRAIN, nodes=nodes, gpus_per_node=gpus, requeue=requeue, tasks_per_node=tasks)
            assert slurm.check(slurm.script(request)) == [], request


@pytest.mark.parametrize("name", REQUESTS)
def test_bash_can_read_it_and_no_problem_is_found(name):
    text = slurm.script(REQUESTS[name])
    assert slurm.check(text) == []
    if shutil.which("bash"):
        subprocess.run(["bash", "-n"], input=text, text=True, check=True, capture_output=True)


def test_all_that_was_requested_is_in_it():
    script = parse(slurm.script(REQUESTS["large"]))
    asked = {"job-name": "my snn", "account": "mine", "partition": "booster", "nodes": "2", "ntasks-per-node": "4"}
    asked |= {"gpus-per-node": "4", "cpus-per-task": "12", "mem": "64G", "time": "1-02:00:00"}
    survival = {"signal": "SIGUSR1@90", "requeue": "", "open-mode": "append", "output": "%x-%j.out"}
    assert {option.name: option.value for option in script.directives} == asked | survival
    assert "module load Stages/2025 CUDA" in script.lines
    assert "source '/home/ada/my venv/bin/activate'" in script.lines
    (step,) = script.steps
    assert step.program == f"{TRAIN} --every 100 --nodes 2 --devices 4 --resume".split()
    assert ("kill-on-bad-exit", "1") in [option[:2] for option in step.options]


def test_what_was_not_requested_is_left_to_the_cluster():
    names = {option.name for option in parse(slurm.script(REQUESTS["small"])).directives}
    assert not names & {"account", "partition", "mem", "gpus-per-node"}
    names = {option.name for option in parse(slurm.script(REQUESTS["once"])).directives}
    assert "no-requeue" in names and not names & {"signal", "requeue", "open-mode"}
    (step,) = parse(slurm.script(REQUESTS["once"])).steps
    assert step.program == ["python", "train.py", "--lr", "0.1"]


def test_tasks_of_an_array_run_the_same_sweep_with_a_log_each_and_a_core_for_each_run():
    script = parse(slurm.script(REQUESTS["array"]))
    values = {option.name: option.value for option in script.directives}
    assert (values["array"], values["output"], values["ntasks-per-node"]) == ("1-8%4", "%x-%A_%a.out", "1")
    assert values.keys() >= {"signal", "requeue", "open-mode"}
    (step,) = script.steps
    assert shlex.join(step.program) == "snnkit sweep xor.yaml --out /scratch/ada/xor --workers 6"
    assert "export OMP_NUM_THREADS=1" in script.lines and not [line for line in script.lines if "MASTER" in line]


@pytest.mark.parametrize(
    ("values", "added", "threads"),
    [
        ({"cpus_per_task": 8}, "--workers 8", "1"),
        ({"cpus_per_task": 8, "command": f"{SWEEP} --workers 2"}, "", "4"),
        ({"cpus_per_task": 2, "command": f"{SWEEP} --workers=3"}, "", "1"),
        ({"gpus_per_node": 1}, "", "$SLURM_CPUS_PER_TASK"),  # how many fit on it, the manifest knows
    ],
)
def test_runs_share_the_cores_of_a_task(values, added, threads):
    text = slurm.script(Request(**{"command": SWEEP, "array": 2, **values}))
    (step,) = parse(text).steps
    command = values.get("command", SWEEP)
    assert step.program == f"{command} {added}".split() and f"export OMP_NUM_THREADS={threads}\n" in text


def test_processes_meet_at_a_port_of_their_own_job():
    line = next(line for line in slurm.script(REQUESTS["small"]).splitlines() if "MASTER_PORT" in line)
    ports = []
    for job in (1, 9_999, 10_000, 4_294_967_295):
        script = f"SLURM_JOB_ID={job}; {line}; echo $MASTER_PORT"
        ports.append(int(subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout))
    assert ports == [20001, 29999, 20000, 27295]


@pytest.mark.parametrize("name", REQUESTS)
def test_every_line_is_explained(name):
    text = slurm.script(REQUESTS[name])
    explained = slurm.explain(REQUESTS[name])
    assert explained == slurm.explain(text)
    assert [line for line, _ in explained] == text.splitlines()
    for line, why in explained:
        assert bool(line.strip()) == bool(why), line
        assert not why or why.endswith("."), why
        assert not any(lost in why for lost in ("man sbatch", "A command that bash", "Continues the", "{", "}")), why


# --- the command -----------------------------------------------------------------------------------------------------


def call(*arguments):
    return CliRunner().invoke(main, ["slurm", *map(str, arguments)])


def words_of(result):
    return " ".join(result.output.split())


def test_every_attribute_of_a_request_is_an_option():
    given = {
        "nodes": 2, "gpus_per_node": 4, "tasks_per_node": 4, "cpus_per_task": 5, "memory": "7G", "time": "03:00:00",
        "partition": "fast", "account": "mine", "signal_seconds": 77, "name": "job", "venv": "/v",
    }  # fmt: skip
    assert {*given, "array", "command", "requeue", "modules"} == {field.name for field in fields(Request)}
    words = [word for name, value in given.items() for word in ("--" + name.replace("_", "-"), value)]
    result = call(*words, "--module", "A/1", "--module", "B", *COMMAND)
    assert result.exit_code == 0
    assert result.output == slurm.script(Request(COMMAND, modules=("A/1", "B"), **given))
    assert call("--no-requeue", "--", *COMMAND).output == slurm.script(Request(COMMAND, requeue=False))


@pytest.fixture
def manifest(tmp_path, monkeypatch):
    """A manifest in the current folder, whose `out` is written by the function that this gives."""
    monkeypatch.chdir(tmp_path)

    def write(out):
        line = "" if out is None else f"out: {out}\n"
        (tmp_path / "m.yaml").write_text(f"notebook: xor_in_time\n{line}seeds: [0, 1]\n")

    return write


def test_an_array_takes_the_folder_of_the_manifest_where_the_command_names_none(manifest):
    manifest("/project/ada/xor")
    written = call("--array", "8%4", "snnkit", "sweep", "m.yaml")
    assert written.exit_code == 0, written.output
    assert written.output == slurm.script(Request("snnkit sweep m.yaml --out /project/ada/xor", array="8%4"))
    quoted = call("--array", "8%4", "snnkit sweep m.yaml --out '/project/ada/my xor'")
    assert "--out '/project/ada/my xor'" in quoted.output
    assert call("--array", 3, "snnkit", "sweep", "elsewhere.yaml", "--out", "results").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--array", 2, "snnkit", "sweep", "m.yaml"), "m.yaml: out must be a folder for the results, but it is None"),
        (("--array", 2, "snnkit", "sweep", "none.yaml"), "the manifest none.yaml can't be read"),
        (("--array", 2, "snnkit", "sweep", "m.yaml", "--worker", "2"), "No such option"),
        (("--array", 2, "snnkit", "sweep"), "Missing argument"),
        (("--array", "x", *COMMAND), "array must be a number of tasks"),
        (("--array", 2, "snnkit 'sweep"), "No closing quotation"),
    ],
)
def test_arrays_that_can_not_be_written(words, message, manifest):
    manifest(None)
    result = call(*words)
    assert result.exit_code == 2 and message in words_of(result), result.output


def test_a_program_that_may_not_handle_the_signal_is_told_of_it():
    ends = "A program that does not handle it is ended by it."
    why = {name: dict(slurm.explain(REQUESTS[name]))["#SBATCH --signal=SIGUSR1@90"] for name in ("small", "lightning")}
    assert ends in why["lightning"] and ends not in why["small"]


def test_it_writes_and_explains(tmp_path):
    file = tmp_path / "new" / "job.sh"
    result = call("--out", file, "--explain", *COMMAND)
    assert result.exit_code == 0, result.output
    assert file.read_text() == slurm.script(Request(COMMAND))
    for line, why in slurm.explain(file.read_text()):
        assert line in result.output and " ".join(why.split()) in words_of(result)
    assert result.output.splitlines()[-1] == f"script: {file}"


def test_check_prints_each_problem_with_its_line(tmp_path):
    file = tmp_path / "job.sh"
    file.write_text(slurm.script(Request(COMMAND)))
    result = call("--check", file, "--explain")
    assert result.exit_code == 0 and "no problems" in result.output and "is a program for bash" in result.output
    file.write_text(file.read_text().replace("SIGUSR1@90", "SIGUSR1@9000"))
    (problem,) = slurm.check(file.read_text())
    result = call("--check", file)
    assert result.exit_code == 1
    assert result.output == f"{file}:{problem.line}: {problem.what}\n    fix: {problem.fix}\n1 problem in {file}\n"
    file.write_text("#!/bin/bash\r\n")
    assert "ends as on Windows" in call("--check", file).output
    assert f"{file}: No signal is requested" in call("--check", file).output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the command to run is missing"),
        (("--nodes", 0, *COMMAND), "nodes must be at least 1, but it is 0"),
        (("snnkit", "train", "digits"), "The command writes no checkpoint"),
        (("--check", "job.sh", "--out", "x"), "--check reads an existing script"),
    ],
)
def test_wrong_usage(words, message):
    result = call(*words)
    assert result.exit_code == 2 and message in words_of(result), result.output


def test_files_that_cannot_be_read_or_written(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    (tmp_path / "long").write_text("#" * 100_001)
    for name in ("none", "binary", "long"):
        result = call("--check", tmp_path / name)
        assert result.exit_code == 1 and "can't read" in words_of(result)
    result = call("--out", tmp_path / "binary" / "job.sh", *COMMAND)
    assert result.exit_code == 1 and "can't write" in words_of(result)
