"""Parts of a network in the form that an IPU needs: spikes in plain operations, and the loss inside the model.

PopTorch records the forward pass and differentiates the record: it never calls the ``backward`` of an
``autograd.Function`` (poptorch/source/dispatch_tracer/RegisterAtenOverloads.cpp, release 3.4, MIT). So the surrogate is
part of the forward pass: if h is the step (0 or 1) and s is smooth, ``h + (s - s.detach())`` has the value of h and the
gradient of s. A loss is each operation that PopTorch knows as one, and each result of ``poptorch.identity_loss``.
Losses that another loss is made of do not count; exactly one must remain
(poptorch/source/RemoveSurplusIdentityLosses.cpp).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary

from snnkit import checks
from snnkit.surrogate import Surrogate


@checks.arguments
class Detached(Surrogate):
    """A surrogate in detach form: the spikes and the gradient of ``surrogate``, without an ``autograd.Function``.

    The smooth function is the tangent ``s = derivative(u.detach()) * u``. For finite ``u``, ``s - s.detach()`` is
    exactly 0, so spikes are exactly 0 or 1. ``(h - s).detach() + s`` would depend on rounding, which may be stochastic
    on an IPU.
    """

    def __init__(self, surrogate: Surrogate) -> None:
        self.surrogate = surrogate

    @checks.arguments
    def __call__(self, u: Tensor, strict: bool = False) -> Tensor:
        step = (u > 0 if strict else u >= 0).to(u.dtype)
        smooth = self.surrogate.derivative(u.detach()) * u
        return step + (smooth - smooth.detach())

    def derivative(self, u: Tensor) -> Tensor:
        """That of the surrogate."""
        return self.surrogate.derivative(u)

    def primitive(self, u: Tensor) -> Tensor:
        """That of the surrogate."""
        return self.surrogate.primitive(u)

    def __repr__(self) -> str:
        return f"Detached({self.surrogate!r})"


@checks.arguments
def identity_loss(x: Tensor, reduction: Literal["none", "mean", "sum"] = "none") -> Tensor:
    """Mark ``x`` as the loss to train on, as ``poptorch.identity_loss`` does; elsewhere just the reduction.

    After that, x should be a scalar.
    """
    if has_torch_function_unary(x):  # such as the check's, which notes the loss
        return handle_torch_function(identity_loss, (x,), x, reduction)
    if poptorch := sys.modules.get("poptorch"):  # if it is imported, the model may be for an IPU
        return poptorch.identity_loss(x, reduction=reduction)
    return reduced(x, reduction)


def reduced(x: Tensor, reduction: str) -> Tensor:
    """The reduction alone; always another tensor: later results from ``x`` are then not results from the loss."""
    return x.mean() if reduction == "mean" else x.sum() if reduction == "sum" else x.view_as(x)


class NotOneLoss(ValueError):
    """A loss function did not return one scalar tensor."""


@checks.arguments
class WithLoss(nn.Module):
    """A network and its loss as one model for PopTorch: ``out, loss = model(x, y)``, or ``out = model(x)``.

    Args:
        net: from x to out, batch first.
        loss: ``loss(out, y)`` to a scalar.
    """

    def __init__(self, net: nn.Module, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x: Tensor, y: Tensor | None = None) -> Tensor | tuple[Tensor, Tensor]:
        """x [B, ...] to out. With the classes y [B]: to out and the loss, a marked scalar."""
        out = self.net(x)
        if y is None:
            return out
        checks.instance("y", y, Tensor, "a torch.Tensor of classes [B]")
        value = self.loss(out, y)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise NotOneLoss(f"loss must return one scalar tensor, but it returned {checks.shown(value)}")
        return out, identity_loss(value, "none")
