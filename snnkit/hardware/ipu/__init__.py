"""Intelligence processing units (Graphcore): is a network ready for one?

    print(ipu.check(net, (images, labels), loss))  # why not? how to fix it?

**Nothing in this package has ever run on an IPU.** It is written after the documentation and the sources of PopTorch
3.4, the last release (October 2023; github.com/graphcore/poptorch, © Graphcore Ltd., MIT licence), which needs exactly
PyTorch 2.0.1, older than what snnkit needs: what reaches such a machine is a model of plain PyTorch.
"""

from .nets import Detached as Detached
from .nets import NotOneLoss as NotOneLoss
from .nets import WithLoss as WithLoss
from .nets import identity_loss as identity_loss
from .poptorch_rules import RULES as RULES
from .poptorch_rules import Finding as Finding
from .poptorch_rules import MemoryEstimate as MemoryEstimate
from .readiness import Report as Report
from .readiness import check as check
