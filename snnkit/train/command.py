"""The command ``snnkit train``: run a recipe, from a shell."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from typing import Any, NoReturn

import click

from snnkit.engine import ENGINES
from snnkit.train import recipes
from snnkit.train.launch import PEER, REQUEUED
from snnkit.train.place import Place
from snnkit.train.recipe import DATASETS, ENCODINGS, LOSSES, NETWORKS, OPTIMIZERS, SCHEDULES
from snnkit.train.told import run_told, write_record

# Every setting of a recipe as an option: its type for click, and what it is.
_SETTINGS: dict[str, tuple[Any, str]] = {
    "dataset": (click.Choice(DATASETS), "Data set."),
    "network": (click.Choice(tuple(NETWORKS)), "Kind of network."),
    "channels": (click.IntRange(1), "Channels of the conv net."),
    "hidden": (click.IntRange(1), "Neurons of the hidden layer."),
    "populations": (click.IntRange(1), "Of the statistical net."),
    "steps": (click.IntRange(1), "Time steps, T."),
    "encoding": (click.Choice(ENCODINGS), "How images become sequences."),
    "gain": (float, "Factor of images before they are encoded."),
    "epochs": (click.IntRange(1), "In all, with those before --resume."),
    "batch_size": (click.IntRange(1), "Samples per batch, of all ranks together."),
    "samples": (click.IntRange(1), "Use only so many training samples."),
    "optimizer": (click.Choice(OPTIMIZERS), ""),
    "lr": (float, "Learning rate."),
    "momentum": (float, "Of SGD."),
    "weight_decay": (float, ""),
    "schedule": (click.Choice(SCHEDULES), "Of the learning rate."),
    "loss": (click.Choice(LOSSES), ""),
    "shift": (click.IntRange(0), "Augmentation: move images by up to so many pixels."),
    "flip": (bool, "Augmentation: mirror images."),
    "degrees": (float, "Augmentation: turn images by up to so much."),
    "amp": (bool, "Mixed precision."),
    "channels_last": (bool, "Memory format of convolutions."),
    "compile": (bool, "The model under torch.compile."),
    "graphed": (bool, "Whole updates as one CUDA graph. Default: on a GPU."),
    "clip": (float, "Largest norm of the gradient."),
    "accumulate": (click.IntRange(1), "Batches per update."),
    "engine": (click.Choice(ENGINES), "Of the neurons."),
    "seed": (int, "Of everything."),
}


_WORDS = "snnkit.train.words"
_NEEDS = {"--resume": "go on from", "--every": "write", "--restarts": "go on from"}  # --checkpoint, the file to ...


def _settings(command: Any) -> Any:
    for name, (kind, text) in reversed(_SETTINGS.items()):
        dashed = name.replace("_", "-")
        flags = f"--{dashed}/--no-{dashed}" if kind is bool else f"--{dashed}"
        command = click.option(flags, name, type=None if kind is bool else kind, default=None, help=text)(command)
    return command


def _catalogue() -> str:
    width = max(map(len, recipes.names()))
    return "\n".join(f"{name:<{width}}  {recipes.get(name).about}" for name in recipes.names())


class _Remembering(click.Command):
    """Keeps the words it was called with, which ranks that it starts are called with, too."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_WORDS] = list(args)
        return super().parse_args(ctx, args)


@click.command(
    cls=_Remembering,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nRecipes:\n" + "\n".join(f"  {line}" for line in _catalogue().splitlines()),
)
@click.argument("name", metavar="RECIPE", required=False)
@_settings
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option("--threads", type=click.IntRange(1), default=None, help="CPU threads.  [PyTorch's choice]")
@click.option("--data", "root", metavar="DIR", help="Folder with mnist/ and fashion/.  [SNNKIT_DATA, or a cache]")
@click.option("--checkpoint", metavar="FILE", help="Written after each epoch; its settings go beside it, FILE.json.")
@click.option("--resume", is_flag=True, help="Go on from --checkpoint, where it is.")
@click.option("--log", metavar="DIR", help="Write curves for TensorBoard.")
@click.option("--out", metavar="FILE.json", help="Write a record of the run (`snnkit bench show FILE.json` shows it).")
@click.option("--progress/--no-progress", default=True, help="A bar for the batches.")
@click.option("--devices", type=click.IntRange(1), help="Ranks on each node, with a GPU each, or on the CPU.")
@click.option("--nodes", type=click.IntRange(1), help="Nodes; with srun or torchrun.")
@click.option("--every", type=click.IntRange(1), metavar="UPDATES", help="Write --checkpoint within epochs, too.")
@click.option(
    "--timeout",
    type=click.FloatRange(0, min_open=True),
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="How long ranks wait for one that is stuck.",
)
@click.option(
    "--restarts",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="How often to go on from --checkpoint when a rank has died; with --devices on this machine.",
)
@click.option(
    "--requeue-signal",
    default="SIGUSR1",
    show_default=True,
    metavar="SIGNAL",
    help="Of SLURM: save, requeue the job, and end.",
)
def train(
    name: str | None,
    device: str,
    threads: int | None,
    root: str | None,
    checkpoint: str | None,
    resume: bool,
    log: str | None,
    out: str | None,
    progress: bool,
    devices: int | None,
    nodes: int | None,
    every: int | None,
    timeout: float,
    restarts: int,
    requeue_signal: str,
    **settings: Any,
) -> None:
    """Train a network by a named recipe, and print a line for each epoch; without a name, list the recipes.

    Every setting of a recipe can be given another value. After a kill, the same command with --resume goes on from the
    last checkpoint; on a CPU the weights come out as if nothing had happened.

    With --devices 2 two processes of this machine train together, through Lightning. Under torchrun or srun each
    process joins the others by itself. SIGTERM (and, under SLURM, the signal to requeue) makes them save together and
    end. Exit codes: 0, 1 for an error, 2 for wrong usage, 130 and 143 after Ctrl-C and SIGTERM, 75 for a job that is
    requeued, 76 for a rank that ended only because it lost another one.
    """
    import torch

    if name is None:
        click.echo(_catalogue())
        return
    if not checkpoint:
        for flag, given in (("--resume", resume), ("--every", every), ("--restarts", restarts)):
            if given:
                raise click.UsageError(f"{flag} needs --checkpoint, the file to {_NEEDS[flag]}")
    try:
        place = Place.found()
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if threads is not None:
        torch.set_num_threads(threads)
    settings = {setting: value for setting, value in settings.items() if value is not None}
    options = {"device": device, "root": root, "checkpoint": checkpoint, "resume": resume}
    if place.launcher == "alone" and (devices or 1) * (nodes or 1) > 1:
        from snnkit.train import start

        words = click.get_current_context().meta[_WORDS]
        start.ranks(name, settings, words, devices or 1, nodes or 1, restarts, device, checkpoint, resume)
        return
    if restarts:
        raise click.UsageError("--restarts needs --devices of 2 or more, outside of torchrun and srun")
    if place.launcher != "alone" or devices is not None or every is not None:
        options |= {"devices": devices, "nodes": nodes, "every": every, "timeout": timeout}
        _join(place, name, settings, log, out, requeue_signal=requeue_signal, progress=progress, **options)
        return
    run = run_told(recipes.run, name, settings, log, out, progress=progress, **options)
    if out:
        write_record(out, run)
    if run.history.interrupted:
        where = f"; --resume goes on from {checkpoint}" if checkpoint and run.history.epochs else ""
        click.echo(f"\ninterrupted after {run.history.epochs} of {run.recipe.epochs} epochs{where}", err=True)
        sys.exit(130)


def _join(place: Place, name: str, settings: dict[str, Any], log: str | None, out: str | None, **options: Any) -> None:
    """Train as one rank among all, through Lightning. Where there are others, this ends the process."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*LeafSpec.* is deprecated.*")  # torch 2.13 of Lightning 2.6
            from snnkit.train.lit.preempt import CTRL_C, REQUEUE, TERMINATE, RequeueError
            from snnkit.train.lit.run import RankError, run_recipe
    except ImportError as error:
        raise click.ClickException(str(error)) from None
    first = place.rank == 0
    try:
        run = run_told(run_recipe, name, settings, log, out, first=first, **options)
        if out and first:
            write_record(out, run, ranks=place.world)
    except RankError as error:
        _leave(place, str(error), PEER)
    except RequeueError as error:  # who started the job may do it: a batch script around a container, say
        _leave(place, str(error) if first else "", REQUEUED)
    except click.ClickException as error:
        if place.world == 1:
            raise
        _leave(place, f"{'' if first else f'rank {place.rank}: '}{error}", getattr(error, "exit_code", 1))
    except Exception:
        if place.world == 1:
            raise
        _leave(place, traceback.format_exc(), 1)
    if run.stopped is None:
        _leave(place, "", 0)
    if first:
        saved = f"; --resume goes on from {options['checkpoint']}" if options["checkpoint"] else "; nothing is saved"
        told = f"; {run.requeued}" if run.requeued else saved
        epoch = f"epoch {min(run.history.epochs + 1, run.recipe.epochs)} of {run.recipe.epochs}"
        click.echo(f"\n{run.stopped} after update {run.updates}, in {epoch}{told}", err=True)
    _leave(place, "", {REQUEUE: REQUEUED, CTRL_C: 130, TERMINATE: 143}[run.stopped.cause])


def _leave(place: Place, message: str, code: int) -> NoReturn:
    """End this rank now. In the ordinary way it would first close connections, and may wait for ranks that are gone."""
    if message:
        click.echo(f"Error: {message}", err=True)
    if place.world == 1:
        sys.exit(code)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
