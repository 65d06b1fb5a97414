"""A ``Sequential`` that holds less memory, with the same modules, names, parameters, outputs and gradients.

``economise`` changes the class of a model in place, as ``torch.nn.utils.parametrize`` and FSDP do: nothing that refers
to the model, its modules or parameters needs to know.
"""

from __future__ import annotations

import copyreg
import functools
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from snnkit.nn import Sequential, is_static, through

from .bits import keeps_as_bits, packed_spikes
from .plan import Settings, kept_as_bits, must_look, stages
from .segment import Segment, run


class Economical:
    """Mixed into the class of a model by ``economise``."""

    economy: Settings


class EconomicalSequential(Economical):
    def _run(self, x: Tensor, state: tuple | None, layers: list[Tensor] | None = None) -> tuple[Tensor, tuple]:
        plain = super()._run  # type: ignore[misc]
        # Where the output of every layer is wanted, there is nothing to save.
        if layers is not None or _transformed() or not isinstance(x, Tensor) or x.dim() < 2 or not len(x):
            return plain(x, state, layers)
        if self.economy.steps is not None and torch.is_grad_enabled() and len(x) > self.economy.steps:
            check_over_time(self)  # type: ignore[arg-type]
            return _checkpointed(plain, x, state, self.economy.steps)
        return _economical(self, x, tuple(self._parts(state)))  # type: ignore[attr-defined, arg-type]


class EconomicalModule(Economical):
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        call = super().forward  # type: ignore[misc]
        if _transformed() or not torch.is_grad_enabled() or not self.economy.pack:
            return call(*args, **kwargs)
        with packed_spikes():
            return call(*args, **kwargs)


def economise(model: nn.Module, settings: Settings) -> None:
    """Make ``model`` run by ``settings`` from now on; ``release`` undoes it."""
    release(model)
    model.economy = settings  # type: ignore[assignment]
    model.__class__ = _class_for(type(model))


def release(model: nn.Module) -> None:
    """Make ``model`` what it was.

    Raises:
        ValueError: something else has changed its class since; nothing is undone then.
    """
    check_release(model)
    if isinstance(model, Economical):
        del model.economy
        model.__class__ = type(model).__bases__[1]


def check_release(model: nn.Module) -> None:
    """ValueError if ``release`` can't know what the class was: it is none of those that ``_class_for`` makes."""
    if isinstance(model, Economical) and "__reduce_ex__" not in vars(type(model)):
        raise ValueError(
            f"model holds a {type(model).__name__} that optimize_memory_usage has changed and something else, such as "
            "torch.nn.utils.parametrize, on top of it: undo that first (remove_parametrizations)"
        )


def check_over_time(model: nn.Module) -> None:
    """ValueError if a batch norm takes its mean over time, which chunks of time would change."""
    for name, m in model.named_modules():
        if isinstance(m, _BatchNorm) and (m.training or m.running_mean is None):
            raise ValueError(
                f"steps can't be used with a batch norm that learns or has no running statistics ({name!r}): it takes "
                "its mean over all time steps at once. Give optimize_memory_usage steps=None (recompute=True saves as "
                "much), or call model.eval() on a model with running statistics"
            )


@functools.cache
def _class_for(plain: type) -> type:
    mixin = EconomicalSequential if issubclass(plain, Sequential) else EconomicalModule

    def reduce(self, protocol):
        # A class made here has no name by which a pickle could find it.
        return _rebuilt, (plain,), self.__getstate__() if hasattr(self, "__getstate__") else dict(vars(self))

    return type(plain.__name__, (mixin, plain), {"__module__": plain.__module__, "__reduce_ex__": reduce})


def _rebuilt(plain: type) -> nn.Module:
    return copyreg.__newobj__(_class_for(plain))  # type: ignore[attr-defined]


def _transformed() -> bool:
    """Whether the model is being compiled, which finds its own trade of memory and time, or is under a transform of
    ``torch.func`` or forward-mode differentiation, which custom functions don't know."""
    if torch.compiler.is_compiling():
        return True
    stack = torch._C._functorch.peek_interpreter_stack()  # pyright: ignore[reportAttributeAccessIssue]
    return stack is not None or forward_ad._current_level >= 0


def _economical(net: Any, x: Tensor, parts: tuple) -> tuple[Tensor, tuple]:
    settings: Settings = net.economy
    new = dict(zip(net._modules, parts, strict=True))
    flow = _Flow.of(x)
    for stage in stages(net, settings):
        if stage.plain is not None:
            name = stage.names[0]
            if net._stateful[name]:
                out, new[name] = stage.plain(flow.sequence(), new[name])
                flow = _Flow(out)
            elif kept_as_bits(stage, settings) and not flow.steps:
                flow = _Flow(_with_bits(stage.plain, flow.x, must_look(stage)))
            else:
                flow = flow.through(stage.plain)
            continue
        norm, at = stage.norm, None
        if norm is not None and flow.steps and not stage.once:
            flow, norm = flow.through(norm), None
        if stage.neuron is None and (flow.steps or flow.x.dim() != 5):
            for module in stage.rest:
                flow = flow.through(module)
            continue
        if stage.neuron is not None:
            at = next(name for name in stage.names if net._modules[name] is stage.neuron)
        out, last = run(Segment(norm, stage.neuron, stage.rest), flow.x, None if at is None else new[at], flow.steps)
        if at is not None:
            new[at] = last
        flow = _Flow(out)
    return flow.sequence(), tuple(new.values())


class _Flow(NamedTuple):
    """What goes from module to module.

    A step of a static sequence is kept as such from one module to the next: taken out of its expanded view again, its
    gradient would become a tensor of all T steps.

    Attributes:
        x: [T, B, ...], or, of a static sequence, one step [B, ...].
        steps: T of a static sequence, else 0.
    """

    x: Tensor
    steps: int = 0

    @staticmethod
    def of(x: Tensor) -> _Flow:
        return _Flow(x[0], len(x)) if is_static(x) else _Flow(x)

    def sequence(self) -> Tensor:
        return self.x.unsqueeze(0).expand(self.steps, *self.x.shape) if self.steps else self.x

    def through(self, module: nn.Module) -> _Flow:
        """As ``Sequential`` applies a stateless module."""
        out, step = through(module, self.sequence(), self.x if self.steps else None)
        return _Flow(out) if step is None else _Flow(step, self.steps)


def _with_bits(module: nn.Module, x: Tensor, verify: bool) -> Tensor:
    kind = x.device.type
    if torch.is_autocast_enabled(kind) and x.dtype != torch.float64:
        # What the layer would do itself; done here, what it keeps is known.
        x = x.to(torch.get_autocast_dtype(kind))
    with keeps_as_bits(x, verify=verify):
        return _Flow(x).through(module).x


def _checkpointed(call: Any, x: Tensor, state: Any, steps: int) -> tuple[Tensor, Any]:
    """``call(x, state)`` a few steps at a time; what each needs for backward is computed again when its turn comes."""
    outs = []
    for some in x.split(steps):
        out, state = checkpoint(call, some, state, use_reentrant=False)  # type: ignore[misc]
        outs.append(out)
    return torch.cat(outs), state
