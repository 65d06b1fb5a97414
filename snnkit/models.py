"""Two reference networks, each a ``snnkit.nn.Sequential``: a dense one after snnTorch, a convolutional one after Norse.

Both are called ``out, state = net(x, state=None)`` on sequences [T, B, ...]. Plain layers (Linear, Conv2d, pooling)
work on all steps at once, and only once if the input is static (``encode.repeat``).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral

from torch import nn

from .neuron import LI, CubaLIF, Leaky
from .nn import Sequential
from .surrogate import ATan, SuperSpike, Surrogate

__all__ = ["ConvNet", "mlp"]

_LARGE = 16  # pixels from which two rounds of 5 × 5 convolution and pooling leave something


def mlp(
    sizes: Sequence[int] = (784, 1000, 10),
    *,
    beta: float = 0.9,
    reset_mechanism: str = "subtract",
    surrogate: Surrogate | None = None,
    engine: str = "auto",
    flatten: bool = True,
) -> Sequential:
    """Dense network: for each two neighbouring sizes a Linear and a ``Leaky``, after the last Linear as well.

    Called on x [T, B, ...], for example images [T, B, 1, 28, 28], it gives spikes [T, B, sizes[-1]]: train it with
    ``loss.rate_cross_entropy`` or ``loss.count_cross_entropy``. The default has 795 010 parameters.
    Source: snnTorch's tutorial 5 and its example for IPUs, both 784-1000-10 with 25 steps.

    Args:
        sizes: number of inputs, of neurons in each hidden layer, and of classes.
        beta, reset_mechanism, engine: of every ``Leaky``.
        surrogate: of every ``Leaky``; None: ``ATan()``.
        flatten: begin with an ``nn.Flatten``, so that x may have any shape with sizes[0] values per sample and step;
            without it x is [T, B, sizes[0]].

    Raises:
        TypeError, ValueError: fewer than two sizes, or one that is no positive int; what ``Leaky`` refuses.
    """
    if isinstance(sizes, str) or not isinstance(sizes, Sequence):
        raise TypeError(f"sizes must be a sequence of ints, such as (784, 1000, 10), but it is {sizes!r}")
    if len(sizes) < 2:
        raise ValueError(f"sizes must hold at least the number of inputs and of outputs, but it is {tuple(sizes)}")
    for i, size in enumerate(sizes):
        _check_count(size, f"sizes[{i}]")
    _check_flag(flatten, "flatten")
    surrogate = ATan() if surrogate is None else surrogate
    layers: list[nn.Module] = [nn.Flatten()] if flatten else []
    for inputs, outputs in pairwise(sizes):
        layers.append(nn.Linear(inputs, outputs))
        layers.append(Leaky(beta, reset_mechanism=reset_mechanism, surrogate=surrogate, engine=engine))
    return Sequential(*layers)


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
        _check_count(channels, "channels")
        _check_count(size, "size", at_least=4)
        _check_count(classes, "classes")
        if isinstance(widths, str) or not isinstance(widths, Sequence):
            raise TypeError(f"widths must be three ints, such as (20, 50, 500), but it is {widths!r}")
        if len(widths) != 3:
            raise ValueError(f"widths must be three ints, such as (20, 50, 500), but it is {tuple(widths)}")
        for i, width in enumerate(widths):
            _check_count(width, f"widths[{i}]")
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


def _check_count(value: int, name: str, *, at_least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an int of at least {at_least}, but it is {value!r}")
    if value < at_least:
        raise ValueError(f"{name} must be at least {at_least}, but it is {value}")


def _check_flag(value: bool, name: str) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, but it is {value!r}")
