"""How sbatch and bash read a script: its directives, options and commands, times and signals."""

from __future__ import annotations

import itertools
import re
import shlex
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import PurePath
from typing import NamedTuple

from snnkit import checks
from snnkit.checks import shown

SHORT = {
    "-A": "account", "-a": "array", "-c": "cpus-per-task", "-C": "constraint", "-d": "dependency", "-D": "chdir",
    "-e": "error", "-G": "gpus", "-H": "hold", "-i": "input", "-J": "job-name", "-K": "kill-on-bad-exit", "-l": "label",
    "-m": "distribution", "-n": "ntasks", "-N": "nodes", "-o": "output", "-O": "overcommit", "-p": "partition",
    "-q": "qos", "-Q": "quiet", "-s": "oversubscribe", "-t": "time", "-u": "unbuffered", "-v": "verbose",
    "-w": "nodelist", "-W": "wait", "-x": "exclude",
}  # fmt: skip

# Options that take no value, or one only behind "=", so that the next word is not theirs.
BARE = frozenset({"requeue", "no-requeue", "hold", "wait", "exclusive", "overcommit", "oversubscribe", "spread-job"})
BARE |= {"verbose", "quiet"}
# Of srun, whose --wait has the seconds behind it.
BARE_SRUN = BARE - {"wait"} | {"kill-on-bad-exit", "exact", "overlap", "label", "unbuffered"}
# What may stand before a program, and how many words it takes.
PREFIXES = {"time": 1, "nohup": 1, "exec": 1, "env": 1, "nice": 1, "numactl": 1, "apptainer": 2, "singularity": 2}
PROGRAMS = re.compile(r"python[\d.]*|snnkit|torchrun|lightning|accelerate|deepspeed")
CHECKPOINTS = [f"--{name}{part}" for name in ("checkpoint", "ckpt") for part in ("", "-path", "_path", "-dir", "_dir")]
TOOLS = {"cat", "cp", "date", "echo", "hostname", "ls", "mkdir", "nvidia-smi", "printenv", "rm", "rsync", "tar"}
LARGEST = 100_000  # characters, a hundred times what scripts have
LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "torch.distributed.run", "torch.distributed.launch")
DAY = 86400
# Signals by their numbers on Linux, where the script will run; the system on which it is written may lack some.
_NAMES = (
    "HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT "
    "CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS"
)
SIGNALS = dict(enumerate(_NAMES.split(), 1))
REQUEUE_SIGNAL = "SIGUSR1"  # upon which `snnkit train` and `snnkit sweep` save and requeue their job


class Option(NamedTuple):
    """One option of sbatch, srun or a program: its long name without dashes, its value ("": none), and its line."""

    name: str
    value: str
    line: int


class Command(NamedTuple):
    """One command, its continuation lines joined: its words, its text, and the numbers of its first and last line."""

    words: tuple[str, ...]
    text: str
    line: int
    last: int

    @property
    def program(self) -> str:
        """The first word that is no assignment."""
        return next((word for word in self.words if not re.match(r"[A-Za-z_]\w*=", word)), "")


class Step(NamedTuple):
    """A command that starts a program: the options of its ``srun``, if it has one, and the words of the program."""

    command: Command
    options: list[Option]
    program: list[str]

    @property
    def line(self) -> int:
        """Where it begins."""
        return self.command.line

    @property
    def trains(self) -> bool:
        """Whether the program may be one that trains: it is none of ``TOOLS``."""
        return bool(self.program) and PurePath(self.program[0]).name not in TOOLS

    @property
    def partial(self) -> bool:
        """Whether it says itself how many processes it starts, instead of all that the job has room for."""
        return any(option.name in ("nodes", "ntasks") for option in self.options)

    @property
    def requeues(self) -> bool:
        """Whether it is a ``snnkit train`` or ``sweep``, which requeues the job upon ``REQUEUE_SIGNAL``."""
        return is_training(self.program) or is_sweep(self.program)

    def value(self, *names: str) -> str | None:
        """What the program gets as ``--name VALUE``; None: it is not there."""
        return command_option(self.program, *names)


class Variable(NamedTuple):
    """What a variable is set to last, on which line, and whether the processes that srun starts see it."""

    name: str
    value: str
    line: int
    visible: bool


@dataclass
class Script:
    """The parts of a batch script, in their order; not to be changed after the first use, as properties are cached."""

    lines: list[str]
    directives: list[Option] = field(default_factory=list)  #: options of all #SBATCH lines
    late: list[int] = field(default_factory=list)  #: lines of these behind the first command, which sbatch ignores
    commands: list[Command] = field(default_factory=list)

    def option(self, *names: str) -> Option | None:
        """The directive of this name (or these): the last, as that one counts."""
        return next((option for option in reversed(self.directives) if option.name in names), None)

    def number(self, name: str) -> int | None:
        """The whole number that a directive gives; None: it is not there, or not a number."""
        option = self.option(name)
        return int(option.value) if option and re.fullmatch(r"[0-9]{1,9}", option.value) else None

    @property
    def nodes(self) -> int:
        """How many machines the job gets."""
        return self.number("nodes") or 1

    @property
    def processes(self) -> int:
        """How many ``srun`` starts."""
        each = self.number("ntasks-per-node")
        return self.nodes * each if each else self.number("ntasks") or self.nodes

    @property
    def gives_up(self) -> bool:
        """Whether the job never goes back to the queue."""
        last = self.option("requeue", "no-requeue")
        return last is not None and last.name == "no-requeue"

    @cached_property
    def steps(self) -> list[Step]:
        """Every ``srun``."""
        return [_step(command) for command in self.commands if command.program == "srun"]

    @cached_property
    def programs(self) -> list[Step]:
        """What trains: by an srun, or without."""
        return [step for step in map(_step, self.commands) if step.trains]

    @cached_property
    def whole(self) -> list[Step]:
        """What trains on all processes of the job."""
        return [step for step in self.programs if not step.partial]

    @cached_property
    def snnkit(self) -> list[Step]:
        """Every ``snnkit train``, and every ``snnkit sweep``."""
        return [step for step in self.programs if step.requeues]

    @cached_property
    def trainings(self) -> list[Step]:
        """Every ``snnkit train``."""
        return [step for step in self.programs if is_training(step.program)]

    @cached_property
    def sweeps(self) -> list[Step]:
        """Every ``snnkit sweep``."""
        return [step for step in self.programs if is_sweep(step.program)]

    @cached_property
    def checkpoints(self) -> list[Option]:
        """Where the programs that train save, each as an option in which the variables of the script are filled in."""

        @cache
        def value(reference: str) -> str:
            variables = self.variables(reference.strip("${}"))
            return variables[0].value if variables else reference

        paths = [(step.value(*CHECKPOINTS), step.line) for step in self.programs]
        return [
            Option("checkpoint", re.sub(r"\$\{?\w+\}?", lambda name: value(name[0]), path), line)
            for path, line in paths
            if path
        ]

    @cached_property
    def launcher(self) -> str | None:
        """The program, such as torchrun, that starts the processes of a node by itself."""
        words = [word for step in self.programs for word in step.program]
        settings = (word for c in self.commands if c.program in ("", "export") for word in c.words)
        words += [part for word in settings for part in re.split(r"[=\s]", word)]
        names = {PurePath(word).name for word in words}
        return next((name for name in LAUNCHERS if name in names), None)

    def variables(self, *names: str) -> list[Variable]:
        """The variables of these names, each as it is last set."""
        variables: dict[str, Variable] = {}
        for name, command in itertools.product(names, self.commands):
            exporting = command.program in ("export", "declare", "typeset")
            if match := re.search(rf"(?:^|\s){name}=(\"?\$\(.*\)\"?|\S*)", command.text):
                behind = command.text[match.end() :].lstrip()  # a command, which then gets the variable
                visible = exporting or bool(behind and not behind.startswith("#"))
                variables[name] = Variable(name, match[1].strip("\"'"), command.line, visible)
            elif name in variables and exporting and name in command.words:
                variables[name] = variables[name]._replace(visible=True)
        return list(variables.values())


@checks.arguments
def parse(text: str) -> Script:
    """Take a batch script apart; ValueError if it is too long to be one."""
    if len(text) > LARGEST:
        raise ValueError(f"text must have at most {LARGEST:,} characters, but it has {len(text):,}")
    script = Script(text.removesuffix("\n").split("\n"))  # as bash does, which takes a carriage return for a letter
    script.commands = list(_commands(script.lines))
    first = script.commands[0].line if script.commands else len(script.lines)
    for number, line in enumerate(script.lines, 1):
        if line.startswith("#SBATCH"):
            options, rest = _leading(_words(line.removeprefix("#SBATCH")), number, BARE)
            script.directives += [*options, *(Option(word, "", number) for word in rest)]
            script.late += [number] if number > first else []
    return script


def _words(text: str) -> list[str]:
    """Words as a shell splits them, comments left out; plainly at spaces where quotes are open."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def _commands(lines: list[str]) -> Iterator[Command]:
    joined: list[str] = []
    last = {line.strip(): number for number, line in enumerate(lines, 1)}
    first, document = 0, ""  # the word behind << that ends lines which are no commands
    for number, line in enumerate(lines, 1):
        if document or (not joined and re.match(r"\s*(#|$)", line)):  # empty, or a comment
            document = "" if line.strip() == document else document
            continue
        first = first if joined else number
        joined.append(line.rstrip().removesuffix("\\").strip())
        if line.rstrip().endswith("\\") and number < len(lines):
            continue
        text = " ".join(joined)
        yield Command(tuple(_words(text)), text, first, number)
        joined = []
        begun = re.search(r"(?<!<)<<-?\s*[\"']?([A-Za-z_]\w*)", text)
        document = begun[1] if begun and last.get(begun[1], 0) > number else ""


def _leading(words: Sequence[str], line: int, bare: frozenset[str]) -> tuple[list[Option], list[str]]:
    """The options at the beginning, and the words from the first on that is none."""
    options, rest = [], deque(words)
    while rest and rest[0].startswith("-"):
        word = rest.popleft()
        if word.startswith("--"):
            name, given, value = word[2:].partition("=")
        else:
            name, value = SHORT.get(word[:2], word[:2]), word[2:].removeprefix("=")
            given = value
        if not given and name not in bare and rest and not rest[0].startswith("-"):
            value = rest.popleft()
        options.append(Option(name, value, line))
    return options, list(rest)


def _step(command: Command) -> Step:
    if command.program != "srun":
        return Step(command, [], _started(command))
    options, program = _leading(command.words[command.words.index("srun") + 1 :], command.line, BARE_SRUN)
    ends = next((at for at, word in enumerate(program) if word in ("&", "&&", "||", ";", "|", ">", ">>")), len(program))
    return Step(command, options, program[:ends])


def _started(command: Command) -> list[str]:
    """The program and its arguments, behind assignments and the likes of ``time``; empty: it is none that trains."""
    words = list(command.words[command.words.index(command.program) :]) if command.program else []
    while words and PurePath(words[0]).name in PREFIXES:
        words = words[PREFIXES[PurePath(words[0]).name] :]
        words = list(itertools.dropwhile(re.compile(r"-|[A-Za-z_]\w*=|.*\.sif$").match, words))
    if not words or not PROGRAMS.fullmatch(PurePath(words[0]).name):
        return []
    return [] if words[1:2] and words[1] in ("--version", "-V", "-c", "doctor") else words  # these only print


# --- times, signals and what trains ----------------------------------------------------------------------------------


@checks.arguments
def seconds(text: str) -> int:
    """The seconds of a time as sbatch reads it; "01:00" is one minute. ValueError if it is in none of its formats.

    Source: https://slurm.schedmd.com/sbatch.html#OPT_time
    """
    match = re.fullmatch(r"(?:(\d{1,9})-)?(\d{1,9}(?::\d{1,9}){0,2})", text.strip())
    if match is None:
        forms = "minutes, M:SS, H:MM:SS, D-H, D-H:MM or D-H:MM:SS"
        raise ValueError(f"time must be written as {forms}, but it is {shown(text)}")
    numbers = [int(number) for number in match[2].split(":")]
    units = (3600, 60, 1) if match[1] or len(numbers) == 3 else (60, 1)
    return int(match[1] or 0) * DAY + sum(n * unit for n, unit in zip(numbers, units, strict=False))


def clock(total: int) -> str:
    """Seconds as H:MM:SS with two digits for the hours, or D-HH:MM:SS from a day on."""
    days, rest = divmod(total, DAY)
    text = f"{rest // 3600:02}:{rest % 3600 // 60:02}:{rest % 60:02}"
    return f"{days}-{text}" if days else text


class EarlySignal(NamedTuple):
    """The signal that ``--signal`` asks for: its name with SIG, how many seconds before the time limit it comes, and
    whether only the shell of the script gets it ("B:"), and not the tasks of srun."""

    name: str
    seconds: int
    batch: bool


def early_signal(text: str) -> EarlySignal:
    """Read ``[B:|R:]SIGNAL[@SECONDS]``; without seconds sbatch takes 60. ValueError if it is not of that form.

    "USR1", "SIGUSR1" and "10" (on Linux) are all "SIGUSR1".
    """
    match = re.fullmatch(r"(?:([BR]{1,2}):)?([A-Za-z0-9]+)(?:@(\d{1,9}))?", text.strip())
    if match is None:
        raise ValueError(f"signal must be written as SIGUSR1@90: a signal and seconds, but it is {shown(text)}")
    word = match[2]
    name = word.upper().removeprefix("SIG")
    name = SIGNALS.get(int(name), "") if name.isdecimal() else name
    if name not in SIGNALS.values():
        raise ValueError(f"signal must be the name of a signal, such as 'SIGUSR1', but it is {shown(word)}")
    return EarlySignal(f"SIG{name}", int(match[3] or 60), "B" in (match[1] or ""))


def array(text: str) -> tuple[int, int]:
    """How many tasks ``--array`` makes, and the highest index; "8" is one task of index 8, "1-8%4" eight.

    ValueError if it is in no form of sbatch's. Source: https://slurm.schedmd.com/sbatch.html#OPT_array
    """
    indices, _, at_once = text.strip().partition("%")
    parts = [re.fullmatch(r"(\d{1,9})(?:-(\d{1,9})(?::([1-9]\d{0,8}))?)?", part) for part in indices.split(",")]
    ranges = [range(int(p[1]), int(p[2] or p[1]) + 1, int(p[3] or 1)) for p in parts if p]
    if len(ranges) < len(parts) or not all(ranges) or not re.fullmatch(r"\d{0,9}", at_once):
        raise ValueError(f"array must be indices, such as 1-8, 1-8%4 or 1,3,7, but it is {shown(text)}")
    return sum(map(len, ranges)), max(map(max, ranges))


def is_training(words: Sequence[str]) -> bool:
    """Whether it is ``snnkit train …``, by whatever path, or ``python -m snnkit.lab.cli train …``."""
    return bool(_own(words, "train"))


def is_sweep(words: Sequence[str]) -> bool:
    """Whether it is ``snnkit sweep MANIFEST …``, by whatever path, or by ``python -m``; not ``snnkit sweep show``."""
    return _own(words, "sweep") not in ([], ["show"])


def _own(words: Sequence[str], command: str) -> list[str]:
    """The word behind a command of the kit's, [""] for none; empty where it is another program or command."""
    names = [PurePath(words[0]).name, *words[1:5], ""] if words else []
    if names[:2] == ["snnkit", command]:
        return names[2:3]
    module = names[1:4] == ["-m", "snnkit.lab.cli", command] and names[0].startswith("python")
    return names[4:5] if module else []


def command_option(words: Sequence[str], *names: str) -> str | None:
    """The value of ``--name VALUE`` or ``--name=VALUE``, the last where there are several; None: it is not there."""
    value = None
    for word, following in zip(words, [*words[1:], ""], strict=True):
        head, equals, tail = word.partition("=")
        if head in names:
            value = tail if equals else following
    return value
