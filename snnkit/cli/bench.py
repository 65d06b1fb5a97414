"""``snnkit bench``: measure, and show what was measured."""

from __future__ import annotations

from typing import Any

import click

from snnkit.cli import SETTINGS, LazyGroup

BENCHMARKS = {
    "neurons": (
        "snnkit.bench.command:neurons",
        "Time a layer of neurons over time: our engines and the installed peers.",
    ),
    "training": (
        "snnkit.bench.training_command:training",
        "Time the training of whole networks: samples per second, ours and the installed peers.",
    ),
    "demo": (
        "snnkit.bench.demo_command:demo",
        "CPU against GPU for every model of the kit: samples per second, table and plot.",
    ),
    "scaling": (
        "snnkit.bench.scaling_command:scaling",
        "Weak scaling on this machine: ranks that train together, predicted and measured.",
    ),
    "compare": (
        "snnkit.bench.compare_command:compare",
        "The network of snnTorch's IPU tutorial: training rate here, and what is published.",
    ),
    "explorers": (
        "snnkit.bench.explorers_command:explorers",
        "Time how quickly the ready-made explorers follow a control.",
    ),
    "events": (
        "snnkit.bench.events_command:events",
        "Time the conversion of event data: frames, time surfaces, voxel grids.",
    ),
    "local": (
        "snnkit.bench.local_command:local",
        "Learn images without labels: STDP, lateral inhibition and homeostasis.",
    ),
    "plasticity": (
        "snnkit.bench.plasticity_command:plasticity",
        "Time STDP on a CPU, dense and of convolutions, ours and Norse's.",
    ),
}


@click.group(cls=LazyGroup, lazy=BENCHMARKS, context_settings=SETTINGS)
def bench() -> None:
    """Measure, and show what was measured."""


@bench.command()
@click.argument("record", metavar="FILE|NAME")
@click.option("--plot", type=click.Path(dir_okay=False), metavar="FILE", help="Draw it: .png or .html.")
@click.option("--beside", multiple=True, metavar="FILE|NAME", help="Another record for the plot; repeatable.")
@click.option("--neurons", "size", type=click.IntRange(1), metavar="N", help="Size to plot. Default: the largest.")
@click.option("--dtype", default="float32", show_default=True, help="Of the input, in the plot.")
def show(record: str, plot: str | None, beside: tuple[str, ...], size: int | None, dtype: str) -> None:
    """Print a record: a file that `snnkit bench ... --out` wrote, or the name of one that comes with the kit."""
    from snnkit.bench import (
        compare_table,
        demo_table,
        local,
        plasticity_table,
        scaling_command,
        scaling_table,
        table,
        training_table,
    )

    first = _record(record)
    tables = {"training": training_table.tables, "demo": demo_table.tables, "scaling": scaling_table.tables}
    tables |= {"compare": compare_table.tables, "plasticity": plasticity_table.tables}
    click.echo(tables.get(first["kind"], table.tables)(first))
    if plot is None:
        return
    suffix = plot.rpartition(".")[2].lower()
    if first["kind"] == "plasticity":
        raise click.UsageError("there is no plot of records of this kind")
    if suffix not in ("png", "html"):
        raise click.UsageError(f"--plot must end in .png or .html, was {plot!r}")
    from pathlib import Path

    from snnkit import viz
    from snnkit.files import replacing

    every = [first, *map(_record, beside)]
    try:
        if first["kind"] == "training":
            figure = viz.figures.training_rates(every)
        elif first["kind"] == "demo":
            figure = viz.figures.device_rates(every)
        elif first["kind"] == "scaling":
            figure = scaling_command.figure(first)
        elif first["kind"] == "local":
            figure = local.figure(first)
        elif first["kind"] == "compare":
            figure = viz.figures.comparison(every)
        else:
            figure = viz.figures.races(every, neurons=size, dtype=dtype)
        content = viz.png_bytes(figure) if suffix == "png" else figure.to_html(include_plotlyjs="cdn").encode()
        with replacing(Path(plot)) as file:
            file.write(content)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"\nplot: {plot}")


def _record(name: str) -> dict[str, Any]:
    """The record of this name, or in this file."""
    from pathlib import Path

    from snnkit import records
    from snnkit.bench.record import RecordError, read

    try:
        return records.load(name) if name in records.names() else read(Path(name))
    except FileNotFoundError:
        known = ", ".join(records.names())
        raise click.UsageError(f"there is no file {name!r}, and no record of that name; there are: {known}") from None
    except (OSError, RecordError) as error:
        raise click.ClickException(str(error)) from None
