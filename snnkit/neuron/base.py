"""A neuron is an equation: one step in plain elementwise PyTorch. The engines do the rest.

``Neuron`` is the base of all; ``around`` has what is put around any of them, such as recurrent weights.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from snnkit import checks
from snnkit.engine import check_engine, handle_of, unroll
from snnkit.engine.plan import numbers_at_rest
from snnkit.surrogate import Surrogate

Value = float | Tensor

# The largest size of a number. Beside a larger one, steps of about 1 are lost in float32, and products overflow soon.
_LARGEST = 1e9

# How far within a bound that a number must not reach (a time constant above 0) a learned one counts as being.
_WITHIN = 1e-6


class MembraneState(NamedTuple):
    """State of neurons that have a membrane and nothing else.

    Attributes:
        v: membrane potential [B, ...].
    """

    v: Tensor


class Neuron(nn.Module):
    """Base of all neurons. A subclass defines the type of its state and its step::

        class Adder(Neuron):
            State = MembraneState

            def step(self, x, state):
                v = state.v + x
                return self.spike(v - 1.0), MembraneState(v)

    Called on a sequence, ``out, state = neuron(x, state=None)`` runs the step over x [T, B, ...]. State is passed in
    and out, not stored in the module, so there is nothing to reset between batches.

    ``step`` must be pure and elementwise (use ``torch.where`` for decisions), so that an engine can compile it. It then
    runs as fast as the neurons of this package, on any device. Numbers may be Python floats (constants), buffers or
    ``nn.Parameter``s that broadcast against a step [B, ...]: () for one number, [N] for one per neuron of [B, N], [C,
    1, 1] for one per channel of [B, C, H, W].

    An optimiser may move a learnable number out of its range. One rule for the neurons of this package: a step takes
    the nearest number in the range (``between``), and there the gradient of the number is 0. The number itself is left
    as it is. If it is outside after training, lower its learning rate, or learn a function of it as ``PLIF`` does.

    For analysis, every neuron has ``membrane(state)``, and those of this package have two read-only numbers, which
    yours have if you define them: ``threshold``, which the membrane is compared with (at rest, if it adapts; None for a
    readout), and ``decay``, the part of a membrane's distance from rest that is left after a step without input (None
    if it is not one number).
    """

    State: ClassVar[Any] = MembraneState

    # Whether the output is spikes, 0 or 1; a readout's is a potential.
    spiking: ClassVar[bool] = True

    # The part of the state that decides about a spike, or that a readout gives out.
    membrane_name: ClassVar[str] = "v"

    # Parts of the state that do not rest at 0, and the attributes that hold their value at rest (None counts as 0).
    resting: ClassVar[dict[str, str]] = {}

    def __init__(self, *, surrogate: Callable[..., Tensor] | None = None, engine: str = "auto") -> None:
        super().__init__()
        if surrogate is not None and (isinstance(surrogate, type) or not callable(surrogate)):
            kind = "the class " if isinstance(surrogate, type) else ""
            raise TypeError(f"surrogate must be a Surrogate such as ATan(), but it is {kind}{checks.shown(surrogate)}")
        self.surrogate = surrogate
        self.engine = check_engine(engine)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("threshold", "decay") and isinstance(getattr(type(self), name, None), property):
            given = [each for each in inspect.signature(type(self)).parameters if each not in ("surrogate", "engine")]
            raise AttributeError(
                f"{name} of {type(self).__name__} must not be set: it follows from {', '.join(given)}, which can be"
            )
        super().__setattr__(name, value)

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        """One time step: input [B, ...] and state to output [B, ...] and new state."""
        raise TypeError(f"{type(self).__name__} must define step(self, x, state) -> (out, state)")

    def initial_state(self, x: Tensor) -> Any:
        """The state at rest for steps of the shape, dtype and device of ``x`` [B, ...]: zeros, or the values of
        ``resting``.

        If ``x`` is one value in memory for all neurons (an expanded view), the state is one, too.
        """
        resting = type(self).resting  # older versions of torch.compile know no dict of a module
        values = [getattr(self, resting[part]) if part in resting else 0.0 for part in self.State._fields]
        return self.State(*(everywhere(x, 0.0 if value is None else value) for value in values))

    def _numbers_at_rest(self) -> tuple[type, tuple[float, ...]] | None:
        """All of ``initial_state``, if its numbers are plain attributes, whose changes an engine sees; else None."""
        names = [self.resting.get(part) for part in self.State._fields]
        values = [0.0 if name is None else vars(self).get(name, self) for name in names]
        numbers = tuple(0.0 if value is None else value for value in values)
        return (self.State, numbers) if all(isinstance(number, (int, float)) for number in numbers) else None

    def membrane(self, state: Any) -> Tensor:
        """The membrane potential in a state [B, ...], whatever the neuron calls it."""
        if self.membrane_name not in getattr(state, "_fields", ()):
            raise TypeError(
                f"state of {type(self).__name__} must have a part named {self.membrane_name!r} as its membrane, but it "
                f"is a {type(state).__name__}; the class attribute membrane_name gives the part another name"
            )
        return getattr(state, self.membrane_name)

    def forward(
        self, x: Tensor, state: Any = None, *, out_dtype: torch.dtype | None = None, repeat: int | None = None
    ) -> tuple[Tensor, Any]:
        """Run over a sequence.

        Args:
            x: input [T, B, ...], floating point.
            state: the state that an earlier call returned; None starts at rest.
            out_dtype: ``torch.uint8`` gives spikes of one byte, without gradients; None: the dtype of ``x``.
            repeat: ``x`` is then one step [B, ...], which is repeated so many times.

        Returns:
            out [T, B, ...] in the dtype of ``x`` (or ``out_dtype``), and the state after the last step.
        """
        refuse_plain_sequential(self)
        return unroll(self, x, state, engine=self.engine, out_dtype=out_dtype, repeat=repeat)

    def equation_handle(self, engine: str, dtype: torch.dtype, device_type: str) -> str:
        """The name by which an operation inside a compiled model refers to this equation (``engine.handle_of``)."""
        return handle_of(self, engine, dtype, device_type)

    # torch.compile runs it as it is while it traces, and takes the result for a constant.
    equation_handle._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def spike(self, u: Tensor, strict: bool = False) -> Tensor:
        """1 where ``u >= 0`` (``strict``: where ``u > 0``), with the surrogate's gradient."""
        if isinstance(self.surrogate, Surrogate):
            return self.surrogate(u, strict=strict)
        if self.surrogate is None:
            raise TypeError(f"{type(self).__name__} has no surrogate to spike with; make it with surrogate=ATan(), say")
        out = self.surrogate(u)
        if not isinstance(out, Tensor) or (out.shape, out.dtype) != (u.shape, u.dtype):
            hint = f"{list(out.shape)} of {out.dtype}" if isinstance(out, Tensor) else f"a {type(out).__name__}"
            raise TypeError(
                f"surrogate of {type(self).__name__} must return a tensor like its input, {list(u.shape)} of "
                f"{u.dtype}, but it returned {hint}"
            )
        return out

    def number(
        self,
        name: str,
        value: Value,
        *,
        above: float | None = None,
        at_least: float | None = None,
        at_most: float | None = None,
    ) -> None:
        """Register a number of the equation as ``self.<name>`` and check it.

        Args:
            name: the attribute.
            value: a Python number stays a constant, a Tensor becomes a buffer, an ``nn.Parameter`` a parameter.
            above, at_least, at_most: bounds on every value; no value may be larger than 1e9 in size.

        Raises:
            TypeError: it is neither a number nor a floating-point tensor.
            ValueError: it is NaN, infinite or out of bounds.
        """
        argument = f"{name} of {type(self).__name__}"
        at_least, at_most = -_LARGEST if at_least is None else at_least, _LARGEST if at_most is None else at_most
        if not isinstance(value, Tensor):
            value = checks.number(argument, value, above=above, at_least=at_least, at_most=at_most)
            setattr(self, name, value)
            return
        if not value.is_floating_point():
            raise TypeError(f"{argument} must be a floating-point tensor, but its dtype is {value.dtype}")
        if value.numel() == 0:
            raise ValueError(f"{argument} must hold at least one value, but its shape is {list(value.shape)}")
        if not value.is_meta:  # which has no values
            for extreme in (value.detach().min(), value.detach().max()):
                checks.number(argument, extreme, above=above, at_least=at_least, at_most=at_most)
        if isinstance(value, nn.Parameter):
            setattr(self, name, value)
        else:
            self.register_buffer(name, value.detach().clone())

    def flag(self, name: str, value: bool) -> None:
        """Set ``self.<name>``; TypeError unless it is True or False."""
        setattr(self, name, checks.flag(f"{name} of {type(self).__name__}", value))

    def threshold_and_reset(self, v_threshold: Value, v_reset: Value | None) -> None:
        """Register both for ``reset_membrane``: a hard reset to ``v_reset``, or a soft one if it is None."""
        if v_reset is None:
            # Subtracting a threshold of zero or less would never bring the membrane back.
            self.number("v_threshold", v_threshold, above=0)
            self.v_reset = None
        else:
            self.number("v_threshold", v_threshold)
            self.number("v_reset", v_reset)
            self.threshold_above_reset("v_threshold", "v_reset")

    def threshold_above_reset(self, threshold: str, reset: str) -> None:
        """Raise ValueError if the reset is not below the threshold: such a neuron would never stop firing."""
        high, low = getattr(self, threshold), getattr(self, reset)
        owner = type(self).__name__
        tensors = [value for value in (high, low) if isinstance(value, Tensor)]
        try:
            if len(tensors) > 1:  # the function imports sympy, which takes half a second
                torch.broadcast_shapes(*(value.shape for value in tensors))
        except RuntimeError:
            shapes = " and ".join(str(list(value.shape)) for value in tensors)
            raise ValueError(
                f"{threshold} and {reset} of {owner} must broadcast against each other, but their shapes are {shapes}"
            ) from None
        if any(value.is_meta for value in tensors):
            return
        above = high > low
        if not (bool(above.all()) if isinstance(above, Tensor) else above):
            raise ValueError(f"{threshold} of {owner} must be greater than {reset}, but they are {high} and {low}")

    def extra_repr(self) -> str:
        skipped = ("training", "surrogate", "engine")
        constants = {k: v for k, v in vars(self).items() if not k.startswith("_") and k not in skipped}
        tensors = {
            k: f"{type(v).__name__}{list(v.shape)}"
            for k, v in (*self._parameters.items(), *self._buffers.items())
            if v is not None
        }
        parts = [f"{k}={v}" for k, v in {**constants, **tensors}.items()]
        if self.surrogate is not None:
            parts.append(f"surrogate={self.surrogate}")
        return ", ".join([*parts, f"engine={self.engine!r}"])


numbers_at_rest[Neuron.initial_state] = Neuron._numbers_at_rest


def everywhere(x: Tensor, value: Value) -> Tensor:
    """``value`` for each neuron of ``x`` [B, ...]; one number in memory for all where ``x`` is."""
    if not isinstance(x, Tensor) or x.is_sparse:
        checks.instance("x", x, Tensor, "a tensor [B, ...]")
    if isinstance(value, Tensor):
        return torch.zeros_like(x) + value
    if x.numel() > 1 and not any(x.stride()):
        return x.new_full((), value).expand(x.shape)
    return torch.full_like(x, value)


def between(value: Value, low: Value | None = None, high: Value | None = None, *, open: bool = False) -> Value:
    """A number of an equation as its step takes it: of a tensor, the nearest values between ``low`` and ``high``.

    Constants were checked when the neuron was made; a tensor may be learned, or share its bounds with one that is. With
    ``open`` the range does not contain ``low``.
    """
    if isinstance(low, Tensor):
        return torch.maximum(torch.as_tensor(value).to(low), low + _WITHIN * (1 + low.abs()) if open else low)
    if not isinstance(value, Tensor):
        return value
    if open and low is not None:
        low += _WITHIN * (1 + abs(low))
    if isinstance(high, Tensor):  # clamp takes two numbers or two tensors
        return torch.minimum(value if low is None else value.clamp(low), high)
    return value.clamp(low, high)


def reset_membrane(v: Tensor, spike: Tensor, v_threshold: Value, v_reset: Value | None) -> Tensor:
    """After a spike, set the membrane to ``v_reset`` (hard), or lower it by the threshold (soft) if that is None."""
    if v_reset is None:
        return v - spike * v_threshold
    return (1 - spike) * v + spike * v_reset


def refuse_plain_sequential(module: nn.Module) -> None:
    """TypeError if ``torch.nn.Sequential`` is calling ``module``, and would give its (out, state) to a layer."""
    if torch.compiler.is_compiling():
        return
    called, frame = module, sys._getframe(2)
    while True:
        while frame is not None and frame.f_code.co_filename == nn.modules.module.__file__:  # of nn.Module.__call__
            frame = frame.f_back
        if frame is None or frame.f_code is not nn.Sequential.forward.__code__:
            return
        outer = frame.f_locals["self"]
        layers = list(outer)
        following = [part for layer in layers[layers.index(called) + 1 :] for part in _in_order(layer)]
        for layer in following:
            name, home = type(layer).__name__, type(layer).__module__
            if name == "Identity":  # which hands the pair on
                continue
            if home.startswith("snnkit.") or (home.startswith("torch.nn.") and not list(layer.children())):
                raise TypeError(
                    f"{type(module).__name__} returns (out, state), which torch.nn.Sequential would give to {name}; "
                    "use snnkit.nn.Sequential, which hands on the state"
                )
            return
        called, frame = outer, frame.f_back


def _in_order(layer: nn.Module) -> list[nn.Module]:
    """The layers that get the input of ``layer``, as far as those of torch.nn.Sequential say."""
    return [part for each in layer for part in _in_order(each)] if type(layer) is nn.Sequential else [layer]


def named_neurons(net: nn.Module) -> Iterator[tuple[str, Neuron]]:
    """The layers of neurons in ``net`` with their names, without those that are a part of another neuron."""
    checks.instance("net", net, nn.Module, "a torch.nn.Module")
    inner: set[nn.Module] = set()
    for name, module in net.named_modules():
        if isinstance(module, Neuron) and module not in inner:
            inner.update(module.modules())
            yield name, module
