"""How much work a spiking network is, by NeuroBench's definitions, and what such counts are worth in energy.

    from snnkit.hardware import energy

    found = energy.count(net, x)             # x [T, B, ...]
    print(found)                             # footprint, sparsity, effective MACs and ACs, membrane updates
    print(found.energy())                    # picojoules, with their assumptions and the evidence against them

NeuroBench (Yik et al. 2025, doi:10.1038/s41467-025-56739-4) counts what is not zero:

- footprint: bytes of parameters and buffers;
- connection sparsity: share of the weights that are zero;
- activation sparsity: share of the outputs of neurons and activations that are zero, over layers, steps and samples;
- effective MACs and ACs: pairs of an input and a weight that are both not zero, per sample; ACs (additions alone) in
  layers whose inputs are all 0, 1 or -1, MACs in others; without biases;
- membrane updates: membrane potentials that a step changes, per sample; at a sequence's first step all.

The package `neurobench` itself drives networks of snnTorch, step by step; so the definitions are written here, and
tests compare them with the package where it is installed. ``count`` differs from it in three things. A layer is one of
MACs as soon as one of its inputs in the whole count is another number, while NeuroBench decides call by call (a silent
step adds nothing in either case). A readout's potential (``LI``) is no activation. Sparsities are not rounded.
"""

from .counting import count
from .estimate import Estimate
from .operations import Operations
from .prices import AGAINST, PRICES, Evidence, Prices, prices
from .report import Counts, LayerCount, NeuronCount

__all__ = [
    "AGAINST",
    "PRICES",
    "Counts",
    "Estimate",
    "Evidence",
    "LayerCount",
    "NeuronCount",
    "Operations",
    "Prices",
    "count",
    "prices",
]
