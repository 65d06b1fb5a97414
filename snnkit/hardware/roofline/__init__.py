"""Predict the time of a training step of a spiking network on a machine, from its operations and bytes.

work = tutorial(batch=128)             # or count(net, x, targets, loss): operations, without running them
print(gpu(work, "A100"), ipu(work, "GC200"))       # ranges, from ``hardware.chips`` and ``Assumptions``
machine = fit("cpu")                   # this machine, by micro-benchmarks; nothing is assumed
print(machine.predict(work, "cpp"), validate(machine))       # held-out networks: predicted first, then measured
"""

from snnkit import lazy

from .fitting import Machine as Machine
from .fitting import clock_of as clock_of
from .fitting import fit as fit
from .fitting import times as times
from .predictions import MODES as MODES
from .predictions import Assumed as Assumed
from .predictions import Assumptions as Assumptions
from .predictions import DoesNotFit as DoesNotFit
from .predictions import Prediction as Prediction
from .predictions import Range as Range
from .predictions import gpu as gpu
from .predictions import ipu as ipu
from .validation import HoldoutNet as HoldoutNet
from .validation import Report as Report
from .validation import holdout_nets as holdout_nets
from .validation import validate as validate
from .work import Layer as Layer
from .work import Operation as Operation
from .work import Work as Work
from .work import count as count
from .work import tutorial as tutorial

__getattr__, __dir__, __all__ = lazy.attach(__name__)
