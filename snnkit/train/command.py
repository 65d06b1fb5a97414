"""The command ``snnkit train``: run a recipe, from a shell."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from snnkit.data._files import destination
from snnkit.engine import ENGINES
from snnkit.train import recipes
from snnkit.train.archive import writable
from snnkit.train.recipe import DATASETS, LOSSES, NETWORKS, OPTIMIZERS, SCHEDULES
from snnkit.train.settings import SettingsFile

# Every setting of a recipe as an option: its type for click, and what it is.
_SETTINGS: dict[str, tuple[Any, str]] = {
    "dataset": (click.Choice(DATASETS), "Data set."),
    "network": (click.Choice(tuple(NETWORKS)), "Kind of network."),
    "channels": (click.IntRange(1), "Channels of the conv net."),
    "hidden": (click.IntRange(1), "Neurons of the hidden layer."),
    "populations": (click.IntRange(1), "Of the statistical net."),
    "steps": (click.IntRange(1), "Time steps, T."),
    "epochs": (click.IntRange(1), "In all, with those before --resume."),
    "batch_size": (click.IntRange(1), "Samples per batch."),
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


def _settings(command: Any) -> Any:
    for name, (kind, text) in reversed(_SETTINGS.items()):
        dashed = name.replace("_", "-")
        flags = f"--{dashed}/--no-{dashed}" if kind is bool else f"--{dashed}"
        command = click.option(flags, name, type=None if kind is bool else kind, default=None, help=text)(command)
    return command


def _catalogue() -> str:
    width = max(map(len, recipes.names()))
    return "\n".join(f"{name:<{width}}  {recipes.get(name).about}" for name in recipes.names())


@click.command(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nRecipes:\n" + "\n".join(f"  {line}" for line in _catalogue().splitlines()),
)
@click.argument("name", metavar="RECIPE", required=False)
@_settings
@click.option("--device", default="auto", show_default=True, help="auto, cpu, cuda, cuda:1, ...")
@click.option("--threads", type=click.IntRange(1), default=None, help="CPU threads.  [PyTorch's choice]")
@click.option("--data", "root", metavar="DIR", help="Folder with mnist/ and fashion/.  [SNNKIT_DATA, or a cache]")
@click.option("--checkpoint", metavar="FILE", help="Written after each epoch; its settings go beside it, FILE.json.")
@click.option("--resume", is_flag=True, help="Go on from --checkpoint.")
@click.option("--log", metavar="DIR", help="Write curves for TensorBoard.")
@click.option("--out", metavar="FILE.json", help="Write a record of the run (`snnkit bench show FILE.json` shows it).")
@click.option("--progress/--no-progress", default=True, help="A bar for the batches.")
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
    **settings: Any,
) -> None:
    """Train a network by a named recipe, and print a line for each epoch; without a name, list the recipes.

    Every setting of a recipe can be given another value. After a kill, the same command with --resume goes on from the
    last whole epoch; on a CPU the weights come out as if nothing had happened.
    """
    import torch

    if name is None:
        click.echo(_catalogue())
        return
    if resume and not checkpoint:
        raise click.UsageError("--resume needs --checkpoint, the file to go on from")
    if threads is not None:
        torch.set_num_threads(threads)
    settings = {setting: value for setting, value in settings.items() if value is not None}
    run = _run(
        name, settings, log, out, device=device, root=root, checkpoint=checkpoint, resume=resume, progress=progress
    )
    if out:
        _write(out, run)
    if run.history.interrupted:
        where = f"; --resume goes on from {checkpoint}" if checkpoint and run.history.epochs else ""
        click.echo(f"\ninterrupted after {run.history.epochs} of {run.recipe.epochs} epochs{where}", err=True)
        sys.exit(130)


def _run(name: str, settings: dict[str, Any], log: str | None, out: str | None, **options: Any) -> recipes.Run:
    """Run the recipe; what a user can put right is told without a traceback."""
    from snnkit.train.tensorboard import TensorBoard

    try:
        recipe = recipes.get(name, **settings)
        if out:
            _check_out(writable(out, "--out"), options["checkpoint"])
        board = TensorBoard(log, None if options["resume"] else recipe.settings()) if log else None
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from None
    except ImportError as error:
        raise click.ClickException(str(error)) from None
    lines = _Lines()
    if options["resume"]:
        file = options["checkpoint"]
        there = Path(file).expanduser().exists()
        click.echo(f"going on from {file}" if there else f"there is no {file} yet: from the start")
    try:
        run = recipes.run(name, on_epoch=[lines, *([board] if board else [])], **options, **settings)
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        if board:
            board.close()
    lines(run.history, run.model)  # where nothing was left to do
    return run


def _check_out(out: Path, checkpoint: str | None) -> None:
    """ValueError where the record would take the place of the checkpoint, or of the settings beside it."""
    if checkpoint is None:
        return
    file = SettingsFile(Path(checkpoint).expanduser())
    for path, what in ((file.checkpoint, "the checkpoint"), (file.path, "the settings beside --checkpoint")):
        if destination(out) == destination(writable(path, "--checkpoint")):
            raise ValueError(f"--out must be another file than {what}; got {str(out)!r} for both")


class _Lines:
    """Prints what each epoch did, above the bar; first those of a run that is resumed."""

    def __init__(self) -> None:
        self.printed = 0

    def __call__(self, history: Any, _model: Any) -> None:
        from tqdm.auto import tqdm

        lines = repr(history).splitlines()[1:]  # a head, then one for each epoch
        for line in lines[self.printed :]:
            tqdm.write(line)
        self.printed = len(lines)


def _write(out: str, run: recipes.Run) -> None:
    from snnkit.bench import record
    from snnkit.bench.recipes import record_of

    try:
        path = record.write(out, record_of(run))
    except (OSError, record.RecordError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"record: {path}")
