"""Two small networks for frames of events: one that sees shapes, one that remembers."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from ..neuron import Leaky, Recurrent
from ..nn import Sequential
from ._check import check_count, check_widths

_BETA = 0.9  # a membrane forgets two thirds in ten steps, so that a saccade of five or so is seen as one


class EventConvNet(Sequential):
    """Strided convolutions, no pooling::

        conv 3 × 3, stride 2 → Leaky → conv 3 × 3, stride 2 → Leaky → flatten → linear → Leaky

    Called on frames [T, B, polarities, size, size], it gives spikes [T, B, classes]; train it with
    ``loss.count_cross_entropy``. The default has 10 074 parameters.

    Args:
        polarities: channels of the frames.
        size: height and width in pixels, at least 4.
        classes: number of outputs.
        widths: channels of the two convolutions.
        engine: of every neuron.

    Raises:
        TypeError, ValueError: a count that is no positive int, a size below 4, not exactly two widths.
    """

    def __init__(
        self,
        polarities: int = 2,
        size: int = 16,
        classes: int = 10,
        *,
        widths: Sequence[int] = (16, 32),
        engine: str = "auto",
    ) -> None:
        check_count(polarities, "polarities")
        check_count(size, "size", at_least=4)
        check_count(classes, "classes")
        check_widths(widths, (16, 32))
        first, second = widths
        side = -(-size // 4)
        super().__init__(
            nn.Conv2d(polarities, first, 3, stride=2, padding=1),
            Leaky(_BETA, engine=engine),
            nn.Conv2d(first, second, 3, stride=2, padding=1),
            Leaky(_BETA, engine=engine),
            nn.Flatten(),
            nn.Linear(second * side * side, classes),
            Leaky(_BETA, engine=engine),
        )


class EventRecurrentNet(Sequential):
    """One layer of neurons that hear each other's last spikes::

        flatten → linear → Recurrent(Leaky) → linear → Leaky

    Called on frames [T, B, ...] of so many cells each, it gives spikes [T, B, classes]; train it with
    ``loss.count_cross_entropy``. The default has 83 338 parameters.

    Args:
        inputs: cells of a frame: polarities × height × width, or the channels of a cochlea.
        hidden: neurons of the recurrent layer.
        classes: number of outputs.
        engine: of every neuron.

    Raises:
        TypeError, ValueError: a count that is no positive int.
    """

    def __init__(self, inputs: int = 512, hidden: int = 128, classes: int = 10, *, engine: str = "auto") -> None:
        for name, value in (("inputs", inputs), ("hidden", hidden), ("classes", classes)):
            check_count(value, name)
        super().__init__(
            nn.Flatten(),
            nn.Linear(inputs, hidden),
            Recurrent(Leaky(_BETA, engine=engine), hidden),
            nn.Linear(hidden, classes),
            Leaky(_BETA, engine=engine),
        )
