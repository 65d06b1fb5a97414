"""Rules of number: one process for each GPU, all of them started, and each with its cores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from .formats import many
from .parse import Command, Option, Script
from .problem import Problem
from .training import is_training, option

# What may stand before a program, and how many words it takes.
PREFIXES = {"time": 1, "nohup": 1, "exec": 1, "env": 1, "nice": 1, "numactl": 1, "apptainer": 2, "singularity": 2}
PROGRAMS = re.compile(r"python[\d.]*|snnkit|torchrun|lightning|accelerate|deepspeed")


def programs(script: Script) -> Iterator[tuple[Command, Sequence[str]]]:
    """The commands that start training: those of srun, and those that lack it."""
    steps = {step.command: step.program for step in script.steps}
    for command in script.commands:
        words = steps.get(command) or _started(command)
        if words:
            yield command, words


def _started(command: Command) -> Sequence[str]:
    """The program and its arguments, behind assignments and the likes of ``time``; empty: it is none that trains."""
    words = command.words[command.words.index(command.program) :] if command.program else ()
    while words and PurePath(words[0]).name in PREFIXES:
        words = words[PREFIXES[PurePath(words[0]).name] :]
        while words and re.match(r"-|[A-Za-z_]\w*=|.*\.sif$", words[0]):
            words = words[1:]
    if not words or not PROGRAMS.fullmatch(PurePath(words[0]).name) or _asks(words):
        return ()
    return words


def _asks(words: Sequence[str]) -> bool:
    """Whether a command only prints something, as `python --version` and `python -c …` in the head of a script."""
    return len(words) > 1 and words[1] in ("--version", "-V", "-c", "doctor")


def gpus_per_node(script: Script) -> tuple[int | None, Option | None]:
    """GPUs of each node, and the option that says so; (None, None): the script asks for none."""
    nodes, tasks = script.number("nodes") or 1, script.number("ntasks-per-node")
    for name in ("gpus-per-node", "gres", "gpus", "gpus-per-task"):
        found = script.option(name)
        if found is None or (name == "gres" and not _counts(found.value, "gpu")):
            continue
        counts = _counts(found.value, "gpu" if name == "gres" else None)
        number = sum(counts) if counts else None
        if number is not None and name == "gpus":
            number = number // nodes if number % nodes == 0 else None
        if number is not None and name == "gpus-per-task":
            number = number * tasks if tasks else None
        return number, found
    return None, None


def _counts(value: str, kind: str | None) -> list[int]:
    """The numbers in "a100:4,h100:2", or those of one kind in "gpu:a100:4,shard:2"; without a number it is one."""
    entries = [entry.partition("(")[0].split(":") for entry in value.split(",")]
    mine = [entry for entry in entries if kind is None or entry[0] == kind]
    return [int(entry[-1]) if entry[-1].isdecimal() else 1 for entry in mine if entry != [""]]


def launcher(words: Sequence[str]) -> str | None:
    """The program that starts processes by itself, or None."""
    names = [PurePath(word).name for word in words]
    for name in ("torchrun", "accelerate", "deepspeed", "torch.distributed.run", "torch.distributed.launch"):
        if name in names:
            return name
    return None


def _launched(script: Script) -> str | None:
    return next((name for _, words in programs(script) if (name := launcher(words))), None)


def per_node(script: Script) -> Iterator[Problem]:
    total, tasks = script.option("ntasks"), script.option("ntasks-per-node")
    gpus, _ = gpus_per_node(script)
    several = (script.number("nodes") or 1) * (gpus or 1) > 1 or (script.number("ntasks") or 1) > 1
    if tasks is None and several and _launched(script) is None:
        number = gpus or "N"
        yield Problem(
            total.line if total else None,
            "The script does not say how many processes each node gets. Lightning needs --ntasks-per-node, and refuses "
            "--ntasks alone; without either, SLURM starts one process per node, and the other GPUs idle.",
            f"write #SBATCH --ntasks-per-node={number}, one process for each device of a node",
            "tasks",
        )
    nodes, each, all_ = script.number("nodes"), script.number("ntasks-per-node"), script.number("ntasks")
    if total and nodes and each and all_ and nodes * each != all_:
        yield Problem(
            total.line,
            f"{many(nodes, 'node')} with {each} each make {many(nodes * each, 'process')}, but --ntasks wants {all_}.",
            "leave --ntasks out: it follows from the two others",
            "tasks",
        )


def devices(script: Script) -> Iterator[Problem]:
    tasks, directive = script.number("ntasks-per-node"), script.option("ntasks-per-node")
    gpus, asked = gpus_per_node(script)
    launched = _launched(script)
    if launched is not None:
        if tasks is not None and directive is not None and tasks > 1:
            yield Problem(
                directive.line,
                f"{launched} starts the processes of its node itself, and srun would start {tasks} of it: "
                f"{tasks} times too many processes.",
                f"write --ntasks-per-node=1 with {launched}, or start the program by srun alone",
                "devices",
            )
        return
    if tasks is None or directive is None:
        return
    if gpus is not None and asked is not None and gpus != tasks and asked.name != "gpus-per-task":
        idle = "some have no GPU of their own" if tasks > gpus else "the other GPUs idle"
        yield Problem(
            directive.line,
            f"Each node has {many(gpus, 'GPU')} but starts {many(tasks, 'process')}: {idle}. Training runs one process "
            "for each GPU.",
            f"write --ntasks-per-node={gpus}, or ask for {many(tasks, 'GPU')} per node (line {asked.line})",
            "devices",
        )
    for command, words in programs(script):
        given = option(words, "--devices", "--trainer.devices", "--gpus")
        # Where it is the number of GPUs, the mistake is the directive's, and told there.
        if given is not None and given.isdecimal() and int(given) not in (tasks, gpus):
            yield Problem(
                command.line,
                f"The command expects {many(int(given), 'process')} on each node (--devices), but SLURM starts {tasks} "
                f"(line {directive.line}). They would wait for each other for ever, or refuse to start.",
                f"make --ntasks-per-node and --devices the same number{f', {gpus}' if gpus else ''}",
                "devices",
            )


def nodes(script: Script) -> Iterator[Problem]:
    asked = script.number("nodes") or 1
    for command, words in programs(script):
        names = (
            ("--nodes",) if is_training(words) else ("--num_nodes", "--num-nodes", "--trainer.num_nodes", "--nnodes")
        )
        given = option(words, *names)
        if given is not None and given.isdecimal() and int(given) != asked:
            yield Problem(
                command.line,
                f"The command expects {many(int(given), 'node')}, but the job has {asked}. It would wait for processes "
                "that never come, or refuse to start.",
                "make it the same number as #SBATCH --nodes",
                "nodes",
            )


def srun(script: Script) -> Iterator[Problem]:
    for command, _ in programs(script):
        if command.program != "srun":
            yield Problem(
                command.line,
                "Without srun this runs once, on the first node only: the other processes never start, and the first "
                "one waits for them.",
                f"put srun in front: srun {command.words[0]} …",
                "srun",
            )


def background(script: Script) -> Iterator[Problem]:
    waits = any(command.program == "wait" for command in script.commands)
    for step in script.steps:
        if re.search(r"(?<!&)&\s*$", step.command.text) and not waits:
            yield Problem(
                step.command.last,
                "srun is sent to the background (&) and nothing waits for it: the script ends at once, and the job "
                "with it.",
                "leave the & out, or add a line `wait` at the end",
                "background",
            )


def gpus(script: Script) -> Iterator[Problem]:
    count, asked = gpus_per_node(script)
    if asked is not None and asked.name == "gpus-per-task":
        yield Problem(
            asked.line,
            "--gpus-per-task shows each process one GPU only, under the number 0. Lightning and DDP look for the GPU "
            "of their local rank, and do not find it.",
            f"write --gpus-per-node={count or 'N'} instead",
            "gpus",
        )
    if asked is not None:
        return
    for command, words in programs(script):
        device = option(words, "--device", "--accelerator", "--trainer.accelerator") or ""
        if device.startswith(("cuda", "gpu")) or "--nv" in words:
            yield Problem(
                command.line,
                "The command wants GPUs, but the job asks for none: SLURM hides them from it.",
                "add #SBATCH --gpus-per-node=N",
                "gpus",
            )


def cores(script: Script) -> Iterator[Problem]:
    asked = script.option("cpus-per-task")
    if asked is None or asked.value == "1" or script.exported("SRUN_CPUS_PER_TASK"):
        return
    for step in script.steps:
        if step.option("cpus-per-task") is None:
            yield Problem(
                step.command.line,
                f"The job has {asked.value} cores for each process, but since SLURM 22.05 srun does not take that over "
                "from sbatch: each process may be bound to a single core.",
                'write srun --cpus-per-task="$SLURM_CPUS_PER_TASK" …',
                "cores",
            )


RULES = (per_node, devices, nodes, srun, background, gpus, cores)
