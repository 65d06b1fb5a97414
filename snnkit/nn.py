"""Networks over time: threading state through layers, and doing stateless work once for all steps.

Sequences are [T, B, ...]. A convolution or a linear map does not care about time, so ``TimeBatched`` folds time into
the batch and does one large operation instead of T small ones. Where the input does not change over time (an image
shown for T steps, an expanded view with stride 0), it is done once.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import Tensor, nn

from .neuron import Recurrent

__all__ = ["Recording", "Recurrent", "Sequential", "TimeBatched", "detach", "is_stateful", "is_static"]

# Modules whose result for one sample depends on the others or on chance: a static input must not be computed only once,
# or each time step would see the same dropped units.
_RANDOM = (nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout)


class Recording(NamedTuple):
    """What ``Sequential.record`` gives.

    Attributes:
        out: [T, B, ...].
        state: one entry per module, None for stateless ones.
        layers: the output of each module [T, B, ...], in order.
    """

    out: Tensor
    state: tuple
    layers: list[Tensor]


def is_static(x: Tensor) -> bool:
    """Whether [T, B, ...] is one step seen T times (an expanded view)."""
    return x.dim() > 0 and x.shape[0] > 1 and x.stride(0) == 0


def is_stateful(module: nn.Module) -> bool:
    """Whether a module is called ``out, state = module(x, state)``: its ``forward`` has an argument named ``state``."""
    return "state" in inspect.signature(module.forward).parameters


class TimeBatched(nn.Module):
    """Apply a stateless module to [T, B, ...] as if time were batch; a static input is computed once and expanded.

    Args:
        module: any module on [B, ...].
    """

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        if is_stateful(module):
            raise TypeError(f"module of TimeBatched must be stateless, but {type(module).__name__} takes a state")
        self.module = module

    def forward(self, x: Tensor) -> Tensor:
        """[T, B, ...] -> [T, B, ...], a view with stride 0 in time if ``x`` is one."""
        return time_batched(self.module, x)


def time_batched(module: nn.Module, x: Tensor) -> Tensor:
    """``module`` applied to every step of ``x`` [T, B, ...] at once."""
    _check_rank(x)
    steps, batch = x.shape[:2]
    if is_static(x) and not _is_random(module):
        once = module(x[0])
        return once.unsqueeze(0).expand(steps, *once.shape)
    out = module(x.flatten(0, 1))
    if out.shape[:1] != (steps * batch,):
        raise ValueError(
            f"{type(module).__name__} must keep the batch dimension: "
            f"it made {list(out.shape)} of a batch of {steps * batch}"
        )
    return out.unflatten(0, (steps, batch))


class Sequential(nn.Module):
    """Modules one after the other over time: ``out, state = net(x, state=None)``.

    Stateful modules (neurons, or any whose ``forward`` takes ``state``) get their part of the state; plain ones are
    time-batched. Nothing is kept between calls.

    Args:
        modules: in order of execution.
    """

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__()
        for index, module in enumerate(modules):
            if not isinstance(module, nn.Module):
                raise TypeError(f"module {index} of Sequential must be a torch.nn.Module, but it is {module!r}")
            self.add_module(str(index), module)
        self._stateful = tuple(is_stateful(module) for module in modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int) -> nn.Module:
        return list(self.children())[index]

    def __iter__(self):
        return iter(self.children())

    def forward(self, x: Tensor, state: tuple | None = None) -> tuple[Tensor, tuple]:
        """x [T, B, ...] to out [T, B, ...] and the state: a tuple, one entry per module, None for stateless ones."""
        out, new, _ = self._run(x, state)
        return out, new

    def record(self, x: Tensor, state: tuple | None = None) -> Recording:
        """As a call, and with the output of every module, for looking inside and for regularising firing rates."""
        return self._run(x, state)

    def _run(self, x: Tensor, state: tuple | None) -> Recording:
        _check_rank(x)
        parts = self._parts(state)
        new, layers = [], []
        for module, stateful, part in zip(self.children(), self._stateful, parts, strict=True):
            if stateful:
                x, part = module(x, part)
            elif isinstance(module, TimeBatched):
                x = module(x)
            else:
                x = time_batched(module, x)
            new.append(part)
            layers.append(x)
        return Recording(x, tuple(new), layers)

    def _parts(self, state: tuple | None) -> Iterable[Any]:
        if state is None:
            return (None,) * len(self)
        if not isinstance(state, tuple) or len(state) != len(self):
            found = f"{len(state)} entries" if isinstance(state, tuple) else f"a {type(state).__name__}"
            raise ValueError(f"state of Sequential must be a tuple of {len(self)} entries or None, but it is {found}")
        return state


def detach(state: Any) -> Any:
    """The same state cut from the graph: for truncated backpropagation, between one chunk of time and the next."""
    if state is None:
        return None
    if isinstance(state, Tensor):
        return state.detach()
    if isinstance(state, tuple):
        parts = [detach(part) for part in state]
        return getattr(type(state), "_make", tuple)(parts)
    raise TypeError(f"state must be a tensor, a tuple or None, but it is a {type(state).__name__}")


def _is_random(module: nn.Module) -> bool:
    return any(isinstance(m, _RANDOM) and m.training for m in module.modules())


def _check_rank(x: Any) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"x must be a torch.Tensor [T, B, ...], but it is a {type(x).__name__}")
    if x.dim() < 2:
        raise ValueError(f"x must be a sequence [T, B, ...], but its shape is {list(x.shape)}")
    if x.shape[0] == 0:
        raise ValueError(f"x has no time steps: its shape is {list(x.shape)}, but T must be at least 1")
