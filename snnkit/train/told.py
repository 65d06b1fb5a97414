"""A recipe that is run from a shell: errors without a traceback, a line for each epoch, a record."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from snnkit.files import destination
from snnkit.train import recipes
from snnkit.train.archive import writable
from snnkit.train.settings import SettingsFile


def run_told(
    runner: Callable[..., Any],
    name: str,
    settings: dict[str, Any],
    log: str | None,
    out: str | None,
    *,
    first: bool = True,
    **options: Any,
) -> Any:
    """Run the recipe; what a user can put right is told without a traceback. ``first``: whether to print and write."""
    from snnkit.train.tensorboard import TensorBoard

    try:
        recipe = recipes.get(name, **settings)
        if out:
            _check_out(writable(out, "--out"), options["checkpoint"])
        board = TensorBoard(log, None if options["resume"] else recipe.settings()) if log and first else None
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from None
    except ImportError as error:
        raise click.ClickException(str(error)) from None
    lines = _Lines()
    if options["resume"] and first:
        file = options["checkpoint"]
        there = Path(file).expanduser().exists()
        click.echo(f"going on from {file}" if there else f"there is no {file} yet: from the start")
    try:
        run = runner(name, on_epoch=[lines, *([board] if board else [])] if first else [], **options, **settings)
    except (ValueError, TypeError, OSError, FloatingPointError) as error:
        raise click.ClickException(str(error)) from error
    finally:
        if board:
            board.close()
    if first:
        lines(run.history, run.model)  # where nothing was left to do
    return run


def _check_out(out: Path, checkpoint: str | None) -> None:
    """ValueError where the record would take the place of the checkpoint, or of the settings beside it."""
    if checkpoint is None:
        return
    file = SettingsFile(Path(checkpoint).expanduser())
    for path, what in ((file.checkpoint, "the checkpoint"), (file.path, "the settings beside --checkpoint")):
        if destination(out) == destination(writable(path, "--checkpoint")):
            raise ValueError(f"--out must be another file than {what}; got {str(out)!r} for both")


class _Lines:
    """Prints what each epoch did, above the bar; first those of a run that is resumed."""

    def __init__(self) -> None:
        self.printed = 0

    def __call__(self, history: Any, _model: Any) -> None:
        from tqdm.auto import tqdm

        lines = repr(history).splitlines()[1:]  # a head, then one for each epoch
        for line in lines[self.printed :]:
            tqdm.write(line)
        self.printed = len(lines)


def write_record(out: str, run: recipes.Run, ranks: int = 1) -> None:
    """Write the record of a run, and say where; ``ranks``: that have trained together."""
    from snnkit import records

    try:
        content = record_of(run)
        if ranks > 1:
            content["arguments"]["ranks"] = ranks
        path = records.write(out, content)
    except (OSError, records.RecordError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(f"record: {path}")


def record_of(run: recipes.Run) -> dict[str, Any]:
    """A record for ``records.write``: the settings, every epoch, and where they were measured."""
    from snnkit.measure import provenance
    from snnkit.records import SCHEMA

    history = run.history
    columns = {name: values for name, values in history.to_dict().items() if isinstance(values, list)}
    rows = [{"epoch": i + 1, **{name: values[i] for name, values in columns.items()}} for i in range(history.epochs)]
    return {
        "schema": SCHEMA,
        "kind": "recipe",
        "complete": history.epochs >= run.recipe.epochs,
        "provenance": provenance(run.device),
        "arguments": run.recipe.settings(),
        "parameters": sum(p.numel() for p in run.model.parameters()),
        "rows": rows,
    }
