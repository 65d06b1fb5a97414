"""A request to the cluster, as typed values that are checked; the script that is written from it; its submission."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from snnkit import checks

from .syntax import MINUTE, SIGNAL_SLACK, clock, command_option, duration, is_training, seconds, signal_name

# Ports below those that Linux hands out by itself (32768 on), and other ones for jobs that share a node.
PORT = "$((20000 + SLURM_JOB_ID % 10000))"

# Containers have no scontrol. `snnkit train` ends with this code when it has saved, and wants to be requeued.
REQUEUE = ['if [ "${status:-0}" -eq 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi', 'exit "${status:-0}"']


@dataclass(frozen=True)
class Request:
    """A training job. Impossible values are refused when it is made.

    Attributes:
        command: what each process runs: a text as typed in a shell, or words. ``snnkit train …`` gets what the job
            decides (``--nodes``, ``--devices``, ``--resume``, ``--requeue-signal``) added to it.
        nodes: machines.
        gpus_per_node: GPUs of each; 0: the job trains on CPUs.
        tasks_per_node: processes per node; None: one for each GPU, or one where there are no GPUs.
        cpus_per_task: CPU cores of each process.
        memory: of each node, such as "64G"; None: the partition's default.
        time: the limit: "HH:MM:SS", "D-HH:MM:SS" or another of sbatch's forms, or minutes as an int.
        partition, account: where to queue, and whose budget pays; None: the cluster's default.
        signal: what the processes get before the limit, so that they save and requeue the job.
        signal_seconds: how long before the limit. It must suffice for one update and for writing a checkpoint.
        requeue: whether the job goes back to the queue, to continue later; if not, there is no signal either, and the
            processes save when SLURM ends them with SIGTERM.
        name: of the job.
        output: the log; %x is the job's name and %j its number. Its folder must exist.
        workdir: folder that the job starts in; None: where sbatch is called.
        modules: to ``module load``, of the cluster's software.
        venv: folder of a virtual environment.
        container: an image for apptainer, instead of ``venv``.
        address_suffix: what a node's name ends in for its address in the fast network, where that has names of its own:
            "i" on JUWELS and JURECA (as in src/itwinai/slurm/system-base-scripts/juwels.sh of
            github.com/interTwin-eu/itwinai); "": nothing.
        environment: further variables for the processes, such as {"NCCL_DEBUG": "WARN"}.
    """

    command: str | Sequence[str]
    nodes: int = 1
    gpus_per_node: int = 0
    tasks_per_node: int | None = None
    cpus_per_task: int = 4
    memory: str | None = None
    time: str | int = "01:00:00"
    partition: str | None = None
    account: str | None = None
    signal: str = "SIGUSR1"
    signal_seconds: int = 90
    requeue: bool = True
    name: str = "snnkit"
    output: str = "%x-%j.out"
    workdir: str | None = None
    modules: Sequence[str] = ()
    venv: str | None = None
    container: str | None = None
    address_suffix: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, least in (("nodes", 1), ("gpus_per_node", 0), ("cpus_per_task", 1), ("signal_seconds", 1)):
            checks.integer(name, getattr(self, name), at_least=least)
        if self.tasks_per_node is not None:
            checks.integer("tasks_per_node", self.tasks_per_node, at_least=1)
            if self.gpus_per_node and self.tasks_per_node != self.gpus_per_node:
                raise ValueError(
                    f"tasks_per_node must equal gpus_per_node, one process for each GPU, or be None, "
                    f"but it is {self.tasks_per_node} and {self.gpus_per_node}"
                )
        checks.flag("requeue", self.requeue)
        self._check_texts()
        self._check_times()
        self._check_command()

    @property
    def tasks(self) -> int:
        """Processes per node."""
        return self.tasks_per_node or self.gpus_per_node or 1

    @property
    def ranks(self) -> int:
        """Processes in all."""
        return self.nodes * self.tasks

    @property
    def limit(self) -> int:
        """The time limit in seconds."""
        return self.time * MINUTE if isinstance(self.time, int) else seconds(self.time)

    @property
    def words(self) -> tuple[str, ...]:
        """The command in words, without what the job adds to it."""
        return tuple(shlex.split(self.command)) if isinstance(self.command, str) else tuple(self.command)

    def _check_texts(self) -> None:
        for name in ("memory", "partition", "account", "name", "output", "workdir", "venv", "container"):
            value = getattr(self, name)
            if value is None and name not in ("name", "output"):
                continue
            _check_text(name, value)
            if name in ("workdir", "venv", "container") and str(value).startswith("~"):
                raise ValueError(f"{name} must be a whole path, as ~ is not replaced in a script, but it is {value!r}")
        if self.memory is not None and not re.fullmatch(r"\d+[KMGT]?", self.memory, re.IGNORECASE):
            raise ValueError(f"memory must be a number with K, M, G or T, such as '64G', but it is {self.memory!r}")
        if self.venv is not None and self.container is not None:
            raise ValueError(f"venv and container exclude each other, but it is {self.venv!r} and {self.container!r}")
        if not isinstance(self.address_suffix, str) or not re.fullmatch(r"[A-Za-z0-9.-]*", self.address_suffix):
            raise ValueError(
                f"address_suffix must be the end of a name: letters, digits, . and -, but it is {self.address_suffix!r}"
            )
        if isinstance(self.modules, str) or not isinstance(self.modules, Sequence):
            raise TypeError(f"modules must be a list of texts, such as ['CUDA'], but it is {self.modules!r}")
        for module in self.modules:
            _check_text("modules", module)
        checks.mapping("environment", self.environment, "name to text")
        for name, value in self.environment.items():
            if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"environment must have names of letters, digits and _, but it is {name!r}")
            _check_text(f"environment[{name!r}]", value, empty=True)

    def _check_times(self) -> None:
        if isinstance(self.time, bool) or not isinstance(self.time, (str, int)):
            raise TypeError(f"time must be a text such as '01:30:00', or minutes as an int, but it is {self.time!r}")
        if self.limit < MINUTE or self.limit % MINUTE:
            raise ValueError(f"time must be whole minutes, from one on, as SLURM counts them, but it is {self.time!r}")
        if not isinstance(self.signal, str):
            raise TypeError(f"signal must be a text, such as 'SIGUSR1', but it is {self.signal!r}")
        object.__setattr__(self, "signal", signal_name(self.signal))
        if self.signal in ("SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT"):
            raise ValueError(
                f"signal must be one that a process can handle and that means nothing else, such as 'SIGUSR1', "
                f"but it is {self.signal!r}"
            )
        if self.requeue and self.signal_seconds + SIGNAL_SLACK > self.limit:
            raise ValueError(
                f"signal_seconds must leave time to train: SLURM may send the signal {SIGNAL_SLACK} s early, and the "
                f"limit is {duration(self.limit)} ({clock(self.limit)}), but it is {self.signal_seconds}"
            )

    def _check_command(self) -> None:
        if not isinstance(self.command, str) and (
            not isinstance(self.command, Sequence) or not all(isinstance(word, str) for word in self.command)
        ):
            raise TypeError(f"command must be a text or a list of words, but it is {self.command!r}")
        try:
            command = self.words
        except ValueError as error:
            raise ValueError(f"command must have its quotes closed ({error}), but it is {self.command!r}") from None
        if not command:
            raise ValueError("command must be what each process runs, such as 'snnkit train workshop'; it is empty")
        if any("\n" in word or "\0" in word for word in command):
            raise ValueError(f"command must be one line, but it is {self.command!r}")
        if command[0] == "srun":
            raise ValueError("command must not begin with srun: the script puts it there")
        if not is_training(command):
            return
        if self.requeue and command_option(command, "--checkpoint") is None:
            raise ValueError(
                "command must have --checkpoint FILE, or the requeued job would start from scratch, "
                f"but it is {shlex.join(command)!r}, or give requeue=False"
            )
        for name in ("--checkpoint", "--batch-size"):
            value = command_option(command, name)
            if value is not None and (not value or value.startswith("--")):
                raise ValueError(f"command must have a value behind {name}, but it is {value!r} there")
        if command_option(command, "--restarts") is not None:
            raise ValueError("command must not have --restarts, which is for ranks of one machine: give requeue=True")
        self._check_batch(command)
        decided = {"--nodes": self.nodes, "--devices": self.tasks, "--requeue-signal": self.signal}
        for name, value in decided.items():
            given = command_option(command, name)
            if given is not None and given != str(value):
                raise ValueError(f"command must leave {name} to the job, which has {value}, but it is {name} {given}")

    def _check_batch(self, command: Sequence[str]) -> None:
        """A batch that the ranks can't share would end the job when it has waited for its turn."""
        from .. import recipes

        batch_size = command_option(command, "--batch-size")
        recipe = next((word for word in command[command.index("train") + 1 :] if not word.startswith("-")), None)
        if batch_size is None and recipe in recipes.names():
            batch_size = str(recipes.get(recipe).batch_size)
        if batch_size is not None and batch_size.isdecimal() and int(batch_size) % self.ranks:
            raise ValueError(
                f"command must have a --batch-size that {self.ranks} ranks can share ({self.nodes} nodes with "
                f"{self.tasks} each), as it is that of all together, but it is {batch_size}"
            )


def _check_text(name: str, value: object, *, empty: bool = False) -> None:
    """Of one line, and without the characters that sbatch's and bash's quoting would trip over."""
    checks.instance(name, value, str, "a text")
    assert isinstance(value, str)
    if not value.strip() and not empty:
        raise ValueError(f"{name} must not be empty")
    if bad := re.search(r"[\n\r\0\"\\]", value):
        raise ValueError(f"{name} must be without {bad.group()!r}, but it is {value!r}")


# --- writing and submitting ------------------------------------------------------------------------------------------


def script(request: Request) -> str:
    """The script that ``sbatch`` takes: the request to the cluster, how the processes meet, and one ``srun``.

    ``explain`` says what each line is for, and ``check`` finds nothing wrong with it.

    Raises:
        TypeError: request is no Request.
    """
    if not isinstance(request, Request):
        raise TypeError(f"request must be a slurm.Request, but it is {checks.shown(request)}")
    parts = [["#!/bin/bash", *_directives(request)], ["set -e", *_software(request)], _meeting(request)]
    parts.append(_start(request))
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def _directives(request: Request) -> list[str]:
    options: list[tuple[str, object]] = [
        ("job-name", request.name),
        ("account", request.account),
        ("partition", request.partition),
        ("nodes", request.nodes),
        ("ntasks-per-node", request.tasks),
        ("gpus-per-node", request.gpus_per_node or None),
        ("cpus-per-task", request.cpus_per_task),
        ("mem", request.memory),
        ("time", clock(request.limit)),
    ]
    if request.requeue:
        options += [("signal", f"{request.signal}@{request.signal_seconds}"), ("requeue", "")]
        options += [("open-mode", "append")]
    else:
        options += [("no-requeue", "")]
    options += [("output", request.output), ("chdir", request.workdir)]
    return [f"#SBATCH --{name}{_value(value)}" for name, value in options if value is not None]


def _value(value: object) -> str:
    text = str(value)
    if text == "":
        return ""
    return f"={text}" if re.fullmatch(r"[\w%@:./+,=\[\]-]+", text) else f'="{text}"'


def _software(request: Request) -> list[str]:
    lines = [f"module load {shlex.join(request.modules)}"] if request.modules else []
    if request.venv is not None:
        lines.append(f"source {shlex.quote(request.venv.rstrip('/') + '/bin/activate')}")
    return lines


def _meeting(request: Request) -> list[str]:
    lines = [
        f'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1){request.address_suffix}',
        f"export MASTER_PORT={PORT}",
        "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK",
    ]
    if request.address_suffix:  # or names of nodes lead into the slow network all the same
        lines += [f"export {name}_SOCKET_IFNAME=ib0" for name in ("NCCL", "GLOO")]
    return lines + [f"export {name}={shlex.quote(value)}" for name, value in request.environment.items()]


def _start(request: Request) -> list[str]:
    lines = ['srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK"']
    if request.container is not None:
        nv = ["--nv"] if request.gpus_per_node else []
        lines.append(shlex.join(["apptainer", "exec", *nv, request.container]))
    lines.append(shlex.join(request.words))
    if added := _added(request):
        lines.append(shlex.join(added))
    inside = request.container is not None and request.requeue and is_training(request.words)
    if inside:
        lines[-1] += " || status=$?"
    step = [f"{'  ' if number else ''}{line}" + " \\" * (line is not lines[-1]) for number, line in enumerate(lines)]
    return step + REQUEUE if inside else step


def _added(request: Request) -> list[str]:
    """What the job decides for ``snnkit train``, where the command doesn't say it already."""
    words = request.words
    if not is_training(words):
        return []
    added = {"--nodes": str(request.nodes), "--devices": str(request.tasks)}
    if request.requeue:
        added["--requeue-signal"] = request.signal
    options = [word for name, value in added.items() if command_option(words, name) is None for word in (name, value)]
    resumes = command_option(words, "--checkpoint") is not None and "--resume" not in words
    return options + ["--resume"] * resumes


class SubmitError(RuntimeError):
    """The script was not submitted; says why, in sbatch's words where it has any."""


def submit(path: str | os.PathLike[str], *, timeout: float = 60.0) -> int:
    """Submit the script in this file, and return the number of its job.

    Args:
        path: of the script.
        timeout: seconds to wait for sbatch's answer.

    Raises:
        FileNotFoundError: there is no such file.
        SubmitError: there is no sbatch on this machine, it refused the script, or it did not answer in time.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"there is no script {str(file)!r} to submit")
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise SubmitError(
            "there is no sbatch on this machine: copy the script to a login node of the cluster, "
            f"and submit it there with `sbatch {file.name}`"
        )
    try:
        done = subprocess.run([sbatch, "--parsable", str(file)], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise SubmitError(f"sbatch gave no answer within {timeout:g} s; is SLURM's controller running?") from None
    answer = re.match(r"(\d+)", done.stdout.strip())
    if done.returncode or answer is None:
        message = " ".join((done.stderr or done.stdout).split()) or "nothing"
        raise SubmitError(f"sbatch refused {str(file)!r} with exit code {done.returncode}, and said: {message}")
    return int(answer[1])
