"""A request to the cluster, as typed values that are checked; the script that is written from it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from snnkit import checks
from snnkit.train.slurm.script_rules import ADDRESS, MOST_TASKS, PORT, check
from snnkit.train.slurm.syntax import REQUEUE_SIGNAL, command_option, is_sweep, is_training


@checks.arguments
@dataclass(frozen=True)
class Request:
    """A training job. Impossible values are refused when it is made.

    Attributes:
        command: what each process runs: a text as typed in a shell, or words. ``snnkit train …`` gets what the job
            decides (``--nodes``, ``--devices``, ``--resume``) added to it, ``snnkit sweep …`` ``--workers``.
        nodes: machines.
        gpus_per_node: GPUs of each, with a process for each; 0: the job trains on CPUs.
        tasks_per_node: processes per node; None: one for each GPU, or one where there are no GPUs.
        cpus_per_task: CPU cores of each process.
        memory: of each node, such as "64G"; None: the partition's default.
        time: the limit, in one of sbatch's forms: "HH:MM:SS", "D-HH:MM:SS", minutes.
        partition, account: where to queue, and whose budget pays; None: the cluster's default.
        signal_seconds: how long before the limit the processes get SIGUSR1, upon which they save and requeue the job.
            It must suffice for one update and for writing a checkpoint.
        requeue: whether the job goes back to the queue, to continue later; if not, there is no signal either, and the
            processes save when SLURM ends them with SIGTERM.
        name: of the job.
        array: for ``snnkit sweep … --out FOLDER`` on one node: how many tasks share the sweep, as 8, or as "8%4" where
            at most 4 may run at a time. Each does the runs that no other has done, and writes a log of its own.
        modules: to ``module load``, of the cluster's software.
        venv: folder of a virtual environment.
    """

    command: str | Sequence[str]
    nodes: int = 1
    gpus_per_node: int = 0
    tasks_per_node: int | None = None
    cpus_per_task: int = 4
    memory: str | None = None
    time: str = "01:00:00"
    partition: str | None = None
    account: str | None = None
    signal_seconds: int = 90
    requeue: bool = True
    name: str = "snnkit"
    array: int | str | None = None
    modules: Sequence[str] = ()
    venv: str | None = None

    def __post_init__(self) -> None:
        for name, least in (("nodes", 1), ("gpus_per_node", 0), ("cpus_per_task", 1), ("signal_seconds", 1)):
            checks.integer(name, getattr(self, name), at_least=least)
        checks.integer("tasks_per_node", self.tasks, at_least=1)
        try:
            words = self.words
        except ValueError as error:
            raise ValueError(f"command must have its quotes closed ({error}), but it is {self.command!r}") from None
        for name in ("name", "time", "memory", "partition", "account", "venv"):
            text = getattr(self, name)
            # Without the characters that sbatch's and bash's quoting would trip over.
            if text is not None and not re.fullmatch(r'[^\n\r\0"\\~]*[^\s"\\~][^\n\r\0"\\~]*', text):
                raise ValueError(f'{name} must be a line of text without ", \\ and ~, but it is {text!r}')
        if not words or words[0] == "srun" or any("\n" in word for word in words):
            raise ValueError(
                "command must be one line, what each process runs, such as 'snnkit train workshop', without the srun "
                f"before it, but it is {self.command!r}"
            )
        if self.array is not None:
            self._check_array(words)
        for problem in check(script(self)):
            raise ValueError(f"the request would make a script that goes wrong. {problem.what} Fix: {problem.fix}")

    @property
    def tasks(self) -> int:
        """Processes per node."""
        return (self.gpus_per_node or 1) if self.tasks_per_node is None else self.tasks_per_node

    @property
    def workers(self) -> int | None:
        """Runs of a sweep at a time in each process: those of the command, or one for each core; None: not known.

        On a GPU it is the manifest that knows how many fit.
        """
        if not is_sweep(self.words):
            return None
        given = command_option(self.words, "--workers") or (None if self.gpus_per_node else str(self.cpus_per_task))
        return int(given) if given and re.fullmatch(r"[1-9]\d{0,8}", given) else None

    def _check_array(self, words: Sequence[str]) -> None:
        tasks, percent, at_once = str(self.array).partition("%")
        for name, number in (("array", tasks), ("the number behind % of array", at_once if percent else "1")):
            if not re.fullmatch(r"-?\d{1,9}", number):
                what = "a number of tasks, such as 8, or 8%4 where at most 4 may run at a time"
                raise ValueError(f"array must be {what}, but it is {checks.shown(self.array)}")
            checks.integer(name, int(number), at_least=1, at_most=MOST_TASKS)
        if not is_sweep(words):
            raise ValueError(
                "array goes with `snnkit sweep`, whose runs the tasks share, but the command is "
                f"{checks.shown(shlex.join(words))}; each task would do all of it"
            )
        if not command_option(words, "--out"):
            raise ValueError("command must have --out FOLDER with array: the folder that all tasks of the sweep share")
        if self.nodes * self.tasks > 1:
            raise ValueError(
                f"nodes, gpus_per_node and tasks_per_node must make one process with array, but they make "
                f"{self.nodes * self.tasks}: ask for more tasks instead"
            )

    @property
    def words(self) -> list[str]:
        """The command in words, without what the job adds to it."""
        return shlex.split(self.command) if isinstance(self.command, str) else list(self.command)


@checks.arguments
def script(request: Request) -> str:
    """The script that ``sbatch`` takes: the request to the cluster, how the processes meet, and one ``srun``.

    ``explain`` says what each line is for, and ``check`` finds nothing wrong with it.
    """
    options: dict[str, object] = {
        "job-name": request.name,
        "account": request.account,
        "partition": request.partition,
        "array": None if request.array is None else f"1-{request.array}",
        "nodes": request.nodes,
        "ntasks-per-node": request.tasks,
        "gpus-per-node": request.gpus_per_node or None,
        "cpus-per-task": request.cpus_per_task,
        "mem": request.memory,
        "time": request.time,
    }
    if request.requeue:
        options |= {"signal": f"{REQUEUE_SIGNAL}@{request.signal_seconds}", "requeue": "", "open-mode": "append"}
    else:
        options["no-requeue"] = ""
    options["output"] = "%x-%j.out" if request.array is None else "%x-%A_%a.out"
    lines = ["#!/bin/bash"]
    lines += [f"#SBATCH --{name}{_value(str(value))}" for name, value in options.items() if value is not None]
    lines += ["", "set -e"]
    if request.modules:
        lines.append(f"module load {shlex.join(request.modules)}")
    if request.venv is not None:
        lines.append(f"source {shlex.quote(request.venv.rstrip('/') + '/bin/activate')}")
    if not is_sweep(request.words):  # whose runs do not meet, and share the cores
        lines += [f"export MASTER_ADDR={ADDRESS}", f"export MASTER_PORT={PORT}"]
    threads = "$SLURM_CPUS_PER_TASK" if request.workers is None else max(1, request.cpus_per_task // request.workers)
    lines += [f"export OMP_NUM_THREADS={threads}", ""]
    step = 'srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK"'
    parts = filter(None, [step, shlex.join(request.words), shlex.join(_added(request))])
    return "\n".join([*lines, " \\\n  ".join(parts), ""])


def _value(text: str) -> str:
    if not text:
        return ""
    return f"={text}" if re.fullmatch(r"[\w%@:./+,=\[\]-]+", text) else f'="{text}"'


def _added(request: Request) -> list[str]:
    """What the job decides for the command of the kit, where that doesn't say it already."""
    words = request.words
    if request.workers is not None:
        return [] if command_option(words, "--workers") else ["--workers", str(request.workers)]
    if not is_training(words):
        return []
    added = {"--nodes": str(request.nodes), "--devices": str(request.tasks)}
    options = [word for name, value in added.items() if command_option(words, name) is None for word in (name, value)]
    resumes = command_option(words, "--checkpoint") is not None and "--resume" not in words
    return options + ["--resume"] * resumes
