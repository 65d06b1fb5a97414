"""The command ``snnkit train``: run a recipe from a shell, alone or as several ranks."""

from __future__ import annotations

import dataclasses
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, NoReturn

import click
import torch

from snnkit import records
from snnkit.lab.cli import SETTINGS
from snnkit.train import LaunchError, RankInfo, Recipe, TensorBoard, launch, recipes
from snnkit.train.checkpoint import writable
from snnkit.train.distributed import PEER, REQUEUED

_GRACE = 60.0  # seconds for the current update and a checkpoint, after SIGTERM
_WORDS = __name__ + ".words"
_PACKAGE = __name__.rpartition(".")[0]  # whose commands `python -m` runs, too
_ORDERLY = (130, 143, REQUEUED)  # exit codes of ranks that have printed what they did


class _WithWords(click.Command):
    """The context holds the words of the command line, for ranks that are started by the same ones."""

    def make_context(self, info_name: str | None, args: list[str], *others: Any, **extra: Any) -> click.Context:
        words = list(args)  # click takes them away as it reads them
        context = super().make_context(info_name, args, *others, **extra)
        context.meta[_WORDS] = words
        return context


def _recipe_options(command: Any) -> Any:
    """An option for each setting of a recipe, from the fields of its class."""
    types: dict[str, Any] = {"int": int, "float": float, "bool": None}
    for setting in reversed(dataclasses.fields(Recipe)[2:]):  # all but name and about
        kind, choices = str(setting.type).partition(" | ")[0], setting.metadata.get("choices")
        flag = f"--{setting.name.replace('_', '-')}"
        flags = f"{flag}/--no-{flag[2:]}" if kind == "bool" else flag
        option_type = click.Choice(choices) if choices else types[kind]
        option = click.option(flags, setting.name, type=option_type, default=None, help=setting.metadata["about"])
        command = option(command)
    return command


def _catalogue() -> list[str]:
    width = max(map(len, recipes.names()))
    return [f"{name:<{width}}  {recipes.get(name).about}" for name in recipes.names()]


@click.command(cls=_WithWords, context_settings=SETTINGS, epilog="\b\nRecipes:\n  " + "\n  ".join(_catalogue()))
@click.argument("name", metavar="RECIPE", required=False)
@_recipe_options
@click.option("--device", default="auto", show_default=True, help="Device: auto, cpu, cuda, cuda:1, ...")
@click.option("--threads", type=click.IntRange(1), default=None, help="CPU threads.  [PyTorch's choice]")
@click.option("--data", "root", metavar="DIR", help="Folder with mnist/ and fashion/.  [SNNKIT_DATA, or a cache]")
@click.option("--checkpoint", metavar="FILE", help="Write it after each epoch, and its settings into FILE.json.")
@click.option("--resume", is_flag=True, help="Continue from --checkpoint, if it exists.")
@click.option("--log", metavar="DIR", help="Write curves for TensorBoard.")
@click.option("--out", metavar="FILE.json", help="Write a record of the run (`snnkit bench show FILE.json` shows it).")
@click.option("--progress/--no-progress", default=True, help="Show a progress bar.")
@click.option("--devices", type=click.IntRange(1), help="Ranks on each node, with a GPU each, or on the CPU.")
@click.option("--nodes", type=click.IntRange(1), help="Number of nodes, under srun or torchrun.")
@click.option("--every", type=click.IntRange(1), metavar="UPDATES", help="Also write --checkpoint within epochs.")
@click.option("--timeout", default=300.0, show_default=True, metavar="SECONDS", help="Longest wait for a rank.")
def train(
    name: str | None,
    threads: int | None,
    log: str | None,
    out: str | None,
    devices: int | None,
    nodes: int | None,
    every: int | None,
    timeout: float,
    **options: Any,
) -> None:
    """Train a network by a named recipe, and print a line for each epoch. Without a name, list the recipes.

    Every setting of a recipe can be overridden. After a kill, the same command with --resume continues from the last
    checkpoint. On a CPU the weights are then equal to those of a run without a kill.

    With --devices 2, two processes of this machine train together, through Lightning. Under torchrun or srun each
    process joins the others by itself. SIGTERM makes them save together and end; under SLURM so does SIGUSR1, which
    also requeues the job. Exit codes: 0, 1 for an error, 2 for wrong usage, 130 and 143 after Ctrl-C and SIGTERM, 75
    for a job that is requeued, 76 for a rank that ended only because it lost another one.
    """
    if name is None:
        click.echo("\n".join(_catalogue()))
        return
    if (options["resume"] or every) and not options["checkpoint"]:
        raise click.UsageError("--resume and --every need --checkpoint, the file to resume from and to write")
    try:
        rank_info = RankInfo.from_environment()
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if threads is not None:
        torch.set_num_threads(threads)
    given = {setting.name: options.pop(setting.name) for setting in dataclasses.fields(Recipe)[2:]}
    settings = {key: value for key, value in given.items() if value is not None}
    if rank_info.launcher == "alone" and (devices or 1) * (nodes or 1) > 1:
        _start_ranks(name, settings, devices or 1, nodes or 1, **options)
    elif rank_info.launcher != "alone" or devices is not None or every is not None:
        options |= {"devices": devices, "nodes": nodes, "every": every, "timeout": timeout}
        _join_ranks(rank_info, name, settings, log, out, **options)
    else:
        run = _run(recipes.run, name, settings, log, out, **options)
        if run.history.interrupted:
            where = f"; --resume continues from {options['checkpoint']}" if options["checkpoint"] else ""
            click.echo(f"\ninterrupted after {run.history.epochs} of {run.recipe.epochs} epochs{where}", err=True)
            sys.exit(130)


def _run(
    runner: Callable[..., Any],
    name: str,
    settings: dict[str, Any],
    log: str | None,
    out: str | None,
    *,
    first: bool = True,
    **options: Any,
) -> Any:
    """Run the recipe; the user's mistakes give no traceback. ``first``: whether this rank prints and writes."""
    checkpoint, resume = options["checkpoint"], options["resume"]
    try:
        recipe = recipes.get(name, **settings)
        file = writable(checkpoint, "--checkpoint") if checkpoint else None
        if out and writable(out, "--out") == file:
            raise ValueError(f"--out must be another file than --checkpoint, but both are {out}")
        board = TensorBoard(log, None if resume else recipe.settings()) if log and first else None
    except (ValueError, TypeError, OSError) as error:
        raise click.UsageError(str(error)) from None
    except ImportError as error:
        raise click.ClickException(str(error)) from None
    lines = _EpochLines()
    if resume and first and file:
        click.echo(f"resuming from {checkpoint}" if file.exists() else f"there is no {checkpoint} yet: from the start")
    try:
        run = runner(name, on_epoch=[lines, *([board] if board else [])] if first else [], **options, **settings)
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        raise click.ClickException(str(error)) from error
    if first:
        lines(run.history, run.model)  # where all epochs were done already
        if out:
            _write_record(out, run)
    return run


def _join_ranks(
    rank_info: RankInfo, name: str, settings: dict[str, Any], log: str | None, out: str | None, **options: Any
) -> None:
    """Train as one of the ranks, through Lightning. If there are others, this ends the process."""
    try:
        from snnkit.train import lit
        from snnkit.train.lit.preemption import CTRL_C, REQUEUE, TERMINATE
    except ImportError as error:
        raise click.ClickException(str(error)) from None
    first = rank_info.rank == 0
    try:
        run = _run(lit.run_recipe, name, settings, log, out, first=first, **options)
    except lit.RankError as error:
        _leave(rank_info, str(error), PEER)
    except lit.RequeueError as error:
        _leave(rank_info, str(error) if first else "", REQUEUED)
    except click.ClickException as error:
        if rank_info.world == 1:
            raise
        _leave(rank_info, f"{'' if first else f'rank {rank_info.rank}: '}{error}", getattr(error, "exit_code", 1))
    except Exception:
        if rank_info.world == 1:
            raise
        _leave(rank_info, traceback.format_exc(), 1)
    if run.stopped is None:
        _leave(rank_info, "", 0)
    if first:
        saved = f"; --resume continues from {options['checkpoint']}" if options["checkpoint"] else "; nothing is saved"
        outcome = f"; {run.requeued}" if run.requeued else saved
        epoch = f"epoch {min(run.history.epochs + 1, run.recipe.epochs)} of {run.recipe.epochs}"
        click.echo(f"\n{run.stopped} after update {run.updates}, in {epoch}{outcome}", err=True)
    _leave(rank_info, "", {REQUEUE: REQUEUED, CTRL_C: 130, TERMINATE: 143}[run.stopped.cause])


def _leave(rank_info: RankInfo, message: str, code: int) -> NoReturn:
    """End this rank now. An ordinary exit would first close connections, and may wait for ranks that are gone."""
    if message:
        click.echo(f"Error: {message}", err=True)
    if rank_info.world == 1:
        sys.exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _start_ranks(name: str, settings: dict[str, Any], devices: int, nodes: int, **options: Any) -> None:
    """Run this command in so many processes; an error that every rank would raise is reported once, before."""
    if nodes > 1:
        raise click.UsageError(
            f"--nodes {nodes} needs processes on {nodes} nodes: start the command with srun or torchrun there "
            "(`snnkit slurm` writes the script), or leave it out"
        )
    rank_info = RankInfo(0, devices, 0, devices)
    try:
        rank_info.check_batch(recipes.get(name, **settings).batch_size)
        rank_info.device(options["device"])
        recipes.prepare(name, settings, options["checkpoint"], options["resume"])
    except (ValueError, TypeError, OSError) as error:
        raise click.ClickException(str(error)) from None
    try:
        launch(
            [sys.executable, "-m", _PACKAGE, "train", *click.get_current_context().meta[_WORDS], "--no-progress"],
            devices,
            on_line=lambda rank, line: click.echo(f"[rank {rank}] {line}" if rank else line, err=rank > 0),
            grace=_GRACE,
        )
    except LaunchError as error:
        if error.code in _ORDERLY:
            sys.exit(error.code)
        raise click.ClickException(str(error).partition(". Last lines")[0]) from None  # they are printed already


class _EpochLines:
    """Prints a line for each epoch, above the bar; for a resumed run, first its earlier epochs."""

    def __init__(self) -> None:
        self.printed = 0

    def __call__(self, history: Any, _model: Any) -> None:
        from tqdm.auto import tqdm

        lines = repr(history).splitlines()[1:]  # a head, then one for each epoch
        for line in lines[self.printed :]:
            tqdm.write(line)
        self.printed = len(lines)


def _write_record(out: str, run: recipes.Run) -> None:
    """A record with the settings, every epoch, and the machine."""
    from snnkit.lab.bench.suite import begin

    history, ranks = run.history, getattr(run, "rank_info", RankInfo()).world
    columns = {name: values for name, values in history.to_dict().items() if isinstance(values, list) and values}
    content = begin("recipe", run.device, run.recipe.settings() | ({"ranks": ranks} if ranks > 1 else {})) | {
        "complete": history.epochs >= run.recipe.epochs,
        "parameters": sum(p.numel() for p in run.model.parameters()),
        "rows": [
            {"epoch": i + 1, **{name: values[i] for name, values in columns.items()}} for i in range(history.epochs)
        ],
    }
    try:
        click.echo(f"record: {records.write(out, content)}")
    except (OSError, records.RecordError) as error:
        raise click.ClickException(str(error)) from None
