"""Networks over time: state goes through the layers, and stateless layers run once for all steps.

Sequences are [T, B, ...]. A convolution or a linear map is the same at every step, so ``TimeBatched`` folds time into
the batch and does one large operation instead of T small ones. If the input does not change over time (an image shown
for T steps, an expanded view with stride 0), it is done once. This does not hold for PyTorch's own random layers and
for batch norms in training, unless ``Once`` is used. A random module of your own needs an input that is not static:
``x.contiguous()``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from snnkit import checks
from snnkit.engine.memory_gate import is_captured
from snnkit.engine.observe import Seen, observed
from snnkit.engine.trace import name_of
from snnkit.linear import is_hooked, linear
from snnkit.neuron import Neuron, Recurrent
from snnkit.neuron.base import refuse_plain_sequential
from snnkit.pooling import max_pool
from snnkit.recording import ablate, recording

__all__ = [
    "Once",
    "Recording",
    "Recurrent",
    "Sequential",
    "TimeBatched",
    "ablate",
    "detach",
    "is_stateful",
    "is_static",
    "recording",
]


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


def stands_still(x: Tensor) -> bool:
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


class TimeBatched(nn.Module):
    """Apply a stateless module to [T, B, ...] with time folded into the batch. A static input is computed once and
    expanded.

    Args:
        module: any module on [B, ...] without neurons. Give it no static input if it is random, unless its randomness
            is a layer of PyTorch.

    Raises:
        TypeError: the module takes a state, or has neurons in it.
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        if takes_state(module):
            raise TypeError(
                f"module of {type(self).__name__} must be stateless, but {type(module).__name__} takes a state"
            )
        self.module = module

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
        module: any module on [B, ...] without state.
    """

    def forward(self, x: Tensor) -> Tensor:
        """[T, B, ...] -> [T, B, ...], a view with stride 0 in time if ``x`` is one."""
        _check_rank(x)
        return _one_step(self.module, x) if stands_still(x) else time_batched(self.module, x)


def time_batched(module: nn.Module, x: Tensor) -> Tensor:
    """``module`` applied to every step of ``x`` [T, B, ...] at once."""
    _check_rank(x)
    steps, batch = x.shape[:2]
    if stands_still(x) and not differs_from_step_to_step(module):
        return _one_step(module, x)
    return _batched(module, x.flatten(0, 1)).unflatten(0, (steps, batch))


def through(module: nn.Module, x: Tensor, step: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """A stateless ``module`` applied to x [T, B, ...], as ``Sequential`` does it.

    A static sequence comes with its one ``step`` [B, ...], and is passed on with it while it stays static. If the step
    were taken from the expanded view again, its gradient would be a tensor of all T steps, with zeros in all but one.
    """
    bare = bare_module(module)
    if step is not None and bare is not None and (isinstance(module, Once) or not differs_from_step_to_step(bare)):
        step = _batched(bare, step)
        return _repeated(step, x.shape[0]), step
    return (module(x) if isinstance(module, TimeBatched) else time_batched(module, x)), None


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


def _one_step(module: nn.Module, x: Tensor) -> Tensor:
    """``module`` applied to one step of a static ``x``, seen as often as ``x`` has steps."""
    return _repeated(_batched(module, x[0]), x.shape[0])


def _batched(module: nn.Module, x: Tensor) -> Tensor:
    if isinstance(module, nn.Linear):
        out = linear(module, x)
    elif type(module) is not nn.MaxPool2d or (out := max_pool(module, x)) is None:
        out = _observed(module, x)
    name = type(module).__name__
    if not isinstance(out, Tensor):
        raise TypeError(
            f"{name} must return a tensor, but it returned a {type(out).__name__}; "
            "a module with state must be called (x, state) and return (out, state)"
        )
    if out.shape[:1] != x.shape[:1]:
        raise ValueError(
            f"{name} must keep the batch dimension of a sequence x [T, B, ...], but it made {list(out.shape)} of one "
            f"step {list(x.shape)}"
        )
    return out


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


class Sequential(nn.Module):
    """Modules one after the other over time: ``out, state = net(x, state=None)``.

    Stateful modules (neurons, and all whose ``forward`` takes ``state``) get their part of the state. Plain modules are
    time-batched. Nothing is stored between calls. A module may be in two places, with a state in each.

    Args:
        modules: in order of execution.

    Attributes:
        runner: a function (network, x, state) -> (out, state) that runs the modules in another way, as in
            ``device.optimize_memory_usage``; None: one after the other.
    """

    runner: Callable[[Sequential, Tensor, tuple | None], tuple[Tensor, tuple]] | None = None

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        # Stored, as torch.compile can't look at signatures.
        self._stateful: dict[str, bool] = {}
        for index, module in enumerate(modules):
            if not isinstance(module, nn.Module):
                raise TypeError(f"module {index} of Sequential must be a torch.nn.Module, but it is {module!r}")
            self.add_module(str(index), module)

    def add_module(self, name: str, module: nn.Module | None) -> None:
        stateful = module is not None and takes_state(module)
        super().add_module(name, module)
        self._stateful[name] = stateful

    def __setattr__(self, name: str, value: Any) -> None:
        stateful = isinstance(value, nn.Module) and takes_state(value)
        super().__setattr__(name, value)
        if isinstance(value, nn.Module):
            self._stateful[name] = stateful

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int | slice) -> nn.Module:
        """A module, or for a slice a ``Sequential`` of the same modules."""
        chosen = list(self._modules.values())[index]
        return Sequential(*chosen) if isinstance(chosen, list) else chosen  # type: ignore[return-value, arg-type]

    def __iter__(self):
        # Unlike children(), which leaves out a module that was there before.
        return iter(self._modules.values())

    def forward(self, x: Tensor, state: tuple | None = None) -> tuple[Tensor, tuple]:
        """x [T, B, ...] to out [T, B, ...] and the state: a tuple, one entry per module, None for stateless ones."""
        refuse_plain_sequential(self)
        return self.run_modules(x, state) if self.runner is None else self.runner(self, x, state)

    def record(self, x: Tensor, state: tuple | None = None) -> Recording:
        """As a call, with the output of every module: to look inside and to regularise firing rates."""
        layers: list[Tensor] = []
        return Recording(*self.run_modules(x, state, layers), layers)

    def run_modules(self, x: Tensor, state: tuple | None, layers: list[Tensor] | None = None) -> tuple[Tensor, tuple]:
        """As ``forward`` without a ``runner``; the output of every module is appended to ``layers``, if given."""
        _check_rank(x)
        if layers is not None:
            checks.instance("layers", layers, list, "a list")
        parts = self.state_of_modules(state)
        new = []
        # Where outputs are recorded, layers are connected by these: a gradient may be requested there.
        step = x[0] if stands_still(x) and layers is None else None
        for (name, module), part in zip(self._modules.items(), parts, strict=True):
            if module is None:
                raise TypeError(f"module {name} of Sequential must be a torch.nn.Module, but it is None")
            if self._stateful[name]:
                if step is not None and takes_repeat(module):
                    x, part = with_state(module, step, part, repeat=x.shape[0])
                else:
                    x, part = with_state(module, x, part)
                step = None
            else:
                x, step = through(module, x, step)
            new.append(part)
            if layers is not None:
                layers.append(x)
        return x, tuple(new)

    def state_of_modules(self, state: tuple | None) -> Iterable[Any]:
        """The state of each module in turn; ValueError unless ``state`` is a state of this network."""
        if state is None:
            return (None,) * len(self)
        if not isinstance(state, tuple) or len(state) != len(self):
            kind = f"{len(state)} entries" if isinstance(state, tuple) else f"a {type(state).__name__}"
            raise ValueError(f"state of Sequential must be a tuple of {len(self)} entries or None, but it is {kind}")
        return state


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
