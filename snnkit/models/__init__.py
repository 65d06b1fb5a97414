"""Reference networks, each a ``snnkit.nn.Sequential``, called ``out, state = net(x, state=None)`` on [T, B, ...].

| network | after | output |
|---|---|---|
| ``mlp`` | snnTorch's dense 784-1000-10 | spikes [T, B, classes] |
| ``ConvNet`` | Norse's convolutional net, read out by a leaky integrator | potentials [T, B, classes] |
| ``FashionConvNet`` | SpikingJelly's convolutional net with batch norm | spikes [T, B, classes] |
| ``EventConvNet``, ``EventRecurrentNet`` | ours: small, for frames of events | spikes [T, B, classes] |
| ``StatisticalSNN`` | ours: populations, read out by the statistics of their firing | logits [1, B, classes] |

Plain layers (Linear, Conv2d, pooling) work on all steps at once, and only once if the input is static
(``encode.repeat``).
"""

from snnkit.models.networks import ConvNet, EventConvNet, EventRecurrentNet, FashionConvNet, mlp
from snnkit.models.statistical import Answer, Population, PopulationState, StatisticalSNN, Statistics

__all__ = [
    "Answer",
    "ConvNet",
    "EventConvNet",
    "EventRecurrentNet",
    "FashionConvNet",
    "Population",
    "PopulationState",
    "StatisticalSNN",
    "Statistics",
    "mlp",
]
