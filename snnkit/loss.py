"""Losses on sequences [T, B, C], measures of accuracy (also over time), and regularisers of activity.

Each loss takes ``(output, targets)``: the output of the network [T, B, C] (spikes, or membrane potentials where a loss
says so), and the class of each sample, int64 [B]. It returns a scalar, computed in float32 for half-precision output
and in float64 for float64. Where no other source is named, the equation is that of snnTorch's ``functional``
(Eshraghian et al. 2023, doi:10.1109/JPROC.2023.3308088). Keywords that several have:

- ``population_size``: P output neurons for each class; class c has neurons c P … (c + 1) P - 1. Their outputs are added
  up first (``pooled``). It is snnTorch's ``population_code=True``, whose ``num_classes`` is the number of neurons / P.
- ``weight``: a factor for each class, [C], at least 0, such as ``class_weights``. A mean over samples is Σ w l / Σ w,
  as in PyTorch; most losses of snnTorch divide by B instead.
- ``reduction``: "mean" or "sum" over the samples, or "none" for the loss of each, [B]. That of a sample is a mean over
  its steps and neurons.
- ``ignore_index``: a label, such as -100, of samples that do not count. None: all count.

If no sample counts, or all weights are 0, a mean is 0 and its gradient is, too; PyTorch's is NaN, which ends a run.

All raise TypeError for a wrong dtype or kind of argument, and ValueError for a wrong or empty shape, tensors on two
devices, numbers out of bounds, or targets outside 0 … C - 1. Values of tensors are checked on a CPU only, because the
CPU would wait for an accelerator in every batch; and not inside ``torch.func`` transforms.
"""

from __future__ import annotations

from collections.abc import Sequence, ValuesView
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from snnkit import checks, lazy
from snnkit.engine import state_dtype
from snnkit.engine.memory_gate import shows_values

__all__ = [
    "accuracy",
    "accuracy_over_time",
    "class_weights",
    "count_cross_entropy",
    "count_mse",
    "first_spike_accuracy",
    "first_spike_cross_entropy",
    "first_spike_mse",
    "first_spike_times",
    "membrane_max_cross_entropy",
    "membrane_mse",
    "pooled",
    "rate_cross_entropy",
    "rate_mse",
    "spike_count_regulariser",
    "spike_rate_regulariser",
    "tet_cross_entropy",
]

Reduction = Literal["mean", "sum", "none"]

# snnTorch's arguments.
_explained = lazy.explains(
    population_code="population_size neurons for each class, such as population_size=10",
    num_classes="the number of classes is that of the output's neurons / population_size",
)


@_explained
def rate_cross_entropy(
    spikes: Tensor, targets: Tensor, *, population_size: int = 1, weight: Tensor | None = None,
    reduction: Reduction = "mean", ignore_index: int | None = None,
) -> Tensor:  # fmt: skip
    """Mean over time of the cross-entropy of each step: the right neuron should lead at every step.

    Args:
        spikes: [T, B, C], or membrane potentials; each step is taken as logits.
        targets: int64 [B]; for the keywords, see the top of ``snnkit.loss``.
    """
    spikes = _check(spikes, "spikes", targets, population_size, weight, ignore_index)
    return _cross_entropy(spikes, targets, weight, reduction, ignore_index)


@_explained
def count_cross_entropy(
    spikes: Tensor, targets: Tensor, *, population_size: int = 1, weight: Tensor | None = None,
    reduction: Reduction = "mean", ignore_index: int | None = None,
) -> Tensor:  # fmt: skip
    """Cross-entropy of the spike counts as logits: the right neuron should fire most in total.

    Args:
        spikes: [T, B, C].
        targets: int64 [B]; for the keywords, see the top of ``snnkit.loss``.
    """
    spikes = _check(spikes, "spikes", targets, population_size, weight, ignore_index)
    return _cross_entropy(spikes.sum(0), targets, weight, reduction, ignore_index)


@_explained
def membrane_max_cross_entropy(
    membrane: Tensor, targets: Tensor, *, population_size: int = 1, weight: Tensor | None = None,
    reduction: Reduction = "mean", ignore_index: int | None = None,
) -> Tensor:  # fmt: skip
    """Cross-entropy of each output neuron's highest membrane potential over time, taken as logits.

    The gradient reaches the step of the maximum only.

    Args:
        membrane: [T, B, C], for example of the readout ``neuron.LI``.
        targets: int64 [B]; for the keywords, see the top of ``snnkit.loss``.
    """
    membrane = _check(membrane, "membrane", targets, population_size, weight, ignore_index)
    return _cross_entropy(membrane.max(0).values, targets, weight, reduction, ignore_index)


@_explained
def tet_cross_entropy(
    output: Tensor, targets: Tensor, *, lam: float = 0.001, phi: float = 1.0, population_size: int = 1,
    weight: Tensor | None = None, reduction: Reduction = "mean", ignore_index: int | None = None,
) -> Tensor:  # fmt: skip
    """Temporal efficient training (TET): ``rate_cross_entropy``, and a pull of every output towards one value.

    (1 - λ) ``rate_cross_entropy`` + λ · mean over T, B and C of (output - φ)². Source: Deng et al. 2022,
    arXiv:2202.11946. The second term knows no classes: ``weight`` and ``ignore_index`` do not change it.

    Args:
        output: [T, B, C], the membrane potentials of a readout that does not fire, or its input.
        targets: int64 [B]; for the other keywords, see the top of ``snnkit.loss``.
        lam: λ, in [0, 1].
        phi: φ, for example the threshold of the network's neurons.
    """
    output = _check(output, "output", targets, population_size, weight, ignore_index)
    checks.number("lam", lam, at_least=0, at_most=1)
    checks.number("phi", phi)
    cross_entropy = _cross_entropy(output, targets, weight, reduction, ignore_index)
    return (1 - lam) * cross_entropy + lam * _mean_square(output, output.new_full((), phi), targets, None, reduction)


def first_spike_cross_entropy(
    spikes: Tensor, targets: Tensor, *, inverse: Literal["negate", "reciprocal"] = "negate",
    weight: Tensor | None = None, reduction: Reduction = "mean", ignore_index: int | None = None,
) -> Tensor:  # fmt: skip
    """Cross-entropy of the first spike times, inverted to logits: the right neuron should fire first.

    Logits are -t or 1 / (t + 1), with t and its gradient as ``first_spike_times`` says.

    Args:
        spikes: [T, B, C], in [0, 1].
        targets: int64 [B]; for the other keywords, see the top of ``snnkit.loss``.
        inverse: "negate" or "reciprocal".
    """
    spikes = _check(spikes, "spikes", targets, 1, weight, ignore_index)
    checks.choice("inverse", inverse, ("negate", "reciprocal"))
    times = first_spike_times(spikes)
    return _cross_entropy(-times if inverse == "negate" else 1 / (times + 1), targets, weight, reduction, ignore_index)


@_explained
def count_mse(
    spikes: Tensor, targets: Tensor, *, correct_rate: float = 1.0, incorrect_rate: float = 0.0,
    population_size: int = 1, weight: Tensor | None = None, reduction: Reduction = "mean",
) -> Tensor:  # fmt: skip
    """Mean squared error of the spike counts, divided by T.

    n are the counts, and n* = rate T P is what they should be: mean over B and C of (n - n*)², divided by T. snnTorch
    truncates n* to an integer; here it is not truncated.

    Args:
        spikes: [T, B, C].
        targets: int64 [B]; for the other keywords, see the top of ``snnkit.loss``.
        correct_rate: wanted rate of the right neuron, in [0, 1] spikes per step.
        incorrect_rate: wanted rate of the others, likewise.
    """
    spikes = _check(spikes, "spikes", targets, population_size, weight)
    checks.number("correct_rate", correct_rate, at_least=0, at_most=1)
    checks.number("incorrect_rate", incorrect_rate, at_least=0, at_most=1)
    steps = spikes.shape[0]
    wanted = steps * population_size * _by_class(targets, spikes, correct_rate, incorrect_rate)
    return _mean_square(spikes.sum(0, keepdim=True), wanted, targets, weight, reduction) / steps


@_explained
def rate_mse(
    spikes: Tensor, targets: Tensor, *, population_size: int = 1, weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:  # fmt: skip
    """Mean squared error of the firing rates: the right neuron should fire at every step, the others never.

    With r the mean over time and population, and r* = 1 for the target, 0 for the others: mean over B and C of
    (r - r*)². It is ``count_mse`` divided by T P², so that a learning rate suits every T. Source: SpikingJelly's
    tutorials (Fang et al. 2023, doi:10.1126/sciadv.adi1480).

    Args:
        spikes: [T, B, C].
        targets: int64 [B]; for the keywords, see the top of ``snnkit.loss``.
    """
    by_counts = count_mse(spikes, targets, population_size=population_size, weight=weight, reduction=reduction)
    return by_counts / (spikes.shape[0] * population_size**2)


def membrane_mse(
    membrane: Tensor, targets: Tensor, *, on_target: float = 1.0, off_target: float = 0.0,
    weight: Tensor | None = None, reduction: Reduction = "mean",
) -> Tensor:  # fmt: skip
    """Mean squared error of the membrane potentials at every step; for classes, or for regression.

    Args:
        membrane: [T, B, C], or [T, B, ...] for regression, for example of the readout ``neuron.LI``.
        targets: classes, int64 [B]; or the wanted potentials, floating point, [B, ...] for all steps or [T, B, ...].
        on_target: wanted potential of the right neuron, where targets are classes.
        off_target: wanted potential of the others, likewise.
        weight, reduction: see the top of ``snnkit.loss``; a weight needs classes.
    """
    membrane, wanted = _wanted(membrane, "membrane", targets, on_target, off_target, weight, at_each_step=True)
    return _mean_square(membrane, wanted, targets, weight, reduction)


def first_spike_mse(
    spikes: Tensor, targets: Tensor, *, on_target: float = 0.0, off_target: float = -1.0, tolerance: float = 0.0,
    weight: Tensor | None = None, reduction: Reduction = "mean",
) -> Tensor:  # fmt: skip
    """Mean squared error of the first spike times, in shares of T: the right neuron should fire first, others last.

    Mean over B and C of ((t - t*) / T)², with t and its gradient as ``first_spike_times`` says, and t* the wanted time.
    Times are in steps from 0; those below 0 count from the end, so -1 is the last step.

    Args:
        spikes: [T, B, C] in [0, 1], or [T, B, ...] where targets are times.
        targets: classes, int64 [B]; or the wanted times, floating point [B, ...].
        on_target: wanted time of the right neuron, from -T to T - 1, where targets are classes.
        off_target: wanted time of the others, likewise.
        tolerance: an error below so many steps counts as 0.
        weight, reduction: see the top of ``snnkit.loss``; a weight needs classes.
    """
    spikes, wanted = _wanted(spikes, "spikes", targets, on_target, off_target, weight)
    steps = spikes.shape[0]
    checks.number("on_target", on_target, at_least=-steps, at_most=steps - 1)
    checks.number("off_target", off_target, at_least=-steps, at_most=steps - 1)
    _check_range("targets", wanted, -steps, steps - 1, "times, from -T to T - 1")
    checks.number("tolerance", tolerance, at_least=0)
    times, wanted = first_spike_times(spikes), torch.where(wanted < 0, wanted + steps, wanted)
    wanted = torch.where((times - wanted).abs() < tolerance, times.detach(), wanted)
    return _mean_square(times[None] / steps, wanted / steps, targets, weight, reduction)


def spike_rate_regulariser(
    layers: Tensor | Sequence[Tensor] | ValuesView[Tensor], target: float = 0.1, *, weight: float = 1.0
) -> Tensor:
    """Pull each neuron's firing rate towards ``target``: busy neurons fire less, and quiet ones more often.

    Its gradient passes through the surrogate, so it helps a silent neuron only if its membrane comes near the
    threshold. Most neurons that never fire stay silent.

    A neuron's rate is its mean over time and batch, in spikes per step. A layer's loss is the mean over its neurons of
    (rate - target)². The result is ``weight`` times the mean over the layers. Add it to the loss of the task.

    Args:
        layers: spikes [T, B, ...] of one layer, or a list of them, only of spiking layers: ``rec.spikes.values()`` of
            ``nn.recording``, or picked from the list that ``Sequential.record`` gives.
        target: wanted rate, in [0, 1].
        weight: at least 0.
    """
    checks.number("target", target, at_least=0, at_most=1)
    per_layer = [(spikes.mean((0, 1)) - target).square().mean() for spikes in _check_layers(layers, weight)]
    return weight * torch.stack(per_layer).mean()


def spike_count_regulariser(layers: Tensor | Sequence[Tensor] | ValuesView[Tensor], *, weight: float = 1e-5) -> Tensor:
    """``weight`` for each spike of all neurons, steps and samples (snnTorch's ``l1_rate_sparsity``): all fire less.

    It grows with B, T and the network. Add it to the loss of the task.

    Args:
        layers: spikes [T, B, ...] of one layer, or a list of them, only of spiking layers.
        weight: at least 0.
    """
    return weight * torch.stack([spikes.sum() for spikes in _check_layers(layers, weight)]).sum()


@torch.no_grad()
@_explained
def accuracy(spikes: Tensor, targets: Tensor, *, population_size: int = 1, ignore_index: int | None = None) -> Tensor:
    """Share of samples whose largest summed output is that of the target: a scalar tensor in [0, 1], without gradient.

    If sums are equal, the lowest class is the answer, so a silent network scores the share of class 0. A sample with a
    sum that is NaN has no answer, and is wrong.

    Args:
        spikes: [T, B, C], or membrane potentials.
        targets: int64 [B]; for the keywords, see the top of ``snnkit.loss``.
    """
    output = _check(spikes, "spikes", targets, population_size, ignore_index=ignore_index)
    return _share(answers(output) == targets, targets, ignore_index)


@torch.no_grad()
def first_spike_accuracy(spikes: Tensor, targets: Tensor, *, ignore_index: int | None = None) -> Tensor:
    """Share of samples in which the neuron of the target fires first: a scalar tensor in [0, 1], without gradient.

    If times are equal, the lowest class is the answer, so a silent network scores the share of class 0.

    Args:
        spikes: [T, B, C], in [0, 1].
        targets: int64 [B]; for the keyword, see the top of ``snnkit.loss``.
    """
    spikes = _check(spikes, "spikes", targets, ignore_index=ignore_index)
    return _share(first_spike_times(spikes).argmin(1) == targets, targets, ignore_index)


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


def first_spike_times(spikes: Tensor) -> Tensor:
    """The step of each neuron's first spike, from 0; the last, T - 1, if it never fires. Floating point [B, ...].

    The gradient is snnTorch's convention: -1 at that step, and 0 at all others, so more drive there means an earlier
    spike. For a neuron that never fires it is at the last step, so that training can make it fire.

    Args:
        spikes: [T, B, ...], in [0, 1].
    """
    _check_spikes("spikes", spikes)
    spikes = spikes.to(state_dtype(spikes))
    fired = spikes.detach() > 0
    step = torch.where(fired.any(0), fired.to(spikes.dtype).argmax(0), spikes.shape[0] - 1)
    spike = spikes.gather(0, step[None])[0]
    return step.to(spikes.dtype) - (spike - spike.detach())  # minus 0, for its gradient


def pooled(output: Tensor, population_size: int) -> Tensor:
    """Outputs [..., C P] added up over populations, [..., C]: class c has neurons c P … (c + 1) P - 1.

    For ``train.fit``, which reports the accuracy of the network's own output, let the network end with
    ``torch.nn.AvgPool1d(P)``: it takes the mean over the same neurons.

    Args:
        output: [..., C P].
        population_size: P, at least 1.
    """
    _check_tensor("output", output, "[..., C P]")
    checks.integer("population_size", population_size, at_least=1)
    neurons = output.shape[-1] if output.ndim else 1
    if neurons % population_size:
        raise ValueError(f"population_size must divide the {neurons} output neurons, but it is {population_size}")
    return output if population_size == 1 else output.unflatten(-1, (-1, population_size)).sum(-1)


def class_weights(targets: Tensor, classes: int | None = None) -> Tensor:
    """``weight`` with which each class counts as much as any other, however rare: float32 [C], n / (C n_c).

    n_c of the n samples are of class c. A class without samples has the weight 0, and is not counted in C.

    Args:
        targets: class labels of all training samples, int64 of any shape.
        classes: C; None: the largest label + 1.

    Raises:
        TypeError, ValueError: no labels, none at all, or one outside 0 … C - 1.
    """
    checks.instance("targets", targets, Tensor, "an int64 tensor")
    if targets.dtype != torch.int64 or not targets.numel():
        raise ValueError(f"targets must be int64 and not empty, but they are {targets.dtype} {list(targets.shape)}")
    low, high = (int(bound) for bound in torch.aminmax(targets))
    count = high + 1 if classes is None else checks.integer("classes", classes, at_least=1)
    if low < 0 or high >= count:
        raise ValueError(f"targets must be in 0 … {count - 1}, but their values go from {low} to {high}")
    samples = torch.bincount(targets.flatten(), minlength=count)
    present = int((samples > 0).sum())
    return torch.where(samples > 0, targets.numel() / (present * samples.clamp(min=1)), 0.0)


def _cross_entropy(
    logits: Tensor, targets: Tensor, weight: Tensor | None, reduction: str, ignore_index: int | None
) -> Tensor:
    """Cross-entropy of logits [B, C]; of [S, B, C], that of a sample is the mean over its S rows."""
    labels = targets if logits.ndim == 2 else targets.repeat(logits.shape[0])
    logits = logits.flatten(0, -2)
    if weight is None and ignore_index is None and reduction == "mean":
        return F.cross_entropy(logits, labels)
    ignored = -100 if ignore_index is None else ignore_index  # no class is -100
    losses = F.cross_entropy(logits, labels, ignore_index=ignored, reduction="none")
    return _reduced(losses.unflatten(0, (-1, targets.shape[0])), targets, weight, reduction, ignore_index)


def _mean_square(output: Tensor, wanted: Tensor, targets: Tensor, weight: Tensor | None, reduction: str) -> Tensor:
    """Mean squared error of an output [S, B, ...]; that of a sample is the mean over all but B."""
    if weight is None and reduction == "mean":
        return F.mse_loss(output, wanted.expand_as(output))
    return _reduced((output - wanted).square(), targets, weight, reduction)


def _reduced(
    losses: Tensor, targets: Tensor, weight: Tensor | None, reduction: str, ignore_index: int | None = None
) -> Tensor:
    """Losses [S, B, ...], the mean of which is that of a sample, weighted and reduced."""
    checks.choice("reduction", reduction, ("mean", "sum", "none"))
    losses = losses.mean([0, *range(2, losses.ndim)])
    shares = torch.ones_like(losses)
    if ignore_index is not None:
        ignored = targets == ignore_index
        shares, targets = shares.masked_fill(ignored, 0), targets.masked_fill(ignored, 0)
    if weight is not None:
        shares = shares * weight.to(losses.dtype)[targets]
    losses = losses * shares
    if reduction == "none":
        return losses
    total = shares.sum()
    return losses.sum() if reduction == "sum" else losses.sum() / torch.where(total > 0, total, 1)


def _share(right: Tensor, targets: Tensor, ignore_index: int | None) -> Tensor:
    """The share of the samples that count with ``right`` [B]; 0 if none counts."""
    return _reduced(right.float().unsqueeze(0), targets, None, "mean", ignore_index)


def _by_class(targets: Tensor, output: Tensor, right: float, wrong: float) -> Tensor:
    """[B, C]: ``right`` at the target, ``wrong`` elsewhere. (F.one_hot looks at the values, which vmap forbids.)"""
    hit = (targets.unsqueeze(1) == torch.arange(output.shape[2], device=targets.device)).to(output.dtype)
    return wrong + (right - wrong) * hit


def _wanted(
    output: Tensor, name: str, targets: Tensor, on: float, off: float, weight: Tensor | None, at_each_step: bool = False
) -> tuple[Tensor, Tensor]:
    """The output in the precision of the arithmetic, and what it should be: by class, or targets that are values."""
    checks.number("on_target", on)
    checks.number("off_target", off)
    if not (isinstance(targets, Tensor) and targets.is_floating_point()):
        output = _check(output, name, targets, 1, weight)
        return output, _by_class(targets, output, on, off)
    _check_sequence(name, output)
    if weight is not None:
        raise ValueError("weight must be None where targets are values, as it has a number for each class")
    shapes = [list(output.shape[1:])] + [list(output.shape)] * at_each_step
    if list(targets.shape) not in shapes:
        raise ValueError(
            f"targets must be classes, int64 [B], or values of shape {' or '.join(map(str, shapes))}, as {name} is "
            f"{list(output.shape)}, but they are {targets.dtype} of shape {list(targets.shape)}"
        )
    _check_device("targets", targets, output, name)
    return output.to(state_dtype(output)), targets.to(state_dtype(output))


def _check(
    output: Tensor, name: str, targets: Tensor, population_size: int = 1, weight: Tensor | None = None,
    ignore_index: int | None = None,
) -> Tensor:  # fmt: skip
    """Refuse what no loss can use; return the output, pooled, in the precision of the arithmetic."""
    _check_tensor(name, output, "[T, B, C]")
    if output.ndim != 3 or output.numel() == 0:
        raise ValueError(f"{name} must be [T, B, C] and not empty, but its shape is {list(output.shape)}")
    checks.instance("targets", targets, Tensor, "an int64 tensor [B]")
    if targets.dtype != torch.int64:
        advice = "use targets.long()" if targets.ndim < 2 else "targets.argmax(1) makes labels of one-hot targets"
        raise TypeError(f"targets must be an int64 tensor [B], but its dtype is {targets.dtype}: {advice}")
    if targets.shape != output.shape[1:2]:
        raise ValueError(
            f"targets must have shape [B] = [{output.shape[1]}], as {name} is [T, B, C] = {list(output.shape)}, but "
            f"its shape is {list(targets.shape)}"
        )
    _check_device("targets", targets, output, name)
    output = pooled(output.to(state_dtype(output)), population_size)
    classes = output.shape[2]
    if weight is not None:
        _check_weight(weight, classes, output, name)
    if ignore_index is not None:
        checks.integer("ignore_index", ignore_index)
    if shows_values(targets):
        counted = targets if ignore_index is None else targets[targets != ignore_index]
        low, high = (int(bound) for bound in torch.aminmax(counted)) if len(counted) else (0, 0)
        if low < 0 or high >= classes:
            but = "" if ignore_index is None else f" or {ignore_index}"
            raise ValueError(
                f"targets must be in 0 … {classes - 1}{but}, as {name} has {classes} classes, but its values go from "
                f"{low} to {high}"
            )
    return output


def _check_weight(weight: Tensor, classes: int, output: Tensor, of: str) -> None:
    _check_tensor("weight", weight, "[C]")
    if weight.shape != (classes,):
        raise ValueError(f"weight must have shape [C] = [{classes}], but its shape is {list(weight.shape)}")
    _check_device("weight", weight, output, of)
    _check_range("weight", weight, 0, torch.finfo(weight.dtype).max, "finite numbers of at least 0")


def _check_device(name: str, value: Tensor, output: Tensor, of: str) -> None:
    if value.device != output.device:
        raise ValueError(f"{name} must be on the device of {of} ({output.device}), but it is on {value.device}")


def _check_tensor(name: str, value: Any, shape: str) -> None:
    if isinstance(value, tuple) and value and isinstance(value[0], Tensor):
        raise TypeError(
            f"{name} must be a floating-point tensor {shape}, but it is a tuple; a stateful network returns "
            "(out, state): pass out"
        )
    value = checks.instance(name, value, Tensor, f"a floating-point tensor {shape}")
    if not value.is_floating_point():
        hint = "" if value.is_complex() else f": use {name}.float()"
        raise TypeError(f"{name} must be a floating-point tensor {shape}, but its dtype is {value.dtype}{hint}")


def _check_range(name: str, value: Tensor, least: float, most: float, what: str, hint: str = "") -> None:
    if shows_values(value) and value.numel():
        low, high = (bound.item() for bound in torch.aminmax(value.detach()))
        if not (low >= least and high <= most):  # NaN is neither
            raise ValueError(f"{name} must hold {what}, but its values go from {low:g} to {high:g}{hint}")


def _check_sequence(name: str, value: Tensor) -> None:
    _check_tensor(name, value, "[T, B, ...]")
    if value.ndim < 2 or value.numel() == 0:
        raise ValueError(f"{name} must be [T, B, ...] and not empty, but its shape is {list(value.shape)}")


def _check_spikes(name: str, spikes: Tensor) -> None:
    _check_sequence(name, spikes)
    _check_range(name, spikes, 0, 1, "spikes, in [0, 1]", ": pass the outputs of spiking layers only")


def _check_layers(layers: Tensor | Sequence[Tensor] | ValuesView[Tensor], weight: float) -> list[Tensor]:
    """Spikes of layers in the precision of the arithmetic."""
    if isinstance(layers, Tensor):
        layers = [layers]
    checks.instance("layers", layers, (list, tuple, ValuesView), "a tensor [T, B, ...] or a list of them")
    if not layers:
        raise ValueError("layers must hold at least one tensor [T, B, ...], but it is empty")
    checks.number("weight", weight, at_least=0)
    for i, spikes in enumerate(layers):
        _check_spikes(f"layers[{i}]", spikes)
    return [spikes.to(state_dtype(spikes)) for spikes in layers]


_BOUNDED = "torch.relu(rates - upper).square().mean() of rates = spikes.mean(0)"
__getattr__ = lazy.instead(
    __name__,
    {
        # snnTorch
        "ce_rate_loss": "loss.rate_cross_entropy",
        "ce_count_loss": "loss.count_cross_entropy",
        "ce_max_membrane_loss": "loss.membrane_max_cross_entropy",
        "ce_temporal_loss": "loss.first_spike_cross_entropy",
        "mse_count_loss": "loss.count_mse; snnTorch rounds wanted counts down, as correct_rate=int(rate * T) / T does",
        "mse_membrane_loss": "loss.membrane_mse",
        "mse_temporal_loss": "loss.first_spike_mse",
        "l1_rate_sparsity": "loss.spike_count_regulariser",
        "accuracy_rate": "loss.accuracy",
        "accuracy_temporal": "loss.first_spike_accuracy",
        "SpikeTime": "loss.first_spike_times",
        # SpikingJelly
        "temporal_efficient_training_cross_entropy": "loss.tet_cross_entropy(output, labels, lam=0)",
        "first_spike_index": "encode.first_spike",
        # Spyx
        "integral_accuracy": "loss.accuracy",
        "integral_crossentropy": "loss.count_cross_entropy",
        "mse_spikerate": "loss.rate_mse",
        "silence_reg": "loss.spike_rate_regulariser",
        "sparsity_reg": "loss.spike_rate_regulariser, or " + _BOUNDED,
    },
)
