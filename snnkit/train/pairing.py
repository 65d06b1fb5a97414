"""Whether a loss or a metric compares each output with the target of its own sample.

Shapes [B, 1] and [B] broadcast to [B, B]: each output is then compared with the targets of all samples, and a network
learns the mean of them. PyTorch warns of it in some of its losses and is silent in others, and in arithmetic.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import zip_longest
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

# Those of PyTorch that compare two tensors value by value. (Others refuse two shapes themselves.)
_LOSSES = {
    F.gaussian_nll_loss, F.huber_loss, F.kl_div, F.l1_loss, F.mse_loss, F.poisson_nll_loss, F.smooth_l1_loss,
    F.soft_margin_loss,
}  # fmt: skip
_DIFFERENCES = {torch.sub, torch.subtract, torch.rsub, Tensor.sub, Tensor.subtract, Tensor.__rsub__}


class Pairing:
    """A context for calls of a loss or a metric, ``with pairing(out, targets): ...``.

    It looks at the first call with each pair of shapes, and only where targets are numbers: labels do not broadcast
    against scores. ``name``: what is called, in messages.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._seen: set[tuple[torch.Size, torch.Size]] = set()

    def __call__(self, out: Tensor, targets: Tensor) -> AbstractContextManager[Any]:
        shapes = out.shape, targets.shape
        if shapes in self._seen or not targets.is_floating_point():
            return nullcontext()
        self._seen.add(shapes)
        return _Look(self.name, targets)


class _Look(TorchFunctionMode):
    """ValueError where a loss of PyTorch broadcasts two shapes to one that is larger than both; a warning where targets
    are subtracted so, because whoever writes the arithmetic may want all pairs."""

    observes = True  # kernels run in it

    def __init__(self, name: str, targets: Tensor) -> None:
        super().__init__()
        self.name, self.targets = name, targets

    def __torch_function__(self, func: Callable, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func in _LOSSES:
            given = dict(zip(("input", "target"), args, strict=False)) | kwargs
            if shapes := _enlarged(given.get("input"), given.get("target")):
                raise ValueError(
                    f"{self.name} must compare each output with the target of its own sample, but {func.__name__} "
                    f"compares all with all: {shapes}; {self._advice()}"
                )
        elif func in _DIFFERENCES and self._mixes(*args) and (shapes := _enlarged(*args)):
            warnings.warn(
                f"{self.name} subtracts the targets of all samples from each output: {shapes}; {self._advice()}. If "
                "all pairs are meant, write targets[None]",
                stacklevel=2,
            )
        return func(*args, **kwargs)

    def _mixes(self, *terms: Any) -> bool:
        """Whether one of two is the targets, and the other no view of them."""
        others = [each for each in terms if each is not self.targets]
        own = self.targets if self.targets._base is None else self.targets._base
        if len(terms) != 2 or len(others) != 1:
            return False
        return others[0] is not own and getattr(others[0], "_base", None) is not own

    def _advice(self) -> str:
        if self.targets.ndim == 1:
            return "give targets of shape [N, 1], such as targets[:, None], or use out.squeeze(-1)"
        return f"bring both to one shape (targets are {list(self.targets.shape)})"


def _enlarged(a: Any, b: Any) -> str:
    """Two shapes and what they broadcast to, in words, where that has more values than either; else an empty string."""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)) or a.shape == b.shape:
        return ""
    pairs = list(zip_longest(reversed(a.shape), reversed(b.shape), fillvalue=1))
    if any(m != n and 1 not in (m, n) for m, n in pairs):
        return ""  # the call itself will say that they do not broadcast
    result = [n if m == 1 else m for m, n in reversed(pairs)]
    larger = math.prod(result) > max(a.numel(), b.numel())
    return f"shapes {list(a.shape)} and {list(b.shape)} broadcast to {result}" if larger else ""
