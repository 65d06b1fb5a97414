"""From neurons that learned without labels to classes: what does each of them stand for?"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def assign_labels(counts: Tensor, labels: Tensor, classes: int) -> Tensor:
    """The class to which each neuron answers most, by its mean spike count over the samples of each class.

    Use training samples: labels that are read off the test set know its answers. Source: Diehl & Cook 2015
    (doi:10.3389/fncom.2015.00099).

    Args:
        counts: spikes of each neuron for each sample [N, n].
        labels: int64 [N], 0 to ``classes`` - 1.
        classes: how many there are.

    Returns:
        int64 [n]; -1 for a neuron that never fired. Of classes that tie, the first.

    Raises:
        TypeError, ValueError: a wrong kind, shape or dtype, or a label out of its range.
    """
    _check_counts(counts)
    _check_labels("labels", labels, len(counts), "[N], one for each sample", classes, lowest=0, like=counts)
    members = torch.nn.functional.one_hot(labels, classes).to(counts.dtype)
    means = (members.T @ counts) / members.sum(0).clamp(min=1).unsqueeze(1)
    return torch.where(counts.sum(0) > 0, means.argmax(0), -1)


def vote(counts: Tensor, assigned: Tensor, classes: int) -> Tensor:
    """The class whose neurons fired most for each sample, on average over the neurons of a class (Diehl & Cook 2015).

    Args:
        counts: spikes of each neuron for each sample [N, n].
        assigned: class of each neuron, int64 [n], -1 for one that has no vote (``assign_labels``).
        classes: how many there are.

    Returns:
        int64 [N]; -1 for a sample for which no neuron with a vote fired. Of classes that tie, the first.

    Raises:
        TypeError, ValueError: a wrong kind, shape or dtype, or a class out of its range.
    """
    _check_counts(counts)
    _check_labels("assigned", assigned, counts.shape[1], "[n], one for each neuron", classes, lowest=-1, like=counts)
    # Class 0 of the table is for neurons without a vote; a class that no neuron stands for gets nothing.
    members = torch.nn.functional.one_hot(assigned + 1, classes + 1)[:, 1:].to(counts.dtype)
    means = (counts @ members) / members.sum(0).clamp(min=1)
    most, which = means.max(dim=1)
    return torch.where(most > 0, which, -1)


def _check_counts(counts: Any) -> None:
    if not isinstance(counts, Tensor) or not counts.is_floating_point():
        what = counts.dtype if isinstance(counts, Tensor) else f"a {type(counts).__name__}"
        raise TypeError(f"counts must be a floating-point tensor [N, n], not {what}")
    if counts.dim() != 2 or 0 in counts.shape:
        raise ValueError(f"counts must be [N, n] with a sample and a neuron, but its shape is {list(counts.shape)}")


def _check_labels(name: str, value: Any, count: int, shape: str, classes: Any, *, lowest: int, like: Tensor) -> None:
    if isinstance(classes, bool) or not isinstance(classes, int) or classes < 1:
        raise ValueError(f"classes must be a whole number of at least 1, not {classes!r}")
    if not isinstance(value, Tensor) or value.dtype != torch.int64:
        what = value.dtype if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise TypeError(f"{name} must be an int64 tensor {shape}, not {what}")
    if value.shape != (count,):
        raise ValueError(f"{name} must be {shape} of counts {list(like.shape)}, but its shape is {list(value.shape)}")
    if value.device != like.device:
        raise ValueError(f"{name} is on {value.device} and counts on {like.device}; they must be on one device")
    low, high = int(value.min()), int(value.max())
    if low < lowest or high >= classes:
        raise ValueError(f"{name} must lie in {lowest} .. {classes - 1}, but they go from {low} to {high}")
