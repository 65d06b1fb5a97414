"""What learning without labels has reached, as a record and as text."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from plotly.graph_objects import Figure

    from ..plasticity import LocalRun

# So many receptive fields go into a record, those of the first neurons: none is chosen for its looks.
FIELDS = 36


def record_of(run: LocalRun, shape: tuple[int, int], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """A record for ``record.write``: the settings, every pass, some receptive fields, and where it was measured.

    Args:
        run: of ``plasticity.learn_locally``.
        shape: (H, W) of the images.
        arguments: what it was called with; code and layer are added from ``run``.
    """
    from ..measure.machine import provenance
    from .record import SCHEMA

    shown = run.weights[:FIELDS].cpu()
    scale = float(shown.max()) or 1.0
    values = (shown / scale * 255).round().byte().numpy().tobytes()
    return {
        "schema": SCHEMA,
        "kind": "local",
        "complete": True,
        "provenance": provenance(run.weights.device),
        "arguments": {**arguments, **asdict(run.code), "layer": asdict(run.layer)},
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
        Weights float32 [neurons, H × W], and the class that each of these neurons stands for, -1 for none.
    """
    import numpy as np

    fields = record["fields"]
    values = np.frombuffer(base64.b64decode(fields["weights"]), dtype=np.uint8)
    weights = values.reshape(-1, fields["height"] * fields["width"]).astype(np.float32) * (fields["scale"] / 255)
    return weights, list(fields["labels"])


def figure(record: Mapping[str, Any]) -> Figure:
    """The receptive fields in a record, as pictures; for ``snnkit bench show --plot``."""
    from ..viz import figures

    weights, labels = fields_of(record)
    fields, settings = record["fields"], record["arguments"]
    shape = (fields["height"], fields["width"])
    title = f"Fields of the first {len(labels)} of {settings['neurons']} neurons"
    return figures.weights(weights, shape=shape, most=len(labels), title=title)


def table(record: Mapping[str, Any]) -> str:
    """The settings and a line for each pass; ``table.tables`` says above it where they were measured."""
    from ..plasticity import LocalHistory

    settings = record["arguments"]
    told = ", ".join(f"{name} {value}" for name, value in settings.items() if name != "layer" and value is not None)
    history = LocalHistory()
    for row in record["rows"]:
        history.add(**{name: row[name] for name in vars(history)})
    silent = f"{record['unlabelled']} of {settings['neurons']} neurons never fired for a training image"
    return "\n".join([f"learning without labels: {told}", "", repr(history), "", silent])
