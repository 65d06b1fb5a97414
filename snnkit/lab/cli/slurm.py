"""The command ``snnkit slurm``: write, explain and check batch scripts, from a shell."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from snnkit.files import write_text
from snnkit.lab.cli import SETTINGS
from snnkit.tables import count_of
from snnkit.train.slurm import Request, check, explain, script
from snnkit.train.slurm.syntax import is_sweep


# The options end at the first word of the command, as with srun; the rest belongs to the command.
@click.command(context_settings={**SETTINGS, "allow_interspersed_args": False})
@click.argument("words", metavar="COMMAND ...", nargs=-1, type=click.UNPROCESSED)
@click.option("--nodes", type=int, default=1, show_default=True, help="Number of machines.")
@click.option("--gpus-per-node", type=int, default=0, show_default=True, help="GPUs of each machine; 0: train on CPUs.")
@click.option("--tasks-per-node", type=int, help="Processes of each machine.  [one for each GPU, or one]")
@click.option("--cpus-per-task", type=int, default=4, show_default=True, help="CPU cores of each process.")
@click.option("--memory", metavar="SIZE", help="Memory of each node, such as 64G.  [the partition's default]")
@click.option("--time", default="01:00:00", show_default=True, help="Time limit: HH:MM:SS, D-HH:MM:SS, …")
@click.option("--partition", help="Queue of the cluster.  [the cluster's default]")
@click.option("--account", help="Account that pays for the computing time.")
@click.option("--signal-seconds", type=int, default=90, show_default=True, help="Seconds from SIGUSR1 to the limit.")
@click.option("--requeue/--no-requeue", default=True, show_default=True, help="After the limit, go on in a later job.")
@click.option("--array", metavar="N[%M]", help="N tasks, at most M at a time, share the sweep that COMMAND is.")
@click.option("--name", default="snnkit", show_default=True, help="Name of the job.")
@click.option("--module", "modules", multiple=True, metavar="NAME", help="Module to load; repeatable.")
@click.option("--venv", metavar="DIR", help="Virtual environment to enter.")
@click.option("--out", metavar="FILE", help="Write the script into this file.  [print it]")
@click.option("--explain", "explained", is_flag=True, help="Say what each line is for.")
@click.option("--check", "checked", metavar="FILE", help="Find the mistakes in this script; write nothing.")
def slurm(words: tuple[str, ...], out: str | None, explained: bool, checked: str | None, **given: Any) -> None:
    """Write a batch script for SLURM that runs COMMAND on many processes, and survives its time limit.

    \b
    snnkit slurm --nodes 2 --gpus-per-node 4 --out job.sh --explain \\
        snnkit train workshop --checkpoint run.pt
    snnkit slurm --array 8 --out job.sh snnkit sweep xor.yaml
    snnkit slurm --check job.sh

    `snnkit train` gets --nodes, --devices and --resume added, `snnkit sweep` --workers and, with --array, the --out
    that its manifest names. Exit code: 0, or 1 if --check finds problems, or 2 for wrong usage.
    """
    if checked is not None:
        if words or out:
            raise click.UsageError("--check reads an existing script: use it without --out and without a command")
        _check(checked, explained)
        return
    if not words:
        raise click.UsageError("the command to run is missing: snnkit slurm … snnkit train mnist --checkpoint run.pt")
    command = words[0] if len(words) == 1 else words  # a single one may be a whole command in quotes
    try:
        if given["array"] is not None:
            command = _with_folder(shlex.split(command) if isinstance(command, str) else command)
        text = script(Request(command, **given))
        if out:
            write_text(Path(out), text)
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"can't write {out!r}: {error}") from None
    if explained:
        _explain(text)
    elif not out:
        click.echo(text, nl=False)
    if out:
        click.echo(f"script: {out}")


def _with_folder(words: Sequence[str]) -> Sequence[str]:
    """The words of a sweep, with the folder that its manifest names: all tasks of an array share it.

    ManifestError, which is a ValueError, if there is none.
    """
    if not is_sweep(words):
        return words
    from snnkit.lab.cli.sweep import sweep
    from snnkit.lab.sweep.manifest import load

    with sweep.make_context("snnkit sweep", list(words[list(words).index("sweep") + 1 :])) as context:
        if context.params["out"] is not None:
            return words
        return [*words, "--out", str(load(context.params["manifest"]).out)]


def _check(file: str, explained: bool) -> None:
    try:
        text = Path(file).read_bytes().decode()  # with the ends of lines as they are
        problems = check(text)
    except (OSError, ValueError) as error:
        raise click.ClickException(f"can't read {file!r}: {error}") from None
    if explained:
        _explain(text)
    for problem in problems:
        where = file if problem.line is None else f"{file}:{problem.line}"
        click.echo(f"{where}: {problem.what}\n    fix: {problem.fix}")
    if problems:
        click.echo(f"{count_of(len(problems), 'problem')} in {file}", err=True)
        sys.exit(1)
    click.echo(f"{file}: no problems")


def _explain(text: str) -> None:
    for line, why in explain(text):
        click.echo(click.style(line, bold=True))
        for part in wrap(why, 108, break_on_hyphens=False):
            click.echo(f"      {part}")
