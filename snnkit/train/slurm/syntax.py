"""How sbatch and bash read a script: its directives, options and commands, times and signals."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from snnkit.checks import shown

SHORT = {
    "-A": "account", "-a": "array", "-c": "cpus-per-task", "-C": "constraint", "-d": "dependency", "-D": "chdir",
    "-e": "error", "-G": "gpus", "-H": "hold", "-i": "input", "-J": "job-name", "-K": "kill-on-bad-exit",
    "-m": "distribution", "-n": "ntasks", "-N": "nodes", "-o": "output", "-p": "partition", "-q": "qos", "-t": "time",
    "-w": "nodelist", "-W": "wait", "-x": "exclude",
}  # fmt: skip

# Options that take no value, or one only behind "=", so that the next word is not theirs.
BARE = frozenset({"requeue", "no-requeue", "hold", "wait", "exclusive", "overcommit", "oversubscribe", "spread-job"})
BARE_SRUN = frozenset({"kill-on-bad-exit", "exclusive", "exact", "overlap", "label", "unbuffered", "verbose", "quiet"})
MINUTE, HOUR, DAY = 60, 3600, 86400

TIMES = "minutes, M:SS, H:MM:SS, D-H, D-H:MM or D-H:MM:SS"

# sbatch's own formats: https://slurm.schedmd.com/sbatch.html#OPT_time
_TIME = (
    (re.compile(r"(\d+)"), (MINUTE,)),
    (re.compile(r"(\d+):(\d+)"), (MINUTE, 1)),
    (re.compile(r"(\d+):(\d+):(\d+)"), (HOUR, MINUTE, 1)),
    (re.compile(r"(\d+)-(\d+)"), (DAY, HOUR)),
    (re.compile(r"(\d+)-(\d+):(\d+)"), (DAY, HOUR, MINUTE)),
    (re.compile(r"(\d+)-(\d+):(\d+):(\d+)"), (DAY, HOUR, MINUTE, 1)),
)
SIGNAL_SLACK = 60  # seconds by which SLURM may send a signal too early, says `man sbatch`


@dataclass(frozen=True)
class Option:
    """One option of sbatch or srun: its long name without dashes, its value ("" where it has none), and its line."""

    name: str
    value: str
    line: int


@dataclass(frozen=True)
class Command:
    """One command, its continuation lines joined.

    Attributes:
        words: as bash would split them; those of a comment left out.
        text: the whole, on one line.
        line, last: numbers of its first and last line.
    """

    words: tuple[str, ...]
    text: str
    line: int
    last: int

    @property
    def program(self) -> str:
        """The first word that is no assignment."""
        return next((word for word in self.words if not re.match(r"[A-Za-z_]\w*=", word)), "")


@dataclass
class Script:
    """The parts of a batch script.

    Attributes:
        lines: of the text.
        directives: options of all #SBATCH lines, in their order.
        late: numbers of those lines behind the first command, which sbatch ignores. Rules treat them as valid.
        commands: in their order.
    """

    lines: list[str]
    directives: list[Option] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def option(self, *names: str) -> Option | None:
        """The directive of this name (or these): the last, as that one counts."""
        return next((option for option in reversed(self.directives) if option.name in names), None)

    def number(self, *names: str) -> int | None:
        """The whole number that a directive gives; None: it is not there, or not a number."""
        option = self.option(*names)
        return int(option.value) if option and re.fullmatch(r"[0-9]{1,9}", option.value) else None

    @property
    def steps(self) -> list[Step]:
        """Every ``srun``."""
        return [_step(command) for command in self.commands if command.program == "srun"]

    def exported(self, name: str) -> tuple[str, int, bool] | None:
        """What a variable is set to last before it is used, on which line, and whether processes of srun see it."""
        value, line, visible = None, 0, False
        for command in self.commands:
            words = command.words
            exporting = command.program in ("export", "declare", "typeset")
            for word in words:
                head, equals, tail = word.partition("=")
                if head == name and equals and (exporting or command.program == "" or words[0] == word):
                    value, line = tail, command.line
                    visible = visible or exporting or command.program != ""
                elif head == name and exporting:
                    visible = True
        return None if value is None else (value, line, visible)


@dataclass(frozen=True)
class Step:
    """One ``srun``: its own options, and the words of the program that it starts."""

    command: Command
    options: tuple[Option, ...]
    program: tuple[str, ...]

    def option(self, *names: str) -> Option | None:
        return next((option for option in reversed(self.options) if option.name in names), None)


def parse(text: str) -> Script:
    """Take a batch script apart.

    Raises:
        TypeError: it is no text.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be the text of a batch script, but it is {shown(text)}")
    script = Script(text.removesuffix("\n").split("\n"))  # as bash does, which takes a carriage return for a letter
    for number, line in enumerate(script.lines, 1):
        if not line.startswith("#SBATCH"):
            continue
        if any(command_line(earlier) for earlier in script.lines[: number - 1]):
            script.late.append(number)
        options, rest = _leading(words_of(line.removeprefix("#SBATCH")), number, BARE)
        script.directives += [*options, *(Option(word, "", number) for word in rest)]
    script.commands = list(_commands(script.lines))
    return script


def command_line(line: str) -> bool:
    """Whether a line holds a command: it is neither empty nor a comment."""
    return bool(line.strip()) and not line.lstrip().startswith("#")


def words_of(text: str) -> list[str]:
    """Words as a shell splits them, comments left out; plainly at spaces where quotes are open."""
    try:
        return shlex.split(_keep_substitutions(text), comments=True)
    except ValueError:
        return text.split()


def _keep_substitutions(text: str) -> str:
    """Quote each $(…) and $((…)), so that its spaces do not part it."""
    out, position = "", 0
    while (start := text.find("$(", position)) >= 0:
        depth, end = 0, start + 1
        while end < len(text):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
            if depth == 0:
                break
        inside = text[:start].count('"') % 2 == 1
        body = text[start:end]
        out += text[position:start] + (body.replace('"', "") if inside else "'" + body.replace("'", "") + "'")
        position = end
    return out + text[position:]


def _commands(lines: list[str]) -> Iterator[Command]:
    joined: list[str] = []
    first = 0
    for number, line in enumerate(lines, 1):
        if not joined and not command_line(line):
            continue
        first = first if joined else number
        joined.append(line.rstrip().removesuffix("\\").strip())
        if line.rstrip().endswith("\\") and number < len(lines):
            continue
        text = " ".join(joined)
        yield Command(tuple(words_of(text)), text, first, number)
        joined = []


def _leading(words: list[str], line: int, bare: frozenset[str]) -> tuple[list[Option], list[str]]:
    """The options at the beginning, and the words from the first on that is none."""
    options: list[Option] = []
    position = 0
    while position < len(words) and words[position].startswith("-"):
        word, value = words[position], ""
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            separate = not equals and name not in bare
        else:
            name, value = SHORT.get(word[:2], word[:2]), word[2:].removeprefix("=")
            separate = not value and name not in bare
        if separate and position + 1 < len(words) and not words[position + 1].startswith("-"):
            position += 1
            value = words[position]
        options.append(Option(name, value, line))
        position += 1
    return options, words[position:]


def _step(command: Command) -> Step:
    words = list(command.words)
    while words and words[0] != "srun":  # assignments in front
        words.pop(0)
    options, program = _leading(words[1:], command.line, BARE_SRUN)
    ends = next((at for at, word in enumerate(program) if word in ("&", "&&", "||", ";", "|", ">", ">>")), len(program))
    return Step(command, tuple(options), tuple(program[:ends]))


# --- times, signals and training commands ----------------------------------------------------------------------------


def seconds(text: str) -> int:
    """The seconds of a time as sbatch reads it; beware that "01:00" is one minute.

    Raises:
        ValueError: the text is in none of sbatch's formats.
    """
    for form, units in _TIME:
        if match := form.fullmatch(text.strip()):
            return sum(int(number) * unit for number, unit in zip(match.groups(), units, strict=True))
    raise ValueError(f"time must be written as {TIMES}, but it is {text!r}")


def clock(total: int) -> str:
    """Seconds as H:MM:SS with two digits for the hours, or D-HH:MM:SS from a day on."""
    days, rest = divmod(total, DAY)
    text = f"{rest // HOUR:02}:{rest % HOUR // MINUTE:02}:{rest % MINUTE:02}"
    return f"{days}-{text}" if days else text


def duration(total: int) -> str:
    """Seconds in words for a message: "90 seconds", "5 minutes", "1 hour 30 minutes"."""
    if total < 2 * MINUTE and total != MINUTE:
        return count(total, "second")
    parts = {
        "day": total // DAY,
        "hour": total % DAY // HOUR,
        "minute": total % HOUR // MINUTE,
        "second": total % MINUTE,
    }
    return " ".join(count(number, unit) for unit, number in parts.items() if number)


def count(number: int, unit: str) -> str:
    """A number with its noun: "1 process", "2 processes"."""
    plural = f"{unit}es" if unit.endswith("s") else f"{unit}s"
    return f"{number} {unit if number == 1 else plural}"


@dataclass(frozen=True)
class EarlySignal:
    """The signal that ``--signal`` asks for.

    Attributes:
        name: with its SIG, as "SIGUSR1".
        seconds: how long before the time limit.
        batch: whether only the shell of the script gets it ("B:"), and not the tasks of srun.
    """

    name: str
    seconds: int
    batch: bool = False


def early_signal(text: str) -> EarlySignal:
    """Read ``[B:|R:]SIGNAL[@SECONDS]``; without seconds sbatch takes 60.

    Raises:
        ValueError: it is not of that form, or there is no such signal.
    """
    match = re.fullmatch(r"(?:([BR]{1,2}):)?([A-Za-z0-9]+)(?:@(\d+))?", text.strip())
    if match is None:
        raise ValueError(f"signal must be written as SIGUSR1@90: a signal and seconds, but it is {text!r}")
    return EarlySignal(signal_name(match[2]), int(match[3] or 60), "B" in (match[1] or ""))


def signal_name(text: str) -> str:
    """The full name of a signal: "USR1", "SIGUSR1" and "10" (on Linux) are all "SIGUSR1".

    Raises:
        ValueError: there is no such signal.
    """
    try:
        if text.isdigit():
            return signal.Signals(int(text)).name
        name = text.upper()
        return signal.Signals[name if name.startswith("SIG") else f"SIG{name}"].name
    except (KeyError, ValueError):
        raise ValueError(f"signal must be the name of a signal, such as 'SIGUSR1', but it is {text!r}") from None


def is_training(words: Sequence[str]) -> bool:
    """Whether it is ``snnkit train …``, by whatever path, or ``python -m snnkit.cli train …``."""
    if len(words) > 1 and PurePath(words[0]).name == "snnkit":
        return words[1] == "train"
    python = bool(words) and PurePath(words[0]).name.startswith("python")
    return python and tuple(words[1:4]) == ("-m", "snnkit.cli", "train")


def command_option(words: Sequence[str], *names: str) -> str | None:
    """The value of ``--name VALUE`` or ``--name=VALUE``, the last where there are several; None: it is not there."""
    value = None
    for word, following in zip(words, [*words[1:], ""], strict=True):
        head, equals, tail = word.partition("=")
        if head in names:
            value = tail if equals else following
    return value
