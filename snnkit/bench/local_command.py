"""The command ``snnkit bench local``. PyTorch is imported when it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .options import DEVICE, OUT

# Neurons, passes and images at once, where nobody says.
_SIZES = {"digits": (100, 4, 16), "mnist": (400, 3, 32)}


@click.command()
@click.option("--dataset", type=click.Choice(tuple(_SIZES)), default="digits", show_default=True)
@click.option("--neurons", type=click.IntRange(2), default=None, help="That compete.  [digits 100, mnist 400]")
@click.option("--passes", type=click.IntRange(1), default=None, help="Through the training images.  [4, mnist 3]")
@click.option("--batch", type=click.IntRange(1), default=None, help="Images at once.  [digits 16, mnist 32]")
@click.option("--samples", type=click.IntRange(1), default=None, help="Use only so many training images.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@DEVICE
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="CPU threads.")
@click.option("--data", "root", metavar="DIR", help="Folder with mnist/.  [SNNKIT_DATA, or a cache]")
@OUT
def local(
    dataset: str,
    neurons: int | None,
    passes: int | None,
    batch: int | None,
    samples: int | None,
    seed: int,
    device: str,
    threads: int,
    root: str | None,
    out: str | None,
) -> None:
    """Learn images without labels: STDP, lateral inhibition and homeostasis; accuracy on test images, pass by pass."""
    import torch
    from tqdm.auto import tqdm

    from ..data import load
    from ..plasticity import LocalProgress, learn_locally
    from ..train.archive import writable
    from .local import record_of
    from .record import RecordError, write
    from .table import tables

    usual = _SIZES[dataset]
    sizes = {"neurons": neurons or usual[0], "passes": passes or usual[1], "batch_size": batch or usual[2]}
    settings: dict[str, Any] = sizes | {"samples": samples, "seed": seed}
    torch.set_num_threads(threads)
    bar = tqdm(unit="image", unit_scale=True)

    def show(progress: LocalProgress) -> None:
        bar.total = progress.of
        bar.update(progress.images - bar.n)

    try:
        path = writable(out, "--out") if out else None
        images, _ = load(dataset, root=root)
        with bar:
            run = learn_locally(dataset, **settings, device=device, root=root, on_progress=show)
        record = record_of(run, (images.shape[-2], images.shape[-1]), {"data": dataset, **settings})
        if path is not None:
            write(Path(path), record)
    except (ValueError, OSError, RecordError) as error:
        raise click.ClickException(str(error)) from None
    click.echo(tables(record))
    if path is not None:
        click.echo(f"\nrecord: {path}")
