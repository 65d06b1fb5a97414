"""A convolutional network after Norse."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from ..neuron import LI, CubaLIF
from ..nn import Sequential
from ..surrogate import SuperSpike, Surrogate
from ._check import check_count, check_widths

_LARGE = 16  # pixels from which two rounds of 5 × 5 convolution and pooling leave something


class ConvNet(Sequential):
    """Convolutional network of current-based neurons that is read out by a leaky integrator::

        conv → CubaLIF → max-pool 2 → conv → CubaLIF → max-pool 2 → flatten → linear → CubaLIF → linear → LI

    Called on images [T, B, channels, size, size], it gives membrane potentials [T, B, classes]: train it with
    ``loss.membrane_max_cross_entropy``. From 16 pixels on, kernels are 5 × 5 without padding as in the source; smaller
    images, such as the 8 × 8 digits, get 3 × 3 with padding 1. The default has 431 080 parameters.

    Source: Norse's ``norse.torch.models.conv.ConvNet`` (Pehle and Pedersen 2021, doi:10.5281/zenodo.4422025). That one
    multiplies the input of the second neuron by 10 to make it fire. Here the initial weights in front of a neuron are
    normal with standard deviation 3 / √fan-in, with which each layer fires in about a tenth of the steps; PyTorch's
    initial weights are so small that the deeper layers stay silent and learn nothing.

    Args:
        channels: of the images, 1 for grey ones, 2 for the polarities of an event camera.
        size: height and width of the images in pixels, at least 4.
        classes: number of outputs.
        widths: channels of the first and the second convolution, neurons of the hidden linear layer.
        dt: time step of every neuron in s.
        surrogate: of every ``CubaLIF``; None: ``SuperSpike(100)``.
        engine: of every neuron.

    Raises:
        TypeError, ValueError: a count that is no positive int, an image that is too small, not exactly three widths;
            what ``CubaLIF`` refuses.
    """

    def __init__(
        self,
        channels: int = 1,
        size: int = 28,
        classes: int = 10,
        *,
        widths: Sequence[int] = (20, 50, 500),
        dt: float = 1e-3,
        surrogate: Surrogate | None = None,
        engine: str = "auto",
    ) -> None:
        check_count(channels, "channels")
        check_count(size, "size", at_least=4)
        check_count(classes, "classes")
        check_widths(widths, (20, 50, 500))
        surrogate = SuperSpike(100.0) if surrogate is None else surrogate

        def lif() -> CubaLIF:
            return CubaLIF(dt=dt, surrogate=surrogate, engine=engine)

        first, second, hidden = widths
        kernel, padding = (5, 0) if size >= _LARGE else (3, 1)
        lost = kernel - 1 - 2 * padding  # pixels that a convolution takes from a side
        side = ((size - lost) // 2 - lost) // 2
        super().__init__(
            _drive(nn.Conv2d(channels, first, kernel, padding=padding)),
            lif(),
            nn.MaxPool2d(2),
            _drive(nn.Conv2d(first, second, kernel, padding=padding)),
            lif(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            _drive(nn.Linear(second * side * side, hidden)),
            lif(),
            nn.Linear(hidden, classes),
            LI(dt=dt, engine=engine),
        )


def _drive(layer: nn.Conv2d | nn.Linear) -> nn.Module:
    """``layer`` with initial weights that make the neurons behind it fire."""
    fan_in = layer.weight[0].numel()
    nn.init.normal_(layer.weight, std=3.0 / fan_in**0.5)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer
