"""Intelligence processing units (Graphcore): networks in the form they take, the way to one, and a check without one.

    from snnkit import models
    from snnkit.hardware import ipu
    from snnkit.loss import count_cross_entropy

    net = ipu.convert(models.mlp(flatten=False), steps=25)       # the same weights, batch first, plain operations
    print(ipu.check(net, (images, labels), count_cross_entropy))  # fit for an IPU? why not? how to mend it?
    model = ipu.ipu_training_model(net, count_cross_entropy)      # needs PopTorch 3.4 and an IPU

PopTorch 3.4 runs with PyTorch 2.0.1 and Python 3.8, which snnkit does not. So the way to a machine that has it is a
program of plain PyTorch, compared with the network before it is written::

    ipu.write_program(models.mlp(flatten=False), count_cross_entropy, (images, labels), "on_ipu.py", steps=25)

**Nothing in this package has ever run on an IPU.** It is written after the documentation and the sources of PopTorch
3.4, the last release (October 2023; github.com/graphcore/poptorch, © Graphcore Ltd., MIT licence), and tested against a
double of its interface.
"""

from .check import check as check
from .losses import NotOneLoss as NotOneLoss
from .losses import WithLoss as WithLoss
from .losses import identity_loss as identity_loss
from .model import IPUNet as IPUNet
from .model import convert as convert
from .poptorch_path import PopTorchMissing as PopTorchMissing
from .poptorch_path import ipu_training_model as ipu_training_model
from .poptorch_path import poptorch_status as poptorch_status
from .program import write_program as write_program
from .report import RULES as RULES
from .report import Finding as Finding
from .report import MemoryEstimate as MemoryEstimate
from .report import NotReady as NotReady
from .report import Report as Report
from .surrogates import Detached as Detached
from .surrogates import leaky_step as leaky_step
from .tutorial import LeakyLayer as LeakyLayer
from .tutorial import tutorial_loss as tutorial_loss
from .tutorial import tutorial_net as tutorial_net
