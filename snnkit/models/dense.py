"""Dense networks: after snnTorch, and a recurrent one for frames of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import Tensor, nn

from .. import checks
from ..neuron import Leaky, Recurrent
from ..nn import Sequential
from ..surrogate import ATan, Surrogate
from .conv import BETA


@checks.arguments
def mlp(
    sizes: Sequence[int] = (784, 1000, 10),
    *,
    beta: float = 0.9,
    reset_mechanism: str = "subtract",
    surrogate: Surrogate | Callable[..., Tensor] = ATan(),
    engine: str = "auto",
    flatten: bool = True,
) -> Sequential:
    """Dense network: a Linear and a ``Leaky`` between each two neighbouring sizes.

    Called on x [T, B, ...], for example images [T, B, 1, 28, 28], it gives spikes [T, B, sizes[-1]]: train it with
    ``loss.rate_cross_entropy`` or ``loss.count_cross_entropy``. The default has 795 010 parameters.
    Source: snnTorch's tutorial 5 and its example for IPUs, both 784-1000-10 with 25 steps.

    Args:
        sizes: number of inputs, of neurons in each hidden layer, and of classes.
        beta, reset_mechanism, surrogate, engine: of every ``Leaky``.
        flatten: begin with an ``nn.Flatten``. Then x may have any shape with sizes[0] values per sample and step;
            otherwise x is [T, B, sizes[0]].
    """
    if len(sizes) < 2:
        raise ValueError(f"sizes must hold at least the number of inputs and of outputs, but it is {tuple(sizes)}")
    checks.counts(**{f"sizes[{i}]": size for i, size in enumerate(sizes)})
    layers: list[nn.Module] = [nn.Flatten()] if flatten else []
    for inputs, outputs in pairwise(sizes):
        layers.append(nn.Linear(inputs, outputs))
        layers.append(Leaky(beta, reset_mechanism=reset_mechanism, surrogate=surrogate, engine=engine))  # type: ignore[arg-type]
    return Sequential(*layers)


class EventRecurrentNet(Sequential):
    """One layer of neurons that receive each other's last spikes::

        flatten → linear → Recurrent(Leaky) → linear → Leaky

    Called on frames [T, B, ...] with ``inputs`` cells each, it gives spikes [T, B, classes]; train it with
    ``loss.count_cross_entropy``. The default has 83 338 parameters.

    Args:
        inputs: cells of a frame: polarities × height × width, or the channels of a cochlea.
        hidden: neurons of the recurrent layer.
        classes: number of outputs.
        engine: of every neuron.
    """

    def __init__(self, inputs: int = 512, hidden: int = 128, classes: int = 10, *, engine: str = "auto") -> None:
        checks.counts(inputs=inputs, hidden=hidden, classes=classes)
        super().__init__(
            nn.Flatten(),
            nn.Linear(inputs, hidden),
            Recurrent(Leaky(BETA, engine=engine), hidden),
            nn.Linear(hidden, classes),
            Leaky(BETA, engine=engine),
        )
