"""The command ``snnkit bench demo``. PyTorch is imported when it runs."""

from __future__ import annotations

import click

from .command import measured, start_anew_with
from .training_command import check_plot, draw

BATCHES = (1, 16, 128)
MODES = ("inference", "training")


@click.command()
@click.option("--model", "names", multiple=True, metavar="NAME", help='Repeatable; "all" is every model.  [all]')
@click.option("--batch", "batches", type=click.IntRange(1), multiple=True, help="Repeatable. Default: 1, 16, 128.")
@click.option("--mode", "modes", type=click.Choice(MODES), multiple=True, help="Repeatable. Default: both.")
@click.option("--repeats", type=click.IntRange(3), default=7, show_default=True, help="Rounds of the median, if short.")
@click.option("--threads", type=click.IntRange(1), default=None, help="CPU threads.  [PyTorch's choice]")
@click.option("--keep-memory/--no-keep-memory", default=True, help="As for `snnkit bench neurons`.")
@click.option("--out", type=click.Path(dir_okay=False), metavar="FILE.json", help="Write a record.")
@click.option("--plot", type=click.Path(dir_okay=False), metavar="FILE", help="Draw it: .png or .html.")
def demo(
    names: tuple[str, ...],
    batches: tuple[int, ...],
    modes: tuple[str, ...],
    repeats: int,
    threads: int | None,
    keep_memory: bool,
    out: str | None,
    plot: str | None,
) -> None:
    """CPU against GPU for every model of the kit: samples per second, table and plot.

    Without a GPU the CPU alone is measured, and records from GPUs that come with the kit are shown beside.
    """
    import torch

    from ..measure.memory import MALLOC_SETTINGS
    from .demo import Arguments, benchmark
    from .demo_models import demos

    known = tuple(demos())
    chosen = known if not names or "all" in names else tuple(dict.fromkeys(names))
    if wrong := [name for name in chosen if name not in known]:
        raise click.UsageError(f"--model must be one of all, {', '.join(known)}, was {wrong[0]!r}")
    check_plot(plot)
    if keep_memory:
        start_anew_with(MALLOC_SETTINGS)
    if threads is not None:
        torch.set_num_threads(threads)
    devices = ("cpu", "cuda") if torch.cuda.is_available() else ("cpu",)
    arguments = Arguments(devices, chosen, tuple(sorted(set(batches or BATCHES))), modes or MODES, repeats)
    if "cuda" not in devices:
        click.echo("No CUDA device here (`snnkit doctor` says why): a GPU can't be measured, the CPU stands alone.\n")
    result = measured(benchmark, arguments, out)
    shown = [result]
    if "cuda" not in devices:
        shown += _from_gpus()
    if plot:
        from ..viz import figures

        draw(figures.device_rates(shown), plot)


def _from_gpus() -> list[dict]:
    """Print the records of this kind, measured on GPUs, that come with the kit; and give them back."""
    from .. import records
    from .demo_table import tables

    every = [(name, records.load(name)) for name in records.names("demo")]
    found = [(name, record) for name, record in every if record["provenance"]["device"]["type"] == "cuda"]
    for name, record in found:
        click.echo(f"\nMeasured elsewhere, record {name!r}:\n\n{tables(record)}")
    if not found:
        click.echo("\nNo record from a GPU comes with the kit yet: `make gpu` writes one where there is a GPU.")
    return [record for _, record in found]
