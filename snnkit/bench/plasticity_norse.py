"""STDP of Norse, with the numbers that make it the same rule as ours. Nothing of it is used by the kit itself."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

# Its defaults: a step and the time constants, in seconds.
DT, TAU = 1e-3, 50e-3


def norse_steps(convolution: bool) -> Callable[[Tensor, Tensor, Tensor], Tensor] | None:
    """Its step after step over pre [T, ...] and post [T, ...], additive with hard bounds; None where it is missing."""
    try:
        from norse.torch.functional import stdp  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    step = stdp.stdp_step_conv2d if convolution else stdp.stdp_step_linear

    def run(pre: Tensor, post: Tensor, weight: Tensor) -> Tensor:
        # Its own numbers are tensors of float32, with which float64 would not be exact.
        one, rate = torch.ones((), dtype=weight.dtype), torch.full((), 1 / TAU, dtype=weight.dtype)
        parameters = stdp.STDPParameters(one, one, rate, rate, convolutional=convolution)
        state = stdp.STDPState(torch.zeros_like(pre[0]), torch.zeros_like(post[0]))
        with torch.no_grad():
            for pre_t, post_t in zip(pre, post, strict=True):
                weight, state = step(pre_t, post_t, weight, state, parameters, DT)
        return weight

    return run
