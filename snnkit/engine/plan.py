"""The engine of a call, and the reason: one frozen ``Plan`` per kind of call, made by one pure function, in one cache.

``make_plan`` decides from the equation and the facts of a call that matter (``Facts``), and from what this machine can
compile: equal calls get equal plans, independent of earlier calls. ``planned`` keeps the plans of a step as long as
nothing that the step reads has changed.
"""

from __future__ import annotations

import functools
import warnings
import weakref
from bisect import bisect
from collections.abc import Callable, Hashable
from contextvars import ContextVar
from dataclasses import dataclass
from operator import contains, getitem, is_
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from snnkit.engine.autograd import Layout, backend
from snnkit.engine.memory_gate import (
    FREED,
    foreign,
    is_dual,
    is_in_graph,
    is_watched,
    keys_of,
    recorder,
    tensors_of,
    untraced,
)
from snnkit.engine.program import is_exact
from snnkit.engine.reading import Opaque, Places, Reading, owner_of, reading_of
from snnkit.engine.trace import Disturbed, Equation, NotElementwise, name_of, trace
from snnkit.engine.trace_cache import equation_by_reading

ENGINES = ("auto", "eager", "block", "cpp", "triton")

# The engines of "auto" on each kind of device, in order, each with its fewest neuron-steps (elements of x). Below,
# a pass takes a millisecond in the eager engine, but the first compilation about a second (cpp, triton) or ten (block).
# On a GPU triton comes first, as it launches one kernel for all steps; which is faster there has not been measured yet.
AUTO = {"cpu": (("cpp", 2**16), ("block", 2**20)), "cuda": (("triton", 2**16), ("block", 2**16))}

# "auto" gives smaller passes on a CPU to the C++ engine if they have at least this many steps: one call of its kernel
# takes 20 microseconds, a step of the eager engine 50. From FEWEST_STEPS on, results and gradients are then equal to
# the reference's to the bit (``is_exact``, an input that is not static, as its gradient is a sum over time, and no
# gradients of the states in between). From MANY_STEPS on, where eager takes milliseconds, outputs and states are, and
# gradients may differ in the order of sums. On a GPU, where each operation of a step is a launch and PyTorch's own
# kernels round divisions in their own way, all smaller passes of MANY_STEPS are Triton's.
FEWEST_STEPS, MANY_STEPS = 4, 16


@dataclass(frozen=True)
class Plan:
    """How one kind of call is run.

    Attributes:
        engine: "eager", "block", "cpp" or "triton".
        reason: why, in a few words.
        fallback: another engine was requested, or would have been better.
        equation: the equation for a compiled engine.
    """

    engine: str
    reason: str
    fallback: bool = False
    equation: Equation | None = None


class Facts(NamedTuple):
    """The facts that a plan depends on, besides the equation."""

    engine: str  # the requested one, or "auto"
    device: str  # kind of device
    size: int  # neuron-steps, rounded down to the next limit in AUTO
    steps: int = MANY_STEPS  # 0, FEWEST_STEPS or MANY_STEPS: at least so many
    static: bool = False  # whether the input is the same at each step (stride 0)
    stepwise: str = ""  # why PyTorch's own operations must run, step by step
    inner: bool = False  # whether the states after every step have gradients


# Sizes of passes that are planned alike: none, and from each limit on.
_SIZES = (0, 1, 2**16, 2**20)


def facts_of(
    engine: str, device: str, steps: int, neuron_steps: int, static: bool, stepwise: str = "", inner: bool = False
) -> Facts:
    """The facts of a call that matter, and no others, so that equal calls have equal facts."""
    size = _SIZES[bisect(_SIZES, neuron_steps) - 1]
    steps = max(least for least in (0, FEWEST_STEPS, MANY_STEPS) if least <= steps)
    return Facts(engine, device, size, steps, static, stepwise, inner)


def candidates(facts: Facts) -> tuple[str, ...]:
    """Engines that are worth compiling for such a call, best first; none: the eager engine runs it."""
    if facts.engine == "eager" or facts.stepwise or not facts.size or facts.device not in AUTO:
        return ()
    if facts.engine != "auto":  # if it can't run the equation, block can: it knows every operation
        return tuple(dict.fromkeys((facts.engine, "block")))
    paying = tuple(engine for engine, least in AUTO[facts.device] if facts.size >= least)
    if paying:
        return paying
    if facts.device == "cuda":
        return ("triton",) if facts.steps >= MANY_STEPS else ()
    return ("cpp",) if facts.steps and not (facts.steps < MANY_STEPS and _sums(facts)) else ()


def _sums(facts: Facts) -> str:
    """Why a gradient is a sum that the engines add in different orders, or an empty string."""
    if facts.static:
        return "x is the same at each step, so its gradient is a sum over time"
    return "every state has a gradient of its own, added in another order" if facts.inner else ""


def make_plan(facts: Facts, equation: Callable[[], Equation | str], device: torch.device) -> Plan:
    """The plan. A pure function of its arguments, and of the compilers of this machine.

    ``equation()`` returns the equation, or the reason why there is none. It is called only if needed.
    """
    requested = facts.engine not in ("auto", "eager")
    if facts.engine == "eager":
        return Plan("eager", "requested")
    if facts.device not in AUTO:  # Apple's GPU, "mps", say
        return Plan("eager", f"no engine compiles for {facts.device!r} devices", fallback=requested)
    if facts.stepwise:
        return Plan("eager", facts.stepwise, fallback=requested)
    if not facts.size:
        return Plan("eager", "there are no neurons to compute")
    least = min(least for _, least in AUTO[facts.device])
    small = not requested and facts.size < least
    few = f"fewer than {least:,} neuron-steps: compiling would not pay"
    if small and facts.device == "cpu" and facts.steps and _sums(facts):
        few = f"fewer than {least:,} neuron-steps and {MANY_STEPS} steps, and {_sums(facts)}"
    engines = candidates(facts)
    if not engines:
        return Plan("eager", few)
    traced = equation()
    if isinstance(traced, str):
        return Plan("eager", f"its step can't be compiled: {traced}", fallback=not small)
    exact = small and facts.device == "cpu" and is_exact(traced) and not _sums(facts)
    if small and facts.device == "cpu" and not exact:
        outputs = is_exact(traced, gradients=False)
        if facts.steps < MANY_STEPS or not outputs:
            what = f" and {MANY_STEPS} steps, and its compiled gradients" if outputs else ", and its compiled outputs"
            return Plan("eager", f"fewer than {least:,} neuron-steps{what} could differ in the last bit")
    refusals = [backend(engine).supports(traced, device) for engine in engines]
    for engine, refusal in zip(engines, refusals, strict=True):
        if not refusal:
            many = f"{least:,} neuron-steps or more are worth compiling"
            if small and exact:
                many = f"{FEWEST_STEPS} steps or more, and equal to eager to the bit"
            elif small and facts.device == "cuda":
                many = f"{MANY_STEPS} steps or more, each of them several launches in the eager engine"
            elif small:
                many = f"{MANY_STEPS} steps or more, and outputs equal to eager's to the bit"
            why = refusals[0] or ("requested" if requested else many)
            return Plan(engine, why, fallback=bool(refusals[0]), equation=traced)
    return Plan("eager", refusals[0], fallback=not small)


def after_failure(plan: Plan, error: Exception, device: torch.device) -> Plan:
    """The engine after one that could not compile its kernel: block, then eager."""
    reason = f"compiling failed ({error})" if plan.engine == "block" else f"{plan.engine} failed ({error})"
    if plan.equation is not None and plan.engine != "block" and not backend("block").supports(plan.equation, device):
        return Plan("block", reason, fallback=True, equation=plan.equation)
    return Plan("eager", reason, fallback=True)


def state_dtype(x: Tensor) -> torch.dtype:
    """The dtype of state and arithmetic: float64 for float64 input, float32 for every other."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def check_engine(engine: Any) -> str:
    """``engine`` if it is one of ENGINES, else ValueError."""
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(map(repr, ENGINES))}, but it is {engine!r}")
    return engine


def _stepwise(step: Callable | nn.Module) -> str:
    """Why only PyTorch's own operations give the right result where something watches them, or an empty string."""
    if recording := recorder():
        return f"{recording}, so they run step by step"
    functorch = torch._C._functorch  # pyright: ignore[reportAttributeAccessIssue]
    kinds = [interpreter.key() for interpreter in functorch.get_interpreter_stack() or ()]
    if functorch.TransformType.Jvp in kinds or is_dual():
        return "forward-mode derivatives run step by step"
    if kinds.count(functorch.TransformType.Grad) > 1:
        return "second derivatives run step by step"
    return ""


def _unreadable(step: Callable | nn.Module, *tensors: Tensor) -> str:
    """Why no kernel can read these tensors of a call, or an empty string."""
    what = foreign(*tensors)
    if what == FREED:  # PyTorch itself would read it, and end the process
        raise ValueError(f"x, state and parameters of {name_of(step)} must have memory, but that of one was freed")
    return f"no kernel can read {what}" if what else ""


class Planned(NamedTuple):
    """A plan, the layout of x for a compiled engine, the state at rest that calls share, where they gave no other, and
    what ``warm.run`` remembers of such calls."""

    plan: Plan
    layout: Layout | None = None
    rest: Any = None
    warm: dict[Hashable, Any] | None = None


class _Plans(NamedTuple):
    """The plans of one step, valid until something that it reads changes."""

    step: weakref.ref | None  # None: the step itself is the key
    kind: type  # of the key
    reading: Reading
    calls: dict[Hashable, Planned]  # by all of a call that can matter


# Calls of a step that are remembered; a plan that is made again takes 20 microseconds.
_MOST_CALLS = 256


# By ``owner_of`` a step.
_known: weakref.WeakKeyDictionary[Any, _Plans] = weakref.WeakKeyDictionary()


def plan_for(engine: str, step: Callable | nn.Module, x: Tensor, state: Any, every: bool = False) -> Plan:
    """The plan for ``step`` over x [T, B, ...] from ``state``; nothing runs, and nothing changes. ``every``: the states
    after every step are wanted."""
    return planned(engine, step, x, state, every).plan  # type: ignore[union-attr]


def planned(engine: str, step: Callable | nn.Module, x: Tensor, state: Any, every: bool) -> Planned | None:
    """The plan and what goes with it, by one look in one cache if there was such a call before.

    ``state=None``: a state at rest that calls share, where nothing watches PyTorch's operations (``is_watched``); the
    result is None if there is none for this step.
    """
    if state is None and getattr(type(step), "initial_state", None) not in numbers_at_rest:
        return None
    own = tensors_of(step)
    stepwise = "" if state is None or not is_watched() else _stepwise(step)
    stepwise = stepwise or _unreadable(step, x, *(state or ()), *own.values())
    if stepwise:  # sizes may be symbols, which are no keys
        return None if state is None else Planned(make_plan(_facts(engine, x, stepwise), str, x.device))
    inner = every and torch.is_grad_enabled() and any(t.requires_grad for t in (x, *(state or ()), *own.values()))
    known = _current(step)
    start = None if state is None else (type(state), len(state))
    key = (engine, x.shape, x.stride(), x.dtype, x.device, keys_of(x), inner, start, *own)
    before = None if known is None else known.calls.get(key)
    if before is not None:
        return before
    shared = state is None and known is not None and not is_in_graph(x.device)
    rest = _shared_rest(step, x) if shared else None
    start = rest if state is None else state
    if start is None:
        return None

    def equation() -> Equation | str:
        dtype = state_dtype(x)
        if known is not None:
            return equation_by_reading(known.reading, step, start, dtype, x.device)
        try:
            return trace(step, start, list(own), dtype, x.device)
        except NotElementwise as reason:
            return str(reason)

    try:
        made = Planned(make_plan(_facts(engine, x, "", inner), equation, x.device), Layout.of(x), rest, {})
    except Disturbed as reason:  # of this call: the next one may be able to
        return Planned(Plan("eager", str(reason), fallback=True), None, rest)
    if known is not None:
        if len(known.calls) >= _MOST_CALLS:
            known.calls.clear()
        known.calls[key] = made
    return made


def _facts(engine: str, x: Tensor, stepwise: str, inner: bool = False) -> Facts:
    static = not stepwise and x.numel() > 0 and x.stride(0) == 0
    return facts_of(check_engine(engine), x.device.type, x.shape[0], x.numel(), static, stepwise, inner)


# What replaces a call of a method ``initial_state``: from the neuron, the type of its state and the values of the
# parts, or None. By the function itself, as whoever wraps it may copy its attributes.
numbers_at_rest: dict[Callable, Callable[[Any], tuple[type, tuple[float, ...]] | None]] = {}


def _shared_rest(step: Callable | nn.Module, x: Tensor) -> Any:
    """The state at rest, in one value for all neurons of each part; None: only ``step.initial_state`` can make it."""
    made_by = getattr(getattr(step, "initial_state", None), "__func__", None)
    of = numbers_at_rest.get(made_by) if made_by else None
    numbers = of and of(step)
    if numbers is None:
        return None
    kind, values = numbers
    with torch.inference_mode(False):  # whose tensors autograd could not save
        # Not torch.tensor, which copies from the CPU and waits for the device.
        tensors = [torch.full((), value, dtype=state_dtype(x), device=x.device) for value in values]
        return kind(*(t.expand(x.shape[1:]) for t in tensors))


def _current(step: Callable | nn.Module) -> _Plans | None:
    """The entry of a step if it still reads the same, else a new one; None: there can be no entry."""
    owner = step if isinstance(step, nn.Module) else owner_of(step)
    try:
        known = _known.get(owner)
        same = known is not None and known.reading.quick and known.kind is type(owner)
        if same and (known.step is None or known.step() is step) and _unchanged(known.reading.places):  # type: ignore[union-attr]
            return known
        reading = reading_of(step)
        if known is None or known.reading.key != reading.key:
            known = _Plans(None, type(owner), reading, {})
        of = None if owner is step else weakref.ref(step)
        _known[owner] = known = _Plans(of, type(owner), reading, known.calls)
    except (Opaque, TypeError):  # TypeError: neither hashable nor open to weak references
        return None
    return known


def _unchanged(places: Places) -> bool:
    """Whether each still has the same object. The 80 of a neuron take 3 microseconds; a loop of Python takes 5."""
    (mappings, keys, items), (holders, names, values), (sized, sizes) = places.held, places.parts, places.sizes
    try:
        return (
            all(map(is_, map(getitem, mappings, keys), items))
            and all(map(is_, map(getattr, holders, names), values))
            and not any(map(contains, *places.absent))
            and [*map(len, sized)] == sizes
        )
    except (KeyError, AttributeError, ValueError):  # an item is gone, or a closure's cell is empty
        return False


# Notes of a run in ``explanation.explain``: the steps that another engine ran than planned, with that plan; and what
# ``note_product`` got.
noted_fallbacks: ContextVar[dict[int, Plan] | None] = ContextVar("noted_fallbacks", default=None)
noted_products: ContextVar[list[tuple[Any, torch.Size, str, str]] | None] = ContextVar("noted_products", default=None)


def note_product(layer: Any, shape: torch.Size, way: str, reason: str | Callable[[], str]) -> None:
    """Tell ``explain`` how a layer's product with an input of this shape [B, ...] is computed."""
    noted = noted_products.get()
    if noted is not None:
        noted.append((layer, shape, way, reason if isinstance(reason, str) else reason()))


def warn_of_fallback(step: Callable | nn.Module, plan: Plan) -> None:
    """Warn that a step runs slower than possible, and why: once per kind of step and reason."""
    # What the machine lacks is said once, not for each kind of neuron.
    name = "Every neuron" if "needs a C++ compiler" in plan.reason else name_of(step)
    _warn_once(name, plan.engine, plan.reason)
    noted = noted_fallbacks.get()
    if noted is not None:
        noted[id(step)] = plan


@functools.cache
def _warn_once(name: str, engine: str, reason: str) -> None:
    message = f"{name} runs in the {engine} engine: {reason}. Use engine={engine!r} to request that."
    warnings.warn(message, UserWarning, stacklevel=5)


untraced(planned)
untraced(plan_for)
