"""The command ``snnkit export``: a trained network as a page, and the page in which networks learn."""

from __future__ import annotations

from pathlib import Path

import click

from snnkit import data
from snnkit.files import expanded
from snnkit.lab.cli import SETTINGS, errors
from snnkit.train import load_checkpoint
from snnkit.train.recipe import PIXELS, make_encoder
from snnkit.train.recipes import SettingsFile


@click.command(context_settings=SETTINGS)
@click.argument("checkpoint", required=False)
@click.option("--page", "out", metavar="FILE.html", help="Write the page of a network into this file.")
@click.option("--playground", metavar="FILE.html", help="Write the playground, in which small networks learn.")
@click.option("--title", default="A spiking network reads what you draw", show_default=True, help="Title of the page.")
@click.option("--data", "root", metavar="DIR", help="Folder with mnist/ and fashion/.  [SNNKIT_DATA, or a cache]")
def export(checkpoint: str | None, out: str | None, playground: str | None, title: str, root: str | None) -> None:
    """Write the network of a CHECKPOINT of `snnkit train` as a page that runs in any browser, without Python.

    The settings in CHECKPOINT.json beside it say what network it is and how pixels are encoded. The page also gets test
    images of its data set if they are on this machine. Without CHECKPOINT, the page has a network that comes with
    snnkit.
    """
    from snnkit.lab import pages

    if out is None and (playground is None or checkpoint is not None):
        raise click.UsageError("say what to write: [CHECKPOINT] --page FILE.html, or --playground FILE.html")
    with errors(ValueError, TypeError, FileNotFoundError):
        if playground is not None:
            _said(pages.playground(playground))
        if out is not None:
            _said(pages.reader(out, title=title) if checkpoint is None else _page(checkpoint, out, title, root))


def _page(checkpoint: str, out: str, title: str, root: str | None) -> Path:
    from snnkit.lab.pages import page

    content = load_checkpoint(checkpoint)
    settings = SettingsFile(expanded(checkpoint))
    if not settings.path.is_file():
        raise ValueError(f"{settings.path}, the settings with which {checkpoint} was trained, is missing")
    recipe = settings.read()
    net = recipe.build()
    load_checkpoint(checkpoint, net)
    tested = (content["history"] or {}).get("test_accuracy")
    result = f"; it reads {tested[-1]:.1%} of the test images" if tested else ""
    side = PIXELS[recipe.dataset]
    return page(
        net,
        out,
        encode=make_encoder(recipe.encoding, recipe.steps),
        gain=recipe.gain,
        loss=recipe.criterion(),
        size=(1, side, side),
        images=data.load(recipe.dataset, "test", root=root) if data.available(recipe.dataset, root) else None,
        labels=data.CLASSES[recipe.dataset],
        title=title,
        about=f"Trained for {content['epoch']} epochs on the {recipe.dataset} data set{result}.",
    )


def _said(path: Path) -> None:
    click.echo(f"{path}: {path.stat().st_size / 1e3:,.0f} kB")
