"""snnkit: learn and experiment with spiking neural networks on accelerators.

The library is what a script imports: ``from snnkit import neuron, train``. What notebooks and the command line stand on
is ``snnkit.lab``. Each room is loaded when it is first named, so ``import snnkit`` costs nothing by itself: the neurons
bring PyTorch, plotting and notebooks what they need.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from snnkit import lazy as _lazy

__version__ = "0.1.0"

if _TYPE_CHECKING:
    from snnkit import (
        data as data,
        device as device,
        encode as encode,
        engine as engine,
        export as export,
        interop as interop,
        lab as lab,
        loss as loss,
        measure as measure,
        models as models,
        neuron as neuron,
        nn as nn,
        plasticity as plasticity,
        quantize as quantize,
        records as records,
        surrogate as surrogate,
        train as train,
    )

__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    "data",
    "device",
    "encode",
    "engine",
    "export",
    "interop",
    "loss",
    "measure",
    "models",
    "neuron",
    "nn",
    "plasticity",
    "quantize",
    "records",
    "surrogate",
    "train",
    "lab",
)

# Where they were before there was a lab.
_lazy.MOVED.update(
    (f"snnkit.{room}", f"snnkit.lab.{room}")
    for room in ("bench", "challenge", "cli", "course", "hardware", "sweep", "text", "tools", "viz", "workshop")
)
_lazy.MOVED.update(
    (f"snnkit.export.{name}", f"snnkit.lab.pages.{name}") for name in ("page", "playground", "reader", "reader_network")
)
_lazy.MOVED["snnkit.lab.viz.labs"] = "snnkit.lab.viz.explorers"
