"""What each line of a batch script is for."""

from __future__ import annotations

import re
from collections.abc import Sequence

from . import meanings
from .parse import Command, Option, Script, command_line, parse
from .request import Request
from .write import script as write


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
        raise TypeError(f"script must be a text or a slurm.Request; got {type(script).__name__}")
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
    meaning = meanings.DIRECTIVES.get(option.name)
    if meaning is None:
        return f"An option of sbatch, --{option.name}; `man sbatch` says what it does."
    return meaning(option.value, script) if callable(meaning) else meaning.format(value=option.value)


def _command(script: Script, command: Command, number: int) -> str:
    if command.program == "srun":
        return _srun_line(script, command, number)
    line = script.lines[number - 1].strip()
    return _first(meanings.COMMANDS, line) or "A command that bash runs once, on the first node of the job."


def _srun_line(script: Script, command: Command, number: int) -> str:
    """The srun itself, the container, and the program: each on a line of its own, or together."""
    line = script.lines[number - 1].strip().removesuffix("\\").strip()
    words = line.split()
    told = []
    if number == command.line:
        told.append(meanings.SRUN.format(count=meanings.processes(script)))
        step = next(step for step in script.steps if step.command == command)
        told += _sentence([meanings.SRUN_OPTIONS.get(option.name) for option in step.options])
    told += [text for form, text in meanings.PROGRAMS if re.search(form, line)][:1]
    names = [word.partition("=")[0] for word in words]
    told += _sentence([text for name, text in meanings.FLAGS.items() if name in names])
    return " ".join(told) or "Goes on with the command of the lines above."


def _sentence(parts: Sequence[str | None]) -> list[str]:
    """One sentence of all parts, or none."""
    text = "; ".join(part for part in parts if part)
    return [f"{text[0].upper()}{text[1:]}."] if text else []


def _first(rules: Sequence[tuple[str, str]], line: str) -> str | None:
    """The text of the first rule whose form is in the line, with its groups filled in."""
    for form, text in rules:
        if found := re.search(form, line):
            return text.format(*(group or "" for group in found.groups()))
    return None
