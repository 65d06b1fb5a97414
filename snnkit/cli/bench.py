"""``snnkit bench``: measure, and show what was measured. PyTorch is imported when a command runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from snnkit.cli import SETTINGS

_COUNT = click.IntRange(1)
_FILE = click.Path(dir_okay=False)


def _option(*names: str, **settings: Any) -> Callable[..., Any]:
    return click.option(*names, **settings)


def _several(*names: str, what: str, kind: Any = _COUNT, **settings: Any) -> Callable[..., Any]:
    return click.option(*names, type=kind, multiple=True, help=f"{what}; repeatable.", **settings)


# Options that commands share.
DEVICE = _option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", show_default=True)
STEPS = _option("--steps", type=_COUNT, metavar="T", help="Time steps.  [25]")
AMP = _several("--dtype", "dtypes", kind=click.Choice(["float32", "amp"]), what="amp is mixed precision")
PEERS = _option("--peers/--no-peers", default=True, help="Time the other libraries that are installed (`make peers`).")
THREADS = _option("--threads", type=_COUNT, help="CPU threads.  [on a CPU: 1]")
MODES = _several("--mode", "modes", kind=click.Choice(["inference", "training"]), what="[both]")
KEEP_MEMORY = _option(
    "--keep-memory/--no-keep-memory",
    default=True,
    help="Let the C library reuse large tensors that are freed, instead of returning their pages to the kernel (Linux, "
    "CPU). The process restarts itself for that, as the settings are read when it starts.",
)
OUT = _option("--out", type=_FILE, metavar="FILE.json", help="Write a record.")
PLOT = _option("--plot", type=_FILE, metavar="FILE", help="Draw it: .png or .html.")
QUICK = _option("--quick", is_flag=True, help="Something tiny: shows that everything runs, its times mean nothing.")


def _repeats(default: int, least: int = 3) -> Callable[..., Any]:
    return _option("--repeats", type=click.IntRange(least), help=f"Rounds of which the median is taken.  [{default}]")


@click.group(context_settings=SETTINGS)
def bench() -> None:
    """Measure, and show what was measured."""


def _measure(*options: Callable[..., Any]) -> Callable[[Callable[[], None]], click.Command]:
    """A command of ``snnkit bench`` that runs the suite of its name; its help is the docstring."""

    def decorate(described: Callable[[], None]) -> click.Command:
        def call(**given: Any) -> None:
            _run(described.__name__, **given)

        for option in reversed(options):
            call = option(call)
        return bench.command(described.__name__, help=described.__doc__)(call)

    return decorate


def _run(
    name: str,
    *,
    device: str = "cpu",
    threads: int | None = None,
    keep_memory: bool = True,
    out: str | None = None,
    plot: str | None = None,
    **given: Any,
) -> None:
    """Run a suite and print its tables; write its record and its plot where there is a file for them."""
    import torch

    import snnkit.bench
    from snnkit.records import RecordError

    if device == "cuda" and not torch.cuda.is_available():
        raise click.UsageError("--device cuda: PyTorch finds no CUDA device here (`snnkit doctor` says why)")
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    _check_plot(plot)
    suite = getattr(snnkit.bench, name)
    try:
        arguments = suite.arguments(device=device, **given)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if name != "demo" and device == "cpu":
        threads = threads or 1
    if keep_memory and (name == "demo" or device == "cpu"):
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


@_measure(
    DEVICE,
    _several("--neurons", metavar="N", what="Neurons in the layer  [4096, 65536, and 2^18 on a CPU or 2^20 on CUDA]"),
    _several("--steps", metavar="T", what="Time steps  [8, 16, 32, 64, 128]"),
    _several(
        "--dtype",
        "dtypes",
        kind=click.Choice(["float32", "bfloat16", "float16"]),
        what="Of the input  [float32, bfloat16]",
    ),
    MODES,
    _several(
        "--engines", kind=str, metavar="NAME", what="Of ours, or torch.compile (the plain loop)  [all of the device]"
    ),
    PEERS,
    _repeats(11),
    THREADS,
    KEEP_MEMORY,
    OUT,
    QUICK,
)
def neurons() -> None:
    """Time a layer of neurons over time: our engines and the installed peers, inference and training.

    Spikes and gradients are compared before anything is timed. "x floor" is the time over that of the bytes that have
    to be moved at the bandwidth of a copy, measured in the same rounds. "first s" is the first call, which may find
    kernels on disk: point TORCHINDUCTOR_CACHE_DIR, TRITON_CACHE_DIR and SNNKIT_KERNELS at empty folders to see them
    compiled. "held B" are the bytes per neuron and step that are saved for backward, "x ours" is the time over that of
    our fastest compiled engine.
    """


@_measure(
    DEVICE,
    _several("--net", "nets", kind=click.Choice(["conv", "mlp"]), what="[both]"),
    _option("--width", type=_COUNT, help="Channels of the conv net.  [on a CPU: 32, on CUDA: 128]"),
    _option("--hidden", type=_COUNT, help="Hidden neurons of the dense net.  [1000]"),
    _option("--batch", type=_COUNT, help="Samples of an update.  [128]"),
    AMP,
    PEERS,
    _option("--compile/--no-compile", "compiled", default=True, help="With torch.compile, which takes minutes."),
    _repeats(11),
    THREADS,
    KEEP_MEMORY,
    OUT,
    PLOT,
    QUICK,
)
def training() -> None:
    """Time the training of whole networks: samples per second, ours and the installed peers.

    conv is the convolutional net of SpikingJelly's tutorial (T = 4), mlp is 784-1000-10 (T = 25) with the neuron of
    each library. Weights, batch, loss and optimizer are the same for all, and one update is compared before anything is
    timed. "x floor" is the time over that of the floating-point operations at the rate of a large matrix product,
    measured in the same rounds.
    """


@_measure(
    DEVICE,
    _several("--batch", "batches", metavar="B", what="Samples of an update, with 1000 neurons  [16, 128, 1024, …]"),
    _several("--hidden", metavar="N", what="Hidden neurons, with a batch of 128  [128, 1000, 4096, …]"),
    STEPS,
    AMP,
    _several("--chip", "chips", kind=str, metavar="NAME", what="IPUs to predict  [GC200, Bow]"),
    PEERS,
    _repeats(7),
    THREADS,
    KEEP_MEMORY,
    OUT,
    PLOT,
    QUICK,
)
def compare() -> None:
    """The network of snnTorch's IPU tutorial: how fast this machine trains it, and what is published on IPUs.

    Measured: our engines, and eager snnTorch where it is installed, over batches and numbers of hidden neurons.
    Predicted: a band for each IPU. Published: ratios of others, with their sources. No IPU was ever run.
    """


@_measure(
    _several("--model", "models", kind=str, metavar="NAME", what='"all" is every model  [all]'),
    _several("--batch", "batches", what="Samples at once  [1, 16, 128]"),
    MODES,
    _repeats(7),
    THREADS,
    KEEP_MEMORY,
    OUT,
    PLOT,
    _option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto", hidden=True),
)
def demo() -> None:
    """CPU against GPU for every model of the kit: samples per second, table and plot.

    Without a GPU the CPU alone is measured, and records from GPUs that come with the kit are shown beside.
    """


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


@_measure(
    _option("--device", type=click.Choice(["cpu", "cuda"]), default="cpu", show_default=True),
    _several("--ranks", metavar="N", what="Processes that train together; 1 is always among them  [1, 2, 4]"),
    _option("--batch", type=_COUNT, help="Samples of a rank in an update.  [256]"),
    _option("--hidden", type=_COUNT, help="Hidden neurons.  [1000]"),
    STEPS,
    _option("--updates", type=click.IntRange(3), help="Timed in each round.  [60]"),
    _repeats(5, least=1),
    KEEP_MEMORY,
    OUT,
    PLOT,
    QUICK,
)
def scaling() -> None:
    """Weak scaling on this machine: what ranks reach that train together, predicted and measured.

    784-1000-10 (T = 25) through Lightning and DistributedDataParallel, 256 samples for each rank, one CPU thread each.
    First ranks are timed alone and side by side, and all-reduces without training; from that the scaling model says
    what ranks will reach together. Then they do it, 1, 2 and 4 in turn in every round, and the model is fitted to them.
    More ranks than cores take turns: 4 on 2 cores can't be more efficient than 50 %.
    """


@_measure(
    _option("--rate", type=click.FloatRange(0, 1), help="Share of the neurons that fire in a step.  [0.02]"),
    _option("--steps", type=click.IntRange(2), help="Of a sequence.  [20]"),
    _repeats(11),
    THREADS,
    PEERS,
    KEEP_MEMORY,
    OUT,
    QUICK,
)
def plasticity() -> None:
    """Time STDP on a CPU, dense and of convolutions: our step and our run, and Norse's step of the same rule.

    Weights are compared in float64 before anything is timed. "x floor" is the time of a step over that of a copy of the
    weights, which reads and writes each once. A rate of 0.02 is 20 spikes a second at 1 ms.
    """


@bench.command()
@click.option("--dataset", type=click.Choice(["digits", "mnist"]), default="digits", show_default=True)
@click.option("--neurons", type=click.IntRange(2), help="That compete.  [digits 100, mnist 400]")
@click.option("--passes", type=_COUNT, help="Through the training images.  [4, mnist 3]")
@click.option("--batch", "batch_size", type=_COUNT, help="Images at once.  [digits 16, mnist 32]")
@click.option("--samples", type=_COUNT, help="Use only so many training images.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@DEVICE
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
