"""Find the mistakes in a batch script for training before the cluster does, hours later.

Each rule is a row of ``RULES``. To add one, add a row: id, function, message and fix. The function gives what breaks
the rule in a script: anything with a ``line`` (None: of no line), whose attributes fill the braces of the texts. It is
a part of the script, or a ``Place`` where the texts need more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from types import SimpleNamespace as Place
from typing import Any, NamedTuple

from snnkit.tables import count_of
from snnkit.train.slurm.syntax import (
    REQUEUE_SIGNAL,
    SIGNALS,
    Option,
    Script,
    Step,
    array,
    clock,
    early_signal,
    parse,
    seconds,
)

# Ports below those that Linux hands out by itself (32768 on), and other ones for jobs that share a node.
PORT = "$((20000 + SLURM_JOB_ID % 10000))"
ADDRESS = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
LAST_PORT = 65535
MOST_TASKS = 1000  # highest index of a job array where the administrator has not set MaxArraySize, which is 1001
SIGNAL_SLACK = 60  # seconds by which SLURM may send a signal too early, says `man sbatch`
LEAST_MEGABYTES = {"mem": 500, "mem-per-cpu": 100, "mem-per-gpu": 100}
ONE_NODE = re.compile(r"/tmp\b|/var/tmp\b|/dev/shm\b|\$\{?(?:SLURM_)?TMPDIR\b")
NEW_EACH_TIME = re.compile(r"(?:\$\(|`)\s*(?:date|mktemp|uuidgen)|\$\{?(?:RANDOM|SECONDS)\b|\$\$")
OWN_NODE = re.compile(r"MASTER_ADDR=[\"']?(?:(?:\$\(|`)hostname|\$\{?(?:HOSTNAME|SLURMD_NODENAME)\b|localhost|127\.)")
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


@dataclass(frozen=True)
class Problem:
    """One mistake in a script."""

    line: int | None  #: its number, from 1 on; None: something is missing that is on no line
    what: str  #: what is wrong, and what would happen
    fix: str  #: what to write instead
    rule: str  #: id of the rule that was broken, such as "port"

    def __str__(self) -> str:
        where = "script" if self.line is None else f"line {self.line}"
        return f"{where}: {self.what} Fix: {self.fix}"


class Rule(NamedTuple):
    """A row of the table: ``find`` gives what is wrong, which fills ``message`` and ``fix``."""

    id: str
    find: Callable[[Script], Iterable[Any]]
    message: str
    fix: str
    unless: str = ""  #: form of a line (a regular expression) with which nothing is wrong


def check(text: str) -> list[Problem]:
    """The problems of a batch script that trains on several processes, from the first line to the last.

    It looks for what goes wrong silently or late: directives that sbatch skips, a number of processes that doesn't
    match the GPUs or the command, processes that can't meet, and a job that can't survive its time limit. An empty list
    means that there is none of these, not that the cluster has such a partition. TypeError if it is no text.
    """
    script = parse(text)
    problems = [
        Problem(wrong.line, rule.message.format(wrong), rule.fix.format(wrong), rule.id)
        for rule in RULES
        if not (rule.unless and any(re.search(rule.unless, line) for line in script.lines))
        for wrong in rule.find(script)
    ]
    return sorted(problems, key=lambda problem: (problem.line is None, problem.line or 0))


# --- form ------------------------------------------------------------------------------------------------------------


def _line(form: str) -> Callable[[Script], list[Place]]:
    """The first line of this form; its named groups are the attributes."""

    def find(script: Script) -> list[Place]:
        matches = ((number, re.search(form, line)) for number, line in enumerate(script.lines, 1))
        return [Place(line=number, **match.groupdict()) for number, match in matches if match][:1]

    return find


def _misspelt(script: Script) -> Iterable[Place]:
    for option in script.directives:
        known = any(name.startswith(option.name) for name in KNOWN)  # sbatch takes abbreviations
        if known or not re.fullmatch(r"[a-z][a-z-]+", option.name):
            continue
        if close := get_close_matches(option.name, KNOWN, 1, 0.8):
            yield Place(line=option.line, name=option.name, close=close[0])


def _whole_number(text: str) -> None:
    if not re.fullmatch(r"\d+(-\d+)?", text):
        raise ValueError(f"it must be a whole number, but it is {text!r}")


_READ: dict[str, Callable[[str], Any]] = {
    "time": seconds,
    "signal": early_signal,
    "array": array,
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node", "cpus-per-task"), _whole_number),
}


def _unreadable(script: Script) -> Iterable[Place]:
    for option in script.directives:
        if option.name in _READ and option.value != "=":
            try:
                _READ[option.name](option.value)
            except ValueError as error:
                yield Place(line=option.line, error=error, name=option.name)


def _twice(script: Script) -> Iterable[Place]:
    seen: dict[str, int] = {}
    for option in script.directives:
        if option.name in seen and option.name in KNOWN:
            yield Place(line=option.line, name=option.name, first=seen[option.name])
        seen[option.name] = option.line


# --- the number of processes, and their devices ----------------------------------------------------------------------


def _gpus_per_node(script: Script) -> tuple[int | None, Option | None]:
    """GPUs of each node, and the option that says so; (None, None): the script asks for none."""
    tasks = script.number("ntasks-per-node")
    for name in ("gpus-per-node", "gres", "gpus", "gpus-per-task"):
        option = script.option(name)
        # "4", "a100:4,h100:2", or of gres "gpu:a100:4,shard:2"; without a number it is one.
        kinds = option.value.split(",") if option else []
        numbers = [kind.split(":")[-1] for kind in kinds if name != "gres" or kind.startswith("gpu")]
        total = sum(int(number) if number.isdecimal() else 1 for number in numbers)
        if name == "gpus" and numbers:
            return (None if total % script.nodes else total // script.nodes), option
        if name == "gpus-per-task" and numbers:
            return (total * tasks if tasks else None), option
        if numbers:
            return total, option
    return None, None


def _no_tasks_per_node(script: Script) -> Iterable[Place]:
    gpus, _ = _gpus_per_node(script)
    several = script.nodes * (gpus or 1) > 1 or (script.number("ntasks") or 1) > 1
    whole = script.whole or not script.programs
    if script.option("ntasks-per-node") is None and several and whole and script.launcher is None:
        total = script.option("ntasks")
        yield Place(line=total.line if total else None, number=gpus or "N")


def _tasks_disagree(script: Script) -> Iterable[Place]:
    total, tasks = script.option("ntasks"), script.number("ntasks")
    if total and tasks and script.number("nodes") and script.number("ntasks-per-node") and script.processes != tasks:
        yield Place(line=total.line, made=count_of(script.processes, "process"), tasks=tasks)


def _devices(script: Script) -> Iterable[Place]:
    """The number of processes on a node, beside its GPUs and what the command expects."""
    tasks, option = script.number("ntasks-per-node"), script.option("ntasks-per-node")
    gpus, asking = _gpus_per_node(script)
    if not tasks or not option:
        return

    def place(line: int, what: str, number: int | str, where: str = "") -> Place:
        started = f"SLURM starts {count_of(tasks, 'process')} on each node"
        return Place(line=line, what=f"{what}, but {started}{where}", number=number)

    if starter := script.launcher:
        if tasks > 1:
            yield place(option.line, f"{starter} starts the processes of its node itself", 1)
        return
    if gpus and asking and asking.name != "gpus-per-task" and gpus != tasks:
        what = f"Each node has {count_of(gpus, 'GPU')}, for one process each"
        yield place(option.line, what, gpus, f" (GPUs: line {asking.line})")
    for step in script.whole:
        given = step.value("--devices", "--trainer.devices", "--gpus")
        # Where it is the number of GPUs, the directive is wrong, as said above.
        if given is not None and given.isdecimal() and int(given) not in (tasks, gpus):
            what = f"The command expects {count_of(int(given), 'process')} on each node"
            yield place(step.line, what, gpus or given, f" (line {option.line})")


def _nodes_disagree(script: Script) -> Iterable[Place]:
    for step in script.whole:
        others = ("--num_nodes", "--num-nodes", "--trainer.num_nodes", "--nnodes")
        given = step.value(*(("--nodes",) if step in script.trainings else others))
        if given is not None and given.isdecimal() and int(given) != script.nodes:
            yield Place(line=step.line, given=count_of(int(given), "node"), nodes=script.nodes)


def _no_srun(script: Script) -> list[Step]:
    """Programs run without srun. Where another one is run by it, they prepare something or look at what came out."""
    return [] if any(step.command.program == "srun" for step in script.programs) else script.programs


def _background(script: Script) -> list[Place]:
    if any(command.program == "wait" for command in script.commands):
        return []
    return [Place(line=step.command.last) for step in script.steps if re.search(r"(?<!&)&\s*$", step.command.text)]


def _no_gpus(script: Script) -> Iterable[Step]:
    for step in script.programs if _gpus_per_node(script)[1] is None else ():
        device = step.value("--device", "--accelerator", "--trainer.accelerator") or ""
        if device.startswith(("cuda", "gpu")) or "--nv" in step.program:
            yield step


def _hidden_gpus(script: Script) -> Iterable[Place]:
    form = r"\bCUDA_VISIBLE_DEVICES=[\"']?(-1|[\d,]*)[\"']?(?:[\s;]|$)"
    whole = [step.command for step in script.steps if not step.partial]
    settings = [(c, match) for c in script.commands if (match := re.search(form, c.text))]
    for command, match in settings if len(settings) == 1 else ():  # several are for steps of their own
        number, gpus = len(re.findall(r"\b(?<!-)\d+", match[1])), _gpus_per_node(script)[0] or 0
        if number < gpus and (command.program == "export" or command in whole):
            yield Place(line=command.line, number=count_of(number, "GPU"), gpus=gpus)


def _lacking(script: Script, option: str, variable: str) -> Iterable[Step]:
    """What srun trains without an option, and without the variable in its place."""
    for step in script.steps if not script.variables(variable) else ():
        if step.trains and not any(one.name == option and one.value != "0" for one in step.options):
            yield step


# --- how the processes meet ------------------------------------------------------------------------------------------


def _expanded(text: str) -> str:
    """A command without what bash passes on as it is: in single quotes, or behind a backslash."""
    quoted = r"""("(?:[^"\\]|\\.)*")|'[^']*'|\\."""
    return re.sub(quoted, lambda match: re.sub(r"\\.", "", match[1] or ""), text)


def _expanded_too_early(script: Script) -> Iterable[Place]:
    forms = {"srun": "", **dict.fromkeys(("", "export", "declare", "typeset"), r"\b\w+=\S*")}
    for command in script.commands:
        if command.program in forms:
            form = forms[command.program] + r"\$\{?(SLURM_(?:PROC|LOCAL|NODE)ID)\b"
            if match := re.search(form, _expanded(command.text)):
                yield Place(line=command.line, name=match[1])


def _own_address(script: Script) -> Iterable[Step]:
    for step in script.steps if script.nodes > 1 else ():
        if OWN_NODE.search(step.command.text) and not OWN_NODE.search(_expanded(step.command.text)):
            yield step


def _too_high(port: str) -> bool:
    """Whether 20000 + SLURM_JOB_ID % 10000 may come to more than the last port."""
    sums = re.search(r"(\d+)\s*\+\s*\(?\s*\$?\{?SLURM_JOB_?ID\}?\s*%\s*(\d+)", port)
    if sums:
        return int(sums[1]) + int(sums[2]) - 1 > LAST_PORT
    return "SLURM_JOB" in port and not re.search(r"%|:\s*-\d|tail\s+-c", port)


# --- the signal, and what survives the job ---------------------------------------------------------------------------


def _readable(option: Option | None, read: Callable[[str], Any]) -> Any:
    """The value of an option, as ``read`` has it; None if there is none, or the rule "value" speaks of it."""
    try:
        return None if option is None else read(option.value)
    except ValueError:
        return None


def _early(script: Script) -> list[Place]:
    """The signal before the limit, if there is one."""
    option = script.option("signal")
    early = _readable(option, early_signal)
    return [Place(line=option.line, **early._asdict())] if option and early else []


def _signal_too_early(script: Script) -> Iterable[Place]:
    limit = script.option("time")
    total = _readable(limit, seconds)
    if limit is None or not total:
        return
    for early in _early(script):
        if total - early.seconds < SIGNAL_SLACK:
            minutes = limit.value.count(":") == 1 and "-" not in limit.value
            hours = clock(seconds(f"{limit.value}:00")) if minutes else ""
            hint = f"; if you meant hours, write --time={hours}" if minutes else ""
            more = clock(early.seconds + SIGNAL_SLACK)
            yield Place(line=early.line, seconds=early.seconds, limit=limit, total=total, more=more, hint=hint)


def _signal_ignored(script: Script) -> Iterable[Place]:
    for early in _early(script):
        name = early.name.removeprefix("SIG")
        names = rf"(?:SIG)?{name}|{next(number for number, known in SIGNALS.items() if known == name)}"
        for command in script.commands:
            if re.match(rf"trap\s+(?:''|\"\")\s(?:.*\s)?(?:{names})\b", command.text):
                yield Place(line=command.line, name=early.name)


def _log_overwritten(script: Script) -> Iterable[Place]:
    mode = script.option("open-mode")
    if script.option("requeue") and not script.gives_up and not (mode and mode.value == "append"):
        yield Place(line=mode.line if mode else None)


def _same_checkpoint_at_once(script: Script) -> Iterable[Place]:
    paths = {checkpoint.line: checkpoint.value for checkpoint in script.checkpoints}
    written: set[str] = set()
    for command in script.commands:
        if command.program == "wait":
            written.clear()
        elif path := paths.get(command.line):
            if path in written:
                yield Place(line=command.line, value=path)
            written |= {path} if command.text.endswith("&") else set()


# --- job arrays ------------------------------------------------------------------------------------------------------


def _arrays(script: Script) -> list[Place]:
    """The array of the job, if it is one that sbatch can read."""
    option = script.option("array")
    read = _readable(option, array)
    return [Place(line=option.line, value=option.value, tasks=read[0], last=read[1])] if option and read else []


def _shared_log(script: Script) -> list[Option]:
    """Files that all tasks of an array write: %j is the number of each, %A is that of all."""
    logs = [script.option(name) for name in ("output", "error")] if script.option("array") else []
    return [log for log in logs if log and not re.search(r"%\d*[ajJ]|/dev/null", log.value)]


def _folders(script: Script, form: str) -> list[Option]:
    """The folders of sweeps in an array, of this form."""
    steps = script.sweeps if script.option("array") else []
    folders = [Option("out", step.value("--out") or "", step.line) for step in steps]
    return [folder for folder in folders if re.search(form, folder.value)]


# --- the table -------------------------------------------------------------------------------------------------------

# fmt: off
RULES: tuple[Rule, ...] = (
    # Form
    Rule("shebang", lambda s: [] if s.lines[0].startswith("#!") else [Place(line=1)],
         "The first line does not name the shell, and sbatch refuses such a file.",
         "begin the script with #!/bin/bash"),
    Rule("late", lambda s: [Place(line=number) for number in s.late],
         "This #SBATCH line comes after the first command. sbatch stops reading options there, and skips it silently.",
         "move it up to the other #SBATCH lines, above every command"),
    Rule("comment", _line(r"^(?!#SBATCH)\s*#\s*(?i:SBATCH)\s+(?P<options>-.*\S)"),
         "This is an ordinary comment for sbatch: a directive begins with exactly #SBATCH, at the start of the line, "
         "without a space and in capitals.",
         "write #SBATCH {0.options}"),
    Rule("spaces", lambda s: [o for o in s.directives if "=" in (o.value, o.name)][:1],
         "There are spaces around the equals sign, so that sbatch takes the sign itself for the value.",
         "write it without spaces, as in --nodes=2"),
    Rule("spelling", _misspelt,
         "sbatch knows no option --{0.name}, and refuses the script.",
         "did you mean --{0.close}?"),
    Rule("value", _unreadable,
         "sbatch can't read --{0.name}: {0.error}.",
         "write the value in that form; variables are not filled in on #SBATCH lines"),
    Rule("variable", lambda s: [o for o in s.directives if "$" in o.value and o.name not in _READ],
         "A #SBATCH line is a comment for bash: its variables are not filled in, so that sbatch sees {0.value!r} "
         "letter by letter.",
         "write the value itself, or one of sbatch's own marks such as %j for the job's number"),
    Rule("twice", _twice,
         "--{0.name} is on line {0.first} already; only the last one counts.",
         "remove one of the two"),
    Rule("carriage", _line(r"\r$"),
         "The line ends as on Windows (CR LF), which sbatch refuses.",
         "save the file with Unix line ends, or run `dos2unix` on it"),
    Rule("continuation", _line(r"^\s*[^#\s].*\\[ \t]+\r?$"),
         "There are spaces behind the backslash: the command ends here, and its next line is a command of its own.",
         "remove the spaces at the end of the line"),
    Rule("conda", _line(r"^\s*conda activate\b"),
         "A batch script does not read ~/.bashrc, where `conda activate` is defined: it fails, and Python is another.",
         'put before it: source "$(conda info --base)/etc/profile.d/conda.sh"',
         unless=r"conda\.sh|hook|bashrc|profile|bin/activate|^\s*(?:module|ml)\s|^#!.*\s-\w*l"),
    Rule("memory", lambda s: [o for o in s.directives if o.name in LEAST_MEGABYTES and o.value.isdecimal()
                              and 0 < int(o.value) < LEAST_MEGABYTES[o.name]],
         "Without a unit --{0.name}={0.value} means {0.value} megabytes, too few for PyTorch.",
         "write the unit, as in --{0.name}={0.value}G"),
    # Number: one process for each GPU, all of them started, and each with its cores
    Rule("tasks", _no_tasks_per_node,
         "The script does not say how many processes each node gets. Lightning needs --ntasks-per-node, and refuses "
         "--ntasks alone; without either, SLURM starts one process per node, and the other GPUs idle.",
         "write #SBATCH --ntasks-per-node={0.number}, one process for each device of a node"),
    Rule("tasks", _tasks_disagree,
         "--nodes and --ntasks-per-node make {0.made}, but --ntasks is {0.tasks}.",
         "leave --ntasks out: it follows from the two others"),
    Rule("devices", _devices,
         "{0.what}. Devices would idle, or processes wait for others for ever.",
         "write #SBATCH --ntasks-per-node={0.number}, and the same number in the command"),
    Rule("nodes", _nodes_disagree,
         "The command expects {0.given}, but the job has {0.nodes}. It would wait for processes that never come, or "
         "refuse to start.",
         "make it the same number as #SBATCH --nodes"),
    Rule("srun", lambda s: _no_srun(s) if s.processes > 1 else [],
         "Without srun this runs once, on the first node only: the other processes never start, and the first one "
         "waits for them.",
         "put srun in front: srun {0.command.words[0]} …"),
    Rule("srun", lambda s: _no_srun(s) if s.processes == 1 and s.option("signal") else [],
         "SLURM sends the signal to what srun starts, and to nothing else: this is not warned before the limit.",
         "put srun in front: srun {0.command.words[0]} …", unless=r"B:|^\s*trap\s"),
    Rule("background", _background,
         "srun is sent to the background (&) and nothing waits for it: the script ends at once, and the job with it.",
         "leave the & out, or add a line `wait` at the end"),
    Rule("gpus", lambda s: [o for o in s.directives if o.name == "gpus-per-task"],
         "--gpus-per-task shows each process one GPU only, under the number 0. Lightning and DDP look for the GPU of "
         "their local rank, and do not find it.",
         "write --gpus-per-node=N instead"),
    Rule("gpus", _no_gpus,
         "The command wants GPUs, but the job asks for none: SLURM hides them from it.",
         "add #SBATCH --gpus-per-node=N"),
    Rule("gpus", _hidden_gpus,
         "CUDA_VISIBLE_DEVICES shows {0.number} to every process, but each node has {0.gpus}: the others idle, and "
         "processes do not find theirs.",
         "remove the line: SLURM sets the variable itself"),
    Rule("rank", _expanded_too_early,
         "bash fills in ${0.name} here, before srun starts the processes: all get the one of the script, which is 0.",
         "let each process do it, in single quotes: srun bash -c 'RANK=${0.name} exec python …'",
         unless=r"\bexport -f\b"),
    Rule("cores", lambda s: [step for step in _lacking(s, "cpus-per-task", "SRUN_CPUS_PER_TASK")
                             if (s.number("cpus-per-task") or 1) > 1],
         "Since SLURM 22.05 srun does not take the number of cores over from sbatch: each process may be bound to a "
         "single core.",
         'write srun --cpus-per-task="$SLURM_CPUS_PER_TASK" …'),
    # Meeting: an address and a port that all processes know and no other job uses
    Rule("port", lambda s: [v for v in s.variables("MASTER_PORT") if v.value.isdecimal()],
         "The port is always {0.value}. Two jobs that share a node would both want it, and the second one fails with "
         "`Address already in use`.",
         f"derive it from the job's number, which no other job has: export MASTER_PORT={PORT}"),
    Rule("port", lambda s: [v for v in s.variables("MASTER_PORT") if _too_high(v.value)],
         "The port {0.value} may come to a number above 65535, the last port there is.",
         f"take the remainder of a division: export MASTER_PORT={PORT}"),
    Rule("address", lambda s: [v for v in s.variables("MASTER_ADDR") if s.nodes > 1
                               and v.value in ("localhost", "127.0.0.1", "::1")],
         "MASTER_ADDR is {0.value}, which on each node means that node itself: the processes of different nodes never "
         "meet.",
         f"export MASTER_ADDR={ADDRESS}"),
    Rule("address", _own_address,
         "Inside of srun each process sets MASTER_ADDR to its own node: those of different nodes never meet.",
         f"before srun: export MASTER_ADDR={ADDRESS}"),
    Rule("export", lambda s: [o for o in s.directives if o.name == "export" and o.value in ("NONE", "NIL")],
         "--{0.name}={0.value} holds for srun, too: its processes get no variable of this script, not even PATH.",
         "add a line `unset SLURM_EXPORT_ENV`, or write srun --export=ALL …",
         unless="--export=ALL|SLURM_EXPORT_ENV"),
    Rule("export", lambda s: [v for v in s.variables("MASTER_ADDR", "MASTER_PORT") if not v.visible],
         "{0.name} is set but not exported: the script knows it, the processes that srun starts do not.",
         "write export {0.name}=…"),
    # Survival: a job that is warned in time, saves, goes back to the queue and continues
    Rule("signal", lambda s: [] if s.option("signal") or s.gives_up else [Place(line=None)],
         "No signal is requested. At the time limit SLURM ends the job with little or no time to save, and all since "
         "the last checkpoint is lost.",
         "add #SBATCH --signal=SIGUSR1@90: the processes get it 90 s before the limit"),
    Rule("time", lambda s: [] if s.option("time") or not s.option("signal") else [s.option("signal")],
         "The signal comes before the time limit, but the script sets no limit: that of the partition applies, which "
         "may be minutes or weeks.",
         "add #SBATCH --time=HH:MM:SS"),
    Rule("signal", _signal_too_early,
         f"The signal is due {{0.seconds}} s before the limit, and SLURM may send it up to {SIGNAL_SLACK} s earlier, "
         f"but --time={{0.limit.value}} (line {{0.limit.line}}) is {{0.total}} s: it may come as the job starts, which "
         f"then requeues itself without having trained.",
         "give the job more time than {0.more}, or the signal fewer seconds{0.hint}"),
    Rule("signal", lambda s: [o for o in s.directives if o.name == "signal" and re.match("R?B", o.value)],
         "B: sends the signal to the shell of the script only. It does not pass it on, so that the training never "
         "receives it.",
         "leave out B:, as in --signal=SIGUSR1@90", unless=r"^\s*trap\s"),
    Rule("signal", _signal_ignored,
         "The shell ignores {0.name} from here on, and what it starts without srun inherits that; with B: in --signal "
         "nothing else would get it.",
         "remove the line: the processes of srun get the signal themselves"),
    Rule("signal", lambda s: [early for early in _early(s) if early.name != REQUEUE_SIGNAL and s.snnkit],
         "SLURM sends {0.name}, but snnkit waits for SIGUSR1. A signal that a process does not handle ends it.",
         "write --signal=SIGUSR1@{0.seconds}"),
    Rule("requeue", lambda s: [] if s.option("requeue", "no-requeue") else [Place(line=None)],
         "The script does not say whether the job may go back to the queue. On clusters where it may not by default, "
         "`scontrol requeue` is refused, and a job that hits its limit, or loses a node, is over.",
         "add #SBATCH --requeue (or --no-requeue, if that is what you want)"),
    Rule("requeue", lambda s: [o for o in [s.option("signal")] if o and s.gives_up and s.snnkit],
         "Upon the signal snnkit requeues its job, which SLURM refuses after --no-requeue: it ends as failed.",
         "write #SBATCH --requeue, or leave --signal out"),
    Rule("append", _log_overwritten,
         "A requeued job opens its log again, and may overwrite what its first run has written.",
         "write #SBATCH --open-mode=append"),
    Rule("kill", lambda s: [step for step in _lacking(s, "kill-on-bad-exit", "SLURM_KILL_BAD_EXIT")
                            if s.processes > 1 and ("ntasks", "1", step.line) not in step.options],
         "Where one process dies, the others wait for it, and the job goes on costing money until its limit.",
         "write srun --kill-on-bad-exit=1 …"),
    Rule("resume", lambda s: [step for step in s.trainings if not s.gives_up and step.value("--checkpoint") is None],
         "The command writes no checkpoint: there is nothing that the requeued job could continue from.",
         "add --checkpoint FILE --resume"),
    Rule("resume", lambda s: [step for step in s.trainings if not s.gives_up
                              and step.value("--checkpoint") and "--resume" not in step.program],
         "The command does not resume: the requeued job would start from scratch, and be stopped at the same point, "
         "for ever.",
         "add --resume; the first run, which finds no checkpoint, begins from the start"),
    Rule("resume", lambda s: [c for c in s.checkpoints if NEW_EACH_TIME.search(c.value) and not s.gives_up],
         "{0.value} is another file whenever the script runs: the requeued job does not find what it saved.",
         "name it by $SLURM_JOB_ID, which stays the same"),
    Rule("checkpoint", lambda s: [c for c in s.checkpoints if ONE_NODE.match(c.value)
                                  and (s.nodes > 1 or not s.gives_up)],
         "{0.value} is on the disk of one node: other nodes, also one where a requeued job continues, do not have it.",
         "write to a folder that all nodes share"),
    Rule("checkpoint", lambda s: [c for c in s.checkpoints if s.option("array") and not re.search(r"\$|`", c.value)],
         "All jobs of the array write {0.value}, and resume from what another one saved.",
         "name it by $SLURM_ARRAY_TASK_ID", unless=r"^\s*(?:cd|pushd)\s.*\$"),
    Rule("checkpoint", _same_checkpoint_at_once,
         "A step that runs at the same time writes {0.value} as well: each overwrites what the other saved.",
         "give each a file of its own, or add a line `wait` between them"),
    # Job arrays
    Rule("array", lambda s: [a for a in _arrays(s) if a.tasks == 1],
         "--array={0.value} is a single task, whose index is {0.last}.",
         "write --array=1-{0.last} for as many tasks, or leave it out"),
    Rule("array", lambda s: [a for a in _arrays(s) if a.last > MOST_TASKS],
         f"The highest index is {{0.last}}. Where MaxArraySize has its default, sbatch refuses more than {MOST_TASKS}.",
         "take fewer tasks; where `scontrol show config` shows a larger MaxArraySize, say so in a comment",
         unless=r"^\s*#.*MaxArraySize"),
    Rule("array", _shared_log,
         "All tasks of the array write {0.value}, over and between each other's lines.",
         "name it by %A_%a, the numbers of the array and of the task: --{0.name}=%x-%A_%a.out"),
    Rule("array", lambda s: _folders(s, ONE_NODE.pattern),
         "{0.value} is on the disk of one node: tasks on other nodes do not see it, and each does the whole sweep.",
         "write to a folder that all nodes share"),
    Rule("array", lambda s: _folders(s, rf"SLURM_ARRAY_TASK_ID|SLURM_JOB_?ID|{NEW_EACH_TIME.pattern}"),
         "{0.value} is another folder in each task of the array, and each does the whole sweep.",
         "name one folder for all: tasks that share it divide the runs among them"),
)
# fmt: on
