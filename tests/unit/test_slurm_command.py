"""`snnkit slurm`: what it prints, writes, submits, refuses, and exits with."""

import os
from dataclasses import fields

import pytest
from click.testing import CliRunner

from snnkit.cli import main
from snnkit.train import slurm

COMMAND = ("snnkit", "train", "digits", "--checkpoint", "run.pt")


def call(*arguments):
    return CliRunner().invoke(main, ["slurm", *map(str, arguments)])


def said(result):
    return " ".join(result.output.split())


@pytest.fixture
def sbatch(tmp_path, monkeypatch):
    """A stand-in for sbatch: notes what it is given, and answers as told."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def answers(text, code=0):
        program = folder / "sbatch"
        program.write_text(f'#!/bin/sh\necho "$@" >"{tmp_path}/given"\n{text}\nexit {code}\n')
        program.chmod(0o755)
        return tmp_path / "given"

    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return answers


@pytest.fixture
def no_sbatch(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")


def test_it_prints_the_script():
    result = call("--nodes", 2, "--gpus-per-node", 4, *COMMAND)
    assert result.exit_code == 0
    assert result.output == slurm.script(slurm.Request(COMMAND, nodes=2, gpus_per_node=4))


def test_two_dashes_may_part_the_command_from_the_options():
    assert (
        call("--no-requeue", "--", "python", "--version").output == call("--no-requeue", "python", "--version").output
    )


def test_every_attribute_of_a_request_is_an_option():
    given = {
        "nodes": 2,
        "gpus_per_node": 4,
        "tasks_per_node": 4,
        "cpus_per_task": 5,
        "memory": "7G",
        "time": "03:00:00",
        "partition": "fast",
        "account": "mine",
        "signal": "SIGUSR2",
        "signal_seconds": 77,
        "requeue": True,
        "name": "job",
        "output": "log.txt",
        "workdir": "/w",
        "modules": ("A/1", "B"),
        "venv": "/v",
        "address_suffix": "i",
        "environment": {"X": "1=2", "Y": ""},
    }
    assert set(given) | {"command", "container"} == {field.name for field in fields(slurm.Request)}
    words = []
    for name, value in given.items():
        dashed = "--" + name.replace("_", "-")
        if name == "requeue":
            words.append(dashed)
        elif name == "modules":
            words += [word for module in value for word in ("--module", module)]
        elif name == "environment":
            words += [word for pair in value.items() for word in ("--env", "=".join(pair))]
        else:
            words += [dashed, value]
    assert call(*words, *COMMAND).output == slurm.script(slurm.Request(COMMAND, **given))
    container = call("--container", "a.sif", "--no-requeue", *COMMAND).output
    assert container == slurm.script(slurm.Request(COMMAND, container="a.sif", requeue=False))


def test_it_writes_explains_and_submits(tmp_path, sbatch):
    given, file = sbatch("echo '17;cluster'"), tmp_path / "new" / "job.sh"
    result = call("--out", file, "--explain", "--submit", *COMMAND)
    assert result.exit_code == 0, result.output
    assert file.read_text() == slurm.script(slurm.Request(COMMAND))
    assert given.read_text().split() == ["--parsable", str(file)]
    for line, why in slurm.explain(file.read_text()):
        assert line in result.output and " ".join(why.split()) in said(result)
    assert result.output.splitlines()[-2:] == [f"script: {file}", "job 17 is submitted; `squeue --job 17` shows it"]


def test_check_tells_each_problem_with_its_line(tmp_path):
    file = tmp_path / "job.sh"
    file.write_text(slurm.script(slurm.Request(COMMAND)).replace("SIGUSR1@90", "SIGUSR1@9000"))
    (problem,) = slurm.check(file.read_text())
    result = call("--check", file)
    assert result.exit_code == 1
    assert result.output == f"{file}:{problem.line}: {problem.what}\n    fix: {problem.fix}\n1 problem in {file}\n"
    file.write_text("#!/bin/bash\r\n")
    assert "ends as on Windows" in call("--check", file).output
    assert f"{file}: No signal is requested" in call("--check", file).output


def test_a_script_with_problems_is_not_submitted(tmp_path, sbatch):
    given, file = sbatch("echo 17"), tmp_path / "job.sh"
    file.write_text(slurm.script(slurm.Request(COMMAND)))
    result = call("--check", file, "--submit", "--explain")
    assert result.exit_code == 0 and "no problems\njob 17 is submitted" in result.output and given.exists()
    assert "The file is a program for bash" in result.output
    given.unlink()
    file.write_text(file.read_text().replace("srun", "time"))
    assert call("--check", file, "--submit").exit_code == 1 and not given.exists()


def test_without_sbatch_it_says_where_to_submit(tmp_path, no_sbatch):
    file = tmp_path / "job.sh"
    result = call("--out", file, "--submit", *COMMAND)
    assert result.exit_code == 1 and file.exists()
    assert "there is no sbatch on this machine: copy the script to a login node" in said(result)
    with pytest.raises(slurm.SubmitError, match="there is no sbatch on this machine"):
        slurm.submit(file)


def test_what_sbatch_has_against_a_script_is_told(tmp_path, sbatch):
    file = tmp_path / "job.sh"
    sbatch("echo 'sbatch: error: no such partition' >&2", 1)
    result = call("--out", file, "--submit", *COMMAND)
    assert result.exit_code == 1
    assert "refused" in said(result) and "exit code 1, and said: sbatch: error: no such partition" in said(result)
    sbatch("echo nonsense")
    with pytest.raises(slurm.SubmitError, match="said: nonsense"):
        slurm.submit(file)
    sbatch("exec sleep 60")
    with pytest.raises(slurm.SubmitError, match=r"sbatch gave no answer within 0.1 s"):
        slurm.submit(file, timeout=0.1)
    with pytest.raises(FileNotFoundError, match="there is no script"):
        slurm.submit(tmp_path / "none.sh")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "what is to run is missing"),
        (("--submit", *COMMAND), "--submit needs --out"),
        (("--nodes", 0, *COMMAND), "nodes must be at least 1, but it is 0"),
        (("--time", "1h", *COMMAND), "time must be written as"),
        (("--env", "A", *COMMAND), "--env takes NAME=VALUE, but it is 'A'"),
        (("snnkit", "train", "digits"), "command must have --checkpoint FILE"),
        (("--check", "job.sh", "--out", "x"), "--check looks at a file that is there"),
        (("--check", "job.sh", *COMMAND), "--check looks at a file that is there"),
    ],
)
def test_wrong_usage(words, message):
    result = call(*words)
    assert result.exit_code == 2 and message in said(result), result.output


def test_files_that_cannot_be_read_or_written(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name in ("none", "binary"):
        result = call("--check", tmp_path / name)
        assert result.exit_code == 1 and "can't read" in said(result)
    result = call("--out", tmp_path / "binary" / "job.sh", *COMMAND)
    assert result.exit_code == 1 and "can't write" in said(result)
