"""``snnkit train --devices N``: the ranks of a run, started on this machine, and what they say."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from snnkit.measure.memory import missing_malloc_settings
from snnkit.train import recipes
from snnkit.train.launch import REQUEUED, LaunchError, launch
from snnkit.train.place import Place

_GRACE = 60.0  # seconds for the update under way and a checkpoint, where ranks are asked to end
_IN_ORDER = (130, 143, REQUEUED)  # exit codes of ranks that have told what they did


def ranks(
    name: str,
    settings: dict[str, Any],
    words: list[str],
    devices: int,
    nodes: int,
    restarts: int,
    device: str,
    checkpoint: str | None,
    resume: bool,
) -> None:
    """Run ``snnkit train`` with the same ``words`` in so many processes. Ends with their exit code.

    What is wrong in any case is told once, before anything is started. Ranks on CPUs keep their pages (``pages``): one
    that has new ones cleared by the kernel in the middle of an update lets all the others wait.
    """
    if nodes > 1:
        raise click.UsageError(
            f"--nodes {nodes} needs processes on {nodes} nodes: start the command with srun or torchrun there "
            "(`snnkit slurm` writes the script), or leave it out"
        )
    try:
        recipe = recipes.get(name, **settings)
        Place(0, devices, 0, devices).check_batch(recipe.batch_size)
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from None
    try:
        target = Place(0, devices, 0, devices).device(device)
        recipes.chosen(name, settings, checkpoint, resume)
    except (ValueError, TypeError, OSError) as error:
        raise click.ClickException(str(error)) from None

    added = ["--no-progress", "--restarts", "0", *(["--resume"] if restarts else [])]
    end = words.index("--") if "--" in words else len(words)
    command = [sys.executable, "-m", "snnkit.cli", "train", *words[:end], *added, *words[end:]]
    try:
        env = missing_malloc_settings(os.environ) if target.type == "cpu" else {}
        launch(command, devices, env=env, on_line=_say, restarts=restarts, grace=_GRACE)
    except LaunchError as error:
        if error.code in _IN_ORDER:
            sys.exit(error.code)
        told = str(error).partition(" Last lines")[0]  # they stand above already
        raise click.ClickException(told) from None


def _say(rank: int, line: str) -> None:
    if rank == 0:
        click.echo(line)
    else:
        click.echo(f"[rank {rank}] {line}", err=True)
