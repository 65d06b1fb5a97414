"""What records must say: the fields of each kind, with their types. ``record`` holds files to it."""

from __future__ import annotations

import sys
from collections.abc import Mapping

TEXT, NUMBER, WHOLE, FLAG = (str,), (int, float), (int,), (bool,)

# What each row must say, with its type.
LABELS = {"contestant": TEXT, "equation": TEXT, "mode": TEXT, "dtype": TEXT, "neurons": WHOLE, "steps": WHOLE}
CASE = {"net": TEXT, "equation": TEXT, "dtype": TEXT, "width": WHOLE, "steps": WHOLE, "batch": WHOLE}
ROW = {
    "neurons": LABELS
    | {
        "library": TEXT,
        "engine": TEXT,
        "out_dtype": TEXT,
        "first_s": NUMBER,
        "median_s": NUMBER,
        "p10_s": NUMBER,
        "p90_s": NUMBER,
        "host_s": NUMBER,
        "calls": WHOLE,
        "floor_bytes": WHOLE,
        "floor_s": NUMBER,
        "over_floor": NUMBER,
        "held_bytes": WHOLE,
        "held_x_bytes": WHOLE,
        "compared_neurons": WHOLE,
        "spikes_differ": NUMBER,
    },
    "recipe": {
        "epoch": WHOLE,
        "train_loss": NUMBER,
        "train_accuracy": NUMBER,
        "test_loss": NUMBER,
        "test_accuracy": NUMBER,
        "seconds": NUMBER,
        "samples_per_second": NUMBER,
    },
    "training": CASE
    | {
        "contestant": TEXT,
        "library": TEXT,
        "samples_per_s": NUMBER,
        "first_s": NUMBER,
        "ready_s": NUMBER,
        "median_s": NUMBER,
        "p10_s": NUMBER,
        "p90_s": NUMBER,
        "floor_flops": WHOLE,
        "floor_s": NUMBER,
        "over_floor": NUMBER,
        "spikes_differ": NUMBER,
        "update_differs": NUMBER,
        "default": FLAG,
    },
    "demo": {
        "model": TEXT,
        "mode": TEXT,
        "device": TEXT,
        "dtype": TEXT,
        "batch": WHOLE,
        "steps": WHOLE,
        "parameters": WHOLE,
        "samples_per_s": NUMBER,
        "first_s": NUMBER,
        "median_s": NUMBER,
        "p10_s": NUMBER,
        "p90_s": NUMBER,
    },
    "scaling": {
        "mode": TEXT,
        "ranks": WHOLE,
        "batch": WHOLE,
        "steps": WHOLE,
        "parameters": WHOLE,
        "samples_per_s": NUMBER,
        "median_s": NUMBER,
        "p10_s": NUMBER,
        "p90_s": NUMBER,
        "launch_s": NUMBER,
        "ready_s": NUMBER,
        "rounds_s": (list,),
    },
    "plasticity": {
        "case": TEXT,
        "contestant": TEXT,
        "library": TEXT,
        "dtype": TEXT,
        "weights": WHOLE,
        "batch": WHOLE,
        "steps": WHOLE,
        "rate": NUMBER,
        "median_s": NUMBER,
        "p10_s": NUMBER,
        "p90_s": NUMBER,
        "floor_bytes": WHOLE,
        "floor_s": NUMBER,
        "over_floor": NUMBER,
        "weights_differ": NUMBER,
    },
    "local": {
        "pass": WHOLE,
        "images": WHOLE,
        "seconds": NUMBER,
        "spikes_per_image": NUMBER,
        "active": NUMBER,
        "similarity": NUMBER,
        "train_accuracy": NUMBER,
        "test_accuracy": NUMBER,
    },
    "published": LABELS | {"seconds": NUMBER},
}
ROW["compare"] = ROW["training"]  # of one network in many sizes

# Without these a number is not shown.
MEASURED = {"date": TEXT, "device": (dict,), "cpu": TEXT, "threads": WHOLE, "versions": (dict,)}
PROVENANCE = {
    "neurons": MEASURED,
    "recipe": MEASURED,
    "training": MEASURED,
    "demo": MEASURED,
    "scaling": MEASURED,
    "compare": MEASURED,
    "local": MEASURED,
    "plasticity": MEASURED,
    "published": {"source": TEXT, "url": TEXT, "hardware": TEXT, "what": TEXT, "statistic": TEXT},
}
DEVICE = {"type": TEXT, "name": TEXT}
VERSIONS = {"python": TEXT, "torch": TEXT, "snnkit": TEXT}
MATMUL = CASE | {"size": WHOLE, "flops_per_s": NUMBER}
LAYER = {"mode": TEXT, "dtype": TEXT, "neurons": WHOLE, "steps": WHOLE}
COPY = LAYER | {"bytes": WHOLE, "bytes_per_s": NUMBER, "median_s": NUMBER}
LINK = {"ranks": WHOLE, "bytes": WHOLE, "median_s": NUMBER}
MACHINE = {
    "cores": WHOLE,
    "step_s": NUMBER,
    "gradient_bytes": WHOLE,
    "sharing": NUMBER,
    "bytes_per_s": NUMBER,
    "latency_s": NUMBER,
}
TRAINED = {"device": TEXT, "ranks": (list,), "hidden": WHOLE, "steps": WHOLE, "batch": WHOLE}
# What is shown beside measurements: predictions of a model, and ratios that others have published.
BAND = CASE | {"chip": TEXT, "low": NUMBER, "likely": NUMBER, "high": NUMBER, "mark": TEXT, "source": TEXT}
CLAIM = dict.fromkeys(("who", "said", "what", "source", "url"), TEXT)
CLAIM |= {"low": NUMBER, "high": NUMBER, "batch": WHOLE, "hidden": WHOLE, "derived": FLAG}
TUTORIAL = {"batch": WHOLE, "width": WHOLE, "steps": WHOLE}
COMMIT = {"id": TEXT, "dirty": FLAG}
RECEPTIVE = {"height": WHOLE, "width": WHOLE, "scale": NUMBER, "labels": (list,), "weights": TEXT}

# The largest float: a whole number above it can't be divided.
LARGEST = sys.float_info.max

# Of these 0 is no measure either: tables divide by them.
ABOVE_ZERO = (
    "neurons",
    "steps",
    "batch",
    "width",
    "median_s",
    "samples_per_s",
    "bytes_per_s",
    "ranks",
    "cores",
    "step_s",
    "gradient_bytes",
    "latency_s",
    "low",
    "likely",
    "high",
    "hidden",
)

# What was not timed: what each entry says, and what besides if it names the first of these.
NOT_TIMED = {"contestant": TEXT, "reason": TEXT}
SKIPPED: dict[str, tuple[Mapping[str, tuple[type, ...]], Mapping[str, tuple[type, ...]]]] = {
    "neurons": (NOT_TIMED, LAYER),
    "training": (NOT_TIMED, {"net": TEXT, "equation": TEXT, "dtype": TEXT}),
    "compare": (NOT_TIMED, CASE),
    "demo": ({"model": TEXT, "reason": TEXT}, {"mode": TEXT, "device": TEXT, "dtype": TEXT, "batch": WHOLE}),
}

# What stands beside the rows, measured for scale, or none of our measurements at all.
BESIDE: dict[str, dict[str, Mapping[str, tuple[type, ...]]]] = {
    "neurons": {"copies": COPY},
    "training": {"matmuls": MATMUL},
    "scaling": {"links": LINK},
    "compare": {"matmuls": MATMUL, "predictions": BAND, "claims": CLAIM},
}
