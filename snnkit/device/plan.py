"""How an economical ``Sequential`` runs its modules: which belong together, and which input is spikes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.modules import module as every

from snnkit.neuron import Neuron
from snnkit.nn import Once, Sequential, TimeBatched, is_hooked
from snnkit.surrogate import Surrogate

from .again import is_ours, why_not_again

NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
MAX_POOLS = (
    nn.MaxPool1d,
    nn.MaxPool2d,
    nn.MaxPool3d,
    nn.AdaptiveMaxPool1d,
    nn.AdaptiveMaxPool2d,
    nn.AdaptiveMaxPool3d,
)
MEAN_POOLS = (
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.AvgPool3d,
    nn.AdaptiveAvgPool1d,
    nn.AdaptiveAvgPool2d,
    nn.AdaptiveAvgPool3d,
)
SHAPES = (nn.Flatten, nn.Identity)
WEIGHTED = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, nn.Linear)


@dataclass(frozen=True)
class Settings:
    """What ``optimize_memory_usage`` was asked for.

    Attributes:
        recompute: batch norm, neurons and pooling again in backward.
        pool: max-pooling without indices.
        pack: spikes as bits.
        steps: time steps at once, the rest checkpointed; None: all.
    """

    recompute: bool = True
    pool: bool = True
    pack: bool = True
    steps: int | None = None


@dataclass(frozen=True)
class Stage:
    """Modules of a ``Sequential`` that are run as one.

    Attributes:
        names: of the modules, in order.
        norm, neuron, rest: those of a segment that is recomputed.
        once: whether the norm sees a static input once even while it learns.
        plain: the module to call as it is, if it is no segment.
        spikes: whether the input is spikes: False, True, or "unsure" after a neuron that is not of this package.
    """

    names: tuple[str, ...]
    norm: Any = None
    once: bool = False
    neuron: Any = None
    rest: tuple[nn.Module, ...] = ()
    plain: nn.Module | None = None
    spikes: bool | str = False


def stages(net: Sequential, settings: Settings) -> Iterator[Stage]:
    """What to run, in order. A module that somebody has hooked is left alone: its hook expects whole tensors."""
    modules = [(name, module) for name, module in net._modules.items()]
    spikes: bool | str = False
    i = 0
    while i < len(modules):
        stage = _segment(modules, i, settings, spikes)
        if stage is None:
            stage = Stage((modules[i][0],), plain=modules[i][1], spikes=spikes)
        for _, module in modules[i : i + len(stage.names)]:
            spikes = after(module, spikes)  # type: ignore[arg-type]
        i += len(stage.names)
        yield stage


def _segment(modules: list, start: int, settings: Settings, spikes: bool | str) -> Stage | None:
    """The longest segment that begins here: [batch norm,] neuron, pooling …; or a max-pooling."""
    i, norm, once, neuron, rest = start, None, False, None, []
    if settings.recompute:
        bare = free(modules[i][1])
        if type(bare) in NORMS and i + 1 < len(modules) and is_neuron(free(modules[i + 1][1])):
            norm, once, i = bare, isinstance(modules[i][1], Once), i + 1
            bare = free(modules[i][1])
        if is_neuron(bare) and not why_not_again(bare):  # type: ignore[arg-type]
            neuron, i = bare, i + 1
        else:
            i, norm = start, None
    keep = MAX_POOLS + MEAN_POOLS + SHAPES if neuron is not None else (nn.MaxPool2d, *SHAPES)
    if neuron is None and not (settings.pool and type(free(modules[start][1])) is nn.MaxPool2d):
        return None
    while i < len(modules):
        bare = free(modules[i][1])
        if type(bare) not in keep or getattr(bare, "return_indices", False):
            break
        rest.append(bare)
        i += 1
    if neuron is None and not rest:
        return None
    if neuron is not None and norm is None and neuron.engine != "eager" and all(type(m) in SHAPES for m in rest):
        return None  # a compiled neuron alone keeps no more than its input as it is
    names = tuple(name for name, _ in modules[start:i])
    return Stage(names, norm, once, neuron, tuple(rest), spikes=spikes)


def free(module: Any) -> nn.Module | None:
    """What is inside a ``TimeBatched``; None if hooks, or a ``forward`` that was set on it, make it more than what it
    looks like."""
    layers = _layers(module)
    return None if any(_EVERY) or any(m is None or _is_changed(m) for m in layers) else layers[-1]


# Hooks on all modules at once.
_EVERY = (
    every._global_forward_hooks,
    every._global_forward_pre_hooks,
    every._global_backward_hooks,
    every._global_backward_pre_hooks,
)


def _layers(module: Any) -> list[Any]:
    """``module``, and what is inside it if it is a ``TimeBatched``."""
    layers = [module]
    while type(layers[-1]) in (TimeBatched, Once):
        layers.append(layers[-1].module)
    return layers


def _is_changed(module: nn.Module) -> bool:
    parts = module.modules() if isinstance(module, Neuron) else (module,)
    return any(map(is_hooked, parts))


def is_neuron(module: Any) -> bool:
    """Whether it is its step over time and nothing else."""
    return isinstance(module, Neuron) and type(module).forward is Neuron.forward and hasattr(module.State, "_fields")


def left_alone(net: Sequential) -> list[str]:
    """Neurons that backward can't compute again, and why."""
    neurons = [(name, free(module)) for name, module in net._modules.items()]
    reasons = [(name, bare, why_not_again(bare)) for name, bare in neurons if is_neuron(bare)]  # type: ignore[arg-type]
    return [f"{type(bare).__name__} {name!r} is left as it is: {reason}" for name, bare, reason in reasons if reason]


def after(module: nn.Module, spikes: bool | str) -> bool | str:
    """Whether the output is spikes, if the input is: True only where nothing else is possible."""
    bare = _layers(module)[-1]
    if isinstance(bare, Neuron):
        if not bare.spiking:
            return False
        heaviside = isinstance(bare.surrogate, Surrogate) and type(bare.surrogate).__call__ is Surrogate.__call__
        spikes = True if is_ours(bare) and heaviside else "unsure"
    elif type(bare) not in MAX_POOLS + SHAPES:
        return False
    # A hook may give out what it likes.
    return "unsure" if spikes and free(module) is None else spikes


def kept_as_bits(stage: Stage, settings: Settings) -> bool:
    """Whether a plain stage is a weighted layer whose input is worth packing."""
    bare: Any = stage.plain
    while isinstance(bare, TimeBatched):
        bare = bare.module
    return settings.pack and bool(stage.spikes) and isinstance(bare, WEIGHTED) and torch.is_grad_enabled()


def must_look(stage: Stage) -> bool:
    """Whether what such a layer keeps may be something else than spikes: they are not certain, or a hook, or a
    ``forward`` of somebody's own, may change them in place first."""
    bare = free(stage.plain)
    as_it_was = bare is not None and any(type(bare).forward is kind.forward for kind in WEIGHTED)
    return stage.spikes == "unsure" or not as_it_was
