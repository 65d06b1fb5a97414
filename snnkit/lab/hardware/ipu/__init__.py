"""Intelligence processing units (IPUs, by Graphcore): is a network ready for one?

    print(ipu.check(net, (images, labels), loss))  # why not? how to fix it?

**Nothing in this package has ever run on an IPU.** It follows the documentation and the sources of PopTorch 3.4, the
last release (October 2023; github.com/graphcore/poptorch, © Graphcore Ltd., MIT licence). PopTorch needs exactly
PyTorch 2.0.1, but snnkit needs a newer one. So only a model of plain PyTorch can run on such a machine.
"""

from snnkit import lazy
from snnkit.lab.hardware.ipu.nets import (
    Detached as Detached,
    NotOneLoss as NotOneLoss,
    WithLoss as WithLoss,
    identity_loss as identity_loss,
)
from snnkit.lab.hardware.ipu.poptorch_rules import RULES as RULES, Finding as Finding, MemoryEstimate as MemoryEstimate
from snnkit.lab.hardware.ipu.readiness import Report as Report, check as check

__getattr__, __dir__, __all__ = lazy.attach(__name__)
