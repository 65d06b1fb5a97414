"""Runs that learn: what learning without labels, and recipes of ``snnkit train``, have reached, as records and text."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from ..tables import text_table
from .suite import begin, heading, save

if TYPE_CHECKING:
    from ..plasticity import LocalRun

# So many receptive fields go into a record, those of the first neurons: none is selected for its looks.
FIELDS = 36

SIZES = {
    "digits": {"neurons": 100, "passes": 4, "batch_size": 16},
    "mnist": {"neurons": 400, "passes": 3, "batch_size": 32},
}


def benchmark(
    dataset: str,
    on_progress: Callable[[Any], object] | None = None,
    out: Any = None,
    *,
    device: str = "auto",
    root: str | None = None,
    **given: Any,
) -> dict[str, Any]:
    """Learn by ``plasticity.learn_locally`` and return the record.

    Args:
        dataset: "digits" or "mnist".
        on_progress: as in ``learn_locally``.
        out: file for the record.
        device, root: as in ``learn_locally``.
        given: ``neurons``, ``passes``, ``batch_size``, ``samples`` and ``seed``; None: the default of the data set.
    """
    from ..data import load
    from ..plasticity import learn_locally

    settings: dict[str, Any] = SIZES[dataset] | {name: value for name, value in given.items() if value is not None}
    images, _ = load(dataset, root=root)
    run = learn_locally(dataset, **settings, device=device, root=root, on_progress=on_progress)
    record = record_of(run, (images.shape[-2], images.shape[-1]), {"data": dataset, **settings})
    save(record, out)
    return record


def record_of(run: LocalRun, shape: tuple[int, int], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A record: the settings, every pass, some receptive fields, and where it was measured.

    Args:
        run: of ``plasticity.learn_locally``.
        shape: (H, W) of the images.
        arguments: what it was called with; code and layer are added from ``run``.
    """
    shown = run.weights[:FIELDS].cpu()
    scale = float(shown.max()) or 1.0
    values = (shown / scale * 255).round().byte().numpy().tobytes()
    options = {**arguments, **asdict(run.code), "layer": asdict(run.layer)}
    return begin("local", run.weights.device, options) | {
        "complete": True,
        "unlabelled": int((run.labels < 0).sum()),
        "fields": {
            "height": shape[0],
            "width": shape[1],
            "scale": scale,
            "labels": run.labels[:FIELDS].tolist(),
            "weights": base64.b64encode(values).decode(),
        },
        "rows": run.history.rows(),
    }


def fields_of(record: Mapping[str, Any]) -> tuple[np.ndarray, list[int]]:
    """The receptive fields in a record, to a 255th of the largest weight among them.

    Returns:
        Weights float32 [neurons, H × W], and the class of each of these neurons, -1 for none.
    """
    fields = record["fields"]
    values = np.frombuffer(base64.b64decode(fields["weights"]), dtype=np.uint8)
    weights = values.reshape(-1, fields["height"] * fields["width"]).astype(np.float32) * (fields["scale"] / 255)
    return weights, list(fields["labels"])


def tables(record: Mapping[str, Any]) -> str:
    """The whole record as text."""
    return f"{heading(record)}\n\n{table(record)}"


def table(record: Mapping[str, Any]) -> str:
    """Of kind "local" or "recipe": the settings, and a line for each pass or epoch."""
    return _recipe(record) if record["kind"] == "recipe" else _local(record)


def _local(record: Mapping[str, Any]) -> str:
    from ..plasticity import LocalHistory

    options = record["arguments"]
    settings = ", ".join(f"{name} {value}" for name, value in options.items() if name != "layer" and value is not None)
    history = LocalHistory()
    for row in record["rows"]:
        history.add(**{name: row[name] for name in vars(history)})
    silent = f"{record['unlabelled']} of {options['neurons']} neurons never fired for a training image"
    return "\n".join([f"learning without labels: {settings}", "", repr(history), "", silent])


_HEAD = ("epoch", "train loss", "train acc", "test loss", "test acc", "seconds", "samples/s")


def _recipe(record: Mapping[str, Any]) -> str:
    settings = {name: value for name, value in record["arguments"].items() if value not in (None, False)}
    title = f"{settings.pop('name')}: {settings.pop('about')}"
    lines = [title, f"settings: {', '.join(f'{name} {value}' for name, value in settings.items())}"]
    lines += [f"parameters: {record['parameters']:,}", ""]
    cells = [
        (
            str(row["epoch"]),
            f"{row['train_loss']:.4f}",
            f"{row['train_accuracy']:.2%}",
            f"{row['test_loss']:.4f}",
            f"{row['test_accuracy']:.2%}",
            f"{row['seconds']:.1f}",
            f"{row['samples_per_second']:,.0f}",
        )
        for row in record["rows"]
    ]
    return "\n".join([*lines, *text_table(_HEAD, cells, left=0, always=len(_HEAD))])
