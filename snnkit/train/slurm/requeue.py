"""Puts a job that is about to reach its time limit back into the queue, from within."""

from __future__ import annotations

import os
import subprocess


class RequeueError(RuntimeError):
    """What the job has done is saved, but it could not be put back into the queue."""


def requeue() -> str:
    """Put this SLURM job back into the queue; returns a message. RequeueError, saying why, if that fails."""
    job = os.environ.get("SLURM_JOB_ID", "")
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        job = f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID', '')}"
    try:
        done = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True, timeout=60)
        said = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        failure = said if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        failure = str(error)
    if failure:
        raise RequeueError(f"job {job!r} can't be requeued: {failure}; submit it again by hand")
    return f"job {job} is requeued"
