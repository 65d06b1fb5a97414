"""The command ``snnkit slurm``: write, explain, check and submit batch scripts, from a shell."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from snnkit.cli import SETTINGS
from snnkit.files import replacing
from snnkit.train.slurm import Request, SubmitError, check, explain, script, submit


# The options end at the first word of the command, as with srun; all behind it belongs to that.
@click.command(context_settings={**SETTINGS, "allow_interspersed_args": False})
@click.argument("words", metavar="COMMAND ...", nargs=-1, type=click.UNPROCESSED)
@click.option("--nodes", type=int, default=1, show_default=True, help="Machines.")
@click.option("--gpus-per-node", type=int, default=0, show_default=True, help="GPUs of each; 0: train on CPUs.")
@click.option("--tasks-per-node", type=int, help="Processes of each.  [one for each GPU, or one]")
@click.option("--cpus-per-task", type=int, default=4, show_default=True, help="CPU cores of each process.")
@click.option("--memory", metavar="SIZE", help="Of each node, such as 64G.  [the partition's default]")
@click.option("--time", default="01:00:00", show_default=True, help="Limit: HH:MM:SS, D-HH:MM:SS, …")
@click.option("--partition", help="Queue.  [the cluster's default]")
@click.option("--account", help="Whose computing time is spent.")
@click.option("--signal", default="SIGUSR1", show_default=True, help="What processes get before the limit.")
@click.option("--signal-seconds", type=int, default=90, show_default=True, help="How long before the limit.")
@click.option("--requeue/--no-requeue", default=True, show_default=True, help="Go on later after the limit.")
@click.option("--name", default="snnkit", show_default=True, help="Of the job.")
@click.option("--output", default="%x-%j.out", show_default=True, metavar="FILE", help="Log; %x: name, %j: number.")
@click.option("--workdir", metavar="DIR", help="Where the job starts.  [where sbatch is called]")
@click.option("--module", "modules", multiple=True, metavar="NAME", help="To `module load`; repeatable.")
@click.option("--venv", metavar="DIR", help="Virtual environment to enter.")
@click.option("--container", metavar="IMAGE", help="Image for apptainer, instead of --venv.")
@click.option("--address-suffix", default="", help="What names end in, in the fast network; JUWELS: i.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="For the processes; repeatable.")
@click.option("--out", metavar="FILE", help="Write the script into this file.  [print it]")
@click.option("--explain", "explained", is_flag=True, help="Say what each line is for.")
@click.option("--check", "checked", metavar="FILE", help="Find the mistakes in a script; writes none.")
@click.option("--submit", "submitted", is_flag=True, help="Hand the script to sbatch; needs --out, or --check.")
def slurm(
    words: tuple[str, ...],
    variables: tuple[str, ...],
    out: str | None,
    explained: bool,
    checked: str | None,
    submitted: bool,
    **given: Any,
) -> None:
    """Write a batch script for SLURM that runs COMMAND on many processes, and survives its time limit.

    \b
    snnkit slurm --nodes 2 --gpus-per-node 4 --out job.sh --explain \\
        snnkit train workshop --checkpoint run.pt
    snnkit slurm --check job.sh --submit

    `snnkit train` gets --nodes, --devices, --requeue-signal and --resume added. Exit code: 0, or 1 if --check finds
    problems, or 2 for wrong usage. A script with problems is not submitted.
    """
    if checked is not None:
        if words or out:
            raise click.UsageError("--check looks at a file that is there; it goes with neither --out nor a command")
        _check(checked, explained, submitted)
        return
    if not words:
        raise click.UsageError("what is to run is missing: snnkit slurm … snnkit train workshop --checkpoint run.pt")
    if submitted and not out:
        raise click.UsageError("--submit needs --out, the file that is submitted")
    command = words[0] if len(words) == 1 else words  # a single one may be a whole command in quotes
    try:
        text = script(Request(command, modules=given.pop("modules"), environment=_environment(variables), **given))
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from None
    if out:
        _write(Path(out), text)
    if explained:
        _explain(text)
    elif not out:
        click.echo(text, nl=False)
    if out:
        click.echo(f"script: {out}")
    if submitted and out:
        _submit(out)


def _environment(assignments: tuple[str, ...]) -> dict[str, str]:
    values = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals:
            raise click.UsageError(f"--env takes NAME=VALUE, but it is {assignment!r}")
        values[name] = value
    return values


def _write(path: Path, text: str) -> None:
    try:
        with replacing(path) as file:
            file.write(text.encode())
    except OSError as error:
        raise click.ClickException(f"can't write {str(path)!r}: {error}") from None


def _check(file: str, explained: bool, submitted: bool) -> None:
    try:
        text = Path(file).read_bytes().decode()  # with the ends of lines as they are
    except (OSError, UnicodeDecodeError) as error:
        raise click.ClickException(f"can't read {file!r}: {error}") from None
    if explained:
        _explain(text)
    problems = check(text)
    for problem in problems:
        where = file if problem.line is None else f"{file}:{problem.line}"
        click.echo(f"{where}: {problem.what}\n    fix: {problem.fix}")
    if problems:
        click.echo(f"{len(problems)} problem{'s' * (len(problems) > 1)} in {file}", err=True)
        sys.exit(1)
    click.echo(f"{file}: no problems")
    if submitted:
        _submit(file)


def _explain(text: str) -> None:
    for line, why in explain(text):
        click.echo(click.style(line, bold=True))
        for part in wrap(why, 108, break_on_hyphens=False):
            click.echo(f"      {part}")


def _submit(file: str) -> None:
    try:
        job = submit(file)
    except (OSError, SubmitError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"job {job} is submitted; `squeue --job {job}` shows it")
