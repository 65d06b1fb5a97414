"""Networks in and out of other frameworks, through NIR, the Neuromorphic Intermediate Representation; and spiking ones
from trained networks without spikes (``ann_to_snn``).

    graph = interop.to_nir(net, example, dt=1e-3)              # a nir.NIRGraph
    nir.write("net.nir", graph)
    net = interop.from_nir("net.nir", dt=1e-3)                 # out, state = net(x)

NIR (Pedersen et al. 2024, doi:10.1038/s41467-024-52259-9) is a graph of layers in continuous time. It has no time step,
so both functions need ``dt``, in seconds like all time constants. Differential equations are read and written by
Euler's rule, which is the step of every neuron here. ``python -m pip install nir`` installs the package it needs.

- *Written exactly*: ``IF``, ``LIF``, ``PLIF`` with a hard reset, ``Leaky`` with reset "zero", ``Synaptic`` with it and
  without a delay, ``CubaLIF``, ``LI``, ``Readout``; ``OneToOne`` and ``Recurrent`` around them, with a linear map or a
  convolution; linear and convolutional layers, average and sum pooling, ``Scale``, ``Flatten``; one after the other,
  or as branches that join in a ``Graph``. From that, ``from_nir`` makes the same modules again, as notes in
  the metadata say what NIR does not: their names, which numbers are learned, the surrogates of this package. There is
  one difference, when a membrane is exactly at its threshold: ``IF``, ``LIF`` and ``PLIF`` fire, NIR fires only above.
  An ``InexactWarning`` says so. ``from_nir`` reads a note in the node's metadata and fires like the original.
- *Refused*, as NIR can't express it: a soft reset, no reset, max pooling, batch norm (fold it into the layer
  before), adaptive thresholds, a refractory period, membranes that are not linear (``QIF``, ``AdEx``, ``Izhikevich``).
- *Read*: r, v_leak, v_reset and w_in of each neuron, unchanged. Thresholds are never rescaled. Subgraphs, and branches
  that join (inputs add up), run unchanged in a ``Graph``. The only possible loop is weights from a neuron to itself.
- *Not said*: files of nir before 1.0.6 have no v_reset: ``reset=`` decides, and a warning asks for it. Some libraries
  write steps for seconds: graphs of Sinabs need ``dt=1``. Elsewhere they are silent, and a warning says so.

Other libraries read the same files differently. snnTorch 1.0 assumes dt = 1e-4, divides thresholds by the gain of the
input, and runs an ``IF`` as a ``Leaky`` that decays by 0.9. Norse 1.1 ignores r and v_reset, and multiplies the time
constants that it writes by dt: read a network that ran at 1e-3 with ``dt=1e-6``. SpikingJelly 2.0 reads its own gains
and refuses others; it fires at the threshold, but its files do not say so.
"""

from snnkit import lazy
from snnkit.interop.exchange import InexactWarning as InexactWarning, from_nir as from_nir, to_nir as to_nir
from snnkit.interop.graph import Graph as Graph
from snnkit.interop.layer_nodes import Scale as Scale, SumPool2d as SumPool2d
from snnkit.interop.neuron_nodes import (
    EulerCubaLI as EulerCubaLI,
    EulerCubaLIF as EulerCubaLIF,
    EulerI as EulerI,
    EulerIF as EulerIF,
    EulerLI as EulerLI,
    EulerLIF as EulerLIF,
)

__getattr__, __dir__, __all__ = lazy.attach(__name__, "ann:ann_to_snn", "ann:CountMaxPool", "ann:PrechargedIF")
