"""The command ``snnkit bench compare``. PyTorch is imported when it runs."""

from __future__ import annotations

import click

from . import options
from .command import chosen_device, measured, prepare_process
from .training_command import check_plot, draw

BATCHES = {"cpu": (16, 128, 1024), "cuda": (16, 32, 64, 128, 256, 512, 1024)}
HIDDEN = {"cpu": (128, 1000, 4096), "cuda": (128, 256, 512, 1000, 2048, 4096)}
DTYPES = {"cpu": ("float32",), "cuda": ("float32", "amp")}
CHIPS = ("GC200", "Bow")


@click.command()
@options.DEVICE
@click.option(
    "--batch", "batches", type=click.IntRange(1), multiple=True, metavar="B",
    help="Samples of an update, with 1000 neurons; repeatable. Default: 16, 128, 1024, on CUDA those between, too.",
)  # fmt: skip
@click.option(
    "--hidden", type=click.IntRange(1), multiple=True, metavar="N",
    help="Hidden neurons, with a batch of 128; repeatable. Default: 128, 1000, 4096, on CUDA those between, too.",
)  # fmt: skip
@click.option("--steps", type=click.IntRange(1), default=None, metavar="T", help="Time steps.  [25]")
@click.option(
    "--dtype", "dtypes", type=click.Choice(["float32", "amp"]), multiple=True,
    help="amp: mixed precision. Default: float32, on CUDA both.",
)  # fmt: skip
@click.option(
    "--chip", "chips", multiple=True, metavar="NAME", help="IPUs to predict; repeatable. Default: GC200, Bow."
)
@click.option("--peers/--no-peers", default=True, help="Time snnTorch, if it is installed (`make peers`).")
@options.repeats(7)
@options.THREADS
@options.KEEP_MEMORY
@options.OUT
@options.PLOT
@click.option("--quick", is_flag=True, help="A tiny network: shows that everything runs, its times mean nothing.")
def compare(
    device: str,
    batches: tuple[int, ...],
    hidden: tuple[int, ...],
    steps: int | None,
    dtypes: tuple[str, ...],
    chips: tuple[str, ...],
    peers: bool,
    repeats: int | None,
    threads: int | None,
    keep_memory: bool,
    out: str | None,
    plot: str | None,
    quick: bool,
) -> None:
    """The network of snnTorch's IPU tutorial: how fast this machine trains it, and what is said of IPUs.

    Measured: our engines, and eager snnTorch where it is installed, over batches and numbers of hidden neurons.
    Predicted: a band for each IPU. Published: ratios of others, with their sources. No IPU was ever run.
    """
    import torch

    from .compare import Arguments, benchmark, check_chips

    where = chosen_device(device, torch.cuda.is_available())
    check_plot(plot)
    try:
        wanted = check_chips(chips or CHIPS)
    except ValueError as error:
        raise click.UsageError(f"--chip: {error}") from None
    prepare_process(where, threads, keep_memory)
    arguments = Arguments(
        device=where,
        batches=tuple(sorted(set(batches or ((4,) if quick else BATCHES[where])))),
        hidden=tuple(sorted(set(hidden or ((8,) if quick else HIDDEN[where])))),
        batch=4 if quick else 128,
        width=8 if quick else 1000,
        steps=steps or (3 if quick else 25),
        dtypes=dtypes or DTYPES[where],
        chips=wanted,
        peers=peers,
        repeats=repeats or (3 if quick else 7),
    )
    result = measured(benchmark, arguments, out)
    if plot:
        from ..viz import figures

        draw(figures.comparison([result]), plot)
