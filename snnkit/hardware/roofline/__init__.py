"""How long a training step of a spiking network takes on a machine: predicted from what it computes and moves.

    work = tutorial(batch=128)             # or count(net, x, targets, loss): operations, without running them
    print(gpu(work, "A100"))               # eager; mode="fused", "graph", "fused graph"
    print(ipu(work, "GC200"))

What chips do is read from ``hardware.chips``; what nobody published is in ``Assumptions``, with a range; so every
result is a range. On the machine at hand nothing need be assumed::

    machine = fit("cpu")                   # micro-benchmarks, no network
    print(machine.predict(work, "cpp"))
    print(judge(machine))                  # networks it has not seen: predicted first, then measured
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .assumptions import Assumed, Assumptions
from .bsp import DoesNotFit, ipu, ipu_memory
from .launches import MODES, gpu
from .prediction import Prediction
from .ranges import Range
from .work import Layer, Operation, Work

if TYPE_CHECKING:
    from .counting import count, tutorial
    from .fitting import fit
    from .judging import Report, judge
    from .machine import Machine
    from .unseen import Unseen, nets

__all__ = [
    "MODES",
    "Assumed",
    "Assumptions",
    "DoesNotFit",
    "Layer",
    "Machine",
    "Operation",
    "Prediction",
    "Range",
    "Report",
    "Unseen",
    "Work",
    "count",
    "fit",
    "gpu",
    "ipu",
    "ipu_memory",
    "judge",
    "nets",
    "tutorial",
]

# They bring torch.
_LATER = {
    "Machine": "machine",
    "Report": "judging",
    "Unseen": "unseen",
    "count": "counting",
    "fit": "fitting",
    "judge": "judging",
    "nets": "unseen",
    "tutorial": "counting",
}


def __getattr__(name: str):
    if name in _LATER:
        return getattr(importlib.import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
