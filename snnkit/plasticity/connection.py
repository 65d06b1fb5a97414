"""Who is connected with whom: every neuron with every other, or as in a convolution, where synapses share a weight.

A rule knows pairs of neurons. Here the spikes and traces of two layers become the rows of two matrices: a weight
[n_post, n] changes by the sum of the outer products of their rows. A convolution has a row for each of its positions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn

from . import check

Pair = int | tuple[int, int]


@dataclass(frozen=True)
class Dense:
    """Every neuron with every one of the other side: weight [n_post, n_pre], pre [B, n_pre], post [B, n_post]."""

    dims: ClassVar[int] = 1  # of one side's neurons
    groups: ClassVar[int] = 1

    def check(self, pre: Any, post: Any, weight: Any, lead: str) -> None:
        """TypeError or ValueError unless the three fit each other. ``lead`` is "B" or "T, B"."""
        check.weight_matrix(weight)
        check.spikes("pre", pre, weight.shape[1], weight, lead)
        check.spikes("post", post, weight.shape[0], weight, lead)
        check.same_lead(pre, post, lead)

    def rows(self, post: Tensor) -> Tensor:
        """Of the postsynaptic side [..., B, n_post]."""
        return post

    def columns(self, pre: Tensor, weight: Tensor) -> Tensor:
        """Of the presynaptic side [..., B, n_pre]."""
        return pre


@dataclass(frozen=True)
class Convolution:
    """As in ``torch.nn.Conv2d``: weight [O, C / groups, kH, kW], pre [B, C, H, W], post [B, O, H', W'].

    Every neuron has a trace of its own. A weight is shared by a synapse at each position, and its change is the sum
    over all of them, as in Norse; for the mean, divide the amplitudes of the rule by H' W'. Beyond the edges nobody
    fires.

    Args:
        stride, padding, dilation: one for both axes, or (vertical, horizontal).
        groups: of channels that are connected only among themselves.

    Raises:
        TypeError, ValueError: no whole numbers, or too small ones.
    """

    stride: Pair = 1
    padding: Pair = 0
    dilation: Pair = 1
    groups: int = 1

    dims: ClassVar[int] = 3

    def __post_init__(self) -> None:
        for name, least in (("stride", 1), ("padding", 0), ("dilation", 1)):
            check.both_axes(name, getattr(self, name), least)
        check.whole("groups", self.groups, 1)

    @classmethod
    def of(cls, layer: nn.Conv2d) -> Convolution:
        """That of a layer.

        Raises:
            TypeError, ValueError: no ``Conv2d``, or one that pads with something else than zeros, or by a word.
        """
        if not isinstance(layer, nn.Conv2d):
            raise TypeError(f"layer must be a torch.nn.Conv2d, not a {type(layer).__name__}")
        if layer.padding_mode != "zeros":
            raise ValueError(f"layer must have the padding_mode 'zeros', not {layer.padding_mode!r}")
        if isinstance(layer.padding, str):
            raise ValueError(f"layer must say its padding in numbers, not as {layer.padding!r}")
        axes: Any = layer  # PyTorch does not say that they are pairs
        return cls(axes.stride, axes.padding, axes.dilation, layer.groups)

    def outputs(self, pre: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, int]:
        """(H', W') of pre [..., H, W] and weight [..., kH, kW]; 0 or less where the kernel is larger than the image."""
        found = [
            (size + 2 * padding - dilation * (width - 1) - 1) // stride + 1
            for size, width, stride, padding, dilation in zip(pre[-2:], kernel[-2:], *self.axes, strict=True)
        ]
        return found[0], found[1]

    def check(self, pre: Any, post: Any, weight: Any, lead: str) -> None:
        """TypeError or ValueError unless the three fit each other. ``lead`` is "B" or "T, B"."""
        check.weight_kernel(weight, self.groups)
        channels, inputs = weight.shape[0], weight.shape[1] * self.groups
        check.images("pre", pre, inputs, weight, lead, "C, H, W")
        check.images("post", post, channels, weight, lead, "O, H', W'")
        check.same_lead(pre, post, lead)
        expected = self.outputs(pre.shape, weight.shape)
        if min(expected) < 1:
            raise ValueError(
                f"weight {list(weight.shape)} must not reach beyond pre {list(pre.shape)} with its padding, but there "
                "is no position for it"
            )
        if tuple(post.shape[-2:]) != expected:
            raise ValueError(
                f"post must have {expected[0]} × {expected[1]} neurons per channel, as the convolution of pre "
                f"{list(pre.shape)} by weight {list(weight.shape)} has, but its shape is {list(post.shape)}"
            )

    def rows(self, post: Tensor) -> Tensor:
        """[..., B, O, H', W'] → [..., B H' W', O]."""
        return post.movedim(-3, -1).flatten(-4, -2)

    def columns(self, pre: Tensor, weight: Tensor) -> Tensor:
        """What each position sees: [..., B, C, H, W] → [..., B H' W', C kH kW]."""
        (vertical, horizontal), padding, dilation = self.axes
        seen = nn.functional.pad(pre, (padding[1], padding[1], padding[0], padding[0]))
        height, width = (d * (size - 1) + 1 for d, size in zip(dilation, weight.shape[-2:], strict=True))
        seen = seen.unfold(-2, height, vertical).unfold(-2, width, horizontal)[..., :: dilation[0], :: dilation[1]]
        # [..., B, C, H', W', kH, kW]
        return seen.movedim(-5, -3).flatten(-3).flatten(-4, -2)

    @property
    def axes(self) -> tuple[tuple[int, int], ...]:
        """Stride, padding and dilation, each (vertical, horizontal)."""
        return tuple((x, x) if isinstance(x, int) else x for x in (self.stride, self.padding, self.dilation))


Connection = Dense | Convolution
CONNECTIONS = (Dense, Convolution)
EVERY_PAIR = Dense()


def checked_connection(value: Any) -> Connection:
    """``value`` if it is one, else TypeError."""
    if not isinstance(value, CONNECTIONS):
        raise TypeError(f"connection must be a Dense or a Convolution, not {value!r}")
    return value
