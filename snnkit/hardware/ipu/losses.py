"""The loss inside the model, where PopTorch wants it, and marked as the one to train on.

In a training model PopTorch takes for its loss every operation that it knows as one (cross-entropy, mean squared
error …) and everything passed through ``poptorch.identity_loss``. A loss that another loss is made of is dropped; of
those left there must be exactly one (poptorch/source/RemoveSurplusIdentityLosses.cpp, release 3.4, MIT).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from .model import IPUNet

__all__ = ["NotOneLoss", "WithLoss", "identity_loss"]

REDUCTIONS = ("mean", "sum", "none")

# Called with (input, output) of every loss that is marked while somebody watches.
_watchers: list[Callable[[Tensor, Tensor], None]] = []


def identity_loss(x: Tensor, reduction: str = "none") -> Tensor:
    """Mark ``x`` as the loss to train on, as ``poptorch.identity_loss`` does; elsewhere just the reduction.

    Args:
        x: the loss, of any shape; after the reduction it should be a scalar.
        reduction: "mean", "sum" or "none".

    Raises:
        TypeError: x is no tensor.
        ValueError: another reduction.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"x of identity_loss must be a torch.Tensor, but it is a {type(x).__name__}")
    if reduction not in REDUCTIONS:
        choices = ", ".join(map(repr, REDUCTIONS))
        raise ValueError(f"reduction of identity_loss must be one of {choices}, but it is {reduction!r}")
    poptorch = sys.modules.get("poptorch")
    # Only if somebody has imported it: then a model may be on its way to an IPU.
    if poptorch is not None and not _watchers:
        return poptorch.identity_loss(x, reduction=reduction)
    out = x.mean() if reduction == "mean" else x.sum() if reduction == "sum" else x
    for watch in _watchers:
        watch(x, out)
    return out


@contextmanager
def watching_losses(note: Callable[[Tensor, Tensor], None]) -> Iterator[None]:
    """Have ``note(input, output)`` called of every loss that is marked within, by us or by ``poptorch``."""
    poptorch = sys.modules.get("poptorch")
    theirs = getattr(poptorch, "identity_loss", None)
    _watchers.append(note)
    if theirs is not None:
        poptorch.identity_loss = identity_loss  # type: ignore[union-attr]
    try:
        yield
    finally:
        _watchers.remove(note)
        if theirs is not None:
            poptorch.identity_loss = theirs  # type: ignore[union-attr]


class NotOneLoss(ValueError):
    """What a loss function returned is not one scalar tensor."""


class WithLoss(nn.Module):
    """A network and its loss as one model, as PopTorch trains it: ``out, loss = model(x, y)``, or ``out = model(x)``.

    Args:
        net: from x to out; an ``IPUNet`` gives spikes [B, T, C].
        loss: ``loss(out, y)`` to a scalar. Of an ``IPUNet`` it is given out [T, B, C], so that any of ``snnkit.loss``
            fits.

    Raises:
        TypeError: net is no module or loss can't be called.
        NotOneLoss: called: loss did not return one scalar (a ValueError).
    """

    def __init__(self, net: nn.Module, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        if not isinstance(net, nn.Module):
            raise TypeError(f"net must be a torch.nn.Module, but it is a {type(net).__name__}")
        if not callable(loss):
            raise TypeError(f"loss must be a function of (out, y), but it is a {type(loss).__name__}")
        self.net = net
        self.loss = loss

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """x [B, ...] to out; with the classes y [B], to out and the loss, a marked scalar."""
        out = self.net(x)
        if y is None:
            return out
        value = self.loss(out.transpose(0, 1) if isinstance(self.net, IPUNet) else out, y)
        if not isinstance(value, Tensor):
            found = f"{len(value)} values" if isinstance(value, (tuple, list)) else f"a {type(value).__name__}"
            raise NotOneLoss(f"loss must return one tensor, as an IPU trains on exactly one, but it returned {found}")
        if value.numel() != 1:
            raise NotOneLoss(f"loss must return a scalar, but its shape is {list(value.shape)}; reduce it (mean, sum)")
        return out, identity_loss(value, "none")
