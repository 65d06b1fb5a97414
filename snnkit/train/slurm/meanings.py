"""What each line of a batch script is for: tables of directives, commands and options, and ``explain`` with them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from snnkit.checks import shown

from .request import Request
from .request import script as write
from .syntax import Command, Option, Script, command_line, duration, early_signal, parse, seconds

Meaning = str | Callable[[str, Script], str]


def processes(script: Script) -> str:
    """How many processes ``srun`` starts, in words."""
    nodes, each, total = script.number("nodes") or 1, script.number("ntasks-per-node"), script.number("ntasks")
    if each is None and total is not None:
        return f"{total} processes" if total > 1 else "one process"
    each = each or 1
    if nodes * each == 1:
        return "one process"
    return (
        f"{nodes * each} processes, {each} on each of {nodes} nodes" if nodes > 1 else f"{each} processes on one node"
    )


def _time(value: str, _script: Script) -> str:
    try:
        return f"The job may run for {duration(seconds(value))}; then SLURM ends it. Short jobs start sooner."
    except ValueError:
        return "The time limit; in this form, sbatch can't read it."


def _signal(value: str, _script: Script) -> str:
    try:
        early = early_signal(value)
    except ValueError:
        return "A signal ahead of the time limit; in this form, sbatch can't read it."
    if early.batch:
        return f"{duration(early.seconds)} before the limit SLURM sends {early.name} to the shell of this script only."
    return (
        f"{duration(early.seconds)} before the limit (or up to a minute earlier) SLURM sends {early.name} to every "
        "process, which then can save a checkpoint and requeue the job."
    )


def _tasks(value: str, script: Script) -> str:
    count = "one process" if value == "1" else f"{value} processes, one for each device"
    return f"Each node starts {count}. In all there are {processes(script)}."


def _output(value: str, _script: Script) -> str:
    marks = {
        "%x": "%x is the job's name",
        "%j": "%j its number",
        "%A": "%A the number of its array",
        "%N": "%N the node",
    }
    known = [text for mark, text in marks.items() if mark in value]
    listed = f" ({', '.join(known)})" if known else ""
    return f"What the processes print goes into this file{listed}. Its folder must exist, or the job fails silently."


def _mode(value: str, _script: Script) -> str:
    if value == "append":
        return "A requeued run adds to the log of the run before, instead of overwriting it."
    return "A requeued run overwrites the log of the run before."


DIRECTIVES: dict[str, Meaning] = {
    "job-name": "The name that `squeue` shows.",
    "account": "The project whose computing time is spent.",
    "partition": "The queue: a group of nodes of one kind. `sinfo` lists those of the cluster.",
    "qos": "The quality of service: priorities and limits that the cluster has under this name.",
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
    "mem-per-cpu": "Memory for each CPU core: {value}. A job that takes more is killed.",
    "time": _time,
    "signal": _signal,
    "requeue": "The job may go back to the queue, at its own wish or when a node fails. Then this script runs again, "
    "from its first line on.",
    "no-requeue": "The job never goes back to the queue: when it ends, it is over.",
    "open-mode": _mode,
    "output": _output,
    "error": "Error messages go into this file, apart from the other output.",
    "chdir": "The folder in which the script starts; paths in it are relative to that.",
    "array": "Several jobs from one script, which find their number in SLURM_ARRAY_TASK_ID: {value}.",
    "exclusive": "No other job runs on these nodes meanwhile.",
    "constraint": "Only nodes with this feature: {value}.",
    "dependency": "The job waits for other jobs: {value}.",
    "mail-type": "When the cluster sends an e-mail: {value}.",
    "mail-user": "Where the e-mails go.",
    "nodelist": "Exactly these nodes: {value}.",
    "exclude": "Not these nodes: {value}.",
    "hint": "How processes are bound to cores: {value}.",
    "reservation": "The job uses nodes that were set aside under this name.",
}

# The form of a line (a regular expression), and what it is for; groups of the form fill the braces.
COMMANDS: tuple[tuple[str, str], ...] = (
    (r"^set -\S*e", "The script stops at the first command that fails, instead of going on without it."),
    (r"^(?:module|ml) (?:load )?(.+)", "Makes software of the cluster available: {0}."),
    (r"^(?:source|\.) .*activate", "Enters the virtual environment, so that its Python and its commands are used."),
    (
        r"\bMASTER_ADDR=.*scontrol show hostnames.*\)([^\s)]+)$",
        "The first node of the job is where the processes meet; with {0} at its end the name is of the fast network.",
    ),
    (
        r"\bMASTER_ADDR=.*scontrol show hostnames",
        "The first node of the job is where the processes meet; each needs its name.",
    ),
    (r"\bMASTER_ADDR=", "The machine where the processes meet."),
    (
        r"\bMASTER_PORT=\$\(\(.*SLURM_JOB_?ID.*%",
        "The port at which they meet comes from the job's number, so that two jobs on one node do not take the same.",
    ),
    (r"\bMASTER_PORT=", "The port at which the processes meet."),
    (
        r"\bOMP_NUM_THREADS=",
        "PyTorch's threads on the CPU: as many as each process has cores, or the processes would fight for them.",
    ),
    (r"\bSRUN_CPUS_PER_TASK=", "srun gives each process the cores of the job."),
    (r"\bNCCL_DEBUG=(\S+)", "How much NCCL, which moves gradients between GPUs, writes into the log: {0}."),
    (r"\bNCCL_SOCKET_IFNAME=(\S+)", "The network interface over which NCCL sets up its connections: {0}."),
    (r"\bGLOO_SOCKET_IFNAME=(\S+)", "The network interface that gloo uses, which moves data between CPUs: {0}."),
    (r"\bSNNKIT_DATA=", "Where the data sets are, as compute nodes often have no internet."),
    (r"^export (\w+)=", "A variable for the processes: {0}."),
    (r"^cd\b", "Goes into a folder; paths are relative to it from here on."),
    (r"^echo\b", "Prints a line into the log."),
    (r"^trap\b", "What bash does when a signal arrives."),
    (r"^wait\b", "Waits for what runs in the background."),
    (
        r"^if .*-eq 75.*scontrol requeue",
        "Exit code 75 means: saved, and to be requeued. That is done here, as the container has no scontrol inside.",
    ),
    (r"^exit\b", "The job ends, as failed where this is not 0."),
    (r"^scontrol requeue", "Puts the job back into the queue."),
)

SRUN = "srun starts the command as {count}, and tells each its rank."
# Parts of one sentence, joined by "; ".
SRUN_OPTIONS: dict[str, str] = {
    "kill-on-bad-exit": "if one fails, SLURM ends the others, which would only wait for it",
    "cpus-per-task": "each gets the cores of the job, which srun needs since SLURM 22.05",
    "ntasks": "their number is given here once more",
    "label": "each line of the log begins with its rank",
}
PROGRAMS: tuple[tuple[str, str], ...] = (
    (
        r"\b(?:apptainer|singularity) exec\b.*--nv\b",
        "Each process runs inside the container, and sees the node's GPUs.",
    ),
    (r"\b(?:apptainer|singularity) exec\b", "Each process runs inside the container, whose image holds all software."),
    (r"\bsnnkit train\b", "The training itself: every process runs the same command, and finds its rank by itself."),
    (r"\btorchrun\b", "torchrun starts the processes of its node."),
    (r"\bpython[\d.]*\b", "The program: every process runs the same one."),
)
FLAGS: dict[str, str] = {
    "--checkpoint": "--checkpoint is the file that keeps all progress",
    "--every": "--every is the number of updates after which it is written",
    "--nodes": "--nodes and --devices repeat what SLURM allocates, so that a mismatch is an error at once",
    "--requeue-signal": "--requeue-signal makes it save and requeue the job",
    "--resume": "--resume continues from the checkpoint, where there is one",
    "status": "status keeps its exit code for the next line",
}


def explain(script: Request | str) -> list[tuple[str, str]]:
    """Each line of a script with one or two sentences on what it is for; empty lines have an empty one.

    Args:
        script: its text, or the request that it is written from.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(script, Request):
        script = write(script)
    elif not isinstance(script, str):
        raise TypeError(f"script must be a text or a slurm.Request, but it is {shown(script)}")
    parsed = parse(script)
    inside = {number: command for command in parsed.commands for number in range(command.line, command.last + 1)}
    return [
        (line, _comment(parsed, number) if not command_line(line) else _command(parsed, inside[number], number))
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
    return meaning(option.value, script) if callable(meaning) else meaning.format(value=option.value)


def _command(script: Script, command: Command, number: int) -> str:
    if command.program == "srun":
        return _srun_line(script, command, number)
    line = script.lines[number - 1].strip()
    return _first(COMMANDS, line) or "A command that bash runs once, on the first node of the job."


def _srun_line(script: Script, command: Command, number: int) -> str:
    """The srun itself, the container, and the program: each on a line of its own, or together."""
    line = script.lines[number - 1].strip().removesuffix("\\").strip()
    words = line.split()
    sentences = []
    if number == command.line:
        sentences.append(SRUN.format(count=processes(script)))
        step = next(step for step in script.steps if step.command == command)
        sentences += _sentence([SRUN_OPTIONS.get(option.name) for option in step.options])
    sentences += [text for form, text in PROGRAMS if re.search(form, line)][:1]
    names = [word.partition("=")[0] for word in words]
    sentences += _sentence([text for name, text in FLAGS.items() if name in names])
    return " ".join(sentences) or "Continues the command of the lines above."


def _sentence(parts: Sequence[str | None]) -> list[str]:
    """One sentence of all parts, or none."""
    text = "; ".join(part for part in parts if part)
    return [f"{text[0].upper()}{text[1:]}."] if text else []


def _first(rules: Sequence[tuple[str, str]], line: str) -> str | None:
    """The text of the first rule whose form is in the line, with its groups filled in."""
    for form, text in rules:
        if match := re.search(form, line):
            return text.format(*(group or "" for group in match.groups()))
    return None
