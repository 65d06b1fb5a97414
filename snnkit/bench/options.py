"""Options that the commands of ``snnkit bench`` share."""

from __future__ import annotations

import click

DEVICE = click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
THREADS = click.option("--threads", type=click.IntRange(1), default=None, help="CPU threads.  [on a CPU: 1]")
KEEP_MEMORY = click.option(
    "--keep-memory/--no-keep-memory",
    default=True,
    help="As for `snnkit bench neurons`: the C library keeps large tensors that are freed (Linux, CPU).",
)
OUT = click.option("--out", type=click.Path(dir_okay=False), metavar="FILE.json", help="Write a record.")
PLOT = click.option("--plot", type=click.Path(dir_okay=False), metavar="FILE", help="Draw it: .png or .html.")


def repeats(count: int):
    """Rounds, ``count`` by default (in ``--quick`` fewer)."""
    return click.option(
        "--repeats", type=click.IntRange(3), default=None, help=f"Rounds of which the median is taken.  [{count}]"
    )
