"""The ``snnkit`` command: one file for each group of commands, imported when a command of it is called."""

from __future__ import annotations

import contextlib
import importlib
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

import click

import snnkit

SETTINGS = {"help_option_names": ["-h", "--help"]}

# Each command: its module, and its line in `snnkit --help`, which imports no command.
COMMANDS = {
    "bench": ("bench:bench", "Measure, and show what was measured."),
    "build": ("notebooks:build", "Make notebooks/NN_name.ipynb from notebooks/src/NN_name.py."),
    "course": ("workshop:course", "Progress in the notebooks: export it, a certificate, a class."),
    "doctor": ("notebooks:doctor", "Check this machine: each line is green, amber or red, with the fix."),
    "export": ("export:export", "Write a trained network as a page for any browser."),
    "lab": ("lab:lab", "Copy the notebooks into a folder of yours, and open it in JupyterLab."),
    "run": ("notebooks:run", "Execute notebooks headless and write report.html and report.json."),
    "site": ("notebooks:site", "Build the site: README, executed notebooks, workshop pages, reference."),
    "slurm": ("slurm:slurm", "Write a batch script for SLURM, explain it, check it."),
    "sweep": ("sweep:sweep", "Run a notebook with every combination of parameters that a manifest lists."),
    "train": ("train:train", "Train a network by a named recipe."),
    "workshop": ("workshop:workshop", "Prepare and run a workshop: schedules, machines, GPU budget."),
}


class LazyGroup(click.Group):
    """A group of commands that are imported when called. Ctrl-C ends them with exit code 130 and no traceback.

    Args:
        lazy: name of a command -> ("file:attribute" of this package, its help in one line).
    """

    def __init__(self, *args: Any, lazy: Mapping[str, tuple[str, str]] | None = None, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *self.lazy})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.lazy[cmd_name][0].partition(":")
        return getattr(importlib.import_module(f"{__name__}.{module}"), attribute)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        own = {name: command.get_short_help_str(80) for name, command in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl(sorted([*own.items(), *((name, text) for name, (_, text) in self.lazy.items())]))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            exit_interrupted("interrupted", interrupt)


def exit_interrupted(message: str, interrupt: KeyboardInterrupt) -> NoReturn:
    """End with the exit code that a shell reports: 130 for Ctrl-C. From here on interrupts are ignored, because
    threads are still to be joined."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    click.echo(f"\n{message}", err=True)
    sys.exit(128 + next(iter(interrupt.args), signal.SIGINT))


@contextlib.contextmanager
def ended_in_order(*more: str) -> Iterator[None]:
    """Treat SIGTERM and the end of a terminal as Ctrl-C, unless they are handled or ignored already (``nohup``).

    ``more``: names of other signals.
    """

    def interrupt(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second signal would disturb the end that the first one began
        raise KeyboardInterrupt(number)

    here = threading.current_thread() is threading.main_thread()  # only the main thread may set handlers
    numbers = [getattr(signal, name, None) for name in ("SIGTERM", "SIGHUP", *more) if here]
    taken = [number for number in numbers if number and signal.getsignal(number) == signal.SIG_DFL]
    for number in taken:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in taken:
            if signal.getsignal(number) == interrupt:
                signal.signal(number, signal.SIG_DFL)


@contextlib.contextmanager
def errors(*refused: type[Exception]) -> Iterator[None]:
    """Turn the ``refused`` errors into messages about wrong usage, and errors of files into messages, too."""
    try:
        yield
    except refused as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"can't read or write {error.filename}: {error.strerror or error}") from None


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings=SETTINGS)
@click.version_option(snnkit.__version__, prog_name="snnkit")
def main() -> None:
    """Learn and experiment with spiking neural networks: build, run and check the notebooks."""
