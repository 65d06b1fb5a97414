"""``snnkit bench``: measure, and show what was measured. PyTorch is imported when a command is called."""

from __future__ import annotations

import inspect
from dataclasses import Field, fields
from functools import partial
from pathlib import Path
from typing import Any

import click

from snnkit.lab.cli import SETTINGS, LazyGroup

# Suites of ``snnkit.lab.bench``: their options are the fields of ``Arguments``, their help is the text of the module.
SUITES = {
    "neurons": "Time a layer of neurons over time: our engines and the installed peers.",
    "frameworks": "The field's public table: one linear layer and neurons, ours and all installed peers.",
    "training": "Time the training of whole networks: samples per second, ours and the installed peers.",
    "ports": "Seven public examples of snnTorch, SpikingJelly and Norse, ours beside the originals.",
    "demo": "CPU against GPU for every model of the kit: samples per second, table and plot.",
    "scaling": "Weak scaling on this machine: ranks that train together, predicted and measured.",
    "compare": "The network of snnTorch's IPU tutorial: training rate here, and what is published.",
    "plasticity": "Time STDP on a CPU, dense and of convolutions, ours and Norse's.",
    "sparsity": "Products of spikes by density, event-driven, dense and sparse; and whole training steps.",
    "local": "Learn images without labels; accuracy on test images, pass by pass.",
    "record": "Compare and measure our engines on your GPU in ten minutes, and write one file to send in.",
}
_COUNT = click.IntRange(1)


def _plot(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and value.rpartition(".")[2].lower() not in ("png", "html"):
        raise click.UsageError(f"--plot must end in .png or .html, but it is {value!r}")
    if value is not None:  # before anything is measured
        from snnkit.train.checkpoint import writable

        try:
            import snnkit.lab.viz  # noqa: F401

            writable(value, "--plot")
        except (ImportError, ValueError) as error:
            raise click.UsageError(str(error)) from None
    return value


PLOT = click.option("--plot", type=click.Path(dir_okay=False), callback=_plot, help="Write a figure: .png or .html.")


class Suites(LazyGroup):
    """Makes the command of a suite when it is called."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _command(cmd_name) if cmd_name in SUITES else super().get_command(ctx, cmd_name)


@click.group(cls=Suites, lazy={name: ("", line) for name, line in SUITES.items()}, context_settings=SETTINGS)
def bench() -> None:
    """Measure, and show what was measured."""


def _command(name: str) -> click.Command:
    from snnkit.lab import bench as room

    suite = getattr(room, name)
    paragraphs = [part for part in inspect.cleandoc(suite.__doc__).split("\n\n") if not part.startswith("    snnkit ")]
    options = [_option(each) for each in fields(suite.Arguments) if "text" in each.metadata]
    options += [
        click.Option(["--threads"], type=_COUNT, help="CPU threads.  [on a CPU: 1]"),
        click.Option(["--out"], type=click.Path(dir_okay=False), metavar="FILE.json", help="Write a record."),
        click.Option(["--quick"], is_flag=True, help="Tiny sizes: shows that everything runs; the times mean nothing."),
    ]
    command = click.Command(name, params=[*options], callback=partial(_run, name), help="\n\n".join(paragraphs))
    return command if name in ("neurons", "plasticity", "ports", "record") else PLOT(command)


def _option(each: Field) -> click.Option:
    """The option of a field of ``Arguments``."""
    about = each.metadata
    default: Any = each.default
    name, several = about["flag"] or each.name, isinstance(default, tuple)
    if isinstance(default, bool):
        return click.Option([f"--{name}/--no-{name}", each.name], default=None, help=about["text"])
    kinds = {int: click.IntRange(about["least"]), float: click.FloatRange(0, 1), str: click.STRING}
    kind = click.Choice(about["choices"]) if about["choices"] else kinds[type(default[0] if several else default)]
    values = [" ".join(map(str, value)) if several else value for value in (default, about["cuda"]) if value]
    shown = ", on CUDA ".join(map(str, values))
    text = f"{about['text']}{' Repeatable.' if several else ''}{f'  [{shown}]' if shown else ''}"
    return click.Option([f"--{name}", each.name], type=kind, multiple=several, default=None, help=text)


def _run(
    name: str,
    *,
    device: str = "",
    threads: int | None,
    out: str | None,
    quick: bool,
    plot: str | None = None,
    **given: Any,
) -> None:
    """Run a suite and print its tables; write its record and its plot if there is a file for them."""
    import torch

    from snnkit.lab import bench as room
    from snnkit.lab.bench.suite import chosen
    from snnkit.train import LaunchError

    suite = getattr(room, name)
    cuda = torch.cuda.is_available()
    device = device or suite.Arguments.device
    if device == "cuda" and not cuda:
        raise click.UsageError(
            "--device cuda: PyTorch finds no CUDA device here (`snnkit doctor` says why); there is --device cpu"
        )
    device = ("cuda" if cuda else "cpu") if device == "auto" else device
    try:
        arguments = chosen(suite.Arguments, device, quick=quick, **given)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if device == "cpu" and name != "demo":
        threads = threads or 1
    if threads is not None:
        torch.set_num_threads(threads)
    try:
        result = suite.benchmark(arguments, click.echo, out)
    except (OSError, ValueError, ArithmeticError, LaunchError) as error:
        raise click.ClickException(str(error)) from None
    if out and name != "record":  # which has said so
        click.echo(f"\nrecord: {out}")
    if not result["rows"]:
        raise click.ClickException("no candidate could be timed; the lines above say why")
    if plot:
        _draw(result, plot)


def _draw(record: dict[str, Any], plot: str) -> None:
    """Write the figure of the record's kind."""
    from snnkit.files import replacing
    from snnkit.lab import viz
    from snnkit.lab.bench import local, scaling

    figures = viz.figures
    draw = {"training": figures.training_rates, "demo": figures.device_rates, "compare": figures.comparison}
    draw |= {"neurons": figures.races, "published": figures.races, "frameworks": figures.framework_ratios}
    draw |= {"sparsity": figures.break_even}
    try:
        if record["kind"] == "scaling":
            measured, lines, cores = scaling.curves(record)
            figure = figures.scaling_efficiency(measured, lines, cores=cores)
        elif record["kind"] == "local":
            weights, labels = local.fields_of(record)
            title = f"Fields of the first {len(labels)} of {record['arguments']['neurons']} neurons"
            shape = (record["fields"]["height"], record["fields"]["width"])
            figure = figures.image_grid(weights[: len(labels)].reshape(-1, *shape), title=title)
        elif record["kind"] in draw:
            figure = draw[record["kind"]](record)
        else:
            raise ValueError("there is no plot of records of this kind")
        png = plot.lower().endswith(".png")
        content = viz.png_bytes(figure) if png else figure.to_html(include_plotlyjs="cdn").encode()
        with replacing(Path(plot)) as file:
            file.write(content)
    except (ValueError, OSError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"\nplot: {plot}")


@bench.command()
@click.argument("record", metavar="[FILE|NAME]", required=False)
@click.option("--contributed", is_flag=True, help="List the records that users sent in.")
@PLOT
def show(record: str | None, contributed: bool, plot: str | None) -> None:
    """Print a record: a file that `snnkit bench ... --out` wrote, or the name of one of the kit.

    Without one, list those of the kit and those that users sent in. What `snnkit bench record` wrote is checked, and it
    is said whether it can be sent in.
    """
    from snnkit import records
    from snnkit.lab import bench as room

    own, others = records.names(), records.contributed()
    try:
        if record is None or contributed:
            if record is not None or plot is not None:
                raise click.UsageError("a list has no plot, and --contributed takes no FILE")
            if not contributed:
                _echo(f"measured or collected by the kit: {len(own)}\n{room.record.overview(own)}\n")
            _echo(f"contributed by users, not measured by us: {len(others)}")
            _echo(room.record.overview(others))
            return
        content = records.load(record) if record in [*own, *others] else records.read(Path(record))
    except FileNotFoundError:
        known = ", ".join([*own, *others])
        raise click.UsageError(f"there is no file {record!r}, and no record of that name; there are: {known}") from None
    except (OSError, records.RecordError) as error:
        raise click.ClickException(str(error)) from None
    _echo(room.tables(content))
    if plot is not None:
        _draw(content, plot)


def _echo(text: str) -> None:
    """Print what other people may have written: nothing in it moves the cursor."""
    from snnkit.tables import one_line

    click.echo("\n".join(one_line(line, len(line)) for line in text.split("\n")))
