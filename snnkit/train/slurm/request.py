"""What is asked of the cluster, as typed values that are checked before anything is written."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .formats import MINUTE, clock, seconds, signal_name, words
from .training import is_training, option

SIGNAL_SLACK = 60  # seconds by which SLURM may send the signal too early, says `man sbatch`


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
        requeue: whether the job goes back to the queue, to go on later; if not, no signal is asked for either, and the
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
            _check_count(name, getattr(self, name), least)
        if self.tasks_per_node is not None:
            _check_count("tasks_per_node", self.tasks_per_node, 1)
            if self.gpus_per_node and self.tasks_per_node != self.gpus_per_node:
                raise ValueError(
                    f"tasks_per_node must equal gpus_per_node, one process for each GPU, or be None; "
                    f"got {self.tasks_per_node} and {self.gpus_per_node}"
                )
        if not isinstance(self.requeue, bool):
            raise TypeError(f"requeue must be True or False; got {self.requeue!r}")
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
                raise ValueError(f"{name} must be a whole path, as nobody replaces the ~ in a script; got {value!r}")
        if self.memory is not None and not re.fullmatch(r"\d+[KMGT]?", self.memory, re.IGNORECASE):
            raise ValueError(f"memory must be a number with K, M, G or T, such as '64G'; got {self.memory!r}")
        if self.venv is not None and self.container is not None:
            raise ValueError(f"venv and container exclude each other; got {self.venv!r} and {self.container!r}")
        if not isinstance(self.address_suffix, str) or not re.fullmatch(r"[A-Za-z0-9.-]*", self.address_suffix):
            raise ValueError(
                f"address_suffix must be the end of a name: letters, digits, . and -; got {self.address_suffix!r}"
            )
        if isinstance(self.modules, str):
            raise TypeError(f"modules must be a list of texts, such as ['CUDA']; got the text {self.modules!r}")
        if not isinstance(self.modules, Sequence):
            raise TypeError(f"modules must be a list of texts, such as ['CUDA']; got {self.modules!r}")
        for module in self.modules:
            _check_text("modules", module)
        if not isinstance(self.environment, Mapping):
            raise TypeError(f"environment must map names to texts; got {type(self.environment).__name__}")
        for name, value in self.environment.items():
            if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"environment must have names of letters, digits and _; got {name!r}")
            _check_text(f"environment[{name!r}]", value, empty=True)

    def _check_times(self) -> None:
        if isinstance(self.time, bool) or not isinstance(self.time, (str, int)):
            raise TypeError(f"time must be a text such as '01:30:00', or minutes as an int; got {self.time!r}")
        if self.limit < MINUTE or self.limit % MINUTE:
            raise ValueError(f"time must be whole minutes, from one on, as SLURM counts them; got {self.time!r}")
        if not isinstance(self.signal, str):
            raise TypeError(f"signal must be a text, such as 'SIGUSR1'; got {self.signal!r}")
        object.__setattr__(self, "signal", signal_name(self.signal))
        if self.signal in ("SIGKILL", "SIGSTOP", "SIGTERM", "SIGINT"):
            raise ValueError(
                f"signal must be one that a process can handle and that means nothing else, such as 'SIGUSR1'; "
                f"got {self.signal!r}"
            )
        if self.requeue and self.signal_seconds + SIGNAL_SLACK > self.limit:
            raise ValueError(
                f"signal_seconds must leave time to train: SLURM may send the signal {SIGNAL_SLACK} s early, and the "
                f"limit is {words(self.limit)} ({clock(self.limit)}); got {self.signal_seconds}"
            )

    def _check_command(self) -> None:
        if not isinstance(self.command, str) and (
            not isinstance(self.command, Sequence) or not all(isinstance(word, str) for word in self.command)
        ):
            raise TypeError(f"command must be a text or a list of words; got {self.command!r}")
        try:
            command = self.words
        except ValueError as error:
            raise ValueError(f"command must have its quotes closed ({error}); got {self.command!r}") from None
        if not command:
            raise ValueError("command must be what each process runs, such as 'snnkit train workshop'; it is empty")
        if any("\n" in word or "\0" in word for word in command):
            raise ValueError(f"command must be one line; got {self.command!r}")
        if command[0] == "srun":
            raise ValueError("command must not begin with srun: the script puts it there")
        if not is_training(command):
            return
        if self.requeue and option(command, "--checkpoint") is None:
            raise ValueError(
                "command must have --checkpoint FILE, or the requeued job would begin anew; "
                f"got {shlex.join(command)!r}, or give requeue=False"
            )
        for name in ("--checkpoint", "--batch-size"):
            value = option(command, name)
            if value is not None and (not value or value.startswith("--")):
                raise ValueError(f"command must have a value behind {name}; got {value!r} there")
        if option(command, "--restarts") is not None:
            raise ValueError("command must not have --restarts, which is for ranks of one machine: give requeue=True")
        self._check_batch(command)
        decided = {"--nodes": self.nodes, "--devices": self.tasks, "--requeue-signal": self.signal}
        for name, value in decided.items():
            given = option(command, name)
            if given is not None and given != str(value):
                raise ValueError(f"command must leave {name} to the job, which has {value}; got {name} {given}")

    def _check_batch(self, command: Sequence[str]) -> None:
        """A batch that the ranks can't share would end the job when it has waited for its turn."""
        from .. import recipes

        asked = option(command, "--batch-size")
        recipe = next((word for word in command[command.index("train") + 1 :] if not word.startswith("-")), None)
        if asked is None and recipe in recipes.names():
            asked = str(recipes.get(recipe).batch_size)
        if asked is not None and asked.isdecimal() and int(asked) % self.ranks:
            raise ValueError(
                f"command must have a --batch-size that {self.ranks} ranks can share ({self.nodes} nodes with "
                f"{self.tasks} each), as it is that of all together; got {asked}"
            )


def _check_count(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int of at least {least}; got {value!r} ({type(value).__name__})")
    if value < least:
        raise ValueError(f"{name} must be at least {least}; got {value}")


def _check_text(name: str, value: object, *, empty: bool = False) -> None:
    """Of one line, and without the characters that sbatch's and bash's quoting would trip over."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a text; got {value!r} ({type(value).__name__})")
    if not value.strip() and not empty:
        raise ValueError(f"{name} must not be empty")
    if bad := re.search(r"[\n\r\0\"\\]", value):
        raise ValueError(f"{name} must be without {bad.group()!r}; got {value!r}")
