"""What each line of a batch script is for: tables of directives, commands and options, and ``explain`` with them."""

from __future__ import annotations

import re
from collections.abc import Callable

from snnkit import checks
from snnkit.tables import count_of
from snnkit.train.slurm.request import Request, script as write
from snnkit.train.slurm.syntax import Command, Option, Script, array, clock, early_signal, parse, seconds

Meaning = str | Callable[[str, Script], str]


def _processes(script: Script) -> str:
    each = script.number("ntasks-per-node")
    where = f", {each} on each of {count_of(script.nodes, 'node')}" if each and script.nodes > 1 else ""
    return count_of(script.processes, "process") + where


def _time(value: str, _script: Script) -> str:
    return f"The job may run for {clock(seconds(value))}; then SLURM ends it. Short jobs start sooner."


def _signal(value: str, script: Script) -> str:
    early = early_signal(value)
    start = f"{early.seconds} seconds before the limit (or up to a minute earlier) SLURM sends {early.name} to "
    if early.batch:
        return start + "the shell of this script only."
    ends = "" if script.snnkit else " A program that does not handle it is ended by it."
    return start + f"every process, which then can save a checkpoint and requeue the job.{ends}"


def _tasks(value: str, script: Script) -> str:
    each = "one process" if value == "1" else f"{value} processes, one for each device"
    return f"Each node starts {each}. In all: {_processes(script)}."


def _array(value: str, _script: Script) -> str:
    tasks, at_once = array(value)[0], value.partition("%")[2]
    limit = f", at most {at_once} at a time" if at_once else ""
    return f"The job is an array of {count_of(tasks, 'task')}{limit}: each is a job of its own that runs this script."


def _output(_value: str, script: Script) -> str:
    number = "%j its number"
    if script.option("array"):
        number = "%A the number of the array and %a that of the task, each of which has a log of its own"
    goes = f"What the processes print goes into this file: %x is the job's name, {number}."
    return f"{goes} Its folder must exist, or the job fails silently."


DIRECTIVES: dict[str, Meaning] = {
    "job-name": "The name that `squeue` shows.",
    "account": "The project whose computing time is spent.",
    "partition": "The queue: a group of nodes of one kind. `sinfo` lists those of the cluster.",
    "nodes": "How many machines the job gets: {value}.",
    "ntasks": "How many processes there are in all: {value}. How they spread over the nodes is left to SLURM.",
    "ntasks-per-node": _tasks,
    "gpus-per-node": "GPUs of each node for this job: {value}. Every process of a node sees all of them, and takes the "
    "one of its local rank.",
    "gpus": "How many GPUs the job gets, over all nodes: {value}.",
    "gpus-per-task": "How many GPUs each process gets, and sees: {value}.",
    "gres": "Generic resources of each node, here {value}.",
    "cpus-per-task": "CPU cores for each process: {value}.",
    "mem": "Memory of each node: {value}. A job that takes more is killed.",
    "time": _time,
    "signal": _signal,
    "requeue": "The job may go back to the queue, at its own wish or when a node fails. Then this script runs again, "
    "from its first line on.",
    "no-requeue": "The job never goes back to the queue: when it ends, it is over.",
    "open-mode": "Whether a requeued run adds to the log of the run before (append) or overwrites it: {value}.",
    "output": _output,
    "array": _array,
}

# The form of a line (a regular expression), and what it is for; groups of the form fill the braces.
COMMANDS: tuple[tuple[str, str], ...] = (
    (r"^set -\S*e", "The script stops at the first command that fails, instead of going on without it."),
    (r"^(?:module|ml) (?:load )?(.+)", "Makes software of the cluster available: {0}."),
    (r"^(?:source|\.) .*activate", "Enters the virtual environment, so that its Python and its commands are used."),
    (r"\bMASTER_ADDR=", "The machine where the processes meet, the first node of the job; each needs its name."),
    (
        r"\bMASTER_PORT=\$\(\(.*SLURM_JOB_?ID.*%",
        "The port at which they meet comes from the job's number, so that two jobs on one node do not take the same.",
    ),
    (r"\bMASTER_PORT=", "The port at which the processes meet."),
    (r"\bOMP_NUM_THREADS=\d", "PyTorch's threads on the CPU for each run: all that go on at a time share the cores."),
    (
        r"\bOMP_NUM_THREADS=",
        "PyTorch's threads on the CPU: as many as each process has cores, or the processes would fight for them.",
    ),
    (r"^export (\w+)=", "A variable for the processes: {0}."),
)

# What may be on the lines of an srun; all that is there is explained, as one sentence each.
STEP: tuple[tuple[str, str], ...] = (
    (r"--kill-on-bad-exit", "If one fails, SLURM ends the others, which would only wait for it."),
    (r"--cpus-per-task", "Each gets the cores of the job, which srun needs since SLURM 22.05."),
    (r"\bsnnkit train\b", "The training itself: every process runs the same command, and finds its rank by itself."),
    (r"\bsnnkit sweep\b", "The sweep itself: a run that has ended, or that another process does, is left out."),
    (r"\bsweep\b.*--out\b", "--out is its folder, on a file system that all tasks see, with locks between nodes."),
    (r"--workers", "--workers is the number of runs at a time in each process."),
    (r"\bpython[\d.]* ", "The program: every process runs the same one."),
    (r"--checkpoint", "--checkpoint is the file that holds all progress."),
    (r"--every", "--every is the number of updates after which it is written."),
    (r"--nodes", "--nodes and --devices repeat what SLURM allocates, so that a mismatch is an error at once."),
    (r"--resume", "--resume continues from the checkpoint, where there is one."),
)


@checks.arguments
def explain(script: Request | str) -> list[tuple[str, str]]:
    """Each line of a script, or of that written from a request, with what it is for; empty lines have an empty text."""
    if isinstance(script, Request):
        script = write(script)
    parsed = parse(script)
    inside = {number: command for command in parsed.commands for number in range(command.line, command.last + 1)}
    return [
        (line, _command(parsed, inside[number], number) if number in inside else _comment(parsed, number))
        for number, line in enumerate(parsed.lines, 1)
    ]


def _comment(script: Script, number: int) -> str:
    line = script.lines[number - 1]
    if not line.strip():
        return ""
    if number == 1 and line.startswith("#!"):
        return "The file is a program for bash. sbatch refuses files without such a line."
    if number in script.late:
        return "Skipped by sbatch, as it comes after the first command."
    options = [option for option in script.directives if option.line == number]
    if options:
        return " ".join(_directive(option, script) for option in options)
    return "A comment: neither bash nor sbatch does anything with it."


def _directive(option: Option, script: Script) -> str:
    meaning = DIRECTIVES.get(option.name)
    if meaning is None:
        return f"An option of sbatch, --{option.name}; `man sbatch` says what it does."
    try:
        return meaning(option.value, script) if callable(meaning) else meaning.format(value=option.value)
    except ValueError as error:
        return f"In this form, sbatch can't read it: {error}."


def _command(script: Script, command: Command, number: int) -> str:
    line = script.lines[number - 1].strip()
    if command.program != "srun":
        matches = ((re.search(form, line), text) for form, text in COMMANDS)
        known = [text.format(*match.groups()) for match, text in matches if match]
        return known[0] if known else "A command that bash runs once, on the first node of the job."
    start = f"srun starts the command as {_processes(script)}, and tells each its rank."
    sentences = [start] if number == command.line else []
    sentences += [text for form, text in STEP if re.search(form, line)]
    return " ".join(sentences) or "Continues the command of the lines above."
