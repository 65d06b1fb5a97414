"""Learn images without labels: STDP, lateral inhibition and homeostasis; accuracy on test images, pass by pass.

    snnkit bench local --dataset mnist

Records of recipes (``snnkit train NAME --out FILE.json``) become tables here, too.
"""

from __future__ import annotations

import base64
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from snnkit import checks
from snnkit.data import load
from snnkit.lab.bench import suite
from snnkit.lab.bench.suite import Record, Row, option
from snnkit.plasticity import MAX_RATE, STEPS, LocalRun, learn_locally

# So many receptive fields go into a record: those of the first neurons, not a selection.
FIELDS = 36

SIZES = {
    "digits": {"neurons": 100, "passes": 4, "batch_size": 16},
    "mnist": {"neurons": 400, "passes": 3, "batch_size": 32},
}


@checks.arguments
@dataclass(frozen=True)
class Arguments(suite.Options):
    """What to run; the options of ``snnkit bench local``. 0 is the default of the data set, in ``SIZES``."""

    dataset: str = option("The images.", "digits", choices=tuple(SIZES))
    neurons: int = option("That compete.  [digits 100, mnist 400]", 0, least=2)
    passes: int = option("Through the training images.  [digits 4, mnist 3]", 0, quick=1)
    batch_size: int = option("Images at once.  [digits 16, mnist 32]", 0, flag="batch")
    samples: int = option("Use only so many training images.", 0, quick=200)
    seed: int = option("Of weights, order and spikes.", 0, least=0)
    root: str = option("Folder with mnist/.  [SNNKIT_DATA, or a cache]", "", flag="data")


@checks.arguments
def benchmark(arguments: Arguments, say: suite.Say = print, out: str | Path | None = None) -> Row:
    """Learn by ``plasticity.learn_locally`` and return the record; ``out``: a file for it."""
    given = {name: value for name, value in asdict(arguments).items() if value and name != "dataset"}
    settings: dict[str, Any] = SIZES[arguments.dataset] | {"seed": arguments.seed} | given
    suite.check_out(out)
    images, _ = load(arguments.dataset, root=arguments.root or None)
    run = learn_locally(arguments.dataset, **settings, progress=True)
    recorded = {name: value for name, value in settings.items() if name not in ("device", "root")}
    record = record_of(run, (images.shape[-2], images.shape[-1]), {"data": arguments.dataset, **recorded})
    say(tables(record))
    suite.save(record, out)
    return record


def record_of(run: LocalRun, shape: tuple[int, int], arguments: Record) -> Row:
    """A record: the settings, every pass, some receptive fields, and where it was measured.

    Args:
        run: of ``plasticity.learn_locally``.
        shape: (H, W) of the images.
        arguments: those of the call; the encoding of the images and the layer are added.
    """
    shown = run.weights[:FIELDS].cpu()
    scale = float(shown.max()) or 1.0
    values = (shown / scale * 255).round().byte().numpy().tobytes()
    options = {**arguments, "steps": STEPS, "max_rate": MAX_RATE, "layer": asdict(run.layer)}
    return suite.begin("local", torch.device(run.weights.device), options) | {
        "complete": True,
        "unlabelled": int((run.labels < 0).sum()),
        "fields": {
            "height": shape[0],
            "width": shape[1],
            "scale": scale,
            "labels": run.labels[:FIELDS].tolist(),
            "weights": base64.b64encode(values).decode(),
        },
        "rows": run.passes,
    }


def fields_of(record: Record) -> tuple[np.ndarray, list[int]]:
    """The receptive fields in a record, in steps of a 255th of their largest weight.

    Returns:
        Weights float32 [neurons, H × W], and the class of each of these neurons, -1 for none.
    """
    fields = record["fields"]
    values = np.frombuffer(base64.b64decode(fields["weights"]), dtype=np.uint8)
    weights = values.reshape(-1, fields["height"] * fields["width"]).astype(np.float32) * (fields["scale"] / 255)
    return weights, list(fields["labels"])


@checks.arguments
def tables(record: Record) -> str:
    """The whole record as text."""
    return f"{suite.heading(record)}\n\n{table(record)}"


def table(record: Record) -> str:
    """For kind "local" or "recipe": the settings, and a line for each pass or epoch."""
    shown = {k: v for k, v in record["arguments"].items() if k != "layer" and v is not None and v is not False}
    if record["kind"] == "recipe":
        title = f"{shown.pop('name')}: {shown.pop('about')}\nsettings: {_listed(shown)}"
        return suite.table(f"{title}\nparameters: {record['parameters']:,}\n", _RECIPE, record["rows"], left=0)
    silent = f"{record['unlabelled']} of {shown['neurons']} neurons never fired for a training image"
    title = f"learning without labels: {_listed(shown)}\n"
    return f"{suite.table(title, _LOCAL, record['rows'], left=0)}\n\n{silent}"


def _listed(settings: Record) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


_LOCAL = {
    "pass": lambda row: str(row["pass"]),
    "images": lambda row: str(row["images"]),
    "train acc": lambda row: f"{row['train_accuracy']:.2%}",
    "test acc": lambda row: f"{row['test_accuracy']:.2%}",
    "spikes/image": lambda row: f"{row['spikes_per_image']:.2f}",
    "active": lambda row: f"{row['active']:.1%}",
    "similarity": lambda row: f"{row['similarity']:.2f}",
    "seconds": lambda row: f"{row['seconds']:.1f}",
}
_RECIPE = {
    "epoch": lambda row: str(row["epoch"]),
    "train loss": lambda row: f"{row['train_loss']:.4f}",
    "train acc": lambda row: f"{row['train_accuracy']:.2%}",
    "test loss": lambda row: f"{row['test_loss']:.4f}",
    "test acc": lambda row: f"{row['test_accuracy']:.2%}",
    "seconds": lambda row: f"{row['seconds']:.1f}",
    "samples/s": lambda row: f"{row['samples_per_second']:,.0f}",
}
