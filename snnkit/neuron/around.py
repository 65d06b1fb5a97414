"""What is put around a neuron: recurrent weights, and a refractory period.

What stays elementwise (``OneToOne``, ``Refractory``) is a neuron itself, which every engine runs. ``Recurrent`` mixes
neurons: the C++ engine has a kernel for dense weights, and all else goes through time in a loop.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from snnkit import checks, linear as products
from snnkit.engine import check_sequence, recurrent, state_dtype
from snnkit.engine.autograd import CompilationFailed
from snnkit.engine.memory_gate import foreign, is_exporting, is_watched
from snnkit.engine.observe import changes, observers_of
from snnkit.engine.ops import INLINED
from snnkit.engine.over_time import check_parameters, check_state, initial_state, out_of_memory
from snnkit.engine.plan import FEWEST_STEPS, Plan, note_product, plan_for, warn_of_fallback
from snnkit.linear import is_hooked, linear
from snnkit.neuron.base import Neuron, Value, everywhere, refuse_plain_sequential


class RecurrentState(NamedTuple):
    """State of a ``Recurrent`` layer.

    Attributes:
        neuron: state of the neurons.
        out: their last output [B, ...]; the next step gets it back through the recurrent weights.
    """

    neuron: Any
    out: Tensor


class Recurrent(nn.Module):
    """``out[t], state = neuron(x[t] + W out[t-1], state)``: recurrent weights around any neuron.

    Where the neuron's engine is the C++ or the Triton engine, one call of a kernel runs dense weights and neurons over
    all steps. It adds in another order than PyTorch (on a CPU, the weights of the neurons that fired), so results
    differ in the last bits. All else is a loop in which the neuron's engine computes each step: other connections,
    hooks, recorded states, other dtypes. ``engine.explain`` shows which, and why.
    ``torch.compile`` inlines a short sequence; of more than 16 steps it compiles a step, which takes as long for any
    number of steps, but breaks the graph, so ``fullgraph=True`` is impossible.
    Weights from each neuron to itself only are ``OneToOne``, which all engines run at once.

    Args:
        neuron: the neurons; called on [1, B, ...].
        features: N, their number, for weights from all to all: W is a ``torch.nn.Linear`` [N, N], and x is [T, B, N].
        connection: instead of ``features``, the module W itself. It takes the last output [B, ...], without a state,
            and keeps its shape: ``torch.nn.Conv2d(8, 8, 3, padding=1)`` for x [T, B, 8, H, W].
        bias: whether the weights from all to all have one.
        device, dtype: of these weights, as in ``torch.nn.Linear``.

    Raises:
        TypeError, ValueError: not exactly one of ``features`` and ``connection``; a connection with neurons in it, or,
            in a call, one that changes the shape.
    """

    def __init__(
        self,
        neuron: Neuron,
        features: int | None = None,
        *,
        connection: nn.Module | None = None,
        bias: bool = False,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__()
        checks.flag("bias of Recurrent", bias)
        checks.instance("neuron of Recurrent", neuron, Neuron, "a Neuron such as LIF()")
        if (features is None) == (connection is None):
            raise TypeError(
                "Recurrent must have either features, for weights from all to all, or a connection such as "
                f"torch.nn.Conv2d(8, 8, 3, padding=1), but it has {'none' if features is None else 'both'}"
            )
        if connection is None:
            features = checks.integer("features of Recurrent", features, at_least=1)
            connection = nn.Linear(features, features, bias=bias, device=device, dtype=dtype)
        checks.instance("connection of Recurrent", connection, nn.Module, "a module such as torch.nn.Conv2d")
        if any(isinstance(part, (Neuron, Recurrent)) for part in connection.modules()):
            raise TypeError("connection of Recurrent must be stateless, but there are neurons in it")
        self.neuron = neuron
        self.weight = connection

    def forward(self, x: Tensor, state: RecurrentState | None = None) -> tuple[Tensor, RecurrentState]:
        """x [T, B, ...] to out [T, B, ...] and the state after the last step; ``state=None`` starts at rest."""
        refuse_plain_sequential(self)
        check_sequence(x, "Recurrent")
        if isinstance(self.weight, nn.Linear):
            features = self.weight.in_features
            if x.dim() != 3 or x.shape[2] != features:
                raise ValueError(f"x of Recurrent must be [T, B, {features}], but its shape is {list(x.shape)}")
        if state is None:
            inner, out = None, torch.zeros(x.shape[1:], dtype=state_dtype(x), device=x.device)
        else:
            inner, out = checks.instance("state of Recurrent", state, RecurrentState, "a RecurrentState or None")
            if out.shape != x.shape[1:]:
                raise ValueError(
                    f"state.out of Recurrent has shape {list(out.shape)}, but a step of x has shape {list(x.shape[1:])}"
                )
        before = RecurrentState(inner, out)
        whole = self._whole(x, before)
        if whole is not None:
            return whole
        if torch.compiler.is_compiling() and not is_exporting() and len(x) > INLINED:
            # It needs PyTorch's compiler, whose import takes longer than that of the whole package.
            from snnkit.neuron.uncompiled_loop import uncompiled_loop

            return uncompiled_loop(self._step, x, before)
        return loop(self._step, x, before)

    def whole_plan(self, x: Tensor, state: Any) -> Plan:
        """The engine of a whole sequence x [T, B, N] from the neuron's ``state``, or the reason why a loop takes it."""
        check_sequence(x, "Recurrent")
        if self._is_watched():
            return Plan("eager", "its neuron or its connection has hooks, or is watched, so the loop runs it")
        return self._plan(x, state)

    def _plan(self, x: Tensor, state: Any) -> Plan:
        reason = self._stepwise(x)
        if reason:
            return Plan("eager", f"{reason}, so the loop runs it")
        engine = self.neuron.engine
        if engine == "auto" and x.device.type == "cpu" and len(x) >= FEWEST_STEPS:
            engine = "cpp"  # whose sums have another order than PyTorch's for large layers, too
        plan = plan_for(engine, self.neuron, x, state)
        if plan.engine == "eager":
            return plan
        most = recurrent.MOST.get(plan.engine, 0)
        if x.shape[2] > most:
            lacks = f"takes at most {most} neurons with recurrent weights" if most else "takes no recurrent weights"
            return Plan("eager", f"the {plan.engine} engine {lacks}, so the loop runs it")
        return replace(plan, reason="one call for all steps, with their products, added in another order")

    def _stepwise(self, x: Tensor) -> str:
        """Why PyTorch's operations, or the neuron's own engine, must run step by step, or an empty string."""
        weight, size = self.weight, x.shape[-1:]
        if type(weight) is not nn.Linear or weight.weight.shape != 2 * size:
            return "its connection is no torch.nn.Linear"
        if any((p.dtype, p.device) != (state_dtype(x), x.device) for p in (x, *weight.parameters())):
            return "its weights, x and the state have different dtypes"
        if what := foreign(*weight.parameters()):
            return f"no kernel can read {what}"
        if torch.is_autocast_enabled(x.device.type):
            return "autocast chooses the dtype of its products"
        if type(self.neuron).forward is not Neuron.forward or type(self)._step is not Recurrent._step:
            return "its neuron or its loop has another forward"
        return ""

    def _is_watched(self) -> bool:
        """Whether code that is not theirs expects a call of the neuron, or of the connection, at each step."""
        hooked = is_hooked(self.neuron) or is_hooked(self.weight)
        return hooked or is_watched() or bool(observers_of(self.neuron) or changes())

    def _whole(self, x: Tensor, before: RecurrentState) -> tuple[Tensor, RecurrentState] | None:
        """All steps in one call of a kernel; None where it must be the loop."""
        if torch.compiler.is_compiling() or self._is_watched():
            return None
        state = before.neuron
        if state is None:
            state = initial_state(self.neuron, x, state_dtype(x))
        check_parameters(self.neuron, x)
        check_state(state, x, state_dtype(x), self.neuron)
        plan = self._plan(x, state)
        if plan.equation is None:
            return None
        assert plan.equation is not None and isinstance(self.weight, nn.Linear)
        try:
            layer = (self.neuron, self.weight, x, state, before.out.to(x.dtype))
            result = recurrent.run(plan.engine, plan.equation, *layer, products)
        except CompilationFailed as error:
            reason = f"{plan.engine} failed ({error}), so the loop runs it"
            warn_of_fallback(self, Plan("eager", reason, fallback=True))
            return None
        except RuntimeError as error:
            clearer = out_of_memory(error, self, x)
            if clearer is None:
                raise
            try:
                raise clearer from None
            finally:
                del clearer  # it refers to this frame, and would hold its tensors
        if result is None:
            return None
        out, inner = result

        def sent() -> str:
            share = torch.cat([before.out[None], out[:-1]]).count_nonzero().item() / out.numel()
            return f"{share:.1%} of the outputs that come back are not 0; {recurrent.SKIPS[plan.engine]}"

        note_product(self.weight, out.shape[1:], plan.engine, sent)
        return out, RecurrentState(inner, out[-1].clone())

    def _step(self, x: Tensor, before: RecurrentState) -> RecurrentState:
        current = x + self._back(before.out.to(x.dtype))
        spikes, inner = self.neuron(current.unsqueeze(0), before.neuron)
        return RecurrentState(inner, spikes.squeeze(0))

    def _back(self, out: Tensor) -> Tensor:
        """What the last output [B, ...] adds to the next input."""
        if isinstance(self.weight, nn.Linear):
            return linear(self.weight, out)
        back = self.weight(out)
        if not isinstance(back, Tensor) or back.shape != out.shape:
            actual = list(back.shape) if isinstance(back, Tensor) else f"a {type(back).__name__}"
            raise ValueError(
                f"connection of Recurrent must keep the shape of a step, {list(out.shape)}, but it makes {actual}"
            )
        return back


def loop(step: Callable, x: Tensor, state: RecurrentState) -> tuple[Tensor, RecurrentState]:
    """``state = step(x_t, state)`` over x [T, B, ...]: the outputs [T, B, ...] and the last state."""
    outputs = []
    for x_t in x.unbind(0):
        state = step(x_t, state)
        outputs.append(state.out)
    return torch.stack(outputs), state


# By the class of the inner state and the name of the part that comes after it.
_STATES: dict[tuple[type, str], type] = {}


def _extended(inner: type, part: str) -> type:
    """The NamedTuple with the parts of ``inner`` and one more: the engines take flat states only."""
    if (inner, part) not in _STATES:
        made = namedtuple(f"{inner.__name__}And{part.title()}", (*inner._fields, part))  # type: ignore[attr-defined, misc]
        # pickle finds classes by their name in a module, where this one is not.
        made.__reduce__ = lambda state: (_joined, (inner._make(state[:-1]), part, state[-1]))  # type: ignore[attr-defined, method-assign]
        _STATES[inner, part] = made
    return _STATES[inner, part]


def _joined(inner: Any, part: str, value: Any) -> Any:
    return _extended(type(inner), part)(*inner, value)


class _Around(Neuron):
    """A neuron made of another one: its state is that of the other, and one part more, which is 0 at rest."""

    part: ClassVar[str]

    def __init__(self, neuron: Neuron, engine: str) -> None:
        super().__init__(engine=engine)
        owner = type(self).__name__
        checks.instance(f"neuron of {owner}", neuron, Neuron, "a Neuron such as LIF()")
        fields = getattr(neuron.State, "_fields", None)
        if fields is None or self.part in fields:
            what = "is no NamedTuple" if fields is None else f"has a part {self.part!r} already"
            raise TypeError(f"neuron of {owner} can't be a {type(neuron).__name__}: its State {what}")
        self.neuron = neuron
        _extended(neuron.State, self.part)  # made here, as torch.compile can't make a class

    @property
    def State(self) -> type:  # type: ignore[override]
        """Its class of states: that of the neuron, extended."""
        return _extended(self.neuron.State, self.part)

    @property
    def spiking(self) -> bool:  # type: ignore[override]
        """Whether the neuron fires."""
        return self.neuron.spiking

    @property
    def membrane_name(self) -> str:  # type: ignore[override]
        """The neuron's."""
        return self.neuron.membrane_name

    @property
    def threshold(self) -> Value | None:
        """The neuron's."""
        return self.neuron.threshold  # type: ignore[return-value]

    @property
    def decay(self) -> Value | None:
        """The neuron's."""
        return self.neuron.decay  # type: ignore[return-value]

    def initial_state(self, x: Tensor) -> Any:
        """That of the neuron, and zeros."""
        return self.State(*self.neuron.initial_state(x), everywhere(x, 0.0))


class OneToOne(_Around):
    """out, state ← neuron(x + weight out, state): each neuron gets its own last output back.

    It is elementwise, so one call of an engine runs the whole sequence, unlike ``Recurrent``. The state is that of the
    neuron with a last part ``out``, its last output [B, ...]. Equation: snnTorch's ``RLeaky`` with
    ``all_to_all=False`` (doi:10.1109/JPROC.2023.3308088), where ``V`` is the weight, 1 by default and learned.

    Args:
        neuron: any neuron; its ``engine`` plays no part.
        weight: from each neuron to itself: one number, or a tensor that broadcasts against a step; a Parameter is
            learned.
        engine: "auto", or one of ``engine.ENGINES``.
    """

    part = "out"
    weight: Value

    def __init__(self, neuron: Neuron, weight: Value = 1.0, *, engine: str = "auto") -> None:
        super().__init__(neuron, engine)
        self.number("weight", weight)

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        current = x + self.weight * state.out
        *inner, _ = state
        out, after = self.neuron.step(current, self.neuron.State(*inner))
        return out, type(state)(*after, out)


class Refractory(_Around):
    """A neuron that rests for some steps after each spike: it neither fires nor changes its membrane.

    The rest of its state, such as a synaptic current or an adaptation, goes on. The state is that of the neuron with a
    last part ``wait``, the steps for which it still rests [B, ...]. No gradient flows through ``wait``. Rule: Norse's
    ``LIFRefrac`` (doi:10.5281/zenodo.4422025), which gives the same spikes and states around ``CubaLIF``.

    Args:
        neuron: any neuron that fires; its ``engine`` plays no part. ``OneToOne`` and ``Recurrent`` go around this one.
        steps: for how many steps it rests, at least 0: a refractory period over the time step.
        engine: "auto", or one of ``engine.ENGINES``.
    """

    part = "wait"

    def __init__(self, neuron: Neuron, steps: int, *, engine: str = "auto") -> None:
        super().__init__(neuron, engine)
        if isinstance(neuron, _Around):
            name = type(neuron).__name__
            raise TypeError(f"neuron of Refractory can't be a {name}: put {name} around Refractory")
        if not neuron.spiking:
            raise TypeError(f"neuron of Refractory must fire, but {type(neuron).__name__} is a readout")
        self.steps = checks.integer("steps of Refractory", steps, at_least=0)

    def step(self, x: Tensor, state: Any) -> tuple[Tensor, Any]:
        rests = state.wait > 0
        *parts, wait = state
        inner = self.neuron.State(*parts)

        def spike(u: Tensor, strict: bool = False) -> Tensor:
            return torch.where(rests, 0.0, self.neuron.spike(u, strict))

        # The same neuron with another function for spikes: one that is not fired must not adapt it.
        cell = self.neuron.__new__(type(self.neuron))
        cell.__dict__ |= vars(self.neuron) | {"spike": spike}
        out, after = cell.step(x, inner)
        name = self.neuron.membrane_name
        held = torch.where(rests, getattr(inner, name), getattr(after, name))
        out = torch.where(rests, 0.0, out)  # of a neuron that makes spikes by itself
        wait = torch.where(out > 0, float(self.steps), torch.clamp(wait - 1, min=0))
        return out, type(state)(*after._replace(**{name: held}), wait)
