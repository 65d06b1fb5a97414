"""Find the mistakes in a batch script for training before the cluster does, hours later."""

from __future__ import annotations

from . import rules_form, rules_meeting, rules_processes, rules_survival
from .parse import parse
from .problem import Problem

RULES = (*rules_form.RULES, *rules_processes.RULES, *rules_meeting.RULES, *rules_survival.RULES)


def check(text: str) -> list[Problem]:
    """The problems of a batch script that trains on several processes, from the first line to the last.

    It looks for what goes wrong silently or late: directives that sbatch skips, a number of processes that doesn't
    match the GPUs or the command, processes that can't meet, and a job that can't survive its time limit. An empty list
    means that none of these was found, not that the cluster has such a partition.

    Args:
        text: of the script.

    Raises:
        TypeError: it is no text.
    """
    script = parse(text)
    found = [problem for rule in RULES for problem in rule(script)]
    return sorted(found, key=lambda problem: (problem.line is None, problem.line or 0))
