"""Rules of form: what sbatch refuses, or skips without a word."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches

from .formats import early_signal, seconds
from .parse import SHORT, Script
from .problem import Problem

# The options of sbatch 22.05 (its manual page) and those added since, for guessing what a misspelt one should be.
_NAMES = """
account acctg-freq array batch bb bbf begin chdir cluster-constraint clusters comment constraint
consolidate-segments container container-id contiguous core-spec cores-per-socket cpu-freq cpus-per-gpu
cpus-per-task deadline delay-boot dependency distribution error exclude exclusive export export-file extra
extra-node-info get-user-env gid gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket gpus-per-task gres gres-flags
hint hold ignore-pbs input job-name kill-on-invalid-dep licenses mail-type mail-user mcs-label mem mem-bind
mem-per-cpu mem-per-gpu mincpus network nice no-kill no-requeue nodefile nodelist nodes ntasks ntasks-per-core
ntasks-per-gpu ntasks-per-node ntasks-per-socket oom-kill-step open-mode output overcommit oversubscribe parsable
partition power prefer priority profile propagate qos quiet reboot requeue resv-ports reservation segment signal
sockets-per-node spread-job stepmgr switches test-only thread-spec threads-per-core time time-min tmp tres-bind
tres-per-task uid use-min-nodes verbose wait wait-all-nodes wckey wrap
"""
KNOWN = frozenset(_NAMES.split())
COUNTS = ("nodes", "ntasks", "ntasks-per-node", "cpus-per-task")


def shebang(script: Script) -> Iterator[Problem]:
    if not script.lines or not script.lines[0].startswith("#!"):
        yield Problem(
            1,
            "The first line does not name the shell, and sbatch refuses such a file.",
            "begin the script with #!/bin/bash",
            "shebang",
        )


def late(script: Script) -> Iterator[Problem]:
    for number in script.late:
        yield Problem(
            number,
            "This #SBATCH line comes after the first command. sbatch stops reading options there, and skips it "
            "without a word.",
            "move it up to the other #SBATCH lines, above every command",
            "late",
        )


def comment(script: Script) -> Iterator[Problem]:
    for number, line in enumerate(script.lines, 1):
        if re.match(r"\s*#\s*SBATCH\s+-", line, re.IGNORECASE) and not line.startswith("#SBATCH"):
            yield Problem(
                number,
                "This is an ordinary comment for sbatch: a directive begins with exactly #SBATCH, at the start of the "
                "line, without a space and in capitals.",
                f"write #SBATCH {line[line.index('-') :].strip()}",
                "comment",
            )


def spaces(script: Script) -> Iterator[Problem]:
    for option in script.directives:
        if option.value == "=" or option.name == "=":
            yield Problem(
                option.line,
                "There are spaces around the equals sign, so that sbatch takes the sign itself for the value.",
                "write it without spaces, as in --nodes=2",
                "spaces",
            )
            return


def spelling(script: Script) -> Iterator[Problem]:
    for option in script.directives:
        known = option.name in KNOWN or option.name.startswith("-") or option.name == "="
        if known or not re.fullmatch(r"-*[a-z][a-z-]+", option.name):
            continue
        if any(name.startswith(option.name) for name in KNOWN):  # sbatch takes abbreviations
            continue
        close = get_close_matches(option.name, KNOWN, 1, 0.8)
        if close:
            yield Problem(
                option.line,
                f"sbatch knows no option --{option.name}, and refuses the script.",
                f"did you mean --{close[0]}?",
                "spelling",
            )


def values(script: Script) -> Iterator[Problem]:
    for option in script.directives:
        if option.value == "=":
            continue
        try:
            if option.name == "time":
                seconds(option.value)
            elif option.name == "signal":
                early_signal(option.value)
        except ValueError as error:
            what = f"sbatch can't read this: {error}."
            yield Problem(option.line, what, f"write --{option.name} in that form", "value")
        plain = r"\d+(-\d+)?" if option.name == "nodes" else r"\d+"
        if option.name in COUNTS and not re.fullmatch(plain, option.value):
            yield Problem(
                option.line,
                f"--{option.name} must be a whole number, but it is {option.value!r}.",
                f"write --{option.name}=2, with your number; variables are not filled in on #SBATCH lines",
                "value",
            )


def variables(script: Script) -> Iterator[Problem]:
    for option in script.directives:
        if "$" in option.value and option.name not in COUNTS:
            yield Problem(
                option.line,
                "A #SBATCH line is a comment for bash: nothing fills in its variables, so that sbatch sees "
                f"{option.value!r} letter by letter.",
                "write the value itself, or one of sbatch's own marks such as %j for the job's number",
                "variable",
            )


def twice(script: Script) -> Iterator[Problem]:
    seen: dict[str, int] = {}
    for option in script.directives:
        if option.name in seen and (option.name in KNOWN or option.name in SHORT.values()):
            yield Problem(
                option.line,
                f"--{option.name} is on line {seen[option.name]} already; only the last one holds.",
                "keep one of the two",
                "twice",
            )
        seen[option.name] = option.line


def carriage(script: Script) -> Iterator[Problem]:
    for number, line in enumerate(script.lines, 1):
        if line.endswith("\r"):
            yield Problem(
                number,
                "The line ends as on Windows (CR LF), which sbatch refuses.",
                "save the file with Unix line ends, or run `dos2unix` on it",
                "carriage",
            )
            return


RULES = (shebang, late, comment, spaces, spelling, values, variables, twice, carriage)
