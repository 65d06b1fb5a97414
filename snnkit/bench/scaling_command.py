"""The command ``snnkit bench scaling``. PyTorch is imported when it runs."""

from __future__ import annotations

from typing import Any

import click

from .command import chosen_device, measured, prepare_process
from .training_command import check_plot, draw

RANKS = (1, 2, 4)


@click.command()
@click.option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True)
@click.option(
    "--ranks",
    type=click.IntRange(1),
    multiple=True,
    metavar="N",
    help="Processes that train together; repeatable, 1 is always among them.  [1, 2, 4; on CUDA up to its devices]",
)
@click.option("--batch", type=click.IntRange(1), default=None, help="Samples of a rank in an update.  [256]")
@click.option("--hidden", type=click.IntRange(1), default=None, help="Hidden neurons.  [1000]")
@click.option("--steps", type=click.IntRange(1), default=None, metavar="T", help="Time steps.  [25]")
@click.option("--updates", type=click.IntRange(3), default=None, help="Timed in each round.  [60]")
@click.option("--repeats", type=click.IntRange(1), default=None, help="Rounds, of which the median is taken.  [5]")
@click.option(
    "--keep-memory/--no-keep-memory", default=True, help="As for `snnkit bench neurons`; all processes get it."
)
@click.option("--out", type=click.Path(dir_okay=False), metavar="FILE.json", help="Write a record.")
@click.option("--plot", type=click.Path(dir_okay=False), metavar="FILE", help="Draw it: .png or .html.")
@click.option("--quick", is_flag=True, help="A tiny network, one round: shows that everything runs.")
def scaling(
    device: str,
    ranks: tuple[int, ...],
    batch: int | None,
    hidden: int | None,
    steps: int | None,
    updates: int | None,
    repeats: int | None,
    keep_memory: bool,
    out: str | None,
    plot: str | None,
    quick: bool,
) -> None:
    """Weak scaling on this machine: what ranks reach that train together, predicted and measured.

    784-1000-10 (T = 25) through Lightning and DistributedDataParallel, 256 samples for each rank, one CPU thread each.
    First ranks are timed alone and side by side, and all-reduces without training; from that the scaling model says
    what ranks will reach together. Then they do it, 1, 2 and 4 in turn in every round, and the model is fitted to them.
    More ranks than cores take turns: 4 on 2 cores can't be more efficient than 50 %.
    """
    import torch

    from ..train.launch import LaunchError
    from .scaling import Arguments, benchmark

    where = chosen_device(device, torch.cuda.is_available())
    check_plot(plot)
    there = torch.cuda.device_count() if where == "cuda" else None
    several = sorted(set(ranks) or {n for n in RANKS if there is None or n <= there})
    if there is not None and several[-1] > there:
        raise click.UsageError(f"--ranks must be at most {there}, the CUDA devices here, but it is {several[-1]}")
    if several[-1] == 1:
        raise click.UsageError("--ranks must name a number above 1: one rank alone scales to nothing")
    prepare_process(where, 1, keep_memory)
    arguments = Arguments(
        device=where,
        ranks=tuple(sorted({1, *several})),
        hidden=hidden or (16 if quick else 1000),
        steps=steps or (4 if quick else 25),
        batch=batch or (8 if quick else 256),
        updates=updates or (5 if quick else 60),
        repeats=repeats or (1 if quick else 5),
    )
    try:
        result = measured(benchmark, arguments, out)
    except (LaunchError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    if plot:
        draw(figure(result), plot)


def figure(record: dict) -> Any:
    """The plot of a record of this kind."""
    from ..viz import figures
    from . import scaling_model

    fit = scaling_model.fitted(record)
    ranks = range(1, 2 * max(record["arguments"]["ranks"]) + 1)
    workload, machine = scaling_model.model_of(record)
    from ..hardware.scaling import curve

    lines = {"predicted": curve(workload, machine, ranks), "fitted": [fit.predict(n) for n in ranks]}
    return figures.scaling_efficiency(fit.measured, lines, cores=machine.cores)
