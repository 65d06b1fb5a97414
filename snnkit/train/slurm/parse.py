"""A batch script taken apart as sbatch and bash read it: directives first, then commands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

SHORT = {
    "-A": "account",
    "-a": "array",
    "-c": "cpus-per-task",
    "-C": "constraint",
    "-d": "dependency",
    "-D": "chdir",
    "-e": "error",
    "-G": "gpus",
    "-H": "hold",
    "-i": "input",
    "-J": "job-name",
    "-K": "kill-on-bad-exit",
    "-m": "distribution",
    "-n": "ntasks",
    "-N": "nodes",
    "-o": "output",
    "-p": "partition",
    "-q": "qos",
    "-t": "time",
    "-w": "nodelist",
    "-W": "wait",
    "-x": "exclude",
}

# Options that take no value, or one only behind "=", so that the next word is not theirs.
BARE = frozenset({"requeue", "no-requeue", "hold", "wait", "exclusive", "overcommit", "oversubscribe", "spread-job"})
BARE_SRUN = frozenset({"kill-on-bad-exit", "exclusive", "exact", "overlap", "label", "unbuffered", "verbose", "quiet"})


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
        late: numbers of those lines behind the first command, which sbatch ignores. Other rules take them as meant.
        commands: in their order.
    """

    lines: list[str]
    directives: list[Option] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)

    def option(self, *names: str) -> Option | None:
        """The directive of this name (or these): the last, as that one holds."""
        return next((option for option in reversed(self.directives) if option.name in names), None)

    def number(self, *names: str) -> int | None:
        """The whole number that a directive gives; None: it is not there, or not a number."""
        found = self.option(*names)
        return int(found.value) if found is not None and re.fullmatch(r"[0-9]{1,9}", found.value) else None

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
        raise TypeError(f"text must be the text of a batch script; got {type(text).__name__}")
    script = Script(text.removesuffix("\n").split("\n"))  # as bash does, which takes a carriage return for a letter
    for number, line in enumerate(script.lines, 1):
        if not line.startswith("#SBATCH"):
            continue
        if any(command_line(earlier) for earlier in script.lines[: number - 1]):
            script.late.append(number)
        script.directives += _options(words_of(line.removeprefix("#SBATCH")), number, BARE)
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
    held: list[str] = []
    first = 0
    for number, line in enumerate(lines, 1):
        if not held and not command_line(line):
            continue
        first = first if held else number
        held.append(line.rstrip().removesuffix("\\").strip())
        if line.rstrip().endswith("\\") and number < len(lines):
            continue
        text = " ".join(held)
        yield Command(tuple(words_of(text)), text, first, number)
        held = []


def _options(words: list[str], line: int, bare: frozenset[str]) -> list[Option]:
    found, rest = _leading(words, line, bare)
    return found if not rest else [*found, *(Option(word, "", line) for word in rest)]


def _leading(words: list[str], line: int, bare: frozenset[str]) -> tuple[list[Option], list[str]]:
    """The options at the beginning, and the words from the first on that is none."""
    found: list[Option] = []
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
        found.append(Option(name, value, line))
        position += 1
    return found, words[position:]


def _step(command: Command) -> Step:
    words = list(command.words)
    while words and words[0] != "srun":  # assignments in front
        words.pop(0)
    options, program = _leading(words[1:], command.line, BARE_SRUN)
    ends = next((at for at, word in enumerate(program) if word in ("&", "&&", "||", ";", "|", ">", ">>")), len(program))
    return Step(command, tuple(options), tuple(program[:ends]))
