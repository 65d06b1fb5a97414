"""A convolutional network after SpikingJelly."""

from __future__ import annotations

from torch import nn

from ..neuron import IF
from ..nn import Once, Sequential
from ..surrogate import ATan, Surrogate
from ._check import check_count


class FashionConvNet(Sequential):
    """Convolutional network of integrate-and-fire neurons with batch norm, for images of clothes or digits::

        conv 3 × 3 → batch norm → IF → max-pool 2 → conv 3 × 3 → batch norm → IF → max-pool 2
            → flatten → linear → IF → linear → IF

    Called on images [T, B, in_channels, size, size], it gives spikes [T, B, classes]; the mean over T is the answer:
    train it with ``loss.rate_mse``, as published. Neither convolutions nor linear layers have a bias. The default has
    13 014 656 parameters.

    On a static input (``encode.repeat``) the first convolution and its batch norm are computed once, not T times, in
    training as well (``nn.Once``): T copies of a batch have the same mean and variance as the batch.

    Source: SpikingJelly's tutorial and example ``conv_fashion_mnist`` (Fang et al. 2023, doi:10.1126/sciadv.adi1480),
    with 128 channels, 16 hidden neurons per channel, T = 4 and PyTorch's initial weights. The indices of the modules
    are those of its ``conv_fc``.

    Args:
        channels: of both convolutions.
        hidden: neurons of the hidden linear layer.
        classes: number of outputs.
        in_channels: of the images, 1 for grey ones.
        size: height and width of the images in pixels, at least 4.
        surrogate: of every ``IF``; None: ``ATan()``.
        engine: of every neuron.

    Raises:
        TypeError, ValueError: a count that is no positive int, an image that is too small; what ``IF`` refuses.
    """

    def __init__(
        self,
        channels: int = 128,
        hidden: int = 2048,
        classes: int = 10,
        in_channels: int = 1,
        size: int = 28,
        *,
        surrogate: Surrogate | None = None,
        engine: str = "auto",
    ) -> None:
        check_count(channels, "channels")
        check_count(hidden, "hidden")
        check_count(classes, "classes")
        check_count(in_channels, "in_channels")
        check_count(size, "size", at_least=4)
        surrogate = ATan() if surrogate is None else surrogate
        side = size // 2 // 2

        def fire() -> IF:
            return IF(surrogate=surrogate, engine=engine)

        super().__init__(
            nn.Conv2d(in_channels, channels, 3, padding=1, bias=False),
            Once(nn.BatchNorm2d(channels)),
            fire(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            fire(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(channels * side * side, hidden, bias=False),
            fire(),
            nn.Linear(hidden, classes, bias=False),
            fire(),
        )
