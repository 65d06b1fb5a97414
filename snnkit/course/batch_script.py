"""The batch script of notebook 09 that has three mistakes planted in it: how it should be, and what is asked of it."""

from __future__ import annotations

from typing import Any

from snnkit.train import slurm
from snnkit.train.slurm.formats import seconds
from snnkit.train.slurm.parse import parse

from . import expect
from .exercise import NotWritten, Violation

REPAIRED = r"""#!/bin/bash
#SBATCH --job-name=snnkit
#SBATCH --account=snn
#SBATCH --partition=booster
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
#SBATCH --cpus-per-task=4
#SBATCH --time=02:00:00
#SBATCH --signal=SIGUSR1@120
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --output=%x-%j.out

set -e
export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK

srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
  snnkit train workshop --checkpoint run.pt --every 200 --resume
"""
_PLANTED = {"devices": 0, "signal": 1, "time": 1, "value": 1, "port": 2}  # rule to its hint


def _repairing(text: Any) -> str:
    expect.written(text)
    if not isinstance(text, str):
        raise Violation("The script is a text.", yours=type(text).__name__)
    if {problem.rule for problem in slurm.check(text)} >= {"devices", "signal", "port"}:
        raise NotWritten("All three mistakes are still there.")
    return text


def same_job(text: Any, reference: Any) -> None:
    """The mended script asks for what the broken one asked for."""
    script = parse(_repairing(text))
    for name, want in (("nodes", 2), ("gpus-per-node", 4)):
        told = f"It is still the job that was wanted: --{name}={want}."
        expect.true(script.number(name) == want, told, yours=script.number(name), expected=want, hint=3)
    told = "It still trains: srun starts `snnkit train workshop`."
    expect.true("snnkit train workshop" in text, told, hint=3)


def no_mistakes(text: Any, reference: Any) -> None:
    """``slurm.check`` finds nothing; else its first problem is the violation, with the line."""
    lines = _repairing(text).splitlines()
    for problem in slurm.check(text):
        where = "a line that is missing" if problem.line is None else f"line {problem.line}"
        yours = None if problem.line is None else lines[problem.line - 1]
        hint = _PLANTED.get(problem.rule, 4)
        raise Violation(problem.what, inputs=f"{where} (rule: {problem.rule})", yours=yours, hint=hint)


def two_hours(text: Any, reference: Any) -> None:
    """The time limit is the one that was wanted."""
    limit = parse(_repairing(text)).option("time")
    told = "The job asks for two hours."
    yours = None if limit is None else limit.value
    found = None if limit is None else seconds(limit.value)
    expect.true(found == 7200, told, yours=yours, expected="two hours", hint=1)
