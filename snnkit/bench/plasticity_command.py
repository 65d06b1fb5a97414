"""The command ``snnkit bench plasticity``. PyTorch is imported when it runs."""

from __future__ import annotations

import click

from .command import measured, prepare_process


@click.command()
@click.option(
    "--rate",
    type=click.FloatRange(0, 1),
    default=0.02,
    show_default=True,
    help="Share of the neurons that fire in a step: 0.02 is 20 spikes a second at 1 ms.",
)
@click.option("--steps", type=click.IntRange(2), default=20, show_default=True, help="Of a sequence.")
@click.option("--repeats", type=click.IntRange(3), default=11, show_default=True, help="Rounds of the median.")
@click.option("--threads", type=click.IntRange(1), default=None, help="CPU threads.  [1]")
@click.option("--peers/--no-peers", default=True, help="Time Norse, too, where it is installed (`make peers`).")
@click.option("--keep-memory/--no-keep-memory", default=True, help="As for `snnkit bench neurons`.")
@click.option("--out", type=click.Path(dir_okay=False), metavar="FILE.json", help="Write a record.")
@click.option("--quick", is_flag=True, help="Tiny layers: shows that everything runs, its times mean nothing.")
def plasticity(
    rate: float,
    steps: int,
    repeats: int,
    threads: int | None,
    peers: bool,
    keep_memory: bool,
    out: str | None,
    quick: bool,
) -> None:
    """Time STDP on a CPU, dense and of convolutions: our step and our run, and Norse's step of the same rule.

    Weights are compared in float64 before anything is timed. "x floor" is the time of a step over that of a copy of the
    weights, which reads and writes each once.
    """
    from .plasticity import Arguments, benchmark

    prepare_process("cpu", threads, keep_memory)
    measured(benchmark, Arguments(rate, steps, repeats, peers, quick), out)
