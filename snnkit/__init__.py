"""snnkit: learn and experiment with spiking neural networks on accelerators.

``import snnkit`` costs PyTorch and nothing else; plotting, notebooks and training at scale are imported where used.
"""

import importlib as _importlib

from . import engine, neuron, nn, surrogate

__version__ = "0.1.0"

# Rooms that are loaded when they are first named.
_LAZY = ("course", "data", "encode", "loss", "models", "tools", "train", "viz")

__all__ = [  # pyright: ignore[reportUnsupportedDunderAll]
    "course",
    "data",
    "encode",
    "engine",
    "loss",
    "models",
    "neuron",
    "nn",
    "surrogate",
    "tools",
    "train",
    "viz",
]


def __getattr__(name: str):
    if name in _LAZY:
        return _importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module 'snnkit' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_LAZY])
