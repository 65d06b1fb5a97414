"""Benchmarks: candidates side by side, verified before they are timed. Records say where the numbers come from.

    from snnkit import bench

    bench.neurons.benchmark(bench.neurons.Arguments("cpu", neurons=(4096,)))     # what `snnkit bench neurons` runs
    print(bench.tables(record))

==============  ========================================================================
``neurons``     a layer of neurons over time, in our engines and other libraries
``frameworks``  the field's public table: a linear layer and neurons, other libraries and JAX's Spyx
``training``    whole networks in training, ours and other libraries'
``compare``     the network of snnTorch's IPU tutorial: measured, predicted, published
``demo``        every model of the kit on every device
``scaling``     ranks that train together, predicted and measured
``plasticity``  STDP, ours and Norse's
``local``       learning without labels
==============  ========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snnkit import checks

from . import baselines as baselines
from . import demo, workloads
from . import framework_speed as frameworks
from . import ipu_comparison as compare
from . import learning_records as local
from . import neuron_speed as neurons
from . import stdp_speed as plasticity
from . import training_speed as training
from . import weak_scaling as scaling
from .at_hand import layer_times
from .at_hand import places as places
from .suite import heading

__all__ = [
    "compare",
    "demo",
    "frameworks",
    "heading",
    "layer_times",
    "local",
    "neurons",
    "places",
    "plasticity",
    "scaling",
    "tables",
    "training",
    "workloads",
]

_SUITES = {"neurons": neurons, "frameworks": frameworks, "training": training, "compare": compare, "demo": demo}
_SUITES |= {"scaling": scaling, "plasticity": plasticity, "local": local}
_SUITES |= {"published": neurons, "recipe": local}  # by kind of record


@checks.arguments
def tables(record: Mapping[str, Any]) -> str:
    """A record of any kind as text: where its numbers come from, and its tables."""
    return _SUITES[checks.choice("kind of record", record.get("kind"), tuple(_SUITES))].tables(record)
