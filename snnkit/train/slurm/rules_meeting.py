"""Rules of meeting: an address and a port that all processes know and no other job uses."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .parse import Script
from .problem import Problem

GOOD_PORT = "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))"


def port(script: Script) -> Iterator[Problem]:
    found = script.exported("MASTER_PORT")
    if found is None:
        return
    value, line, _ = found
    if value.isdecimal() and not 1024 <= int(value) <= 65535:
        yield Problem(line, f"There is no port {value} for users: they go from 1024 to 65535.", GOOD_PORT, "port")
    elif value.isdecimal():
        yield Problem(
            line,
            f"The port is always {value}. Two jobs that share a node would both want it, and the second one fails with "
            "`Address already in use`.",
            f"derive it from the job's number, which no other job has: {GOOD_PORT}",
            "port",
        )
    elif "SLURM_JOB" in value and not re.search(r"%|:\s*-\d|tail\s+-c", value):
        yield Problem(
            line,
            "The port grows with the job's number. On a cluster that has run many jobs it is above 65535, the last "
            "port there is.",
            f"take the remainder of a division: {GOOD_PORT}",
            "port",
        )
    elif (sums := re.search(r"(\d+)\s*\+\s*\(?\s*\$?\{?SLURM_JOB_?ID\}?\s*%\s*(\d+)", value)) and (
        int(sums[1]) + int(sums[2]) - 1 > 65535
    ):
        yield Problem(
            line,
            f"The port may come to {int(sums[1]) + int(sums[2]) - 1}, above 65535, the last port there is.",
            GOOD_PORT,
            "port",
        )


def address(script: Script) -> Iterator[Problem]:
    found = script.exported("MASTER_ADDR")
    nodes = script.number("nodes") or 1
    if found is not None and nodes > 1 and found[0] in ("localhost", "127.0.0.1", "::1"):
        yield Problem(
            found[1],
            f"MASTER_ADDR is {found[0]}, which on each of the {nodes} nodes means that node itself: the processes of "
            "different nodes never meet.",
            'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
            "address",
        )


def export(script: Script) -> Iterator[Problem]:
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        found = script.exported(name)
        if found is not None and not found[2]:
            yield Problem(
                found[1],
                f"{name} is set but not exported: the script knows it, the processes that srun starts do not.",
                f"write export {name}=…",
                "export",
            )


RULES = (port, address, export)
