"""Networks in and out of other frameworks, through NIR, the Neuromorphic Intermediate Representation.

    graph = interop.to_nir(net, example, dt=1e-3)              # a nir.NIRGraph
    nir.write("net.nir", graph)
    net = interop.from_nir("net.nir", dt=1e-3)                 # out, state = net(x)

NIR (Pedersen et al. 2024, doi:10.1038/s41467-024-52259-9) is a graph of layers in continuous time. It has no time step,
so ``dt`` is an argument on either side, in seconds like all time constants. Differential equations are read and written
by Euler's rule, which is the step of every neuron here. ``python -m pip install nir`` brings the package it needs.

- *Written exactly*: ``IF``, ``LIF``, ``PLIF`` with a hard reset, ``Leaky`` with reset "zero", ``CubaLIF``, ``LI``,
  ``Recurrent`` around them, linear and convolutional layers, average and sum pooling, ``Scale``, ``Flatten``. Only the
  moment at which a membrane meets its threshold exactly is different: NIR fires above it, ``IF``, ``LIF`` and ``PLIF``
  at it. An ``InexactWarning`` says so; ``from_nir`` reads a note in the node's metadata and fires as the original did.
- *Refused*, as NIR can't express it: a soft reset, no reset, max pooling, batch norm (fold it into the layer
  before), adaptive thresholds, Izhikevich.
- *Read*: r, v_leak, v_reset and w_in for each neuron as they are. Thresholds are never rescaled. Subgraphs and branches
  that join (inputs add up) are run as they are, in a ``Graph``. The only loop is a matrix from a neuron to itself.

Others read the same files differently. snnTorch 1.0 assumes dt = 1e-4, divides thresholds by the gain of the input,
and runs an ``IF`` as a ``Leaky`` that decays by 0.9. Norse 1.1 ignores r and v_reset, and writes time constants
multiplied by dt: what ran at 1e-3 is read with ``dt=1e-6``. SpikingJelly 2.0 reads the gains that it writes itself, and
refuses others; it fires at the threshold and does not say so in the file.
"""

from .euler import EulerCubaLI as EulerCubaLI
from .euler import EulerCubaLIF as EulerCubaLIF
from .euler import EulerIF as EulerIF
from .euler import EulerLI as EulerLI
from .euler import EulerLIF as EulerLIF
from .exchange import Graph as Graph
from .exchange import InexactWarning as InexactWarning
from .exchange import from_nir as from_nir
from .exchange import to_nir as to_nir
from .layer_nodes import Scale as Scale
from .layer_nodes import SumPool2d as SumPool2d
