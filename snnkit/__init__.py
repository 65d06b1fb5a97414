"""snnkit: learn and experiment with spiking neural networks on accelerators.

Each room is loaded when it is first named, so ``import snnkit`` costs nothing by itself: the neurons bring PyTorch,
plotting and notebooks what they need.
"""

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "challenge",
    "course",
    "data",
    "device",
    "encode",
    "engine",
    "export",
    "hardware",
    "interop",
    "loss",
    "models",
    "neuron",
    "nn",
    "plasticity",
    "quantize",
    "surrogate",
    "sweep",
    "text",
    "tools",
    "train",
    "viz",
]

if _TYPE_CHECKING:
    from . import (
        challenge,
        course,
        data,
        device,
        encode,
        engine,
        export,
        hardware,
        interop,
        loss,
        models,
        neuron,
        nn,
        plasticity,
        quantize,
        surrogate,
        sweep,
        text,
        tools,
        train,
        viz,
    )


def __getattr__(name: str):
    if name in __all__:
        return _importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'snnkit' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
