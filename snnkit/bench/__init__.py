"""Benchmarks: candidates side by side, verified before they are timed, and records that say where numbers come from.

    from snnkit import bench

    bench.neurons.benchmark(bench.neurons.arguments("cpu", quick=True, ...))     # what `snnkit bench neurons` runs
    print(bench.tables(record))

==============  ========================================================================
``neurons``     a layer of neurons over time, in our engines and other libraries
``training``    whole networks in training, ours and other libraries'
``compare``     the network of snnTorch's IPU tutorial: measured, predicted, published
``demo``        every model of the kit on every device
``scaling``     ranks that train together, predicted and measured
``plasticity``  STDP, ours and Norse's
``local``       learning without labels
``events``      conversion of event data
==============  ========================================================================

Suites are imported when they are used.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import baselines, demo, workloads
    from . import event_conversion as events
    from . import ipu_comparison as compare
    from . import learning_records as local
    from . import neuron_speed as neurons
    from . import stdp_speed as plasticity
    from . import training_speed as training
    from . import weak_scaling as scaling
    from .suite import heading
    from .training_speed import layer_times

# Name of a suite -> its module.
SUITES = {
    "neurons": "neuron_speed",
    "training": "training_speed",
    "compare": "ipu_comparison",
    "demo": "demo",
    "scaling": "weak_scaling",
    "plasticity": "stdp_speed",
    "local": "learning_records",
    "events": "event_conversion",
}
_MODULES = SUITES | {"baselines": "baselines", "workloads": "workloads"}
_FUNCTIONS = {"heading": "suite", "layer_times": "training_speed"}
_TABLES = SUITES | {"published": "neuron_speed", "recipe": "learning_records"}  # by kind of record

__all__ = [
    "SUITES",
    "baselines",
    "compare",
    "demo",
    "events",
    "heading",
    "layer_times",
    "local",
    "neurons",
    "plasticity",
    "scaling",
    "tables",
    "training",
    "workloads",
]


def tables(record: Mapping[str, Any]) -> str:
    """A record of any kind as text: where its numbers come from, and its tables."""
    return importlib.import_module(f".{_TABLES[record['kind']]}", __name__).tables(record)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f".{_MODULES[name]}", __name__)
    if name in _FUNCTIONS:
        return getattr(importlib.import_module(f".{_FUNCTIONS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
