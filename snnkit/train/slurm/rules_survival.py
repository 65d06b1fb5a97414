"""Rules of survival: a job that is warned in time, saves, goes back to the queue and continues."""

from __future__ import annotations

from collections.abc import Iterator

from .formats import clock, early_signal, seconds, signal_name, words
from .parse import Option, Script
from .problem import Problem
from .request import SIGNAL_SLACK
from .rules_processes import programs
from .training import flag, is_training, option


def gives_up(script: Script) -> bool:
    """Whether the script says by --no-requeue that it does not want to go on later."""
    last = script.option("requeue", "no-requeue")
    return last is not None and last.name == "no-requeue"


def signal_missing(script: Script) -> Iterator[Problem]:
    if script.option("signal") is None and not gives_up(script):
        yield Problem(
            None,
            "No signal is asked for. At the time limit SLURM ends the job with little or no time to save, and all "
            "since the last checkpoint is lost.",
            "add #SBATCH --signal=SIGUSR1@90: the processes are told 90 s before the limit",
            "signal",
        )


def signal_in_time(script: Script) -> Iterator[Problem]:
    asked, limit = script.option("signal"), script.option("time")
    if asked is None:
        return
    if limit is None:
        yield Problem(
            asked.line,
            "The signal comes before the time limit, but the script sets no limit: that of the partition holds, which "
            "may be minutes or weeks.",
            "add #SBATCH --time=HH:MM:SS",
            "time",
        )
        return
    try:
        early, total = early_signal(asked.value).seconds, seconds(limit.value)
    except ValueError:  # told by the rules of form
        return
    if total == 0:  # no limit
        return
    reads = f"--time={limit.value} (line {limit.line}) is {words(total)}"
    if early >= total:
        yield Problem(
            asked.line,
            f"The signal is due {words(early)} before the limit, but {reads}: it would come as the job starts, "
            "which then requeues itself without having trained.",
            _longer(limit, total, early),
            "signal",
        )
    elif early + SIGNAL_SLACK > total:
        yield Problem(
            asked.line,
            f"The signal is due {words(early)} before the limit, and SLURM may send it up to {SIGNAL_SLACK} s earlier, "
            f"but {reads}: next to nothing is left to train in.",
            _longer(limit, total, early),
            "signal",
        )


def _longer(limit: Option, total: int, early: int) -> str:
    hint = ""
    if limit.value.count(":") == 1 and "-" not in limit.value:
        hours = seconds(f"{limit.value}:00")
        hint = f"; if you meant {words(hours)}, write --time={clock(hours)}"
    shorter = min(90, total - 2 * SIGNAL_SLACK)
    fewer = f", or the signal fewer seconds (@{shorter})" if 0 < shorter < early else ""
    return f"give the job more time than {words(early + SIGNAL_SLACK)}{fewer}{hint}"


def signal_reaches(script: Script) -> Iterator[Problem]:
    asked = script.option("signal")
    if asked is None:
        return
    try:
        early = early_signal(asked.value)
    except ValueError:
        return
    traps = any(command.program == "trap" for command in script.commands)
    if early.batch and not traps:
        yield Problem(
            asked.line,
            "B: sends the signal to the shell of the script only. It does not pass it on, so that the training never "
            "hears of the limit.",
            f"leave out B:, as in --signal={early.name}@{early.seconds}",
            "signal",
        )
    for command, given in programs(script):
        if not is_training(given):
            continue
        expected = option(given, "--requeue-signal") or "SIGUSR1"
        try:
            expected = signal_name(expected)
        except ValueError as error:
            yield Problem(command.line, f"{error}.", "write --requeue-signal SIGUSR1", "signal")
            continue
        if expected != early.name:
            yield Problem(
                asked.line,
                f"SLURM sends {early.name}, but the command waits for {expected} (--requeue-signal). A signal that "
                "nobody waits for ends a process.",
                f"write --signal={expected}@{early.seconds}, or --requeue-signal {early.name} in the command",
                "signal",
            )


def requeue(script: Script) -> Iterator[Problem]:
    if script.option("requeue", "no-requeue") is None:
        yield Problem(
            None,
            "The script does not say whether the job may go back to the queue. On clusters where it may not by "
            "default, `scontrol requeue` is refused, and a job that hits its limit, or loses a node, is over.",
            "add #SBATCH --requeue (or --no-requeue, if that is what you want)",
            "requeue",
        )


def append(script: Script) -> Iterator[Problem]:
    mode = script.option("open-mode")
    if script.option("requeue") is None or gives_up(script) or (mode is not None and mode.value == "append"):
        return
    yield Problem(
        mode.line if mode else None,
        "A requeued job opens its log anew, and may overwrite what its first run has written.",
        "add #SBATCH --open-mode=append" if mode is None else "write --open-mode=append",
        "append",
    )


def kill(script: Script) -> Iterator[Problem]:
    from_environment = script.exported("SLURM_KILL_BAD_EXIT")
    if from_environment is not None and from_environment[0] == "1":
        return
    for step in script.steps:
        given = step.option("kill-on-bad-exit")
        if (given is None or given.value == "0") and _several(script):
            yield Problem(
                step.command.line,
                "Where one process dies, the others wait for it, and the job goes on costing money until its limit.",
                "write srun --kill-on-bad-exit=1 …",
                "kill",
            )


def _several(script: Script) -> bool:
    return (script.number("nodes") or 1) * (script.number("ntasks-per-node") or script.number("ntasks") or 1) > 1


def resume(script: Script) -> Iterator[Problem]:
    if gives_up(script):
        return
    for command, given in programs(script):
        if not is_training(given):
            continue
        if option(given, "--checkpoint") is None:
            yield Problem(
                command.line,
                "The command writes no checkpoint: there is nothing that the requeued job could go on from.",
                "add --checkpoint FILE --resume",
                "resume",
            )
        elif not flag(given, "--resume"):
            yield Problem(
                command.line,
                "The command does not resume: the requeued job would begin anew, and be stopped at the same point, for "
                "ever.",
                "add --resume; the first run, which finds no checkpoint, begins from the start",
                "resume",
            )


RULES = (signal_missing, signal_in_time, signal_reaches, requeue, append, kill, resume)
