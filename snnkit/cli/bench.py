"""``snnkit bench``: measure, and show what was measured. PyTorch is imported when a command is called."""

from __future__ import annotations

import inspect
import os
import sys
from dataclasses import Field, fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from snnkit.cli import SETTINGS, LazyGroup

# Suites of ``snnkit.bench`` that are commands: their options are the fields of ``Arguments``, their help is the text of
# the module and of its table.
SUITES = {
    "neurons": "Time a layer of neurons over time: our engines and the installed peers.",
    "training": "Time the training of whole networks: samples per second, ours and the installed peers.",
    "demo": "CPU against GPU for every model of the kit: samples per second, table and plot.",
    "scaling": "Weak scaling on this machine: ranks that train together, predicted and measured.",
    "compare": "The network of snnTorch's IPU tutorial: training rate here, and what is published.",
    "plasticity": "Time STDP on a CPU, dense and of convolutions, ours and Norse's.",
}
_PLOTTED = ("training", "demo", "scaling", "compare")

_COUNT = click.IntRange(1)
_FILE = click.Path(dir_okay=False)
OUT = click.option("--out", type=_FILE, metavar="FILE.json", help="Write a record.")
PLOT = click.option("--plot", type=_FILE, metavar="FILE", help="Draw it: .png or .html.")
_KEEP_MEMORY = (
    "Let the C library reuse large tensors that are freed, instead of returning their pages to the kernel (Linux, "
    "CPU). The process restarts itself for that, as the settings are read when it starts."
)


class Suites(LazyGroup):
    """Makes the command of a suite when it is called."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _command(cmd_name) if cmd_name in SUITES else super().get_command(ctx, cmd_name)


@click.group(cls=Suites, lazy={name: ("", line) for name, line in SUITES.items()}, context_settings=SETTINGS)
def bench() -> None:
    """Measure, and show what was measured."""


def _command(name: str) -> click.Command:
    from snnkit import bench as room

    suite = getattr(room, name)
    texts = [suite.__doc__, suite.results.__doc__ if name == "scaling" else suite.SUITE.table.__doc__]
    paragraphs = [
        part.strip()
        for text in texts
        for part in inspect.cleandoc(text or "").split("\n\n")
        if "    snnkit " not in part
    ]
    options = [_option(each) for each in fields(suite.Arguments) if "text" in each.metadata]
    options += [
        click.Option(["--threads"], type=_COUNT, help="CPU threads.  [on a CPU: 1]"),
        click.Option(["--keep-memory/--no-keep-memory"], default=True, help=_KEEP_MEMORY),
        click.Option(["--out"], type=_FILE, metavar="FILE.json", help="Write a record."),
        click.Option(["--quick"], is_flag=True, help="Something tiny: shows that all runs, its times mean nothing."),
    ]
    if name in _PLOTTED:
        options.append(click.Option(["--plot"], type=_FILE, metavar="FILE", help="Draw it: .png or .html."))
    return click.Command(name, params=list(options), callback=partial(_run, name), help="\n\n".join(paragraphs))


def _option(each: Field) -> click.Option:
    """The option of a field of ``Arguments``."""
    about = each.metadata
    default: Any = each.default
    name, several = about["flag"] or each.name, isinstance(default, tuple)
    if isinstance(default, bool):
        return click.Option([f"--{name}/--no-{name}", each.name], default=None, help=about["text"])
    sample = (*default, "")[0] if several else default
    kinds = {int: click.IntRange(about["least"]), float: click.FloatRange(0, 1), str: click.STRING}
    kind = click.Choice(about["choices"]) if about["choices"] else kinds[type(sample)]
    values = [" ".join(map(str, value)) if several else value for value in (default, about["cuda"]) if value]
    shown = ", on CUDA ".join(map(str, values))
    text = f"{about['text']}{' Repeatable.' if several else ''}{f'  [{shown}]' if shown else ''}"
    return click.Option([f"--{name}", each.name], type=kind, multiple=several, default=None, help=text)


def _run(
    name: str,
    *,
    device: str = "",
    threads: int | None,
    keep_memory: bool,
    out: str | None,
    quick: bool,
    plot: str | None = None,
    **given: Any,
) -> None:
    """Run a suite and print its tables; write its record and its plot where there is a file for them."""
    import torch

    from snnkit import bench as room
    from snnkit.bench.suite import chosen
    from snnkit.records import RecordError

    suite = getattr(room, name)
    cuda = torch.cuda.is_available()
    device = device or suite.Arguments.device
    if device == "cuda" and not cuda:
        raise click.UsageError("--device cuda: PyTorch finds no CUDA device here (`snnkit doctor` says why)")
    device = ("cuda" if cuda else "cpu") if device == "auto" else device
    _check_plot(plot)
    try:
        arguments = chosen(suite.Arguments, device, quick=quick, **given)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if device == "cpu" and name != "demo":
        threads = threads or 1
    if keep_memory and (device == "cpu" or name == "demo"):
        _restart_with_malloc_settings(threads)
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        result = suite.benchmark(arguments, click.echo, out)
    except (OSError, RecordError, *getattr(suite, "ERRORS", ())) as error:
        raise click.ClickException(str(error)) from None
    if out:
        click.echo(f"\nrecord: {out}")
    if not result["rows"]:
        raise click.ClickException("no candidate could be timed; the lines above say why")
    beside = _gpu_demos() if name == "demo" and device == "cpu" else []
    if plot:
        _draw([result, *beside], plot)


def _restart_with_malloc_settings(threads: int | None) -> None:
    """Replace this process by itself with the C library's settings in its environment, unless it has them.

    For our engines and for other libraries alike.
    """
    from snnkit.measure import MALLOC_SETTINGS

    settings = MALLOC_SETTINGS | ({"OMP_NUM_THREADS": str(threads)} if threads else {})
    if sys.platform.startswith("linux") and any(os.environ.get(name) != value for name, value in settings.items()):
        # The arguments as the interpreter got them: they are the same for the command, `python -m` and a script.
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, **settings})


def _check_plot(plot: str | None) -> None:
    if plot is not None and plot.rpartition(".")[2].lower() not in ("png", "html"):
        raise click.UsageError(f"--plot must end in .png or .html, but it is {plot!r}")


def _draw(records: list[dict[str, Any]], plot: str, **options: Any) -> None:
    """Write the figure of the first record's kind, with the other records beside it."""
    from snnkit import viz
    from snnkit.bench import local, scaling
    from snnkit.files import replacing

    first, figures = records[0], viz.figures
    try:
        if first["kind"] == "scaling":
            measured, lines, cores = scaling.curves(first)
            figure = figures.scaling_efficiency(measured, lines, cores=cores)
        elif first["kind"] == "local":
            weights, labels = local.fields_of(first)
            title = f"Fields of the first {len(labels)} of {first['arguments']['neurons']} neurons"
            shape = (first["fields"]["height"], first["fields"]["width"])
            figure = figures.weights(weights, shape=shape, most=len(labels), title=title)
        else:
            draw = {
                "training": figures.training_rates,
                "demo": figures.device_rates,
                "compare": figures.comparison,
            }.get(first["kind"])
            figure = draw(records) if draw else figures.races(records, **options)
        png = plot.lower().endswith(".png")
        content = viz.png_bytes(figure) if png else figure.to_html(include_plotlyjs="cdn").encode()
        with replacing(Path(plot)) as file:
            file.write(content)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"\nplot: {plot}")


def _gpu_demos() -> list[dict[str, Any]]:
    """Print the records of this kind from GPUs that come with the kit, and return them."""
    from snnkit import bench as room
    from snnkit import records

    click.echo("\nNo CUDA device here (`snnkit doctor` says why): only the CPU was measured.")
    every = {name: records.load(name) for name in records.names("demo")}
    gpus = {name: record for name, record in every.items() if record["provenance"]["device"]["type"] == "cuda"}
    for name, record in gpus.items():
        click.echo(f"\nMeasured elsewhere, record {name!r}:\n\n{room.tables(record)}")
    if not gpus:
        click.echo("No record from a GPU comes with the kit yet: `make gpu` writes one where there is a GPU.")
    return list(gpus.values())


@bench.command()
@click.option("--dataset", type=click.Choice(["digits", "mnist"]), default="digits", show_default=True)
@click.option("--neurons", type=click.IntRange(2), help="That compete.  [digits 100, mnist 400]")
@click.option("--passes", type=_COUNT, help="Through the training images.  [4, mnist 3]")
@click.option("--batch", "batch_size", type=_COUNT, help="Images at once.  [digits 16, mnist 32]")
@click.option("--samples", type=_COUNT, help="Use only so many training images.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
@click.option("--threads", type=_COUNT, default=1, show_default=True, help="CPU threads.")
@click.option("--data", "root", metavar="DIR", help="Folder with mnist/.  [SNNKIT_DATA, or a cache]")
@OUT
def local(dataset: str, threads: int, out: str | None, **given: Any) -> None:
    """Learn images without labels: STDP, lateral inhibition and homeostasis; accuracy on test images, pass by pass."""
    import torch
    from tqdm.auto import tqdm

    from snnkit.bench import local as suite
    from snnkit.records import RecordError

    torch.set_num_threads(threads)
    bar = tqdm(unit="image", unit_scale=True)

    def show(progress: Any) -> None:
        bar.total = progress.of
        bar.update(progress.images - bar.n)

    try:
        if out:
            Path(out).parent.mkdir(parents=True, exist_ok=True)  # or it fails when everything is learned
        with bar:
            record = suite.benchmark(dataset, show, out, **given)
    except (ValueError, OSError, RecordError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(suite.tables(record))
    if out:
        click.echo(f"\nrecord: {out}")


@bench.command()
@click.option("--events", "count", type=_COUNT, default=2_000_000, show_default=True, help="Of a second.")
@click.option("--side", type=click.IntRange(1, 2**15), default=128, show_default=True, help="Pixels of the sensor.")
@click.option("--steps", type=_COUNT, default=20, show_default=True, help="Windows.")
@click.option("--threads", type=_COUNT, default=1, show_default=True, help="CPU threads.")
@click.option("--repeats", type=click.IntRange(3), default=11, show_default=True, help="Rounds.")
def events(count: int, side: int, steps: int, threads: int, repeats: int) -> None:
    """Time the conversion of event data: frames, time surfaces, voxel grids, in million events per second."""
    import torch

    from snnkit.bench import events as suite
    from snnkit.measure import processor

    torch.set_num_threads(threads)
    click.echo(f"torch {torch.__version__}, {processor()}, {threads} threads; {count:,} events, {side} × {side} pixels")
    click.echo(suite.table(suite.paces(count, (side, side), steps, repeats)))


@bench.command()
@click.argument("names", nargs=-1, metavar="[EXPLORER]...")
@click.option("--threads", type=_COUNT, help="CPU threads.  [PyTorch's default]")
def explorers(names: tuple[str, ...], threads: int | None) -> None:
    """Time how quickly the ready-made explorers follow a control, at its minimum, middle and maximum.

    EXPLORER is the name of one (neuron_lab); all by default. An update is the explorer's function plus the update of
    the figure in the kernel; a browser draws it after that. What takes longer than 100 ms is marked.
    """
    import torch

    from snnkit.viz.labs import LABS, time_updates, update_table

    known = {lab.name: lab for lab in LABS}
    for name in names:
        if name not in known:
            raise click.UsageError(f"EXPLORER must be one of {', '.join(known)}, but it is {name!r}")
    if threads is not None:
        torch.set_num_threads(threads)
    click.echo(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    click.echo(update_table([time_updates(known[name]) for name in names or known]))


@bench.command()
@click.argument("record", metavar="FILE|NAME")
@PLOT
@click.option("--beside", multiple=True, metavar="FILE|NAME", help="Another record for the plot; repeatable.")
@click.option("--neurons", type=_COUNT, metavar="N", help="Size to plot.  [the largest]")
@click.option("--dtype", default="float32", show_default=True, help="Of the input, in the plot.")
def show(record: str, plot: str | None, beside: tuple[str, ...], neurons: int | None, dtype: str) -> None:
    """Print a record: a file that `snnkit bench ... --out` wrote, or the name of one that comes with the kit."""
    from snnkit import bench as room

    first = _record(record)
    click.echo(room.tables(first))
    if plot is not None:
        if first["kind"] == "plasticity":
            raise click.UsageError("there is no plot of records of this kind")
        _check_plot(plot)
        _draw([first, *map(_record, beside)], plot, neurons=neurons, dtype=dtype)


def _record(name: str) -> dict[str, Any]:
    """The record of this name, or in this file."""
    from snnkit import records

    try:
        return records.load(name) if name in records.names() else records.read(Path(name))
    except FileNotFoundError:
        known = ", ".join(records.names())
        raise click.UsageError(f"there is no file {name!r}, and no record of that name; there are: {known}") from None
    except (OSError, records.RecordError) as error:
        raise click.ClickException(str(error)) from None
