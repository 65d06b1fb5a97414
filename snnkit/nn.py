"""Networks over time: state goes through the layers, and stateless layers run once for all steps.

Sequences are [T, B, ...]. A convolution or a linear map is the same at every step, so ``TimeBatched`` folds time into
the batch and does one large operation instead of T small ones. If the input does not change over time (an image shown
for T steps, an expanded view with stride 0), it is done once. This does not hold for PyTorch's own random layers and
for batch norms in training, unless ``Once`` is used. A random module of your own needs an input that is not static:
``x.contiguous()``.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.dropout import _DropoutNd

from snnkit import checks, lazy, neuron
from snnkit.convolution import convolution
from snnkit.engine import unroll
from snnkit.engine.memory_gate import is_captured
from snnkit.engine.observe import Seen, observed
from snnkit.engine.trace import name_of
from snnkit.event_lists import EventList, through_first
from snnkit.linear import dense_products, is_hooked, linear
from snnkit.neuron import Neuron, Recurrent
from snnkit.neuron.base import refuse_plain_sequential
from snnkit.pooling import max_pool, window_after
from snnkit.recording import ablate, recording

__all__ = [
    "Once",
    "PerStep",
    "Recording",
    "Recurrent",
    "Residual",
    "Sequential",
    "TimeBatched",
    "Voting",
    "ablate",
    "dense_products",
    "detach",
    "is_stateful",
    "is_static",
    "recording",
]

# The fewest axes of one step of a batch. A convolution would take three as one image, and the batch as its channels.
_RANKS: dict[type, int] = {nn.Linear: 2, nn.Conv1d: 3, nn.Conv2d: 4, nn.Conv3d: 5}
_RANKS |= {nn.ConvTranspose1d: 3, nn.ConvTranspose2d: 4, nn.ConvTranspose3d: 5}

# Ways to compute a layer that may be faster than PyTorch's, or None.
_OURS: dict[type, Callable[..., Tensor | None]] = {nn.MaxPool2d: max_pool, nn.Conv2d: convolution}


class Recording(NamedTuple):
    """The result of ``Sequential.record``.

    Attributes:
        out: [T, B, ...].
        state: one entry per module, None for stateless ones.
        layers: the output of each module [T, B, ...], in order.
    """

    out: Tensor
    state: tuple
    layers: list[Tensor]


def is_static(x: Tensor) -> bool:
    """Whether [T, B, ...] is an expanded view: one step, T times."""
    _check_tensor(x)
    return x.dim() > 0 and x.shape[0] > 1 and x.stride(0) == 0


def runs_once(x: Tensor) -> bool:
    """Whether a network may compute one step for all: ``x`` is static, and will be wherever the operations run."""
    return is_static(x) and not is_captured()


def is_stateful(module: nn.Module) -> bool:
    """Whether a module is called ``out, state = module(x, state)``: its ``forward`` has an argument named ``state``."""
    checks.instance("module", module, nn.Module, "a torch.nn.Module")
    return "state" in _arguments(module)


def _arguments(module: nn.Module) -> dict[str, inspect.Parameter]:
    module = getattr(module, "_orig_mod", module)  # what torch.compile wrapped
    if isinstance(module, torch.jit.ScriptModule):
        names = [argument.name for argument in module.forward.schema.arguments[1:]]
        return {name: inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names}
    return dict(inspect.signature(module.forward).parameters)


def takes_state(module: nn.Module) -> bool:
    """As ``is_stateful``, for a module in a network; TypeError if states would get lost or samples would mix.

    Time must not be folded into the batch of neurons: they would integrate over the samples of a step, too.
    """
    if not is_stateful(module):
        for name, part in module.named_modules():
            if isinstance(part, Neuron):
                raise TypeError(_needs_state(module, f"{type(part).__name__} {name!r}" if name else "a neuron"))
        return False
    arguments = _arguments(module)
    if list(arguments).index("state") != 1 or arguments["state"].kind is inspect.Parameter.KEYWORD_ONLY:
        raise TypeError(f"state of {type(module).__name__} must be the second argument of its forward: (x, state=None)")
    return True


def _needs_state(module: nn.Module, neuron: str) -> str:
    name = type(module).__name__
    if type(module) is nn.Sequential:
        return f"torch.nn.Sequential can't hand on the state of {neuron} in it; use snnkit.nn.Sequential"
    return (
        f"forward of {name} must take and return a state, as {name} has {neuron} in it, whose time would be folded "
        "into the batch, so that samples mix. Write `def forward(self, x, state=None):`, where x is [T, B, ...], and "
        "`return out, state` with the new state; or `return out, None` if every call starts at rest"
    )


def with_state(module: nn.Module, x: Tensor, state: Any, **options: Any) -> tuple[Tensor, Any]:
    """``module(x, state)`` of a stateful module; TypeError unless it returns (out, state)."""
    result = module(x, state, **options)
    if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], Tensor)):
        kind = f"a tuple of {len(result)}" if isinstance(result, tuple) else f"a {type(result).__name__}"
        raise TypeError(
            f"{type(module).__name__} takes a state, so it must return (out, state), but it returned {kind}; write "
            "`return out, state` with the new state; or `return out, None` if every call starts at rest"
        )
    return result


def with_pooling(
    module: Any, after: nn.Module | None, x: Tensor, step: Tensor | None, state: Any
) -> tuple[Tensor, Any, bool]:
    """``with_state`` over x [T, B, ...], or over the one ``step`` [B, ...] that it repeats, and whether the output is
    already that of the pooling ``after`` it: then no spikes of full size were stored."""
    some, options = x, {}
    if step is not None and takes_repeat(module):
        some, options = step, {"repeat": len(x)}
    if window := window_between(module, after, x, step):
        return *unroll(module, some, state, module.engine, window=window, **options), True  # type: ignore[arg-type]
    return *with_state(module, some, state, **options), False


def window_between(module: Any, after: Any, x: Tensor, step: Tensor | None) -> int:
    """The side of the windows if ``module`` may pool its outputs as ``after`` would; else 0."""
    may = type(after) is nn.MaxPool2d and takes_repeat(module) and x.dim() == 5
    return window_after(module, after, x[0] if step is None else step, len(x)) if may else 0


class TimeBatched(nn.Module):
    """Apply stateless modules to [T, B, ...] with time folded into the batch. A static input is computed once and
    expanded.

    Args:
        modules: one or more on [B, ...] without neurons, in order of execution. Give them no static input if they are
            random, unless their randomness is a layer of PyTorch.

    Attributes:
        module: the module; of several, a ``torch.nn.Sequential``.

    Raises:
        TypeError: a module takes a state, or has neurons in it.
    """

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        kind = type(self).__name__
        if not modules:
            raise TypeError(f"{kind} must be given at least one module")
        for module in modules:
            if takes_state(module):
                raise TypeError(f"module of {kind} must be stateless, but {type(module).__name__} takes a state")
        self.module: nn.Module = modules[0] if len(modules) == 1 else nn.Sequential(*modules)

    def forward(self, x: Tensor) -> Tensor:
        """[T, B, ...] -> [T, B, ...], a view with stride 0 in time if ``x`` is one."""
        return time_batched(self.module, x)


class Once(TimeBatched):
    """As ``TimeBatched``, but a static input is always computed once, in every module: made for batch norm.

    ``TimeBatched`` gives a batch norm in training all T steps of a static input, so that it learns exactly as from a
    copy. The T equal steps have the mean and the variance of one, so the output is the same, at T times the cost. With
    ``Once`` only the running variance differs. It is unbiased, and becomes larger by the factor (n - 1/T) / (n - 1)
    with n = B H W values per channel: 1.00001 for 128 images of 28 × 28. A random layer such as dropout draws once for
    all steps of a static input: its mask stays the same over time.

    Args:
        modules: one or more on [B, ...] without state, in order of execution.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[T, B, ...] -> [T, B, ...], a view with stride 0 in time if ``x`` is one."""
        _check_rank(x)
        return _one_step(self.module, x) if runs_once(x) else time_batched(self.module, x)


class PerStep(TimeBatched):
    """A stateless module for each time step, instead of one for all.

    With batch norms it is batch normalisation through time (Kim and Panda 2020, arXiv:2010.01729), whose statistics
    belong to a step; snnTorch's ``BatchNormTT1d`` also sets ``norm.bias = None``::

        PerStep(*(torch.nn.BatchNorm1d(128) for _ in range(25)))

    Args:
        modules: one for each step, on [B, ...] without neurons.

    Raises:
        TypeError: a module takes a state, or has neurons in it.
    """

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__(*modules)
        self.module = nn.ModuleList(modules)

    def forward(self, x: Tensor) -> Tensor:
        """[T, B, ...] -> [T, B, ...]; ValueError unless T is the number of modules."""
        _check_rank(x)
        steps: Any = self.module
        if len(x) != len(steps):
            raise ValueError(
                f"x of PerStep must have {len(steps)} time steps, one for each module, but its shape is {list(x.shape)}"
            )
        return torch.stack([_batched(steps[t], x_t, x, str(t)) for t, x_t in enumerate(x.unbind(0))])


class Voting(nn.Module):
    """Neighbouring outputs vote for a class by their mean: [..., classes * voters] -> [..., classes].

    Source: SpikingJelly's ``layer.VotingLayer`` (Fang et al. 2021, arXiv:2007.05785), in whose order outputs 0 to
    ``voters - 1`` belong to class 0.

    Args:
        voters: outputs of each class.
    """

    def __init__(self, voters: int = 10) -> None:
        super().__init__()
        self.voters = checks.integer("voters of Voting", voters, at_least=1)

    def forward(self, x: Tensor) -> Tensor:
        """[..., classes * voters] -> [..., classes]; ValueError unless the last axis is a multiple of ``voters``."""
        checks.instance("x", x, Tensor, "a torch.Tensor [..., classes * voters]")
        if not x.is_floating_point():
            raise TypeError(f"x of Voting must be floating point, but its dtype is {x.dtype}: use x.float()")
        if x.dim() == 0 or x.shape[-1] % self.voters:
            raise ValueError(f"x of Voting must be [..., classes * {self.voters}], but its shape is {list(x.shape)}")
        return x.unflatten(-1, (-1, self.voters)).mean(-1)

    def extra_repr(self) -> str:
        return f"voters={self.voters}"


def time_batched(module: nn.Module, x: Tensor, name: str = "") -> Tensor:
    """``module`` applied to every step of ``x`` [T, B, ...] at once. Errors say the ``name`` that it has somewhere."""
    _check_rank(x)
    steps, batch = x.shape[:2]
    if runs_once(x) and not differs_from_step_to_step(module):
        return _one_step(module, x, name)
    return _batched(module, x.flatten(0, 1), x, name).unflatten(0, (steps, batch))


def through(module: nn.Module, x: Tensor, step: Tensor | None, name: str = "") -> tuple[Tensor, Tensor | None]:
    """A stateless ``module`` applied to x [T, B, ...], as ``Sequential`` does it.

    A static sequence comes with its one ``step`` [B, ...], and is passed on with it while it stays static. If the step
    were taken from the expanded view again, its gradient would be a tensor of all T steps, with zeros in all but one.
    A list of events goes through the first layer as it is.
    """
    bare = bare_module(module)
    if isinstance(x, EventList):
        return through_first(module if bare is None else bare, x, name), None  # type: ignore[return-value]
    if step is not None and bare is not None and (isinstance(module, Once) or not differs_from_step_to_step(bare)):
        step = _batched(bare, step, x, name)
        return _repeated(step, x.shape[0]), step
    return (module(x) if isinstance(module, TimeBatched) else time_batched(module, x, name)), None


def bare_module(module: nn.Module) -> nn.Module | None:
    """The module that a ``TimeBatched`` applies, or ``module`` itself; None if a hook or a subclass needs the
    sequence."""
    while isinstance(module, TimeBatched):
        if type(module) not in (TimeBatched, Once) or is_hooked(module):
            return None
        module = module.module
    return module


def takes_repeat(module: nn.Module) -> bool:
    """Whether a stateful module may get one step and the number of its repetitions. A hook needs the whole sequence."""
    return isinstance(module, Neuron) and type(module).forward is Neuron.forward and not is_hooked(module)


def _repeated(step: Tensor, steps: int) -> Tensor:
    """[B, ...] seen so many times: [T, B, ...]."""
    if step.dim() == 4 and step.is_contiguous(memory_format=torch.channels_last):
        # Expanded in its memory format, so that the gradient, summed over time, has it, too. PyTorch's sum over a
        # channels-last sequence has not, and batch norm's backward took 16 times as long with both formats mixed.
        dense = step.permute(0, 2, 3, 1)
        return dense.unsqueeze(0).expand(steps, *dense.shape).permute(0, 1, 4, 2, 3)
    return step.unsqueeze(0).expand(steps, *step.shape)


def _one_step(module: nn.Module, x: Tensor, name: str = "") -> Tensor:
    """``module`` applied to one step of a static ``x``, seen as often as ``x`` has steps."""
    return _repeated(_batched(module, x[0], x, name), x.shape[0])


def _batched(module: nn.Module, some: Tensor, x: Tensor, name: str) -> Tensor:
    """``module`` applied to ``some`` steps of the sequence ``x``: all, [T B, ...], or one, [B, ...]."""
    if some.dim() < _RANKS.get(type(module), 0) and not is_hooked(module):
        _refuse_misfit(module, some, x, name)
    try:
        if isinstance(module, nn.Linear):
            out = linear(module, some)
        else:
            ours = _OURS.get(type(module))
            out = ours and ours(module, some)
            if out is None:
                out = _observed(module, some)
    except (IndexError, RuntimeError, ValueError) as error:
        if not torch.compiler.is_compiling() and not isinstance(error, torch.OutOfMemoryError):
            _refuse_misfit(module, some, x, name, error)
        raise
    if not isinstance(out, Tensor) or out.shape[:1] != some.shape[:1]:
        _refuse_result(type(module).__name__, out, some)
    return out


def _refuse_result(kind: str, out: Any, some: Tensor) -> None:
    if not isinstance(out, Tensor):
        raise TypeError(
            f"{kind} must return a tensor, but it returned a {type(out).__name__}; "
            "a module with state must be called (x, state) and return (out, state)"
        )
    raise ValueError(
        f"{kind} must keep the batch dimension of a sequence x [T, B, ...], but it made {list(out.shape)} of one "
        f"step {list(some.shape)}"
    )


def _refuse_misfit(module: nn.Module, some: Tensor, x: Tensor, name: str, error: Exception | None = None) -> None:
    """Raise an error about the sequence ``x`` if its shape or dtype is why a layer of PyTorch raised ``error``.

    The layer is ``module``, which got ``some`` of ``x``, or one inside of it, and what that got.
    """
    layer, given = module, some
    trace = error and error.__traceback__ and error.__traceback__.tb_next  # after the frame that caught it
    while trace:
        seen = trace.tb_frame.f_locals  # as PyTorch's layers name their arguments
        if isinstance(inner := seen.get("self"), nn.Module) and _taken(inner) and isinstance(seen.get("input"), Tensor):
            layer, given = inner, seen["input"]
        trace = trace.tb_next
    taken = _taken(layer)
    if taken is None or given.shape[:1] != some.shape[:1]:  # what the module made of the batch is not known
        return
    words, takes = taken
    place = [name, *(inside for inside, part in module.named_modules() if part is layer and inside)]
    owner = f"{type(layer).__name__} {'.'.join(filter(None, place))!r}".removesuffix(" ''")
    shape = [*x.shape[:2], *given.shape[1:]]
    if not takes(given.shape[1:]):
        flat = isinstance(layer, nn.Linear) and layer.in_features == math.prod(shape[1:])
        hint = "; if it has no time axis, use encode.repeat(x, steps)" if flat or takes(tuple(shape[1:])) else ""
        raise ValueError(f"x of {owner} must be [T, B, {words}], but its shape is {shape}{hint}") from error
    if not given.is_floating_point():
        hint = "data.to_unit(images)" if given.dtype == torch.uint8 else "x.float()"
        raise TypeError(f"x of {owner} must be floating point, but its dtype is {given.dtype}: use {hint}") from error
    weight = getattr(layer, "weight", None)
    if not isinstance(weight, Tensor):
        return
    if weight.device != given.device:
        raise ValueError(
            f"x of {owner} is on {given.device}, but its weight is on {weight.device}: move one"
        ) from error
    if weight.dtype != given.dtype and not torch.is_autocast_enabled(x.device.type):
        raise TypeError(
            f"x of {owner} must be {weight.dtype}, as its weight, but its dtype is {given.dtype}: use "
            f"x.to({weight.dtype})"
        ) from error


def _taken(layer: nn.Module) -> tuple[str, Callable[[tuple[int, ...]], bool]] | None:
    """The shapes of a sample that a layer of PyTorch takes, in words and as a function; None if that is not known."""
    if isinstance(layer, nn.Linear):
        return f"..., {layer.in_features}", lambda sample: sample[-1:] == (layer.in_features,)
    if isinstance(layer, nn.Flatten):
        return "N, ...", lambda sample: len(sample) > 0
    if isinstance(layer, _ConvNd):
        channels, axes = layer.in_channels, [len(layer.kernel_size)]
    elif isinstance(layer, _BatchNorm):
        known = {nn.BatchNorm1d: [0, 1], nn.BatchNorm2d: [2], nn.BatchNorm3d: [3]}
        channels, axes = layer.num_features, known.get(type(layer), [0, 1, 2, 3])
    else:
        return None
    words = (", ".join([str(channels), *("", "L", "HW", "DHW")[n]]) for n in axes)
    return "] or [T, B, ".join(words), lambda sample: sample[:1] == (channels,) and len(sample) - 1 in axes


def _observed(module: nn.Module, x: Tensor) -> Any:
    """``module(x)``; TypeError if it runs neurons that are not registered in it, such as those in a list."""
    if torch.compiler.is_compiling():
        return module(x)

    def refuse(seen: Seen) -> None:
        raise TypeError(_needs_state(module, f"a {name_of(seen.step)}"))

    with observed(refuse):
        return module(x)


def differs_from_step_to_step(module: nn.Module) -> bool:
    """Whether T equal steps differ from one: the module draws again at each step, or counts its samples."""
    return any(_draws(m) or _counts(m) for m in module.modules())


def _draws(module: nn.Module) -> bool:
    if isinstance(module, (nn.FractionalMaxPool2d, nn.FractionalMaxPool3d)):
        return True  # in eval, too
    if isinstance(module, nn.MultiheadAttention):
        return module.training and module.dropout > 0
    return module.training and isinstance(module, (_DropoutNd, nn.RReLU))


def _counts(module: nn.Module) -> bool:
    return isinstance(module, _BatchNorm) and (module.training or module.running_mean is None)


class Network(nn.Module):
    """Modules that may be stateful, of which each gets its part of the state."""

    def __init__(self) -> None:
        super().__init__()
        # Stored, as torch.compile can't look at signatures.
        self._stateful: dict[str, bool] = {}

    def add_module(self, name: str, module: nn.Module | None) -> None:
        stateful = module is not None and takes_state(module)
        super().add_module(name, module)
        self._stateful[name] = stateful

    def __setattr__(self, name: str, value: Any) -> None:
        stateful = isinstance(value, nn.Module) and takes_state(value)
        super().__setattr__(name, value)
        if isinstance(value, nn.Module):
            self._stateful[name] = stateful

    def state_of_modules(self, state: tuple | None) -> Iterable[Any]:
        """The state of each module in turn; ValueError unless ``state`` is a state of this network."""
        if state is None:
            return (None,) * len(self._modules)
        if not isinstance(state, tuple) or len(state) != len(self._modules):
            kind = f"{len(state)} entries" if isinstance(state, tuple) else f"a {type(state).__name__}"
            raise ValueError(
                f"state of {type(self).__name__} must be a tuple of {len(self._modules)} entries or None, but it is "
                f"{kind}"
            )
        return state


class Sequential(Network):
    """Modules one after the other over time: ``out, state = net(x, state=None)``.

    Stateful modules (neurons, and all whose ``forward`` takes ``state``) get their part of the state. Plain modules
    are time-batched. Where it is faster, a ``MaxPool2d`` after neurons is left to their kernel. Nothing is stored
    between calls. A module may be in two places, with a state in each.

    Args:
        modules: in order of execution; or one dict of them, whose keys become their names (``net.fc1``).

    Attributes:
        runner: a function (network, x, state) -> (out, state) that runs the modules in another way, as in
            ``device.optimize_memory_usage``; None: one after the other.
    """

    runner: Callable[[Sequential, Tensor, tuple | None], tuple[Tensor, tuple]] | None = None

    def __init__(self, *modules: nn.Module | Mapping[str, nn.Module]) -> None:
        super().__init__()
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], Mapping) else enumerate(modules)
        for name, module in named:
            if not isinstance(module, nn.Module):
                raise TypeError(f"module {name} of Sequential must be a torch.nn.Module, but it is {module!r}")
            self.add_module(str(name), module)

    def append(self, module: nn.Module) -> Sequential:
        """Add a module at the end, with the next free number as its name; returns the network."""
        checks.instance("module", module, nn.Module, "a torch.nn.Module")
        self.add_module(next(str(i) for i in count(len(self)) if str(i) not in self._modules), module)
        return self

    def __setitem__(self, index: int, module: nn.Module) -> None:
        """Put another module into a place; its name stays."""
        setattr(self, list(self._modules)[index], checks.instance("module", module, nn.Module, "a torch.nn.Module"))

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int | slice) -> nn.Module:
        """A module, or for a slice a ``Sequential`` of the same modules under their names."""
        chosen = list(self._modules.items())[index]
        return Sequential(dict(chosen)) if isinstance(chosen, list) else chosen[1]  # type: ignore[return-value, arg-type]

    def __iter__(self):
        # Unlike children(), which leaves out a module that was there before.
        return iter(self._modules.values())

    def forward(self, x: Tensor, state: tuple | None = None) -> tuple[Tensor, tuple]:
        """x [T, B, ...] to out [T, B, ...] and the state: a tuple, one entry per module, None for stateless ones.

        x may be an ``EventList``, where the first module is a ``torch.nn.Linear`` or ``Conv2d``, perhaps flattened.
        """
        refuse_plain_sequential(self)
        return self.run_modules(x, state) if self.runner is None else self.runner(self, x, state)

    def record(self, x: Tensor, state: tuple | None = None) -> Recording:
        """As a call, with the output of every module: to look inside and to regularise firing rates."""
        layers: list[Tensor] = []
        return Recording(*self.run_modules(x, state, layers), layers)

    def run_modules(self, x: Tensor, state: tuple | None, layers: list[Tensor] | None = None) -> tuple[Tensor, tuple]:
        """As ``forward`` without a ``runner``; the output of every module is appended to ``layers``, if given."""
        if not isinstance(x, EventList):
            _check_rank(x)
        if layers is not None:
            checks.instance("layers", layers, list, "a list")
        parts = self.state_of_modules(state)
        new = []
        # Where outputs are recorded, layers are connected by these: a gradient may be requested there.
        step = x[0] if layers is None and not isinstance(x, EventList) and runs_once(x) else None
        modules, pooled = list(self._modules.values()), False  # by the neuron before
        for i, ((name, module), part) in enumerate(zip(self._modules.items(), parts, strict=True)):
            if module is None:
                raise TypeError(f"module {name} of Sequential must be a torch.nn.Module, but it is None")
            if pooled:
                pooled = False
            elif self._stateful[name]:
                after = modules[i + 1] if layers is None and i + 1 < len(modules) else None
                x, part, pooled = with_pooling(module, after, x, step, part)
                step = None
            else:
                x, step = through(module, x, step, name)
            new.append(part)
            if layers is not None:
                layers.append(x)
        return x, tuple(new)


class Residual(Network):
    """Two branches and their sum over time: ``out, state = block(x, state=None)`` with ``out = main(x) + skip(x)``.

    Branches that end in neurons add up to 0, 1 or 2 (SEW-ResNet, Fang et al. 2021, arXiv:2102.04159). Where spikes must
    stay 0 and 1, let them end in currents, and put the neurons after the block::

        Sequential(Residual(Sequential(conv1, LIF(), conv2)), LIF())

    Args:
        main: a neuron, a network, or a plain module, which is time-batched.
        skip: as ``main``, such as a 1 × 1 convolution where ``main`` changes the shape; None: x itself.

    Raises:
        ValueError: the two have results of different shapes.
    """

    main: nn.Module
    skip: nn.Module | None

    def __init__(self, main: nn.Module, skip: nn.Module | None = None) -> None:
        super().__init__()
        self.add_module("main", checks.instance("main of Residual", main, nn.Module, "a torch.nn.Module"))
        checks.instance("skip of Residual", skip, nn.Module, "a torch.nn.Module", optional=True)
        self.add_module("skip", skip)

    def forward(self, x: Tensor, state: tuple | None = None) -> tuple[Tensor, tuple]:
        """x [T, B, ...] to out [T, B, ...] and the state: a pair, None for a stateless branch."""
        refuse_plain_sequential(self)
        _check_rank(x)
        outs, new = [], []
        for (name, module), part in zip(self._modules.items(), self.state_of_modules(state), strict=True):
            if module is None:
                out = x
            elif self._stateful[name]:
                out, part = with_state(module, x, part)
            else:
                out, _ = through(module, x, None, name)
            outs.append(out)
            new.append(part)
        if outs[0].shape != outs[1].shape:
            skip = "x" if self.skip is None else "skip(x)"
            raise ValueError(
                f"main(x) and {skip} of Residual must have one shape to be added, but they have "
                f"{list(outs[0].shape)} and {list(outs[1].shape)}"
            )
        return outs[0] + outs[1], tuple(new)


def detach(state: Any) -> Any:
    """The same state, cut from the graph: for truncated backpropagation, between two chunks of time."""
    if state is None:
        return None
    if isinstance(state, Tensor):
        return state.detach()
    if isinstance(state, tuple):
        parts = [detach(part) for part in state]
        return getattr(type(state), "_make", tuple)(parts)
    raise TypeError(f"state must be a tensor, a tuple or None, but it is a {type(state).__name__}")


def _check_tensor(x: Any) -> None:
    if not isinstance(x, Tensor) or x.is_sparse:  # only then, for speed
        checks.instance("x", x, Tensor, "a torch.Tensor [T, B, ...]")


def _check_rank(x: Any) -> None:
    _check_tensor(x)
    if x.dim() < 2:
        raise ValueError(f"x must be a sequence [T, B, ...], but its shape is {list(x.shape)}")
    if x.shape[0] == 0:
        raise ValueError(f"x must have at least one time step, but its shape is {list(x.shape)}")


__getattr__ = lazy.instead(
    __name__,
    {
        **{name: f"torch.nn.{name}" for name in nn.modules.__all__},
        **{name: f"neuron.{name}" for name in neuron.__all__},
        "BatchNormTT1d": "nn.PerStep(*(torch.nn.BatchNorm1d(features) for _ in range(steps)))",
        "BatchNormTT2d": "nn.PerStep(*(torch.nn.BatchNorm2d(channels) for _ in range(steps)))",
        "Lift": "nn.TimeBatched, or nothing: nn.Sequential applies plain modules to all steps",
        "LinearRecurrentContainer": "neuron.Recurrent",
        "MultiStepContainer": "nothing: neurons take all steps, nn.Sequential hands on their state",
        "SeqToANNContainer": "nn.TimeBatched, or nothing: nn.Sequential applies plain modules to all steps",
        "SequentialState": "nn.Sequential",
        "VotingLayer": "nn.Voting",
        "detach_net": "nn.detach(state)",
        "reset_net": "nothing: a call without a state starts at rest",
        "set_step_mode": "nothing: x is [T, B, ...] everywhere",
    },
)
