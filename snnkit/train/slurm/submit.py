"""Hand a script to sbatch."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path


class SubmitError(RuntimeError):
    """The script was not submitted; says why, in sbatch's words where it has said something."""


def submit(path: str | os.PathLike[str], *, timeout: float = 60.0) -> int:
    """Submit the script in this file, and return the number of its job.

    Args:
        path: of the script.
        timeout: seconds to wait for sbatch's answer.

    Raises:
        FileNotFoundError: there is no such file.
        SubmitError: there is no sbatch on this machine, it refused the script, or it did not answer in time.
    """
    file = Path(path)
    if not file.is_file():
        raise FileNotFoundError(f"there is no script {str(file)!r} to submit")
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise SubmitError(
            "there is no sbatch on this machine: copy the script to a login node of the cluster, "
            f"and submit it there with `sbatch {file.name}`"
        )
    try:
        done = subprocess.run([sbatch, "--parsable", str(file)], capture_output=True, text=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        raise SubmitError(f"sbatch gave no answer within {timeout:g} s; is SLURM's controller running?") from None
    answer = re.match(r"(\d+)", done.stdout.strip())
    if done.returncode or answer is None:
        said = " ".join((done.stderr or done.stdout).split()) or "nothing"
        raise SubmitError(f"sbatch refused {str(file)!r} with exit code {done.returncode}, and said: {said}")
    return int(answer[1])
