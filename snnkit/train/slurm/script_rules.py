"""Find the mistakes in a batch script for training before the cluster does, hours later.

Each rule is a row of ``RULES``. To add one, add a row: id, function, message and fix. The function yields the
line (None: of no line) of each place in a script that breaks the rule, with values for the braces of the texts; the
common shapes of such functions (a line of this form, a directive that is missing, ...) come first below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from signal import Signals
from typing import Any, NamedTuple

from snnkit.train.slurm.syntax import (
    KNOWN,
    REQUEUE_SIGNAL,
    SIGNAL_SLACK,
    Option,
    Script,
    Step,
    checkpoints,
    clock,
    command_option,
    count,
    early_signal,
    expanded,
    is_training,
    launcher,
    parse,
    programs,
    seconds,
)

Places = Iterable[tuple[int | None, dict[str, Any]]]

# Ports below those that Linux hands out by itself (32768 on), and other ones for jobs that share a node.
PORT = "$((20000 + SLURM_JOB_ID % 10000))"
ADDRESS = '$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)'
LAST_PORT = 65535
LEAST_MEGABYTES = {"mem": 500, "mem-per-cpu": 100, "mem-per-gpu": 100}
ONE_NODE = re.compile(r"/tmp\b|/var/tmp\b|/dev/shm\b|\$\{?(?:SLURM_)?TMPDIR\b")
NEW_EACH_TIME = re.compile(r"(?:\$\(|`)\s*(?:date|mktemp|uuidgen)|\$\{?(?:RANDOM|SECONDS)\b|\$\$")
OWN_NODE = r"MASTER_ADDR=[\"']?(?:(?:\$\(|`)hostname|\$\{?(?:HOSTNAME|SLURMD_NODENAME)\b|localhost|127\.)"


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
    """A row of the table: ``find`` yields (line, values) for each mistake; the values fill ``message`` and ``fix``."""

    id: str
    find: Callable[[Script], Places]
    message: str
    fix: str


def check(text: str) -> list[Problem]:
    """The problems of a batch script that trains on several processes, from the first line to the last.

    It looks for what goes wrong silently or late: directives that sbatch skips, a number of processes that doesn't
    match the GPUs or the command, processes that can't meet, and a job that can't survive its time limit. An empty list
    means that there is none of these, not that the cluster has such a partition. TypeError if it is no text.
    """
    script = parse(text)
    problems = [
        Problem(line, rule.message.format(**values), rule.fix.format(**values), rule.id)
        for rule in RULES
        for line, values in rule.find(script)
    ]
    return sorted(problems, key=lambda problem: (problem.line is None, problem.line or 0))


# --- shapes that several rules have ----------------------------------------------------------------------------------


def _line(form: str) -> Callable[[Script], Places]:
    """The first line of this form; its named groups are the values."""

    def find(script: Script) -> Places:
        matches = ((number, re.search(form, line)) for number, line in enumerate(script.lines, 1))
        return [(number, match.groupdict()) for number, match in matches if match][:1]

    return find


def _directive(wrong: Callable[[Option], Any]) -> Callable[[Script], Places]:
    """Directives of which something is true."""
    return lambda script: [(option.line, option._asdict()) for option in script.directives if wrong(option)]


def _missing(*names: str, unless: Callable[[Script], Any] = lambda script: False) -> Callable[[Script], Places]:
    """None of these directives is there."""
    return lambda script: [] if script.option(*names) or unless(script) else [(None, {})]


def _variable(name: str, wrong: Callable[[str, Script], Any]) -> Callable[[Script], Places]:
    """The environment variable has a value of which something is true."""

    def find(script: Script) -> Places:
        variable = script.variable(name)
        return [(variable.line, {"value": variable.value})] if variable and wrong(variable.value, script) else []

    return find


def _bare_srun(option: str, instead: str, needed: Callable[[Script, Step], Any]) -> Callable[[Script], Places]:
    """An srun that needs an option, and has neither that nor the variable in its place."""

    def find(script: Script) -> Places:
        for step in script.steps if not script.variable(instead) else ():
            given = any(one.name == option and one.value != "0" for one in step.options)
            if step.trains and needed(script, step) and not given:
                yield step.command.line, {}

    return find


def _unless(form: str, find: Callable[[Script], Places]) -> Callable[[Script], Places]:
    """What a function finds, in a script without a line of this form."""
    return lambda script: [] if any(re.search(form, line) for line in script.lines) else find(script)


def _checkpoint(wrong: Callable[[str, Script], Any]) -> Callable[[Script], Places]:
    """The checkpoint of a program is at a path of which something is true."""
    return lambda script: [(c.line, {"path": path}) for c, path in checkpoints(script) if wrong(path, script)]


def _no_srun(needed: Callable[[Script], Any]) -> Callable[[Script], Places]:
    """Programs run without srun. Where another one is run by it, they prepare something or look at what came out."""

    def find(script: Script) -> Places:
        every = programs(script)
        run = any(command.program == "srun" for command, _ in every) or not needed(script)
        return [] if run else [(command.line, {"word": command.words[0]}) for command, _ in every]

    return find


def _training(wrong: Callable[[Sequence[str]], Any]) -> Callable[[Script], Places]:
    """A ``snnkit train`` that may be requeued, of whose words something is true."""

    def find(script: Script) -> Places:
        for command, words in [] if _gives_up(script) else programs(script):
            if is_training(words) and wrong(words):
                yield command.line, {}

    return find


# --- what is in a script ---------------------------------------------------------------------------------------------


def _gpus_per_node(script: Script) -> tuple[int | None, Option | None]:
    """GPUs of each node, and the option that says so; (None, None): the script asks for none."""
    nodes, tasks = script.number("nodes") or 1, script.number("ntasks-per-node")
    for name in ("gpus-per-node", "gres", "gpus", "gpus-per-task"):
        option = script.option(name)
        if option is None:
            continue
        # "4", "a100:4,h100:2", or of gres "gpu:a100:4,shard:2"; without a number it is one.
        kinds = [kind for kind in option.value.split(",") if name != "gres" or kind.startswith("gpu")]
        number = sum(int(kind) if kind.isdecimal() else 1 for kind in (kind.split(":")[-1] for kind in kinds))
        if name == "gpus":
            return (None if number % nodes else number // nodes), option
        if name == "gpus-per-task":
            return (number * tasks if tasks else None), option
        if kinds:
            return number, option
    return None, None


def _gives_up(script: Script) -> bool:
    last = script.option("requeue", "no-requeue")
    return last is not None and last.name == "no-requeue"


def _trains(script: Script) -> bool:
    return any(is_training(words) for _, words in programs(script))


def _readable(option: Option | None, read: Callable[[str], Any]) -> Any:
    """The value of an option, as ``read`` has it; None if there is none, or the rule "value" speaks of it."""
    try:
        return None if option is None else read(option.value)
    except ValueError:
        return None


# --- single rules ----------------------------------------------------------------------------------------------------


def _misspelt(script: Script) -> Places:
    for option in script.directives:
        known = any(name.startswith(option.name) for name in KNOWN)  # sbatch takes abbreviations
        if known or not re.fullmatch(r"[a-z][a-z-]+", option.name):
            continue
        if close := get_close_matches(option.name, KNOWN, 1, 0.8):
            yield option.line, {"name": option.name, "close": close[0]}


def _whole_number(text: str) -> None:
    if not re.fullmatch(r"\d+(-\d+)?", text):
        raise ValueError(f"it must be a whole number, but it is {text!r}")


_READ: dict[str, Callable[[str], Any]] = {
    "time": seconds,
    "signal": early_signal,
    **dict.fromkeys(("nodes", "ntasks", "ntasks-per-node", "cpus-per-task"), _whole_number),
}


def _unreadable(script: Script) -> Places:
    for option in script.directives:
        if option.name in _READ and option.value != "=":
            try:
                _READ[option.name](option.value)
            except ValueError as error:
                yield option.line, {"error": error, "name": option.name}


def _twice(script: Script) -> Places:
    seen: dict[str, int] = {}
    for option in script.directives:
        if option.name in seen and option.name in KNOWN:
            yield option.line, {"name": option.name, "first": seen[option.name]}
        seen[option.name] = option.line


def _no_tasks_per_node(script: Script) -> Places:
    gpus, _ = _gpus_per_node(script)
    several = (script.number("nodes") or 1) * (gpus or 1) > 1 or (script.number("ntasks") or 1) > 1
    whole = programs(script, partial=False) or not programs(script)
    if script.option("ntasks-per-node") is None and several and whole and launcher(script) is None:
        total = script.option("ntasks")
        yield total.line if total else None, {"number": gpus or "N"}


def _tasks_disagree(script: Script) -> Places:
    total, tasks = script.option("ntasks"), script.number("ntasks")
    if total and tasks and script.number("nodes") and script.number("ntasks-per-node") and script.processes != tasks:
        yield total.line, {"made": count(script.processes, "process"), "tasks": tasks}


def _devices(script: Script) -> Places:
    """The number of processes on a node, beside its GPUs and what the command expects."""
    tasks, option = script.number("ntasks-per-node"), script.option("ntasks-per-node")
    gpus, asking = _gpus_per_node(script)
    if not tasks or not option:
        return
    started = f"SLURM starts {count(tasks, 'process')} on each node"
    if starter := launcher(script):
        if tasks > 1:
            what = f"{starter} starts the processes of its node itself"
            yield option.line, {"what": what, "started": started, "number": 1, "where": ""}
        return
    if gpus and asking and asking.name != "gpus-per-task" and gpus != tasks:
        what = f"Each node has {count(gpus, 'GPU')}, for one process each"
        yield option.line, {"what": what, "started": started, "number": gpus, "where": f" (GPUs: line {asking.line})"}
    for command, words in programs(script, partial=False):
        given = command_option(words, "--devices", "--trainer.devices", "--gpus")
        # Where it is the number of GPUs, the directive is wrong, as said above.
        if given is not None and given.isdecimal() and int(given) not in (tasks, gpus):
            what, where = f"The command expects {count(int(given), 'process')} on each node", f" (line {option.line})"
            yield command.line, {"what": what, "started": started, "number": gpus or given, "where": where}


def _nodes_disagree(script: Script) -> Places:
    nodes = script.number("nodes") or 1
    for command, words in programs(script, partial=False):
        others = ("--num_nodes", "--num-nodes", "--trainer.num_nodes", "--nnodes")
        given = command_option(words, *(("--nodes",) if is_training(words) else others))
        if given is not None and given.isdecimal() and int(given) != nodes:
            yield command.line, {"given": count(int(given), "node"), "nodes": nodes}


def _background(script: Script) -> Places:
    if not any(command.program == "wait" for command in script.commands):
        for step in script.steps:
            if re.search(r"(?<!&)&\s*$", step.command.text):
                yield step.command.last, {}


def _no_gpus(script: Script) -> Places:
    for command, words in programs(script) if _gpus_per_node(script)[1] is None else ():
        device = command_option(words, "--device", "--accelerator", "--trainer.accelerator") or ""
        if device.startswith(("cuda", "gpu")) or "--nv" in words:
            yield command.line, {}


def _hidden_gpus(script: Script) -> Places:
    form = r"\bCUDA_VISIBLE_DEVICES=[\"']?(-1|[\d,]*)[\"']?(?:[\s;]|$)"
    whole = [step.command for step in script.steps if not step.partial]
    settings = [(c, match) for c in script.commands if (match := re.search(form, c.text))]
    for command, match in settings if len(settings) == 1 else ():  # several are for steps of their own
        number, gpus = len(re.findall(r"\b(?<!-)\d+", match[1])), _gpus_per_node(script)[0] or 0
        if number < gpus and (command.program == "export" or command in whole):
            yield command.line, {"number": count(number, "GPU"), "gpus": gpus}


def _same_checkpoint_at_once(script: Script) -> Places:
    paths, written = dict(checkpoints(script)), set()
    for command in script.commands:
        if command.program == "wait":
            written.clear()
        elif path := paths.get(command):
            if path in written:
                yield command.line, {"path": path}
            written |= {path} if command.text.endswith("&") else set()


def _own_address(script: Script) -> Places:
    for step in script.steps if (script.number("nodes") or 1) > 1 else ():
        if re.search(OWN_NODE, step.command.text) and not re.search(OWN_NODE, expanded(step.command.text)):
            yield step.command.line, {}


def _expanded_too_early(script: Script) -> Places:
    forms = {"srun": "", **dict.fromkeys(("", "export", "declare", "typeset"), r"\b\w+=\S*")}
    for command in script.commands:
        if command.program in forms:
            form = forms[command.program] + r"\$\{?(SLURM_(?:PROC|LOCAL|NODE)ID)\b"
            if match := re.search(form, expanded(command.text)):
                yield command.line, {"name": match[1]}


def _too_high(port: str, _: Script) -> bool:
    """Whether 20000 + SLURM_JOB_ID % 10000 may come to more than the last port."""
    sums = re.search(r"(\d+)\s*\+\s*\(?\s*\$?\{?SLURM_JOB_?ID\}?\s*%\s*(\d+)", port)
    if sums:
        return int(sums[1]) + int(sums[2]) - 1 > LAST_PORT
    return "SLURM_JOB" in port and not re.search(r"%|:\s*-\d|tail\s+-c", port)


def _not_exported(script: Script) -> Places:
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        variable = script.variable(name)
        if variable is not None and not variable.visible:
            yield variable.line, {"name": name}


def _signal_too_early(script: Script) -> Places:
    option, limit = script.option("signal"), script.option("time")
    early, total = _readable(option, early_signal), _readable(limit, seconds)
    if option is None or limit is None or early is None or not total or total - early.seconds >= SIGNAL_SLACK:
        return
    hint = ""
    if limit.value.count(":") == 1 and "-" not in limit.value:
        hint = f"; if you meant hours, write --time={clock(seconds(f'{limit.value}:00'))}"
    values = {"seconds": early.seconds, "slack": SIGNAL_SLACK, "total": total, "hint": hint}
    yield option.line, {**values, "time": limit.value, "line": limit.line, "more": clock(early.seconds + SIGNAL_SLACK)}


def _signal_ignored(script: Script) -> Places:
    early = _readable(script.option("signal"), early_signal)
    for command in script.commands if early else ():
        names = rf"(?:SIG)?{early.name.removeprefix('SIG')}|{Signals[early.name]:d}"
        if re.match(rf"trap\s+(?:''|\"\")\s(?:.*\s)?(?:{names})\b", command.text):
            yield command.line, early._asdict()


def _other_signal(script: Script) -> Places:
    option = script.option("signal")
    early = _readable(option, early_signal)
    if option and early and early.name != REQUEUE_SIGNAL and _trains(script):
        yield option.line, early._asdict()


def _log_overwritten(script: Script) -> Places:
    mode = script.option("open-mode")
    if script.option("requeue") and not _gives_up(script) and not (mode and mode.value == "append"):
        yield mode.line if mode else None, {}


# --- the table -------------------------------------------------------------------------------------------------------

# fmt: off
RULES: tuple[Rule, ...] = (
    # Form
    Rule("shebang", lambda s: [] if s.lines[0].startswith("#!") else [(1, {})],
         "The first line does not name the shell, and sbatch refuses such a file.",
         "begin the script with #!/bin/bash"),
    Rule("late", lambda s: [(number, {}) for number in s.late],
         "This #SBATCH line comes after the first command. sbatch stops reading options there, and skips it "
         "silently.",
         "move it up to the other #SBATCH lines, above every command"),
    Rule("comment", _line(r"^(?!#SBATCH)\s*#\s*(?i:SBATCH)\s+(?P<options>-.*\S)"),
         "This is an ordinary comment for sbatch: a directive begins with exactly #SBATCH, at the start of the "
         "line, without a space and in capitals.",
         "write #SBATCH {options}"),
    Rule("spaces", lambda s: list(_directive(lambda o: "=" in (o.value, o.name))(s))[:1],
         "There are spaces around the equals sign, so that sbatch takes the sign itself for the value.",
         "write it without spaces, as in --nodes=2"),
    Rule("spelling", _misspelt,
         "sbatch knows no option --{name}, and refuses the script.",
         "did you mean --{close}?"),
    Rule("value", _unreadable,
         "sbatch can't read --{name}: {error}.",
         "write the value in that form; variables are not filled in on #SBATCH lines"),
    Rule("variable", _directive(lambda o: "$" in o.value and o.name not in _READ),
         "A #SBATCH line is a comment for bash: its variables are not filled in, so that sbatch sees {value!r} "
         "letter by letter.",
         "write the value itself, or one of sbatch's own marks such as %j for the job's number"),
    Rule("twice", _twice,
         "--{name} is on line {first} already; only the last one counts.",
         "remove one of the two"),
    Rule("carriage", _line(r"\r$"),
         "The line ends as on Windows (CR LF), which sbatch refuses.",
         "save the file with Unix line ends, or run `dos2unix` on it"),
    Rule("continuation", _line(r"^\s*[^#\s].*\\[ \t]+\r?$"),
         "There are spaces behind the backslash: the command ends here, and its next line is a command of its own.",
         "remove the spaces at the end of the line"),
    Rule("conda", _unless(r"conda\.sh|hook|bashrc|profile|bin/activate|^\s*(?:module|ml)\s|^#!.*\s-\w*l",
                          _line(r"^\s*conda activate\b")),
         "A batch script does not read ~/.bashrc, where `conda activate` is defined: it fails, and Python is another.",
         'put before it: source "$(conda info --base)/etc/profile.d/conda.sh"'),
    Rule("memory", _directive(lambda o: o.name in LEAST_MEGABYTES and o.value.isdecimal()
                              and 0 < int(o.value) < LEAST_MEGABYTES[o.name]),
         "Without a unit --{name}={value} means {value} megabytes, too few for PyTorch.",
         "write the unit, as in --{name}={value}G"),
    # Number: one process for each GPU, all of them started, and each with its cores
    Rule("tasks", _no_tasks_per_node,
         "The script does not say how many processes each node gets. Lightning needs --ntasks-per-node, and "
         "refuses --ntasks alone; without either, SLURM starts one process per node, and the other GPUs idle.",
         "write #SBATCH --ntasks-per-node={number}, one process for each device of a node"),
    Rule("tasks", _tasks_disagree,
         "--nodes and --ntasks-per-node make {made}, but --ntasks is {tasks}.",
         "leave --ntasks out: it follows from the two others"),
    Rule("devices", _devices,
         "{what}, but {started}{where}. Devices would idle, or processes wait for others for ever.",
         "write #SBATCH --ntasks-per-node={number}, and the same number in the command"),
    Rule("nodes", _nodes_disagree,
         "The command expects {given}, but the job has {nodes}. It would wait for processes that never come, or "
         "refuse to start.",
         "make it the same number as #SBATCH --nodes"),
    Rule("srun", _no_srun(lambda s: s.processes > 1),
         "Without srun this runs once, on the first node only: the other processes never start, and the first one "
         "waits for them.",
         "put srun in front: srun {word} …"),
    Rule("srun", _unless(r"B:|^\s*trap\s", _no_srun(lambda s: s.processes == 1 and s.option("signal"))),
         "SLURM sends the signal to what srun starts, and to nothing else: this is not warned before the limit.",
         "put srun in front: srun {word} …"),
    Rule("background", _background,
         "srun is sent to the background (&) and nothing waits for it: the script ends at once, and the job with "
         "it.",
         "leave the & out, or add a line `wait` at the end"),
    Rule("gpus", _directive(lambda o: o.name == "gpus-per-task"),
         "--gpus-per-task shows each process one GPU only, under the number 0. Lightning and DDP look for the GPU "
         "of their local rank, and do not find it.",
         "write --gpus-per-node=N instead"),
    Rule("gpus", _no_gpus,
         "The command wants GPUs, but the job asks for none: SLURM hides them from it.",
         "add #SBATCH --gpus-per-node=N"),
    Rule("gpus", _hidden_gpus,
         "CUDA_VISIBLE_DEVICES shows {number} to every process, but each node has {gpus}: the others idle, and "
         "processes do not find theirs.",
         "remove the line: SLURM sets the variable itself"),
    Rule("rank", _unless(r"\bexport -f\b", _expanded_too_early),
         "bash fills in ${name} here, before srun starts the processes: all get the one of the script, which is 0.",
         "let each process do it, in single quotes: srun bash -c 'RANK=${name} exec python …'"),
    Rule("cores", _bare_srun("cpus-per-task", "SRUN_CPUS_PER_TASK", lambda s, _: (s.number("cpus-per-task") or 1) > 1),
         "Since SLURM 22.05 srun does not take the number of cores over from sbatch: each process may be bound to "
         "a single core.",
         'write srun --cpus-per-task="$SLURM_CPUS_PER_TASK" …'),
    # Meeting: an address and a port that all processes know and no other job uses
    Rule("port", _variable("MASTER_PORT", lambda port, _: port.isdecimal()),
         "The port is always {value}. Two jobs that share a node would both want it, and the second one fails with "
         "`Address already in use`.",
         f"derive it from the job's number, which no other job has: export MASTER_PORT={PORT}"),
    Rule("port", _variable("MASTER_PORT", _too_high),
         "The port {value} may come to a number above 65535, the last port there is.",
         f"take the remainder of a division: export MASTER_PORT={PORT}"),
    Rule("address", _variable("MASTER_ADDR", lambda address, s: (s.number("nodes") or 1) > 1
                                 and address in ("localhost", "127.0.0.1", "::1")),
         "MASTER_ADDR is {value}, which on each node means that node itself: the processes of different nodes "
         "never meet.",
         f"export MASTER_ADDR={ADDRESS}"),
    Rule("address", _own_address,
         "Inside of srun each process sets MASTER_ADDR to its own node: those of different nodes never meet.",
         f"before srun: export MASTER_ADDR={ADDRESS}"),
    Rule("export", _unless(r"--export=ALL|SLURM_EXPORT_ENV",
                           _directive(lambda o: o.name == "export" and o.value in ("NONE", "NIL"))),
         "--{name}={value} holds for srun, too: its processes get no variable of this script, not even PATH.",
         "add a line `unset SLURM_EXPORT_ENV`, or write srun --export=ALL …"),
    Rule("export", _not_exported,
         "{name} is set but not exported: the script knows it, the processes that srun starts do not.",
         "write export {name}=…"),
    # Survival: a job that is warned in time, saves, goes back to the queue and continues
    Rule("signal", _missing("signal", unless=_gives_up),
         "No signal is requested. At the time limit SLURM ends the job with little or no time to save, and all "
         "since the last checkpoint is lost.",
         "add #SBATCH --signal=SIGUSR1@90: the processes get it 90 s before the limit"),
    Rule("time", lambda s: [(o.line, {}) for o in [s.option("signal")] if o and not s.option("time")],
         "The signal comes before the time limit, but the script sets no limit: that of the partition applies, "
         "which may be minutes or weeks.",
         "add #SBATCH --time=HH:MM:SS"),
    Rule("signal", _signal_too_early,
         "The signal is due {seconds} s before the limit, and SLURM may send it up to {slack} s earlier, but "
         "--time={time} (line {line}) is {total} s: it may come as the job starts, which then requeues itself without "
         "having trained.",
         "give the job more time than {more}, or the signal fewer seconds{hint}"),
    Rule("signal", _unless(r"^\s*trap\s", _directive(lambda o: o.name == "signal" and re.match("R?B", o.value))),
         "B: sends the signal to the shell of the script only. It does not pass it on, so that the training never "
         "receives it.",
         "leave out B:, as in --signal=SIGUSR1@90"),
    Rule("signal", _signal_ignored,
         "The shell ignores {name} from here on, and what it starts without srun inherits that; with B: in --signal "
         "nothing else would get it.",
         "remove the line: the processes of srun get the signal themselves"),
    Rule("signal", _other_signal,
         "SLURM sends {name}, but `snnkit train` waits for SIGUSR1. A signal that a process does not handle ends it.",
         "write --signal=SIGUSR1@{seconds}"),
    Rule("requeue", _missing("requeue", "no-requeue"),
         "The script does not say whether the job may go back to the queue. On clusters where it may not by "
         "default, `scontrol requeue` is refused, and a job that hits its limit, or loses a node, is over.",
         "add #SBATCH --requeue (or --no-requeue, if that is what you want)"),
    Rule("requeue", lambda s: [(o.line, {}) for o in [s.option("signal")] if o and _trains(s) and _gives_up(s)],
         "Upon the signal the training requeues its job, which SLURM refuses after --no-requeue: it ends as failed.",
         "write #SBATCH --requeue, or leave --signal out"),
    Rule("append", _log_overwritten,
         "A requeued job opens its log again, and may overwrite what its first run has written.",
         "write #SBATCH --open-mode=append"),
    Rule("kill", _bare_srun("kill-on-bad-exit", "SLURM_KILL_BAD_EXIT",
                            lambda s, step: s.processes > 1 and ("ntasks", "1", step.command.line) not in step.options),
         "Where one process dies, the others wait for it, and the job goes on costing money until its limit.",
         "write srun --kill-on-bad-exit=1 …"),
    Rule("resume", _training(lambda words: command_option(words, "--checkpoint") is None),
         "The command writes no checkpoint: there is nothing that the requeued job could continue from.",
         "add --checkpoint FILE --resume"),
    Rule("resume", _training(lambda words: command_option(words, "--checkpoint") and "--resume" not in words),
         "The command does not resume: the requeued job would start from scratch, and be stopped at the same "
         "point, for ever.",
         "add --resume; the first run, which finds no checkpoint, begins from the start"),
    Rule("resume", _checkpoint(lambda path, s: NEW_EACH_TIME.search(path) and not _gives_up(s)),
         "{path} is another file whenever the script runs: the requeued job does not find what it saved.",
         "name it by $SLURM_JOB_ID, which stays the same"),
    Rule("checkpoint", _checkpoint(lambda path, s: ONE_NODE.match(path)
                                   and ((s.number("nodes") or 1) > 1 or not _gives_up(s))),
         "{path} is on the disk of one node: other nodes, also one where a requeued job continues, do not have it.",
         "write to a folder that all nodes share"),
    Rule("checkpoint", _unless(r"^\s*(?:cd|pushd)\s.*\$",
                               _checkpoint(lambda path, s: s.option("array") and not re.search(r"\$|`", path))),
         "All jobs of the array write {path}, and resume from what another one saved.",
         "name it by $SLURM_ARRAY_TASK_ID"),
    Rule("checkpoint", _same_checkpoint_at_once,
         "A step that runs at the same time writes {path} as well: each overwrites what the other saved.",
         "give each a file of its own, or add a line `wait` between them"),
)
# fmt: on
