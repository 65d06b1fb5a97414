"""The command ``snnkit bench training``. PyTorch is imported when it runs."""

from __future__ import annotations

import click

from . import options
from .command import chosen_device, measured, prepare_process

NETS = ("conv", "mlp")
DTYPES = ("float32", "amp")
WIDTH = {"cpu": 32, "cuda": 128}


@click.command()
@options.DEVICE
@click.option("--net", "nets", type=click.Choice(NETS), multiple=True, help="Repeatable. Default: both.")
@click.option(
    "--width", type=click.IntRange(1), default=None, help="Channels of the conv net.  [on a CPU: 32, on CUDA: 128]"
)
@click.option("--hidden", type=click.IntRange(1), default=None, help="Hidden neurons of the dense net.  [1000]")
@click.option("--batch", type=click.IntRange(1), default=None, help="Samples of an update.  [128]")
@click.option(
    "--dtype", "dtypes", type=click.Choice(DTYPES), multiple=True, help="amp: mixed precision. Default: both."
)
@click.option("--peers/--no-peers", default=True, help="Time the other libraries that are installed (`make peers`).")
@click.option("--compile/--no-compile", "compiled", default=True, help="With torch.compile, which takes minutes.")
@options.repeats(11)
@options.THREADS
@options.KEEP_MEMORY
@options.OUT
@options.PLOT
@click.option("--quick", is_flag=True, help="Tiny networks: shows that everything runs, its times mean nothing.")
def training(
    device: str,
    nets: tuple[str, ...],
    width: int | None,
    hidden: int | None,
    batch: int | None,
    dtypes: tuple[str, ...],
    peers: bool,
    compiled: bool,
    repeats: int | None,
    threads: int | None,
    keep_memory: bool,
    out: str | None,
    plot: str | None,
    quick: bool,
) -> None:
    """Time the training of whole networks: samples per second, ours and the installed peers.

    conv is the convolutional net of SpikingJelly's tutorial (T = 4), mlp is 784-1000-10 (T = 25) with the neuron of
    each library. Weights, batch, loss and optimizer are the same for all, and one update is compared before anything is
    timed. "x floor" is the time over that of the floating-point operations at the rate of a large matrix product,
    measured in the same rounds.
    """
    import torch

    from .training import Arguments, benchmark

    where = chosen_device(device, torch.cuda.is_available())
    check_plot(plot)
    prepare_process(where, threads, keep_memory)
    arguments = Arguments(
        device=where,
        nets=nets or NETS,
        width=width or (4 if quick else WIDTH[where]),
        hidden=hidden or (16 if quick else 1000),
        batch=batch or (8 if quick else 128),
        dtypes=dtypes or DTYPES,
        peers=peers,
        compiled=compiled and not quick,
        repeats=repeats or (3 if quick else 11),
    )
    result = measured(benchmark, arguments, out)
    if plot:
        from ..viz import figures

        draw(figures.training_rates([result]), plot)


def check_plot(plot: str | None) -> None:
    """UsageError unless the file that is to be drawn is of a kind that can be."""
    if plot is not None and plot.rpartition(".")[2].lower() not in ("png", "html"):
        raise click.UsageError(f"--plot must end in .png or .html, was {plot!r}")


def draw(figure: object, plot: str) -> None:
    """Write a plotly figure to a .png or .html file."""
    from pathlib import Path

    from .. import viz
    from ..files import replacing

    try:
        png = plot.lower().endswith(".png")
        content = viz.png_bytes(figure) if png else figure.to_html(include_plotlyjs="cdn").encode()  # type: ignore
        with replacing(Path(plot)) as file:
            file.write(content)
    except OSError as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"\nplot: {plot}")
