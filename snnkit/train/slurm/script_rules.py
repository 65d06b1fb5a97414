"""Find the mistakes in a batch script for training before the cluster does, hours later.

Each rule is a row of ``RULES``. To add one, add a row: id, severity, function, message and fix. The function yields the
line (None: of no line) of each place in a script that breaks the rule, with values for the braces of the texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import PurePath
from typing import Any

from .syntax import (
    SIGNAL_SLACK,
    Command,
    EarlySignal,
    Option,
    Script,
    clock,
    command_option,
    count,
    duration,
    early_signal,
    is_training,
    parse,
    seconds,
    signal_name,
)  # fmt: skip

Found = Iterable[tuple[int | None, dict[str, Any]]]

COUNTS = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task")
GOOD_PORT = "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))"
LAST_PORT = 65535
# The options of sbatch 22.05 (its manual page) and those added since, for guessing what a misspelt one should be.
_NAMES = """
account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment constraint consolidate-segments
container container-id contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot
dependency distribution error exclude exclusive export export-file extra extra-node-info get-user-env gid gpu-bind
gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags hint hold ignore-pbs input job-name
kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind mem-per-cpu mem-per-gpu mincpus network nice
no-kill no-requeue nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu ntasks-per-node ntasks-per-socket
oom-kill-step open-mode output overcommit oversubscribe parsable partition power prefer priority profile propagate qos
quiet reboot requeue resv-ports reservation segment signal sockets-per-node spread-job stepmgr switches test-only
thread-spec threads-per-core time time-min tmp tres-bind tres-per-task uid use-min-nodes verbose wait wait-all-nodes
wckey wrap
"""
KNOWN = frozenset(_NAMES.split())
# What may stand before a program, and how many words it takes.
PREFIXES = {"time": 1, "nohup": 1, "exec": 1, "env": 1, "nice": 1, "numactl": 1, "apptainer": 2, "singularity": 2}
PROGRAMS = re.compile(r"python[\d.]*|snnkit|torchrun|lightning|accelerate|deepspeed")
LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "torch.distributed.run", "torch.distributed.launch")


@dataclass(frozen=True)
class Problem:
    """One mistake in a script.

    Attributes:
        line: its number, from 1 on; None: something is missing that is on no line.
        what: what is wrong, and what would happen.
        fix: what to write instead.
        rule: id of the rule that was broken, such as "port".
        severity: "error" (the job fails, hangs or trains wrongly) or "warning" (it may, or it wastes time or data).
    """

    line: int | None
    what: str
    fix: str
    rule: str
    severity: str = "error"

    def __str__(self) -> str:
        where = "script" if self.line is None else f"line {self.line}"
        return f"{where}: {self.what} Fix: {self.fix}"


@dataclass(frozen=True)
class Rule:
    """A row of the table: ``find`` yields (line, values) for each mistake; the values fill ``message`` and ``fix``."""

    id: str
    severity: str
    find: Callable[[Script], Found]
    message: str
    fix: str


def check(text: str) -> list[Problem]:
    """The problems of a batch script that trains on several processes, from the first line to the last.

    It looks for what goes wrong silently or late: directives that sbatch skips, a number of processes that doesn't
    match the GPUs or the command, processes that can't meet, and a job that can't survive its time limit. An empty list
    means that there is none of these, not that the cluster has such a partition.

    Args:
        text: of the script.

    Raises:
        TypeError: it is no text.
    """
    script = parse(text)
    problems = [
        Problem(line, rule.message.format(**values), rule.fix.format(**values), rule.id, rule.severity)
        for rule in RULES
        for line, values in rule.find(script)
    ]
    return sorted(problems, key=lambda problem: (problem.line is None, problem.line or 0))


# --- form: what sbatch refuses, or skips silently --------------------------------------------------------------------


def _comments(script: Script) -> Found:
    for number, line in enumerate(script.lines, 1):
        if re.match(r"\s*#\s*SBATCH\s+-", line, re.IGNORECASE) and not line.startswith("#SBATCH"):
            yield number, {"options": line[line.index("-") :].strip()}


def _misspelt(script: Script) -> Found:
    for option in script.directives:
        if option.name in KNOWN or not re.fullmatch(r"[a-z][a-z-]+", option.name):
            continue
        if any(name.startswith(option.name) for name in KNOWN):  # sbatch takes abbreviations
            continue
        if close := get_close_matches(option.name, KNOWN, 1, 0.8):
            yield option.line, {"name": option.name, "close": close[0]}


def _unreadable(script: Script) -> Found:
    for option in script.directives:
        read = {"time": seconds, "signal": early_signal}.get(option.name)
        if read is None or option.value == "=":
            continue
        try:
            read(option.value)
        except ValueError as error:
            yield option.line, {"error": error, "name": option.name}


def _no_count(script: Script) -> Found:
    for option in script.directives:
        plain = r"\d+(-\d+)?" if option.name == "nodes" else r"\d+"
        if option.name in COUNTS and option.value != "=" and not re.fullmatch(plain, option.value):
            yield option.line, {"name": option.name, "value": option.value}


def _twice(script: Script) -> Found:
    seen: dict[str, int] = {}
    for option in script.directives:
        if option.name in seen and option.name in KNOWN:
            yield option.line, {"name": option.name, "first": seen[option.name]}
        seen[option.name] = option.line


# --- number: one process for each GPU, all of them started, and each with its cores ----------------------------------


def _programs(script: Script) -> list[tuple[Command, Sequence[str]]]:
    """The commands that start training, with their words: those of srun, and those that lack it."""
    steps = {step.command: step.program for step in script.steps}
    every = [(command, steps.get(command) or _started(command)) for command in script.commands]
    return [(command, words) for command, words in every if words]


def _started(command: Command) -> Sequence[str]:
    """The program and its arguments, behind assignments and the likes of ``time``; empty: it is none that trains."""
    words = command.words[command.words.index(command.program) :] if command.program else ()
    while words and PurePath(words[0]).name in PREFIXES:
        words = words[PREFIXES[PurePath(words[0]).name] :]
        while words and re.match(r"-|[A-Za-z_]\w*=|.*\.sif$", words[0]):
            words = words[1:]
    if not words or not PROGRAMS.fullmatch(PurePath(words[0]).name):
        return ()
    return () if len(words) > 1 and words[1] in ("--version", "-V", "-c", "doctor") else words  # these only print


def _launcher(script: Script) -> str | None:
    """The program, such as torchrun, that starts the processes of a node by itself."""
    names = [PurePath(word).name for _, words in _programs(script) for word in words]
    return next((name for name in LAUNCHERS if name in names), None)


def _gpus_per_node(script: Script) -> tuple[int | None, Option | None]:
    """GPUs of each node, and the option that says so; (None, None): the script asks for none."""
    nodes, tasks = script.number("nodes") or 1, script.number("ntasks-per-node")
    for name in ("gpus-per-node", "gres", "gpus", "gpus-per-task"):
        option = script.option(name)
        counts = _counts(option.value, "gpu" if name == "gres" else None) if option else []
        if option is None or (name == "gres" and not counts):
            continue
        number = sum(counts) if counts else None
        if number is not None and name == "gpus":
            number = number // nodes if number % nodes == 0 else None
        if number is not None and name == "gpus-per-task":
            number = number * tasks if tasks else None
        return number, option
    return None, None


def _counts(value: str, kind: str | None) -> list[int]:
    """The numbers in "a100:4,h100:2", or those of one kind in "gpu:a100:4,shard:2"; without a number it is one."""
    entries = [entry.partition("(")[0].split(":") for entry in value.split(",")]
    mine = [entry for entry in entries if kind is None or entry[0] == kind]
    return [int(entry[-1]) if entry[-1].isdecimal() else 1 for entry in mine if entry != [""]]


def _no_tasks_per_node(script: Script) -> Found:
    gpus, _ = _gpus_per_node(script)
    several = (script.number("nodes") or 1) * (gpus or 1) > 1 or (script.number("ntasks") or 1) > 1
    if script.option("ntasks-per-node") is None and several and _launcher(script) is None:
        total = script.option("ntasks")
        yield total.line if total else None, {"number": gpus or "N"}


def _tasks_disagree(script: Script) -> Found:
    total, names = script.option("ntasks"), ("nodes", "ntasks-per-node", "ntasks")
    nodes, each, tasks = (script.number(name) for name in names)
    if total and nodes and each and tasks and nodes * each != tasks:
        made = count(nodes * each, "process")
        yield total.line, {"nodes": count(nodes, "node"), "each": each, "made": made, "tasks": tasks}


def _launched_twice(script: Script) -> Found:
    launcher, option, tasks = _launcher(script), script.option("ntasks-per-node"), script.number("ntasks-per-node")
    if launcher and option and tasks and tasks > 1:
        yield option.line, {"launcher": launcher, "tasks": tasks}


def _tasks_are_not_gpus(script: Script) -> Found:
    tasks, option = script.number("ntasks-per-node"), script.option("ntasks-per-node")
    gpus, asking = _gpus_per_node(script)
    if _launcher(script) or not (tasks and option and gpus and asking):
        return
    if asking.name == "gpus-per-task" or gpus == tasks:
        return
    idle = "some have no GPU of their own" if tasks > gpus else "the other GPUs idle"
    values = {"gpus": count(gpus, "GPU"), "tasks": count(tasks, "process"), "idle": idle, "number": gpus}
    yield option.line, {**values, "other": count(tasks, "GPU"), "line": asking.line}


def _devices_disagree(script: Script) -> Found:
    tasks, option = script.number("ntasks-per-node"), script.option("ntasks-per-node")
    gpus, _ = _gpus_per_node(script)
    if _launcher(script) or not tasks or not option:
        return
    for command, words in _programs(script):
        given = command_option(words, "--devices", "--trainer.devices", "--gpus")
        # Where it is the number of GPUs, the directive is wrong, and the rule above says so.
        if given is not None and given.isdecimal() and int(given) not in (tasks, gpus):
            values = {"given": count(int(given), "process"), "tasks": tasks, "line": option.line}
            yield command.line, {**values, "gpus": f", {gpus}" if gpus else ""}


def _nodes_disagree(script: Script) -> Found:
    nodes = script.number("nodes") or 1
    for command, words in _programs(script):
        others = ("--num_nodes", "--num-nodes", "--trainer.num_nodes", "--nnodes")
        given = command_option(words, *(("--nodes",) if is_training(words) else others))
        if given is not None and given.isdecimal() and int(given) != nodes:
            yield command.line, {"given": count(int(given), "node"), "nodes": nodes}


def _background(script: Script) -> Found:
    if any(command.program == "wait" for command in script.commands):
        return
    for step in script.steps:
        if re.search(r"(?<!&)&\s*$", step.command.text):
            yield step.command.last, {}


def _gpus_per_task(script: Script) -> Found:
    number, option = _gpus_per_node(script)
    if option is not None and option.name == "gpus-per-task":
        yield option.line, {"number": number or "N"}


def _no_gpus(script: Script) -> Found:
    for command, words in _programs(script) if _gpus_per_node(script)[1] is None else ():
        device = command_option(words, "--device", "--accelerator", "--trainer.accelerator") or ""
        if device.startswith(("cuda", "gpu")) or "--nv" in words:
            yield command.line, {}


def _cores(script: Script) -> Found:
    option = script.option("cpus-per-task")
    if option is None or option.value == "1" or script.exported("SRUN_CPUS_PER_TASK"):
        return
    for step in script.steps:
        if step.option("cpus-per-task") is None:
            yield step.command.line, {"cores": option.value}


# --- meeting: an address and a port that all processes know and no other job uses ------------------------------------


def _port_where(wrong: Callable[[str], Any]) -> Callable[[Script], Found]:
    """Scripts whose MASTER_PORT is so."""

    def find(script: Script) -> Found:
        exported = script.exported("MASTER_PORT")
        return [(exported[1], {"port": exported[0]})] if exported and wrong(exported[0]) else []

    return find


def _highest(port: str) -> int:
    """What 20000 + SLURM_JOB_ID % 10000 may come to."""
    sums = re.search(r"(\d+)\s*\+\s*\(?\s*\$?\{?SLURM_JOB_?ID\}?\s*%\s*(\d+)", port)
    return int(sums[1]) + int(sums[2]) - 1 if sums else 0


def _local_address(script: Script) -> Found:
    exported, nodes = script.exported("MASTER_ADDR"), script.number("nodes") or 1
    if exported is not None and nodes > 1 and exported[0] in ("localhost", "127.0.0.1", "::1"):
        yield exported[1], {"address": exported[0], "nodes": nodes}


def _not_exported(script: Script) -> Found:
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        exported = script.exported(name)
        if exported is not None and not exported[2]:
            yield exported[1], {"name": name}


# --- survival: a job that is warned in time, saves, goes back to the queue and continues -----------------------------


def _gives_up(script: Script) -> bool:
    last = script.option("requeue", "no-requeue")
    return last is not None and last.name == "no-requeue"


def _signals(script: Script) -> Iterator[tuple[int, int, int, dict[str, Any]]]:
    """(line, seconds before the limit, limit, values) of a signal; none where they can't be read."""
    option, limit = script.option("signal"), script.option("time")
    if option is None or limit is None:
        return
    try:
        early, total = early_signal(option.value).seconds, seconds(limit.value)
    except ValueError:  # the rules of form say so
        return
    hint = ""
    if limit.value.count(":") == 1 and "-" not in limit.value:
        hours = seconds(f"{limit.value}:00")
        hint = f"; if you meant {duration(hours)}, write --time={clock(hours)}"
    shorter = min(90, total - 2 * SIGNAL_SLACK)
    fewer = f", or the signal fewer seconds (@{shorter})" if 0 < shorter < early else ""
    reads = f"--time={limit.value} (line {limit.line}) is {duration(total)}"
    values = {"early": duration(early), "reads": reads, "slack": SIGNAL_SLACK}
    values["fix"] = f"give the job more time than {duration(early + SIGNAL_SLACK)}{fewer}{hint}"
    yield option.line, early, total, values


def _signal_to_shell(script: Script) -> Found:
    for option, early in _early_signals(script):
        if early.batch and not any(command.program == "trap" for command in script.commands):
            yield option.line, {"name": early.name, "seconds": early.seconds}


def _early_signals(script: Script) -> Iterator[tuple[Option, EarlySignal]]:
    option = script.option("signal")
    try:
        if option is not None:
            yield option, early_signal(option.value)
    except ValueError:  # the rules of form say so
        return


def _unknown_signal(script: Script) -> Found:
    for command, words in _programs(script) if script.option("signal") else ():
        try:
            signal_name(command_option(words, "--requeue-signal") or "SIGUSR1")
        except ValueError as error:
            yield command.line, {"error": error}


def _other_signal(script: Script) -> Found:
    for option, early in _early_signals(script):
        for _, words in _programs(script):
            if not is_training(words):
                continue
            try:
                expected = signal_name(command_option(words, "--requeue-signal") or "SIGUSR1")
            except ValueError:  # the rule above says so
                continue
            if expected != early.name:
                yield option.line, {"name": early.name, "expected": expected, "seconds": early.seconds}


def _log_overwritten(script: Script) -> Found:
    mode = script.option("open-mode")
    if script.option("requeue") and not _gives_up(script) and not (mode and mode.value == "append"):
        yield mode.line if mode else None, {"write": "write --open-mode" if mode else "add #SBATCH --open-mode"}


def _bad_exit(script: Script) -> Found:
    several = (script.number("nodes") or 1) * (script.number("ntasks-per-node") or script.number("ntasks") or 1) > 1
    from_environment = script.exported("SLURM_KILL_BAD_EXIT")
    if not several or (from_environment is not None and from_environment[0] == "1"):
        return
    for step in script.steps:
        given = step.option("kill-on-bad-exit")
        if given is None or given.value == "0":
            yield step.command.line, {}


def _trainings(script: Script) -> list[tuple[Command, Sequence[str]]]:
    return [] if _gives_up(script) else [pair for pair in _programs(script) if is_training(pair[1])]


def _no_resume(script: Script) -> Found:
    for command, words in _trainings(script):
        if command_option(words, "--checkpoint") is not None and "--resume" not in words:
            yield command.line, {}


# --- the table -------------------------------------------------------------------------------------------------------

E, W = "error", "warning"
# fmt: off
RULES: tuple[Rule, ...] = (
    # Form
    Rule("shebang", E, lambda s: [] if s.lines[0].startswith("#!") else [(1, {})],
         "The first line does not name the shell, and sbatch refuses such a file.",
         "begin the script with #!/bin/bash"),
    Rule("late", E, lambda s: [(number, {}) for number in s.late],
         "This #SBATCH line comes after the first command. sbatch stops reading options there, and skips it "
         "silently.",
         "move it up to the other #SBATCH lines, above every command"),
    Rule("comment", E, _comments,
         "This is an ordinary comment for sbatch: a directive begins with exactly #SBATCH, at the start of the "
         "line, without a space and in capitals.",
         "write #SBATCH {options}"),
    Rule("spaces", E, lambda s: [(o.line, {}) for o in s.directives if "=" in (o.value, o.name)][:1],
         "There are spaces around the equals sign, so that sbatch takes the sign itself for the value.",
         "write it without spaces, as in --nodes=2"),
    Rule("spelling", E, _misspelt,
         "sbatch knows no option --{name}, and refuses the script.",
         "did you mean --{close}?"),
    Rule("value", E, _unreadable,
         "sbatch can't read this: {error}.",
         "write --{name} in that form"),
    Rule("value", E, _no_count,
         "--{name} must be a whole number, but it is {value!r}.",
         "write --{name}=2, with your number; variables are not filled in on #SBATCH lines"),
    Rule("variable", E, lambda s: [(o.line, vars(o)) for o in s.directives if "$" in o.value and o.name not in COUNTS],
         "A #SBATCH line is a comment for bash: its variables are not filled in, so that sbatch sees {value!r} "
         "letter by letter.",
         "write the value itself, or one of sbatch's own marks such as %j for the job's number"),
    Rule("twice", W, _twice,
         "--{name} is on line {first} already; only the last one counts.",
         "keep one of the two"),
    Rule("carriage", E, lambda s: [(at, {}) for at, line in enumerate(s.lines, 1) if line.endswith("\r")][:1],
         "The line ends as on Windows (CR LF), which sbatch refuses.",
         "save the file with Unix line ends, or run `dos2unix` on it"),
    # Number
    Rule("tasks", E, _no_tasks_per_node,
         "The script does not say how many processes each node gets. Lightning needs --ntasks-per-node, and "
         "refuses --ntasks alone; without either, SLURM starts one process per node, and the other GPUs idle.",
         "write #SBATCH --ntasks-per-node={number}, one process for each device of a node"),
    Rule("tasks", E, _tasks_disagree,
         "{nodes} with {each} each make {made}, but --ntasks is {tasks}.",
         "leave --ntasks out: it follows from the two others"),
    Rule("devices", E, _launched_twice,
         "{launcher} starts the processes of its node itself, and srun would start {tasks} of it: {tasks} times "
         "too many processes.",
         "write --ntasks-per-node=1 with {launcher}, or start the program by srun alone"),
    Rule("devices", E, _tasks_are_not_gpus,
         "Each node has {gpus} but starts {tasks}: {idle}. Training runs one process for each GPU.",
         "write --ntasks-per-node={number}, or ask for {other} per node (line {line})"),
    Rule("devices", E, _devices_disagree,
         "The command expects {given} on each node (--devices), but SLURM starts {tasks} (line {line}). They would"
         " wait for each other for ever, or refuse to start.",
         "make --ntasks-per-node and --devices the same number{gpus}"),
    Rule("nodes", E, _nodes_disagree,
         "The command expects {given}, but the job has {nodes}. It would wait for processes that never come, or "
         "refuse to start.",
         "make it the same number as #SBATCH --nodes"),
    Rule("srun", E, lambda s: [(c.line, {"word": c.words[0]}) for c, _ in _programs(s) if c.program != "srun"],
         "Without srun this runs once, on the first node only: the other processes never start, and the first one "
         "waits for them.",
         "put srun in front: srun {word} …"),
    Rule("background", E, _background,
         "srun is sent to the background (&) and nothing waits for it: the script ends at once, and the job with "
         "it.",
         "leave the & out, or add a line `wait` at the end"),
    Rule("gpus", E, _gpus_per_task,
         "--gpus-per-task shows each process one GPU only, under the number 0. Lightning and DDP look for the GPU "
         "of their local rank, and do not find it.",
         "write --gpus-per-node={number} instead"),
    Rule("gpus", E, _no_gpus,
         "The command wants GPUs, but the job asks for none: SLURM hides them from it.",
         "add #SBATCH --gpus-per-node=N"),
    Rule("cores", W, _cores,
         "The job has {cores} cores for each process, but since SLURM 22.05 srun does not take that over from "
         "sbatch: each process may be bound to a single core.",
         'write srun --cpus-per-task="$SLURM_CPUS_PER_TASK" …'),
    # Meeting
    Rule("port", E, _port_where(lambda p: p.isdecimal() and not 1024 <= int(p) <= LAST_PORT),
         "There is no port {port} for users: they go from 1024 to 65535.",
         GOOD_PORT),
    Rule("port", W, _port_where(lambda p: p.isdecimal() and 1024 <= int(p) <= LAST_PORT),
         "The port is always {port}. Two jobs that share a node would both want it, and the second one fails with "
         "`Address already in use`.",
         f"derive it from the job's number, which no other job has: {GOOD_PORT}"),
    Rule("port", E, _port_where(lambda p: "SLURM_JOB" in p and not re.search(r"%|:\s*-\d|tail\s+-c", p)),
         "The port grows with the job's number. On a cluster that has run many jobs it is above 65535, the last "
         "port there is.",
         f'take the remainder of a division: {GOOD_PORT}'),
    Rule("port", E, _port_where(lambda p: _highest(p) > LAST_PORT),
         "The port {port} may come to a number above 65535, the last port there is.",
         GOOD_PORT),
    Rule("address", E, _local_address,
         "MASTER_ADDR is {address}, which on each of the {nodes} nodes means that node itself: the processes of "
         "different nodes never meet.",
         'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'),
    Rule("export", E, _not_exported,
         "{name} is set but not exported: the script knows it, the processes that srun starts do not.",
         "write export {name}=…"),
    # Survival: --signal, --requeue, checkpoints
    Rule("signal", W, lambda s: [] if s.option("signal") or _gives_up(s) else [(None, {})],
         "No signal is requested. At the time limit SLURM ends the job with little or no time to save, and all "
         "since the last checkpoint is lost.",
         "add #SBATCH --signal=SIGUSR1@90: the processes get it 90 s before the limit"),
    Rule("time", W, lambda s: [(o.line, {}) for o in [s.option("signal")] if o and not s.option("time")],
         "The signal comes before the time limit, but the script sets no limit: that of the partition applies, "
         "which may be minutes or weeks.",
         "add #SBATCH --time=HH:MM:SS"),
    Rule("signal", E, lambda s: [(at, v) for at, early, total, v in _signals(s) if 0 < total <= early],
         "The signal is due {early} before the limit, but {reads}: it would come as the job starts, which then "
         "requeues itself without having trained.",
         "{fix}"),
    Rule("signal", E, lambda s: [(at, v) for at, early, total, v in _signals(s) if 0 < total - early < SIGNAL_SLACK],
         "The signal is due {early} before the limit, and SLURM may send it up to {slack} s earlier, but {reads}: "
         "next to nothing is left to train in.",
         "{fix}"),
    Rule("signal", E, _signal_to_shell,
         "B: sends the signal to the shell of the script only. It does not pass it on, so that the training never "
         "receives it.",
         "leave out B:, as in --signal={name}@{seconds}"),
    Rule("signal", E, _unknown_signal,
         "{error}.",
         "write --requeue-signal SIGUSR1"),
    Rule("signal", E, _other_signal,
         "SLURM sends {name}, but the command waits for {expected} (--requeue-signal). A signal that a process "
         "does not handle ends it.",
         "write --signal={expected}@{seconds}, or --requeue-signal {name} in the command"),
    Rule("requeue", W, lambda s: [] if s.option("requeue", "no-requeue") else [(None, {})],
         "The script does not say whether the job may go back to the queue. On clusters where it may not by "
         "default, `scontrol requeue` is refused, and a job that hits its limit, or loses a node, is over.",
         "add #SBATCH --requeue (or --no-requeue, if that is what you want)"),
    Rule("append", W, _log_overwritten,
         "A requeued job opens its log again, and may overwrite what its first run has written.",
         "{write}=append"),
    Rule("kill", W, _bad_exit,
         "Where one process dies, the others wait for it, and the job goes on costing money until its limit.",
         "write srun --kill-on-bad-exit=1 …"),
    Rule("resume", E, lambda s: [(c.line, {}) for c, w in _trainings(s) if command_option(w, "--checkpoint") is None],
         "The command writes no checkpoint: there is nothing that the requeued job could continue from.",
         "add --checkpoint FILE --resume"),
    Rule("resume", E, _no_resume,
         "The command does not resume: the requeued job would start from scratch, and be stopped at the same "
         "point, for ever.",
         "add --resume; the first run, which finds no checkpoint, begins from the start"),
)
# fmt: on
