"""Predict the time of a training step of a spiking network on a machine, from its operations and bytes.

work = tutorial(batch=128)             # or count(net, x, targets, loss): operations, without running them
print(gpu(work, "A100"), ipu(work, "GC200"))       # ranges, from ``hardware.chips`` and ``Assumptions``
machine = fit("cpu")                   # this machine, by micro-benchmarks; nothing is assumed
print(machine.predict(work, "cpp"), validate(machine))       # held-out networks: predicted first, then measured
"""

from snnkit import lazy
from snnkit.lab.hardware.roofline.fitting import (
    HoldoutNet as HoldoutNet,
    Machine as Machine,
    Report as Report,
    clock_of as clock_of,
    fit as fit,
    holdout_nets as holdout_nets,
    times as times,
    validate as validate,
)
from snnkit.lab.hardware.roofline.predictions import (
    MODES as MODES,
    Assumed as Assumed,
    Assumptions as Assumptions,
    DoesNotFit as DoesNotFit,
    Prediction as Prediction,
    Range as Range,
    gpu as gpu,
    ipu as ipu,
    rates as rates,
)
from snnkit.lab.hardware.roofline.work import (
    Layer as Layer,
    Operation as Operation,
    Work as Work,
    count as count,
    tutorial as tutorial,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__)
