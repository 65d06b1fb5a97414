"""The command ``snnkit bench explorers``. PyTorch and plotly are imported when it runs."""

from __future__ import annotations

import click


@click.command()
@click.argument("names", nargs=-1, metavar="[EXPLORER]...")
@click.option("--threads", type=click.IntRange(1), default=None, help="CPU threads.  [as PyTorch finds them]")
def explorers(names: tuple[str, ...], threads: int | None) -> None:
    """Time how quickly the ready-made explorers follow a control, at its minimum, middle and maximum.

    EXPLORER is the name of one (neuron_lab); all where none is given. An update is the explorer's function plus the
    update of the figure in the kernel; a browser draws it after that. What takes longer than 100 ms is marked.
    """
    import torch

    from snnkit.viz.labs import LABS
    from snnkit.viz.labs.timing import pace, table

    known = {lab.name: lab for lab in LABS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise click.UsageError(f"EXPLORER must be one of {', '.join(known)}, was {unknown[0]!r}")
    if threads is not None:
        torch.set_num_threads(threads)
    click.echo(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    click.echo(table([pace(known[name]) for name in names or known]))
