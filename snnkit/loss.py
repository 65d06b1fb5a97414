"""Losses on sequences [T, B, C] for classification, and measures: accuracy, accuracy over time and firing rate.

Each loss takes ``(output, targets)``: the output of the network [T, B, C] (spikes, or membrane potentials where a loss
says so), and the class of each sample, int64 [B]. It returns a scalar, computed in float32 for half-precision output
and in float64 for float64. The equations of the cross-entropies and of ``count_mse`` are those of snnTorch's
``functional.loss`` (Eshraghian et al. 2023, doi:10.1109/JPROC.2023.3308088).

All raise TypeError for a wrong dtype or kind of argument, and ValueError for a wrong or empty shape, tensors on two
devices, or targets outside 0 … C - 1. Values of tensors are checked on a CPU only, because the CPU would wait for an
accelerator in every batch; and not inside ``torch.func`` transforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from snnkit import checks
from snnkit.engine import state_dtype
from snnkit.engine.memory_gate import shows_values

__all__ = [
    "accuracy",
    "accuracy_over_time",
    "count_cross_entropy",
    "count_mse",
    "membrane_max_cross_entropy",
    "rate_cross_entropy",
    "rate_mse",
    "spike_rate_regulariser",
]


def rate_cross_entropy(spikes: Tensor, targets: Tensor) -> Tensor:
    """Mean over time of the cross-entropy of each step: the right neuron should lead at every step.

    Args:
        spikes: [T, B, C], or membrane potentials; each step is taken as logits.
        targets: int64 [B].
    """
    spikes = _check(spikes, "spikes", targets)
    return F.cross_entropy(spikes.flatten(0, 1), targets.repeat(spikes.shape[0]))


def count_cross_entropy(spikes: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of the spike counts as logits: the right neuron should fire most in total.

    Args:
        spikes: [T, B, C].
        targets: int64 [B].
    """
    spikes = _check(spikes, "spikes", targets)
    return F.cross_entropy(spikes.sum(0), targets)


def membrane_max_cross_entropy(membrane: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each output neuron's highest membrane potential over time, taken as logits.

    The gradient reaches the step of the maximum only.

    Args:
        membrane: [T, B, C], for example of the readout ``neuron.LI``.
        targets: int64 [B].
    """
    membrane = _check(membrane, "membrane", targets)
    return F.cross_entropy(membrane.max(0).values, targets)


def count_mse(spikes: Tensor, targets: Tensor, *, correct_rate: float = 1.0, incorrect_rate: float = 0.0) -> Tensor:
    """Mean squared error of the spike counts, divided by T.

    n are the counts, and n* = rate T is what they should be: mean over B and C of (n - n*)², divided by T. snnTorch
    truncates n* to an integer; here it is not truncated.

    Args:
        spikes: [T, B, C].
        targets: int64 [B].
        correct_rate: wanted rate of the right neuron, in [0, 1] spikes per step.
        incorrect_rate: wanted rate of the others, likewise.
    """
    spikes = _check(spikes, "spikes", targets)
    checks.number("correct_rate", correct_rate, at_least=0, at_most=1)
    checks.number("incorrect_rate", incorrect_rate, at_least=0, at_most=1)
    steps = spikes.shape[0]
    # F.one_hot looks at the values, which vmap forbids.
    right = (targets.unsqueeze(1) == torch.arange(spikes.shape[2], device=targets.device)).to(spikes.dtype)
    wanted = steps * (incorrect_rate + (correct_rate - incorrect_rate) * right)
    return F.mse_loss(spikes.sum(0), wanted) / steps


def rate_mse(spikes: Tensor, targets: Tensor) -> Tensor:
    """Mean squared error of the firing rates: the right neuron should fire at every step, the others never.

    With r the mean over time and r* = 1 for the target, 0 for the others: mean over B and C of (r - r*)². It is
    ``count_mse`` divided by T, so that a learning rate suits every T. Source: SpikingJelly's tutorials (Fang et al.
    2023, doi:10.1126/sciadv.adi1480).

    Args:
        spikes: [T, B, C].
        targets: int64 [B].
    """
    return count_mse(spikes, targets) / spikes.shape[0]


def spike_rate_regulariser(layers: Tensor | Sequence[Tensor], target: float = 0.1, *, weight: float = 1.0) -> Tensor:
    """Pull each neuron's firing rate towards ``target``: busy neurons fire less, and quiet ones more often.

    Its gradient passes through the surrogate, so it helps a silent neuron only if its membrane comes near the
    threshold. Most neurons that never fire stay silent.

    A neuron's rate is its mean over time and batch, in spikes per step. A layer's loss is the mean over its neurons of
    (rate - target)². The result is ``weight`` times the mean over the layers. Add it to the loss of the task.

    Args:
        layers: spikes [T, B, ...] of one layer, or a list of them, only of spiking layers. Pick them from the list that
            ``Sequential.record`` gives.
        target: wanted rate, in [0, 1].
        weight: at least 0.
    """
    if isinstance(layers, Tensor):
        layers = [layers]
    checks.instance("layers", layers, (list, tuple), "a tensor [T, B, ...] or a list of them")
    if not layers:
        raise ValueError("layers must hold at least one tensor [T, B, ...], but it is empty")
    checks.number("target", target, at_least=0, at_most=1)
    checks.number("weight", weight, at_least=0)
    per_layer = []
    for i, spikes in enumerate(layers):
        _check_spikes(spikes, f"layers[{i}]")
        rate = spikes.to(state_dtype(spikes)).mean((0, 1))
        per_layer.append((rate - target).square().mean())
    return weight * torch.stack(per_layer).mean()


@torch.no_grad()
def accuracy(spikes: Tensor, targets: Tensor) -> Tensor:
    """Share of samples whose largest summed output is that of the target: a scalar tensor in [0, 1], without gradient.

    If sums are equal, the lowest class is the answer, so a silent network scores the share of class 0. A sample with a
    sum that is NaN has no answer, and is wrong.

    Args:
        spikes: [T, B, C], or membrane potentials.
        targets: int64 [B].
    """
    spikes = _check(spikes, "spikes", targets)
    return (answers(spikes) == targets).float().mean()


@torch.no_grad()
def accuracy_over_time(spikes: Tensor, targets: Tensor) -> Tensor:
    """The ``accuracy`` after each step, of the outputs up to it: [T], from one run. Its last value is ``accuracy``.

    It shows how many steps an answer takes. ``viz.figures.accuracy_over_time`` draws it.

    Args:
        spikes: [T, B, C], or membrane potentials.
        targets: int64 [B].
    """
    spikes = _check(spikes, "spikes", targets)
    return (_largest(spikes.cumsum(0)) == targets).float().mean(1)


def answers(output: Tensor) -> Tensor:
    """The class of each sample of an output [T, B, C], int64 [B]: that of the largest sum, or -1 if a sum is NaN."""
    return _largest(output.sum(0))


def _largest(sums: Tensor) -> Tensor:
    return sums.argmax(-1).masked_fill(sums.isnan().any(-1), -1)


def _check(output: Tensor, name: str, targets: Tensor) -> Tensor:
    """Refuse what no loss can use; return the output in the precision of the arithmetic."""
    if isinstance(output, tuple):
        raise TypeError(
            f"{name} must be a floating-point tensor [T, B, C], but it is a tuple; a stateful network returns "
            "(out, state): pass out"
        )
    _check_tensor(name, output, "[T, B, C]")
    if output.ndim != 3 or output.numel() == 0:
        raise ValueError(f"{name} must be [T, B, C] and not empty, but its shape is {list(output.shape)}")
    checks.instance("targets", targets, Tensor, "an int64 tensor [B]")
    if targets.dtype != torch.int64:
        raise TypeError(f"targets must be an int64 tensor [B], but its dtype is {targets.dtype}: use targets.long()")
    batch, classes = output.shape[1:]
    if targets.shape != (batch,):
        raise ValueError(
            f"targets must have shape [B] = [{batch}], as {name} is [T, B, C] = {list(output.shape)}, but its shape is "
            f"{list(targets.shape)}"
        )
    if targets.device != output.device:
        raise ValueError(f"targets must be on the device of {name} ({output.device}), but it is on {targets.device}")
    if shows_values(targets):
        low, high = (int(bound) for bound in torch.aminmax(targets))
        if low < 0 or high >= classes:
            raise ValueError(
                f"targets must be in 0 … {classes - 1}, as {name} has {classes} classes, but its values go from {low} "
                f"to {high}"
            )
    return output.to(state_dtype(output))


def _check_tensor(name: str, value: Any, shape: str) -> None:
    checks.instance(name, value, Tensor, f"a floating-point tensor {shape}")
    if not value.is_floating_point():
        raise TypeError(f"{name} must be a floating-point tensor {shape}, but its dtype is {value.dtype}")


def _check_spikes(spikes: Tensor, name: str) -> None:
    _check_tensor(name, spikes, "[T, B, ...]")
    if spikes.ndim < 2 or spikes.numel() == 0:
        raise ValueError(f"{name} must be [T, B, ...] and not empty, but its shape is {list(spikes.shape)}")
    if shows_values(spikes):
        low, high = (bound.item() for bound in torch.aminmax(spikes.detach()))
        if not (low >= 0.0 and high <= 1.0):
            raise ValueError(
                f"{name} must hold spikes, in [0, 1], but its values go from {low:g} to {high:g}: "
                "pass the outputs of spiking layers only"
            )
