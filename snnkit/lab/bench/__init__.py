"""Benchmarks: candidates side by side, verified before they are timed. Records say where the numbers come from.

    from snnkit.lab import bench

    bench.neurons.benchmark(bench.neurons.Arguments("cpu", neurons=(4096,)))     # what `snnkit bench neurons` runs
    print(bench.tables(record))

==============  ========================================================================
``neurons``     a layer of neurons over time, in our engines and other libraries
``frameworks``  the field's public table: a linear layer and neurons, other libraries and JAX's Spyx
``training``    whole networks in training, ours and other libraries'
``ports``       public examples of other libraries beside the same in ours
``compare``     the network of snnTorch's IPU tutorial: measured, predicted, published
``demo``        every model of the kit on every device
``scaling``     ranks that train together, predicted and measured
``plasticity``  STDP, ours and Norse's
``sparsity``    few spikes: products, event-driven, dense and sparse; training steps
``local``       learning without labels
``record``      the ten-minute set, in one file to send in
==============  ========================================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from snnkit import checks, lazy
from snnkit.lab.bench import (
    baselines as baselines,
    compare as compare,
    demo as demo,
    frameworks as frameworks,
    local as local,
    neurons as neurons,
    plasticity as plasticity,
    ports as ports,
    record as record,
    scaling as scaling,
    sparsity as sparsity,
    training as training,
    workloads as workloads,
)
from snnkit.lab.bench.at_hand import layer_times as layer_times, places as places
from snnkit.lab.bench.suite import heading as heading

_SUITES = {"neurons": neurons, "frameworks": frameworks, "training": training, "compare": compare, "demo": demo}
_SUITES |= {"scaling": scaling, "plasticity": plasticity, "local": local, "ports": ports, "sparsity": sparsity}
_BY_KIND = _SUITES | {"published": neurons, "recipe": local, "contribution": record}


@checks.arguments
def tables(record: Mapping[str, Any]) -> str:
    """A record of any kind as text: where its numbers come from, and its tables."""
    return _BY_KIND[checks.choice("kind of record", record.get("kind"), tuple(_BY_KIND))].tables(record)


__getattr__, __dir__, __all__ = lazy.attach(__name__, *_SUITES, "record", "workloads")
