"""A spike whose gradient is made of plain operations, for compilers that differentiate the forward pass themselves.

PopTorch records the forward pass and lets PopART differentiate what it recorded: the ``backward`` of a
``torch.autograd.Function`` is never asked (its IPU and AutogradIPU dispatch keys fall back into the same recorder,
poptorch/source/dispatch_tracer/RegisterAtenOverloads.cpp, release 3.4, MIT). So the surrogate has to be in the forward
pass: with h the step of 0 and 1, and s smooth, ``h + (s - s.detach())`` has the value of h and the gradient of s.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ...surrogate import ATan, Surrogate

__all__ = ["Detached", "leaky_step"]


class Detached(Surrogate):
    """A surrogate in detach form: the spikes and the gradient of ``surrogate``, without an ``autograd.Function``.

    The smooth function is the tangent ``s = derivative(u.detach()) * u``, whose gradient is ``derivative(u)`` by
    construction, also for a surrogate that has no closed primitive. As ``s - s.detach()`` is exactly 0 for finite
    ``u`` in whatever rounding, spikes are exactly 0 or 1; the other order, ``(h - s).detach() + s``, would rest on
    rounding, and an IPU may round stochastically.

    Args:
        surrogate: a surrogate of ``snnkit.surrogate`` or one of your own.

    Raises:
        TypeError: it has no ``derivative``.
    """

    def __init__(self, surrogate: Surrogate) -> None:
        if isinstance(surrogate, type) or not isinstance(surrogate, Surrogate):
            raise TypeError(f"surrogate must be a Surrogate such as ATan(), but it is {surrogate!r}")
        self.surrogate = surrogate

    def __call__(self, u: Tensor, strict: bool = False) -> Tensor:
        step = (u > 0 if strict else u >= 0).to(u.dtype)
        smooth = self.surrogate.derivative(u.detach()) * u
        return step + (smooth - smooth.detach())

    def derivative(self, u: Tensor) -> Tensor:
        """That of the surrogate within."""
        return self.surrogate.derivative(u)

    def primitive(self, u: Tensor) -> Tensor:
        """That of the surrogate within."""
        return self.surrogate.primitive(u)

    def __repr__(self) -> str:
        return f"Detached({self.surrogate!r})"


_ATAN = Detached(ATan())


def leaky_step(
    mem: Tensor,
    x: Tensor,
    beta: float = 0.9,
    threshold: float = 1.0,
    surrogate: Callable[..., Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """One step of snnTorch's ``Leaky`` with the state handed in and out, as an IPU can record it.

    mem ← beta mem + x - H(mem - threshold) threshold;  spike = H(mem - threshold). It keeps nothing in a module,
    decides nothing in Python, and equals ``snnkit.neuron.Leaky`` to the bit.

    Args:
        mem: membrane before the step [B, ...].
        x: input current [B, ...].
        beta: decay per step.
        threshold: membrane above which it fires.
        surrogate: the spike function, called ``surrogate(u, strict=True)``; None: ``Detached(ATan())``.

    Returns:
        spike and membrane [B, ...].
    """
    surrogate = _ATAN if surrogate is None else surrogate
    fired = (mem > threshold).to(mem.dtype)
    mem = beta * mem + x - fired * threshold
    return surrogate(mem - threshold, strict=True), mem
