"""Networks after snnTorch, Norse and SpikingJelly, dense and convolutional, and two small ones for frames of events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from torch import Tensor, nn

from snnkit import checks
from snnkit.neuron import IF, LI, CubaLIF, Leaky, Recurrent
from snnkit.nn import Once, Sequential
from snnkit.surrogate import ATan, Surrogate

_LARGE = 16  # pixels from which on two rounds of 5 × 5 convolution and pooling leave something
BETA = 0.9  # of event nets: a membrane forgets two thirds in ten steps, so that a saccade of five or so is seen as one


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


class ConvNet(Sequential):
    """Convolutional network of current-based neurons that is read out by a leaky integrator::

        conv → CubaLIF → max-pool 2 → conv → CubaLIF → max-pool 2 → flatten → linear → CubaLIF → linear → LI

    Called on images [T, B, channels, size, size], it gives membrane potentials [T, B, classes]: train it with
    ``loss.membrane_max_cross_entropy``. From 16 pixels on, kernels are 5 × 5 without padding, as in the source. Smaller
    images, such as the 8 × 8 digits, get 3 × 3 with padding 1. The default has 431 080 parameters.

    Source: Norse's ``norse.torch.models.conv.ConvNet`` (Pehle and Pedersen 2021, doi:10.5281/zenodo.4422025), which
    multiplies the input of the second neuron by 10 to make it fire. Here the initial weights in front of a neuron are
    normal with standard deviation 3 / √fan-in, so that each layer fires in about a tenth of the steps.

    Args:
        channels: of the images, 1 for grey ones, 2 for the polarities of an event camera.
        size: height and width of the images in pixels, at least 4.
        classes: number of outputs.
        widths: channels of the first and the second convolution, neurons of the hidden linear layer.
        engine: of every neuron.
    """

    def __init__(
        self,
        channels: int = 1,
        size: int = 28,
        classes: int = 10,
        *,
        widths: Sequence[int] = (20, 50, 500),
        engine: str = "auto",
    ) -> None:
        _check_sizes(size, widths, 3, channels=channels, classes=classes)
        first, second, hidden = widths
        kernel, padding = (5, 0) if size >= _LARGE else (3, 1)
        lost = kernel - 1 - 2 * padding  # pixels that a convolution takes from a side
        side = ((size - lost) // 2 - lost) // 2
        super().__init__(
            _drive(nn.Conv2d(channels, first, kernel, padding=padding)),
            CubaLIF(engine=engine),
            nn.MaxPool2d(2),
            _drive(nn.Conv2d(first, second, kernel, padding=padding)),
            CubaLIF(engine=engine),
            nn.MaxPool2d(2),
            nn.Flatten(),
            _drive(nn.Linear(second * side * side, hidden)),
            CubaLIF(engine=engine),
            nn.Linear(hidden, classes),
            LI(engine=engine),
        )


def _drive(layer: nn.Conv2d | nn.Linear) -> nn.Module:
    """``layer`` with initial weights that make the neurons behind it fire."""
    fan_in = layer.weight[0].numel()
    nn.init.normal_(layer.weight, std=3.0 / fan_in**0.5)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)
    return layer


class FashionConvNet(Sequential):
    """Convolutional network of integrate-and-fire neurons with batch norm, for images of clothes or digits::

        conv 3 × 3 → batch norm → IF → max-pool 2 → conv 3 × 3 → batch norm → IF → max-pool 2
            → flatten → linear → IF → linear → IF

    Called on images [T, B, in_channels, size, size], it gives spikes [T, B, classes]. The mean over T is the answer:
    train it with ``loss.rate_mse``, as published. Convolutions and linear layers have no bias. The default has 13 014
    656 parameters.

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
        engine: of every neuron.
    """

    def __init__(
        self,
        channels: int = 128,
        hidden: int = 2048,
        classes: int = 10,
        in_channels: int = 1,
        size: int = 28,
        *,
        engine: str = "auto",
    ) -> None:
        _check_sizes(size, (), 0, channels=channels, hidden=hidden, classes=classes, in_channels=in_channels)
        side = size // 2 // 2
        super().__init__(
            nn.Conv2d(in_channels, channels, 3, padding=1, bias=False),
            Once(nn.BatchNorm2d(channels)),
            IF(engine=engine),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            IF(engine=engine),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(channels * side * side, hidden, bias=False),
            IF(engine=engine),
            nn.Linear(hidden, classes, bias=False),
            IF(engine=engine),
        )


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
        _check_sizes(size, widths, 2, polarities=polarities, classes=classes)
        first, second = widths
        side = -(-size // 4)
        super().__init__(
            nn.Conv2d(polarities, first, 3, stride=2, padding=1),
            Leaky(BETA, engine=engine),
            nn.Conv2d(first, second, 3, stride=2, padding=1),
            Leaky(BETA, engine=engine),
            nn.Flatten(),
            nn.Linear(second * side * side, classes),
            Leaky(BETA, engine=engine),
        )


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


def _check_sizes(size: int, widths: Sequence[int], layers: int, **counts: int) -> None:
    checks.integer("size", size, at_least=4)
    checks.counts(**counts, **{f"widths[{i}]": width for i, width in enumerate(widths)})
    if len(widths) != layers:
        raise ValueError(f"widths must be {layers} integers, but it is {list(widths)}")


checks.all_arguments(__name__)
