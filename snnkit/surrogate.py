"""Spikes with surrogate gradients.

A neuron fires when its membrane crosses a threshold: ``spike = H(u)`` with ``u = v - threshold`` and H the Heaviside
step. The derivative of H is zero almost everywhere, so no network could learn through it. A surrogate leaves the
forward pass as it is (exactly 0 or 1) and replaces dH/du in the backward pass by the derivative of a smooth function
(Neftci, Mostafa and Zenke 2019, doi:10.1109/MSP.2019.2931595).

Two conventions exist for a membrane that sits exactly at the threshold. SpikingJelly fires there (``u >= 0``, the
default here), snnTorch and Norse do not (``u > 0``, ``strict=True``).

A surrogate of your own needs one method::

    @dataclass(frozen=True)
    class Gaussian(Surrogate):
        width: float = 0.5

        def derivative(self, u):
            return torch.exp(-((u / self.width) ** 2) / 2) / (self.width * math.sqrt(2 * math.pi))
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor

from snnkit import checks, lazy

__all__ = ["ATan", "FastSigmoid", "Sigmoid", "StraightThrough", "SuperSpike", "Surrogate", "Triangle"]


_functorch: Any = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
_apply = torch.autograd.Function.__dict__["apply"]


def _spike_of(surrogate: Surrogate) -> type[torch.autograd.Function]:
    """Heaviside step forward, the surrogate's derivative backward: ``.apply(u, strict)``.

    One function per surrogate, opaque to Dynamo: that would make a symbol of a slope that differs between two calls,
    and can't pass symbols to an autograd.Function. What comes after Dynamo traces through it.
    """

    class Spike(torch.autograd.Function):
        # Lets torch.func (vmap, vjp) and make_fx see through the function.
        generate_vmap_rule = True

        @classmethod
        def apply(cls, u: Tensor, strict: bool) -> Any:
            """PyTorch's own binds arguments to a signature, which takes as long as the rest of a small step."""
            watched = torch.autograd.Function.__dict__["apply"] is not _apply  # by who wants to see such calls
            if watched or _functorch.peek_interpreter_stack() is not None:
                return super().apply(u, strict)
            return super(torch.autograd.Function, cls).apply(_functorch.unwrap_if_dead(u), strict)  # type: ignore[misc]

        @staticmethod
        def forward(u: Tensor, strict: bool) -> Tensor:
            return (u > 0 if strict else u >= 0).to(u.dtype)

        @staticmethod
        def setup_context(ctx, inputs, output) -> None:
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx, *grads: Tensor):
            (u,) = ctx.saved_tensors
            return grads[0] * surrogate.derivative(u), None

    _NEW.add(Spike)
    return Spike


_NEW: WeakSet[type[torch.autograd.Function]] = WeakSet()


def _allow_in_graph() -> bool:
    """Called while Dynamo traces, and not when a surrogate is made: that would import the compiler with the library."""
    while _NEW:
        torch.compiler.allow_in_graph(_NEW.pop())
    return True


# Run by Dynamo as it is, not traced: the mark that torch.compiler.assume_constant_result sets, without its imports.
_allow_in_graph._dynamo_marked_constant = True  # type: ignore[attr-defined]


def _takes_operations_only() -> bool:
    """Whether an autograd.Function could not be saved (``torch.jit.trace``) or transformed (``functionalize``)."""
    if torch._C._get_tracing_state() is not None:
        return True
    if _functorch.peek_interpreter_stack() is None:
        return False
    return any(level.key() == _functorch.TransformType.Functionalize for level in _functorch.get_interpreter_stack())


def _real(u: Tensor) -> Tensor:
    # By hand: it runs in every step, and is read by whatever compiles the step.
    if not isinstance(u, Tensor) or not u.is_floating_point():
        hint = f"its dtype is {u.dtype}" if isinstance(u, Tensor) else f"it is a {type(u).__name__}"
        raise TypeError(f"u must be a floating-point tensor, but {hint}")
    return u


class Surrogate:
    """Base of all surrogates; a subclass defines ``derivative`` (and ``primitive``, where it has a closed form).

    Calling one, ``surrogate(u, strict=False)``, gives 1 where ``u >= 0`` (``strict``: where ``u > 0``) and 0 elsewhere
    (also for NaN), in the dtype of ``u``; its gradient is ``derivative(u)``. Dataclass fields are Python numbers from
    1e-6 to 1e6. A steeper surrogate is narrower than the rounding errors of a membrane of 1 in float32, and its
    gradients overflow. A surrogate is a constant of compiled code: to change it, assign another one (``lif.surrogate =
    ATan(5.0)``).
    """

    _spike: type[torch.autograd.Function]

    def __new__(cls, *args, **kwargs):
        self = super().__new__(cls)
        object.__setattr__(self, "_spike", _spike_of(self))  # around the lock of frozen dataclasses
        return self

    def __getstate__(self) -> dict:
        """For pickles and copies: all but the function, which the new object makes for itself."""
        return {name: value for name, value in vars(self).items() if name != "_spike"}

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]
            checks.number(
                f"{field.name} of {type(self).__name__}", getattr(self, field.name), at_least=1e-6, at_most=1e6
            )

    def __call__(self, u: Tensor, strict: bool = False) -> Tensor:
        if strict is not True and strict is not False:
            raise TypeError(f"strict must be True or False, but it is {strict!r}")
        _real(u)
        if torch.compiler.is_compiling():
            _allow_in_graph()
        elif _takes_operations_only():
            spike = (u > 0 if strict else u >= 0).to(u.dtype)
            if torch.onnx.is_in_onnx_export():
                return spike
            ramp = u * self.derivative(u.detach())
            return spike + (ramp - ramp.detach())  # 0, with the surrogate's gradient
        return self._spike.apply(u, strict)  # type: ignore[return-value]

    def derivative(self, u: Tensor) -> Tensor:
        """What replaces dH/du in the backward pass; same shape and dtype as ``u``."""
        raise TypeError(f"{type(self).__name__} must define derivative(self, u)")

    def primitive(self, u: Tensor) -> Tensor:
        """The ramp σ: the smooth function with the true derivative ``derivative`` and the value 1/2 at u = 0."""
        raise TypeError(f"{type(self).__name__} defines no primitive(self, u)")


@dataclass(frozen=True)
class ATan(Surrogate):
    """Arctangent (Fang et al. 2021, doi:10.1109/ICCV48922.2021.00266), with snnTorch's default slope.

    σ(u) = arctan(π α u / 2) / π + 1/2, so dσ/du = (α/2) / (1 + (π α u / 2)²). Its peak is α/2 at u = 0.
    """

    alpha: float = 2.0

    def derivative(self, u: Tensor) -> Tensor:
        scaled = (math.pi / 2 * self.alpha) * _real(u)
        return (self.alpha / 2) / (1 + scaled * scaled)

    def primitive(self, u: Tensor) -> Tensor:
        return torch.atan((math.pi / 2 * self.alpha) * _real(u)) / math.pi + 0.5


@dataclass(frozen=True)
class FastSigmoid(Surrogate):
    """Fast sigmoid (Zenke and Ganguli 2018, doi:10.1162/neco_a_01086) with snnTorch's default slope.

    σ(u) = 1/2 + u / (1 + k|u|), so dσ/du = 1 / (1 + k|u|)², with k the slope. Its peak is 1 at u = 0, its area 2/k.
    """

    slope: float = 25.0

    def derivative(self, u: Tensor) -> Tensor:
        return _fast_sigmoid_derivative(u, self.slope)

    def primitive(self, u: Tensor) -> Tensor:
        return _fast_sigmoid(u, self.slope)


@dataclass(frozen=True)
class SuperSpike(Surrogate):
    """SuperSpike (Zenke and Ganguli 2018, doi:10.1162/neco_a_01086) as in Norse: a fast sigmoid of slope α = 100.

    σ(u) = 1/2 + u / (1 + α|u|), so dσ/du = 1 / (1 + α|u|)². Its peak is 1 at u = 0, its area 2/α.
    """

    alpha: float = 100.0

    def derivative(self, u: Tensor) -> Tensor:
        return _fast_sigmoid_derivative(u, self.alpha)

    def primitive(self, u: Tensor) -> Tensor:
        return _fast_sigmoid(u, self.alpha)


def _fast_sigmoid(u: Tensor, slope: float) -> Tensor:
    return 0.5 + u / (1 + slope * _real(u).abs())


def _fast_sigmoid_derivative(u: Tensor, slope: float) -> Tensor:
    denominator = 1 + slope * _real(u).abs()
    return 1 / (denominator * denominator)


@dataclass(frozen=True)
class Sigmoid(Surrogate):
    """Logistic function: the default of SpikingJelly's neurons, with its slope (snnTorch's is α = 25).

    σ(u) = 1 / (1 + exp(-α u)), so dσ/du = α σ(u) (1 - σ(u)). Its peak is α/4 at u = 0. The code uses the logistic
    function, because α exp(-α u) / (1 + exp(-α u))² is inf / inf, NaN, for u far below the threshold.
    """

    alpha: float = 4.0

    def derivative(self, u: Tensor) -> Tensor:
        sigma = torch.sigmoid(self.alpha * _real(u))
        return self.alpha * sigma * (1 - sigma)

    def primitive(self, u: Tensor) -> Tensor:
        return torch.sigmoid(self.alpha * _real(u))


@dataclass(frozen=True)
class Triangle(Surrogate):
    """Triangle of unit area (Bellec et al. 2018, arXiv:1803.09574): dσ/du = α max(0, 1 - α|u|).

    Its peak is α at u = 0 and it is zero for |u| >= 1/α, so a membrane far from the threshold learns nothing.
    """

    alpha: float = 1.0

    def derivative(self, u: Tensor) -> Tensor:
        return self.alpha * torch.relu(1 - self.alpha * _real(u).abs())

    def primitive(self, u: Tensor) -> Tensor:
        inside = (self.alpha * _real(u)).clamp(-1, 1)
        return 0.5 + inside - inside * inside.abs() / 2


@dataclass(frozen=True)
class StraightThrough(Surrogate):
    """Straight-through estimator (Bengio, Léonard and Courville 2013, arXiv:1308.3432): dσ/du = 1 everywhere."""

    def derivative(self, u: Tensor) -> Tensor:
        return torch.ones_like(_real(u))

    def primitive(self, u: Tensor) -> Tensor:
        return 0.5 + _real(u)


_TRIANGLE = "surrogate.Triangle; snnTorch's derivative is no triangle, but 1 below the threshold and -1 above it"
_OWN = "a Surrogate of your own: a dataclass with the method derivative"
__getattr__ = lazy.instead(
    __name__,
    {
        "atan": "surrogate.ATan(2.0)",
        "fast_sigmoid": "surrogate.FastSigmoid(25.0)",
        "sigmoid": "surrogate.Sigmoid(25.0)",
        "straight_through_estimator": "surrogate.StraightThrough()",
        "StraightThroughEstimator": "surrogate.StraightThrough()",
        "triangular": _TRIANGLE,
        "Triangular": _TRIANGLE,
        "superspike": "surrogate.SuperSpike",
        "arctan": "surrogate.ATan",
        "heaviside": "any surrogate: without gradients, it is H(u)",
        "DeterministicPass": "surrogate.StraightThrough()",
        "PiecewiseQuadratic": "surrogate.Triangle(1.0)",
        "SoftSign": "surrogate.FastSigmoid(2.0), for alpha=2",
        **dict.fromkeys(("custom_surrogate", "CustomSurrogate", "Erf", "LSO", "PiecewiseExp", "Rect", "SFS"), _OWN),
    },
)
