"""The command ``snnkit bench events``. PyTorch is imported when it runs."""

from __future__ import annotations

import click


@click.command()
@click.option("--events", "count", type=click.IntRange(1), default=2_000_000, show_default=True, help="Of a second.")
@click.option("--side", type=click.IntRange(1, 2**15), default=128, show_default=True, help="Pixels of the sensor.")
@click.option("--steps", type=click.IntRange(1), default=20, show_default=True, help="Windows.")
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="CPU threads.")
@click.option("--repeats", type=click.IntRange(3), default=11, show_default=True, help="Rounds.")
def events(count: int, side: int, steps: int, threads: int, repeats: int) -> None:
    """Time the conversion of event data: frames, time surfaces, voxel grids, in million events per second."""
    import torch

    from snnkit.bench.events import paces, table
    from snnkit.measure.machine import processor

    torch.set_num_threads(threads)
    click.echo(f"torch {torch.__version__}, {processor()}, {threads} threads; {count:,} events, {side} × {side} pixels")
    click.echo(table(paces(count, (side, side), steps, repeats)))
